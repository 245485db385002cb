//! How much work a case is, so that the emulator is given what it can do in seconds.

use convfuse::verify::Operation;

/// Multiplications (or elements read, for operators without any) that an emulated case may have.
///
/// The emulator checks every access of every thread: about a million of these take it a second in a release build and
/// several in a development build.
pub(crate) const EMULATED: u64 = if cfg!(debug_assertions) {
    600_000
} else {
    6_000_000
};

/// The work of an operation.
pub(crate) fn of(operation: &Operation) -> u64 {
    let conv = |output: usize, weight: usize, channels: usize| {
        (output * (weight / channels.max(1))) as u64
    };
    match operation {
        Operation::Conv2d {
            x, weight, spec, ..
        } => spec
            .problem(x.shape(), weight.shape(), None)
            .map_or(0, |problem| {
                conv(
                    problem.output_shape().elements(),
                    weight.len(),
                    weight.shape()[0],
                )
            }),
        Operation::Conv3d {
            x, weight, spec, ..
        } => spec
            .problem(x.shape(), weight.shape(), None)
            .map_or(0, |problem| {
                conv(
                    problem.output_shape().elements(),
                    weight.len(),
                    weight.shape()[0],
                )
            }),
        Operation::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec } => {
            let weight = &weights.conv_weight;
            let convolve = |elements| conv(elements, weight.len(), weight.shape()[0]);
            spec.problem(x.shape())
                .map_or(0, |problem| convolve(problem.conv_shape().elements()))
        }
        Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec } => {
            let weight = &weights.conv_weight;
            let convolve = |elements| conv(elements, weight.len(), weight.shape()[0]);
            spec.problem(x.shape())
                .map_or(0, |problem| convolve(problem.conv_shape().elements()))
        }
        Operation::GroupNorm { x, .. }
        | Operation::InstanceNorm { x, .. }
        | Operation::Scale { x, .. }
        | Operation::Clamp { x, .. }
        | Operation::ChannelMax { x } => x.len() as u64,
        Operation::MaxPool2d { x, spec } => {
            let window: usize = spec.kernel_size.iter().product();
            let outputs = spec
                .problem(x.shape())
                .map_or(0, |problem| problem.output_shape().elements());
            (outputs * window) as u64
        }
        _ => panic!("no cost is known of {}: add it here", operation.name()),
    }
}
