//! Fusions against the composition of their operators, on the same device.

use convfuse::spec::{ClampSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec};
use convfuse::{DType, Stream, Tensor, data, ops};
use libtest_mimic::Trial;
use ndarray::{Array1, ArrayD, IxDyn};

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::DEVICES {
        let mut add = |name: &str, test: fn(&Inputs) -> Outcome| {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let group = format!("fused::{name}");
                let test = move |backend: Backend| test(&Inputs::new(&backend.stream()?, dtype)?);
                trials.push(backend.trial(
                    &group,
                    &format!("equals_its_operators_in_{dtype}"),
                    test,
                ));
            }
        };
        add("group_norm_scale", group_norm_scale);
        add("max_pool2d_clamp", max_pool2d_clamp);
        add("scale_max_pool2d_clamp", scale_max_pool2d_clamp);
        add(
            "group_norm_scale_max_pool2d_clamp",
            group_norm_scale_max_pool2d_clamp,
        );
        add("clamp_multiply_channel_max", clamp_multiply_channel_max);
        add(
            "multiply_instance_norm_clamp_multiply_channel_max",
            multiply_instance_norm_clamp_multiply_channel_max,
        );
        add("fold_scale", fold_scale);
        let name = "equals_its_operators_where_rows_stay_in_shared_memory";
        trials.push(backend.trial("fused::group_norm_scale", name, resident_group_norm_scale));
    }
    trials
}

/// An image with 12 channels, and vectors with a value for each: negative ones and zero among them.
struct Inputs {
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor,
    norm: GroupNormSpec,
    pool: MaxPool2dSpec,
    clamp: ClampSpec,
}

impl Inputs {
    fn new(stream: &Stream, dtype: DType) -> convfuse::Result<Inputs> {
        let vector = |seed| -> convfuse::Result<Tensor> {
            let mut values: Array1<f32> = data::signed(seed, 12);
            values[5] = 0.0;
            Tensor::from_f32_array(stream, &values, dtype)
        };
        Ok(Inputs {
            x: Tensor::from_f32_array(stream, &data::signed(1, (2, 12, 19, 23)), dtype)?,
            weight: vector(2)?,
            bias: vector(3)?,
            scale: vector(4)?,
            norm: GroupNormSpec::new(3),
            pool: MaxPool2dSpec {
                padding: [1, 0],
                stride: Some([2, 3]),
                ..MaxPool2dSpec::new([3, 4])
            },
            clamp: ClampSpec::new(-0.4, 0.7),
        })
    }

    /// Roundings of the storage type between the operators, which a fusion saves; and a few of f32.
    fn tolerance(&self) -> f32 {
        match self.x.dtype() {
            DType::F16 => 4.0 / 1024.0,
            DType::BF16 => 4.0 / 128.0,
            _ => 4e-6,
        }
    }

    fn close(&self, fused: &Tensor, composed: &Tensor) -> Outcome {
        let (fused, composed) = (fused.to_f32_array()?, composed.to_f32_array()?);
        assert_eq!(fused.shape(), composed.shape());
        for (index, (got, want)) in fused.iter().zip(&composed).enumerate() {
            let tolerance = self.tolerance() * (1.0 + want.abs());
            // So that NaN fails.
            let near = (got - want).abs() <= tolerance;
            assert!(
                near,
                "element {index}: fused {got}, composed {want}, tolerance {tolerance:e}"
            );
        }
        Ok(())
    }
}

fn group_norm_scale(i: &Inputs) -> Outcome {
    let (weight, bias) = (Some(&i.weight), Some(&i.bias));
    let fused = ops::group_norm_scale(&i.x, weight, bias, &i.scale, &i.norm)?;
    i.close(
        &fused,
        &ops::scale(&ops::group_norm(&i.x, weight, bias, &i.norm)?, &i.scale)?,
    )
}

/// Enough rows, and long enough ones, for the kernel that computes the statistics itself.
fn resident_group_norm_scale(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let i = Inputs {
        x: Tensor::from_array(&stream, &data::signed(1, (32, 12, 63, 66)))?,
        norm: GroupNormSpec::new(4),
        ..Inputs::new(&stream, DType::F32)?
    };
    stream.take_counts();
    group_norm_scale(&i)?;
    let launches = stream.take_counts().launches;
    // The composition's three, and either one or two.
    assert!(
        backend == Backend::Cpu || launches == 4 || launches == 5,
        "{launches}"
    );
    Ok(())
}

fn max_pool2d_clamp(i: &Inputs) -> Outcome {
    let fused = ops::max_pool2d_clamp(&i.x, &i.pool, &i.clamp)?;
    i.close(
        &fused,
        &ops::clamp(&ops::max_pool2d(&i.x, &i.pool)?, &i.clamp)?,
    )
}

fn scale_max_pool2d_clamp(i: &Inputs) -> Outcome {
    let fused = ops::scale_max_pool2d_clamp(&i.x, &i.scale, &i.pool, &i.clamp)?;
    let scaled = ops::scale(&i.x, &i.scale)?;
    i.close(
        &fused,
        &ops::clamp(&ops::max_pool2d(&scaled, &i.pool)?, &i.clamp)?,
    )
}

fn group_norm_scale_max_pool2d_clamp(i: &Inputs) -> Outcome {
    let (weight, bias) = (Some(&i.weight), Some(&i.bias));
    let fused = ops::group_norm_scale_max_pool2d_clamp(
        &i.x, weight, bias, &i.scale, &i.norm, &i.pool, &i.clamp,
    )?;
    let scaled = ops::scale(&ops::group_norm(&i.x, weight, bias, &i.norm)?, &i.scale)?;
    i.close(
        &fused,
        &ops::clamp(&ops::max_pool2d(&scaled, &i.pool)?, &i.clamp)?,
    )
}

fn clamp_multiply_channel_max(i: &Inputs) -> Outcome {
    let fused = ops::clamp_multiply_channel_max(&i.x, &i.scale, &i.clamp)?;
    let multiplied = ops::scale(&ops::clamp(&i.x, &i.clamp)?, &i.scale)?;
    i.close(&fused, &ops::channel_max(&multiplied)?)
}

fn multiply_instance_norm_clamp_multiply_channel_max(i: &Inputs) -> Outcome {
    let spec = InstanceNormSpec::default();
    for (weight, bias) in [(None, None), (Some(&i.weight), Some(&i.bias))] {
        let fused = ops::multiply_instance_norm_clamp_multiply_channel_max(
            &i.x, weight, bias, &i.scale, &spec, &i.clamp,
        )?;
        let normed = ops::instance_norm(&ops::scale(&i.x, &i.scale)?, weight, bias, &spec)?;
        let multiplied = ops::scale(&ops::clamp(&normed, &i.clamp)?, &i.scale)?;
        i.close(&fused, &ops::channel_max(&multiplied)?)?;
    }
    Ok(())
}

fn fold_scale(i: &Inputs) -> Outcome {
    let (weight, bias) = ops::fold_scale(Some(&i.weight), Some(&i.bias), &i.scale)?;
    let folded = ops::group_norm(&i.x, Some(&weight), Some(&bias), &i.norm)?;
    let normed = ops::group_norm(&i.x, Some(&i.weight), Some(&i.bias), &i.norm)?;
    i.close(&folded, &ops::scale(&normed, &i.scale)?)?;
    let (weight, bias) = ops::fold_scale(None, None, &i.scale)?;
    assert_eq!(weight.to_f32_array()?, i.scale.to_f32_array()?);
    assert_eq!(bias.to_f32_array()?, ArrayD::<f32>::zeros(IxDyn(&[12])));
    Ok(())
}
