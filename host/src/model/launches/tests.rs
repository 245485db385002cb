use ndarray::ArrayD;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::graph::{Chain, Layer, Parameter, Partition};

use super::*;
use crate::device::{EmulatorOptions, in_memory};
use crate::model::{Model, Precision};
use crate::{Error, data};
use launch_config::Arch;

mod filters_in_place;
mod norms;
mod on_cpu;
mod outputs;
mod refusals;
mod renewed;

/// A chain, its partition and input shape. `kernels` has, for each architecture, a kernel that prepares
/// parameters or reads them in place. `preparing` is the number of launches that prepare parameters.
struct Case {
    chain: Chain,
    partition: Option<&'static str>,
    input: &'static [usize],
    kernels: [&'static str; 2],
    preparing: usize,
}

/// A table of cases: a chain, its input, the kernels, the number of preparing launches, and the partition.
macro_rules! cases {
    ($($chain:expr, $input:expr, $kernels:expr, $preparing:expr $(, $partition:expr)?;)+) => {
        vec![$(Case {
            chain: $chain.unwrap(),
            partition: None$(.or(Some($partition)))?,
            input: $input,
            kernels: $kernels,
            preparing: $preparing,
        }),+]
    };
}

/// Returns cases for every kind of prepared parameters, and for kernels that read parameters in place.
fn cases() -> Vec<Case> {
    let (conv, relu) = (|| Layer::conv2d("conv", 12, 3), Layer::relu);
    let depthwise = Layer::conv2d("conv", 6, 3).groups(6);
    let problem_85 = || KernelBench85::default().chain();
    let filters = "implicit_gemm_filters";
    cases! {
        problem_85(), &[1, 8, 10, 128],
            [filters, "conv2d_group_norm_scale_max_pool_clamp_prepare"], 1;
        KernelBench79::default().chain(), &[1, 3, 3, 3, 32],
            ["conv3d_multiply_instance_norm_clamp_multiply_max"; 2], 0;
        problem_85(), &[1, 8, 6, 7], ["fold_scale"; 2], 1,
            "conv2d @direct | group_norm scale @folded | max_pool2d clamp";
        Chain::new(8, (conv(), Layer::group_norm("norm", 3), relu())), &[2, 8, 6, 7],
            [filters; 2], 1, "conv2d group_norm relu @implicit-gemm";
        Chain::new(8, (conv(), Layer::batch_norm("norm"), relu())), &[2, 8, 6, 7],
            ["fold_batch_norm"; 2], 2, "conv2d batch_norm relu @implicit-gemm";
        Chain::new(8, (conv(), relu(), Layer::prelu("slopes", 12))), &[2, 8, 6, 7],
            [filters; 2], 1, "conv2d relu @implicit-gemm | prelu";
        Chain::new(6, (depthwise, Layer::group_norm("norm", 2))), &[2, 6, 6, 7],
            ["depthwise"; 2], 0, "conv2d group_norm @depthwise";
        Chain::new(5, (Layer::batch_norm("norm"), relu())), &[2, 5, 3, 4],
            ["fold_batch_norm"; 2], 1;
    }
}

/// Returns parameters from seeds that start at `seed`. Statistics and factors are positive.
fn values(chain: &Chain, seed: u64) -> Vec<ArrayD<f32>> {
    let table = chain.parameters().iter().enumerate();
    table
        .map(|(index, parameter)| data::fill(seed + index as u64, &parameter.shape[..]) + 0.1)
        .collect()
}

fn tensors(stream: &Stream, values: &[ArrayD<f32>], dtype: DType) -> Vec<Tensor> {
    let values = values.iter();
    values
        .map(|values| Tensor::from_f32_array(stream, values, dtype).unwrap())
        .collect()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    let values = tensor.to_f32_array().unwrap();
    values.iter().map(|value| value.to_bits()).collect()
}

/// Runs the launches over the emulator's memory and returns the output.
fn run(launches: &Launches, stream: &Stream, x: &Tensor, parameters: &[Tensor]) -> Tensor {
    run_renewing(launches, stream, x, parameters, &[])
}

/// [`run`], with the tensors for renewed parameters.
fn run_renewing(
    launches: &Launches,
    stream: &Stream,
    x: &Tensor,
    parameters: &[Tensor],
    renewed: &[Tensor],
) -> Tensor {
    let y = Tensor::uninit(stream, launches.output_shape(), launches.dtype()).unwrap();
    let words = launches.workspace_bytes().div_ceil(4) as usize;
    let workspace = Tensor::uninit(stream, &[words], DType::F32).unwrap();
    let address = |tensor: &Tensor| tensor.reading().pointer::<u8>().cast_mut().cast();
    let parameters: Vec<RawPointer> = parameters.iter().map(address).collect();
    let renewed = renewed.iter().map(Tensor::output);
    let outputs: Vec<RawPointer> = std::iter::once(y.output()).chain(renewed).collect();
    let workspace = workspace.output();
    // SAFETY: all tensors belong to the stream and have the shapes and layouts that the launches were made
    // for.
    unsafe { launches.run(stream, &[address(x)], &parameters, &outputs, workspace) }.unwrap();
    y
}

/// Blackwell runs the `sm_80` kernels, and has the shared memory that the largest of them need.
const ARCHS: [Arch; 2] = [Arch::Sm100, Arch::Sm90];

fn stream(arch: Arch) -> Stream {
    let options = EmulatorOptions {
        arch,
        ..EmulatorOptions::new()
    };
    Device::emulator_with(options).stream().unwrap()
}

impl Case {
    fn options(&self, precision: Precision) -> Options {
        let options = Options::default().precision(precision);
        match self.partition {
            Some(text) => options.partition(Partition::parse(&self.chain, text).unwrap()),
            None => options,
        }
    }
}

/// Element types with their math modes.
fn modes() -> Vec<(DType, Precision)> {
    let f32s = Precision::ALL.map(|precision| (DType::F32, precision));
    let halves = [DType::F16, DType::BF16].map(|dtype| (dtype, Precision::default()));
    [f32s.as_slice(), &halves].concat()
}

#[test]
fn parameters_of_a_run_give_the_same_bits_as_those_of_a_model() {
    for (index, arch) in ARCHS.into_iter().enumerate() {
        let stream = stream(arch);
        for case in cases() {
            let chain = &case.chain;
            for (dtype, precision) in modes() {
                let options = case.options(precision);
                let x = data::signed(7, case.input);
                let x = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
                let mut parameters = tensors(&stream, &values(chain, 1), dtype);
                let of = Inputs::new(&x);
                let launches = Launches::given(&stream, chain.as_ref(), of, &parameters, &options);
                let launches = launches.unwrap();
                let kernels: Vec<_> = launches.explain().unwrap().launches;
                let what = format!(
                    "{arch:?} {} {dtype} {precision:?} {kernels:?}",
                    chain.operators()
                );
                let has = |name: &str| kernels.iter().any(|launch| launch.kernel.starts_with(name));
                assert!(has(case.kernels[index]), "{what}");
                let model = tensors(&stream, &values(chain, 1), dtype);
                let model = Model::from_tensors(&stream, chain, model, dtype).unwrap();
                let kept = model.explain(case.input, &options).unwrap().launches;
                assert_eq!(kernels.len() - kept.len(), case.preparing, "{what}");
                // The second run reads other values from the same memory.
                for seed in [1, 100] {
                    let now = values(chain, seed);
                    for (tensor, values) in parameters.iter_mut().zip(&now) {
                        tensor.overwrite(("test", "a parameter"), values).unwrap();
                    }
                    let kept = tensors(&stream, &now, dtype);
                    let model = Model::from_tensors(&stream, chain, kept, dtype).unwrap();
                    let expected = model.forward_with(&x, &options).unwrap();
                    let got = run(&launches, &stream, &x, &parameters);
                    assert!(bits(&got) == bits(&expected), "{seed} {what}");
                }
            }
        }
    }
}

#[test]
fn parameters_of_other_types_and_layouts_are_converted_in_each_run() {
    for arch in ARCHS {
        let stream = stream(arch);
        for case in cases() {
            let chain = &case.chain;
            let options = case.options(Precision::default());
            let x = data::signed(7, case.input);
            let x = Tensor::from_f32_array(&stream, &x, DType::F16).unwrap();
            let wide = values(chain, 1);
            // A model made of the same tensors gives the expected result. The launches get channels-last
            // filters.
            let kept = tensors(&stream, &wide, DType::F32);
            let given: Vec<Tensor> = kept.iter().map(channels_last).collect();
            let of = Inputs::new(&x);
            let launches = Launches::given(&stream, chain.as_ref(), of, &given, &options).unwrap();
            let got = run(&launches, &stream, &x, &given);
            let model = Model::from_tensors(&stream, chain, kept, DType::F16).unwrap();
            let expected = model.forward_with(&x, &options).unwrap();
            assert!(
                bits(&got) == bits(&expected),
                "{arch:?} {}",
                chain.operators()
            );
            // Norms read unrounded parameters, so a model with all parameters rounded differs.
            let rounded = tensors(&stream, &wide, DType::F16);
            let turned = rounded.iter().map(channels_last).collect();
            let [rounded, turned] = [rounded, turned].map(|tensors: Vec<Tensor>| {
                let model = Model::from_tensors(&stream, chain, tensors, DType::F16).unwrap();
                model.forward_with(&x, &options).unwrap()
            });
            assert_eq!(bits(&turned), bits(&rounded), "{}", chain.operators());
            let names = chain.parameters().iter().map(|parameter| &parameter.name);
            let has_norm = names.into_iter().any(|name| name.contains("norm."));
            // The folded parameters of this partition are stored in the tensors' type.
            let is_rounded =
                !has_norm || case.partition.is_some_and(|text| text.contains("folded"));
            let is_same = bits(&got) == bits(&rounded);
            assert!(is_same == is_rounded, "{arch:?} {}", chain.operators());
        }
    }
}

/// Norms with weight 0: the output is the product of bias and scale. It rounds differently if the bias is
/// rounded first.
#[test]
fn norms_of_16_bit_tensors_read_f32_parameters_as_they_are() {
    let norm85 = KernelBench85::default().chain().unwrap();
    let norm79 = KernelBench79 {
        affine: true,
        ..KernelBench79::default()
    };
    let (scale, group) = (|| Layer::scale("scale"), || Layer::group_norm("norm", 2));
    let chains = [
        Chain::new(6, (group(), scale())),
        Chain::new(6, (Layer::instance_norm("norm").affine(true), scale())),
        Chain::new(6, [Layer::layer_norm("norm", &[6, 5, 5])]),
        Chain::new(6, [Layer::batch_norm("norm")]),
        Chain::new(6, (group(), scale(), Layer::max_pool2d(2))),
    ];
    let mut cases = chains
        .map(|chain| (chain.unwrap(), &[2, 6, 5, 5][..]))
        .to_vec();
    // Chains that run in one launch on Hopper.
    cases.push((norm85, &[1, 8, 10, 128]));
    cases.push((norm79.chain().unwrap(), &[1, 3, 3, 4, 5]));
    for (dtype, fraction_bits) in [(DType::F16, 10), (DType::BF16, 7)] {
        // The bias lies between 0.5 and the next value, nearer to 0.5.
        let step = 0.5f32.powi(fraction_bits);
        let (bias, factor) = (0.5 + 0.2 * step, 0.75);
        assert_eq!(dtype.round(bias), 0.5);
        assert_ne!(dtype.round(bias * factor), dtype.round(0.5 * factor));
        for arch in ARCHS {
            let stream = stream(arch);
            for (chain, input) in &cases {
                let has_scale = chain.operators().contains("scale");
                let of = |parameter: &Parameter| {
                    let value = match parameter.name.rsplit('.').next() {
                        Some("bias") if parameter.name.contains("norm") => bias,
                        Some("weight") if parameter.name.contains("norm") => 0.0,
                        Some("running_var") => 1.0,
                        Some("running_mean") => 0.0,
                        _ => factor,
                    };
                    ArrayD::from_elem(&parameter.shape[..], value)
                };
                let values: Vec<ArrayD<f32>> = chain.parameters().iter().map(of).collect();
                let given = tensors(&stream, &values, DType::F32);
                let x = data::signed(7, *input);
                let x = Tensor::from_f32_array(&stream, &x, dtype).unwrap();
                let (of, options) = (Inputs::new(&x), Options::default());
                let launches = Launches::given(&stream, chain.as_ref(), of, &given, &options);
                let launches = launches.unwrap();
                // Each run prepares the parameters, by the planned kernels.
                let Explanation {
                    regions,
                    launches: all,
                    ..
                } = launches.explain().unwrap();
                let mut planned = regions.iter().flat_map(|region| &region.preparations);
                let is_launched = |kernel| all.iter().any(|launch| launch.kernel == kernel);
                assert!(planned.all(|&kernel| is_launched(kernel)), "{regions:?}");
                let y = run(&launches, &stream, &x, &given);
                let wanted = dtype.round(if has_scale { bias * factor } else { bias });
                let y = y.to_f32_array().unwrap();
                let is_all = y.iter().all(|&y| y == wanted);
                assert!(
                    is_all,
                    "{dtype} {arch:?} {} {wanted} {y}",
                    chain.operators()
                );
            }
        }
    }
}

/// Returns the same values channels-last, if the tensor has pixels.
fn channels_last(tensor: &Tensor) -> Tensor {
    let shape = tensor.shape();
    if shape.len() < 4 {
        return tensor.clone();
    }
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    axes[1..].rotate_left(1);
    let values = tensor.to_f32_array().unwrap().permuted_axes(axes.clone());
    let values = values.as_standard_layout();
    let lying = Tensor::from_f32_array(tensor.stream(), &values, tensor.dtype()).unwrap();
    let mut strides = vec![0; shape.len()];
    for (&axis, stride) in axes.iter().zip(lying.strides()) {
        strides[axis] = stride;
    }
    lying.restrided(0, shape, &strides).unwrap()
}

#[test]
fn runs_on_the_cpu_read_what_lies_in_memory() {
    let stream = Device::cpu().stream().unwrap();
    let layers = (
        Layer::conv2d("conv", 6, 3),
        Layer::group_norm("norm", 3),
        Layer::add("shortcut"),
    );
    let chain = Chain::new(4, layers).unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let tensor = |seed, shape: &[usize], dtype| {
            Tensor::from_f32_array(&stream, &data::signed(seed, shape), dtype).unwrap()
        };
        let x = tensor(1, &[2, 5, 7, 4], dtype)
            .permute(&[0, 3, 1, 2])
            .unwrap();
        let shortcut = tensor(2, &[2, 6, 3, 5], dtype);
        let inputs = || Inputs::new(&x).with("shortcut", &shortcut);
        // Norms have f32 parameters for inputs of any type.
        let parameters = |seed| -> Vec<Tensor> {
            let table = chain.parameters().iter();
            let typed = table.map(|parameter| match parameter.name.starts_with("norm") {
                true => tensor(seed, &parameter.shape, DType::F32),
                false => tensor(seed, &parameter.shape, dtype),
            });
            typed.collect()
        };
        let options = Options::default();
        let launches =
            Launches::functional(&stream, &chain, inputs(), &parameters(3), &options).unwrap();
        assert_eq!(launches.workspace_bytes(), 0);
        assert!(matches!(launches.explain(), Err(Error::NoKernels { .. })));
        for seed in [3, 4] {
            let values = parameters(seed);
            let address = |tensor: &Tensor| tensor.as_raw().unwrap();
            let given: Vec<RawPointer> = values.iter().map(address).collect();
            let lying = [address(&x), address(&shortcut)];
            let mut y = vec![0u32; 2 * 6 * 3 * 5];
            let (output, nothing) = (y.as_mut_ptr().cast(), std::ptr::null_mut());
            // SAFETY: all tensors have the shapes and layouts that the launches were made for, and the output
            // buffer is large enough.
            unsafe { launches.run(&stream, &lying, &given, &[output], nothing) }.unwrap();
            // SAFETY: as above; the vector outlives the tensor.
            let y = unsafe {
                let (shape, layout) = (launches.output_shape(), launches.output_layout());
                let (shape, owner) = (in_memory(shape, layout), Box::new(()));
                let y =
                    Tensor::from_raw_parts(&stream, output, &shape, None, dtype, owner).unwrap();
                y.laid_out(layout).unwrap()
            };
            let model = Model::from_tensors(&stream, &chain, values, dtype).unwrap();
            assert_eq!(bits(&y), bits(&model.forward(inputs()).unwrap()), "{dtype}");
        }
    }
}
