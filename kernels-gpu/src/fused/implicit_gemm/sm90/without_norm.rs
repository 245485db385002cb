//! The kernels without a norm: to NCHW, to NHWC, and with results that are reduced before they are written.

use core::ptr;

use cuda_std::kernel;
use cuda_std::tensor_map::TensorMap;
use launch_config::implicit_gemm::sm90::{BLOCK_THREADS, MainloopConfig};
use launch_config::implicit_gemm::{
    Epilogue, ImplicitGemmGeometry, ReducedResults, RoundedEpilogue,
};
use launch_config::pointwise::OperandList;

use super::super::fixup::{Rounded, WithoutNorm};
use super::super::format::{Bf16, Bf16x3, DenseF32, F16, ScaledF16};
use super::format::WarpSpecializedFormat;
use super::output::Output;
use super::scales::Scales;
use super::tile_epilogue::{Reduced, Stored, StoredNhwc};
use super::{Halves, Input, Share, Whole, compute};
use crate::parts::store::{GainAndShift, StoreEpilogue};

/// The warp-specialized implicit GEMM without a norm and without moments. Results go through an epilogue and
/// a list, and NaN results are recomputed. With the geometry's `shuffle`, neighbouring filters make
/// neighbouring columns of the output (`shuffled`).
///
/// # Safety
/// As for [`fn@super::implicit_gemm_sm90`], without moments. If the input is read in place, `x` is 16-byte
/// aligned and has `k_vectors.all_k_vectors(&conv)` K-vectors at the strides of the geometry's `k_vectors`.
/// `x`, `weight`, `gain`, `shift`, `gain_behind`, `shift_behind` and `list` are otherwise as for
/// `implicit_gemm`.
/// With a shuffle, `y` has the elements that the shuffle describes, and gain and shift have one for each
/// channel of `y`. Several launches may write the same `y`, each its own elements. The list may then have a
/// residual: `residual` has the elements of `y`, is 16-byte aligned and does not overlap it.
#[kernel(
    instances(S: [halves: Halves], F: [bf16x3_f32: Bf16x3]),
    instances(
        S: [halves: Halves, whole: Whole],
        F: [scaled_f16_f32: ScaledF16, dense_f32: DenseF32, f16: F16, bf16: Bf16]
    ),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_sm90_store<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    residual: *const F::Stored,
    y: *mut F::Stored,
    largest: *mut u32,
    boxes: &TensorMap,
    filter_boxes: &TensorMap,
    g: &ImplicitGemmGeometry,
    mainloop: MainloopConfig,
    epilogue: Epilogue,
    list: &OperandList,
    recorded: u32,
) {
    let input = Input {
        reformatted,
        operands,
        filter_descales,
        bias,
        boxes,
        filter_boxes,
    };
    let scales = Scales::of(g, recorded, input_descales, largest);
    let without_norm = WithoutNorm {
        x,
        weight,
        store: StoreEpilogue {
            of_channels: GainAndShift { gain, shift },
            epilogue,
        },
        list,
        residual,
        behind: GainAndShift {
            gain: gain_behind,
            shift: shift_behind,
        },
        rounded: None,
    };
    let output = Output::<F, Stored>::without_norm(y, scales, without_norm, None);
    compute::<S, F, Stored>(&input, &output, g, mainloop);
}

/// The warp-specialized implicit GEMM without a norm, with an NHWC output: the channels of a pixel are
/// contiguous. As they are written, 16-bit results go through a function, and a residual is added.
///
/// # Safety
/// As for [`fn@implicit_gemm_sm90_store`], without a shuffle. The groups have whole vectors of 16 bytes of
/// output channels. `rounded` changes no result in f32. `residual` is NHWC, has an element for each output if
/// `rounded` adds it, is 16-byte aligned and does not overlap `y`.
#[kernel(
    instances(S: [halves: Halves], F: [scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3]),
    instances(S: [halves: Halves, whole: Whole], F: [f16: F16, bf16: Bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_sm90_nhwc<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    residual: *const F::Stored,
    y: *mut F::Stored,
    largest: *mut u32,
    boxes: &TensorMap,
    filter_boxes: &TensorMap,
    g: &ImplicitGemmGeometry,
    mainloop: MainloopConfig,
    epilogue: Epilogue,
    list: &OperandList,
    rounded: RoundedEpilogue,
    recorded: u32,
) {
    let input = Input {
        reformatted,
        operands,
        filter_descales,
        bias,
        boxes,
        filter_boxes,
    };
    let scales = Scales::of(g, recorded, input_descales, largest);
    let without_norm = WithoutNorm {
        x,
        weight,
        store: StoreEpilogue {
            of_channels: GainAndShift { gain, shift },
            epilogue,
        },
        list,
        residual: ptr::null(),
        behind: GainAndShift {
            gain: gain_behind,
            shift: shift_behind,
        },
        rounded: Some(Rounded {
            epilogue: rounded,
            residual,
        }),
    };
    let output = Output::<F, StoredNhwc>::without_norm(y, scales, without_norm, None);
    compute::<S, F, StoredNhwc>(&input, &output, g, mainloop);
}

/// [`implicit_gemm_sm90_store`](fn@implicit_gemm_sm90_store) with results that are reduced before they
/// are written: windows of pixels, and neighbouring filters. Results are rounded to the stored type, then
/// reduced in f32. With the geometry's `shuffle`, neighbouring filters are phases of a channel.
///
/// # Safety
/// As for [`fn@implicit_gemm_sm90_store`], without a residual and without split-K. The geometry's
/// tiles have whole windows of `reduced`, and `y` has an element for each result of `reduced`.
#[kernel(
    instances(
        S: [halves: Halves],
        F: [
            scaled_f16_f32: ScaledF16, dense_f32: DenseF32, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16
        ]
    ),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_sm90_reduce<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    y: *mut F::Stored,
    largest: *mut u32,
    boxes: &TensorMap,
    filter_boxes: &TensorMap,
    g: &ImplicitGemmGeometry,
    mainloop: MainloopConfig,
    epilogue: Epilogue,
    list: &OperandList,
    reduced: ReducedResults,
    recorded: u32,
) {
    let input = Input {
        reformatted,
        operands,
        filter_descales,
        bias,
        boxes,
        filter_boxes,
    };
    let scales = Scales::of(g, recorded, input_descales, largest);
    let without_norm = WithoutNorm {
        x,
        weight,
        store: StoreEpilogue {
            of_channels: GainAndShift { gain, shift },
            epilogue,
        },
        list,
        residual: ptr::null(),
        behind: GainAndShift {
            gain: gain_behind,
            shift: shift_behind,
        },
        rounded: None,
    };
    let output = Output::<F, Reduced>::without_norm(y, scales, without_norm, Some(reduced));
    compute::<S, F, Reduced>(&input, &output, g, mainloop);
}
