//! Paths of a graph: layers along which no value is taken by others.

use alloc::vec;
use alloc::vec::Vec;

use super::{Layer, Operand};

/// The longest paths, such that each comes after those whose last layers it takes. Operands of layers to
/// which their order does not matter are put such that a path leads through the first one.
///
/// Paths depend on each other in one direction alone: of a path others take nothing but the last value, and
/// it comes after everything that the path takes.
pub(super) fn paths(layers: &[Layer], operands: &mut [Vec<Operand>]) -> Vec<Vec<usize>> {
    let mut uses = vec![0; layers.len()];
    for operand in operands.iter().flatten() {
        if let Operand::Layer(layer) = operand {
            uses[*layer] += 1;
        }
    }
    let leads_on =
        |operand: &Operand| matches!(operand, Operand::Layer(layer) if uses[*layer] == 1);
    let mut paths: Vec<Vec<usize>> = Vec::new();
    // Where each layer is.
    let mut path_of: Vec<usize> = Vec::with_capacity(layers.len());
    for (index, operands) in operands.iter_mut().enumerate() {
        if layers[index].kind().commutes()
            && !leads_on(&operands[0])
            && let Some(other) = operands.iter().position(leads_on)
        {
            operands.swap(0, other);
        }
        match operands[0] {
            // Nothing else takes it, so it is the last of its path.
            Operand::Layer(last) if leads_on(&operands[0]) => {
                path_of.push(path_of[last]);
                paths[path_of[last]].push(index);
            }
            _ => {
                path_of.push(paths.len());
                paths.push(vec![index]);
            }
        }
    }
    paths.sort_by_key(|path| path.last().copied());
    paths
}
