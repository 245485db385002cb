//! Matrix multiplication by a warpgroup: chains of `wgmma` (sm_90a).
//!
//! A warpgroup is four adjacent warps, the first of which has a number divisible by four. The functions here
//! multiply 64 rows of A, held in the registers of a warpgroup, by 32 columns of B, read from shared memory,
//! over several steps of K = 16, and return the f32 sums. A that stays in registers halves what a product
//! reads from shared memory. Fence, steps, commit and wait are one block of assembly, so the compiler has no
//! place to move anything between them, and a caller sees an ordinary function.
//!
//! With `warp`, `quad = lane / 4` and `quad_lane = lane % 4` of a thread:
//!
//! | operand | register `i` of a thread holds |
//! |---|---|
//! | A of a step | half `h` of `a[i]`: row `16 * warp + quad + 8 * (i % 2)`, column `2 * quad_lane + h + 8 * (i / 2)` |
//! | the result | `d[i]`: row `16 * warp + quad + 8 * (i / 2 % 2)`, column `8 * (i / 4) + 2 * quad_lane + i % 2` |
//!
//! B of a step lies in shared memory as *core matrices*: eight columns of eight values of K, 16 bytes for
//! each column, 128 bytes in all. Core matrices of neighbouring columns follow each other, or lie equally far
//! apart; the two that divide K may lie anywhere ([`MatrixDescriptor`]). In the *swizzled* layout
//! ([`MatrixLayout::swizzled`]) a column is 32 consecutive bytes within a span of 32, 64 or 128 bytes. Its
//! units of 16 bytes are exchanged: bit 4 of a unit's address is inverted if bit 7 is set, in spans of 64
//! bytes and more bit 5 if bit 8 is, and in spans of 128 bytes bit 6 if bit 9 is. Tensor cores then read
//! eight columns at once without bank conflicts. [`crate::tensor_map::copy_box`] writes this layout.
//!
//! A thread that wrote B with ordinary stores executes [`crate::async_proxy::fence_shared`] before the
//! barrier that its readers wait at.
//!
//! Chains of 64 columns, with 32 results for each thread, are asynchronous: one call starts a chain
//! ([`start_f16_5`]) or adds to an accumulator ([`add_f16_3`]), and another waits for it
//! ([`InFlight::wait`]). A warpgroup can thus work on one half of its columns while the tensor cores work on
//! the other.
//!
//! With A in shared memory too, in the layout of B, there are chains of 64 columns
//! ([`add_shared_n64_f16_4`]), of 128 ([`start_shared_n128_f16_9`]) and of 256 ([`add_shared_n256_f16_3`]).
//! Their up to 128 results for each thread would leave no registers to A. The widest instructions keep the
//! tensor cores busiest. A chain may be added to an accumulator that is still in flight, so the tensor cores
//! need not run empty between two chains.
//!
//! **Emulator**: the 128 threads meet. It reports threads whose chains or addresses differ, and missing
//! threads. Of B, and of A in shared memory, it reports reads outside of the block's shared memory, stores
//! without the fence for the asynchronous proxy, and stores that are not ordered after the wait for the
//! chain, of each warp by itself. Sums are as for [`crate::mma`], one instruction after the other. A chain is
//! executed at its start, but only [`InFlight::wait`] returns its sums, and reports a wait that does not
//! cover the chain. Threads of a warpgroup that waited for different chains, and threads that end before a
//! wait for their chains, are reported as well. Writes to the registers of A during a chain are not detected,
//! as registers have no address.

use crate::backend;
use crate::shared::SharedAddr;

/// Units from eight columns of B to the next eight, where they follow each other.
const CORE_MATRIX_UNITS: u32 = 128 / UNIT_BYTES;

/// Bytes of the unit in which B is addressed.
pub const UNIT_BYTES: u32 = 16;

/// How the columns of B lie, or the rows of A.
#[derive(Debug, Clone, Copy)]
pub struct MatrixLayout {
    low: u32,
    high: u32,
}

impl MatrixLayout {
    /// In core matrices: those of the second half of K lie `k_units` behind those of the first, and those of
    /// eight columns `octet_units` behind those of the eight before them, in units of 16 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn apart(k_units: u32, octet_units: u32) -> Self {
        Self {
            low: k_units << 16,
            high: octet_units,
        }
    }

    /// In lines of `1 << shift` units of 16 bytes, two, four or eight, on multiples of as many: a column
    /// each, eight one after the other, and the next eight `octet_units` behind their start. A matrix starts
    /// at any pair of units of a line. Of lines of eight units the first of eight lies on 1024 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn swizzled(shift: u32, octet_units: u32) -> Self {
        // Tensor cores do not look at the distance along K. The highest bits are 3 for lines of 32 bytes,
        // 2 for 64 and 1 for 128.
        Self {
            low: 1 << 16,
            high: octet_units | (4 - shift) << 30,
        }
    }
}

/// Where B of one step lies, or A.
#[derive(Debug, Clone, Copy)]
pub struct MatrixDescriptor(u64);

impl MatrixDescriptor {
    /// Columns whose first half of K starts at `first` and whose second half starts `k_units`
    /// further, both in units of 16 bytes from the start of the block's shared memory, as
    /// [`unit()`] gives them.
    #[must_use]
    #[inline(always)]
    pub const fn new(first: u32, k_units: u32) -> Self {
        Self::apart(first, k_units, CORE_MATRIX_UNITS)
    }

    /// The same where eight columns start `octet_units` after the eight before them.
    #[must_use]
    #[inline(always)]
    pub const fn apart(first: u32, k_units: u32, octet_units: u32) -> Self {
        Self::laid_out(first, MatrixLayout::apart(k_units, octet_units))
    }

    /// The first of whose columns starts at `first`, in units of 16 bytes likewise.
    #[must_use]
    #[inline(always)]
    pub const fn laid_out(first: u32, layout: MatrixLayout) -> Self {
        Self((first + layout.low) as u64 | (layout.high as u64) << 32)
    }

    /// The same layout `units` units of 16 bytes further.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, units: u32) -> Self {
        Self(self.0 + units as u64)
    }
}

/// An address as [`MatrixDescriptor`] takes it. In a cluster, the address of all blocks but the first
/// carries the block's rank in bits that a descriptor has no room for; they are cut off.
#[must_use]
#[track_caller]
#[inline(always)]
pub const fn unit(address: SharedAddr) -> u32 {
    // On the device the rest would be cut off.
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(
        address.0.is_multiple_of(UNIT_BYTES),
        "a matrix starts on 16 bytes"
    );
    (address.0 & 0x3_ffff) / UNIT_BYTES
}

/// An accumulator that is in flight, by default of 64 columns.
#[derive(Debug)]
pub struct InFlight<const SUMS: usize = 32> {
    sums: [f32; SUMS],
    chain: backend::ChainNumber,
}

macro_rules! wait {
    ($($sums:literal, $wait:ident;)*) => {$(
        impl InFlight<$sums> {
            device_functions! {
                /// The sums, once at most `LEFT` younger chains are in flight: elements as above.
                /// `wgmma.wait_group.sync.aligned`.
                ///
                /// # Safety
                /// All threads of the warpgroup make this call, and at least `LEFT` chains were started after
                /// this one, or it was waited for with a later one.
                #[must_use]
                unsafe fn wait[const LEFT: u32](self) -> [f32; $sums] = backend::$wait::<LEFT>(self.sums, self.chain);
            }
        }
    )*};
}

wait! {
    32, wait_chain_32;
    64, wait_chain_64;
    128, wait_chain_128;
}

impl<const SUMS: usize> InFlight<SUMS> {
    plain_functions! {
        /// An accumulator that is not in flight, to which a chain may be added.
        #[must_use]
        fn at_rest(sums: [f32; SUMS]) -> Self = Self { sums, chain: backend::no_chain() };
    }

    device_functions! {
        /// Waits until at most `LEFT` chains are in flight, of which this may be one. The operands of older
        /// chains may be overwritten then. `wgmma.wait_group.sync.aligned`.
        ///
        /// # Safety
        /// All threads of the warpgroup make this call.
        unsafe fn wait_for_older[const LEFT: u32](self: &Self) = backend::wait_older_chains::<LEFT>();
    }
}

/// Chains: their names, types, columns, steps, where A is, sums, and the accumulator that they add to.
macro_rules! chains {
    ($($name:ident, $ty:literal, $columns:literal, $steps:literal, $a:ident, $sums:literal
        $(, $given:ident: $given_ty:ty = $start:expr)?;)*) => {device_functions! {$(
        #[doc = concat!("Starts the sum over ", $steps, " steps of ", $ty, ", of ", $columns, " columns")]
        $(#[doc = concat!(", added to `", stringify!($given), "`")])?
        #[doc = concat!(", with A in ", chains!(@where $a), ".")]
        #[doc = concat!("`wgmma.mma_async.sync.aligned.m64n", $columns, "k16.f32.", $ty, ".", $ty, "`.")]
        ///
        /// # Safety
        /// All threads of a warpgroup make this call, with the same `b`, whose columns were written and made
        /// visible as above, as are the rows of A in shared memory. Until the wait nobody writes them, and
        /// the compiler finds no reason to write the registers of A.
        #[must_use]
        unsafe fn $name($($given: $given_ty,)? a: &[chains!(@$a); $steps], b: &[MatrixDescriptor; $steps]) -> InFlight<$sums> =
            chains!(@$a $name, $sums, a, b $(, $start)?);
    )*}};
    (@where registers) => { "registers" };
    (@where shared) => { "shared memory" };
    (@registers) => { [u32; 4] };
    (@shared) => { MatrixDescriptor };
    (@registers $name:ident, $sums:literal, $a:ident, $b:ident $(, $start:expr)?) => {{
        let sums = backend::$name($($start,)? $a, &$b.map(|columns| columns.0));
        InFlight { sums, chain: backend::newest_chain() }
    }};
    (@shared $name:ident, $sums:literal, $a:ident, $b:ident) => {
        chains!(@shared $name, $sums, $a, $b, [0.0; $sums])
    };
    (@shared $name:ident, $sums:literal, $a:ident, $b:ident, $start:expr) => {{
        let (a, b) = ($a.map(|rows| rows.0), $b.map(|columns| columns.0));
        let mut sums = $start;
        backend::$name(&mut sums, &a, &b);
        InFlight { sums, chain: backend::newest_chain() }
    }};
}

chains! {
    start_f16_5, "f16", 64, 5, registers, 32;
    start_f16_9, "f16", 64, 9, registers, 32;
    start_f16_14, "f16", 64, 14, registers, 32;
    start_bf16_5, "bf16", 64, 5, registers, 32;
    add_f16_3, "f16", 64, 3, registers, 32, d: [f32; 32] = d;
    add_bf16_3, "bf16", 64, 3, registers, 32, d: [f32; 32] = d;
    start_shared_n128_f16_9, "f16", 128, 9, shared, 64;
    add_shared_n128_f16_3, "f16", 128, 3, shared, 64, chain: InFlight<64> = chain.sums;
    add_shared_n128_bf16_3, "bf16", 128, 3, shared, 64, chain: InFlight<64> = chain.sums;
    add_shared_n64_f16_4, "f16", 64, 4, shared, 32, chain: InFlight<32> = chain.sums;
    add_shared_n64_bf16_4, "bf16", 64, 4, shared, 32, chain: InFlight<32> = chain.sums;
    add_shared_n128_f16_4, "f16", 128, 4, shared, 64, chain: InFlight<64> = chain.sums;
    add_shared_n128_bf16_4, "bf16", 128, 4, shared, 64, chain: InFlight<64> = chain.sums;
    add_shared_n256_f16_3, "f16", 256, 3, shared, 128, chain: InFlight<128> = chain.sums;
    add_shared_n256_bf16_3, "bf16", 256, 3, shared, 128, chain: InFlight<128> = chain.sums;
}

macro_rules! add_interleaved {
    ($($name:ident, $ty:literal, $columns:literal, $half:literal, $sums:literal;)*) => {device_functions! {$(
        #[doc = concat!("Starts to add the products of 3 steps of ", $ty, " to sums of ", $columns, " columns, which may be in flight, with A in shared memory: the first eight columns are")]
        #[doc = concat!("the first of `even`, the next eight the first of `odd`, and so on. Two instructions for each step, `wgmma.mma_async.sync.aligned.m64n", $half, "k16.f32.", $ty, ".", $ty, "`.")]
        ///
        /// # Safety
        /// As for other chains, for A as for both Bs.
        #[must_use]
        unsafe fn $name(
            chain: InFlight<$sums>, a: &[MatrixDescriptor; 3], even: &[MatrixDescriptor; 3], odd: &[MatrixDescriptor; 3]
        ) -> InFlight<$sums> = {
            let [a, even, odd] = [a, even, odd].map(|lines| lines.map(|lines| lines.0));
            let mut sums = chain.sums;
            backend::$name(&mut sums, &a, [&even, &odd]);
            InFlight { sums, chain: backend::newest_chain() }
        };
    )*}};
}

add_interleaved! {
    add_interleaved_n128_f16_3, "f16", 128, 64, 64;
    add_interleaved_n128_bf16_3, "bf16", 128, 64, 64;
    add_interleaved_n256_f16_3, "f16", 256, 128, 128;
    add_interleaved_n256_bf16_3, "bf16", 256, 128, 128;
}

device_functions! {
    /// The sum over 7 steps of f16, of 32 columns. `wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16`.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call, with the same `b`, whose columns were written and made
    /// visible as above.
    #[must_use]
    unsafe fn m64n32_f16_7(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16] =
        backend::m64n32_f16_7(a, &b.map(|columns| columns.0));

    /// The sum over 7 steps of bf16, of 32 columns. `wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16`.
    ///
    /// # Safety
    /// As for [`m64n32_f16_7`].
    #[must_use]
    unsafe fn m64n32_bf16_7(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16] =
        backend::m64n32_bf16_7(a, &b.map(|columns| columns.0));

    /// Adds the products of 8 steps of f16 to `d`, on 256 columns and with A in shared memory too, and waits
    /// for them. `wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16`.
    ///
    /// # Safety
    /// As above, for A as for B.
    unsafe fn add_shared_f16_8(d: &mut [f32; 128], a: &[MatrixDescriptor; 8], b: &[MatrixDescriptor; 8]) =
        backend::add_shared_f16_8(d, &a.map(|rows| rows.0), &b.map(|columns| columns.0));
}
