//! Channels-last inputs that warp-specialized tiles read in place: 16-bit values, and f32 that the producer
//! converts.

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::model::Precision;
use convfuse::spec::Conv2dSpec;
use convfuse::{DType, Model, Options, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{Way, bits_of, channels_last, lying, way};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS,
        "channels_last",
        &[("inputs_are_multiplied_without_a_copy", without_a_copy)],
    )
}

/// A chain whose convolution takes warp-specialized tiles, if the device has them.
fn of_warp_specialized_tiles(
    norm: Option<Layer>,
    [channels, filters]: [usize; 2],
    (groups, stride): (usize, usize),
) -> convfuse::Result<Chain> {
    let mut conv = ConvLayer::<2>::new("conv", filters, [3, 3]);
    conv.attributes = Conv2dSpec::default()
        .stride([stride; 2])
        .padding(1)
        .groups(groups);
    let layers = [Some(Layer::from(conv)), norm, Some(Layer::relu())];
    Ok(Chain::new(channels, layers.into_iter().flatten())?)
}

fn without_a_copy(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let norm = || Layer::from(Layer::group_norm("norm", 8));
    // What is wide on an emulated device is too little for all the multiprocessors of others.
    let (normed, grouped, without_norm) = match backend {
        Backend::Emulator => ([2, 128, 12, 20], [64, 128], [17, 33]),
        _ => ([2, 128, 24, 40], [128, 256], [40, 66]),
    };
    // Where rounding takes no longer than reformatting.
    let rounded = match backend {
        Backend::Emulator => normed,
        _ => [2, 128, 128, 128],
    };
    let cases = [
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            normed,
            DType::F16,
            1.0,
        ),
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            rounded,
            DType::F32,
            1.0,
        ),
        // A sample that the optimistic scale does not suit.
        (
            of_warp_specialized_tiles(Some(norm()), [128, 128], (1, 1))?,
            rounded,
            DType::F32,
            1e4,
        ),
        // Without a norm, the NaN/Inf fix-up pass reads the input in place.
        (
            of_warp_specialized_tiles(None, grouped, (2, 2))?,
            [2, grouped[0], without_norm[0], without_norm[1]],
            DType::BF16,
            1.0,
        ),
    ];
    let options = Options::default().precision(Precision::Fast);
    for (chain, shape, dtype, factor) in cases {
        let mut values = data::signed(1, &shape[..]);
        let last = values.outer_iter_mut().next_back();
        last.expect("a sample").mapv_inplace(|x| x * factor);
        let is_without_norm = chain.layers().len() == 2;
        if is_without_norm {
            let specials = [f32::NAN, f32::INFINITY];
            let places = values.iter_mut().step_by(1000);
            places.zip(specials).for_each(|(x, special)| *x = special);
        }
        let parameters = convfuse::Parameters::init(&chain, 3)?;
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let x = Tensor::from_f32_array(&stream, &values, dtype)?;
        let wanted = bits_of(&model.forward_with(&x, &options)?)?;
        let plain = way("channels last", channels_last);
        let gap = Way {
            gap: 8,
            ..way(
                "channels last, with a whole cell between samples",
                channels_last,
            )
        };
        let odd = Way {
            before: 1,
            ..way("channels last from an odd address", channels_last)
        };
        let part = Way {
            gap: 4,
            ..way(
                "channels last, with half a cell between samples",
                channels_last,
            )
        };
        for (way, are_k_vectors) in [(&plain, true), (&gap, true), (&odd, false), (&part, false)] {
            let x = lying(&stream, &values, dtype, way)?;
            let plan = model.plan_for(&stream, &x, &options)?;
            let launches = plan.explain()?.launches;
            let has = |part: &str| launches.iter().any(|launch| launch.kernel.contains(part));
            let reads_k_vectors = are_k_vectors && has("gemm_sm90");
            assert_eq!(
                has("copy_strided"),
                !reads_k_vectors,
                "{} in {dtype}",
                way.name
            );
            assert_eq!(
                has("gemm_reformat"),
                !reads_k_vectors,
                "{} in {dtype}",
                way.name
            );
            let has_warp_specialized = stream.device().properties().arch.has_warpgroup_mma();
            assert_eq!(has("gemm_sm90"), has_warp_specialized, "{dtype}");
            assert_eq!(
                bits_of(&model.forward_with(&x, &options)?)?,
                wanted,
                "{} in {dtype}",
                way.name
            );
        }
    }
    Ok(())
}
