//! Several outputs and inputs of different layouts.

use op_spec::graph::Graph;

use crate::parameters::Parameters;

use super::*;

/// Outputs with the axes of the input, and with fewer. Only the former have the input's layout.
#[test]
fn each_output_has_its_own_layout() {
    let image = || Graph::builder("x", 8).layer("image", "x", Layer::relu());
    let mean = Layer::mean(&[2, 3]);
    let graphs = [
        image()
            .layer("mean", "image", mean)
            .output("image")
            .build("mean"),
        image()
            .layer("mean", "image", mean)
            .output("mean")
            .build("image"),
    ];
    let options = Options::default();
    for graph in graphs.map(Result::unwrap) {
        for stream in [Device::cpu(), Device::emulator()].map(|device| device.stream().unwrap()) {
            let x = Tensor::from_f32_array(&stream, &data::signed(1, [2, 8, 4, 5]), DType::F32);
            let x = channels_last(&x.unwrap());
            let model = Model::init(&stream, &graph, 3).unwrap();
            let wanted = model.forward_all(&x, &options).unwrap();
            let are_wanted = |outputs: &[Tensor]| {
                for (y, wanted) in outputs.iter().zip(&wanted) {
                    assert_eq!(y.strides(), wanted.strides());
                    assert_eq!(bits(y), bits(wanted));
                }
            };
            let mut plan = model.plan_for(&stream, &x, &options).unwrap();
            let mut outputs = plan.outputs().unwrap();
            plan.execute_all(&x, &mut outputs).unwrap();
            are_wanted(&outputs);
            let is_last = |y: &&Tensor| y.shape().len() == 4 && y.strides()[1] == 1;
            assert_eq!(outputs.iter().filter(is_last).count(), 1);
            if !stream.device().is_cpu() {
                continue;
            }
            let launches = Launches::functional(&stream, &graph, &x, &[], &options).unwrap();
            let output = |(shape, layout): (&[usize], Layout)| {
                let y = Tensor::zeros(&stream, &in_memory(shape, layout), DType::F32).unwrap();
                y.laid_out(layout).unwrap()
            };
            let outputs: Vec<Tensor> = launches.outputs().map(output).collect();
            let address = |tensor: &Tensor| tensor.as_raw().unwrap();
            let (all, nothing) = (
                outputs.iter().map(address).collect::<Vec<_>>(),
                std::ptr::null_mut(),
            );
            // SAFETY: all tensors have the shapes and layouts of the launches, and outlive the run.
            unsafe { launches.run(&stream, &[address(&x)], &[], &all, nothing) }.unwrap();
            are_wanted(&outputs);
        }
    }
}

/// The first input's layout is the output's, and further inputs of other shapes are refused.
#[test]
fn further_inputs_have_layouts_of_their_own_but_given_shapes() {
    let chain = Chain::new(8, [Layer::add("r")]).unwrap();
    let options = Options::default();
    for stream in [Device::cpu(), Device::emulator()].map(|device| device.stream().unwrap()) {
        let tensor = |seed, shape: [usize; 4]| {
            Tensor::from_f32_array(&stream, &data::signed(seed, shape), DType::F32).unwrap()
        };
        let (x, r) = (tensor(1, [2, 8, 4, 5]), tensor(2, [2, 8, 4, 5]));
        let model = Model::init(&stream, &chain, 3).unwrap();
        for (x, r) in [(&x, &channels_last(&r)), (&channels_last(&x), &r)] {
            let y = model.forward(Inputs::new(x).with("r", r)).unwrap();
            assert_eq!(y.strides(), x.strides());
        }
        let other = tensor(3, [2, 8, 5, 4]);
        let given = Inputs::new(&x).with("r", &other);
        assert!(model.plan_for(&stream, given.clone(), &options).is_err());
        assert!(model.forward(given).is_err());
    }
}

/// Transposed convolutions of one phase as matrix products, with a list behind them, give the bits of
/// separate launches.
#[test]
fn lists_behind_products_of_one_phase_change_no_bit() {
    let up = || Layer::from(Layer::conv_transpose2d("up", 72, 3).padding(1));
    let stream = stream(Arch::Sm90);
    for (behind, apart) in [
        (vec![Layer::relu()], "conv_transpose2d | relu"),
        (
            vec![Layer::hardswish(), Layer::mul(0.3)],
            "conv_transpose2d | hardswish mul",
        ),
        (
            vec![Layer::hardswish(), Layer::add("r")],
            "conv_transpose2d | hardswish add",
        ),
        (
            vec![Layer::add("r"), Layer::relu()],
            "conv_transpose2d | add relu",
        ),
    ] {
        let chain = Chain::new(16, [vec![up()], behind].concat()).unwrap();
        let partition = Partition::parse(&chain, apart).unwrap();
        let modes = [
            (DType::F16, Precision::default()),
            (DType::BF16, Precision::default()),
            (DType::F32, Precision::Fast),
        ];
        for (dtype, precision) in modes {
            let parameters = Parameters::init(&chain, 3).unwrap();
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype).unwrap();
            let tensor = |seed, shape: [usize; 4]| {
                let x = Tensor::from_f32_array(&stream, &data::signed(seed, shape), dtype);
                channels_last(&x.unwrap())
            };
            let (x, r) = (tensor(1, [2, 16, 9, 14]), tensor(2, [2, 72, 9, 14]));
            let options = Options::default().precision(precision);
            let run = |options: &Options| {
                let inputs = match chain.as_ref().inputs() {
                    [] => Inputs::new(&x),
                    _ => Inputs::new(&x).with("r", &r),
                };
                bits(&model.forward_with(inputs, options).unwrap())
            };
            let apart = run(&options.clone().partition(partition.clone()));
            assert!(run(&options) == apart, "{} {dtype}", chain.operators());
        }
    }
}
