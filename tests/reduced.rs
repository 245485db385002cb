//! Convolutions and transposed convolutions fused with a pool or a reduction, which runs before the output
//! is written.

use convfuse::graph::{BroadcastParameter, Chain, Layer};
use convfuse::spec::{Conv2dSpec, Padding, PaddingMode};
use convfuse::{DType, DeviceProperties, Options, Tensor};
use libtest_mimic::Trial;
use ndarray::ArrayD;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::suite::in_every_type;

pub(crate) fn trials() -> Vec<Trial> {
    let cases = || cases().into_iter().map(|(case, _)| case).collect();
    let mut trials = in_every_type("reduced", cases);
    trials.extend(Backend::trials(
        &Backend::ARCHITECTURES,
        "reduced",
        &[("has_infinities_where_windows_have_them", not_finite)],
    ));
    let explained = Backend::Emulator;
    trials.push(explained.trial("reduced", "is_written_once", launches));
    trials.push(explained.trial(
        "reduced",
        "skips_convolutions_before_constants_alone",
        means,
    ));
    trials
}

/// Chains with the layers of their first region on devices with warpgroup MMA.
fn cases() -> Vec<(Case, &'static str)> {
    let conv = |filters| Layer::from(Layer::conv2d("conv", filters, 3));
    let strided = Conv2dSpec::default().stride([2, 1]).dilation([1, 2]);
    let circular = Conv2dSpec::default()
        .padding([1, 2])
        .padding_mode(PaddingMode::Circular);
    let up = |channels| Layer::conv_transpose2d("up", channels, 3);
    let parameter = |name: &str| BroadcastParameter::new(name);
    let table = chains::table! {
        "maxima": [conv(40), Layer::relu(), Layer::max_pool2d(2)],
            [2, 16, 13, 19] => "conv2d relu max_pool2d";
        "partial_windows": [conv(64), Layer::max_pool2d([2, 4]).ceil_mode(true)],
            [2, 8, 11, 23] => "conv2d max_pool2d";
        "averages": [conv(72), Layer::batch_norm("norm"), Layer::tanh(),
            Layer::sub(parameter("shift")), Layer::avg_pool2d([4, 2]), Layer::sigmoid()],
            [2, 16, 19, 16] => "conv2d batch_norm tanh sub avg_pool2d";
        "divided": [Layer::conv2d("conv", 64, [3, 2]).attributes(strided).groups(2).bias(false),
            Layer::avg_pool2d(8).divisor_override(-5)], [1, 32, 36, 27] => "conv2d avg_pool2d";
        "padded": [Layer::conv2d("conv", 48, 3).attributes(circular), Layer::max_pool2d([1, 2])], [2, 16, 6, 9] => "conv2d max_pool2d";
        "volumes": [Layer::conv3d("conv", 32, 3).padding(Padding::Same), Layer::leaky_relu(-0.5),
            Layer::max_pool3d([1, 2, 2])], [1, 16, 5, 6, 9] => "conv3d leaky_relu max_pool3d";
        "phases": [up(18).stride(2).padding(1).output_padding(1), Layer::mul(parameter("gain")),
            Layer::max_pool2d(2)], [2, 16, 9, 11] => "conv_transpose2d mul max_pool2d";
        "phases_through_a_list": [up(18).stride(2).padding(1).output_padding(1), Layer::hardswish(),
            Layer::mul(parameter("gain")), Layer::max_pool2d(2)],
            [2, 16, 9, 11] => "conv_transpose2d hardswish mul max_pool2d";
        "phases_and_pixels": [up(16).stride([1, 2]), Layer::avg_pool2d([2, 4])],
            [2, 16, 10, 11] => "conv_transpose2d avg_pool2d";
        "phases_of_volumes": [
            Layer::conv_transpose3d("up", 8, [3, 2, 5]).stride(2).padding([1, 0, 2]),
            Layer::avg_pool3d(2), Layer::clamp(-0.2, 0.3)],
            [2, 8, 3, 5, 7] => "conv_transpose3d avg_pool3d";
        "sixteen_phases": [up(4).stride(4), Layer::max_pool2d(4)],
            [1, 16, 5, 9] => "conv_transpose2d max_pool2d";
        // Windows at the last row and column extend beyond the output's phases.
        "partial_windows_of_phases": [up(24).stride(2).padding(1),
            Layer::max_pool2d(2).ceil_mode(true)], [1, 16, 5, 6] => "conv_transpose2d";
        // Windows over several slices require another launch.
        "windows_of_slices": [Layer::conv3d("conv", 32, 3), Layer::max_pool3d([3, 2, 2])],
            [2, 16, 10, 7, 10] => "conv3d max_pool3d";
        "slices_of_phases": [Layer::conv_transpose3d("up", 8, 2).stride(2),
            Layer::avg_pool3d([4, 2, 2])], [1, 16, 6, 4, 5] => "conv_transpose3d avg_pool3d";
        // More channels than a warp has lanes require another launch, too.
        "minimum_of_channels": [conv(72), Layer::mul(2.0), Layer::min(&[1]), Layer::tanh()],
            [2, 16, 9, 13] => "conv2d mul min";
        "maximum_of_channels": [Layer::conv1d("conv", 41, 3), Layer::max(&[1]).keepdim(true)],
            [2, 16, 300] => "conv1d max";
        "mean_of_space": [conv(40), Layer::sigmoid(), Layer::mean(&[2, 3]).keepdim(true),
            Layer::relu()], [2, 16, 12, 21] => "conv2d sigmoid mean";
        "adaptive": [Layer::conv3d("conv", 40, [3, 3, 1]), Layer::relu(),
            Layer::adaptive_avg_pool3d(1)], [2, 16, 6, 5, 3] => "conv3d relu adaptive_avg_pool3d";
        "linear": [conv(8), Layer::mean(&[2, 3])], [2, 4, 26, 25] => "conv2d mean";
        "sum_of_all": [conv(40), Layer::sum(&[1, 2, 3])], [2, 16, 7, 9] => "conv2d sum";
        // A single window, whose stride is irrelevant.
        "one_window": [conv(40), Layer::max_pool2d([2, 8]).stride([1, 3])],
            [2, 16, 4, 12] => "conv2d max_pool2d";
        // The last window has fewer slices, there are three phases, or a group has one channel.
        "partial_slices": [Layer::conv3d("conv", 32, 3),
            Layer::max_pool3d([3, 2, 2]).ceil_mode(true)], [1, 16, 10, 7, 10] => "conv3d";
        "three_phases": [up(16).stride([1, 3]), Layer::avg_pool2d([1, 3])],
            [1, 16, 5, 6] => "conv_transpose2d";
        "depthwise": [Layer::conv2d("conv", 32, 3).groups(32), Layer::max_pool2d(2)],
            [1, 32, 10, 12] => "conv2d";
        // Windows that overlap, as many as partial windows that do not.
        "overlapping": [conv(40), Layer::max_pool2d(4).stride(3)], [2, 16, 9, 9] => "conv2d";
        "features": [Layer::linear("linear", 32, 72), Layer::relu(), Layer::max(&[1])],
            [9, 32] => "linear relu max";
    };
    chains::cases("reduced", table)
}

/// The first region includes the pool, and has a single launch after those that prepare the input.
fn launches(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (case, layers) in cases() {
        let model = chains::model(&stream, &case, DType::F32)?;
        let properties = DeviceProperties::named("h100").expect("an H100 has a name");
        let options = Options::default();
        let facts = model.explain_for(case.x.shape(), &options, &properties)?;
        assert_eq!(facts.regions[0].layers, layers, "{}", case.name);
        let reduced = facts.launches.iter();
        // Without functions, the convolution is not computed for a mean over space.
        let kernels = ["implicit_gemm_sm90_reduce", "conv_mean"];
        let reduced =
            reduced.filter(|launch| kernels.iter().any(|kernel| launch.kernel.contains(kernel)));
        // A region of a single layer has no reduction.
        let is_reduced = usize::from(layers.contains(' '));
        assert_eq!(reduced.count(), is_reduced, "{facts}");
    }
    Ok(())
}

/// A mean over many results replaces the convolution only if all between them are constants of the whole
/// tensor.
fn means(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let properties = DeviceProperties::named("h100").expect("an H100 has a name");
    let mean = || Layer::from(Layer::mean(&[2, 3]));
    let between: [(&str, Vec<Layer>, bool); 8] = [
        ("nothing", vec![], true),
        ("constants", vec![Layer::mul(0.5), Layer::add(2.0)], true),
        ("relu", vec![Layer::relu()], false),
        ("clamp", vec![Layer::clamp(-1.0, 1.0)], false),
        ("silu", vec![Layer::mul(0.5), Layer::silu()], false),
        ("batch_norm", vec![Layer::batch_norm("norm").into()], false),
        ("scale", vec![Layer::scale("scale").into()], false),
        ("prelu", vec![Layer::prelu("prelu", 8).into()], false),
    ];
    for (name, between, is_skipped) in between {
        let convolution = Layer::from(Layer::conv2d("conv", 8, 3));
        let layers = [vec![convolution], between, vec![mean()]].concat();
        let case = Case::of_graph(
            name,
            Chain::new(4, layers).expect("a chain"),
            &[2, 4, 66, 70],
        );
        let model = chains::model(&stream, &case, DType::F32)?;
        let facts = model.explain_for(case.x.shape(), &Options::default(), &properties)?;
        assert_eq!(
            facts.regions[0].kernels == "conv-mean",
            is_skipped,
            "{name}: {facts}"
        );
    }
    Ok(())
}

/// Non-finite values affect only the results of their windows.
fn not_finite(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for (mut case, _) in cases() {
        let len = case.x.len();
        let values = case.x.as_slice_mut().expect("a dense array");
        values[len / 3] = f32::INFINITY;
        values[len / 2] = f32::NEG_INFINITY;
        values[len - 7] = f32::NAN;
        let model = chains::model(&stream, &case, DType::F32)?;
        let x = Tensor::from_array(&stream, &case.x)?;
        let wanted = case.expected(&oracle::Precision::F32)?;
        let y: ArrayD<f32> = model.forward(&x)?.to_array()?;
        // A reduction over space includes all of the values.
        let is_finite = y.iter().any(|value| value.is_finite());
        assert!(is_finite || y.len() <= 80, "{}", case.name);
        wanted
            .check(y.view())
            .map_err(|complaint| format!("{}: {complaint}", case.name))?;
    }
    Ok(())
}
