//! Copies between streams, tensors and arrays of the host, operators and models on them, in orders that are
//! drawn; and what many streams read that goes away. What comes out is what the calls say, one after the
//! other, though the driver does nothing that nobody waits for.

use std::any::Any;

use convfuse::chain::Layer;
use convfuse::chain::presets::KernelBench85;
use convfuse::spec::ClampSpec;
use convfuse::{Device, Model, Options, PinnedArray, Stream, Tensor, ops};

use crate::launches;
use crate::things::*;

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
        let array = |_| PinnedArray::zeros(device, &SHAPE).unwrap();
        Things {
            streams: (0..4).map(|_| device.stream().unwrap()).collect(),
            tensors: (0..5).map(|_| None).collect(),
            arrays: (0..3).map(|index| (array(index), 0.0)).collect(),
            model: model_of(&device.stream().unwrap(), SHAPE[1], Layer::clamp(0.0, 20.0)),
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
            (_, tensor @ None) => *tensor = Some((crate::things::tensor(&stream, array), *held)),
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
                assert!(has(&tensor.on(&stream).unwrap(), *value), "call {number}");
            }
            (_, Some((tensor, value))) => {
                read(tensor, &stream, array);
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
            assert!(has(tensor, *value), "seed {seed}");
        }
        for (array, value) in &things.arrays {
            assert!(holds(array, *value), "seed {seed}");
        }
    }
}

#[test]
fn drawn_calls_come_to_what_they_say_one_after_the_other() {
    late_on_both(|_, device, _| as_the_calls_say(&device));
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
    late(|script, device, [home, _]| {
        let chain = KernelBench85::default().chain().unwrap();
        let x = input(&home, &[1, 8, 12, 128]);
        for (name, way) in WAYS {
            let streams = [(); 3].map(|()| device.stream().unwrap());
            let model = Model::init(&home, &chain, 7).unwrap();
            let run = |stream: &Stream| way(&model, stream, &x.on(stream).unwrap());
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
    });
}
