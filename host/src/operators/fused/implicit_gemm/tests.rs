use super::super::convolved::Parameters;
use super::*;
use crate::data;
use crate::device::{Device, Tensor};
use crate::operators::conv::Filters;
use crate::operators::launching::Affine;
use crate::operators::preparation::{Preparations, Prepared};
use crate::program::{ProgramBuilder, Value};
use crate::spec::Conv3dSpec;
use launch_config::KernelGeometry;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

/// Returns the parameters of a chain's first layer, which has only filters.
fn filters_without_norm(weight: Value, preparations: &Preparations) -> Parameters<'_> {
    Parameters {
        filters: Filters { weight, bias: None },
        norm: Affine {
            weight: None,
            bias: None,
        },
        folded: None,
        folded_behind: None,
        residual: None,
        factors: None,
        layer: 0,
        class: 0,
        preparations,
    }
}

/// Tensors between launches are large enough for any number of blocks: a sample has the same bits alone and
/// in a batch, and the emulator reports writes out of bounds. The samples have more blocks than one pass of
/// the reformat, or groups, or planes of several blocks.
#[test]
fn launches_have_room_for_what_they_leave_to_each_other() {
    let device = Device::emulator();
    let stream = device.stream().unwrap();
    // Channels, groups, rows and columns.
    let inputs = [(136, 1, [12, 11]), (300, 2, [8, 9]), (2, 1, [90, 95])];
    for (channels, groups, [h, w]) in inputs {
        let spec = Conv3dSpec::default().groups(groups);
        let shape = [2 * groups, channels / groups, 1, 1, 2];
        let dtype = DType::F32;
        for precision in Precision::ALL {
            let weight = data::signed(1, shape);
            let weight = Tensor::from_f32_array(&stream, &weight, dtype).unwrap();
            let options = FusedOptions {
                precision,
                batch_invariant: true,
            };
            // Magnitudes for which the optimistic scale fails.
            let values = data::signed(2, [2, channels, 1, h, w]).mapv(|x| 1e-3 * x);
            let convolve = |values: &ndarray::ArrayD<f32>| {
                let problem = spec.problem(values.shape(), &shape, None).unwrap();
                let geometry = problem.geometry().unwrap();
                let properties = device.properties();
                let gemm = ImplicitGemm::with_moments(
                    &geometry,
                    (None, 1),
                    dtype,
                    &properties,
                    options,
                    None,
                );
                let gemm = gemm.unwrap();
                let preparations = Preparations::default();
                let mut program = ProgramBuilder::new(&device);
                let x = Tensor::from_f32_array(&stream, values, dtype).unwrap();
                let input = program
                    .input(x.shape(), dtype, &x.order().unwrap())
                    .unwrap();
                let parameters = filters_without_norm(program.parameter(&weight), &preparations);
                let output = problem.output_shape();
                let epilogue = Epilogue::NONE;
                let convolved = append(
                    &mut program,
                    input,
                    &parameters,
                    &gemm,
                    (epilogue, OperandList::EMPTY),
                    (&output, None),
                )
                .unwrap();
                let known = Prepared::default();
                preparations.provide(&mut program, &known).unwrap();
                let program = program.finish(&[convolved.y]);
                let y = program.run_once("conv3d", &stream, &[&x]).unwrap();
                y[0].to_array::<f32>().unwrap()
            };
            let values = values.into_dyn();
            let both = convolve(&values);
            for sample in 0..2 {
                let axis = ndarray::Axis(0);
                let of = |all: &ndarray::ArrayD<f32>| {
                    let one = all.index_axis(axis, sample).insert_axis(axis);
                    one.as_standard_layout().into_owned()
                };
                let without_norm = convolve(&of(&values));
                let bits = |all: &ndarray::ArrayD<f32>| all.mapv(f32::to_bits);
                let what = format!("{channels} {groups} {precision:?}, sample {sample}");
                assert!(without_norm.iter().any(|y| *y != 0.0), "{what}");
                assert!(bits(&without_norm) == bits(&of(&both)), "{what}");
            }
        }
    }
}
