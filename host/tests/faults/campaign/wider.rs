//! Further uses of a device: foreign memory, foreign captures, arrays in chunks, several devices.

use std::sync::LazyLock;

use convfuse::graph::{Chain, Layer};
use convfuse::{
    DType, Device, Model, Options, PinnedArray, Replicas, Result, Stream, Tensor, data,
};
use ndarray::{ArrayD, IxDyn};

use super::{ALL, Part, Program, Results, every_call_in, peer};
use crate::driver::{Driver, scripted};
use crate::things::captured;

/// A batch of one chunk, and a batch of five, the last of which is shorter.
const SMALL: [usize; 4] = [4, 2, 5, 6];
const LARGE: [usize; 4] = [21, 2, 100, 110];

/// The same memory as a foreign tensor, on a foreign stream.
fn lent(tensor: &Tensor, strides: Option<&[isize]>) -> Result<Tensor> {
    let device = tensor.device().clone();
    // SAFETY: the tensor keeps the stream, and both live as long as the lent tensor.
    let stream = unsafe { Stream::from_raw(&device, tensor.stream().as_raw()?)? };
    let (pointer, owner) = (tensor.as_raw()?, Box::new(tensor.clone()));
    // SAFETY: the strides stay inside the tensor's elements, and all writes are in the stream's order.
    unsafe { Tensor::from_raw_parts(&stream, pointer, tensor.shape(), strides, DType::F32, owner) }
}

/// A chain without parameters, and one with parameters.
fn chains() -> [Chain; 2] {
    let clamp = || Layer::clamp(0.25, 0.75);
    let clamps = Chain::new(2, [clamp()]).expect("a chain");
    let scales = Chain::new(2, (Layer::scale("factor"), clamp()));
    [clamps, scales.expect("a chain")]
}

/// Uses foreign memory and streams, foreign captures, and copies between devices.
fn borrowed(part: Part, ordinal: u32) -> Results {
    let [device, peer] = [Device::gpu(ordinal)?, Device::gpu(peer(ordinal))?];
    let (home, other, away) = (device.stream()?, device.stream()?, peer.stream()?);
    let [clamps, scales] = chains();
    let with_parameters = Model::init(&home, &scales, 7)?;
    let model = Model::init(&home, &clamps, 7)?;
    let replicas = Replicas::new(&model, &[device.clone(), peer.clone()])?;
    let (options, x) = (Options::default(), data::fill(1, IxDyn(&SMALL)));
    let x = Tensor::from_array(&other, &x)?;
    // A channels-last view of the same elements.
    let by_channels = lent(&x, Some(&[60, 1, 12, 2]))?;
    let mut plan = model.plan(x.stream(), &SMALL, &options)?;
    let mut by_channels_plan = model.plan_for(&home, &by_channels, &options)?;
    let mut scaling = with_parameters.plan(&other, &SMALL, &options)?;
    let mut plans = replicas.plan(&SMALL, &options)?;
    let half = x.to_dtype(DType::F16)?;
    if part == Part::Loading {
        return Ok(Vec::new());
    }
    let mut results = Vec::new();
    // Two outputs in turn, both in foreign memory.
    for _ in 0..2 {
        let made = plan.output()?;
        let mut y = lent(&made, None)?;
        plan.execute(&lent(&x, None)?, &mut y)?;
        results.push(y.on(&home)?.to_array::<f32>()?);
    }
    let mut y = by_channels_plan.output()?;
    by_channels_plan.execute(&by_channels, &mut y)?;
    results.push(y.slice(1..3)?.reshape(&[2, 60])?.to_array()?);
    results.push(half.on(&home)?.to_f32_array()?);
    let mut graph = plan.capture(lent(&x, None)?)?;
    graph.replay()?;
    results.push(graph.output().to_array()?);
    let mut y = scaling.output()?;
    // A plan runs in a capture of the program's own, and is dropped there.
    captured(&other, || {
        let executed = scaling.execute(&x, &mut y);
        drop(scaling);
        executed
    })?;
    drop((graph, y));
    // A copy to another device and back.
    let there = x.to(&away)?;
    let y = replicas.models()[1].forward(&there)?;
    results.push(y.to(&home)?.to_array()?);
    let halves = [x.slice(0..2)?.on(&home)?, there.slice(2..4)?];
    let mut ys = plans.outputs()?;
    let streams = plans.plans().iter().map(|plan| plan.stream().clone());
    let halves = halves.iter().zip(streams).map(|(x, stream)| x.on(&stream));
    plans.execute(&halves.collect::<Result<Vec<_>>>()?, &mut ys)?;
    plans.synchronize()?;
    for y in &ys {
        results.push(y.to_array()?);
    }
    device.trim_memory()?;
    Ok(results)
}

/// The array that goes in chunks, and its result. They are cached, because the program runs hundreds of
/// times.
static VALUES: LazyLock<(ArrayD<f32>, ArrayD<f32>)> = LazyLock::new(|| {
    let values: ArrayD<f32> = data::fill(2, IxDyn(&LARGE));
    let clamped = values.mapv(|value| value.clamp(0.25, 0.75));
    (values, clamped)
});

/// Sends host arrays in chunks through one device, and through two.
fn arrays(part: Part, ordinal: u32) -> Results {
    let [device, peer] = [Device::gpu(ordinal)?, Device::gpu(peer(ordinal))?];
    let home = device.stream()?;
    let model = Model::init(&home, &chains()[0], 7)?;
    let replicas = Replicas::new(&model, &[device.clone(), peer.clone()])?;
    let options = Options::default();
    if part == Part::Loading {
        replicas.plan(&SMALL, &options)?;
        return Ok(Vec::new());
    }
    let mut results = Vec::new();
    let (values, clamped) = &*VALUES;
    results.push(model.forward_array(values)?);
    results.push(replicas.forward_array(values)?);
    let mut from = PinnedArray::zeros(&device, &LARGE)?;
    let mut to = PinnedArray::zeros(&peer, &LARGE)?;
    from.view_mut()?.assign(values);
    model.forward_pinned(&from, &mut to, &options)?;
    results.push(to.view()?.to_owned());
    replicas.forward_pinned(&from, &mut to, &options)?;
    results.push(to.view()?.to_owned());
    for whole in &results[results.len() - 4..] {
        assert!(whole == clamped);
    }
    model.trim_memory();
    device.trim_memory()?;
    Ok(results)
}

/// Runs the campaign in a child whose rayon pool has one thread, so that calls have one order.
fn every_call(
    script: Driver,
    name: &'static str,
    run: fn(Part, u32) -> Results,
    calls: (usize, usize),
) {
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1);
    one_thread.build_global().expect("the first to ask for it");
    let program = Program {
        name,
        kind: 0,
        has_peer: true,
        calls,
        run: Box::new(run),
    };
    every_call_in(script, &program);
}

#[test]
fn every_call_may_fail_with_memory_of_others() {
    scripted(|script| every_call(script, "memory of others", borrowed, ALL));
}

#[test]
fn every_other_call_may_fail_with_arrays_in_chunks() {
    scripted(|script| every_call(script, "arrays in chunks", arrays, (0, 2)));
}

#[test]
fn the_calls_between_may_fail_with_arrays_in_chunks() {
    scripted(|script| every_call(script, "arrays in chunks", arrays, (1, 2)));
}
