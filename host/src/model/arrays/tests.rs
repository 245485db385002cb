use ndarray::{Array, Array5, ArrayViewD, Axis, IxDyn, s};

use super::chunks::Chunks;
use super::pipeline::Pipeline;
use super::*;
use crate::data;
use crate::device::Device;
use crate::dtype::{DType, f16};
use crate::error::Error;
use crate::model::pipelines::KEPT_PIPELINES;
use crate::operators::Precision;
use op_spec::Layout;
use op_spec::graph::presets::KernelBench79;
use op_spec::graph::{Chain, Graph, Layer};

/// Returns sizes for chunks of at most two samples of `SHAPE`, two of them in flight.
fn small(sample_bytes: usize) -> Cut {
    Cut {
        whole_bytes: 0,
        chunk_bytes: [2 * sample_bytes; 2],
        stages: 2,
        ring_bytes: 1 << 20,
        on_any_device: true,
    }
}

const SHAPE: [usize; 5] = [7, 3, 5, 6, 7];

fn chain() -> Chain {
    KernelBench79::default().chain().unwrap()
}

fn model(device: &Device, dtype: DType) -> Model {
    let parameters = crate::Parameters::init(chain(), 3).unwrap();
    Model::with_dtype(&device.stream().unwrap(), chain(), &parameters, dtype).unwrap()
}

fn sample_bytes(model: &Model) -> usize {
    let len = |shape: &[usize]| shape[1..].iter().product::<usize>();
    let output = model.output_shape(&SHAPE).unwrap();
    (len(&SHAPE) + len(&output)) * model.dtype().size()
}

fn bits(array: &ArrayD<f32>) -> Vec<u32> {
    array.iter().map(|value| value.to_bits()).collect()
}

fn through_chunks(model: &Model, x: &ArrayViewD<'_, f32>) -> ArrayD<f32> {
    let cut = small(sample_bytes(model));
    let shares = Share::whole(model, x.shape());
    fresh(&shares, &[x.view()], &Options::default(), &cut).unwrap()
}

#[test]
fn a_batch_whose_statistics_count_is_not_cut() {
    let norm = Layer::batch_norm("norm").track_running_stats(false);
    let chain = Chain::new(3, (norm, Layer::relu())).unwrap();
    let stream = Device::emulator().stream().unwrap();
    let coupled = Model::init(&stream, &chain, 3).unwrap();
    let shares = Share::whole(&coupled, &SHAPE);
    let cut = small(sample_bytes(&model(&Device::emulator(), DType::F32)));
    assert_eq!(shares[0].chunks(&Options::default(), &cut).unwrap(), None);
}

/// Seven samples make three chunks of two, in two stages, and a last chunk of one.
#[test]
fn a_batch_of_several_outputs_is_not_cut() {
    let graph = Graph::builder("x", 3)
        .layer("a", "x", Layer::relu())
        .layer("y", "a", Layer::tanh())
        .output("a");
    let graph = graph.build("y").unwrap();
    let model = Model::init(&Device::emulator().stream().unwrap(), &graph, 3).unwrap();
    let x = data::signed(1, [7, 3, 5]).into_dyn();
    let shares = Share::whole(&model, x.shape());
    let y = fresh(&shares, &[x.view()], &Options::default(), &small(120)).unwrap();
    assert_eq!(bits(&y), bits(&model.forward_array(&x).unwrap()));
}

fn chunks_make_the_same_bits(device: &Device, dtype: DType) {
    let model = model(device, dtype);
    let x = data::signed(1, SHAPE).into_dyn();
    let wanted = bits(&model.forward_array(&x).unwrap());
    let cut = small(sample_bytes(&model));
    let shares = Share::whole(&model, &SHAPE);
    let chunks = shares[0].chunks(&Options::default(), &cut).unwrap();
    let two = Chunks {
        samples: 2,
        stages: 2,
    };
    assert_eq!(chunks, Some(two));
    // If the result may depend on the batch, the batch is not cut.
    let by_batch = Options::default().batch_invariant(false);
    assert_eq!(shares[0].chunks(&by_batch, &cut).unwrap(), None);
    // The second call reuses the pipeline of the first.
    for _ in 0..2 {
        assert_eq!(bits(&through_chunks(&model, &x.view())), wanted);
        assert_eq!(model.pipelines().kept().len(), 1);
    }
    // A permuted array, and an output that is a strided view.
    let mut turned = Array5::<f32>::zeros((7, 6, 5, 3, 7));
    let mut turned = turned.view_mut().permuted_axes([0, 3, 2, 1, 4]).into_dyn();
    turned.assign(&x);
    assert_eq!(bits(&through_chunks(&model, &turned.view())), wanted);
    let mut y = Array::<f32, _>::zeros(IxDyn(&[7, 4, 3, 3, 2]));
    let shape = model.output_shape(&SHAPE).unwrap();
    let mut wide = ArrayD::<f32>::zeros([&shape[..], &[2]].concat());
    let mut strided = wide.index_axis_mut(Axis(shape.len()), 1);
    into(
        &shares,
        &[x.view()],
        &mut strided,
        &Options::default(),
        &cut,
    )
    .unwrap();
    assert_eq!(bits(&strided.to_owned()), wanted);
    let refused = into(&shares, &[x.view()], &mut y, &Options::default(), &cut);
    assert!(matches!(refused, Err(Error::ShapeMismatch { .. })));
    model.trim_memory();
    assert!(model.pipelines().kept().is_empty());
}

#[test]
fn a_pipeline_is_used_again_for_the_same_options_alone() {
    let model = model(&Device::emulator(), DType::F32);
    let x = data::signed(1, SHAPE).into_dyn();
    let cut = small(sample_bytes(&model));
    let shares = Share::whole(&model, &SHAPE);
    let all = [Precision::Accurate, Precision::Fast].map(|precision| {
        let options = Options::default().precision(precision);
        let y = fresh(&shares, &[x.view()], &options, &cut).unwrap();
        let whole = model.forward_array_with(&x, &options).unwrap();
        assert_eq!(bits(&y), bits(&whole), "{precision}");
        bits(&y)
    });
    assert_ne!(all[0], all[1]);
}

/// Each cut has its own pipeline, and the results of all are the same.
#[test]
fn a_pipeline_is_used_again_for_the_same_cut_alone() {
    let model = model(&Device::cpu(), DType::F32);
    let x = data::signed(1, SHAPE).into_dyn();
    let shares = Share::whole(&model, &SHAPE);
    let wanted = bits(&model.forward_array(&x).unwrap());
    let sample_bytes = sample_bytes(&model);
    for (kept, samples, stages) in [(1, 2, 2), (2, 3, 2), (2, 3, 1)] {
        let cut = Cut {
            chunk_bytes: [samples * sample_bytes; 2],
            stages,
            ..small(sample_bytes)
        };
        let y = fresh(&shares, &[x.view()], &Options::default(), &cut).unwrap();
        assert_eq!(bits(&y), wanted);
        assert_eq!(model.pipelines().kept().len(), kept);
        let chunks = shares[0].chunks(&Options::default(), &cut).unwrap();
        let options = Options::default().output_layout(Layout::Nchw);
        let is_it = |of: &Pipeline<f32>| of.is_for(&SHAPE, &options, chunks.expect("a cut"));
        let pipeline = model.pipelines().take(is_it);
        model
            .pipelines()
            .give(pipeline.expect("a pipeline of this cut"));
    }
}

/// Host arrays are row-major, whatever the layout of tensors, in chunks or whole, pinned or not.
#[test]
fn arrays_are_row_major_whatever_the_layout_of_outputs() {
    const SHAPE: [usize; 4] = [5, 8, 4, 6];
    let layers = (Layer::conv2d("conv", 16, 3), Layer::relu());
    let chain = Chain::new(8, layers).unwrap();
    let x = data::signed(1, SHAPE).into_dyn();
    for device in [Device::cpu(), Device::emulator()] {
        let model = Model::init(&device.stream().unwrap(), &chain, 3).unwrap();
        let wanted = model.forward_array(&x).unwrap();
        let shares = Share::whole(&model, &SHAPE);
        let parts = [0..2, 2..5].map(|samples| Share::part(&model, &SHAPE, samples));
        let mut pin = PinnedArray::<f32>::zeros(&device, &SHAPE).unwrap();
        pin.view_mut().unwrap().assign(&x);
        for layout in [Layout::Nhwc, Layout::Nchw] {
            let options = Options::default().output_layout(layout);
            for (shares, cut) in [&shares[..], &parts]
                .into_iter()
                .flat_map(|shares| [small(4 * 320), Cut::default()].map(|cut| (shares, cut)))
            {
                let y = fresh(shares, &[x.view()], &options, &cut).unwrap();
                assert_eq!(bits(&y), bits(&wanted), "{layout}");
                let mut y = PinnedArray::<f32>::zeros(&device, wanted.shape()).unwrap();
                pinned(shares, &[&pin], &mut y, &options, &cut).unwrap();
                assert_eq!(
                    bits(&y.view().unwrap().to_owned()),
                    bits(&wanted),
                    "{layout}"
                );
            }
        }
    }
}

#[test]
fn the_emulator_makes_the_same_bits_of_chunks() {
    chunks_make_the_same_bits(&Device::emulator(), DType::F32);
}

#[test]
fn sixteen_bits_are_rounded_in_the_copies() {
    chunks_make_the_same_bits(&Device::emulator(), DType::F16);
    chunks_make_the_same_bits(&Device::cpu(), DType::BF16);
}

#[test]
fn the_cpu_makes_the_same_bits_of_chunks() {
    chunks_make_the_same_bits(&Device::cpu(), DType::F32);
}

fn from_pinned<T: Element>(device: &Device) {
    let model = model(device, T::DTYPE);
    let values = data::signed(1, SHAPE).mapv(T::from_f32);
    let wanted = model.forward_array(&values.mapv(T::to_f32)).unwrap();
    let mut x = PinnedArray::<T>::zeros(device, &SHAPE).unwrap();
    x.view_mut().unwrap().assign(&values.into_dyn());
    let mut y = PinnedArray::<T>::zeros(device, wanted.shape()).unwrap();
    let shares = Share::whole(&model, &SHAPE);
    for cut in [small(sample_bytes(&model)), Cut::default()] {
        y.view_mut().unwrap().fill(T::default());
        pinned(&shares, &[&x], &mut y, &Options::default(), &cut).unwrap();
        assert_eq!(bits(&y.view().unwrap().mapv(T::to_f32)), bits(&wanted));
    }
}

#[test]
fn pinned_arrays_make_the_same_bits() {
    from_pinned::<f32>(&Device::emulator());
    from_pinned::<f16>(&Device::cpu());
}

/// Residuals before and after a maximum, whose shapes differ.
fn residuals_are_cut_along(device: &Device) {
    const SHAPE: [usize; 4] = [7, 3, 5, 6];
    let layers = [
        Layer::add("early"),
        Layer::relu(),
        Layer::max(&[1]).into(),
        Layer::add("late"),
        Layer::add("more"),
        Layer::add("late"),
    ];
    let chain = Chain::new(3, layers).unwrap();
    let model = Model::init(&device.stream().unwrap(), &chain, 3).unwrap();
    let x = data::signed(1, SHAPE).into_dyn();
    let early = data::signed(2, SHAPE).into_dyn();
    let [late, more] = [3, 4].map(|seed| data::signed(seed, [7, 5, 6]).into_dyn());
    let inputs = Inputs::new(&x).with("late", &late);
    let inputs = inputs.with("more", &more).with("early", &early);
    let wanted = bits(&model.forward_array(inputs.clone()).unwrap());
    let (arranged, _) = batched(&model, inputs).unwrap();
    let shares = Share::whole(&model, &SHAPE);
    // The bytes of a sample: two images of three channels, two of one channel, and the output.
    let cut = small(4 * (2 * 90 + 3 * 30));
    let chunks = shares[0].chunks(&Options::default(), &cut).unwrap();
    assert_eq!(chunks.map(|chunks| chunks.samples), Some(2));
    for _ in 0..2 {
        let y = fresh(&shares, &arranged, &Options::default(), &cut).unwrap();
        assert_eq!(bits(&y), wanted);
    }
    // Shares of several devices: each share reads its own samples of the inputs.
    let parts = [0..3, 3..7].map(|samples| Share::part(&model, &SHAPE, samples));
    let y = fresh(&parts, &arranged, &Options::default(), &cut).unwrap();
    assert_eq!(bits(&y), wanted);
    let pin = |values: &ArrayD<f32>| {
        let mut pinned = PinnedArray::<f32>::zeros(device, values.shape()).unwrap();
        pinned.view_mut().unwrap().assign(values);
        pinned
    };
    let pins = [&x, &early, &late, &more].map(pin);
    let mut y = PinnedArray::<f32>::zeros(device, &[7, 5, 6]).unwrap();
    for cut in [cut, Cut::default()] {
        let (inputs, options) = (pins.each_ref(), Options::default());
        for shares in [&shares[..], &parts] {
            y.view_mut().unwrap().fill(0.0);
            pinned(shares, &inputs, &mut y, &options, &cut).unwrap();
            assert_eq!(bits(&y.view().unwrap().to_owned()), wanted);
        }
    }
    // An input with one sample less than the first input.
    let short = late.slice_axis(Axis(0), (..6).into()).to_owned();
    let inputs = Inputs::new(&x).with("late", &short);
    let refused = model.forward_array(inputs.with("early", &early).with("more", &more));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "input late: model: input has shape [6, 5, 6], must be [7, 5, 6]"
    );
}

#[test]
fn residuals_go_with_the_samples_that_they_are_added_to() {
    residuals_are_cut_along(&Device::emulator());
    residuals_are_cut_along(&Device::cpu());
}

#[test]
fn arrays_that_the_model_is_not_for_are_refused() {
    let device = Device::cpu();
    let model = model(&device, DType::F32);
    let half = PinnedArray::<f16>::zeros(&device, &SHAPE).unwrap();
    let shape = model.output_shape(&SHAPE).unwrap();
    let mut y = PinnedArray::<f16>::zeros(&device, &shape).unwrap();
    let refused = model.forward_pinned(&half, &mut y, &Options::default());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "model: pinned array is f16, must be f32"
    );
    let x = PinnedArray::<f32>::zeros(&device, &SHAPE).unwrap();
    let mut y = PinnedArray::<f32>::zeros(&device, &SHAPE).unwrap();
    let refused = model.forward_pinned(&x, &mut y, &Options::default());
    assert!(matches!(refused, Err(Error::ShapeMismatch { .. })));
    let scalar = ndarray::arr0(1.0f32);
    assert!(model.forward_array(&scalar).is_err());
}

#[test]
fn few_rings_are_kept() {
    let model = model(&Device::cpu(), DType::F32);
    let x = data::signed(1, SHAPE);
    for samples in 2..7 {
        through_chunks(&model, &x.slice(s![..samples, .., .., .., ..]).into_dyn());
    }
    assert_eq!(model.pipelines().kept().len(), KEPT_PIPELINES);
}
