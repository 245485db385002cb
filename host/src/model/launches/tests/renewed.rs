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
    let (y, renewed) =
        cpu::run_renewing(chain.as_ref(), &problem, DType::F32, &on_cpu, &[x.view()]).unwrap();
    let renewed = renewed
        .into_values()
        .map(|new| ArrayD::from_shape_vec(IxDyn(&[4]), new).unwrap());
    let mut outcomes: Vec<Vec<ArrayD<f32>>> = vec![y.into_iter().chain(renewed).collect()];
    // Running statistics may be stored in 16 bits; the renewed ones are f32.
    let devices = [
        (Arch::Sm100, DType::F32, DType::F32),
        (Arch::Sm90, DType::F32, DType::F32),
        (Arch::Sm90, DType::F16, DType::F32),
        (Arch::Sm90, DType::F16, DType::F16),
    ];
    for (arch, dtype, stored) in devices {
        let stream = stream(arch);
        let parameters = tensors(&stream, &given, stored);
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
    for (outcome, (_, dtype, _)) in outcomes[1..].iter().zip(devices) {
        let within = if dtype == DType::F32 { 1e-4 } else { 2e-2 };
        for (got, wanted) in outcome.iter().zip(&outcomes[0]) {
            let off = (got - wanted).mapv(f32::abs);
            assert!(off.iter().all(|off| *off < within), "{got} {wanted}");
        }
    }
}

/// Channels-last inputs, whose moments are those of parts of the whole batch. The renewed statistics are
/// those of dense inputs.
#[test]
fn channels_last_batches_renew_the_same_statistics() {
    let norm = |name: &str| Layer::batch_norm(name).training(true);
    let layers = (
        norm("first").momentum(0.25),
        Layer::relu(),
        norm("second").momentum(0.5).affine(false),
        Layer::mul(0.5),
        norm("second").momentum(0.5).affine(false),
    );
    let chain = Chain::new(8, layers).unwrap();
    let given = values(&chain, 2);
    let options = Options::default();
    for shape in [[5, 8, 11, 41], [1, 8, 6, 7], [37, 8, 1, 2]] {
        let x: ArrayD<f32> = data::signed(1, &shape[..]) + 0.5;
        let memory = x.view().permuted_axes(IxDyn(&[0, 2, 3, 1]));
        let memory = memory.as_standard_layout().into_owned();
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let stream = stream(Arch::Sm90);
            let parameters = tensors(&stream, &given, DType::F32);
            let dense = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
            let last = Tensor::from_f32_array(&stream, &memory, dtype).unwrap();
            let last = last.permute(&[0, 3, 1, 2]).unwrap();
            let outcomes = [&dense, &last].map(|x| {
                let of = Inputs::new(x);
                let launches = Launches::given(&stream, chain.as_ref(), of, &parameters, &options);
                let launches = launches.unwrap();
                let new = || Tensor::uninit(&stream, &[8], DType::F32).unwrap();
                let new: Vec<Tensor> = launches.renewed().iter().map(|_| new()).collect();
                run_renewing(&launches, &stream, x, &parameters, &new);
                let explained = launches.explain().unwrap();
                let new = new.iter().map(|of| of.to_f32_array().unwrap());
                (explained, new.collect::<Vec<_>>())
            });
            let [(_, dense), (explained, last)] = outcomes;
            let kernels = explained.launches.iter();
            let moments = kernels.filter(|of| of.kernel.starts_with("norm_nhwc_moments"));
            assert_eq!(moments.count(), 3, "{explained}");
            assert_eq!(last.len(), 4);
            let within = if dtype == DType::F32 { 1e-5 } else { 1e-2 };
            for (got, wanted) in last.iter().zip(&dense) {
                let off = (got - wanted).mapv(f32::abs);
                assert!(off.iter().all(|off| *off < within), "{got} {wanted}");
            }
        }
    }
}

/// Inputs without elements renew nothing, on a device as on the CPU.
#[test]
fn inputs_without_elements_renew_nothing() {
    let norm = Layer::batch_norm("norm").training(true);
    let layers = (Layer::conv2d("conv", 4, 3), norm, Layer::relu());
    let chain = Chain::new(4, layers).unwrap();
    let x: ArrayD<f32> = ArrayD::zeros(&[0, 4, 4, 5][..]);
    let given = values(&chain, 2);
    let problem = chain.problem(x.shape()).unwrap();
    let on_cpu = Parameters::of(&chain.parameters().into(), given.clone());
    let ran = cpu::run_renewing(chain.as_ref(), &problem, DType::F32, &on_cpu, &[x.view()]);
    assert!(ran.unwrap().1.is_empty());
    let options = Options::default();
    for stream in [stream(Arch::Sm90), Device::cpu().stream().unwrap()] {
        let parameters = tensors(&stream, &given, DType::F32);
        let x = Tensor::from_f32_array(&stream, &x, DType::F32).unwrap();
        let of = Inputs::new(&x);
        let launches = Launches::given(&stream, chain.as_ref(), of, &parameters, &options);
        let launches = launches.unwrap();
        assert!(launches.renewed().is_empty());
        if stream.device().is_emulator() {
            let y = run_renewing(&launches, &stream, &x, &parameters, &[]);
            assert!(y.is_empty());
        }
    }
}
