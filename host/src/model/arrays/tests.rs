use ndarray::{Array, Array5, ArrayViewD, Axis, IxDyn, s};

use super::chunks::Chunks;
use super::*;
use crate::data;
use crate::device::Device;
use crate::dtype::{DType, f16};
use crate::error::Error;
use op_spec::chain::Chain;
use op_spec::chain::presets::KernelBench79;

/// Chunks of at most two samples of `SHAPE`, of which two are under way at a time.
fn small(sample_bytes: usize) -> Cut {
    Cut {
        whole_bytes: 0,
        chunk_bytes: [2 * sample_bytes; 2],
        places: 2,
        ring_bytes: 1 << 20,
        on_any_device: true,
    }
}

const SHAPE: [usize; 5] = [7, 3, 5, 6, 7];

fn chain() -> Chain {
    KernelBench79::default().chain().unwrap()
}

fn model(device: &Device, dtype: DType) -> Model {
    let parameters = crate::Parameters::init(&chain(), 3).unwrap();
    Model::with_dtype(&device.stream().unwrap(), &chain(), &parameters, dtype).unwrap()
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
    fresh(&shares, x, &Options::default(), &cut).unwrap()
}

/// Seven samples: three chunks of two in two places, and one that is left over.
fn chunks_make_the_same_bits(device: &Device, dtype: DType) {
    let model = model(device, dtype);
    let x = data::signed(1, SHAPE).into_dyn();
    let wanted = bits(&model.forward_array(&x).unwrap());
    let cut = small(sample_bytes(&model));
    let shares = Share::whole(&model, &SHAPE);
    let chunks = shares[0].chunks(&Options::default(), &cut).unwrap();
    let two = Chunks {
        samples: 2,
        places: 2,
    };
    assert_eq!(chunks, Some(two));
    // The second time through the ring of the first.
    for _ in 0..2 {
        assert_eq!(bits(&through_chunks(&model, &x.view())), wanted);
        assert_eq!(model.rings().kept().len(), 1);
    }
    // An array in another order of memory, and one that is none of its own.
    let mut turned = Array5::<f32>::zeros((7, 6, 5, 3, 7));
    let mut turned = turned.view_mut().permuted_axes([0, 3, 2, 1, 4]).into_dyn();
    turned.assign(&x);
    assert_eq!(bits(&through_chunks(&model, &turned.view())), wanted);
    let mut y = Array::<f32, _>::zeros(IxDyn(&[7, 4, 3, 3, 2]));
    let shape = model.output_shape(&SHAPE).unwrap();
    let mut wide = ArrayD::<f32>::zeros([&shape[..], &[2]].concat());
    let mut strided = wide.index_axis_mut(Axis(shape.len()), 1);
    into(&shares, &x.view(), &mut strided, &Options::default(), &cut).unwrap();
    assert_eq!(bits(&strided.to_owned()), wanted);
    let refused = into(&shares, &x.view(), &mut y, &Options::default(), &cut);
    assert!(matches!(refused, Err(Error::ShapeMismatch { .. })));
    model.trim_memory();
    assert!(model.rings().kept().is_empty());
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
        pinned(&shares, &x, &mut y, &Options::default(), &cut).unwrap();
        assert_eq!(bits(&y.view().unwrap().mapv(T::to_f32)), bits(&wanted));
    }
}

#[test]
fn pinned_arrays_make_the_same_bits() {
    from_pinned::<f32>(&Device::emulator());
    from_pinned::<f16>(&Device::cpu());
}

#[test]
fn arrays_that_the_model_is_not_for_are_refused() {
    let device = Device::cpu();
    let model = model(&device, DType::F32);
    let half = PinnedArray::<f16>::zeros(&device, &SHAPE).unwrap();
    let shape = model.output_shape(&SHAPE).unwrap();
    let mut y = PinnedArray::<f16>::zeros(&device, &shape).unwrap();
    let refused = model.forward_pinned(&half, &mut y, &Options::default());
    assert!(matches!(refused, Err(Error::DTypeMismatch { .. })));
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
    assert_eq!(model.rings().kept().len(), KEPT_RINGS);
}
