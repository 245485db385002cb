//! An HTTP server for a network. Images that arrive at the same time form a batch.
//!
//! ```text
//! cargo run --release --example server -- 127.0.0.1:8080 resnet50.json 3,224,224 resnet50.safetensors
//! curl --data-binary @image.f32 http://127.0.0.1:8080/infer --output scores.f32
//! ```
//!
//! `convfuse.export` in Python writes both files. Without them the server runs a network from the library.
//! With `self-test` in place of an address, the server takes a free port and sends itself valid requests,
//! invalid ones, and more than it can take. It checks the answers.
//!
//! - `POST /infer` takes one image of the given shape: its float32 values in order, little-endian. The answer
//!   has the values of the first output, and their shape in the header `X-Shape`.
//! - `GET /healthz` tells whether batches succeed.
//!
//! Threads read requests and put images into a queue. Workers, each with its own stream, make batches of
//! them. The first image of a batch waits up to `BATCH_WAIT` for others. A plan has one shape, so a worker
//! has one plan for each size in `BATCHES`, made before the first request; on a GPU it is a CUDA graph. A
//! batch of another size is padded, which changes no bit of its results.
//!
//! Memory and waiting times are bounded. If the queue is full, the answer is 503 with `Retry-After`. A client
//! has `PATIENCE` to send its request and to read the answer. Connections beyond `CONNECTIONS` wait in the
//! system's backlog. On Ctrl-C the server accepts no more requests, answers the pending ones, and ends; a
//! second Ctrl-C ends it at once.

mod http;
mod self_test;

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use convfuse::graph::{Graph, presets::KernelBench85};
use convfuse::model::Captured;
use convfuse::{Device, Model, Options, Plan, Stream, Tensor};
use ndarray::{ArrayD, Axis};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use http::{Answer, Connection, Request};

const WORKERS: usize = 2;
/// The batch sizes, in ascending order.
const BATCHES: [usize; 4] = [1, 2, 4, 8];
const LARGEST_BATCH: usize = BATCHES[BATCHES.len() - 1];
const BATCH_WAIT: Duration = Duration::from_millis(2);
/// The number of images that may wait for a worker.
const QUEUE: usize = 32;
/// The number of connections: those with images in the queue or in a batch, and some to refuse.
const CONNECTIONS: usize = QUEUE + WORKERS * LARGEST_BATCH + 16;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let device = Device::best();
    println!("device\n{}", device.info());
    let stream = device.stream()?;
    let (address, model, image) = match &arguments[..] {
        [address] => {
            let chain = KernelBench85::default().chain()?;
            (address, Model::init(&stream, &chain, 7)?, vec![8, 64, 64])
        }
        [address, network, shape, parameters] => {
            let graph: Graph = serde_json::from_str(&fs::read_to_string(network)?)?;
            let shape: Result<_, _> = shape.split(',').map(str::parse).collect();
            (address, Model::load(&stream, &graph, parameters)?, shape?)
        }
        _ => return Err("expected ADDRESS or self-test [NETWORK SHAPE PARAMETERS]".into()),
    };
    if !model.graph().inputs().is_empty() || model.graph().couples_samples() {
        return Err("the network has further inputs, or its samples depend on each other".into());
    }
    if address == "self-test" {
        return self_test::run(&device, &model, &image);
    }
    let server = Server::new(address, &image, PATIENCE)?;
    let workers = workers(&device, &model, &image)?;
    let (queue, jobs) = sync_channel(QUEUE);
    let jobs = Mutex::new(jobs);
    println!(
        "http://{} takes images of shape {image:?}",
        server.listener.local_addr()?
    );
    thread::scope(|scope| {
        server.start(scope, queue);
        for worker in workers {
            scope.spawn(|| worker.work(&server, &jobs));
        }
    });
    Ok(())
}

/// An image in the queue.
struct Job {
    image: Vec<f32>,
    reply: Sender<Result<ArrayD<f32>, String>>,
}

struct Server {
    listener: TcpListener,
    image: Vec<usize>,
    patience: Duration,
    is_healthy: AtomicBool,
    /// Set by Ctrl-C.
    stops: Arc<AtomicBool>,
}

impl Server {
    fn new(address: &str, image: &[usize], patience: Duration) -> io::Result<Server> {
        let stops = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: only a second signal finds the flag set.
            flag::register_conditional_shutdown(signal, 1, Arc::clone(&stops))?;
            flag::register(signal, Arc::clone(&stops))?;
        }
        Ok(Server {
            listener: TcpListener::bind(address)?,
            image: image.to_vec(),
            patience,
            is_healthy: AtomicBool::new(true),
            stops,
        })
    }

    /// Starts the threads that answer clients. The queue ends with the last of them.
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, queue: SyncSender<Job>) {
        for _ in 0..CONNECTIONS {
            let queue = queue.clone();
            scope.spawn(move || {
                while !self.stops.load(Ordering::Relaxed) {
                    match self.listener.accept() {
                        Ok((stream, _)) => self.serve(stream, &queue),
                        Err(error) => {
                            eprintln!("no connection: {error}");
                            thread::sleep(Duration::from_millis(100));
                        }
                    }
                }
            });
        }
        scope.spawn(|| {
            while !self.stops.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            // Wake the threads that wait for a connection.
            if let Ok(address) = self.listener.local_addr() {
                for _ in 0..CONNECTIONS {
                    let _ = TcpStream::connect_timeout(&address, Duration::from_millis(100));
                }
            }
        });
    }

    fn serve(&self, stream: TcpStream, queue: &SyncSender<Job>) {
        let mut connection = Connection::new(stream, self.patience);
        // The limit is somewhat more than an image; a larger body is refused with its size.
        let request = connection.request(2 * self.image_bytes());
        let answer = request.and_then(|request| self.answer(request, queue));
        // A client that has disconnected needs no answer.
        let _ = connection.send(&answer.unwrap_or_else(|refusal| refusal), self.patience);
    }

    fn image_bytes(&self) -> usize {
        self.image.iter().product::<usize>() * size_of::<f32>()
    }

    /// Answers a request, or returns the refusal.
    fn answer(&self, request: Request, queue: &SyncSender<Job>) -> Result<Answer, Answer> {
        match request.target.as_str() {
            "POST /infer" => self.infer(&request.body, queue),
            "GET /healthz" => match self.is_healthy.load(Ordering::Relaxed) {
                true => Ok(Answer::text(200, "ok")),
                false => Err(Answer::text(503, "the last batch failed")),
            },
            _ => Err(Answer::text(404, "there are POST /infer and GET /healthz")),
        }
    }

    fn infer(&self, body: &[u8], queue: &SyncSender<Job>) -> Result<Answer, Answer> {
        let (bytes, expected, shape) = (body.len(), self.image_bytes(), &self.image);
        if bytes != expected {
            let text =
                format!("the body has {bytes} bytes, expected {expected}: float32 of {shape:?}");
            return Err(Answer::text(400, text));
        }
        let words = body.as_chunks().0.iter();
        let image = words.map(|&word| f32::from_le_bytes(word)).collect();
        let (reply, output) = channel();
        if queue.try_send(Job { image, reply }).is_err() {
            let text = format!("overloaded: {QUEUE} images wait already, try again later");
            return Err(Answer::text(503, text).header("Retry-After: 1"));
        }
        let output = output.recv().unwrap_or(Err("the worker is gone".into()));
        let output = output.map_err(|text| Answer::text(500, text))?;
        let shape: Vec<_> = output.shape().iter().map(usize::to_string).collect();
        let body = output.iter().flat_map(|value| value.to_le_bytes());
        Ok(Answer::bytes(body.collect()).header(format!("X-Shape: {}", shape.join(","))))
    }
}

/// Makes batches of the queue's images, and runs them.
struct Worker {
    stream: Stream,
    /// A plan for each size in `BATCHES`.
    prepared: Vec<Prepared>,
}

/// A plan for one batch size, with its outputs.
enum Prepared {
    Graph(Captured),
    Plan(Plan, Vec<Tensor>),
}

/// Makes the workers, with all kernels loaded and all memory allocated.
fn workers(device: &Device, model: &Model, image: &[usize]) -> convfuse::Result<Vec<Worker>> {
    let worker = |_| {
        let stream = device.stream()?;
        let prepare = |&size: &usize| {
            let shape = [&[size], image].concat();
            let plan = model.plan(&stream, &shape, &Options::default())?;
            if device.is_gpu() {
                let x = Tensor::zeros(&stream, &shape, model.dtype())?;
                return plan.capture(x).map(Prepared::Graph);
            }
            let outputs = plan.outputs()?;
            Ok(Prepared::Plan(plan, outputs))
        };
        let prepared = BATCHES.iter().map(prepare).collect::<Result<_, _>>()?;
        Ok(Worker { stream, prepared })
    };
    (0..WORKERS).map(worker).collect()
}

impl Worker {
    /// Answers images until the queue has ended.
    fn work(mut self, server: &Server, jobs: &Mutex<Receiver<Job>>) {
        loop {
            // One worker makes a batch while others run theirs.
            let batch = next_batch(&jobs.lock().unwrap_or_else(PoisonError::into_inner));
            if batch.is_empty() {
                return;
            }
            let outputs = self.run(&batch, &server.image);
            server.is_healthy.store(outputs.is_ok(), Ordering::Relaxed);
            for (index, job) in batch.iter().enumerate() {
                let output = match &outputs {
                    Ok(outputs) => Ok(outputs.index_axis(Axis(0), index).to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                let _ = job.reply.send(output);
            }
        }
    }

    fn run(&mut self, batch: &[Job], image: &[usize]) -> convfuse::Result<ArrayD<f32>> {
        let index = BATCHES.partition_point(|&size| size < batch.len());
        let mut images = ArrayD::zeros([&[BATCHES[index]], image].concat());
        let values = batch.iter().flat_map(|job| &job.image);
        for (to, value) in images.iter_mut().zip(values) {
            *to = *value;
        }
        match &mut self.prepared[index] {
            Prepared::Graph(graph) => {
                graph.write(&images)?;
                graph.replay()?;
                graph.output().to_f32_array()
            }
            Prepared::Plan(plan, outputs) => {
                plan.execute_all(&Tensor::from_array(&self.stream, &images)?, outputs)?;
                outputs[0].to_f32_array()
            }
        }
    }
}

/// Returns the next images; an empty vector at the end of the queue.
fn next_batch(jobs: &Receiver<Job>) -> Vec<Job> {
    let mut batch: Vec<Job> = jobs.recv().into_iter().collect();
    let end = Instant::now() + BATCH_WAIT;
    while !batch.is_empty() && batch.len() < LARGEST_BATCH {
        match jobs.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}
