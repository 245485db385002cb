//! KernelBench problem 79 in one launch, on volumes that the kernels support.

use std::ffi::c_void;

use cuda_std::{Family, Label, Storage};
use launch_config::LaunchShape;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    OneLaunch3dGeometry, PAIR_PLANES, SPLIT_PLANES, warpgroup,
};
use op_spec::graph::LayerProblem;
use op_spec::graph::presets::KernelBench79;
use oracle::{Case, Precision};

use super::super::kernels::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::*;
use super::convolved::{F16x2, Format, set_filters_apart};
use super::{Failure, Loaded, Outcome, Run, Tensor, case, compare, optional, precision, stored};

const CHANNELS: usize = 3;
const FILTERS: usize = 16;
const WIDTH: usize = 32;

/// Samples, depth and height: the smallest; a ragged last tile; one with more rows than are loaded before the
/// first round, so that rows arrive during rounds, and with more items than two blocks have warps.
const SHAPES: [(usize, usize, usize); 3] = [(1, 3, 3), (2, 5, 7), (1, 7, 30)];

/// The changes of a case's input: a factor, a summand, and one special value.
const INPUTS: [Input; 4] = [
    (1.0, 0.0, None),
    (0.01, 100.0, None),
    (1.0, 0.0, Some(1e6)),
    (1.0, 0.0, Some(f32::NAN)),
];

/// Indices of the shapes and inputs that clusters run, among them a sample whose conversion is repeated, and
/// one with a NaN.
const CLUSTERED: [(usize, usize); 4] = [(0, 0), (1, 1), (2, 2), (2, 3)];

/// The factor, the summand and the special value of an input.
type Input = (f32, f32, Option<f32>);

/// A problem with its tensors.
pub(super) struct Subject<T> {
    pub(super) case: Case,
    pub(super) g: OneLaunch3dGeometry,
    tensors: Loaded<T>,
}

impl<T: Storage> Subject<T> {
    /// A problem of one of `SHAPES` with one of `INPUTS`, with multipliers of either sign and 0.
    fn new(
        run: &Run,
        shape: (usize, usize, usize),
        (scale, added, special): Input,
    ) -> Result<Self, Failure> {
        let preset = KernelBench79 {
            in_channels: CHANNELS,
            out_channels: FILTERS,
            ..KernelBench79::default()
        };
        let (n, depth, height) = shape;
        Self::of(run, preset, shape, |case| {
            let mut case = case.scaled(scale).shifted(added).rounded(stored::<T>);
            if let Some(special) = special {
                case.x[[0, CHANNELS - 1, depth - 1, height - 1, WIDTH - 1]] = special;
            }
            case.name = format!("{n} {depth} {height}, {special:?}");
            case
        })
    }

    /// A problem of a preset with these samples, depth and height. `change` may modify the case.
    pub(super) fn of(
        run: &Run,
        preset: KernelBench79,
        (n, depth, height): (usize, usize, usize),
        change: impl FnOnce(Case) -> Case,
    ) -> Result<Self, Failure> {
        let layers = preset.chain().expect("layers that fit");
        let shape = [n, CHANNELS, depth, height, WIDTH];
        let mut case = case::<T>(layers.layers().iter().cloned(), &shape);
        if size_of::<T>() == size_of::<f32>() {
            // In f32, where filters are scaled, filters have different magnitudes.
            set_filters_apart(&mut case.parameters[0], 1);
        }
        let mut case = change(case);
        let multiplier = if preset.bias { 2 } else { 1 };
        case.parameters[multiplier]
            .as_slice_mut()
            .expect("a vector")[5] = 0.0;
        let problem = case.problem().expect("a volume");
        let layers: Vec<_> = problem.steps.iter().map(|step| step.problem).collect();
        let &[
            LayerProblem::Conv3d(conv),
            LayerProblem::Scale(_),
            LayerProblem::InstanceNorm(norm),
            LayerProblem::Pointwise(clamp),
            ..,
        ] = &layers[..]
        else {
            unreachable!("the layers of problem 79")
        };
        let clamp = clamp.as_clamp().expect("a clamp");
        let g = OneLaunch3dGeometry::new(&conv, &norm.as_group_norm(), &clamp);
        Ok(Self {
            g: g.expect("the kernel takes this shape"),
            tensors: run.load(&case)?,
            case,
        })
    }

    /// Launches a kernel and returns its output.
    pub(super) fn result(
        &self,
        run: &Run,
        ((family, labels), shape): (Chosen, Option<LaunchShape>),
    ) -> Result<Tensor<T>, Failure> {
        let y = run.empty::<T>(self.g.n as usize * self.g.out_elements())?;
        let Loaded { x, parameters } = &self.tensors;
        let has_bias = self.g.bias.is_present();
        let [w, m] = [0, 1 + usize::from(has_bias)].map(|index| parameters[index].source());
        let b = optional(has_bias.then_some(&parameters[1]));
        let arguments = (x.source(), w, b, m, y.ptr(), self.g);
        run.launch(family, &labels, shape, arguments)?;
        Ok(y)
    }
}

/// A kernel by its family and labels.
pub(super) type Chosen = (&'static Family<Arguments>, [Label; 2]);

/// The arguments of all of these kernels.
pub(super) type Arguments = (
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    OneLaunch3dGeometry,
);

/// A function that returns the kernel with this number of blocks a sample, and its launch.
pub(super) type Choose = fn(&OneLaunch3dGeometry, u32) -> (Chosen, Option<LaunchShape>);

/// The kernel with `mma.sync`.
pub(super) fn of_warps<F: Format>(
    g: &OneLaunch3dGeometry,
    blocks: u32,
) -> (Chosen, Option<LaunchShape>) {
    let labels = [blocks.into(), F::LABEL.into()];
    let planes = if F::LABEL == F16x2::LABEL {
        SPLIT_PLANES
    } else {
        PAIR_PLANES
    };
    let family = &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX;
    ((family, labels), g.shape(planes, blocks))
}

/// The kernel with `wgmma`.
pub(super) fn of_warpgroups<F: Format>(
    g: &OneLaunch3dGeometry,
    blocks: u32,
) -> (Chosen, Option<LaunchShape>) {
    let name = if blocks == 1 { "alone" } else { "cluster" };
    let labels = [name.into(), F::LABEL.into()];
    let family = &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA;
    ((family, labels), warpgroup::shape(g, blocks))
}

/// Checks every shape with every input that suits the format.
fn matches_by<F: Format>(run: &Run, choose: Choose) -> Outcome {
    let is_for = |&(.., special): &Input| match F::LABEL {
        "f16x2_f32" => true,
        "scaled_f16_f32" => special != Some(1e6),
        _ => special.is_none_or(f32::is_nan),
    };
    for shape in SHAPES {
        for input in INPUTS.into_iter().filter(is_for) {
            // A fraction of a product's error: the oracle counts the terms of a sum, and propagates their
            // errors through the statistics, where the error of a value far from the mean counts several
            // times. Values beside one as large as 1e6 keep fewer bits.
            let part = if input.2 == Some(1e6) { 1.0 } else { 16.0 };
            let precision = Precision {
                products: F::PRODUCTS / part,
                ..precision::<F::Stored>()
            };
            let subject = Subject::<F::Stored>::new(run, shape, input)?;
            let y = subject.result(run, choose(&subject.g, 1))?;
            let wanted = subject.case.expected_of_one_kernel(&precision);
            compare(&subject.case.name, &y, &wanted.expect("a volume"))?;
        }
    }
    Ok(())
}

/// Checks that single blocks and clusters give the same bits; all NaN count as equal.
fn same_in_clusters_by<F: Format>(run: &Run, choose: Choose, clusters: &[u32]) -> Outcome {
    for (shape, input) in CLUSTERED {
        let subject = Subject::<F::Stored>::new(run, SHAPES[shape], INPUTS[input])?;
        let of = |blocks| subject.result(run, choose(&subject.g, blocks))?.values();
        let alone = of(1)?;
        for &blocks in clusters {
            let name = format!("{} by {blocks} blocks", subject.case.name);
            for (i, (got, want)) in of(blocks)?.iter().zip(&alone).enumerate() {
                if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
                    return Err(Failure(format!("{name}: {i} is {got}, alone {want}")));
                }
            }
        }
    }
    Ok(())
}

/// Checks that the last sample of a batch of more than 2^32 elements has the bits that it has alone.
fn far_by<F: Format>(run: &Run, choose: Choose) -> Outcome {
    const SAMPLES: u64 = 300_000_001;
    let subject = Subject::<F::Stored>::new(run, SHAPES[0], INPUTS[0])?;
    let alone = subject.result(run, choose(&subject.g, 1))?.values()?;
    let values: Vec<f32> = subject.case.x.iter().copied().collect();
    let (inputs, outputs) = (values.len() as u64, alone.len() as u64);
    let g = OneLaunch3dGeometry {
        n: SAMPLES,
        ..subject.g
    };
    let at = move |at: u64| values[(at % inputs) as usize];
    let x = run.computed::<F::Stored>(SAMPLES * inputs, at)?;
    let y = run.sparse::<F::Stored>(SAMPLES * outputs)?;
    let parameters = &subject.tensors.parameters;
    let [w, b, m] = [0, 1, 2].map(|index| parameters[index].source());
    let arguments = (x.source(), w, b, m, y.ptr(), g);
    let ((family, labels), shape) = choose(&g, 1);
    run.launch_some(family, &labels, shape, &[SAMPLES - 1], arguments)?;
    let last = (SAMPLES - 1) * outputs..SAMPLES * outputs;
    y.are("the last sample", last, |at| alone[(at % outputs) as usize])
}

/// [`far_by`] for the kernel with `mma.sync`.
pub(crate) fn far<F: Format>(run: &Run) -> Outcome {
    far_by::<F>(run, of_warps::<F>)
}

/// [`far_by`] for the kernel with `wgmma`.
pub(crate) fn far_on_warpgroups<F: Format>(run: &Run) -> Outcome {
    far_by::<F>(run, of_warpgroups::<F>)
}

/// The kernel with `mma.sync`.
pub(crate) fn matches<F: Format>(run: &Run) -> Outcome {
    matches_by::<F>(run, of_warps::<F>)
}

/// The kernel with `wgmma`.
pub(crate) fn matches_on_warpgroups<F: Format>(run: &Run) -> Outcome {
    matches_by::<F>(run, of_warpgroups::<F>)
}

/// Clusters of the kernel with `mma.sync`.
pub(crate) fn clusters<F: Format>(run: &Run) -> Outcome {
    same_in_clusters_by::<F>(run, of_warps::<F>, &[2, 4, 8])
}

/// Clusters of the kernel with `wgmma`.
pub(crate) fn warpgroup_clusters<F: Format>(run: &Run) -> Outcome {
    same_in_clusters_by::<F>(run, of_warpgroups::<F>, &[warpgroup::CLUSTER_BLOCKS])
}
