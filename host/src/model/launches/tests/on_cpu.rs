//! Runs on the CPU over parameters of any type and layout.

use ndarray::IxDyn;

use super::*;
use crate::cpu;
use crate::parameters::Parameters;

/// Parameters are rounded to the type that the backend reads them in; renewed statistics are f32.
#[test]
fn parameters_are_rounded_and_statistics_renewed_in_f32() {
    let stream = Device::cpu().stream().unwrap();
    let norm = Layer::batch_norm("norm").training(true).momentum(0.25);
    let chain = Chain::new(4, (Layer::conv2d("conv", 6, 3), norm)).unwrap();
    let wide = values(&chain, 2);
    let types = [
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::F16, DType::F16),
        (DType::BF16, DType::F32),
    ];
    for (dtype, stored) in types {
        let x = data::signed(1, IxDyn(&[3, 4, 5, 6]));
        let x = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
        let given: Vec<Tensor> = tensors(&stream, &wide, stored)
            .iter()
            .map(channels_last)
            .collect();
        let options = Options::default();
        let launches = Launches::functional(&stream, &chain, &x, &given, &options).unwrap();
        // Norms read f32 parameters as they are.
        let read = chain.parameters().iter().zip(&wide).map(|(of, values)| {
            let is_norm = of.name.starts_with("norm");
            values.mapv(|value| match is_norm {
                true => stored.round(value),
                false => dtype.round(value),
            })
        });
        let read = Parameters::of(&chain.parameters().into(), read.collect());
        let problem = chain.problem(x.shape()).unwrap();
        let values = x.to_f32_array().unwrap();
        let expected = cpu::run_renewing(chain.as_ref(), &problem, dtype, &read, &[values.view()]);
        let (ys, renewed) = expected.unwrap();
        let mut y = Tensor::zeros(&stream, launches.output_shape(), dtype).unwrap();
        y.overwrite(("test", "y"), &ArrayD::<f32>::ones(y.shape()))
            .unwrap();
        let new = [(); 2].map(|()| Tensor::zeros(&stream, &[6], DType::F32).unwrap());
        let address = |tensor: &Tensor| tensor.as_raw().unwrap();
        let outputs: Vec<RawPointer> = [&y].into_iter().chain(&new).map(address).collect();
        let given: Vec<RawPointer> = given.iter().map(address).collect();
        let nothing = std::ptr::null_mut();
        // SAFETY: all tensors have the shapes, types and layouts that the launches were made for.
        unsafe { launches.run(&stream, &[address(&x)], &given, &outputs, nothing) }.unwrap();
        let wanted = Tensor::from_f32_array(&stream, &ys[0], dtype).unwrap();
        assert_eq!(bits(&y), bits(&wanted), "{dtype}, {stored}");
        for (new, wanted) in new.iter().zip(renewed.values()) {
            assert_eq!(new.to_array::<f32>().unwrap().as_slice(), Some(&wanted[..]));
        }
    }
}
