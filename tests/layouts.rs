//! Tensors whose layout differs from the kernels': channels-last, reversed, with gaps, at odd addresses.

use convfuse::model::Precision;
use convfuse::spec::{ClampSpec, Conv2dSpec, GroupNormSpec, ReductionOp, ReductionSpec};
use convfuse::{DType, Device, Model, Options, Stream, Tensor, data, lab, ops};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, array};

use crate::backend::{Backend, Outcome};
use crate::chains::{preset_79, presets};
use crate::suite::{bits, says};

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "layouts",
        &[
            ("give_models_the_bits_of_contiguous_inputs", models),
            ("give_operators_the_bits_of_contiguous_tensors", operators),
            ("become_contiguous_and_of_another_type", conversions),
            ("are_reshaped_with_a_copy_where_one_is_needed", reshapes),
        ],
    );
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "layouts",
        &[
            ("are_explained_and_held_to_by_plans", plans),
            ("of_too_many_axes_are_refused", axes),
            ("of_outputs_are_dense_and_aligned", outputs),
            ("cross_to_another_device_and_back", across),
        ],
    ));
    trials
}

/// A memory layout.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The axes from the outermost in memory to the innermost.
    pub(crate) order: fn(usize) -> Vec<usize>,
    /// Unused elements after each index of the outermost axis.
    pub(crate) gap: usize,
    /// Elements of memory before the first element.
    pub(crate) before: usize,
    /// Whether the outermost axis is reversed.
    pub(crate) is_reversed: bool,
}

pub(crate) const fn way(name: &'static str, order: fn(usize) -> Vec<usize>) -> Way {
    Way {
        name,
        order,
        gap: 0,
        before: 0,
        is_reversed: false,
    }
}

fn row_major(rank: usize) -> Vec<usize> {
    (0..rank).collect()
}

pub(crate) fn channels_last(rank: usize) -> Vec<usize> {
    let mut order = row_major(rank);
    if rank > 1 {
        order[1..].rotate_left(1);
    }
    order
}

fn column_major(rank: usize) -> Vec<usize> {
    (0..rank).rev().collect()
}

pub(crate) const WAYS: [Way; 6] = [
    way("channels last", channels_last),
    way("column-major", column_major),
    Way {
        before: 1,
        ..way("from an odd address", row_major)
    },
    Way {
        gap: 3,
        ..way("with gaps", row_major)
    },
    Way {
        is_reversed: true,
        ..way("backwards", row_major)
    },
    Way {
        before: 5,
        gap: 1,
        ..way("channels last with gaps", channels_last)
    },
];

/// Uploads `values` as `dtype` in this layout.
pub(crate) fn lying(
    stream: &Stream,
    values: &ArrayD<f32>,
    dtype: DType,
    way: &Way,
) -> Result<Tensor, Failed> {
    let shape = values.shape();
    let order = (way.order)(shape.len());
    let mut strides = vec![0isize; shape.len()];
    let mut next = 1;
    for &axis in order.iter().rev() {
        strides[axis] = next as isize;
        next *= shape[axis];
        if order.get(1) == Some(&axis) {
            next += way.gap;
        }
    }
    let mut first = way.before;
    if way.is_reversed {
        first += (shape[order[0]] - 1) * strides[order[0]] as usize;
        strides[order[0]] *= -1;
    }
    let mut memory = vec![f32::NAN; way.before + next];
    for (index, &value) in values.indexed_iter() {
        let places = (0..shape.len()).map(|axis| index[axis] as isize * strides[axis]);
        memory[first.strict_add_signed(places.sum())] = value;
    }
    let memory = Tensor::from_f32_array(stream, &ndarray::Array1::from(memory), dtype)?;
    let tensor = lab::as_strided(&memory, first, shape, &strides);
    tensor.ok_or_else(|| "the memory is too short".into())
}

/// Uploads `values` as `dtype`, channels last.
pub(crate) fn lying_last(
    stream: &Stream,
    values: &ArrayD<f32>,
    dtype: DType,
) -> Result<Tensor, Failed> {
    lying(stream, values, dtype, &WAYS[0])
}

pub(crate) fn bits_of(tensor: &Tensor) -> convfuse::Result<Vec<u32>> {
    Ok(bits(&tensor.to_f32_array()?))
}

fn models(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for preset in presets() {
        let values = data::signed(1, preset.small);
        for dtype in DTYPES {
            let parameters = convfuse::Parameters::init(&preset.chain, 3)?;
            let model = Model::with_dtype(&stream, &preset.chain, &parameters, dtype)?;
            let x = Tensor::from_f32_array(&stream, &values, dtype)?;
            let wanted = bits_of(&model.forward(&x)?)?;
            for way in &WAYS {
                let x = lying(&stream, &values, dtype, way)?;
                let what = || format!("{} in {dtype}, {}", preset.name, way.name);
                assert_eq!(bits_of(&model.forward(&x)?)?, wanted, "{}", what());
                let mut plan = model.plan_for(&stream, &x, &Options::default())?;
                let mut y = plan.output()?;
                plan.execute(&x, &mut y)?;
                assert_eq!(bits_of(&y)?, wanted, "{} planned", what());
            }
            // Slices. For some types the second one begins at an odd address.
            let whole = Tensor::from_f32_array(&stream, &values, dtype)?;
            for sample in 0..2 {
                let x = whole.slice(sample..sample + 1)?;
                let length = wanted.len() / 2;
                let wanted = &wanted[sample * length..][..length];
                assert_eq!(bits_of(&model.forward(&x)?)?, wanted, "sample {sample}");
            }
        }
    }
    Ok(())
}

fn operators(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = data::signed(1, &[2, 4, 7, 9][..]);
    let weight = data::signed(2, &[6, 4, 3, 3][..]);
    let bias = data::signed(3, &[6][..]);
    let factors = data::signed(4, &[4][..]);
    let run = |way: &Way, bias_way: &Way, dtype: DType| -> Result<Vec<Vec<u32>>, Failed> {
        let tensor = |values: &ArrayD<f32>, way| lying(&stream, values, dtype, way);
        let x = tensor(&x, way)?;
        let (weight, bias) = (tensor(&weight, way)?, tensor(&bias, bias_way)?);
        let factors = tensor(&factors, bias_way)?;
        let norm = ops::group_norm(&x, Some(&factors), Some(&factors), &GroupNormSpec::new(2))?;
        let results = [
            ops::conv2d(&x, &weight, Some(&bias), &Conv2dSpec::default())?,
            norm,
            ops::scale(&x, &factors)?,
            ops::reduction(&x, &ReductionSpec::new(ReductionOp::Max, &[1]))?,
            ops::clamp(&x, &ClampSpec::new(-0.5, 0.5))?,
        ];
        Ok(results.iter().map(bits_of).collect::<Result<_, _>>()?)
    };
    let vectors = [
        way("dense", row_major),
        Way {
            before: 1,
            ..way("from an odd address", row_major)
        },
        Way {
            is_reversed: true,
            ..way("backwards", row_major)
        },
    ];
    for dtype in DTYPES {
        let wanted = run(&vectors[0], &vectors[0], dtype)?;
        for (number, way) in WAYS.iter().enumerate() {
            let got = run(way, &vectors[number % 3], dtype)?;
            assert_eq!(got, wanted, "{} in {dtype}", way.name);
        }
    }
    Ok(())
}

fn conversions(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let mut values = data::signed(1, &[3, 5, 11, 6][..]);
    let specials = [
        f32::NAN,
        f32::INFINITY,
        -0.0,
        1e-40,
        7e4,
        65_519.9,
        1.0 + 1.0 / 2048.0,
    ];
    for (value, special) in values.iter_mut().step_by(7).zip(specials) {
        *value = special;
    }
    for source in DTYPES {
        for way in WAYS.iter().chain([&way("dense", row_major)]) {
            let x = lying(&stream, &values, source, way)?;
            let stored = values.mapv(|value| source.round(value));
            let dense = x.contiguous()?;
            assert!(dense.is_contiguous());
            assert_eq!(bits_of(&dense)?, bits(&stored), "{} in {source}", way.name);
            for target in DTYPES {
                let y = x.to_dtype(target)?;
                assert_eq!(y.dtype(), target);
                let wanted = stored.mapv(|value| target.round(value));
                let (got, wanted) = (y.to_f32_array()?, wanted);
                let same = |(got, wanted): (&f32, &f32)| {
                    got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan()
                };
                assert!(
                    got.iter().zip(&wanted).all(same),
                    "{} from {source} to {target}",
                    way.name
                );
            }
        }
    }
    // A tensor that already has the required layout is not copied.
    let x = Tensor::from_array(&stream, &values)?;
    stream.take_counts();
    x.contiguous()?.to_dtype(DType::F32)?.reshape(&[15, 66])?;
    assert_eq!(stream.take_counts().launches, 0);
    let empty = x.slice(1..1)?;
    assert_eq!(empty.to_dtype(DType::F16)?.shape(), [0, 5, 11, 6]);
    Ok(())
}

fn reshapes(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let values = data::signed(1, &[4, 6, 5][..]);
    for way in &WAYS {
        let x = lying(&stream, &values, DType::F32, way)?;
        let y = x.reshape(&[8, 15])?;
        let wanted = values.clone().into_shape_with_order(vec![8, 15])?;
        assert_eq!(y.to_array::<f32>()?, wanted, "{}", way.name);
        if x.is_contiguous() {
            stream.take_counts();
            x.reshape(&[120])?;
            assert_eq!(stream.take_counts(), convfuse::Counts::default());
        }
        says(
            x.reshape(&[7, 15]),
            "reshape: the tensor has shape [4, 6, 5], shape [7, 15] must have as many elements",
        )?;
    }
    Ok(())
}

fn plans(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let preset = preset_79();
    let model = Model::init(&stream, &preset.chain, 1)?;
    let values = data::signed(1, preset.small);
    let dense = Tensor::from_array(&stream, &values)?;
    let last = lying(&stream, &values, DType::F32, &WAYS[0])?;
    let mut plan = model.plan_for(&stream, &last, &Options::default())?;
    let explanation = plan.explain()?;
    let copy = &explanation.launches[0];
    assert_eq!(copy.kernel, "copy_strided_f32_f32");
    assert_eq!(copy.bytes_moved, 2 * dense.bytes());
    let mut for_dense = model.plan(&stream, preset.small, &Options::default())?;
    let others = for_dense.explain()?.launches;
    assert_eq!(explanation.launches[1..], others);
    assert!(plan.workspace_bytes() >= dense.bytes());

    let mut y = plan.output()?;
    let way_out = "give the tensor that contiguous() makes of it to a plan for contiguous ones, or make a plan for tensors such as this one by Model::plan_for";
    let strided = "strided: 2 by 630, 3 by 1, 210 by 3; from a multiple of 16 bytes";
    says(
        for_dense.execute(&last, &mut y),
        &format!("plan: the input is {strided}, must be contiguous and aligned: {way_out}"),
    )?;
    says(
        plan.execute(&dense, &mut y),
        &format!("plan: the input is contiguous and aligned, must be {strided}: {way_out}"),
    )?;
    let odd = lying(&stream, &values, DType::F32, &WAYS[2])?;
    says(
        for_dense.execute(&odd, &mut y),
        &format!(
            "plan: the input is contiguous; from no multiple of 16 bytes, must be contiguous and aligned: {way_out}"
        ),
    )?;
    plan.execute(&last, &mut y)?;
    let wanted = y.to_array::<f32>()?;
    for_dense.execute(&last.contiguous()?, &mut y)?;
    assert_eq!(y.to_array::<f32>()?, wanted);
    Ok(())
}

fn axes(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let memory = Tensor::zeros(&stream, &[1 << 18], DType::F32)?;
    let strides: Vec<isize> = (0..9).map(|axis| 3 << (2 * (8 - axis))).collect();
    let x = lab::as_strided(&memory, 0, &[2; 9], &strides).ok_or("the memory is too short")?;
    let refusal = "copy_strided: axes that do not merge is 9, limit 8 on a GPU";
    says(x.contiguous(), refusal)?;
    says(ops::clamp(&x, &ClampSpec::new(0.0, 1.0)), refusal)?;
    let fewer = x.slice(0..1)?;
    assert_eq!(fewer.contiguous()?.shape(), fewer.shape());
    Ok(())
}

fn outputs(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let preset = preset_79();
    let model = Model::init(&stream, &preset.chain, 1)?;
    let x = Tensor::from_array(&stream, &data::signed(1, preset.small))?;
    let mut plan = model.plan(&stream, preset.small, &Options::default())?;
    let shape = plan.output_shape().to_vec();
    let len: usize = shape.iter().product();
    let output = |first: usize, gap: usize| {
        let memory = Tensor::zeros(&stream, &[2 * len + 4], DType::F32)?;
        let mut strides = vec![1isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as isize;
        }
        strides[0] += gap as isize;
        let view = lab::as_strided(&memory, first, &shape, &strides);
        view.ok_or_else(|| Failed::from("the memory is too short"))
    };
    says(
        plan.execute(&x, &mut output(0, 1)?),
        "plan: the output is not contiguous",
    )?;
    let Err(error) = plan.execute(&x, &mut output(1, 0)?) else {
        return Err("a misaligned output was accepted".into());
    };
    let message = error.to_string();
    assert!(
        message.starts_with("plan: address 0x") && message.ends_with(" is no multiple of 16"),
        "{message}"
    );
    let mut y = output(4, 0)?;
    plan.execute(&x, &mut y)?;
    assert_eq!(y.to_array::<f32>()?, model.forward(&x)?.to_array::<f32>()?);
    Ok(())
}

fn across(backend: Backend) -> Outcome {
    let (here, there) = (backend.stream()?, Device::cpu().stream()?);
    let values = data::signed(1, &[3, 5, 4][..]);
    for dtype in DTYPES {
        for way in &WAYS {
            let x = lying(&here, &values, dtype, way)?;
            let wanted = bits_of(&x)?;
            let y = x.to(&there)?;
            assert_eq!((y.device(), y.dtype()), (there.device(), dtype));
            assert_eq!(bits_of(&y)?, wanted);
            let z = y.slice(1..3)?.to(&here)?;
            assert_eq!(bits_of(&z)?, wanted[wanted.len() / 3..]);
        }
    }
    let other = here.device().stream()?;
    let x = Tensor::from_array(&here, &array![1.0f32, 2.0])?;
    assert_eq!(*x.to(&other)?.stream(), other);
    if backend != Backend::Gpu || Device::gpu_count()? < 2 {
        return Ok(());
    }
    let far = Device::gpu(1)?.stream()?;
    let values = data::signed(1, &[1 << 20][..]);
    let x = Tensor::from_array(&here, &values)?;
    for _ in 0..20 {
        // A tensor that is dropped during its copy stays until the copy is done.
        let y = ops::clamp(&x, &ClampSpec::new(-2.0, 2.0))?.to(&far)?;
        assert_eq!(
            ops::clamp(&y, &ClampSpec::new(-2.0, 2.0))?
                .to(&here)?
                .to_array::<f32>()?,
            values
        );
    }
    Ok(())
}

/// Asserts that results which sum a few hundred products in another order, or on other units, differ by at
/// most two roundings of the largest value. NaN must match NaN.
pub(crate) fn are_close(got: &[u32], wanted: &[u32], (dtype, precision): (DType, Precision)) {
    let values = |bits: &[u32]| bits.iter().copied().map(f32::from_bits).collect::<Vec<_>>();
    let (got, wanted) = (values(got), values(wanted));
    let largest = wanted.iter().filter(|v| !v.is_nan());
    let largest = largest.fold(0.0_f32, |largest, v| largest.max(v.abs()));
    let rounding = match (dtype, precision) {
        (DType::BF16, _) => 2.0_f32.powi(-8),
        (DType::F16, _) | (_, Precision::Fast) => 2.0_f32.powi(-11),
        _ => 2.0_f32.powi(-20),
    };
    assert_eq!(got.len(), wanted.len());
    for (got, wanted) in got.into_iter().zip(wanted) {
        let is_close = (got - wanted).abs() <= 2.0 * rounding * largest;
        assert!(
            is_close || got.is_nan() && wanted.is_nan(),
            "{got}, not {wanted}"
        );
    }
}
