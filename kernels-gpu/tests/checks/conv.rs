//! Convolutions, by both algorithms.

use cuda_std::{Label, Storage, bf16, f16};
use op_spec::conv::ConvSpec;
use op_spec::launch::conv::{ChannelTile, ConvGeometry};
use op_spec::launch::conv_gemm::{ColumnPlan, FLAT, TALL};

use super::super::kernels::conv::*;
use super::{Outcome, Run, Tensor, Wanted, compare, label, signed};

/// A convolution and its tensors.
struct Case<T> {
    name: String,
    geometry: ConvGeometry,
    x: Tensor<T>,
    weight: Tensor<T>,
    bias: Option<Tensor<T>>,
    y: Tensor<T>,
    wanted: Vec<Wanted>,
}

/// `[n, c, k]`, extents of input and filter, attributes, bias.
type Row<const D: usize> = ([usize; 3], [usize; D], [usize; D], ConvSpec<D>, bool);

fn spec<const D: usize>(
    stride: [usize; D],
    padding: [usize; D],
    dilation: [usize; D],
    groups: usize,
) -> ConvSpec<D> {
    ConvSpec {
        stride,
        padding,
        dilation,
        groups,
    }
}

/// Ragged shapes: no extent divides a tile, strides differ from dilations, groups, size 1.
fn ragged2() -> [Row<2>; 6] {
    [
        (
            [1, 1, 1],
            [1, 1],
            [1, 1],
            spec([1, 1], [0, 0], [1, 1], 1),
            true,
        ),
        (
            [2, 3, 7],
            [13, 17],
            [3, 3],
            spec([1, 1], [0, 0], [1, 1], 1),
            true,
        ),
        (
            [2, 6, 10],
            [19, 16],
            [3, 5],
            spec([2, 1], [1, 2], [1, 2], 2),
            true,
        ),
        (
            [1, 8, 16],
            [14, 11],
            [3, 3],
            spec([1, 1], [1, 1], [1, 1], 8),
            false,
        ),
        (
            [1, 5, 67],
            [9, 15],
            [2, 3],
            spec([1, 2], [0, 1], [2, 1], 1),
            true,
        ),
        // More filter rows than are staged at a time, and more pixels than a tile has.
        (
            [1, 31, 18],
            [25, 24],
            [3, 3],
            spec([1, 1], [1, 1], [1, 1], 1),
            true,
        ),
    ]
}

fn ragged3() -> [Row<3>; 4] {
    [
        (
            [2, 3, 5],
            [6, 9, 8],
            [3, 3, 3],
            spec([1; 3], [0; 3], [1; 3], 1),
            true,
        ),
        (
            [1, 4, 6],
            [7, 8, 9],
            [3, 2, 3],
            spec([1, 2, 2], [1, 0, 1], [1; 3], 2),
            true,
        ),
        (
            [1, 2, 2],
            [5, 4, 6],
            [2, 1, 2],
            spec([2, 1, 1], [0, 0, 1], [3, 1, 2], 2),
            false,
        ),
        (
            [1, 3, 16],
            [4, 12, 13],
            [3, 3, 3],
            spec([1; 3], [0; 3], [1; 3], 1),
            true,
        ),
    ]
}

impl<T: Storage> Case<T> {
    fn new<const D: usize>(run: &Run, row: &Row<D>) -> Result<Self, super::Failure> {
        let &([n, c, k], input, kernel, spec, with_bias) = row;
        let mut x_shape = vec![n, c];
        x_shape.extend(input);
        let mut w_shape = vec![k, c / spec.groups];
        w_shape.extend(kernel);
        let problem = spec
            .problem(&x_shape, &w_shape, with_bias.then_some(&[k]))
            .expect("a valid case");
        let geometry = problem.geometry().expect("a small case");
        let x = signed::<T>(1, x_shape.iter().product());
        let weight = signed::<T>(2, w_shape.iter().product());
        let bias = with_bias.then(|| signed::<T>(3, k));
        let wanted = reference(&geometry, &x, &weight, bias.as_deref());
        Ok(Self {
            name: format!("{row:?}"),
            geometry,
            x: run.tensor(&x)?,
            weight: run.tensor(&weight)?,
            y: run.empty(wanted.len())?,
            bias: bias.map(|bias| run.tensor(&bias)).transpose()?,
            wanted,
        })
    }

    fn bias_ptr<P>(&self) -> *const P {
        self.bias
            .as_ref()
            .map_or(std::ptr::null(), |bias| bias.source())
    }
}

/// The convolution, one output after the other.
fn reference(g: &ConvGeometry, x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let at = |out: u32, stride: u32, pad: u32, tap: u32, dilation: u32, extent: u32| {
        let at = i64::from(out * stride + tap * dilation) - i64::from(pad);
        (0..i64::from(extent)).contains(&at).then_some(at as usize)
    };
    for n in 0..g.n as usize {
        for k in 0..g.output_channels() {
            let first_c = (k / g.group_k * g.group_c) as usize;
            for pixel in 0..g.output_pixels() {
                let (z, p, q) = (pixel / g.q / g.p, pixel / g.q % g.p, pixel % g.q);
                let added = bias.map_or(0.0, |bias| f64::from(bias[k as usize]));
                let (mut sum, mut condition) = (added, added.abs());
                for c in 0..g.group_c as usize {
                    for tap in 0..g.taps() {
                        let (t, r, s) = (tap / g.s / g.r, tap / g.s % g.r, tap % g.s);
                        let under = (
                            at(z, g.stride_d, g.pad_d, t, g.dilation_d, g.d),
                            at(p, g.stride_h, g.pad_h, r, g.dilation_h, g.h),
                            at(q, g.stride_w, g.pad_w, s, g.dilation_w, g.w),
                        );
                        if let (Some(d), Some(h), Some(w)) = under {
                            let plane = n * g.input_channels() as usize + first_c + c;
                            let row = (plane * g.d as usize + d) * g.h as usize + h;
                            let filter = k as usize * g.group_c as usize + c;
                            let product = f64::from(x[row * g.w as usize + w])
                                * f64::from(weight[filter * g.taps() as usize + tap as usize]);
                            sum += product;
                            condition += product.abs();
                        }
                    }
                }
                wanted.push(Wanted::sum(sum, g.reduction() as usize, condition));
            }
        }
    }
    wanted
}

/// Both kernels of a direct convolution.
macro_rules! direct {
    ($name:ident, $T:ident, $D:literal, $rows:expr) => {
        /// Both tiles of the direct convolution, on every row.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for row in &$rows {
                for tile in [ChannelTile::Wide, ChannelTile::Narrow] {
                    let case = Case::<$T>::new::<$D>(run, row)?;
                    let g = case.geometry;
                    let arguments = (
                        case.x.source(),
                        case.weight.source(),
                        case.bias_ptr(),
                        case.y.ptr(),
                        g,
                    );
                    let labels = [Label::Number($D), tile.name().into(), label::<$T>()];
                    run.launch(&CONV_DIRECT, &labels, g.direct_shape(tile), arguments)?;
                    compare(&format!("{tile:?} {}", case.name), &case.y, &case.wanted)?;
                }
            }
            Ok(())
        }
    };
}

direct!(direct2_f32, f32, 2, ragged2());
direct!(direct2_f16, f16, 2, ragged2()[1..3]);
direct!(direct2_bf16, bf16, 2, ragged2()[1..3]);
direct!(direct3_f32, f32, 3, ragged3());
direct!(direct3_f16, f16, 3, ragged3()[1..2]);
direct!(direct3_bf16, bf16, 3, ragged3()[1..2]);

/// Both kernels of a convolution by im2col.
macro_rules! gemm {
    ($name:ident, $T:ident, $D:literal, $rows:expr) => {
        /// Both tiles of the matrix product, with workspaces for all, for one sample, for a part.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for row in &$rows {
                for tile in [TALL, FLAT] {
                    let case = Case::<$T>::new::<$D>(run, row)?;
                    let g = case.geometry;
                    let rows = u64::from(g.input_channels() * g.taps());
                    let sample = rows * u64::from(g.output_pixels()).next_multiple_of(4);
                    for workspace in [1 << 30, sample, rows * 12] {
                        check_plan(run, &case, tile, workspace)?;
                    }
                }
            }
            return Ok(());

            fn check_plan(
                run: &Run,
                case: &Case<$T>,
                tile: op_spec::launch::conv_gemm::ColumnGemmTile,
                workspace: u64,
            ) -> Outcome {
                let g = case.geometry;
                let plan = ColumnPlan::new(&g, workspace).expect("a workspace for a vector");
                assert!(plan.workspace_elements() <= workspace);
                let columns = run.empty::<$T>(plan.workspace_elements() as usize)?;
                for chunk in plan.chunks() {
                    run.launch(
                        &CONV_IM2COL,
                        &[Label::Number($D), label::<$T>()],
                        chunk.im2col_shape(&g),
                        (case.x.source(), columns.ptr(), g, chunk),
                    )?;
                    let arguments = (
                        case.weight.source(),
                        case.bias_ptr(),
                        columns.source(),
                        case.y.ptr(),
                        g,
                        chunk,
                    );
                    let name = tile.name().expect("a tile with kernels");
                    let labels = [name.into(), label::<$T>()];
                    run.launch(&CONV_GEMM, &labels, chunk.gemm_shape(&g, tile), arguments)?;
                }
                let what = format!("{tile:?}, workspace {workspace}, {}", case.name);
                compare(&what, &case.y, &case.wanted)
            }
        }
    };
}

gemm!(gemm2_f32, f32, 2, ragged2());
gemm!(gemm2_f16, f16, 2, ragged2()[2..3]);
gemm!(gemm2_bf16, bf16, 2, ragged2()[2..3]);
gemm!(gemm3_f32, f32, 3, ragged3());
gemm!(gemm3_f16, f16, 3, ragged3()[1..2]);
gemm!(gemm3_bf16, bf16, 3, ragged3()[1..2]);
