//! Several devices at a time, and other libraries that have a context of their own current.

use convfuse::chain::Layer;
use convfuse::{Device, Options, PinnedArray, Replicas, Tensor};

use crate::drawn::Draw;
use crate::things::*;

/// Of arrays: rows, each with a value of its own, and columns.
const SHAPE: [usize; 2] = [8, 96];

/// Two devices of one kind.
fn devices(device: &Device) -> [Device; 2] {
    [device.clone(), Device::gpu(WITH_POOLS + 4).unwrap()]
}

/// An array whose rows count from `first` on.
fn rows(device: &Device, first: f32) -> PinnedArray<f32> {
    let mut array = PinnedArray::zeros(device, &SHAPE).unwrap();
    for (index, mut row) in (0u8..).zip(array.view_mut().unwrap().outer_iter_mut()) {
        row.fill(first + f32::from(index));
    }
    array
}

/// Whether the tensor's rows have these values.
fn has_rows(tensor: &Tensor, first: f32) -> bool {
    let array = tensor.to_array::<f32>().unwrap();
    let mut rows = array.outer_iter().zip(0u8..);
    rows.all(|(row, index)| row.iter().all(|&value| value == first + f32::from(index)))
}

/// Copies, slices and reads of both devices, on streams that are theirs and on their default streams, in
/// orders that are drawn. Before each call another library makes a context current, the same or the other
/// one's, or none.
#[test]
fn drawn_calls_on_two_devices_come_to_what_they_say() {
    late(|_, device, _| {
        let devices = devices(&device);
        let streams = devices.each_ref().map(|device| {
            let own = [device.stream().unwrap(), device.stream().unwrap()];
            [own.as_slice(), &[default_stream(device, 1)]].concat()
        });
        let streams = streams.concat();
        for seed in 1..=60 {
            let mut draw = Draw::new(seed);
            let mut arrays: Vec<(PinnedArray<f32>, f32)> = Vec::new();
            let mut tensors: [Option<(Tensor, f32)>; 4] = [const { None }; 4];
            for number in 1..=30u8 {
                let _theirs = match draw.below(3) {
                    2 => None,
                    index => Some(Current::of(&devices[index]).unwrap()),
                };
                let stream = &streams[draw.below(streams.len())];
                let (slot, to) = (draw.below(4), draw.below(4));
                let kind = draw.below(8);
                match (kind, &mut tensors[slot]) {
                    (0, _) => stream.synchronize().unwrap(),
                    (1, tensor) => *tensor = None,
                    (_, tensor @ None) => {
                        let first = f32::from(number) * 100.0;
                        let array = rows(stream.device(), first);
                        *tensor = Some((Tensor::from_pinned(stream, &array).unwrap(), first));
                        // To drop it would wait for the copy.
                        arrays.push((array, first));
                    }
                    (2, Some((tensor, first))) => {
                        assert!(has_rows(tensor, *first), "seed {seed}, call {number}");
                    }
                    (3 | 4, Some((tensor, first))) => {
                        let skipped = draw.below(tensor.shape()[0].min(3));
                        let part = tensor.slice(skipped..tensor.shape()[0]).unwrap();
                        tensors[to] = Some((part, *first + skipped as f32));
                    }
                    (_, Some((tensor, first))) => {
                        tensors[to] = Some((tensor.to(stream).unwrap(), *first));
                    }
                }
            }
            for (tensor, first) in tensors.iter().flatten() {
                assert!(has_rows(tensor, *first), "seed {seed}");
            }
        }
    });
}

/// Whoever waits for an event, on whatever device, waits for the work before it.
#[test]
fn streams_of_every_device_wait_for_events() {
    late(|_, device, _| {
        let [_, other] = devices(&device);
        let waiting = [device.clone(), other, Device::cpu()].map(|device| device.stream().unwrap());
        for (number, waiting) in (1u8..).zip(&waiting) {
            let home = device.stream().unwrap();
            let array = rows(&device, f32::from(number));
            let x = Tensor::from_pinned(&home, &array).unwrap();
            waiting.wait(&home.record().unwrap()).unwrap();
            waiting.synchronize().unwrap();
            let address: *const f32 = x.as_raw().unwrap().cast_const().cast();
            // SAFETY: this driver's memory is the host's, and the copy is done, or else it is filled with a
            // pattern.
            assert_eq!(unsafe { *address }, f32::from(number), "{waiting:?}");
        }
    });
}

/// Whose outputs are read by their addresses is done when
/// [`synchronize`](convfuse::model::ReplicaPlans::synchronize) returns.
#[test]
fn replicas_are_waited_for_on_every_device() {
    late(|_, device, [home, _]| {
        let devices = devices(&device);
        // The one kernel that the driver runs.
        let model = model_of(&home, SHAPE[1], Layer::clamp(-1.0, 2.0));
        let replicas = Replicas::new(&model, &devices).unwrap();
        let mut plans = replicas.plan(&SHAPE, &Options::default()).unwrap();
        let arrays = devices.each_ref().map(|device| rows(device, 3.0));
        let inputs = plans.plans().iter().zip(&arrays).map(|(plan, array)| {
            let samples = plan.input_shape()[0];
            let all = Tensor::from_pinned(plan.stream(), array).unwrap();
            all.slice(0..samples).unwrap()
        });
        let inputs: Vec<Tensor> = inputs.collect();
        let mut outputs = plans.outputs().unwrap();
        plans.execute(&inputs, &mut outputs).unwrap();
        plans.synchronize().unwrap();
        for output in &outputs {
            let address: *const f32 = output.as_raw().unwrap().cast_const().cast();
            // SAFETY: this driver's memory is the host's, and all work on it is done.
            let values = unsafe { std::slice::from_raw_parts(address, output.len()) };
            assert!(values.iter().all(|&value| value == 2.0));
        }
    });
}
