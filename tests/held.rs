//! Streams of a GPU that a test blocks, which reveals missing ordering every time.
//!
//! A test whose gate timed out (see `gate`) is inconclusive and is repeated.

#[path = "held/gate.rs"]
mod gate;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use convfuse::spec::ClampSpec;
use convfuse::{DType, Device, Model, Options, PinnedArray, Stream, Tensor, data, ops};
use cust::sys;
use libtest_mimic::{Failed, Trial};
use ndarray::{Array1, ArrayD, IxDyn};

use crate::backend::{Backend, Outcome};
use crate::chains::preset_79;
use gate::{Current, Gate, LONG_ENOUGH, check};

/// Elements of a tensor that is copied quickly.
const LEN: usize = 1 << 16;
const ATTEMPTS: usize = 5;

type Test = fn(&Held) -> Outcome;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 7] = [
        ("reads_wait_for_a_writer_that_is_held_up", held_writer),
        (
            "keep_memory_from_being_overwritten_while_a_reader_is_held_up",
            held_reader,
        ),
        ("keep_their_order_in_a_chain_that_crosses_them", crossing),
        (
            "keep_memory_for_all_threads_that_read_on_one",
            reading_threads,
        ),
        (
            "write_to_a_graphs_input_after_replays_that_are_held_up",
            held_replay,
        ),
        ("may_be_captured_while_others_launch", capture_among_others),
        ("take_memory_back_after_a_capture", dropped_during_capture),
    ];
    let trial = |(name, test): (&str, Test)| {
        Backend::Gpu.trial_alone("streams", name, move |backend| attempts(backend, test))
    };
    tests.map(trial).into()
}

fn attempts(backend: Backend, test: Test) -> Outcome {
    for _ in 0..ATTEMPTS {
        let held = Held::new(backend)?;
        // Load the kernel before blocking any stream: loading may wait for the device.
        let stream = held.device.stream()?;
        same(&copied(&held.filled(&stream, 1.0)?)?, 1.0)?;
        let outcome = test(&held);
        if held.gate.open() {
            return outcome;
        }
    }
    Err("the gate's time ran out in every attempt".into())
}

/// A device and a gate for its streams.
struct Held {
    device: Device,
    gate: Gate,
}

impl Held {
    fn new(backend: Backend) -> Result<Held, Failed> {
        let device = backend.device()?;
        let gate = Gate::new()?;
        Ok(Held { device, gate })
    }

    fn streams<const N: usize>(&self) -> Result<[Stream; N], Failed> {
        let streams: Vec<Stream> = (0..N)
            .map(|_| self.device.stream())
            .collect::<Result<_, _>>()?;
        streams
            .try_into()
            .map_err(|_| "as many as asked for".into())
    }

    /// A tensor of equal values, which is complete on return.
    fn filled(&self, stream: &Stream, value: f32) -> Result<Tensor, Failed> {
        Ok(Tensor::from_array(stream, &Array1::from_elem(LEN, value))?)
    }

    /// The same by a queued copy.
    fn queued(&self, stream: &Stream, values: &PinnedArray<f32>) -> Result<Tensor, Failed> {
        Ok(Tensor::from_pinned(stream, values)?)
    }
}

/// A copy of a tensor by a kernel.
fn copied(x: &Tensor) -> convfuse::Result<Tensor> {
    ops::clamp(x, &ClampSpec::new(-10.0, 10.0))
}

fn same(y: &Tensor, value: f32) -> Outcome {
    let values = y.to_array::<f32>()?;
    match values.iter().find(|&&other| other != value) {
        None => Ok(()),
        Some(other) => Err(format!("{other} where {value} should be").into()),
    }
}

/// The stream that writes a tensor is blocked, so another stream that reads the tensor must wait.
fn held_writer(held: &Held) -> Outcome {
    let [home, reader] = held.streams()?;
    let mut ones = PinnedArray::<f32>::zeros(&held.device, &[LEN])?;
    ones.view_mut()?.fill(1.0);
    held.gate.hold(&home)?;
    let x = held.queued(&home, &ones)?;
    let y = copied(&x.on(&reader)?)?;
    held.gate.must_hold_up(&reader, "the reader")?;
    held.gate.open();
    same(&y, 1.0)
}

/// A tensor is dropped while its reading stream is blocked. Its own stream must not reuse the memory before.
fn held_reader(held: &Held) -> Outcome {
    let [home, reader] = held.streams()?;
    let x = held.filled(&home, 1.0)?;
    held.gate.hold(&reader)?;
    let y = copied(&x.on(&reader)?)?;
    drop(x);
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32)?;
    held.gate
        .must_hold_up(&home, "the stream that overwrites")?;
    held.gate.open();
    same(&y, 1.0)?;
    same(&overwritten, 0.0)
}

/// Each operator of a chain runs on another stream than the previous one. The first stream is blocked, so
/// all must wait.
fn crossing(held: &Held) -> Outcome {
    let streams: [Stream; 3] = held.streams()?;
    let values = data::signed(1, (16, 4096));
    let mut x = Tensor::from_array(&streams[0], &values)?;
    held.gate.hold(&streams[0])?;
    let rounds = 60;
    for round in 0..rounds {
        let bound = 1.0 - f64::from(round) / 100.0;
        let spec = ClampSpec::new(-bound, bound);
        x = ops::clamp(&x.on(&streams[round as usize % 3])?, &spec)?;
    }
    for stream in &streams {
        held.gate.must_hold_up(stream, "a stream of the chain")?;
    }
    held.gate.open();
    let bound = (1.0 - f64::from(rounds - 1) / 100.0) as f32;
    let wanted = values.mapv(|value| value.clamp(-bound, bound)).into_dyn();
    match x.to_array::<f32>()? == wanted {
        true => Ok(()),
        false => Err("other values than those of one stream".into()),
    }
}

/// Several threads read one tensor on the same blocked stream. Its memory must wait for all reads,
/// regardless of the order of their events.
fn reading_threads(held: &Held) -> Outcome {
    let [home, reader] = held.streams()?;
    let x = held.filled(&home, 1.0)?;
    held.gate.hold(&reader)?;
    let read =
        || -> convfuse::Result<Vec<Tensor>> { (0..20).map(|_| copied(&x.on(&reader)?)).collect() };
    let results = thread::scope(|scope| {
        let threads = [scope.spawn(read), scope.spawn(read), scope.spawn(read)];
        threads.map(|thread| thread.join().expect("no panic"))
    });
    drop(x);
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32)?;
    held.gate
        .must_hold_up(&home, "the stream that overwrites")?;
    held.gate.open();
    for result in results {
        for y in result? {
            same(&y, 1.0)?;
        }
    }
    same(&overwritten, 0.0)
}

const VOLUMES: [usize; 5] = [1, 3, 5, 6, 7];

fn volumes(seed: u64) -> ArrayD<f32> {
    data::fill(seed, IxDyn(&VOLUMES))
}

/// A replay is blocked. A later write to the graph's input must not affect it.
fn held_replay(held: &Held) -> Outcome {
    let [stream] = held.streams()?;
    let model = Model::init(&stream, &preset_79().chain, 1)?;
    let wanted = [1, 2].map(|seed| model.forward_array(&volumes(seed)));
    let plan = model.plan(&stream, &VOLUMES, &Options::default())?;
    let mut captured = plan.capture(Tensor::from_array(&stream, &volumes(1))?)?;
    captured.replay()?;
    stream.synchronize()?;
    held.gate.hold(&stream)?;
    captured.replay()?;
    thread::scope(|scope| {
        // The write waits for the replay's copy, and thus for the gate.
        let writer = scope.spawn(|| captured.write(&volumes(2)));
        thread::sleep(LONG_ENOUGH);
        held.gate.open();
        writer.join().expect("no panic")
    })?;
    let [first, second] = wanted;
    if captured.output().to_array::<f32>()? != first? {
        return Err("the replay read what was written after it".into());
    }
    captured.replay()?;
    if captured.output().to_array::<f32>()? != second? {
        return Err("the next replay did not read what was written".into());
    }
    Ok(())
}

/// Plans are captured for a stream while other threads launch work on it. That work must complete, and must
/// not be part of the graphs.
fn capture_among_others(held: &Held) -> Outcome {
    let [stream] = held.streams()?;
    let model = Model::init(&stream, &preset_79().chain, 1)?;
    let wanted = model.forward_array(&volumes(1))?;
    let done = AtomicU32::new(0);
    let launch = || -> Outcome {
        let mut plan = model.plan(&stream, &VOLUMES, &Options::default())?;
        let x = Tensor::from_array(&stream, &volumes(1))?;
        while done.load(Ordering::SeqCst) == 0 {
            let mut y = plan.output()?;
            plan.execute(&x, &mut y)?;
            if y.to_array::<f32>()? != wanted {
                return Err("a launch went to another thread's graph".into());
            }
        }
        Ok(())
    };
    let capture = || -> Outcome {
        for _ in 0..20 {
            let plan = model.plan(&stream, &VOLUMES, &Options::default())?;
            let mut captured = plan.capture(Tensor::from_array(&stream, &volumes(1))?)?;
            captured.replay()?;
            if captured.output().to_array::<f32>()? != wanted {
                return Err("a graph has other work than its own".into());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let others = [scope.spawn(launch), scope.spawn(launch)];
        let captured = capture();
        done.store(1, Ordering::SeqCst);
        for other in others {
            other.join().expect("no panic")?;
        }
        captured
    })
}

/// A tensor is dropped while its stream is in a caller's capture, which must not be affected.
fn dropped_during_capture(held: &Held) -> Outcome {
    let [home, reader] = held.streams()?;
    let x = held.filled(&home, 1.0)?;
    let y = copied(&x.on(&reader)?)?;
    let _current = Current::new()?;
    let raw = home.as_raw()?.cast();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let mut graph = null_mut();
    // SAFETY: the stream is alive; `graph` is a place for one handle, and nobody else has it.
    unsafe {
        check(
            "cuStreamBeginCapture",
            sys::cuStreamBeginCapture_v2(raw, mode),
        )?;
        drop(x);
        check(
            "cuStreamEndCapture",
            sys::cuStreamEndCapture(raw, &mut graph),
        )?;
        check("cuGraphDestroy", sys::cuGraphDestroy(graph))?;
    }
    // The next allocation frees the kept memory, and may reuse it.
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32)?;
    same(&y, 1.0)?;
    same(&overwritten, 0.0)
}
