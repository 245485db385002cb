use kernels_gpu::pointwise::POINTWISE;
use launch_config::pointwise::{PointwiseList, Step, shape as shape_of};
use ndarray::array;
use op_spec::Layout;

use super::*;
use crate::device::Device;
use crate::operators::pointwise::ListStep;
use crate::operators::{pointwise, scale};
use crate::spec::{ClampSpec, PointwiseSpec, ScaleSpec};

const LEN: usize = 1000;

/// A program of clamps to ever smaller intervals, one after the other.
fn clamps(device: &Device, count: usize) -> Program {
    let mut program = ProgramBuilder::new(device);
    let mut value = program.input(&[LEN], DType::F32, &Order::Dense).unwrap();
    for step in 1..=count {
        let spec = PointwiseSpec::Clamp(ClampSpec::new(0.0, 1.0 / step as f64));
        let problem = spec.problem(&[LEN]).unwrap();
        let problem = [ListStep::Function(problem)];
        value = pointwise::append(&mut program, value, &problem).unwrap();
    }
    program.finish(&[value])
}

#[test]
fn values_that_never_live_together_share_bytes() {
    let program = clamps(&Device::emulator(), 6);
    // Two values live at a time, each on 256 bytes; the last is the output, which the caller provides.
    assert_eq!(program.workspace_bytes(), 4096 + 4000);
    assert_eq!(clamps(&Device::emulator(), 1).workspace_bytes(), 0);
}

/// Each launch reads all bytes of a value, and writes all bytes of the next.
#[test]
fn launches_access_all_bytes_of_their_values() {
    let program = clamps(&Device::emulator(), 3);
    let address = |value: usize| std::ptr::without_provenance_mut(4096 * value);
    let addresses: Vec<*mut u8> = (1..5).map(address).collect();
    let accesses = program.accesses(&addresses);
    let accesses = (accesses.iter().flatten()).map(|of| (of.bytes.clone(), of.is_written));
    let all = |value: usize| 4096 * value..4096 * value + 4 * LEN;
    let each = |launch| [(all(launch), false), (all(launch + 1), true)];
    assert!(accesses.eq((1..4).flat_map(each)));
}

#[test]
fn steps_say_what_is_launched() {
    let program = clamps(&Device::emulator(), 2);
    let [_, step] = program.steps() else {
        panic!("two clamps are two launches")
    };
    assert_eq!((step.kernel, step.bytes_moved), ("pointwise_f32", 8000));
    assert_eq!(step.shape.block, [256, 1, 1]);
}

#[test]
fn parameters_stay_only_where_a_launch_reads_them() {
    let device = Device::emulator();
    let stream = device.stream().unwrap();
    let vector = || Tensor::from_array(&stream, &array![2.0f32, 3.0]).unwrap();
    let (unused, used) = (vector(), vector());
    let mut program = ProgramBuilder::new(&device);
    let x = program.input(&[1, 2], DType::F32, &Order::Dense).unwrap();
    let [_, factors] = [&unused, &used].map(|tensor| program.parameter(tensor));
    let problem = ScaleSpec::default().problem(&[1, 2], &[2]).unwrap();
    let y = scale::append(&mut program, x, factors, &problem).unwrap();
    let program = program.finish(&[y]);
    let weak = [unused.downgrade(), used.downgrade()];
    drop((unused, used));
    let is_there = weak.map(|tensor| tensor.upgrade().is_some());
    assert_eq!(is_there, [false, true]);
    let x = Tensor::from_array(&stream, &array![[1.0f32, -1.0]]).unwrap();
    let y = program.run_once("test", &stream, &[&x]).unwrap().remove(0);
    assert_eq!(y.to_array::<f32>().unwrap(), array![[2.0, -3.0]].into_dyn());
}

#[test]
fn prepared_parameters_go_with_the_last_program_that_uses_them() {
    let stream = Device::emulator().stream().unwrap();
    let prepared = PreparedParameters::default();
    let mut made = 0;
    let mut get = |form: u32| {
        prepared.get(form, || {
            made += 1;
            Ok(vec![Tensor::zeros(&stream, &[4], DType::F32)?])
        })
    };
    let (one, same) = (get(1).unwrap(), get(1).unwrap());
    let other = get(2).unwrap();
    drop(one);
    drop((same, get(1).unwrap()));
    assert_eq!(get(2).unwrap().len(), 1);
    // The first form is freed by now, the second is still held.
    drop(get(1).unwrap());
    drop(other);
    assert_eq!(made, 3);
}

#[test]
fn dense_outputs_begin_at_aligned_addresses() {
    let stream = Device::emulator().stream().unwrap();
    let both = Tensor::zeros(&stream, &[8], DType::F32).unwrap();
    let refused = |start: usize| {
        let y = both.slice(start..start + 2).unwrap();
        expect_output("test", &[2], DType::F32, &Order::Dense, &y).is_err()
    };
    assert_eq!([0, 1, 4].map(refused), [false, true, false]);
}

#[test]
fn programs_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Program>();
}

/// A value in NHWC is reformatted once for all kernels that read NCHW, by a launch of the program.
#[test]
fn values_have_layouts_and_are_reformatted_once() {
    let device = Device::emulator();
    let stream = device.stream().unwrap();
    let shape = [2, 3, 4, 5];
    let order = Order::of_layout(&shape, Layout::Nhwc).unwrap();
    let mut program = ProgramBuilder::new(&device);
    // The memory of an NHWC tensor is that of a dense tensor with the channels as the last axis.
    let x = program
        .input(&[2, 4, 5, 3], DType::F32, &Order::Dense)
        .unwrap();
    let clamp = PointwiseSpec::Relu {}.problem(&[120]).unwrap();
    let nhwc = program.tensor_as(&shape, DType::F32, order).unwrap();
    let list = PointwiseList::of(Step::of(&clamp.function));
    let label = [DType::F32.label()];
    let arguments = (x, nhwc, 120, list);
    // SAFETY: both values have 120 elements.
    let launched = unsafe { program.launch(&POINTWISE, &label, shape_of(120), arguments) };
    launched.unwrap();
    let nchw = program.in_order(nhwc).unwrap();
    assert_eq!(program.in_order(nhwc).unwrap(), nchw);
    assert_eq!(program.shape(nchw), shape);
    let program = program.finish(&[nchw]);
    let kernels: Vec<&str> = program.steps().iter().map(|step| step.kernel).collect();
    assert_eq!(kernels, ["pointwise_f32", "copy_strided_f32_f32"]);
    let values = ndarray::Array::from_shape_fn([2, 4, 5, 3], |(n, h, w, c)| {
        (n * 60 + h * 15 + w * 3 + c) as f32
    });
    let x = Tensor::from_array(&stream, &values).unwrap();
    let y = program.run_once("test", &stream, &[&x]).unwrap().remove(0);
    let wanted = values.permuted_axes([0, 3, 1, 2]);
    assert_eq!(y.to_array::<f32>().unwrap(), wanted.into_dyn());
}
