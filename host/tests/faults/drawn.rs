//! Random sequences of copies between streams, tensors and host arrays, with operators and models; and the
//! end of objects that many streams read. Results must be those of the calls in program order, although the
//! driver only does work that somebody waits for.

use std::any::Any;

use convfuse::graph::Layer;
use convfuse::graph::presets::KernelBench85;
use convfuse::spec::ClampSpec;
use convfuse::{Device, Error, Model, Options, PinnedArray, Stream, Tensor, ops};
use ndarray::ArrayViewD;

use crate::launches;
use crate::things::*;

/// A generator of pseudo-random numbers.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed))
    }

    /// Draws a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

/// The shape of arrays and whole tensors: samples, each with its own value, and channels.
const SHAPE: [usize; 2] = [10, LEN / 10];

/// The objects of a random program, with the expected values of their samples.
struct Things {
    devices: Vec<Device>,
    /// For each device, two own streams and the default stream.
    streams: Vec<[Stream; 3]>,
    tensors: Vec<Option<(Tensor, Vec<f32>)>>,
    arrays: Vec<(PinnedArray<f32>, Vec<f32>)>,
    /// A model that clamps to values from 0 to 20.
    model: Model,
}

fn are(samples: ArrayViewD<'_, f32>, values: &[f32]) -> bool {
    let mut each = samples.outer_iter().zip(values);
    samples.shape()[0] == values.len()
        && each.all(|(sample, value)| sample.iter().all(|element| element == value))
}

impl Things {
    fn new(devices: &[Device]) -> Things {
        let own = |device: &Device| device.stream().unwrap();
        let streams = devices.iter();
        let streams = streams.map(|one| [own(one), own(one), default_stream(one, 1)]);
        let array = |device| PinnedArray::zeros(device, &SHAPE).unwrap();
        let arrays = devices.iter().cycle().take(3);
        Things {
            devices: devices.to_vec(),
            streams: streams.collect(),
            tensors: vec![None; 5],
            arrays: arrays
                .map(|one| (array(one), vec![0.0; SHAPE[0]]))
                .collect(),
            model: model_of(&own(&devices[0]), SHAPE[1], Layer::clamp(0.0, 20.0)),
        }
    }

    /// Makes one call and updates the expected values. Before it, another library makes a context current:
    /// that of some device, or none.
    fn call(&mut self, draw: &mut Draw, number: usize) {
        let theirs = self.devices.get(draw.below(self.devices.len() + 1));
        let _theirs = theirs.map(|device| Current::of(device).unwrap());
        let (device, stream) = (draw.below(self.devices.len()), draw.below(3));
        let any = &self.streams[device][stream];
        let is_of = |x: &Tensor| self.devices.iter().position(|device| device == x.device());
        let local = |x: &Tensor| &self.streams[is_of(x).unwrap()][stream];
        let (slot, to, index) = (draw.below(5), draw.below(5), draw.below(3));
        let (array, held) = &mut self.arrays[index];
        match (draw.below(13), &mut self.tensors[slot]) {
            (0, _) => {
                *held = (0..SHAPE[0])
                    .map(|sample| (number + sample) as f32)
                    .collect();
                let mut samples = array.view_mut().unwrap();
                for (mut sample, value) in samples.outer_iter_mut().zip(held) {
                    sample.fill(*value);
                }
            }
            (1, _) => assert!(are(array.view().unwrap(), held), "call {number}"),
            (2, _) => any.synchronize().unwrap(),
            (3, some) => *some = None,
            (4, _) => {
                let two = self.arrays.get_disjoint_mut([index, (index + 1) % 3]);
                let ([x, y], options) = (two.unwrap(), Options::default());
                self.model.forward_pinned(&x.0, &mut y.0, &options).unwrap();
                y.1 = x.1.iter().map(|value| value.min(20.0)).collect();
            }
            (_, none @ None) => *none = Some((tensor(any, array), held.clone())),
            (5, Some((x, values))) if *x.shape() == SHAPE => match x.copy_from_pinned(array) {
                // Slices share the tensor.
                Err(Error::TensorInUse { .. }) => {}
                copied => {
                    copied.unwrap();
                    values.clone_from(held);
                }
            },
            (6, Some((x, values))) => {
                let most = number as f32 / 2.0;
                let clamp = ClampSpec::new(0.0, f64::from(most));
                let y = ops::clamp(&x.on(local(x)).unwrap(), &clamp).unwrap();
                let clamped = values.iter().map(|value| value.min(most)).collect();
                self.tensors[to] = Some((y, clamped));
            }
            (7, Some((x, values))) => {
                let read = x.on(local(x)).unwrap().to_array::<f32>().unwrap();
                assert!(are(read.view(), values), "call {number}");
            }
            (8, Some((x, values))) => {
                let skipped = draw.below(values.len().min(3));
                let part = x.slice(skipped..values.len()).unwrap();
                self.tensors[to] = Some((part, values[skipped..].to_vec()));
            }
            (9 | 10, Some((x, values))) => {
                self.tensors[to] = Some((x.to(any).unwrap(), values.clone()));
            }
            (_, Some((x, values))) if *x.shape() == SHAPE => {
                read(x, local(x), array);
                held.clone_from(values);
            }
            (_, Some((x, values))) => {
                let read = x.to_array::<f32>().unwrap();
                assert!(are(read.view(), values), "call {number}");
            }
        }
    }
}

fn as_the_calls_say(devices: &[Device], programs: u64) {
    for seed in 1..=programs {
        let mut draw = Draw::new(seed);
        let mut things = Things::new(devices);
        for number in 1..=40 {
            things.call(&mut draw, number);
        }
        for (tensor, values) in things.tensors.iter().flatten() {
            let read = tensor.to_array::<f32>().unwrap();
            assert!(are(read.view(), values), "seed {seed}");
        }
        for (array, values) in &things.arrays {
            assert!(are(array.view().unwrap(), values), "seed {seed}");
        }
    }
}

#[test]
fn drawn_calls_come_to_what_they_say_one_after_the_other() {
    late_on_both(|_, device, _| as_the_calls_say(&[device], 200));
}

#[test]
fn drawn_calls_on_two_devices_come_to_what_they_say() {
    late(|_, device, _| {
        as_the_calls_say(&[device, Device::gpu(WITH_POOLS + 4).unwrap()], 100);
    });
}

/// A run of a model on a stream. Returns the objects that keep it alive.
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
            // Without a wait, the run would come before the preparation of the parameters.
            streams[0].synchronize().unwrap();
            assert_eq!(script.violations(), "", "{name}");
            drop((kept, model));
            // Without a wait, the parameters would be freed before they are read.
            home.synchronize().unwrap();
            for stream in &streams {
                stream.synchronize().unwrap();
            }
            assert_eq!(script.violations(), "", "{name}");
        }
    });
}
