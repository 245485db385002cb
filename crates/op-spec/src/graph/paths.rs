//! Paths of a graph: layers along which no value is taken by others.

use alloc::vec;
use alloc::vec::Vec;

use super::{Layer, Operand};

/// The longest paths, such that each comes after those whose last layers it takes. Operands of layers to
/// which their order does not matter are put such that a path leads through the first one.
///
/// Paths depend on each other in one direction alone: of a path others take nothing but the last value, and
/// it comes after everything that the path takes.
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

/// Whether a path leads on through each layer: a layer takes its output, once, or all that take it lie on one
/// path of arithmetic and functions. Such paths share no layers, so that one value is kept at a time; their
/// operands are put such that the path leads through the first one. No path leads on through an output of the
/// graph.
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
                // Each of the others was met on the way.
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
