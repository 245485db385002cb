//! Generic kernels: their labels select instances, which are launched like any other kernel.

use cuda_std::emulator::{Device, Launch};
use cuda_std::global::GlobalMut;
use cuda_std::{Label, Storage, f16, kernel, thread};

use super::support::{download, faults, run_clean, shape};

/// The factor by which an instance multiplies the thread's number.
trait Factor {
    const FACTOR: u32;
}

macro_rules! factors {
    ($($name:ident: $factor:literal;)+) => {
        $(struct $name;

        impl Factor for $name {
            const FACTOR: u32 = $factor;
        })+
    };
}

factors! { Once: 1; Thrice: 3; }

/// The smallest width has a list of its own with fewer values.
#[kernel(
    instances(W: [1], T: [f32], F: [once: Once]),
    #[cfg(not(target_arch = "nvptx64"))]
    instances(W: [2, wide: { 1 << 2 }], T: [f16, #[cfg(any())] absent: Absent], F: [once: Once, thrice: Thrice]),
    max_threads = 32 * F::FACTOR,
    min_blocks = W,
)]
unsafe fn multiples<F: Factor, T: Storage, const W: u32>(y: *mut T, len: u32) {
    unsafe {
        let i = thread::index_1d();
        if i < len {
            let value = T::from_f32((W * F::FACTOR * i) as f32);
            GlobalMut::new(y, len as usize).store(i as usize, value);
        }
    }
}

#[kernel]
unsafe fn plain(y: *mut u32) {
    unsafe { GlobalMut::new(y, 1).store(0, 7) }
}

#[test]
fn a_family_has_the_instances_of_its_lists() {
    let names: Vec<_> = MULTIPLES.instances().iter().map(|one| one.name()).collect();
    assert_eq!(
        names,
        [
            "multiples_w1_f32_once",
            "multiples_w2_f16_once",
            "multiples_w2_f16_thrice",
            "multiples_wide_f16_once",
            "multiples_wide_f16_thrice",
        ]
    );
    assert_eq!(MULTIPLES.name(), "multiples");
}

#[test]
fn an_instance_is_picked_by_its_labels_and_knows_its_bounds() {
    let labels = [
        Label::Name("wide"),
        Label::Name("f16"),
        Label::Name("thrice"),
    ];
    let instance = MULTIPLES.instance(&labels).unwrap();
    assert_eq!(instance.labels(), labels);
    let bounds = instance.bounds();
    assert_eq!((bounds.max_threads, bounds.min_blocks), (Some(96), Some(4)));
    assert_eq!(bounds.cluster_blocks, None);
}

#[test]
fn labels_that_no_instance_has_are_an_error_that_names_them() {
    let error = MULTIPLES
        .instance(&[Label::Number(1), "f16".into(), "once".into()])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "multiples: no instance has the labels 1, f16, once"
    );
    assert!(MULTIPLES.instance(&[Label::Number(1)]).is_err());
}

#[test]
fn an_instance_that_was_picked_once_runs_as_its_type_does() {
    let device = Device::new();
    let y = device.alloc(2 * 32).unwrap();
    let instance = MULTIPLES
        .instance(&[2.into(), "f16".into(), "thrice".into()])
        .unwrap();
    for _ in 0..2 {
        let launch = shape(1, 32);
        unsafe { device.launch_instance(instance, &launch, (y.ptr(), 32)) }.unwrap();
    }
    let picked = download::<f16>(&y);
    assert_eq!(picked[31].to_f32(), 186.0);
    run_clean::<multiples<Thrice, f16, 2>>(&device, &shape(1, 32), (y.ptr(), 32));
    assert_eq!(download::<f16>(&y), picked);
}

#[test]
fn a_launch_is_held_to_the_bounds_of_its_instance() {
    let device = Device::new();
    let y = device.alloc(4 * 64).unwrap();
    let fault = unsafe { device.launch::<multiples<Once, f32, 1>>(&shape(1, 64), (y.ptr(), 64)) }
        .unwrap_err();
    faults! { fault => Launch; }
    assert_eq!(fault.kernel, Some("multiples_w1_f32_once"));
}

#[test]
fn a_kernel_that_is_not_generic_is_a_family_of_one_without_labels() {
    let device = Device::new();
    let y = device.alloc(4).unwrap();
    let instance = PLAIN.instance(&[]).unwrap();
    let launch = Launch::default();
    unsafe { device.launch_instance(instance, &launch, (y.ptr(),)) }.unwrap();
    assert_eq!(download::<u32>(&y), [7]);
}
