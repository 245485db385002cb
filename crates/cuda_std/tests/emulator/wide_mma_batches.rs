//! MMA batches of 128 and 256 columns with both operands in shared memory, in a pipeline of two stages.

use crate::support::{download, faults, pattern, shape, upload};
use cuda_std::async_proxy;
use cuda_std::emulator::{Device, Fault, Launch};
use cuda_std::mbarrier::{Barrier, copy_bulk};
use cuda_std::mma::{pack_bf16x2, pack_f16x2};
use cuda_std::prelude::*;
use cuda_std::wgmma::{self, MatrixDescriptor, unit};

/// Rows of A: 64 for each of two warpgroups. A round multiplies `STEPS` steps of K = 16, which fill one
/// stage.
const ROWS: usize = 128;
const ROUNDS: usize = 5;
const STEPS: usize = 3;
const K: usize = 16 * STEPS;
const STAGES: u32 = 2;
const CONSUMERS: u32 = 256;
const THREADS: u32 = CONSUMERS + 32;

/// Units of a line (a row of A or a column of B) in a stage.
const HALVES: usize = 2 * STEPS;

shared_array! {
    static STAGE_ROWS: [u32; STAGES as usize * ROWS * K / 2];
    static STAGE_COLUMNS: [u32; STAGES as usize * 256 * K / 2];
    static SIGNALS: [u64; 2 * STAGES as usize];
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// A stage is released before the wait for the batch that reads it, by all consumers or by one warp.
    GivenBackEarly,
    OneWarpGivesBackEarly,
    /// The wait leaves its own batch in flight.
    WeakWait,
    /// The start of one operand is beyond the range of a descriptor.
    FarStart,
    /// A starts between two units.
    OddStart,
    /// A starts beyond the shared memory.
    Outside,
    /// A consumer writes a row of its own stage before the wait.
    WritesItsRow,
    /// Correct: a consumer reads a part of a word of that row.
    ReadsItsRow,
}

/// The batch, which differs between widths.
trait Width {
    const COLUMNS: usize;
    type Sums: AsRef<[f32]>;
    type Batch;
    fn zeros() -> Self::Batch;
    unsafe fn add(
        batch: Self::Batch,
        a: &[MatrixDescriptor; STEPS],
        b: &[MatrixDescriptor; STEPS],
    ) -> Self::Batch;
    unsafe fn wait_for_older<const LEFT: u32>(batch: &Self::Batch);
    unsafe fn wait<const LEFT: u32>(batch: Self::Batch) -> Self::Sums;
    fn pack(low: f32, high: f32) -> u32;
}

macro_rules! width {
    ($name:ident, $columns:literal, $add:ident, $pack:ident) => {
        struct $name;

        impl Width for $name {
            const COLUMNS: usize = $columns;
            type Sums = [f32; $columns / 2];
            type Batch = wgmma::InFlight<{ $columns / 2 }>;

            fn zeros() -> Self::Batch {
                wgmma::InFlight::at_rest([0.0; $columns / 2])
            }

            #[track_caller]
            unsafe fn add(
                batch: Self::Batch,
                a: &[MatrixDescriptor; STEPS],
                b: &[MatrixDescriptor; STEPS],
            ) -> Self::Batch {
                unsafe { wgmma::$add(batch, a, b) }
            }

            #[track_caller]
            unsafe fn wait_for_older<const LEFT: u32>(batch: &Self::Batch) {
                unsafe { batch.wait_for_older::<LEFT>() }
            }

            #[track_caller]
            unsafe fn wait<const LEFT: u32>(batch: Self::Batch) -> Self::Sums {
                unsafe { batch.wait::<LEFT>() }
            }

            fn pack(low: f32, high: f32) -> u32 {
                $pack(low, high)
            }
        }
    };
}
width!(F16N128, 128, add_shared_n128_f16_3, pack_f16x2);
width!(Bf16N128, 128, add_shared_n128_bf16_3, pack_bf16x2);
width!(F16N256, 256, add_shared_n256_f16_3, pack_f16x2);
width!(Bf16N256, 256, add_shared_n256_bf16_3, pack_bf16x2);

/// Returns the descriptors of the steps of a tile of `lines` rows or columns in a stage. Core matrices are
/// consecutive along the lines, then along K.
fn steps(first: u32, lines: usize) -> [MatrixDescriptor; STEPS] {
    let first = MatrixDescriptor::new(first, lines as u32);
    std::array::from_fn(|step| first.offset((2 * step * lines) as u32))
}

/// `C = A * B^T`, in rounds. One producer thread loads rows and columns into two stages, and two warpgroups
/// multiply 64 rows each.
#[kernel(instances(W: [
    n128_f16: F16N128, n128_bf16: Bf16N128, n256_f16: F16N256, n256_bf16: Bf16N256
]), max_threads = THREADS)]
unsafe fn wide<W: Width>(a: *const u32, b: *const u32, c: *mut f32, bug: Bug) {
    unsafe {
        let (a_words, b_words) = (ROWS * K / 2, W::COLUMNS * K / 2);
        let a = Global::new(a, ROUNDS * a_words);
        let b = Global::new(b, ROUNDS * b_words);
        let c = GlobalMut::new(c, ROWS * W::COLUMNS);
        let (rows, columns, signals) = (STAGE_ROWS.view(), STAGE_COLUMNS.view(), SIGNALS.view());
        let t = thread::thread_idx_x();
        let full = |stage| Barrier::at(signals, stage);
        let empty = |stage| Barrier::at(signals, STAGES + stage);
        if t == 0 {
            for stage in 0..STAGES {
                full(stage).init(1);
                empty(stage).init(CONSUMERS / 32);
            }
            async_proxy::fence_shared();
        }
        thread::sync_threads();
        if t >= CONSUMERS {
            if t > CONSUMERS {
                return;
            }
            for round in 0..ROUNDS {
                let (stage, phase) = (round as u32 % STAGES, (round as u32 / STAGES) & 1);
                empty(stage).wait(phase ^ 1);
                full(stage).arrive_expect(4 * (a_words + b_words) as u32);
                let at = rows.addr(stage * a_words as u32);
                copy_bulk(at, a, round * a_words, 4 * a_words as u32, full(stage));
                let at = columns.addr(stage * b_words as u32);
                copy_bulk(at, b, round * b_words, 4 * b_words as u32, full(stage));
            }
            return;
        }
        let group = t as usize / 128;
        let mut batch = W::zeros();
        for round in 0..ROUNDS {
            let (stage, phase) = (round as u32 % STAGES, (round as u32 / STAGES) & 1);
            full(stage).wait(phase);
            let mut first_row = unit(rows.addr(stage * a_words as u32)) + 64 * group as u32;
            if bug == Bug::OddStart && round == 1 {
                first_row = unit(rows.addr(stage * a_words as u32 + 1));
            }
            if bug == Bug::FarStart && round == 1 {
                first_row += 1 << 14;
            }
            if bug == Bug::Outside && round == 1 {
                first_row += 0x3000;
            }
            let a = steps(first_row, ROWS);
            let b = steps(unit(columns.addr(stage * b_words as u32)), W::COLUMNS);
            batch = W::add(batch, &a, &b);
            if bug == Bug::WritesItsRow && round == 2 && t == 0 {
                rows.store(stage * a_words as u32, 0);
            }
            if bug == Bug::ReadsItsRow && round == 2 && t == 0 {
                let _ = rows.cast::<u16>().load(2 * stage * a_words as u32);
            }
            // The previous round's stage is no longer read.
            let early = match bug {
                Bug::GivenBackEarly => true,
                Bug::OneWarpGivesBackEarly => t / 32 == 5,
                _ => false,
            };
            if !early {
                W::wait_for_older::<1>(&batch);
            }
            if round > 0 && t.is_multiple_of(32) {
                empty((round as u32 - 1) % STAGES).arrive();
            }
        }
        let sums = if bug == Bug::WeakWait {
            W::wait::<1>(batch)
        } else {
            W::wait::<0>(batch)
        };
        let (warp, lane) = (t as usize / 32, t as usize % 32);
        for (i, &value) in sums.as_ref().iter().enumerate() {
            let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
            let column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
            c.store(row * W::COLUMNS + column, value);
        }
    }
}

/// Packs a round's rows or columns of K values in the layout of a stage.
fn packed(values: &[f32], lines: usize, pack: fn(f32, f32) -> u32) -> Vec<u32> {
    let mut words = Vec::new();
    for round in values.chunks_exact(lines * K) {
        for half in 0..HALVES {
            for line in round.chunks_exact(K) {
                let values = line[8 * half..8 * half + 8].chunks_exact(2);
                words.extend(values.map(|pair| pack(pair[0], pair[1])));
            }
        }
    }
    words
}

/// Launches an instance in natural and shuffled orders, and returns the stored values or the fault of each.
fn launches<W: Width>(label: &'static str, bug: Bug) -> Vec<Result<Vec<f32>, Fault>> {
    let device = Device::new();
    let a = pattern(ROUNDS * ROWS * K, 1);
    let b = pattern(ROUNDS * W::COLUMNS * K, 2);
    let a = upload(&device, &packed(&a, ROWS, W::pack));
    let b = upload(&device, &packed(&b, W::COLUMNS, W::pack));
    let c = device.alloc(4 * ROWS * W::COLUMNS).unwrap();
    let kernel = WIDE.instance(&[label.into()]).unwrap();
    let one = |seed| {
        let launch = Launch {
            seed,
            ..shape(1, THREADS)
        };
        let arguments = (
            a.ptr::<u32>().cast_const(),
            b.ptr::<u32>().cast_const(),
            c.ptr(),
            bug,
        );
        unsafe { device.launch_instance(kernel, &launch, arguments) }?;
        Ok(download::<f32>(&c))
    };
    [None, Some(1), Some(2)].map(one).into()
}

fn multiplies<W: Width>(label: &'static str) {
    let a = pattern(ROUNDS * ROWS * K, 1);
    let b = pattern(ROUNDS * W::COLUMNS * K, 2);
    for c in launches::<W>(label, Bug::None) {
        let c = c.unwrap_or_else(|fault| panic!("{label}: {fault}"));
        for row in 0..ROWS {
            for column in 0..W::COLUMNS {
                let product = |round: usize, k: usize| {
                    a[(round * ROWS + row) * K + k] * b[(round * W::COLUMNS + column) * K + k]
                };
                let of_round = |round| (0..K).map(|k| product(round, k)).sum::<f32>();
                let expected: f32 = (0..ROUNDS).map(of_round).sum();
                assert_eq!(
                    c[row * W::COLUMNS + column],
                    expected,
                    "{label}: {row} {column}"
                );
            }
        }
    }
}

#[test]
fn batches_of_128_columns_multiply_stages_that_are_refilled() {
    multiplies::<F16N128>("n128_f16");
    multiplies::<Bf16N128>("n128_bf16");
}

#[test]
fn batches_of_256_columns_multiply_stages_that_are_refilled() {
    multiplies::<F16N256>("n256_f16");
    multiplies::<Bf16N256>("n256_bf16");
}

/// The read splits shadow cells while a batch that started before is in flight.
#[test]
fn parts_of_words_may_be_read_while_a_batch_reads_them() {
    for launch in launches::<F16N128>("n128_f16", Bug::ReadsItsRow) {
        launch.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn mistakes_around_batches_in_flight_are_reported() {
    use Bug::*;
    let bugs = [
        GivenBackEarly,
        OneWarpGivesBackEarly,
        WeakWait,
        FarStart,
        OddStart,
        Outside,
        WritesItsRow,
    ];
    for bug in bugs {
        let [narrow, broad] = ["n128_f16", "n256_f16"];
        let all = launches::<F16N128>(narrow, bug)
            .into_iter()
            .chain(launches::<F16N256>(broad, bug));
        for fault in all.map(|launch| launch.expect_err("the bug was missed")) {
            match bug {
                GivenBackEarly | WritesItsRow => faults! { fault => Race | InFlight; },
                OneWarpGivesBackEarly => faults! { fault => Race | InFlight | Warp; },
                WeakWait => faults! { fault => Argument, "does not wait for it"; },
                OddStart => faults! { fault => "a matrix starts on 16 bytes"; },
                FarStart => faults! { fault => "is too large"; },
                _ => faults! { fault => "is no address in this block's shared memory"; },
            }
        }
    }
}
