//! The partitions that can be requested, and the reports on the rows that were tried.

use op_spec::graph::{Layer, OtherTensor, Partition};

use super::*;

#[test]
fn partitions_say_which_regions_and_which_rows() {
    let chain = chain_85(of_85());
    let ask = |chain: &Graph, input: &[usize], text: &str| {
        let partition = Partition::parse(chain, text).unwrap();
        let options = Options::default().partition(partition);
        rows(chain, input, DType::F32, &H200, &options)
    };
    for (text, expected) in [
        (
            "conv2d @direct | group_norm scale @folded | max_pool2d clamp",
            "direct | folded | tensor",
        ),
        (
            "conv2d | group_norm | scale max_pool2d clamp",
            "implicit-gemm | tensor | tensor",
        ),
        (
            "conv2d | group_norm | scale | max_pool2d | clamp",
            "implicit-gemm | tensor | tensor | tensor | tensor",
        ),
        ("conv2d group_norm scale max_pool2d clamp", "one-launch-2d"),
        (
            "conv2d group_norm scale max_pool2d clamp @implicit-gemm",
            "implicit-gemm",
        ),
        (
            "conv2d group_norm scale max_pool2d clamp @depthwise",
            "conv2d group_norm scale max_pool2d clamp: no kernels called depthwise: \
             depthwise: channels of a group is 8, expected 1",
        ),
        (
            "conv2d group_norm | scale max_pool2d clamp",
            "implicit-gemm | tensor",
        ),
        (
            "conv2d group_norm scale | max_pool2d | clamp",
            "implicit-gemm | tensor | tensor",
        ),
        (
            "conv2d group_norm scale max_pool2d | clamp",
            "implicit-gemm | tensor",
        ),
        (
            "conv2d | group_norm scale @tensor | max_pool2d clamp",
            "implicit-gemm | tensor | tensor",
        ),
        (
            "conv2d | group_norm scale max_pool2d | clamp",
            "implicit-gemm | tensor | tensor",
        ),
        (
            "conv2d @no-such | group_norm scale max_pool2d clamp",
            "conv2d: no kernels called no-such: known are one-launch-2d, one-launch-3d, conv-mean, depthwise, \
             gemm, direct-nhwc, implicit-gemm, direct, transposed, tensor, folded",
        ),
    ] {
        assert_eq!(ask(&chain, &FULL_85, text), expected, "{text}");
    }
    // A row that does not pay is taken if it is requested by name, also for a list that does not.
    let chain = chain_85(depthwise([3, 3]));
    let text = "conv2d group_norm scale max_pool2d clamp @implicit-gemm";
    assert_eq!(ask(&chain, &[4, 16, 60, 60], text), "implicit-gemm");
    let conv = Layer::conv2d("conv", 64, 3).into();
    let up = Layer::conv_transpose2d("up", 64, 3).stride(2).into();
    for (first, row, alone) in [
        (conv, "implicit-gemm", "implicit-gemm | tensor"),
        (up, "transposed", "transposed | tensor"),
    ] {
        let first: Layer = first;
        let text = format!("{} silu mish tanh", first.operator());
        let layers = vec![first, Layer::silu(), Layer::mish(), Layer::tanh()];
        let (chain, input) = (Chain::new(64, layers).unwrap(), [8, 64, 56, 56]);
        assert_eq!(ask(&chain, &input, &text), row);
        assert_eq!(ask(&chain, &input, &format!("{text} @{row}")), row);
        let by_itself = rows(&chain, &input, DType::F32, &H200, &Options::default());
        assert_eq!(by_itself, alone);
    }
}

#[test]
fn a_value_that_is_read_again_is_not_inside_of_a_region() {
    let gate = Layer::mul(OtherTensor::Layer(0));
    let layers = vec![
        Layer::conv2d("conv", 64, 3).into(),
        Layer::hardswish(),
        gate,
    ];
    let chain = Chain::new(64, layers).unwrap();
    let ask = |text: &str| {
        let options = Options::default().partition(Partition::parse(&chain, text).unwrap());
        rows(&chain, &[2, 64, 20, 24], DType::F32, &H200, &options)
    };
    assert_eq!(ask("conv2d | hardswish mul"), "implicit-gemm | tensor");
    assert_eq!(
        ask("conv2d | hardswish | mul"),
        "implicit-gemm | tensor | tensor"
    );
    for (text, asked) in [
        ("conv2d hardswish | mul", ""),
        ("conv2d hardswish @tensor | mul", " called tensor"),
    ] {
        assert_eq!(
            ask(text),
            format!(
                "conv2d hardswish: no kernels{asked}: others take what one of them gives that is not the last"
            )
        );
    }
}

#[test]
fn a_partition_of_another_chain_is_refused() {
    let chain = chain_85(of_85());
    let other = Partition::single(&chain_79(of_79()));
    let options = Options::default().partition(other);
    assert_eq!(
        rows(&chain, &FULL_85, DType::F32, &H200, &options),
        "partition: covers 6 layers, the model has 5"
    );
}

/// The report has the rule by which each row refused, and the reason why a row that could was passed over.
#[test]
fn every_row_that_was_asked_is_kept() {
    let default = Options::default();
    let answers = |chain: &Graph, input: &[usize], properties| -> Vec<String> {
        let runs = chosen(chain, input, DType::F32, properties, &default).unwrap();
        let considered = runs[0].facts.considered.iter();
        let answer = |Considered {
                          kernels, verdict, ..
                      }: &Considered| match verdict {
            Verdict::Taken => format!("{kernels}: taken"),
            Verdict::Passed(reason) | Verdict::Refused(reason) => format!("{kernels}: {reason}"),
        };
        considered.map(answer).collect()
    };
    assert_eq!(
        answers(&chain_85(of_85()), &[1, 8, 128, 120], &H200),
        [
            "one-launch-2d: width is 120, expected 128",
            "depthwise: channels of a group is 8, expected 1",
            "implicit-gemm: taken"
        ]
    );
    let few = KernelBench85 {
        in_channels: 1,
        out_channels: 8,
        group_norm: GroupNormSpec::new(4),
        ..of_85()
    };
    assert_eq!(
        answers(&chain_85(few), &[1, 1, 60, 60], &A100),
        [
            "one-launch-2d: needs warpgroup MMA",
            "depthwise: filters of a group is 8, expected 1",
            "implicit-gemm: too few products for each value of the input to pay for its layout",
            "depthwise: filters of a group is 8, expected 1",
            "gemm: needs 16 bits or fast f32, dense NHWC, and warpgroup MMA",
            "direct-nhwc: needs 16 bits and dense NHWC",
            "implicit-gemm: too few products for each value of the input to pay for its layout",
            "direct: taken"
        ]
    );
    // Lists that the kernels can apply, but a launch applies faster: two or three functions, and one.
    let conv = Layer::conv2d("conv", 64, 3).into();
    let layers = vec![conv, Layer::tanh(), Layer::mish(), Layer::silu()];
    let chain = Chain::new(64, layers).unwrap();
    let answers = answers(&chain, &[8, 64, 56, 56], &H200);
    let of_row = |answer: &String| answer.strip_prefix("implicit-gemm: ").map(str::to_owned);
    let of_row: Vec<String> = answers.iter().filter_map(of_row).collect();
    assert_eq!(
        of_row,
        [
            "its list takes longer beside the accumulators than in a launch of its own",
            "its list shares the launch of the functions that follow",
            "taken"
        ]
    );
}

/// The row for a convolution and a mean pays from a number of positions on.
#[test]
fn means_of_convolutions_pay_from_their_bounds_on() {
    let layers = vec![
        Layer::from(Layer::conv2d("conv", 64, [1, 3])),
        Layer::adaptive_avg_pool2d(1),
    ];
    let chain = Chain::new(16, layers).unwrap();
    for (precision, bound) in [(Precision::Accurate, 512), (Precision::Fast, 4096)] {
        let options = Options::default().precision(precision);
        for (positions, pays) in [(bound - 1, false), (bound, true), (bound + 1, true)] {
            let input = [8, 16, 1, positions + 2];
            let row = rows(&chain, &input, DType::F32, &H200, &options);
            assert_eq!(row == "conv-mean", pays, "{precision}, {positions}: {row}");
        }
    }
}
