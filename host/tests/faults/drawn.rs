//! Copies between streams, tensors and arrays of the host, operators and models on them, in orders that are
//! drawn; and what many streams read that goes away. What comes out is what the calls say, one after the
//! other, though the driver does nothing that nobody waits for.

use std::any::Any;

use convfuse::graph::presets::KernelBench85;
use convfuse::graph::{Chain, Layer};
use convfuse::spec::ClampSpec;
use convfuse::{DType, Device, Error, Model, Options, PinnedArray, Stream, Tensor, data, ops};
use ndarray::IxDyn;

use crate::launches;
use crate::ordering::{LEN, WITH_POOLS, WITHOUT_POOLS, array, holds, late, tensor};

/// Numbers that a seed gives.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

/// `CUDA_ERROR_OPERATING_SYSTEM`, which passes.
const OPERATING_SYSTEM: u32 = 304;

/// Of arrays and tensors: so many samples of so many channels.
const SHAPE: [usize; 2] = [10, LEN / 10];

/// What a program works on, each with the value that all of its elements should have.
struct Things {
    streams: Vec<Stream>,
    tensors: Vec<Option<(Tensor, f32)>>,
    arrays: Vec<(PinnedArray<f32>, f32)>,
    /// Clamps to values from 0 to 20.
    model: Model,
}

impl Things {
    fn new(device: &Device) -> Things {
        let clamp = Layer::clamp(0.0, 20.0);
        let chain = Chain::new(SHAPE[1], [clamp]).unwrap();
        let array = |_| PinnedArray::zeros(device, &SHAPE).unwrap();
        Things {
            streams: (0..4).map(|_| device.stream().unwrap()).collect(),
            tensors: (0..5).map(|_| None).collect(),
            arrays: (0..3).map(|index| (array(index), 0.0)).collect(),
            model: Model::init(&device.stream().unwrap(), &chain, 1).unwrap(),
        }
    }

    /// One call, and what it should come to.
    fn call(&mut self, draw: &mut Draw, number: usize) {
        let stream = self.streams[draw.below(4)].clone();
        let (slot, index) = (draw.below(5), draw.below(3));
        let (array, held) = &mut self.arrays[index];
        match (draw.below(10), &mut self.tensors[slot]) {
            (0, _) => {
                array.view_mut().unwrap().fill(number as f32);
                *held = number as f32;
            }
            (1, _) => assert!(holds(array, *held), "call {number}"),
            (2, _) => stream.synchronize().unwrap(),
            (3, tensor) => *tensor = None,
            (4, _) => {
                let [x, y] = self
                    .arrays
                    .get_disjoint_mut([index, (index + 1) % 3])
                    .unwrap();
                let options = Options::default();
                self.model.forward_pinned(&x.0, &mut y.0, &options).unwrap();
                y.1 = x.1.min(20.0);
            }
            (_, tensor @ None) => *tensor = Some((self::tensor(&stream, array), *held)),
            (5, Some((tensor, value))) => {
                tensor.copy_from_pinned(array).unwrap();
                *value = *held;
            }
            (6, Some((tensor, value))) => {
                let most = number as f32 / 2.0;
                let clamp = ClampSpec::new(0.0, f64::from(most));
                let y = ops::clamp(&tensor.on(&stream).unwrap(), &clamp).unwrap();
                let clamped = value.min(most);
                self.tensors[(slot + 1) % 5] = Some((y, clamped));
            }
            (7, Some((tensor, value))) => {
                let read = tensor.on(&stream).unwrap().to_array::<f32>().unwrap();
                assert!(read.iter().all(|element| element == value), "call {number}");
            }
            (_, Some((tensor, value))) => {
                tensor.on(&stream).unwrap().copy_to_pinned(array).unwrap();
                *held = *value;
            }
        }
    }
}

fn as_the_calls_say(device: &Device) {
    for seed in 1..=150 {
        let mut draw = Draw::new(seed);
        let mut things = Things::new(device);
        for number in 1..=40 {
            things.call(&mut draw, number);
        }
        for (tensor, value) in things.tensors.iter().flatten() {
            let wanted = *value * LEN as f32;
            assert_eq!(
                tensor.to_array::<f32>().unwrap().sum(),
                wanted,
                "seed {seed}"
            );
        }
        for (array, value) in &things.arrays {
            assert!(holds(array, *value), "seed {seed}");
        }
    }
}

#[test]
fn drawn_calls_come_to_what_they_say_one_after_the_other() {
    let test = "drawn::drawn_calls_come_to_what_they_say_one_after_the_other";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    as_the_calls_say(&device);
    as_the_calls_say(&Device::gpu(WITHOUT_POOLS).unwrap());
    script.expect_no_violations();
}

#[test]
fn an_array_that_many_streams_read_is_written_after_all_of_them() {
    let test = "drawn::an_array_that_many_streams_read_is_written_after_all_of_them";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let mut values = array(&device, 1.0);
    // More than an array remembers.
    let read = |_| tensor(&device.stream().unwrap(), &values);
    let read: Vec<Tensor> = (0..1100).map(read).collect();
    values.view_mut().unwrap().fill(2.0);
    for x in &read {
        assert_eq!(x.to_array::<f32>().unwrap().sum(), LEN as f32);
    }
    script.expect_no_violations();
}

/// A run of a model on a stream, and what keeps it.
type Way = fn(&Model, &Stream, &Tensor) -> Box<dyn Any>;

/// Every way to run a model.
const WAYS: [(&str, Way); 3] = [
    ("forward", |model, _, x| Box::new(model.forward(x).unwrap())),
    ("plan", |model, stream, x| {
        let plan = model.plan(stream, x.shape(), &Options::default());
        let mut plan = plan.unwrap();
        let mut y = plan.output().unwrap();
        plan.execute(x, &mut y).unwrap();
        Box::new((plan, y))
    }),
    ("launches", |model, stream, x| {
        let launches = model.launches(stream, x, &Options::default()).unwrap();
        let y = launches::run(&launches, stream, x.as_raw().unwrap()).unwrap();
        Box::new((launches, y))
    }),
];

#[test]
fn what_was_prepared_is_there_for_the_runs_of_every_stream_and_outlives_them() {
    let test = "drawn::what_was_prepared_is_there_for_the_runs_of_every_stream_and_outlives_them";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let chain = KernelBench85::default().chain().unwrap();
    let input = Tensor::from_array(&home, &data::fill(1, IxDyn(&[1, 8, 12, 128]))).unwrap();
    for (name, way) in WAYS {
        let streams = [(); 3].map(|()| device.stream().unwrap());
        let model = Model::init(&home, &chain, 7).unwrap();
        let run = |stream: &Stream| way(&model, stream, &input.on(stream).unwrap());
        let kept = streams.each_ref().map(run);
        // It comes before what was prepared, unless that is waited for.
        streams[0].synchronize().unwrap();
        assert_eq!(script.violations(), "", "{name}");
        drop((kept, model));
        // It goes before what reads it, unless that is waited for.
        home.synchronize().unwrap();
        for stream in &streams {
            stream.synchronize().unwrap();
        }
        assert_eq!(script.violations(), "", "{name}");
    }
    script.expect_no_violations();
}

#[test]
fn a_device_accounts_for_what_is_held_and_nothing_else() {
    let test = "drawn::a_device_accounts_for_what_is_held_and_nothing_else";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    const BYTES: u64 = 4 * LEN as u64;
    let stream = device.stream().unwrap();
    let zeros = || Tensor::zeros(&stream, &[LEN], DType::F32);
    // The limit itself is within it.
    device.limit_memory(2 * BYTES);
    let (one, two) = (zeros().unwrap(), zeros().unwrap());
    assert!(matches!(zeros(), Err(Error::OutOfMemory { .. })));
    assert_eq!(device.memory_in_use(), 2 * BYTES);
    drop(two);
    // What the driver refuses is not held, either.
    let allocate = "cuMemAllocFromPoolAsync";
    let counts = script.counts();
    let calls = counts.iter().find(|(name, _)| name == allocate);
    script.fail(
        allocate,
        calls.map_or(0, |call| call.1) + 1,
        OPERATING_SYSTEM,
    );
    assert!(matches!(zeros(), Err(Error::Driver(_))));
    assert_eq!(device.memory_in_use(), BYTES);
    let two = zeros().unwrap();
    assert_eq!(device.memory_in_use(), 2 * BYTES);
    drop((one, two));
    assert_eq!(device.memory_in_use(), 0);
    script.expect_no_violations();
}
