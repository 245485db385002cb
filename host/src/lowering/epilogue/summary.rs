//! Descriptions of the kernels of epilogues.

use launch_config::implicit_gemm::Epilogue as StoreEpilogue;
use op_spec::graph::ChannelAffine;

use super::{EpilogueKernels, Map, NormScaleKernels, Pool, SeriesKernel, Store, WindowsKernel};
use crate::operators::pointwise::ListStep;

impl EpilogueKernels {
    /// A description of the kernels, empty without any.
    pub(in crate::lowering) fn summary(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Operator(..) => "those of the operator".to_owned(),
            Self::Affine(..) => "gain and shift of each channel".to_owned(),
            Self::Store(store) => store.summary(),
            Self::Map(map) => map.summary(),
            Self::ChannelsLastNorm(of) => {
                let parts = [vec!["norm"], of_steps(&of.list)].concat();
                format!("{} of a channels-last tensor", parts.join(", "))
            }
            Self::Pool(pool) => pool.summary(),
            Self::Windows(windows) => {
                let kernel = match windows.kernel {
                    WindowsKernel::Pool(_) => "windows of a channels-last tensor",
                    WindowsKernel::Upsample(_) => "upsample of a channels-last tensor",
                };
                let functions = of_functions(windows.functions.is_empty());
                [vec![kernel], functions].concat().join(", ")
            }
            Self::Pixels(_) => "a reduction of the pixels of a channels-last tensor".to_owned(),
            Self::ReducedChannels(reduced) => {
                let norm = match reduced.norm {
                    Some(_) => "scale, norm, ",
                    None => "",
                };
                format!("{norm}clamp, scale and a reduction over the channels")
            }
            Self::NormScale(of) => match of.by {
                NormScaleKernels::Resident(_) => "norm and scale in one launch, a row a block",
                NormScaleKernels::Separate => "norm and scale",
                NormScaleKernels::Folded => "norm whose weight and bias have the scale in them",
            }
            .to_owned(),
            Self::Series(series) => {
                let kernel = match series.kernel {
                    SeriesKernel::Softmax(_) => "softmax",
                    SeriesKernel::LayerNorm(..) => "layer norm of rows",
                };
                let behind = &series.behind;
                let list = of_functions(behind.list.functions.is_empty());
                let residual = of_residual(behind.residual);
                let parts = [vec![kernel], of_affine(&behind.affine), list, residual];
                parts.concat().join(", ")
            }
            Self::List(list) => of_steps(&list.steps).join(", "),
            Self::Rows(rows) => match rows.copies.iter().flatten().count() {
                0 => "no copy, since convolutions write their parts".to_owned(),
                1 => "a copy of parts of rows".to_owned(),
                copies => format!("copies of parts of rows, of {copies} operands"),
            },
            Self::Shuffle(_) => "a copy of split axes in another sequence".to_owned(),
            Self::Pad(_) => "a copy with values around the spatial axes".to_owned(),
            Self::Gate(_) => {
                "a product with the channels or the positions of another value".to_owned()
            }
        }
    }
}

impl Store {
    fn summary(&self) -> String {
        let plain = StoreEpilogue {
            gain_and_shift: self.epilogue.gain_and_shift,
            ..StoreEpilogue::NONE
        };
        let is_plain = self.list.functions.is_empty() && self.epilogue == plain;
        let parts = [
            of_affine(&self.affine),
            of_functions(is_plain),
            of_affine(&self.affine_behind),
            of_residual(self.residual),
        ]
        .concat();
        let mut text = match parts.is_empty() {
            true => String::new(),
            false => format!("{} before results are written", parts.join(", ")),
        };
        if self.further.is_some() {
            let separator = if text.is_empty() { "" } else { ", then " };
            text = format!("{text}{separator}a reduction of the results of tiles");
        }
        text
    }
}

impl Map {
    fn summary(&self) -> String {
        let before = self.before.map(|_| "scale");
        let behind = self.behind.map(|behind| match behind.prelu {
            Some(_) => "prelu",
            None => "scale",
        });
        let mut parts: Vec<&str> = before.into_iter().chain(["norm"]).chain(behind).collect();
        parts.extend(of_steps(&self.list));
        parts.join(", ")
    }
}

impl Pool {
    fn summary(&self) -> String {
        let norm = self.norm.map(|_| "norm");
        let scale = self.factors.map(|_| "scale");
        let pool = match self.in_producer {
            true => "max_pool2d in the convolution's tiles",
            false => "max_pool2d",
        };
        let parts = match self.in_producer {
            true => [Some(pool), norm, scale],
            false => [norm, scale, Some(pool)],
        };
        let mut parts: Vec<&str> = parts.into_iter().flatten().collect();
        parts.extend(of_functions(self.functions.is_empty()));
        parts.join(", ")
    }
}

/// The layers whose parameters form a gain and a shift.
fn of_affine(affine: &[(usize, ChannelAffine)]) -> Vec<&'static str> {
    let mut parts = Vec::new();
    for (_, of) in affine {
        parts.push(match of {
            ChannelAffine::BatchNorm(_) => "batch norm",
            ChannelAffine::Arithmetic(_) => "arithmetic",
        });
    }
    parts.dedup();
    parts
}

fn of_functions(is_empty: bool) -> Vec<&'static str> {
    match is_empty {
        true => vec![],
        false => vec!["functions"],
    }
}

fn of_residual(residual: Option<usize>) -> Vec<&'static str> {
    residual.map(|_| "residual").into_iter().collect()
}

/// The steps of a list.
fn of_steps(steps: &[ListStep<usize>]) -> Vec<&'static str> {
    let is_residual = |step: &ListStep<usize>| matches!(step, ListStep::Residual(..));
    let mut parts = of_functions(steps.iter().all(is_residual));
    parts.extend(steps.iter().any(is_residual).then_some("residual"));
    parts
}
