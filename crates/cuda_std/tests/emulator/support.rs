//! Helpers that transfer arrays and launch kernels.

use cuda_std::Kernel;
use cuda_std::element::Element;
use cuda_std::emulator::{Buffer, Device, Fault, FaultKind, Launch, Stats};

/// Checks that each fault has one of these kinds, some with these fields, and that its message has all
/// these texts.
macro_rules! faults {
    () => {};
    ($fault:expr => $said:literal $(, $more:expr)*; $($rest:tt)*) => {{
        $crate::support::assert_says(&$fault, &[$said $(, $more)*]);
        faults! { $($rest)* }
    }};
    (
        $fault:expr => $($kind:ident $(($($field:ident: $value:pat),+))?)|+ $(, $said:expr)*;
        $($rest:tt)*
    ) => {{
        use cuda_std::emulator::{Fault, FaultKind};
        let fault: &Fault = &$fault;
        let is_kind = matches!(fault.kind, $(FaultKind::$kind { $($($field: $value,)+)? .. })|+);
        assert!(is_kind, "{fault}");
        $crate::support::assert_says(fault, &[$($said),*]);
        faults! { $($rest)* }
    }};
}
pub(crate) use faults;

/// Checks that a fault's message contains all these texts.
#[track_caller]
pub(crate) fn assert_says(fault: &Fault, said: &[&str]) {
    let text = fault.to_string();
    assert!(said.iter().all(|said| text.contains(said)), "{text}");
}

/// Small integers, which every format holds exactly.
pub(crate) fn pattern(count: usize, seed: usize) -> Vec<f32> {
    let value = |i| ((i * 7 + seed + i / 5) % 13) as f32 - 6.0;
    (0..count).map(value).collect()
}

/// An allocation that holds `values`.
pub(crate) fn upload<T: Element>(device: &Device, values: &[T]) -> Buffer {
    let buffer = device.alloc(size_of_val(values)).expect("memory");
    // SAFETY: elements are plain bits without padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
    buffer.write(0, bytes).expect("the sizes agree");
    buffer
}

/// Returns the contents of the whole allocation.
pub(crate) fn download<T: Element + Default>(buffer: &Buffer) -> Vec<T> {
    let mut values = vec![T::default(); buffer.len() / size_of::<T>()];
    let (pointer, len) = (values.as_mut_ptr().cast(), size_of_val(&*values));
    // SAFETY: elements are plain bits, of which all patterns are valid.
    let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, len) };
    buffer.read(0, bytes).expect("all written");
    values
}

/// The problem `A * B^T` with `rows` by `columns` dot products of `k` small integers.
pub(crate) struct Product {
    pub(crate) a: Vec<f32>,
    pub(crate) b: Vec<f32>,
    columns: usize,
    k: usize,
}

impl Product {
    pub(crate) fn new(rows: usize, columns: usize, k: usize) -> Self {
        let (a, b) = (pattern(rows * k, 1), pattern(columns * k, 2));
        Self { a, b, columns, k }
    }

    /// Checks that `c` is the product multiplied by `times`, plus `added`.
    #[track_caller]
    pub(crate) fn assert_eq(&self, what: &str, c: &Buffer, times: f32, added: f32) {
        for (at, &value) in download::<f32>(c).iter().enumerate() {
            let (row, column) = (at / self.columns, at % self.columns);
            let of = |of: &[f32], line: usize, k: usize| of[line * self.k + k];
            let terms = (0..self.k).map(|k| of(&self.a, row, k) * of(&self.b, column, k));
            let expected = times * terms.sum::<f32>() + added;
            assert_eq!(value, expected, "{what}: {row} {column}");
        }
    }
}

/// Returns the shape of `blocks` blocks of `threads` threads. A kernel that crashes fails only its own
/// test.
pub(crate) fn shape(blocks: u32, threads: u32) -> Launch {
    Launch {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        catch_signals: true,
        ..Launch::default()
    }
}

/// Launches in natural order and in several shuffled ones, and requires all to succeed.
pub(crate) fn run_clean<K: Kernel>(device: &Device, launch: &Launch, arguments: K::Args) -> Stats {
    let mut stats = Stats::default();
    for seed in [None, Some(1), Some(2), Some(3)] {
        let launch = Launch {
            seed,
            ..launch.clone()
        };
        stats = unsafe { device.launch::<K>(&launch, arguments) }
            .unwrap_or_else(|fault| panic!("seed {seed:?}: {fault}"));
    }
    stats
}

/// Launches in natural order and in several shuffled ones, requires all to fail, and returns the first
/// fault.
pub(crate) fn run_faulty<K: Kernel>(device: &Device, launch: &Launch, arguments: K::Args) -> Fault {
    let faults: Vec<Fault> = [None, Some(1), Some(2), Some(3)]
        .map(|seed| {
            let launch = Launch {
                seed,
                ..launch.clone()
            };
            let fault =
                unsafe { device.launch::<K>(&launch, arguments) }.expect_err("the bug was missed");
            assert_eq!(fault.kernel, Some(K::NAME));
            fault
        })
        .into();
    faults.into_iter().next().expect("four launches")
}

/// [`run_faulty`] for races: requires that the fault names the source lines of both accesses.
pub(crate) fn run_racy<K: Kernel>(device: &Device, launch: &Launch, arguments: K::Args) -> Fault {
    let fault = run_faulty::<K>(device, launch, arguments);
    let FaultKind::Race { earlier, .. } = &fault.kind else {
        panic!("no race: {fault}")
    };
    assert!(
        fault.location.is_some() && earlier.location.is_some(),
        "{fault}"
    );
    assert_ne!(Some(earlier.thread), fault.thread, "{fault}");
    fault
}
