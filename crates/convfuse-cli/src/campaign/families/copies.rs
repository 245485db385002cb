//! Layers that copy values: reshapes, slices, padding and shuffles; and gates.

use convfuse::graph::{GateLayer, Layer};
use convfuse::spec::PaddingMode;

use super::super::choices::Choices;
use super::{Plan, any, one, shape};

pub(super) fn flatten(c: &mut Choices) -> Plan {
    let channels = c.size(1, 20);
    one(Layer::flatten(), any(c, channels))
}

/// A reshape to one to four axes in any order, one of which may be inferred.
pub(super) fn reshape(c: &mut Choices) -> Plan {
    let axes = c.within(1, 4);
    let mut shape: Vec<isize> = (0..axes).map(|_| c.size(1, 9) as isize).collect();
    let features: isize = shape.iter().product();
    if c.once_in(2) {
        shape[c.within(0, axes - 1)] = -1;
    }
    let of_channel = c.within(1, 9);
    let channels = features as usize * c.size(1, 3);
    match shape.contains(&-1) {
        true => one(
            Layer::reshape(&shape),
            vec![c.within(0, 5), channels, of_channel],
        ),
        false => one(
            Layer::reshape(&shape),
            vec![c.within(0, 5), features as usize],
        ),
    }
}

/// Padding of one to three axes, within the limits of its mode.
pub(super) fn pad(c: &mut Choices) -> Plan {
    let (dimensions, channels) = (c.within(1, 3), c.within(1, 40));
    let input = shape(c, channels, dimensions, 1, [400, 20, 8][dimensions - 1]);
    let mode = [
        PaddingMode::Zeros,
        PaddingMode::Reflect,
        PaddingMode::Replicate,
        PaddingMode::Circular,
    ][c.within(0, 3)];
    let mut width = |number: usize| {
        let extent = input[1 + dimensions - number / 2];
        let most = match mode {
            PaddingMode::Reflect => extent - 1,
            _ => extent,
        };
        c.within(0, most.min(9))
    };
    let layer = match dimensions {
        1 => Layer::pad([0, 1].map(&mut width)),
        2 => Layer::pad([0, 1, 2, 3].map(&mut width)),
        _ => Layer::pad([0, 1, 2, 3, 4, 5].map(&mut width)),
    };
    one(Layer::from(layer.padding_mode(mode)), input)
}

/// A concatenation of the input and further inputs of its shape along any axis except the batch.
pub(super) fn cat(c: &mut Choices) -> Plan {
    let channels = c.size(1, 20);
    let input = any(c, channels);
    let others = c.within(1, 4);
    let names: Vec<&str> = (0..others)
        .map(|_| ["a", "b", "c"][c.within(0, 2)])
        .collect();
    one(Layer::cat(names, c.within(1, input.len() - 1)), input)
}

pub(super) fn narrow(c: &mut Choices) -> Plan {
    let channels = c.size(1, 40);
    let input = any(c, channels);
    let dim = c.within(1, input.len() - 1);
    let start = c.within(0, input[dim] - 1);
    let length = c.within(1, input[dim] - start);
    one(Layer::narrow(dim, start, length), input)
}

pub(super) fn gate(c: &mut Choices) -> Plan {
    let channels = c.size(1, 40);
    let gate = GateLayer::new("gate");
    let gate = if c.once_in(2) { gate.dim(1) } else { gate };
    one(Layer::from(gate), any(c, channels))
}

pub(super) fn channel_shuffle(c: &mut Choices) -> Plan {
    let (groups, of_group, dimensions) = (c.size(1, 9), c.size(1, 12), c.within(1, 3));
    let most = [3000, 60, 14][dimensions - 1];
    let input = shape(c, groups * of_group, dimensions, 1, most);
    one(Layer::channel_shuffle(groups), input)
}

pub(super) fn pixel_shuffle(c: &mut Choices) -> Plan {
    let (factor, channels) = (c.within(1, 4), c.within(1, 9));
    let input = shape(c, channels * factor * factor, 2, 1, 20);
    one(Layer::pixel_shuffle(factor), input)
}

pub(super) fn pixel_unshuffle(c: &mut Choices) -> Plan {
    let (factor, channels) = (c.within(1, 4), c.within(1, 9));
    let mut input = shape(c, channels, 2, 1, 20);
    input[2..].iter_mut().for_each(|extent| *extent *= factor);
    one(Layer::pixel_unshuffle(factor), input)
}
