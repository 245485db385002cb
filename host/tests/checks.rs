//! The CPU device refuses the same calls as devices that run kernels, with the same messages.
#![cfg(feature = "emulator")]

use std::error::Error as _;

use convfuse::graph::{Chain, Layer};
use convfuse::ndarray::{ArrayD, IxDyn};
use convfuse::spec::{ArithmeticOp, ArithmeticSpec, GroupNormSpec};
use convfuse::{
    DType, Device, Error, Inputs, Model, Options, Parameters, Result, Stream, Tensor, data, ops,
};

/// The arguments of the calls on one device.
struct Here {
    stream: Stream,
    /// A stream of a device of another kind.
    elsewhere: Stream,
    model: Model,
    x: Tensor,
}

const SHAPE: [usize; 4] = [2, 4, 6, 6];

impl Here {
    fn new(device: &Device, elsewhere: &Device) -> Result<Here> {
        let stream = device.stream()?;
        let layers = (
            Layer::conv2d("conv", 4, 3).padding(1),
            Layer::add("shortcut"),
            Layer::relu(),
        );
        let model = Model::init(&stream, Chain::new(4, layers)?, 3)?;
        Ok(Here {
            x: Tensor::from_array(&stream, &data::signed(1, SHAPE))?,
            elsewhere: elsewhere.stream()?,
            stream,
            model,
        })
    }

    fn tensor(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::zeros(&self.stream, shape, dtype)
    }

    /// A tensor of the right shape that is channels-last in memory.
    fn channels_last(&self) -> Result<Tensor> {
        self.tensor(&[2, 6, 6, 4], DType::F32)?
            .permute(&[0, 3, 1, 2])
    }

    /// A contiguous tensor of this shape that begins 4 bytes after a multiple of 16.
    fn misaligned(&self, shape: &[usize]) -> Result<Tensor> {
        let len: usize = shape.iter().product();
        let row = self.tensor(&[1 + len], DType::F32)?.narrow(0, 1, len)?;
        row.reshape(shape)
    }

    /// A tensor with more axes than the copying kernel supports, none of which can be merged with the next.
    fn many_axes(&self) -> Result<Tensor> {
        let dense = self.tensor(&[3; 9], DType::F32)?;
        (0..9).try_fold(dense, |x, axis| x.slice_axis(axis, 0..3, 2))
    }

    fn forward(&self, x: &Tensor, shortcut: &Tensor) -> Result<()> {
        self.model
            .forward(Inputs::new(x).with("shortcut", shortcut))
            .map(drop)
    }

    /// Runs a plan for dense tensors.
    fn execute(&self, x: &Tensor, shortcut: &Tensor, y: &mut Tensor) -> Result<()> {
        let mut plan = self.model.plan(&self.stream, &SHAPE, &Options::default())?;
        plan.execute(Inputs::new(x).with("shortcut", shortcut), y)
    }
}

type Call = fn(&Here) -> Result<()>;

const CALLS: &[(&str, Call)] = &[
    ("an input of another type", |here| {
        here.forward(&here.tensor(&SHAPE, DType::F16)?, &here.x)
    }),
    ("a further input of another type", |here| {
        here.forward(&here.x, &here.tensor(&SHAPE, DType::BF16)?)
    }),
    ("an input of another device", |here| {
        here.forward(&here.x.to(&here.elsewhere)?, &here.x)
    }),
    ("a further input of another device", |here| {
        here.forward(&here.x, &here.x.to(&here.elsewhere)?)
    }),
    ("an input with other channels", |here| {
        let x = here.tensor(&[2, 3, 6, 6], DType::F32)?;
        here.forward(&x, &here.x)
    }),
    ("a further input of another shape", |here| {
        here.forward(&here.x, &here.tensor(&[2, 4, 6, 5], DType::F32)?)
    }),
    ("a further input that is not given", |here| {
        here.model.forward(&here.x).map(drop)
    }),
    ("a further input of another name", |here| {
        let inputs = Inputs::new(&here.x).with("shotcut", &here.x);
        here.model.forward(inputs).map(drop)
    }),
    ("more axes than a copy takes", |here| {
        ops::add(&here.many_axes()?, &here.many_axes()?).map(drop)
    }),
    ("more axes than a contiguous copy takes", |here| {
        here.many_axes()?.contiguous().map(drop)
    }),
    ("a plan on another device's stream", |here| {
        let plan = here
            .model
            .plan(&here.elsewhere, &SHAPE, &Options::default());
        plan.map(drop)
    }),
    ("a strided input of a plan for dense ones", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        here.execute(&here.channels_last()?, &here.x, &mut y)
    }),
    ("a strided further input of a plan for dense ones", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        here.execute(&here.x, &here.channels_last()?, &mut y)
    }),
    ("a misaligned input of a plan for dense ones", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        here.execute(&here.misaligned(&SHAPE)?, &here.x, &mut y)
    }),
    ("a dense input of a plan for strided ones", |here| {
        let inputs = here.channels_last()?;
        let inputs = Inputs::new(&inputs).with("shortcut", &here.x);
        let mut plan = here
            .model
            .plan_for(&here.stream, inputs, &Options::default())?;
        let mut y = plan.output()?;
        plan.execute(Inputs::new(&here.x).with("shortcut", &here.x), &mut y)
    }),
    ("an input of another shape than a plan's", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        here.execute(&here.tensor(&[1, 4, 6, 6], DType::F32)?, &here.x, &mut y)
    }),
    ("an input of another device than a plan's", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        here.execute(&here.x.to(&here.elsewhere)?, &here.x, &mut y)
    }),
    ("an output of another shape", |here| {
        let mut y = here.tensor(&[2, 4, 6, 5], DType::F32)?;
        here.execute(&here.x, &here.x, &mut y)
    }),
    ("an output of another type", |here| {
        let mut y = here.tensor(&SHAPE, DType::F16)?;
        here.execute(&here.x, &here.x, &mut y)
    }),
    ("an output that is not contiguous", |here| {
        here.execute(&here.x, &here.x, &mut here.channels_last()?)
    }),
    ("an output that is not aligned", |here| {
        here.execute(&here.x, &here.x, &mut here.misaligned(&SHAPE)?)
    }),
    ("an output that is shared", |here| {
        let mut y = here.tensor(&SHAPE, DType::F32)?;
        let _other = y.clone();
        here.execute(&here.x, &here.x, &mut y)
    }),
    ("an output of another stream", |here| {
        let other = here.stream.device().stream()?;
        let mut y = Tensor::zeros(&other, &SHAPE, DType::F32)?;
        here.execute(&here.x, &here.x, &mut y)
    }),
    ("a graph that is captured", |here| {
        let plan = here.model.plan(&here.stream, &SHAPE, &Options::default())?;
        let inputs = Inputs::new(here.x.clone()).with("shortcut", here.x.clone());
        plan.capture(inputs).map(drop)
    }),
    ("launches over memory of others", |here| {
        let inputs = Inputs::new(&here.x).with("shortcut", &here.x);
        here.model
            .launches(&here.stream, inputs, &Options::default())
            .map(drop)
    }),
    ("an operator's parameter of another type", |here| {
        let weight = here.tensor(&[4], DType::F16)?;
        ops::group_norm(&here.x, Some(&weight), None, &GroupNormSpec::new(2)).map(drop)
    }),
    ("an operator's parameter of another device", |here| {
        let weight = Tensor::zeros(&here.elsewhere, &[4], DType::F32)?;
        ops::group_norm(&here.x, Some(&weight), None, &GroupNormSpec::new(2)).map(drop)
    }),
    ("an operator's attributes", |here| {
        ops::group_norm(&here.x, None, None, &GroupNormSpec::new(3)).map(drop)
    }),
    ("a residual of another shape", |here| {
        ops::add(&here.x, &here.tensor(&[2, 4, 6, 5], DType::F32)?).map(drop)
    }),
    ("an array of another type", |here| {
        here.tensor(&SHAPE, DType::F16)?.to_array::<f32>().map(drop)
    }),
    ("a slice beyond the axis", |here| {
        here.x.slice_axis(1, 3..5, 1).map(drop)
    }),
    ("a slice with a step of 0", |here| {
        here.x.slice_axis(1, 0..2, 0).map(drop)
    }),
    ("an axis that is not there", |here| {
        here.x.transpose(0, 4).map(drop)
    }),
    ("no permutation", |here| {
        here.x.permute(&[0, 1, 2, 2]).map(drop)
    }),
    ("another number of elements", |here| {
        here.x.reshape(&[2, 4, 6]).map(drop)
    }),
    ("tensors of several shapes in one", |here| {
        let other = here.tensor(&[2, 4, 6, 5], DType::F32)?;
        Tensor::cat(&[&here.x, &other], 1).map(drop)
    }),
    ("tensors of several types in one", |here| {
        let other = here.tensor(&SHAPE, DType::F16)?;
        Tensor::cat(&[&here.x, &other], 0).map(drop)
    }),
    ("tensors of several devices in one", |here| {
        Tensor::cat(&[&here.x, &here.x.to(&here.elsewhere)?], 0).map(drop)
    }),
    ("no tensors in one", |_| Tensor::cat(&[], 0).map(drop)),
    ("parameters of another graph", |here| {
        let other = Chain::new(4, [Layer::scale("scale")])?;
        let parameters = Parameters::init(&other, 1)?;
        Model::new(&here.stream, here.model.graph(), &parameters).map(drop)
    }),
    ("an array with other channels", |here| {
        let x = ArrayD::<f32>::zeros(IxDyn(&[2, 3, 6, 6]));
        let inputs = Inputs::new(&x).with("shortcut", &x);
        here.model.forward_array(inputs).map(drop)
    }),
];

/// The text of the error's values, without device names and addresses.
fn told(error: &Error, device: &Device, elsewhere: &Device) -> String {
    let mut text = format!("{error} {error:?}");
    for (name, neutral) in [(device, "HERE"), (elsewhere, "ELSEWHERE")] {
        text = text.replace(&name.to_string(), neutral);
    }
    while let Some(at) = text.find("0x") {
        let digits = text[at + 2..].find(|c: char| !c.is_ascii_hexdigit());
        text.replace_range(at..at + 2 + digits.unwrap_or(0), "ADDRESS");
    }
    let at = text.find("address: ").map(|at| at + "address: ".len());
    if let Some(at) = at {
        let digits = text[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        text.replace_range(at..at + digits, "NUMBER");
    }
    text
}

#[test]
fn the_cpu_refuses_what_kernels_cannot_do() {
    let (cpu, emulator) = (Device::cpu(), Device::emulator());
    let on_cpu = Here::new(&cpu, &emulator).unwrap();
    let on_emulator = Here::new(&emulator, &cpu).unwrap();
    for (what, call) in CALLS {
        let refused = |here: &Here| match call(here) {
            Ok(()) => panic!("{what} is accepted on {}", here.stream.device()),
            Err(error) => error,
        };
        let (one, other) = (refused(&on_cpu), refused(&on_emulator));
        assert_eq!(
            told(&one, &cpu, &emulator),
            told(&other, &emulator, &cpu),
            "{what}"
        );
        // An error's text does not repeat its source's text.
        if let Some(source) = one.source() {
            assert!(!one.to_string().contains(&source.to_string()), "{one}");
        }
    }
}

#[test]
fn what_kernels_can_do_the_cpu_does() {
    for device in [Device::cpu(), Device::emulator()] {
        let here = Here::new(&device, &Device::cpu()).unwrap();
        let wanted = here
            .model
            .forward(Inputs::new(&here.x).with("shortcut", &here.x));
        let wanted = wanted.unwrap().to_array::<f32>().unwrap();
        let strided = here.x.permute(&[0, 2, 3, 1]).unwrap().contiguous().unwrap();
        let strided = strided.permute(&[0, 3, 1, 2]).unwrap();
        let mut y = here.tensor(&SHAPE, DType::F32).unwrap();
        let inputs = || Inputs::new(&strided).with("shortcut", &here.x);
        let plan = here
            .model
            .plan_for(&here.stream, inputs(), &Options::default());
        let mut plan = plan.unwrap();
        let mut last = plan.output().unwrap();
        plan.execute(inputs(), &mut last).unwrap();
        assert_eq!(last.strides(), strided.strides(), "{device}");
        assert_eq!(last.to_array::<f32>().unwrap(), wanted, "{device}");
        // Copies are aligned, wherever the original starts.
        let aligned = here.misaligned(&SHAPE).unwrap().contiguous().unwrap();
        here.execute(&aligned, &here.x, &mut y).unwrap();
        let name = if device.is_cpu() { "cpu" } else { "emulator" };
        assert_eq!(
            format!("{:?}", here.model),
            format!("Model(conv2d add relu, f32 on {name})")
        );
        assert_eq!(format!("{plan:?}").lines().count(), 1);
        assert!(format!("{plan:#?}").starts_with("Plan(conv2d add relu, [2, 4, 6, 6] to "));
    }
    let add = ArithmeticSpec::new(ArithmeticOp::Add);
    assert_eq!(add.problem(&SHAPE, &SHAPE).unwrap().len(), 288);
}

/// Compares views and joined tensors with ndarray's.
#[test]
fn views_have_the_elements_that_arrays_have() {
    use convfuse::ndarray::{Axis, Slice, concatenate};
    for device in [Device::cpu(), Device::emulator()] {
        let stream = device.stream().unwrap();
        let array = data::signed(1, (2, 3, 4, 5)).into_dyn();
        let x = Tensor::from_array(&stream, &array).unwrap();
        let same = |tensor: &Tensor, array: &ArrayD<f32>| {
            assert_eq!(&tensor.to_array::<f32>().unwrap(), array, "{device}");
            let dense = tensor.contiguous().unwrap();
            assert_eq!(&dense.to_array::<f32>().unwrap(), array, "{device}");
        };
        let turned = x.permute(&[2, 0, 3, 1]).unwrap();
        same(&turned, &array.clone().permuted_axes(IxDyn(&[2, 0, 3, 1])));
        for (axis, range, step) in [
            (0, 1..2, 1),
            (1, 0..3, 2),
            (2, 1..4, 2),
            (3, 4..5, 3),
            (3, 2..2, 1),
        ] {
            let slice = Slice::new(
                range.start as isize,
                Some(range.end as isize),
                step as isize,
            );
            let wanted = array.slice_axis(Axis(axis), slice).to_owned();
            same(&x.slice_axis(axis, range, step).unwrap(), &wanted);
        }
        let part = x.narrow(1, 1, 2).unwrap().transpose(0, 3).unwrap();
        let mut wanted = array.slice_axis(Axis(1), Slice::from(1..3)).to_owned();
        wanted.swap_axes(0, 3);
        same(&part, &wanted);
        for axis in 0..4 {
            let half = x.slice_axis(axis, 0..1, 1).unwrap();
            let half_array = half.to_array::<f32>().unwrap();
            let joined = Tensor::cat(&[&x, &half, &x], axis).unwrap();
            assert!(joined.is_contiguous());
            let views = [array.view(), half_array.view(), array.view()];
            same(&joined, &concatenate(Axis(axis), &views).unwrap());
        }
    }
}
