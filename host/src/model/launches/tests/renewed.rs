//! Parameters that a run renews: running statistics.

use ndarray::{Axis, IxDyn};

use super::*;
use crate::cpu;
use crate::parameters::Parameters;

/// Batch norms in training, one of them after a convolution, two with shared running statistics. The renewed
/// statistics are PyTorch's. The output equals a model's, which does not change its own statistics.
#[test]
fn batch_norms_in_training_renew_running_statistics() {
    let norm = |name: &str| Layer::batch_norm(name).training(true);
    let layers = (
        norm("first").momentum(0.25).affine(false),
        Layer::conv2d("conv", 4, 3),
        norm("second").momentum(0.5),
        Layer::relu(),
        norm("second").momentum(0.5),
    );
    let chain = Chain::new(4, layers).unwrap();
    let x: ArrayD<f32> = data::signed(1, &[37, 4, 4, 5][..]);
    let names: Vec<&str> = (chain.parameters().iter().map(|of| &*of.name)).collect();
    let given = values(&chain, 2);
    let problem = chain.problem(x.shape()).unwrap();
    let on_cpu = Parameters::of(&chain.parameters().into(), given.clone());
    let (y, renewed) = cpu::run_renewing(chain.as_ref(), &problem, &on_cpu, &[x.view()]).unwrap();
    let renewed = renewed
        .into_values()
        .map(|new| ArrayD::from_shape_vec(IxDyn(&[4]), new).unwrap());
    let mut outcomes: Vec<Vec<ArrayD<f32>>> = vec![y.into_iter().chain(renewed).collect()];
    let devices = [
        (Arch::Sm100, DType::F32),
        (Arch::Sm90, DType::F32),
        (Arch::Sm90, DType::F16),
    ];
    for (arch, dtype) in devices {
        let stream = stream(arch);
        let parameters = tensors(&stream, &given, DType::F32);
        let on_device = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
        let options = Options::default();
        let launches = Launches::given(
            &stream,
            chain.as_ref(),
            Inputs::new(&on_device),
            &parameters,
            &options,
        );
        let launches = launches.unwrap();
        let renewed = launches.renewed().iter().map(|&slot| names[slot]);
        assert!(renewed.eq([
            "first.running_mean",
            "first.running_var",
            "second.running_mean",
            "second.running_var"
        ]));
        let new = || Tensor::uninit(&stream, &[4], DType::F32).unwrap();
        let new: Vec<Tensor> = launches.renewed().iter().map(|_| new()).collect();
        let y = run_renewing(&launches, &stream, &on_device, &parameters, &new);
        let model = Model::from_tensors(&stream, &chain, parameters, dtype).unwrap();
        assert_eq!(bits(&y), bits(&model.forward(&on_device).unwrap()));
        let all = std::iter::once(&y).chain(&new);
        outcomes.push(all.map(|of| of.to_f32_array().unwrap()).collect());
    }
    // The first norm's statistics are those of the input.
    let place = |of: &str| names.iter().position(|name| *name == of).unwrap();
    let [mean, variance] =
        ["first.running_mean", "first.running_var"].map(|name| &given[place(name)]);
    for (c, x) in x.axis_iter(Axis(1)).enumerate() {
        let x = x.mapv(f64::from);
        let of_batch = [x.mean().unwrap(), x.var(1.0)];
        for (index, (old, of_batch)) in [mean, variance].into_iter().zip(of_batch).enumerate() {
            let wanted = 0.75 * f64::from(old[c]) + 0.25 * of_batch;
            assert!((f64::from(outcomes[0][1 + index][c]) - wanted).abs() < 1e-6);
        }
    }
    for (outcome, (_, dtype)) in outcomes[1..].iter().zip(devices) {
        let within = if dtype == DType::F32 { 1e-4 } else { 2e-2 };
        for (got, wanted) in outcome.iter().zip(&outcomes[0]) {
            let off = (got - wanted).mapv(f32::abs);
            assert!(off.iter().all(|off| *off < within), "{got} {wanted}");
        }
    }
}
