//! Prints results and counts.
use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Precision, Strategy,
};
use convfuse::spec::*;
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as W85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as W79,
};
use convfuse::{DType, Device, Stream, Tensor, data, ops};
use std::hash::{Hash, Hasher};

fn hash(t: &Tensor) -> u64 {
    let mut h = std::collections::hash_map::DefaultHasher::new();
    for v in t.to_f32_array().unwrap().iter() {
        v.to_bits().hash(&mut h);
    }
    t.shape().hash(&mut h);
    h.finish()
}

fn model<M: Pipeline>(name: &str, model: &M, shape: &[usize]) {
    let stream = model.stream();
    let x = Tensor::from_f32_array(stream, &data::signed(3, shape), model.dtype()).unwrap();
    for &strategy in M::Strategy::ALL {
        let mut all = vec![Options::strategy(strategy)];
        if strategy == M::Strategy::FUSED {
            all.push(Options::strategy(strategy).precision(Precision::Fast));
            all.push(Options::strategy(strategy).batch_invariant(false));
        } else {
            all.push(Options::strategy(strategy).workspace_bytes(5000));
        }
        for o in all {
            stream.take_counts();
            for run in 0..2 {
                match model.forward_with(&x, &o) {
                    Ok(y) => {
                        let c = stream.take_counts();
                        println!(
                            "{name} {} {shape:?} {strategy} {} {} {} run {run}: {:016x} launches {} moved {} peak {}",
                            model.dtype(),
                            o.precision,
                            o.batch_invariant,
                            o.workspace_bytes,
                            hash(&y),
                            c.launches,
                            c.bytes_moved,
                            if run == 1 { c.peak_bytes } else { 0 }
                        );
                    }
                    Err(e) => println!(
                        "{name} {} {shape:?} {strategy} {}: {e}",
                        model.dtype(),
                        o.workspace_bytes
                    ),
                }
            }
            if let Ok(mut plan) = model.plan(stream, shape, &o) {
                let mut y = plan.output().unwrap();
                stream.take_counts();
                plan.execute(&x, &mut y).unwrap();
                let c = stream.take_counts();
                println!(
                    "   plan {:016x} {} {} workspace {}",
                    hash(&y),
                    c.launches,
                    c.bytes_moved,
                    plan.workspace_bytes()
                );
            }
        }
    }
}

fn both(stream: &Stream, dtype: DType) {
    let s = Conv2dGroupNormScaleMaxPoolClampSpec::kernelbench();
    let m = |s: &Conv2dGroupNormScaleMaxPoolClampSpec| {
        Model85::with_dtype(stream, s, &W85::init(s, 1), dtype).unwrap()
    };
    model("85", &m(&s), &[2, 8, 14, 128]);
    model("85", &m(&s), &[2, 8, 11, 14]);
    for overlapping in [false, true] {
        let g = Conv2dGroupNormScaleMaxPoolClampSpec {
            in_channels: 5,
            out_channels: 24,
            group_norm: GroupNormSpec::new(6),
            max_pool: MaxPool2dSpec {
                stride: overlapping.then_some([1, 2]),
                ..MaxPool2dSpec::new([2, 3])
            },
            ..s
        };
        model("85g", &m(&g), &[2, 5, 15, 21]);
    }
    let d = Conv2dGroupNormScaleMaxPoolClampSpec {
        in_channels: 6,
        out_channels: 6,
        group_norm: GroupNormSpec::new(3),
        max_pool: MaxPool2dSpec::new([2, 2]),
        conv: Conv2dSpec {
            groups: 6,
            padding: [1, 1],
            ..Conv2dSpec::default()
        },
        ..s
    };
    model("85depthwise", &m(&d), &[2, 6, 12, 17]);
    let f = Conv2dGroupNormScaleMaxPoolClampSpec {
        in_channels: 1,
        out_channels: 2,
        group_norm: GroupNormSpec::new(1),
        max_pool: MaxPool2dSpec::new([2, 2]),
        ..s
    };
    model("85few", &m(&f), &[3, 1, 12, 17]);
    model("85empty", &m(&f), &[0, 1, 12, 17]);
    let s = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::kernelbench();
    let m = |s: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec| {
        Model79::with_dtype(stream, s, &W79::init(s, 1), dtype).unwrap()
    };
    model("79", &m(&s), &[2, 3, 5, 8, 32]);
    model("79", &m(&s), &[2, 3, 5, 6, 7]);
    let g = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
        in_channels: 4,
        out_channels: 18,
        affine: true,
        ..s
    };
    model("79g", &m(&g), &[2, 4, 5, 9, 13]);
    model("79empty", &m(&s), &[0, 3, 5, 8, 32]);
}

fn operators(stream: &Stream, dtype: DType) {
    let t = |seed, shape: &[usize]| {
        Tensor::from_f32_array(stream, &data::signed(seed, shape), dtype).unwrap()
    };
    let print = |name: &str, y: convfuse::Result<Tensor>| {
        let c = stream.take_counts();
        match y {
            Ok(y) => println!(
                "{name} {dtype} {:?} {:016x} launches {} moved {} peak {}",
                y.shape(),
                hash(&y),
                c.launches,
                c.bytes_moved,
                c.peak_bytes
            ),
            Err(e) => println!("{name} {dtype} {e}"),
        }
    };
    for shape in [[2usize, 6, 9, 13], [0, 6, 9, 13], [32, 4, 65, 67]] {
        let (x, w, b, f) = (
            t(1, &shape),
            t(2, &[6.min(shape[1])]),
            t(3, &[6.min(shape[1])]),
            t(4, &[6.min(shape[1])]),
        );
        let (norm, inorm, pool, clamp) = (
            GroupNormSpec::new(2),
            InstanceNormSpec::default(),
            MaxPool2dSpec::new([2, 3]),
            ClampSpec::new(-0.5, 0.5),
        );
        stream.take_counts();
        print("clamp", ops::clamp(&x, &clamp));
        print("scale", ops::scale(&x, &f));
        print("max", ops::channel_max(&x));
        print("pool", ops::max_pool2d(&x, &pool));
        print("norm", ops::group_norm(&x, Some(&w), Some(&b), &norm));
        print("norm", ops::group_norm(&x, None, Some(&b), &norm));
        print("inorm", ops::instance_norm(&x, Some(&w), None, &inorm));
        print(
            "norm scale",
            ops::group_norm_scale(&x, Some(&w), None, &f, &norm),
        );
        print(
            "norm scale 4",
            ops::group_norm_scale(&x, Some(&w), None, &f, &GroupNormSpec::new(shape[1])),
        );
        print(
            "nspc",
            ops::group_norm_scale_max_pool2d_clamp(&x, Some(&w), None, &f, &norm, &pool, &clamp),
        );
        print("spc", ops::scale_max_pool2d_clamp(&x, &f, &pool, &clamp));
        print("pc", ops::max_pool2d_clamp(&x, &pool, &clamp));
        print("cmm", ops::clamp_multiply_channel_max(&x, &f, &clamp));
        print(
            "minm",
            ops::multiply_instance_norm_clamp_multiply_channel_max(
                &x,
                Some(&w),
                None,
                &f,
                &inorm,
                &clamp,
            ),
        );
        print("fold", ops::fold_scale(Some(&w), None, &f).map(|(w, _)| w));
        print("bad", ops::scale(&x, &t(1, &[5])));
    }
}

fn main() {
    let stream = Device::emulator().stream().unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        operators(&stream, dtype);
    }
    for dtype in [DType::F32, DType::F16] {
        both(&stream, dtype);
    }
}
