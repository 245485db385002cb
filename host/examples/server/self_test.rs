//! The server's self-test: valid and invalid requests, more than it can take, and Ctrl-C.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use convfuse::{Device, Model, data};
use ndarray::{ArrayD, Axis};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::raise;

use crate::{LARGEST_BATCH, QUEUE, Server, workers};

const PATIENCE: Duration = Duration::from_secs(4);
/// The number of images beyond the queue.
const REFUSED: usize = 8;
const CLIENTS: usize = 2 * LARGEST_BATCH;
const REQUESTS: usize = 5;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A request, and the model's output for its image.
struct Sample {
    request: Vec<u8>,
    output: Vec<u8>,
}

pub(crate) fn run(device: &Device, model: &Model, image: &[usize]) -> Result<(), Box<dyn Error>> {
    let sample = |seed| {
        let image = data::signed(seed, image);
        let output = model.forward_array(&image.view().insert_axis(Axis(0)))?;
        Ok(Sample {
            request: post(&bytes(&image)),
            output: bytes(&output),
        })
    };
    let samples: convfuse::Result<Vec<Sample>> =
        (0..(QUEUE + REFUSED) as u64).map(sample).collect();
    let samples = samples?;
    for is_interrupted in [true, false] {
        let server = Server::new("127.0.0.1:0", image, PATIENCE)?;
        let address = server.listener.local_addr()?;
        let mut workers = workers(device, model, image)?.into_iter();
        let (queue, jobs) = sync_channel(QUEUE);
        let jobs = Mutex::new(jobs);
        let tested = thread::scope(|scope| {
            server.start(scope, queue);
            let mut work = || {
                for worker in workers.by_ref() {
                    let (server, jobs) = (&server, &jobs);
                    scope.spawn(move || worker.work(server, jobs));
                }
            };
            let tested = overload(scope, address, &samples).and_then(|waiting| {
                if is_interrupted {
                    raise(SIGINT)?;
                }
                work();
                for _ in 0..QUEUE {
                    let (sample, answer) = waiting.recv()?;
                    answer?.has_output(sample)?;
                }
                println!("the {QUEUE} others are answered");
                if is_interrupted {
                    Ok(())
                } else {
                    serving(address, image, &samples)
                }
            });
            // This also runs after a failure, so that all threads end.
            server.stops.store(true, Ordering::Relaxed);
            work();
            tested
        });
        tested.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Fills the queue while no worker takes images. Returns the answers to the waiting requests.
fn overload<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    address: SocketAddr,
    samples: &'a [Sample],
) -> Outcome<Receiver<(&'a Sample, Outcome<Reply>)>> {
    let (sender, answers) = channel();
    for sample in samples {
        let sender = sender.clone();
        scope.spawn(move || sender.send((sample, ask(address, &sample.request))));
    }
    for _ in 0..REFUSED {
        let answer = answers.recv_timeout(10 * PATIENCE)?.1?;
        answer.is(503, "images wait already")?;
        if !answer.head.contains("\r\nRetry-After: 1\r\n") {
            return Err(format!("no Retry-After: {}", answer.head).into());
        }
    }
    ask(address, b"GET /healthz HTTP/1.1\r\n\r\n")?.is(200, "ok")?;
    println!("{REFUSED} of {} images are refused", samples.len());
    Ok(answers)
}

/// Sends many valid requests, and invalid ones at the same time.
fn serving(address: SocketAddr, image: &[usize], samples: &[Sample]) -> Outcome {
    thread::scope(|scope| {
        let wrong = scope.spawn(|| wrong(address, image));
        let start = Instant::now();
        let client = |client: usize| {
            scope.spawn(move || -> Outcome<Vec<Duration>> {
                let latency = |request: usize| {
                    let sample = &samples[(client + request) % samples.len()];
                    let start = Instant::now();
                    let answer = ask(address, &sample.request)?;
                    let latency = start.elapsed();
                    answer.has_output(sample)?;
                    Ok(latency)
                };
                (0..REQUESTS).map(latency).collect()
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let mut latencies = Vec::new();
        for client in clients {
            latencies.extend(client.join().map_err(|_| "a client panicked")??);
        }
        let (count, seconds) = (latencies.len(), start.elapsed().as_secs_f64());
        println!(
            "{count} images of {CLIENTS} clients, {:.0} a second",
            count as f64 / seconds
        );
        latencies.sort_unstable();
        for percent in [50, 90, 99, 100] {
            let latency = latencies[(count * percent).div_ceil(100) - 1];
            println!(
                "{percent:>3} % within {:.3} ms",
                latency.as_secs_f64() * 1e3
            );
        }
        wrong.join().map_err(|_| "a client panicked")?
    })
}

/// Checks that bodies that are not images are refused with the reason.
fn wrong(address: SocketAddr, image: &[usize]) -> Outcome {
    let bytes = 4 * image.iter().product::<usize>();
    let post_of =
        |length: &str| format!("POST /infer HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
    let requests = [
        (
            post(&vec![0; bytes - 1]),
            400,
            &*format!("expected {bytes}: float32 of {image:?}"),
        ),
        (post(b""), 400, "the body has 0 bytes"),
        (post(&vec![0; 3 * bytes]), 413, "expected at most"),
        (post_of("99999999999").into(), 413, "expected at most"),
        (post_of("-1").into(), 400, "Content-Length is not a number"),
        (
            [&b"GET /"[..], &vec![b'x'; 1 << 20]].concat(),
            400,
            "are too long",
        ),
        (b"\x16\x03\x01\r\n\r\n".to_vec(), 400, "this is no request"),
        (b"GET /infer HTTP/1.1\r\n\r\n".to_vec(), 404, "POST /infer"),
    ];
    for (request, status, text) in &requests {
        ask(address, request)?.is(*status, text)?;
    }
    // A client that sends a byte now and then has no more time than one that sends nothing.
    let start = Instant::now();
    let mut slow = TcpStream::connect(address)?;
    while start.elapsed() < PATIENCE - Duration::from_millis(500) {
        slow.write_all(b"G")?;
        thread::sleep(Duration::from_millis(100));
    }
    reply(slow)?.is(408, "did not arrive")?;
    if start.elapsed() > PATIENCE * 7 / 4 {
        return Err("a slow client had too much time".into());
    }
    println!("{} wrong requests are refused", requests.len() + 1);
    Ok(())
}

fn bytes(array: &ArrayD<f32>) -> Vec<u8> {
    array.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /infer HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

struct Reply {
    head: String,
    body: Vec<u8>,
}

fn ask(address: SocketAddr, request: &[u8]) -> Outcome<Reply> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request)?;
    reply(stream)
}

fn reply(mut stream: TcpStream) -> Outcome<Reply> {
    stream.set_read_timeout(Some(10 * PATIENCE))?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = bytes.split_off(end.ok_or("an answer without an end")? + 4);
    Ok(Reply {
        head: String::from_utf8(bytes)?,
        body,
    })
}

impl Reply {
    fn is(&self, status: u16, text: &str) -> Outcome {
        let (head, body) = (&self.head, String::from_utf8_lossy(&self.body));
        if !head.starts_with(&format!("HTTP/1.1 {status} ")) || !body.contains(text) {
            return Err(format!("expected {status}, {text}: {head}{body}").into());
        }
        Ok(())
    }

    /// Checks that the body has the same bits as the model's output.
    fn has_output(&self, sample: &Sample) -> Outcome {
        if self.body != sample.output {
            self.is(200, "")?;
            return Err("an output is not what the model gives".into());
        }
        Ok(())
    }
}
