//! Paddings of convolutions: the same ones are refused and accepted as in PyTorch, with errors that name both
//! values.

use op_spec::{Conv2dSpec, Padding, PaddingMode};

#[test]
fn paddings_refuse_and_accept() {
    let plain = Conv2dSpec::default();
    let (input, weight) = ([2, 3, 5, 9], [4, 3, 3, 2]);
    let same = plain.padding(Padding::Same);
    let problem = same.problem(&input, &weight, None).unwrap();
    assert_eq!(*problem.output_shape(), [2, 4, 5, 9]);
    assert_eq!(*problem.input_shape(), input);
    let pad = problem.pad.unwrap();
    assert_eq!((pad.before, pad.after), ([1, 0], [1, 1]));
    // Filters of odd extent need no separate padding step: both sides are equal.
    let problem = same.problem(&input, &[4, 3, 3, 5], None).unwrap();
    assert_eq!((problem.pad, problem.padding), (None, [1, 2]));
    let strided = same.stride([1, 2]);
    let words = "conv2d: stride[1] is 2, expected 1 with padding same";
    refused! {
        strided.problem(&input, &weight, None) => words;
        strided.check(3, 4, [3, 2]) => words;
    }
    let valid = strided.padding(Padding::Valid);
    let problem = valid.problem(&input, &weight, None).unwrap();
    assert_eq!(*problem.output_shape(), [2, 4, 3, 4]);
    let mode =
        |padding: [usize; 2], padding_mode| plain.padding(padding).padding_mode(padding_mode);
    let far = mode([100, 0], PaddingMode::Replicate);
    assert!(far.problem(&input, &weight, None).is_ok());
    refused! {
        mode([5, 0], PaddingMode::Reflect).problem(&input, &weight, None)
            => "conv2d: padding[0] is 5, limit 4 with padding_mode reflect";
        mode([5, 10], PaddingMode::Circular).problem(&input, &weight, None)
            => "conv2d: padding[1] is 10, limit 9 with padding_mode circular";
        far.problem(&[0, 3, 0, 9], &weight, None) => "conv2d: input[2] is 0, minimum 1";
        mode([usize::MAX, 0], PaddingMode::Replicate).problem(&input, &weight, None)
            => "conv2d: padded input has more elements than memory addresses, limit 2305843009213693951";
    }
}
