//! Whether a row that implements a region is preferred to the rows below it; otherwise the reason.

use launch_config::depthwise::DepthwiseGeometry;

use super::epilogue::EpilogueKernels;
use super::lowered::Lowered;
use super::producer::Producer;
use super::region::Region;
use super::without_norm::{
    depthwise_norm_pays_apart, gemm_pays, implicit_pays, is_apart_in_nhwc, norm_pays_apart,
};
use crate::operators::Precision;

/// The reason why a row does not pay.
type Pays = Result<(), &'static str>;

/// Why the launches of a convolution do not apply a list.
const LIST_APART: &str =
    "its list takes longer beside the accumulators than in a launch of its own";

/// Why a convolution and a norm are separate launches.
const NORM_APART: &str = "in NHWC, for which a convolution and a norm by themselves have no copies";

fn unless(is_slower: bool, reason: &'static str) -> Pays {
    match is_slower {
        true => Err(reason),
        false => Ok(()),
    }
}

pub(super) fn always(_: &Region<'_>, _: &Lowered) -> Pays {
    Ok(())
}

pub(super) fn one_launch_3d(region: &Region<'_>, lowered: &Lowered) -> Pays {
    let Producer::OneLaunch3d(launch) = &lowered.producer else {
        return Ok(());
    };
    unless(
        !(launch.fills || region.of.options.batch_invariant),
        "too few samples to fill the device with a block for each",
    )
}

/// The positions of a convolution's results from which on a mean of them takes less time without the
/// convolution, in fast and in accurate f32 (`docs/tuning.md`).
const CONV_MEAN_POSITIONS: [usize; 2] = [4096, 512];

pub(super) fn conv_mean(region: &Region<'_>, _: &Lowered) -> Pays {
    let results = &region.of.problem.steps[region.layers[0]].output;
    let [fast, accurate] = CONV_MEAN_POSITIONS;
    let least = match region.of.options.precision {
        Precision::Fast => fast,
        Precision::Accurate => accurate,
    };
    unless(
        results[2..].iter().product::<usize>() < least,
        "too few positions, so that the convolution takes less time",
    )
}

pub(super) fn depthwise(region: &Region<'_>, lowered: &Lowered) -> Pays {
    let Producer::Depthwise(geometry) = &lowered.producer else {
        return Ok(());
    };
    let is_apart = depthwise_norm_pays_apart(region, &geometry.conv, &lowered.epilogue);
    unless(is_apart, NORM_APART)
}

pub(super) fn gemm(_: &Region<'_>, lowered: &Lowered) -> Pays {
    match &lowered.producer {
        Producer::Gemm(gemm) => gemm_pays(gemm),
        _ => Ok(()),
    }
}

pub(super) fn direct_nhwc(_: &Region<'_>, lowered: &Lowered) -> Pays {
    let Producer::DirectNhwc(geometry) = &lowered.producer else {
        return Ok(());
    };
    unless(
        !geometry.pays(),
        "more than 32 products of an input value, or less than 64 pixels of a sample",
    )
}

pub(super) fn implicit_gemm(region: &Region<'_>, lowered: &Lowered) -> Pays {
    let Producer::ImplicitGemm(gemm) = &lowered.producer else {
        return Ok(());
    };
    unless(
        norm_pays_apart(region, gemm.conv(), &lowered.epilogue),
        NORM_APART,
    )?;
    unless(
        DepthwiseGeometry::check(gemm.conv()).is_ok(),
        "depthwise, of which tensor cores would multiply mostly zeros",
    )?;
    implicit_pays(gemm)?;
    let (_, list) = lowered.epilogue.store_epilogue();
    if region.is_given() || list.is_empty() {
        return Ok(());
    }
    unless(!gemm.stores(&list, region.of.dtype), LIST_APART)?;
    unless(
        !gemm.is_reduced() && region.precedes_function(),
        "its list shares the launch of the functions that follow",
    )
}

pub(super) fn transposed(region: &Region<'_>, lowered: &Lowered) -> Pays {
    let Producer::Transposed(transposed) = &lowered.producer else {
        return Ok(());
    };
    let is_quick = region.is_given() || transposed.stores(region.of.dtype);
    unless(!is_quick, LIST_APART)
}

pub(super) fn tensor(region: &Region<'_>, lowered: &Lowered) -> Pays {
    let is_pool = matches!(lowered.epilogue, EpilogueKernels::Pool(_));
    unless(
        is_pool && is_apart_in_nhwc(region, &lowered.epilogue),
        "in NHWC, for which a norm and a pool by themselves have no copies",
    )
}
