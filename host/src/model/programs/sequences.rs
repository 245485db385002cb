//! A model makes programs for many inputs, one after another. Each must equal the program of a model that
//! gets only that input, and read the same parameters. Only the kernels that prepare parameters run.

use std::collections::{BTreeMap, BTreeSet};

use launch_config::Arch;
use op_spec::graph::presets::KernelBench85;
use op_spec::graph::{BroadcastParameter, Chain, Layer, Partition};
use op_spec::{Layout, data};

use crate::device::{DType, Device, EmulatorOptions, Order, Stream, Tensor};
use crate::model::{Model, Options, Precision};
use crate::operators::Preparation;
use crate::parameters::Parameters;
use crate::program::Program;

/// A chain, with the element types, inputs and partitions for its model.
struct Case {
    chain: Chain,
    dtypes: &'static [DType],
    inputs: Vec<Vec<usize>>,
    partitions: &'static [&'static str],
}

/// A table of cases: channels and layers, element types, inputs and partitions.
macro_rules! cases {
    ($($channels:literal: [$($layer:expr),+], $dtypes:expr, $inputs:expr, $partitions:expr;)+) => {
        [$({
            let inputs: &[&[usize]] = $inputs;
            Case {
                chain: Chain::new($channels, [$(Layer::from($layer)),+]).expect("a chain"),
                dtypes: $dtypes,
                inputs: inputs.iter().map(|input| input.to_vec()).collect(),
                partitions: $partitions,
            }
        }),+]
    };
}

/// Chains with every kind of preparation, and inputs for which the prepared forms differ.
fn cases() -> Vec<Case> {
    let conv = |filters, kernel: usize| Layer::conv2d("conv", filters, kernel);
    let instance = || Layer::from(Layer::instance_norm("norm"));
    let batch = || Layer::from(Layer::batch_norm("norm"));
    // Problem 85, in one launch and in separate launches.
    let mut cases = vec![Case {
        chain: KernelBench85::default().chain().expect("a chain"),
        dtypes: &ALL,
        inputs: vec![vec![1, 8, 10, 128], vec![9, 8, 30, 128], vec![1, 8, 7, 9]],
        partitions: &["conv2d @direct | group_norm scale @folded | max_pool2d clamp"],
    }];
    cases.extend(cases! {
        // Filters of few channels. With few windows a filter row takes one line, else two.
        2: [Layer::conv2d("conv", 40, [3, 7]).stride([1, 2]), batch(), Layer::relu()],
            &[DType::F16, DType::BF16], &[&[2, 2, 3, 7], &[1, 2, 13, 7], &[2, 2, 13, 18]], &[];
        // Channels are interleaved with those of other columns only if some window has these columns.
        3: [conv(24, 3).dilation(5).padding(5), instance()], &[DType::F32, DType::F16],
            &[&[1, 3, 9, 4], &[1, 3, 9, 9], &[2, 3, 20, 33]],
            &["conv2d instance_norm @implicit-gemm", "conv2d @implicit-gemm | instance_norm"];
        // Channels-last copies of filters, and grouped operands.
        32: [conv(24, 3), Layer::silu(), Layer::conv2d("next", 48, 1).groups(2)], &ALL,
            &[&[2, 32, 6, 7], &[1, 32, 12, 16], &[1, 32, 60, 90]], &[];
        // Per-channel factors and summands, folded into several preceding layers.
        16: [conv(24, 3), batch(), Layer::mul(BroadcastParameter::new("gain")),
            Layer::add(BroadcastParameter::new("shift")), Layer::relu()], &[DType::F32, DType::F16],
            &[&[2, 16, 6, 7], &[1, 16, 12, 16]], &["conv2d batch_norm mul | add | relu"];
        // Phases that are interleaved, or shuffled into rows of the output.
        32: [Layer::conv_transpose2d("up", 24, 3).stride(2), batch()], &[DType::F32, DType::F16],
            &[&[2, 32, 6, 7], &[1, 32, 12, 20], &[1, 32, 1, 1], &[3, 32, 5, 16]], &[];
        16: [Layer::conv_transpose2d("up", 24, 4).stride(2).padding(1), Layer::relu()],
            &[DType::F32, DType::F16], &[&[2, 16, 6, 7], &[1, 16, 12, 20], &[1, 16, 1, 1]], &[];
        // Phases as matrix products.
        16: [Layer::conv_transpose2d("up", 72, 4).stride(2).padding(1)], &[DType::F16],
            &[&[2, 16, 6, 7], &[1, 16, 5, 4]], &[];
    });
    // Operands for all tiles, with K blocks of one filter slice or of all slices, and for two outputs.
    for (channels, filters) in [(3, 5), (40, 70)] {
        let extents = [3, 5, 9, 12, 16, 40];
        cases.push(Case {
            chain: Chain::new(
                channels,
                (Layer::conv3d("conv", filters, [2, 3, 3]), instance()),
            )
            .expect("a chain"),
            dtypes: &[DType::F32, DType::F16],
            inputs: extents
                .map(|extent| vec![2, channels, 3, extent, extent + 5])
                .into(),
            partitions: &["conv3d @implicit-gemm | instance_norm"],
        });
    }
    // Warp-specialized tiles.
    for (filters, dtypes) in [(32, &[DType::F32, DType::F16][..]), (64, &[DType::F16])] {
        cases.extend(cases! {
            64: [Layer::conv3d("conv", filters, 3), instance()], dtypes,
                &[&[1, 64, 3, 5, 6], &[1, 64, 8, 8, 8], &[1, 64, 8, 16, 16], &[2, 64, 16, 16, 16],
                &[1, 64, 5, 40, 44], &[1, 64, 4, 70, 64]], &["conv3d @implicit-gemm | instance_norm"];
        });
    }
    cases
}

const ALL: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The largest number of settings that one model is asked for.
const SETTINGS: usize = 24;

/// An input's shape and layout, and options.
#[derive(Debug)]
struct Setting {
    input: Vec<usize>,
    orders: Vec<Order>,
    options: Options,
}

impl Case {
    /// Returns inputs in both layouts under all options, shuffled by `seed`.
    fn settings(&self, dtype: DType, seed: u64) -> Vec<Setting> {
        let precisions = match dtype {
            DType::F32 => &Precision::ALL[..],
            _ => &Precision::ALL[..1],
        };
        let parsed = self.partitions.iter().map(|text| {
            let partition = Partition::parse(&self.chain, text);
            Options::default().partition(partition.expect("a partition"))
        });
        let mut options = vec![
            Options::default(),
            Options::default().batch_invariant(false),
        ];
        options.extend(parsed);
        let mut settings = Vec::new();
        for input in &self.inputs {
            for layout in [Layout::Nchw, Layout::Nhwc] {
                for options in &options {
                    settings.extend(precisions.iter().map(|&precision| Setting {
                        input: input.clone(),
                        orders: vec![Order::of_layout(input, layout).expect("few axes")],
                        options: options.clone().precision(precision),
                    }));
                }
            }
        }
        for at in (1..settings.len()).rev() {
            let other = data::uniform(seed, at as u64) * (at + 1) as f32;
            settings.swap(at, other as usize);
        }
        settings.truncate(SETTINGS);
        settings
    }

    fn model(&self, stream: &Stream, dtype: DType) -> Model {
        let parameters = Parameters::init(&self.chain, 1).expect("few parameters");
        Model::with_dtype(stream, &self.chain, &parameters, dtype).expect("a model")
    }
}

/// The fields of a kind of preparation, by name.
fn fields(preparation: &Preparation) -> (&'static str, Vec<(&'static str, String)>) {
    macro_rules! named {
        ($($field:ident),*) => { vec![$((stringify!($field), format!("{:?}", $field))),*] };
    }
    match preparation {
        Preparation::FoldedScale => ("FoldedScale", Vec::new()),
        Preparation::FoldedBatchNorm => ("FoldedBatchNorm", Vec::new()),
        Preparation::FoldedArithmetic { first } => ("FoldedArithmetic", named!(first)),
        Preparation::OneLaunch(precision) => ("OneLaunch", named!(precision)),
        Preparation::ChannelsLast { class, padded } => ("ChannelsLast", named!(class, padded)),
        Preparation::PhaseFilters { class } => ("PhaseFilters", named!(class)),
        Preparation::Gemm {
            class,
            precision,
            tile,
            k_vector_channels,
            k_block_planes,
            slice_planes,
            passes,
            depth_k_blocks,
            outputs_d,
        } => (
            "Gemm",
            named!(
                class,
                precision,
                tile,
                k_vector_channels,
                k_block_planes,
                slice_planes,
                passes,
                depth_k_blocks,
                outputs_d
            ),
        ),
    }
}

/// Records, for each kind of preparation, the sets of fields in which two keys of one layer differ.
fn tell_apart(keys: &[(usize, Preparation)], told: &mut BTreeMap<&'static str, BTreeSet<String>>) {
    for (index, (layer, key)) in keys.iter().enumerate() {
        let (kind, of) = fields(key);
        let told = told.entry(kind).or_default();
        for (other_layer, other) in &keys[..index] {
            let (other_kind, other) = fields(other);
            if (layer, kind) == (other_layer, other_kind) {
                let both = of.iter().zip(&other);
                let differ = both.filter(|(one, other)| one != other);
                let names: Vec<&str> = differ.map(|((name, _), _)| *name).collect();
                told.insert(names.join(" "));
            }
        }
    }
}

/// A shape, an element type and bits. The bits are `None` for memory that nothing writes: the inverse scales,
/// if there are none.
type Contents = (Vec<usize>, DType, Option<Vec<u32>>);

/// The launches of a program, the bytes of its workspace, and its parameters.
fn contents(program: &Program) -> (Vec<String>, u64, Vec<Contents>) {
    let launches = program.steps().iter();
    let launches =
        launches.map(|step| format!("{} {:?} {}", step.kernel, step.shape, step.bytes_moved));
    let of = |tensor: &Tensor| {
        let values = tensor.to_f32_array().ok();
        let bits = values.map(|values| values.iter().map(|value| value.to_bits()).collect());
        (tensor.shape().to_vec(), tensor.dtype(), bits)
    };
    let parameters = program.parameters().iter().map(of).collect();
    (launches.collect(), program.workspace_bytes(), parameters)
}

/// The kinds of preparations, each with the sets of fields that alone distinguish two forms of the same
/// parameters.
const TOLD_APART: [(&str, &[&str]); 7] = [
    ("FoldedScale", &[]),
    ("FoldedBatchNorm", &[]),
    ("FoldedArithmetic", &["first"]),
    ("OneLaunch", &["precision"]),
    ("ChannelsLast", &["class", "padded"]),
    ("PhaseFilters", &["class"]),
    (
        "Gemm",
        &[
            "class",
            "precision",
            "tile",
            "k_vector_channels",
            "k_block_planes slice_planes",
            "passes",
            "depth_k_blocks",
            "outputs_d",
        ],
    ),
];

#[test]
fn programs_of_a_sequence_are_those_of_fresh_models() {
    let mut told = BTreeMap::new();
    for arch in [Arch::Sm80, Arch::Sm90] {
        let options = EmulatorOptions {
            arch,
            ..EmulatorOptions::new()
        };
        let stream = Device::emulator_with(options).stream().expect("a stream");
        for (number, case) in cases().iter().enumerate() {
            for &dtype in case.dtypes {
                let model = case.model(&stream, dtype);
                // Programs are kept alive, so no prepared parameter is freed.
                let mut programs = Vec::new();
                for setting in case.settings(dtype, number as u64) {
                    let Setting {
                        input,
                        orders,
                        options,
                    } = &setting;
                    let program = |model: &Model| model.program(input, orders, options);
                    let fresh = program(&case.model(&stream, dtype)).expect("kernels");
                    let program = program(&model).expect("kernels");
                    let is_same = contents(&program) == contents(&fresh);
                    let layers = case.chain.operators();
                    assert!(is_same, "{arch:?} {layers} {dtype} {setting:?}");
                    programs.push(program);
                }
                tell_apart(&model.prepared().keys(), &mut told);
            }
        }
    }
    for (kind, each) in TOLD_APART {
        let told = told.get(kind).unwrap_or_else(|| panic!("no {kind}"));
        for fields in each {
            assert!(told.contains(*fields), "{kind}, {fields}: {told:#?}");
        }
    }
}
