//! The presets, with every use of a plan.

use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::kernel_cache::keep_in;
use convfuse::{Device, Model, Options, PinnedArray, Tensor, data};
use ndarray::{ArrayD, IxDyn};

use super::{ALL, Part, Program, Results, Runs, every_call_in, peer};
use crate::driver::{folder, scripted};

/// A preset with inputs of a shape.
fn preset(name: &'static str, number: u32, shape: &'static [usize], kind: u32) -> Program {
    let chain = match number {
        79 => KernelBench79::default().chain(),
        _ => KernelBench85::default().chain(),
    };
    let chain = chain.expect("a chain");
    Program {
        name,
        kind,
        has_peer: false,
        calls: ALL,
        run: Box::new(move |part, ordinal| run(&chain, shape, part, ordinal)),
    }
}

/// Opens the device and uses everything: copies in both directions, a plan, a single run, timing, a graph.
fn run(chain: &Chain, shape: &[usize], part: Part, ordinal: u32) -> Results {
    let device = Device::gpu(ordinal)?;
    let (home, other) = (device.stream()?, device.stream()?);
    let model = Model::init(&home, chain, 7)?;
    let values: ArrayD<f32> = data::fill(1, IxDyn(shape));
    let foreign = Tensor::from_array(&other, &values)?;
    let mut plan = model.plan(&home, shape, &Options::default())?;
    if part == Part::Loading {
        return Ok(Vec::new());
    }
    let mut y = plan.output()?;
    let start = home.record()?;
    plan.execute(&foreign, &mut y)?;
    let mut results = vec![y.to_array::<f32>()?];
    let mut pinned = PinnedArray::<f32>::zeros(&device, shape)?;
    pinned.view_mut()?.assign(&values);
    let x = Tensor::from_pinned(&home, &pinned)?;
    plan.execute(&x, &mut y)?;
    let mut copied = PinnedArray::<f32>::zeros(&device, y.shape())?;
    y.on(&other)?.copy_to_pinned(&mut copied)?;
    plan.execute(&x, &mut y)?;
    results.push(copied.view()?.to_owned());
    results.push(model.forward(&foreign)?.to_array::<f32>()?);
    results.push(model.forward_array(&values)?);
    home.record()?.since(&start)?;
    let mut captured = plan.capture(x)?;
    captured.write(&values)?;
    captured.replay()?;
    captured.replay()?;
    results.push(captured.output().to_array::<f32>()?);
    drop((captured, y));
    device.trim_memory()?;
    Ok(results)
}

#[test]
fn every_call_may_fail_in_one_launch_from_ptx() {
    let program = preset("85 in one launch, from PTX", 85, &[1, 8, 10, 128], 0);
    scripted(|script| every_call_in(script, &program));
}

#[test]
fn every_call_may_fail_in_one_launch_from_machine_code() {
    let program = preset(
        "79 in one launch, from machine code",
        79,
        &[1, 3, 5, 6, 32],
        3,
    );
    scripted(|script| every_call_in(script, &program));
}

#[test]
fn every_call_may_fail_for_any_shape() {
    let program = preset(
        "85 for any shape, from machine code",
        85,
        &[2, 8, 11, 14],
        1,
    );
    scripted(|script| every_call_in(script, &program));
}

#[test]
fn every_call_may_fail_without_pools() {
    let program = preset(
        "79 for any shape, without pools and linker",
        79,
        &[2, 3, 5, 6, 7],
        2,
    );
    scripted(|script| every_call_in(script, &program));
}

/// The devices find machine code that their linker made before.
#[test]
fn every_call_may_fail_with_kernels_that_were_kept() {
    scripted(|script| {
        let folder = folder();
        keep_in(folder.path());
        let program = &preset("79 for any shape, from the cache", 79, &[2, 3, 5, 6, 7], 0);
        let part = Part::Loading;
        // Devices that no other run uses.
        let links = [peer(0), peer(4)].map(|ordinal| {
            let clean = Runs {
                script,
                program,
                part,
            }
            .clean(ordinal);
            clean.counts.contains_key("cuLinkComplete")
        });
        assert_eq!(links, [true, false]);
        every_call_in(script, program);
    });
}
