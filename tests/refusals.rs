//! Operators refuse invalid arguments like PyTorch, with an error before anything runs.

use convfuse::{DType, Error, Stream, Tensor, lab};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::suite::says;

/// An operator, the shapes of its tensors, attributes as in chain files, and the error's text.
const ROWS: &str = "
    conv1d 1x2x5x6 3x2x3 => input has rank 4, expected 3
    conv1d 1x2x6 3x2x3 padding=same stride=2 => stride[0] is 2, expected 1 with padding same
    conv1d 1x2x6 3x2x3 padding=6 padding_mode=reflect => padding[0] is 6, limit 5 with padding_mode reflect
    conv1d 1x2x6 3x2x3 padding=7 padding_mode=circular => padding[0] is 7, limit 6 with padding_mode circular
    conv2d 1x6x5x5 4x3x3x3 => weight[1] is 3, expected 6
    conv2d 1x6x5x5 4x3x3x3 groups=4 => in_channels is 6, which is not a multiple of groups 4
    conv2d 1x6x5x5 4x3x3x3 groups=0 => groups is 0, minimum 1
    conv2d 1x6x5x5 4x3x3x3 3 groups=2 => bias[0] is 3, expected 4
    conv2d 1x6x5x5 4x3x6x3 groups=2 => the dilated window spans 6 elements of spatial axis 0, the padded input has 5
    conv2d 3 4x3x3x3 groups=2 => input has rank 1, expected 4
    conv3d 2x5x6 3x2x2x3x3 => input has rank 3, expected 5
    conv3d 1x2x4x5x6 3x2x3x3 => weight has rank 4, expected 5
    conv3d 1x2x4x5x6 3x2x2x3x3 stride=[1,0,1] => stride[1] is 0, minimum 1
    conv_transpose1d 1x2x5x6 2x3x3 => input has rank 4, expected 3
    conv_transpose2d 1x6x5x5 4x6x3x3 => weight[0] is 4, expected 6
    conv_transpose2d 1x6x5x5 6x2x3x3 3 groups=2 => bias[0] is 3, expected 4
    conv_transpose2d 1x6x5x5 6x4x3x3 output_padding=1 \
        => output_padding[0] is 1, limit 0 (less than stride or dilation)
    conv_transpose2d 1x6x5x1 6x4x3x1 padding=[0,1] \
        => padding[1] is 1 on both sides, which removes all 1 elements of the output
    conv_transpose3d 1x2x4x5x6 2x3x2x2x2 stride=[1,0,1] => stride[1] is 0, minimum 1
    conv_transpose3d 1x2x4x5x6 2x3x2x2x2:f16 => weight is f16, must be f32
    group_norm 2x30x4 num_groups=4 => channels is 30, which is not a multiple of num_groups 4
    group_norm 2x30x4 num_groups=0 => num_groups is 0, minimum 1
    group_norm 2x30x4 num_groups=5 eps=-1e-5 => eps is -0.00001, minimum 0
    group_norm 2x30x4 29 num_groups=5 => weight[0] is 29, expected 30
    instance_norm 2x3x1 => spatial elements is 1, minimum 2 (one value has no deviation)
    layer_norm 2x3x4 normalized_shape=[3,5] => normalized_shape[1] is 5, expected 4
    layer_norm 2x3x4 normalized_shape=[3] => normalized_shape[0] is 3, expected 4
    layer_norm 2x3x4 normalized_shape=[1,2,3,4] => normalized_shape has rank 4, expected 2
    layer_norm 2x3x4 normalized_shape=[] => normalized_shape has rank 0, minimum 1
    layer_norm 2x3x4 3 normalized_shape=[3,4] => weight has rank 1, expected 2
    layer_norm 2x3x4 normalized_shape=[3,4] eps=-1e-5 => eps is -0.00001, minimum 0
    batch_norm 2x3x4x5 3 2 => running_var[0] is 2, expected 3
    batch_norm 2x3x4x5 3 3 3 2 => bias[0] is 2, expected 3
    batch_norm 3 3 3 => input has rank 1, minimum 2
    batch_norm 2x3x4x5 3 3 eps=-1e-5 => eps is -0.00001, expected more than 0
    scale 2x3x4 4 => scale[0] is 4, expected 3
    scale 4 4 => input has rank 1, minimum 2
    scale 2x3x4 3:f16 => scale is f16, must be f32
    prelu 2x3x4 4 => weight[0] is 4, expected 1 or 3, the number of channels
    prelu 4 4 => input has rank 1, minimum 2
    prelu 2x3x4 2x3x4 => weight has rank 3, expected 1
    prelu 2x3x4 3:f16 => weight is f16, must be f32
    add 2x3x4 4 => other[0] is 4, expected 1
    add 2x3x4 2x1x4 => other[0] is 2, expected 1
    add 2x3x4 2x3x4:f16 => other is f16, must be f32
    max 2x0x3 dim=1 => input[1] is 0, minimum 1
    max 2x3x4 dim=0 => dim is 0, expected axes of the input behind the batch, each once
    max 2 dim=1 => input has rank 1, minimum 2
    clamp 1 => min and max are both absent, at least one is needed
    max_pool2d 1x2x6x5 kernel_size=3 padding=[2,0] => padding[0] is 2, limit kernel_size[0] / 2 = 1
    max_pool2d 1x2x6x5 kernel_size=[3,6] => the dilated window spans 6 elements of spatial axis 1, the padded input has 5
    max_pool2d 1x2x6x5 kernel_size=3 stride=[0,1] => stride[0] is 0, minimum 1
    max_pool3d 1x2x4x6x5 kernel_size=[2,3,2] dilation=[1,4,1] \
        => the dilated window spans 9 elements of spatial axis 1, the padded input has 6
    max_pool3d 1x2x6x5 kernel_size=[2,3,2] => input has rank 4, expected 5
    avg_pool2d 1x2x6x5 kernel_size=3 padding=[2,0] => padding[0] is 2, limit kernel_size[0] / 2 = 1
    avg_pool2d 1x2x6x5 kernel_size=3 divisor_override=0 => divisor_override is 0, expected any other number
    avg_pool2d 1x2x6x5 kernel_size=[3,6] => the dilated window spans 6 elements of spatial axis 1, the padded input has 5
    avg_pool2d 1x2x6x5 kernel_size=3 stride=[0,1] => stride[0] is 0, minimum 1
    avg_pool2d 1x2x6x5 kernel_size=[0,1] => kernel_size[0] is 0, minimum 1
    avg_pool2d 1x2x4x6x5 kernel_size=3 => input has rank 5, expected 4
    avg_pool3d 1x2x6x5 kernel_size=1 => input has rank 4, expected 5
    adaptive_avg_pool2d 1x2x0x5 output_size=1 => input[2] is 0, minimum 1
    adaptive_avg_pool2d 1x2x6x5 output_size=[1,7] => input's width is 5, which is not a multiple of output_size 7
    adaptive_avg_pool2d 1x2x6x5 output_size=[4,5] => input's height is 6, which is not a multiple of output_size 4
    adaptive_avg_pool3d 1x2x3x6x5 output_size=[2,1,1] => input's depth is 3, which is not a multiple of output_size 2
    adaptive_avg_pool3d 1x2x6x5 output_size=1 => input has rank 4, expected 5";

pub(crate) fn trials() -> Vec<Trial> {
    let rows = || ROWS.lines().filter_map(|row| row.trim().split_once(' '));
    let operators: std::collections::BTreeSet<&str> =
        rows().map(|(operator, _)| operator).collect();
    let of = |operator: &'static str| {
        let refusals = move |backend: Backend| {
            let stream = backend.stream()?;
            let mut rows = rows().filter(|(other, _)| *other == operator);
            rows.try_for_each(|(_, row)| refuses(&stream, operator, row))
        };
        let trial = move |backend: Backend| {
            backend.trial(operator, "refuses_what_pytorch_refuses", refusals)
        };
        Backend::DEVICES.map(trial)
    };
    operators.into_iter().flat_map(of).collect()
}

fn refuses(stream: &Stream, operator: &str, row: &str) -> Outcome {
    let (call, words) = row.split_once(" => ").ok_or(row)?;
    let (attributes, tensors): (Vec<_>, Vec<_>) =
        call.split_whitespace().partition(|word| word.contains('='));
    let tensor = |word: &&str| {
        let (shape, dtype) = match word.strip_suffix(":f16") {
            Some(shape) => (shape, DType::F16),
            None => (*word, DType::F32),
        };
        let shape: Vec<usize> = shape
            .split('x')
            .map(|extent| extent.parse().expect(row))
            .collect();
        Tensor::zeros(stream, &shape, dtype)
    };
    let tensors = tensors
        .iter()
        .map(tensor)
        .collect::<convfuse::Result<Vec<_>>>()?;
    // Required attributes of a chain file. Functions of `ops` take some of them as other arguments.
    let others = match operator {
        _ if operator.starts_with("conv") => "name=conv out_channels=1 kernel_size=1",
        "add" => "input=residual",
        _ if tensors.len() > 1 || operator.ends_with("norm") => "name=parameters",
        _ => "",
    };
    let layer = oracle::layer_of(operator, &format!("{others} {}", attributes.join(" ")))?;
    let refused = lab::layer(&tensors[0], &layer, &tensors[1..], &Default::default());
    let is_of_types = matches!(refused, Err(Error::DTypeMismatch { .. }));
    assert_eq!(is_of_types, words.contains("must be f32"), "{row}");
    says(refused, &format!("{operator}: {words}"))
}
