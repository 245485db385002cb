//! Matrix multiplication by a warpgroup: MMA batches of `wgmma` (sm_90a).
//!
//! A warpgroup is four adjacent warps, the first of which has a number divisible by four. Each function
//! multiplies 64 rows of A by columns of B over several MMA steps of K = 16 (of tf32, K = 8), with f32
//! accumulators. The steps between a fence and a commit are one `wgmma` group, here an *MMA batch*. B is in
//! shared memory. A is in the registers of the warpgroup, which halves the reads of shared memory, or in
//! shared memory too. Fence, steps and commit, and the wait of a synchronous function, are one block of
//! assembly. The compiler therefore cannot move anything between them.
//!
//! With `warp`, `quad = lane / 4` and `quad_lane = lane % 4` of a thread:
//!
//! | operand | element in register `i` of a thread: row, column |
//! |---|---|
//! | A of a step | half `h` of `a[i]`: `16 * warp + quad + 8 * (i % 2)`, `2 * quad_lane + h + 8 * (i / 2)` |
//! | the result | `d[i]`: `16 * warp + quad + 8 * (i / 2 % 2)`, `8 * (i / 4) + 2 * quad_lane + i % 2` |
//!
//! B of a step consists of *core matrices* in shared memory: eight columns of eight values of K, 16 bytes
//! for each column, 128 bytes in all. Core matrices of neighbouring columns follow each other, or are at a
//! constant distance. The two core matrices along K may be anywhere ([`MatrixDescriptor`]). In the
//! *swizzled* layout ([`MatrixLayout::swizzled`]) a column is 32 consecutive bytes within a span of 32, 64
//! or 128 bytes. Its 16-byte units are permuted: bit 4 of a unit's address is inverted if bit 7 is set, in
//! spans of 64 bytes and more bit 5 if bit 8 is set, and in spans of 128 bytes bit 6 if bit 9 is set.
//! Tensor cores then read eight columns at once without bank conflicts. [`crate::tensor_map::copy_box`]
//! writes this layout.
//!
//! A thread that writes B with ordinary stores must execute [`crate::async_proxy::fence_shared`] before the
//! barrier at which the readers wait.
//!
//! MMA batches of 64 columns, with 32 results for each thread, are asynchronous: one call starts a batch
//! ([`start_f16_5`]) or adds to an accumulator ([`add_f16_3`]), and another waits for it
//! ([`InFlight::wait`]). A warpgroup can thus work on one half of its columns while the tensor cores work on
//! the other.
//!
//! With A in shared memory too, in the layout of B, there are MMA batches of 64 columns
//! ([`add_shared_n64_f16_4`]), of 128 ([`start_shared_n128_f16_9`]) and of 256 ([`add_shared_n256_f16_3`]).
//! Their up to 128 accumulators for each thread would leave no registers for A. The widest instructions
//! keep the tensor cores busiest. A batch may be added to an accumulator that is still in flight, so the
//! tensor cores need not idle between two batches.
//!
//! **Emulator**: the 128 threads meet. It reports threads whose batches or addresses differ, and missing
//! threads. For B, and for A in shared memory, it reports:
//! - reads outside of the block's shared memory;
//! - stores without the fence for the asynchronous proxy;
//! - later stores that are not ordered after each warp's wait for the batch.
//!
//! It also reports a wait that does not cover its batch, threads of a warpgroup that waited for different
//! batches, and threads that end before a wait for their batches. Sums are as for [`crate::mma`], one
//! instruction after the other. A batch is executed at its start, but only [`InFlight::wait`] returns its
//! sums. Writes to the registers of A during a batch are not detected, because registers have no address.

use crate::backend;
use crate::shared::SharedAddr;

/// Distance between adjacent groups of eight columns of B in the dense layout, in 16-byte units.
const CORE_MATRIX_UNITS: u32 = 128 / UNIT_BYTES;

/// Bytes of the unit in which descriptors address matrices.
pub const UNIT_BYTES: u32 = 16;

/// The layout of B's columns, or of A's rows, in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct MatrixLayout {
    low: u32,
    high: u32,
}

impl MatrixLayout {
    /// The layout of core matrices without swizzle. The core matrix of the second half of K is `k_units`
    /// behind the core matrix of the first half. Consecutive groups of eight columns are `octet_units`
    /// apart. Both distances are in units of 16 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn apart(k_units: u32, octet_units: u32) -> Self {
        Self {
            low: k_units << 16,
            high: octet_units,
        }
    }

    /// The swizzled layout: each column is a line of `1 << shift` units of 16 bytes (two, four or eight),
    /// aligned to its size. Eight lines follow each other, and consecutive groups of eight lines start
    /// `octet_units` apart. A matrix starts at any pair of units of a line. With lines of eight units, each
    /// group of eight lines starts at a multiple of 1024 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn swizzled(shift: u32, octet_units: u32) -> Self {
        // Tensor cores ignore the distance along K. The highest bits select the swizzle: 3 for lines of 32
        // bytes, 2 for 64 and 1 for 128.
        Self {
            low: 1 << 16,
            high: octet_units | (4 - shift) << 30,
        }
    }
}

/// The position and layout of B, or of A, in one MMA step.
#[derive(Debug, Clone, Copy)]
pub struct MatrixDescriptor(u64);

impl MatrixDescriptor {
    /// Describes adjacent groups of columns. The first half of K starts at `first`, the second half
    /// `k_units` behind it. `first` is in 16-byte units from the start of the block's shared memory, as
    /// [`unit()`] returns it, and `k_units` in 16-byte units.
    #[must_use]
    #[inline(always)]
    pub const fn new(first: u32, k_units: u32) -> Self {
        Self::apart(first, k_units, CORE_MATRIX_UNITS)
    }

    /// Describes groups of eight columns at a distance of `octet_units`; otherwise as [`Self::new`].
    #[must_use]
    #[inline(always)]
    pub const fn apart(first: u32, k_units: u32, octet_units: u32) -> Self {
        Self::laid_out(first, MatrixLayout::apart(k_units, octet_units))
    }

    /// Describes a matrix with this layout whose first column starts at `first`, in 16-byte units.
    #[must_use]
    #[inline(always)]
    pub const fn laid_out(first: u32, layout: MatrixLayout) -> Self {
        Self((first + layout.low) as u64 | (layout.high as u64) << 32)
    }

    /// Returns the descriptor with the same layout, `units` units of 16 bytes further.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, units: u32) -> Self {
        Self(self.0 + units as u64)
    }
}

/// Converts a shared memory address to the units of a [`MatrixDescriptor`]. In a cluster, addresses of all
/// blocks but the first contain the block's rank in high bits. A descriptor has no room for these bits, so
/// they are removed.
#[must_use]
#[track_caller]
#[inline(always)]
pub const fn unit(address: SharedAddr) -> u32 {
    // On the device the remainder would be cut off silently.
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(
        address.0.is_multiple_of(UNIT_BYTES),
        "a matrix starts on 16 bytes"
    );
    (address.0 & 0x3_ffff) / UNIT_BYTES
}

/// An accumulator in flight: the result of an MMA batch that may not have completed. By default it has 64
/// columns.
#[derive(Debug)]
pub struct InFlight<const SUMS: usize = 32> {
    sums: [f32; SUMS],
    batch: backend::BatchNumber,
}

macro_rules! wait {
    ($($sums:literal, $wait:ident;)*) => {$(
        impl InFlight<$sums> {
            device_functions! {
                /// Waits until at most `LEFT` younger MMA batches are in flight, and returns the accumulator,
                /// with elements as above. `wgmma.wait_group.sync.aligned`.
                ///
                /// # Safety
                /// All threads of the warpgroup make this call. At least `LEFT` batches were started after
                /// this one, or an earlier wait has already covered it.
                #[must_use]
                unsafe fn wait[const LEFT: u32](self) -> [f32; $sums] = backend::$wait::<LEFT>(self.sums, self.batch);
            }
        }
    )*};
}

wait! {
    32, wait_batch_32;
    64, wait_batch_64;
    128, wait_batch_128;
}

impl<const SUMS: usize> InFlight<SUMS> {
    plain_functions! {
        /// Wraps an accumulator that is not in flight, to which an MMA batch may be added.
        #[must_use]
        fn at_rest(sums: [f32; SUMS]) -> Self = Self { sums, batch: backend::no_batch() };
    }

    device_functions! {
        /// Waits until at most `LEFT` MMA batches are in flight, which may include this one. The operands
        /// of older batches may be overwritten afterwards. `wgmma.wait_group.sync.aligned`.
        ///
        /// # Safety
        /// All threads of the warpgroup make this call.
        unsafe fn wait_for_older[const LEFT: u32](self: &Self) = backend::wait_older_batches::<LEFT>();
    }
}

/// Defines MMA batches, each by its name, type, columns, steps, location of A, accumulators per thread, and
/// the accumulator that it adds to.
macro_rules! batches {
    ($($name:ident, $ty:tt, $columns:literal, $steps:literal, $a:ident, $sums:literal
        $(, $given:ident: $given_ty:ty = $start:expr)?;)*) => {device_functions! {$(
        #[doc = concat!("Starts the sum over ", $steps, " steps of ", $ty, ", of ", $columns, " columns")]
        $(#[doc = concat!(", added to `", stringify!($given), "`")])?
        #[doc = concat!(", with A in ", batches!(@where $a), ".")]
        #[doc = concat!("`wgmma.mma_async.sync.aligned.m64n", $columns, "k", batches!(@k $ty), ".f32.", $ty, ".", $ty, "`.")]
        ///
        /// # Safety
        /// All threads of a warpgroup make this call, with the same `b`. The columns of B, and the rows of
        /// A in shared memory, were written and made visible as above. Until the wait no thread writes
        /// them, and the compiler has no reason to write the registers of A.
        #[must_use]
        unsafe fn $name($($given: $given_ty,)? a: &[batches!(@$a); $steps], b: &[MatrixDescriptor; $steps]) -> InFlight<$sums> =
            batches!(@$a $name, $sums, a, b $(, $start)?);
    )*}};
    (@k "tf32") => { "8" };
    (@k $ty:tt) => { "16" };
    (@where registers) => { "registers" };
    (@where shared) => { "shared memory" };
    (@registers) => { [u32; 4] };
    (@shared) => { MatrixDescriptor };
    (@registers $name:ident, $sums:literal, $a:ident, $b:ident $(, $start:expr)?) => {{
        let sums = backend::$name($($start,)? $a, &$b.map(|columns| columns.0));
        InFlight { sums, batch: backend::newest_batch() }
    }};
    (@shared $name:ident, $sums:literal, $a:ident, $b:ident) => {
        batches!(@shared $name, $sums, $a, $b, const { [0.0; $sums] })
    };
    (@shared $name:ident, $sums:literal, $a:ident, $b:ident, $start:expr) => {{
        let (a, b) = ($a.map(|rows| rows.0), $b.map(|columns| columns.0));
        let mut sums = $start;
        backend::$name(&mut sums, &a, &b);
        InFlight { sums, batch: backend::newest_batch() }
    }};
}

batches! {
    start_f16_5, "f16", 64, 5, registers, 32;
    start_f16_9, "f16", 64, 9, registers, 32;
    start_f16_14, "f16", 64, 14, registers, 32;
    start_bf16_5, "bf16", 64, 5, registers, 32;
    add_f16_3, "f16", 64, 3, registers, 32, d: [f32; 32] = d;
    add_bf16_3, "bf16", 64, 3, registers, 32, d: [f32; 32] = d;
    start_shared_n128_f16_9, "f16", 128, 9, shared, 64;
    start_shared_n128_f16_3, "f16", 128, 3, shared, 64;
    start_shared_n256_f16_3, "f16", 256, 3, shared, 128;
    add_shared_n128_f16_3, "f16", 128, 3, shared, 64, batch: InFlight<64> = batch.sums;
    add_shared_n128_bf16_3, "bf16", 128, 3, shared, 64, batch: InFlight<64> = batch.sums;
    add_shared_n64_f16_4, "f16", 64, 4, shared, 32, batch: InFlight<32> = batch.sums;
    add_shared_n64_bf16_4, "bf16", 64, 4, shared, 32, batch: InFlight<32> = batch.sums;
    add_shared_n64_tf32_4, "tf32", 64, 4, shared, 32, batch: InFlight<32> = batch.sums;
    add_shared_n128_f16_4, "f16", 128, 4, shared, 64, batch: InFlight<64> = batch.sums;
    add_shared_n128_bf16_4, "bf16", 128, 4, shared, 64, batch: InFlight<64> = batch.sums;
    add_shared_n128_tf32_4, "tf32", 128, 4, shared, 64, batch: InFlight<64> = batch.sums;
    add_shared_n256_f16_3, "f16", 256, 3, shared, 128, batch: InFlight<128> = batch.sums;
    add_shared_n256_bf16_3, "bf16", 256, 3, shared, 128, batch: InFlight<128> = batch.sums;
}

macro_rules! interleaved {
    ($($name:ident, $ty:literal, $columns:literal, $half:literal, $sums:literal $(, $given:ident)?;)*) => {device_functions! {$(
        #[doc = concat!("Starts the sum over 3 steps of ", $ty, ", of ", $columns, " columns")]
        $(#[doc = concat!(", added to `", stringify!($given), "`")])?
        #[doc = ", with A in shared memory: the first eight columns are"]
        #[doc = concat!("the first of `even`, the next eight the first of `odd`, and so on. Two instructions for each step, `wgmma.mma_async.sync.aligned.m64n", $half, "k16.f32.", $ty, ".", $ty, "`.")]
        ///
        /// # Safety
        /// As for other batches, for A and both Bs.
        #[must_use]
        unsafe fn $name(
            $($given: InFlight<$sums>,)?
            a: &[MatrixDescriptor; 3], even: &[MatrixDescriptor; 3], odd: &[MatrixDescriptor; 3]
        ) -> InFlight<$sums> = {
            let [a, even, odd] = [a, even, odd].map(|lines| lines.map(|lines| lines.0));
            let mut sums = interleaved!(@sums $sums $(, $given)?);
            backend::$name(&mut sums, &a, [&even, &odd]);
            InFlight { sums, batch: backend::newest_batch() }
        };
    )*}};
    (@sums $sums:literal) => { const { [0.0; $sums] } };
    (@sums $sums:literal, $given:ident) => { $given.sums };
}

interleaved! {
    start_interleaved_n128_f16_3, "f16", 128, 64, 64;
    start_interleaved_n128_bf16_3, "bf16", 128, 64, 64;
    start_interleaved_n256_f16_3, "f16", 256, 128, 128;
    start_interleaved_n256_bf16_3, "bf16", 256, 128, 128;
    add_interleaved_n128_f16_3, "f16", 128, 64, 64, batch;
    add_interleaved_n128_bf16_3, "bf16", 128, 64, 64, batch;
    add_interleaved_n256_f16_3, "f16", 256, 128, 128, batch;
    add_interleaved_n256_bf16_3, "bf16", 256, 128, 128, batch;
}

device_functions! {
    /// Returns the sum over 7 steps of f16, for 32 columns.
    /// `wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16`.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call, with the same `b`. The columns of B were written and made
    /// visible as above.
    #[must_use]
    unsafe fn m64n32_f16_7(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16] =
        backend::m64n32_f16_7(a, &b.map(|columns| columns.0));

    /// Returns the sum over 7 steps of bf16, for 32 columns.
    /// `wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16`.
    ///
    /// # Safety
    /// As for [`m64n32_f16_7`].
    #[must_use]
    unsafe fn m64n32_bf16_7(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16] =
        backend::m64n32_bf16_7(a, &b.map(|columns| columns.0));

    /// Adds the products of 8 steps of f16 to `d`, for 256 columns and with A in shared memory too, and
    /// waits for them. `wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16`.
    ///
    /// # Safety
    /// As for [`m64n32_f16_7`], for A and B.
    unsafe fn add_shared_f16_8(d: &mut [f32; 128], a: &[MatrixDescriptor; 8], b: &[MatrixDescriptor; 8]) =
        backend::add_shared_f16_8(d, &a.map(|rows| rows.0), &b.map(|columns| columns.0));
}
