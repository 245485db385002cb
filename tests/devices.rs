//! Devices and tensors: properties and refusals.

use convfuse::spec::ClampSpec;
use convfuse::{Carried, DType, Device, Error, Tensor, data, lab, ops};
use launch_config::LaunchShape;
use launch_config::elementwise::BLOCK_THREADS;
use launch_config::pointwise::{Function, PointwiseList, Step};
use libtest_mimic::Trial;
use ndarray::{Array2, array};

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test(
            "devices::any::refuse_an_ordinal_that_is_not_there",
            wrong_ordinal,
        ),
        Trial::test("devices::any::refuse_to_mix", mixed_devices),
        Trial::test("devices::any::best_is_never_an_error", best),
    ];
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "devices",
        &[
            ("tell_what_they_are", info),
            ("keep_what_arrays_hold", round_trip),
            ("read_arrays_in_any_layout", layouts),
            ("refuse_an_array_of_another_type", wrong_array),
            ("survive_running_out_of_memory", out_of_memory),
            ("hold_tensors_of_nothing", empty),
        ],
    ));
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "devices",
        &[
            ("check_launches_before_they_happen", launch_contract),
            ("count_launches_bytes_and_memory", counters),
            ("use_freed_memory_again", reuse),
        ],
    ));
    let emulator = Backend::Emulator;
    trials.push(emulator.trial("devices", "report_a_kernel_out_of_bounds_and_go_on", fault));
    trials
}

fn wrong_ordinal() -> Outcome {
    match Device::gpu(1000) {
        Err(Error::NoSuchDevice {
            ordinal: 1000,
            count,
        }) => says(
            Device::gpu(1000).map(drop),
            &format!(
                "gpu: ordinal is 1000, but the driver sees {count} device(s), numbered from 0"
            ),
        ),
        Err(Error::NoDriver { reason }) => {
            assert!(!reason.is_empty());
            Ok(())
        }
        other => Err(format!("gave {other:?}").into()),
    }
}

fn best() -> Outcome {
    let device = Device::best();
    assert_eq!(device.is_gpu(), Device::gpu(0).is_ok());
    let x = Tensor::from_array(&device.stream()?, &array![3.0f32])?;
    let y = ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?;
    assert_eq!(y.to_array::<f32>()?[[0]], 1.0);
    Ok(())
}

fn mixed_devices() -> Outcome {
    let (cpu, emulator) = (Device::cpu().stream()?, Device::emulator().stream()?);
    let x = Tensor::from_array(&emulator, &Array2::<f32>::ones((2, 3)))?;
    let factors = Tensor::from_array(&cpu, &array![1.0f32, 2.0, 3.0])?;
    says(
        ops::scale(&x, &factors),
        "scale: scale is on cpu, must be on emulator",
    )?;
    says(x.on(&cpu), "on: the tensor is on emulator, must be on cpu")
}

fn info(backend: Backend) -> Outcome {
    let info = backend.device()?.info();
    assert!(!info.name.is_empty() && info.processors > 0);
    assert_eq!(info.compute_capability.is_some(), backend == Backend::Gpu);
    assert_eq!(info.module.is_some(), backend == Backend::Gpu);
    assert_eq!(info.context_time.is_some(), backend == Backend::Gpu);
    let ptx = |carried: &&Carried| carried.what == "PTX" && carried.kernels > 100;
    assert_eq!(info.carried.iter().filter(ptx).count(), 2);
    if let (Some(capability), Some(module)) = (info.compute_capability, info.module) {
        assert!(
            capability >= (8, 0)
                && info.memory_bytes > Some(1 << 30)
                && info.driver_version >= Some((11, 0))
        );
        assert_eq!(module == "sm_90a", capability == (9, 0));
    }
    assert!(info.to_string().lines().count() >= 3);
    Ok(())
}

fn round_trip(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let values = data::normal(1, (3, 5, 7));
    let tensor = Tensor::from_array(&stream, &values)?;
    assert_eq!(tensor.to_array::<f32>()?, values.clone().into_dyn());
    for dtype in [DType::F16, DType::BF16] {
        let tensor = Tensor::from_f32_array(&stream, &values, dtype)?;
        let once = tensor.to_f32_array()?;
        let twice = Tensor::from_f32_array(&stream, &once, dtype)?.to_f32_array()?;
        assert_eq!(once, twice, "{dtype}: rounding twice is rounding once");
        assert!(
            once.iter()
                .zip(&values)
                .all(|(got, want)| (got - want).abs() <= want.abs() / 256.0)
        );
    }
    assert!(
        Tensor::zeros(&stream, &[4, 9], DType::F32)?
            .to_array::<f32>()?
            .iter()
            .all(|&value| value == 0.0)
    );
    Ok(())
}

fn layouts(backend: Backend) -> Outcome {
    let values = data::signed(1, (6, 10));
    let view = values.slice(ndarray::s![..;-2, 1..;3]);
    let transposed = view.t();
    for array in [view, transposed] {
        let tensor = Tensor::from_array(&backend.stream()?, &array)?;
        assert_eq!(tensor.to_array::<f32>()?, array.to_owned().into_dyn());
    }
    Ok(())
}

fn wrong_array(backend: Backend) -> Outcome {
    let tensor = Tensor::zeros(&backend.stream()?, &[2], DType::BF16)?;
    says(
        tensor.to_array::<f32>(),
        "to_array: the tensor is bf16, must be f32",
    )
}

fn out_of_memory(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let kept = Tensor::from_array(&stream, &array![1.0f32, 2.0])?;
    // More than any machine has, more than the address space, and more than a usize can count.
    for shape in [&[1usize << 44][..], &[1 << 62], &[usize::MAX, 2]] {
        let refused = Tensor::zeros(&stream, shape, DType::F32);
        let typed = match backend {
            // The emulator has its own limit and its own error.
            Backend::Emulator => {
                matches!(refused, Err(Error::OutOfMemory { .. } | Error::Emulator(_)))
            }
            _ => matches!(refused, Err(Error::OutOfMemory { .. })),
        };
        assert!(typed, "{shape:?}: {refused:?}");
    }
    let y = ops::clamp(&kept, &ClampSpec::new(0.0, 1.5))?;
    assert_eq!(y.to_array::<f32>()?, array![1.0, 1.5].into_dyn());
    Ok(())
}

fn empty(backend: Backend) -> Outcome {
    let x = Tensor::zeros(&backend.stream()?, &[0, 3, 4], DType::F32)?;
    assert!(x.is_empty());
    let y = ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?;
    assert_eq!(y.to_array::<f32>()?.shape(), [0, 3, 4]);
    Ok(())
}

/// Launches a clamp with an incorrect launch shape.
fn launch_clamp(
    backend: Backend,
    shape: LaunchShape,
    claimed: u64,
) -> Result<convfuse::Result<()>, libtest_mimic::Failed> {
    let stream = backend.stream()?;
    let mut output = Tensor::zeros(&stream, &[1], DType::F32)?;
    let list = PointwiseList::of(Step::new(Function::Clamp, [0.0, 1.0, 0.0]));
    let kernel = kernels_gpu::pointwise::POINTWISE
        .instance(&["f32".into()])
        .map_err(|error| error.to_string())?;
    // SAFETY: null pointers, but on a GPU every caller's shape is refused before the kernel could use them,
    // and the emulator reports their use.
    Ok(unsafe {
        lab::launch(&stream, kernel, shape, None, &mut output, |_, _| {
            (std::ptr::null(), std::ptr::null_mut(), claimed, list)
        })
    })
}

fn launch_contract(backend: Backend) -> Outcome {
    let launch = |grid, block, shared_bytes| {
        launch_clamp(
            backend,
            LaunchShape {
                grid,
                block,
                shared_bytes,
                cluster_blocks: 1,
            },
            4,
        )
    };
    let block = [BLOCK_THREADS, 1, 1];
    says(
        launch([1, 1, 1], [BLOCK_THREADS * 2, 1, 1], 0)?,
        "pointwise_f32: block [512, 1, 1] has 512 threads, limit 256 (the kernel's max_threads)",
    )?;
    says(
        launch([1, 0, 1], block, 0)?,
        "pointwise_f32: grid extent y is 0, must be 1 to 65535",
    )?;
    says(
        launch([1, 1, 70_000], block, 0)?,
        "pointwise_f32: grid extent z is 70000, must be 1 to 65535",
    )?;
    let shared = launch([1, 1, 1], block, 1 << 20)?;
    assert!(matches!(shared, Err(Error::Launch(_))), "{shared:?}");
    Ok(())
}

fn fault(backend: Backend) -> Outcome {
    let shape = LaunchShape {
        grid: [1, 1, 1],
        block: [BLOCK_THREADS, 1, 1],
        shared_bytes: 0,
        cluster_blocks: 1,
    };
    let result = launch_clamp(backend, shape, 4)?;
    let Err(Error::Emulator(fault)) = result else {
        return Err(format!("gave {result:?}").into());
    };
    assert!(fault.to_string().contains("pointwise_f32"), "{fault}");
    best()
}

fn counters(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (2, 4, 8)))?;
    stream.take_counts();
    let y = ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?;
    let z = ops::clamp(&y, &ClampSpec::new(0.0, 0.5))?;
    drop(y);
    let counts = stream.take_counts();
    assert_eq!(counts.launches, 2);
    assert_eq!(counts.bytes_moved, 4 * x.bytes());
    assert_eq!(counts.peak_bytes, 2 * x.bytes());
    drop(z);
    assert_eq!(stream.take_counts(), convfuse::Counts::default());
    Ok(())
}

fn reuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (64, 1024)))?;
    let wanted = x.to_array::<f32>()?.mapv(|value| value.clamp(0.0, 1.0));
    // A leak of one output per round would be a quarter of a gigabyte at the end.
    for _ in 0..if backend == Backend::Gpu { 1000 } else { 3 } {
        let y = ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?;
        drop(y);
    }
    assert_eq!(
        ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?.to_array::<f32>()?,
        wanted
    );
    assert_eq!(stream.take_counts().peak_bytes, 2 * x.bytes());
    Ok(())
}
