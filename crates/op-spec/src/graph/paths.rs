//! Paths of a graph: lists of layers whose inner values no layer outside of the path takes.

use alloc::vec;
use alloc::vec::Vec;

use super::{Layer, Operand};

/// Computes the longest paths, each behind the paths whose last values it takes. If a layer's operands may be
/// swapped, this function puts the operand along the path first.
///
/// Dependencies between paths have no cycles: other paths take only the last value of a path, and that value
/// depends on all operands of the path.
pub(super) fn paths(
    layers: &[Layer],
    operands: &mut [Vec<Operand>],
    outputs: &[usize],
) -> Vec<Vec<usize>> {
    let leads_on = kept(layers, operands, outputs);
    let mut paths: Vec<Vec<usize>> = Vec::new();
    for (index, operands) in operands.iter_mut().enumerate() {
        let ending = |operand: &Operand| {
            let Operand::Layer(layer) = *operand else {
                return None;
            };
            let is_last = |path: &Vec<usize>| path.last() == Some(&layer);
            paths.iter().position(is_last).filter(|_| leads_on[layer])
        };
        if layers[index].kind().commutes()
            && ending(&operands[0]).is_none()
            && let Some(other) = operands.iter().position(|other| ending(other).is_some())
        {
            operands.swap(0, other);
        }
        match ending(&operands[0]) {
            Some(path) => paths[path].push(index),
            None => paths.push(vec![index]),
        }
    }
    paths.sort_by_key(|path| path.last().copied());
    paths
}

/// Returns, for each layer, whether a path continues behind it. A path continues if a single layer takes the
/// output, once, or if all layers that take it lie on one path of arithmetic and functions. Such stretches
/// share no layers, and one value is therefore kept at a time; this function puts the operand along the path
/// first in them. No path continues behind an output of the graph.
fn kept(layers: &[Layer], operands: &mut [Vec<Operand>], outputs: &[usize]) -> Vec<bool> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); layers.len()];
    for (index, operands) in operands.iter().enumerate() {
        for operand in operands {
            if let Operand::Layer(layer) = *operand {
                readers[layer].push(index);
            }
        }
    }
    let mut leads_on: Vec<bool> = readers.iter().map(|readers| readers.len() == 1).collect();
    let mut is_between = vec![false; layers.len()];
    let mut is_output = vec![false; layers.len()];
    for &output in outputs {
        (leads_on[output], is_output[output]) = (false, true);
    }
    for layer in (0..layers.len()).filter(|&layer| !is_output[layer]) {
        let Some(&last) = readers[layer].get(1..).and_then(<[usize]>::last) else {
            continue;
        };
        let (mut steps, mut before) = (Vec::new(), layer);
        let is_kept = loop {
            let next = match &readers[before][..] {
                _ if is_output[before] => break false,
                [next] => *next,
                [next, ..] if before == layer => *next,
                _ => break false,
            };
            let of = layers[next].kind();
            let is_first = operands[next][0] == Operand::Layer(before);
            if !of.is_pointwise() || is_between[next] || !(is_first || of.commutes()) {
                break false;
            }
            steps.push((next, before));
            if next >= last {
                // The walk from `layer` has to pass every other layer that takes its output.
                let mut others = readers[layer].iter();
                break others.all(|reader| steps.iter().any(|(step, _)| step == reader));
            }
            before = next;
        };
        if !is_kept {
            continue;
        }
        leads_on[layer] = true;
        for (step, before) in steps {
            is_between[step] = true;
            let operands = &mut operands[step];
            let mut all = operands.iter();
            if let Some(at) = all.position(|operand| *operand == Operand::Layer(before)) {
                operands.swap(0, at);
            }
        }
    }
    leads_on
}
