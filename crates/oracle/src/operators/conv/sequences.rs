//! Cases of convolutions of sequences.

use op_spec::graph::Layer;
use op_spec::{Conv1dSpec, Padding, PaddingMode};

use super::cases::conv;
use super::golden::{NAMES, layer};
use crate::{Case, Cases};

pub(in super::super) const CONV1D: Cases = Cases {
    kind: "conv1d",
    smoke: || {
        let spec = Conv1dSpec::default();
        vec![conv1d("plain", [2, 3, 12], 4, 3, spec)]
    },
    ragged: ragged_sequences,
    realistic: || {
        let same = Conv1dSpec {
            padding: Padding::Same,
            ..Conv1dSpec::default()
        };
        let wavenet = Conv1dSpec {
            dilation: [16],
            ..same
        };
        vec![
            conv1d("speech_encoder", [1, 80, 300], 64, 3, same),
            conv1d("dilated", [1, 16, 256], 24, 3, wavenet),
        ]
    },
    golden: "conv1d",
    read: |file| {
        let layer = Layer::conv1d(layer(file)?);
        file.case("conv1d", [layer], &NAMES)
    },
};

fn conv1d(
    name: &str,
    x: [usize; 3],
    out_channels: usize,
    kernel_size: usize,
    spec: Conv1dSpec,
) -> Case {
    let layer = Layer::conv1d(conv(out_channels, [kernel_size], true, spec));
    Case::of_layer(&format!("conv1d/{name}"), layer, &x).expect("a chain")
}

fn ragged_sequences() -> Vec<Case> {
    let spec = Conv1dSpec::default();
    let everything = Conv1dSpec {
        stride: [3],
        padding: [4].into(),
        dilation: [2],
        groups: 3,
        ..spec
    };
    let depthwise = Conv1dSpec {
        padding: [1].into(),
        groups: 13,
        ..spec
    };
    let causal = Conv1dSpec {
        padding: Padding::Same,
        dilation: [4],
        ..spec
    };
    let mode = |padding_mode, padding: usize| Conv1dSpec {
        padding: [padding].into(),
        padding_mode,
        ..spec
    };
    vec![
        conv1d("one_value", [1, 1, 1], 1, 1, spec),
        conv1d("empty_batch", [0, 3, 7], 5, 3, spec),
        conv1d("primes", [3, 5, 101], 7, 3, spec),
        conv1d("filter_as_large_as_sequence", [2, 3, 5], 11, 5, spec),
        conv1d(
            "stride_3_padding_4_dilation_2_groups_3",
            [2, 6, 29],
            9,
            4,
            everything,
        ),
        conv1d("depthwise", [2, 13, 31], 26, 3, depthwise),
        conv1d("same_of_an_even_filter", [2, 3, 19], 5, 2, causal),
        conv1d("reflect", [2, 3, 7], 5, 3, mode(PaddingMode::Reflect, 6)),
        conv1d(
            "replicate",
            [2, 3, 5],
            5,
            3,
            mode(PaddingMode::Replicate, 9),
        ),
        conv1d("circular", [2, 3, 7], 5, 3, mode(PaddingMode::Circular, 7)).special(),
    ]
}
