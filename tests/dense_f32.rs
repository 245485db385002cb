//! Dense f32 inputs, which the producers of warp-specialized kernels convert to f16 in fast f32.

use convfuse::graph::{Chain, Layer};
use convfuse::model::Precision;
use convfuse::{Arch, DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;
use ndarray::Axis;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS,
        "dense_f32",
        &[("is_converted_by_the_producer", converted)],
    )
}

/// Convolutions of each kind of epilogue, on values of which one is NaN and one sample exceeds the optimistic
/// scale. Samples have the same bits alone and in a batch.
fn converted(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = |filters, kernel: usize| Layer::conv2d("conv", filters, kernel);
    let of_groups = conv(64, 3).padding(1).groups(2);
    let volumes = Layer::conv3d("conv", 40, 3).padding(1);
    let cases: [(Vec<Layer>, &[usize]); 7] = [
        (
            vec![conv(40, 3).padding(1).into(), Layer::relu()],
            &[24, 32, 40],
        ),
        (vec![conv(72, 3).into(), Layer::relu()], &[32, 24, 36]),
        (vec![conv(64, 1).into()], &[72, 20, 28]),
        (
            vec![
                conv(48, 3).padding(1).into(),
                Layer::instance_norm("norm").into(),
                Layer::silu(),
            ],
            &[24, 32, 40],
        ),
        (
            vec![conv(32, 3).padding(1).into(), Layer::max(&[1]).into()],
            &[24, 32, 40],
        ),
        (vec![of_groups.into(), Layer::relu()], &[64, 32, 40]),
        (vec![volumes.into(), Layer::relu()], &[16, 5, 16, 32]),
    ];
    let mut converted = Vec::new();
    for (layers, sample) in cases {
        // Small images would leave most multiprocessors of a GPU idle, so they are reformatted.
        let scale = match (backend, sample) {
            (Backend::Gpu, &[_, _, _]) => 2,
            _ => 1,
        };
        let (channels, extents) = sample.split_first().expect("channels");
        let extents = extents.iter().map(|extent| scale * extent);
        let shape: Vec<usize> = [3, *channels].into_iter().chain(extents).collect();
        let chain = Chain::new(*channels, layers)?;
        let parameters = Parameters::init(&chain, 3)?;
        let mut values = data::signed(1, &shape[..]);
        let mut exceeding = values.index_axis_mut(Axis(0), 1);
        exceeding.mapv_inplace(|v| 400.0 * v);
        *values.iter_mut().nth(77).expect("an element") = f32::NAN;
        let model = Model::with_dtype(&stream, &chain, &parameters, DType::F32)?;
        let options = Options::default().precision(Precision::Fast);
        let dense = Tensor::from_f32_array(&stream, &values, DType::F32)?;
        let got = bits_of(&model.forward_with(&dense, &options)?)?;
        for (sample, in_batch) in values.outer_iter().zip(got.chunks(got.len() / 3)) {
            let sample = sample.insert_axis(Axis(0)).to_owned();
            let alone = Tensor::from_f32_array(&stream, &sample, DType::F32)?;
            let alone = bits_of(&model.forward_with(&alone, &options)?)?;
            assert!(alone == in_batch, "{chain:?}");
        }
        let accurate = bits_of(&model.forward(&dense)?)?;
        are_close(&got, &accurate, (DType::F32, Precision::Fast));
        let explained = model.plan_for(&stream, &dense, &options)?.explain()?;
        let is_converted = explained.regions[0]
            .config
            .contains("input read in place, f32 converted in the producer");
        converted.push(is_converted);
    }
    // Whether it pays depends on the device; images with 3x3 filters are converted by all of Hopper's.
    let is_hopper = stream.device().properties().arch == Arch::Sm90;
    let images = [0, 1, 3, 4, 5].map(|case| converted[case]);
    assert_eq!(images, [is_hopper; 5]);
    Ok(())
}
