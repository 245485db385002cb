//! Several threads open devices and load kernels.

use convfuse::spec::ClampSpec;
use convfuse::{Result, Stream, Tensor, ops};
use shuttle::thread;

use super::{device, explore};
use crate::things::{WITH_POOLS, array, holds, tensor, zeros};

#[test]
fn a_device_is_opened_once() {
    explore(1000, |script| {
        let devices = thread::scope(|scope| {
            let open = || device();
            let threads = [scope.spawn(open), scope.spawn(open), scope.spawn(open)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(devices.iter().all(|device| *device == devices[0]));
        let alive = script.alive(WITH_POOLS);
        assert_eq!(alive, "contexts: 1\npools: 1\n");
    });
}

/// Several threads need two kernels, in different orders.
#[test]
fn a_kernel_is_loaded_once_and_nobody_waits_for_ever() {
    explore(40, |script| {
        let device = device();
        let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
        thread::scope(|scope| {
            for order in [[0, 1], [1, 0], [0, 1]] {
                let device = &device;
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    for kernel in order {
                        launch(kernel, &stream).unwrap();
                    }
                });
            }
            let stream = device.stream().unwrap();
            let y = ops::clamp(&tensor(&stream, &ones), &ClampSpec::new(-2.0, 0.5)).unwrap();
            y.copy_to_pinned(&mut back).unwrap();
        });
        assert!(holds(&back, 0.5));
        assert_eq!(script.count("cuModuleGetFunction"), 2);
        assert_eq!(device.info().kernels.len(), 2);
    });
}

fn launch(kernel: usize, stream: &Stream) -> Result<Tensor> {
    let x = zeros(stream);
    match kernel {
        0 => ops::clamp(&x, &ClampSpec::new(-2.0, 2.0)),
        _ => ops::add(&x, &x),
    }
}

/// The first of several loads fails: its thread gets the error, and the others get the kernel.
#[test]
fn a_load_that_fails_fails_for_one_thread_alone() {
    explore(40, |script| {
        let device = device();
        script.fail("cuModuleGetFunction", 1, 304);
        let failed = thread::scope(|scope| {
            let load = || launch(0, &device.stream().unwrap()).is_err();
            let threads = [scope.spawn(load), scope.spawn(load), scope.spawn(load)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(failed.iter().filter(|&&failed| failed).count(), 1);
        assert_eq!(script.count("cuModuleGetFunction"), 2);
        assert!(script.alive(WITH_POOLS).contains("modules: 1\n"));
    });
}
