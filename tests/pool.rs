//! Pools: maxima, averages of windows and of all positions.

use convfuse::graph::{Chain, Layer};
use convfuse::spec::{AdaptiveAvgPool2dSpec, AvgPool2dSpec, MaxPool2dSpec, MaxPool3dSpec};
use convfuse::{Model, Options, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array4, Array5, ArrayD, Axis, IxDyn};

use crate::backend::{Backend, Outcome};
use crate::suite::bits;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "pool",
        &[
            ("never_lets_padding_win", padding),
            ("averages_zeros_to_zero", zeros),
            ("has_the_bits_of_any_batch", batches),
            ("takes_windows_far_beyond_the_input", hanging),
        ],
    );
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "max_pool2d",
        &[("never_lets_padding_win", padding_of_images)],
    ));
    trials.extend(Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "pool",
        &[("takes_one_launch_or_two", launches)],
    ));
    trials
}

fn padding_of_images(backend: Backend) -> Outcome {
    let x = ArrayD::from_elem(vec![1, 1, 3, 3], f32::NEG_INFINITY);
    let x = Tensor::from_array(&backend.stream()?, &x)?;
    let spec = MaxPool2dSpec::new(3).padding(1).stride(1);
    let y = ops::max_pool2d(&x, &spec)?.to_array::<f32>()?;
    assert!(y.iter().all(|&value| value == f32::NEG_INFINITY), "{y}");
    Ok(())
}

fn padding(backend: Backend) -> Outcome {
    let x = Array5::from_elem((1, 1, 3, 3, 3), f32::NEG_INFINITY);
    let x = Tensor::from_array(&backend.stream()?, &x)?;
    let spec = MaxPool3dSpec::new(3).padding(1).stride(1);
    let y = ops::max_pool3d(&x, &spec)?.to_array::<f32>()?;
    assert!(y.iter().all(|&value| value == f32::NEG_INFINITY), "{y}");
    Ok(())
}

/// As PyTorch's sums, which start from 0: negative zeros give positive ones.
fn zeros(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array4::from_elem((1, 2, 4, 4), -0.0f32))?;
    let windows = ops::avg_pool2d(&x, &AvgPool2dSpec::new(2))?;
    let whole = ops::adaptive_avg_pool2d(&x, &AdaptiveAvgPool2dSpec::default())?;
    for y in [windows, whole] {
        assert!(
            y.to_array::<f32>()?
                .iter()
                .all(|value| value.to_bits() == 0)
        );
    }
    Ok(())
}

/// Planes of one part, and of several.
fn batches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for extents in [[9, 11], [70, 71]] {
        let x = data::signed(1, IxDyn(&[5, 3, extents[0], extents[1]]));
        let average = |x: &ArrayD<f32>| -> convfuse::Result<Vec<u32>> {
            let x = Tensor::from_array(&stream, x)?;
            let whole = ops::adaptive_avg_pool2d(&x, &AdaptiveAvgPool2dSpec::default())?;
            let windows = ops::avg_pool2d(&x, &AvgPool2dSpec::new([3, 4]))?;
            let mut all = bits(&whole.to_array::<f32>()?);
            all.extend(bits(&windows.to_array::<f32>()?));
            Ok(all)
        };
        let all = average(&x)?;
        let windows = extents[0] / 3 * (extents[1] / 4);
        for sample in 0..5 {
            let one = x
                .slice_axis(Axis(0), (sample..sample + 1).into())
                .to_owned();
            let one = average(&one)?;
            assert_eq!(one[..3], all[3 * sample..][..3]);
            let first = 15 + 3 * windows * sample;
            assert_eq!(one[3..], all[first..][..3 * windows]);
        }
    }
    Ok(())
}

/// Windows and steps whose extents exceed 32 bits.
fn hanging(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &Array4::<f32>::ones((1, 1, 2, 3)))?;
    let far = 1 << 31;
    let spec = AvgPool2dSpec::new([far, far - 1])
        .stride([far, far])
        .ceil_mode(true)
        .count_include_pad(false);
    let y = ops::avg_pool2d(&x, &spec)?.to_array::<f32>()?;
    assert_eq!(y.iter().copied().collect::<Vec<_>>(), [1.0]);
    let volume = Tensor::from_array(&stream, &Array5::<f32>::ones((1, 1, 1, 2, 3)))?;
    let spec = MaxPool3dSpec::new([1, 2, 2])
        .stride([far; 3])
        .dilation([1, far - 1, far - 1])
        .ceil_mode(true);
    let y = ops::max_pool3d(&volume, &spec)?.to_array::<f32>()?;
    assert_eq!(y.iter().copied().collect::<Vec<_>>(), [1.0]);
    Ok(())
}

fn launches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let head = [Layer::relu(), Layer::adaptive_avg_pool2d(1)];
    let model = Model::init(&stream, &Chain::new(3, head)?, 1)?;
    let kernels = |shape: &[usize]| -> convfuse::Result<Vec<String>> {
        let explanation = model.explain(shape, &Options::default())?;
        let rows: Vec<&str> = explanation.regions.iter().map(|run| run.kernels).collect();
        assert_eq!(rows, ["tensor", "tensor"]);
        let launches = explanation.launches.iter();
        Ok(launches.map(|launch| launch.kernel.to_owned()).collect())
    };
    let small = kernels(&[2, 3, 7, 7])?;
    assert_eq!(small, ["pointwise_f32", "row_reduction_mean_f32"]);
    let large = kernels(&[2, 3, 128, 128])?;
    assert_eq!(
        large[1..],
        ["row_reduction_sum_f32", "row_reduction_mean_f32"]
    );
    Ok(())
}
