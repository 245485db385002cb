//! A server: worker threads take requests from a queue, run them, and answer; latencies are printed.
//!
//! Each worker has a stream, and for each batch size that it is asked for a plan, as a CUDA graph where there
//! is a GPU. Plans are made before the first request, so that none waits for one.
//!
//! ```text
//! cargo run --release --example server [REQUESTS]
//! ```

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use convfuse::graph::presets::KernelBench85;
use convfuse::model::Captured;
use convfuse::{Device, Model, Options, Plan, Stream, Tensor, data};
use ndarray::{Array4, ArrayD};

const WORKERS: usize = 2;
const CLIENTS: u64 = 4;
/// Batches that are asked for; others would be padded, or refused.
const BATCHES: [usize; 3] = [1, 2, 4];
const IMAGE: [usize; 3] = [8, 64, 64];

/// What a client sends.
struct Request {
    images: Array4<f32>,
    sent: Instant,
    reply: Sender<convfuse::Result<Reply>>,
}

struct Reply {
    features: ArrayD<f32>,
    latency: Duration,
}

/// What a worker has for one batch size.
enum Prepared {
    Graph(Captured),
    Plan(Plan, Tensor),
}

impl Prepared {
    fn new(model: &Model, stream: &Stream, batch: usize) -> convfuse::Result<Prepared> {
        let shape = shape(batch);
        let plan = model.plan(stream, &shape, &Options::default())?;
        if stream.device().is_gpu() {
            let x = Tensor::zeros(stream, &shape, model.dtype())?;
            return plan.capture(x).map(Prepared::Graph);
        }
        let y = plan.output()?;
        Ok(Prepared::Plan(plan, y))
    }

    fn run(&mut self, images: &Array4<f32>) -> convfuse::Result<ArrayD<f32>> {
        match self {
            Prepared::Graph(graph) => {
                graph.write(images)?;
                graph.replay()?;
                graph.output().to_f32_array()
            }
            Prepared::Plan(plan, y) => {
                let x = Tensor::from_array(plan.stream(), images)?;
                plan.execute(&x, y)?;
                y.to_f32_array()
            }
        }
    }
}

fn shape(batch: usize) -> [usize; 4] {
    let [channels, height, width] = IMAGE;
    [batch, channels, height, width]
}

/// Answers requests until nobody can send any more.
fn work(
    device: &Device,
    model: &Model,
    queue: &Mutex<Receiver<Request>>,
    ready: &Sender<()>,
) -> convfuse::Result<usize> {
    let stream = device.stream()?;
    let prepare = |&batch: &usize| Prepared::new(model, &stream, batch);
    let mut prepared: Vec<Prepared> = BATCHES.iter().map(prepare).collect::<Result<_, _>>()?;
    let _ = ready.send(());
    let mut answered = 0;
    loop {
        // One worker waits at the queue, the others for their turn there.
        let request = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = request else {
            return Ok(answered);
        };
        let batch = request.images.shape()[0];
        let index = BATCHES.iter().position(|&known| known == batch);
        let prepared = &mut prepared[index.expect("clients send batches of known sizes")];
        let result = prepared.run(&request.images).map(|features| Reply {
            features,
            latency: request.sent.elapsed(),
        });
        answered += 1;
        // A client that is gone wants no answer.
        let _ = request.reply.send(result);
    }
}

/// Sends requests one after the other, and returns their latencies.
fn ask(
    queue: &Sender<Request>,
    client: u64,
    requests: u64,
) -> Result<Vec<Duration>, Box<dyn Error + Send + Sync>> {
    let (reply, replies) = channel();
    let mut latencies = Vec::new();
    for number in 0..requests {
        let seed = client * requests + number;
        let batch = BATCHES[(seed % BATCHES.len() as u64) as usize];
        let images = data::fill(seed, shape(batch));
        queue.send(Request {
            images,
            sent: Instant::now(),
            reply: reply.clone(),
        })?;
        let answer = replies.recv()??;
        if answer.features.shape()[0] != batch || answer.features.iter().any(|y| !y.is_finite()) {
            return Err("an answer is none".into());
        }
        latencies.push(answer.latency);
    }
    Ok(latencies)
}

fn main() -> Result<(), Box<dyn Error>> {
    let requests = std::env::args()
        .nth(1)
        .map_or(Ok(50), |text| text.parse())?;
    let device = Device::best();
    println!("device\n{}", device.info());
    let model = Model::init(&device.stream()?, &KernelBench85::default().chain()?, 7)?;
    let (queue, receiver) = channel();
    let receiver = Mutex::new(receiver);

    let (mut latencies, seconds) = thread::scope(|scope| {
        let (ready, prepared) = channel();
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (device, model, receiver, ready) = (&device, &model, &receiver, ready.clone());
                scope.spawn(move || work(device, model, receiver, &ready))
            })
            .collect();
        drop(ready);
        if prepared.iter().take(WORKERS).count() < WORKERS {
            drop(queue);
            let failed = workers
                .into_iter()
                .find_map(|worker| worker.join().ok()?.err());
            return Err(failed.map_or_else(|| "a worker panicked".into(), Box::<dyn Error>::from));
        }
        let start = Instant::now();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let queue = queue.clone();
                scope.spawn(move || ask(&queue, client, requests))
            })
            .collect();
        let mut latencies = Vec::new();
        for client in clients {
            let client = client.join().map_err(|_| "a client panicked")?;
            latencies.extend(client.map_err(|error| error.to_string())?);
        }
        let seconds = start.elapsed().as_secs_f64();
        // Nobody can send any more: the workers end.
        drop(queue);
        for (index, worker) in workers.into_iter().enumerate() {
            let answered = worker.join().map_err(|_| "a worker panicked")??;
            println!("worker {index}: {answered} requests");
        }
        Ok((latencies, seconds))
    })?;

    latencies.sort_unstable();
    println!(
        "{} requests, {:.0} a second",
        latencies.len(),
        latencies.len() as f64 / seconds
    );
    for percent in [50, 90, 99, 100] {
        let rank = (latencies.len() * percent).div_ceil(100).max(1);
        if let Some(latency) = latencies.get(rank - 1) {
            println!(
                "{percent:>3} % within {:.3} ms",
                latency.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}
