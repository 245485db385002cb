//! The presets, by all that there is for a plan.

use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::{Device, Model, Options, PinnedArray, Tensor, data};
use ndarray::{ArrayD, IxDyn};

use super::{Calls, Clean, Part, Program, Results, every_call_in};
use crate::driver::{child, expect_passed, in_child, scripted};

/// What is run, and on which kind of device.
#[derive(Clone)]
struct Preset {
    name: &'static str,
    chain: Chain,
    shape: &'static [usize],
    kind: u32,
}

impl From<Preset> for Program {
    fn from(preset: Preset) -> Program {
        Program {
            name: preset.name,
            kind: preset.kind,
            has_peer: false,
            calls: Calls::All,
            run: Box::new(move |part, ordinal| run(&preset, part, ordinal)),
        }
    }
}

/// Both presets by their one-launch kernels, one of them without pools of memory and a linker, and by those
/// for any shape.
fn presets() -> [Preset; 4] {
    let preset_85 = KernelBench85::default().chain().expect("a chain");
    let preset_79 = KernelBench79::default().chain().expect("a chain");
    [
        Preset {
            name: "85 in one launch, from PTX",
            chain: preset_85.clone(),
            shape: &[1, 8, 10, 128],
            kind: 0,
        },
        Preset {
            name: "79 in one launch, from machine code",
            chain: preset_79.clone(),
            shape: &[1, 3, 5, 6, 32],
            kind: 3,
        },
        Preset {
            name: "85 for any shape, from machine code",
            chain: preset_85,
            shape: &[2, 8, 11, 14],
            kind: 1,
        },
        Preset {
            name: "79 for any shape, without pools and linker",
            chain: preset_79,
            shape: &[2, 3, 5, 6, 7],
            kind: 2,
        },
    ]
}

/// Opens the device, and uses what there is: copies both ways, a plan, a single run, timing, a graph.
fn run(program: &Preset, part: Part, ordinal: u32) -> Results {
    let device = Device::gpu(ordinal)?;
    let (home, other) = (device.stream()?, device.stream()?);
    let model = Model::init(&home, &program.chain, 7)?;
    let values: ArrayD<f32> = data::fill(1, IxDyn(program.shape));
    let foreign = Tensor::from_array(&other, &values)?;
    let mut plan = model.plan(&home, program.shape, &Options::default())?;
    if part == Part::Loading {
        return Ok(Vec::new());
    }
    let mut y = plan.output()?;
    let start = home.record()?;
    plan.execute(&foreign, &mut y)?;
    let mut results = vec![y.to_array::<f32>()?];
    let mut pinned = PinnedArray::<f32>::zeros(&device, program.shape)?;
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

fn every_call_of_program(index: usize, test: &str) {
    let Some(script) = scripted(&format!("campaign::presets::{test}")) else {
        return;
    };
    every_call_in(&script, &presets()[index].clone().into());
}

#[test]
fn every_call_may_fail_in_one_launch_from_ptx() {
    every_call_of_program(0, "every_call_may_fail_in_one_launch_from_ptx");
}

#[test]
fn every_call_may_fail_in_one_launch_from_machine_code() {
    every_call_of_program(1, "every_call_may_fail_in_one_launch_from_machine_code");
}

#[test]
fn every_call_may_fail_for_any_shape() {
    every_call_of_program(2, "every_call_may_fail_for_any_shape");
}

#[test]
fn every_call_may_fail_without_pools() {
    every_call_of_program(3, "every_call_may_fail_without_pools");
}

#[test]
fn a_run_on_a_warm_device_does_what_the_first_did() {
    let Some(script) =
        scripted("campaign::presets::a_run_on_a_warm_device_does_what_the_first_did")
    else {
        return;
    };
    for (index, program) in presets().map(Program::from).iter().enumerate() {
        let ordinal = 4 * index as u32 + program.kind;
        let first = Clean::of(&script, program, Part::Whole, ordinal);
        println!(
            "{}: {:?}\n{}{}",
            program.name, first.counts, first.log, first.alive
        );
        let second = Clean::of(&script, program, Part::Whole, ordinal);
        assert!(first.log.lines().count() > 5, "{}", first.log);
        assert_eq!((&first.log, &first.alive), (&second.log, &second.alive));
        assert_eq!(first.results, second.results);
    }
}

/// On devices that find what their linker made before.
#[test]
fn every_call_may_fail_with_kernels_that_were_kept() {
    let test = "campaign::presets::every_call_may_fail_with_kernels_that_were_kept";
    let Some(script) = in_child() else {
        let folder = tempfile::tempdir().unwrap();
        let output = child(test).env("CONVFUSE_CACHE", folder.path()).output();
        return expect_passed(&output.expect("the child starts"));
    };
    let [_, _, _, preset] = presets();
    let program = Program::from(Preset {
        name: "79 for any shape, from the cache",
        kind: 0,
        ..preset
    });
    // A device that no other run uses.
    let first = Clean::of(&script, &program, Part::Loading, super::peer(0));
    let second = Clean::of(&script, &program, Part::Loading, super::peer(4));
    let links = |clean: &Clean| {
        clean
            .counts
            .iter()
            .any(|(name, _)| name == "cuLinkComplete")
    };
    assert!(links(&first) && !links(&second));
    every_call_in(&script, &program);
}
