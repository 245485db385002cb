//! Several devices at a time; `drawn` has more tests of them.

use convfuse::graph::Layer;
use convfuse::{Device, Options, PinnedArray, Replicas, Tensor};

use crate::things::*;

/// The number of samples, and of their channels.
const SHAPE: [usize; 2] = [8, 96];

/// Two devices of one kind.
fn devices(device: &Device) -> [Device; 2] {
    [device.clone(), Device::gpu(WITH_POOLS + 4).unwrap()]
}

/// Waiting for an event, on any device, includes the work before it.
#[test]
fn streams_of_every_device_wait_for_events() {
    late(|_, device, _| {
        let [_, other] = devices(&device);
        let waiting = [device.clone(), other, Device::cpu()].map(|device| device.stream().unwrap());
        for (number, waiting) in (1u8..).zip(&waiting) {
            let home = device.stream().unwrap();
            let array = array(&device, f32::from(number));
            let x = Tensor::from_pinned(&home, &array).unwrap();
            waiting.wait(&home.record().unwrap()).unwrap();
            waiting.synchronize().unwrap();
            let address: *const f32 = x.as_raw().unwrap().cast_const().cast();
            // SAFETY: this driver's memory is host memory; the copy is complete, or else the memory has a
            // pattern.
            assert_eq!(unsafe { *address }, f32::from(number), "{waiting:?}");
        }
    });
}

/// Outputs that are read by their addresses are complete when
/// [`synchronize`](convfuse::model::ReplicaPlans::synchronize) returns.
#[test]
fn replicas_are_waited_for_on_every_device() {
    late(|_, device, [home, _]| {
        let devices = devices(&device);
        // Clamp is the one kernel that the driver executes.
        let model = model_of(&home, SHAPE[1], Layer::clamp(-1.0, 2.0));
        let replicas = Replicas::new(&model, &devices).unwrap();
        let mut plans = replicas.plan(&SHAPE, &Options::default()).unwrap();
        let arrays = devices.each_ref().map(|device| {
            let mut array = PinnedArray::zeros(device, &SHAPE).unwrap();
            array.view_mut().unwrap().fill(3.0);
            array
        });
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
            // SAFETY: this driver's memory is host memory, and all work on it is complete.
            let values = unsafe { std::slice::from_raw_parts(address, output.len()) };
            assert!(values.iter().all(|&value| value == 2.0));
        }
    });
}
