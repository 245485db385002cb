//! Lists of functions after a producer or another kernel, with the layers of their operands.

use launch_config::implicit_gemm::Epilogue as StoreEpilogue;
use launch_config::pointwise::{Function, MAX_STEPS, OperandList, PointwiseList, Step};
use op_spec::graph::{ChannelAffine, Pointwise};
use op_spec::{ArithmeticOp, ArithmeticProblem};

use crate::operators::pointwise_steps::push;

/// A list with the layers of its operands.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Behind {
    /// The layers whose parameters form the list's gain and shift.
    pub(in crate::lowering) affine: Vec<(usize, ChannelAffine)>,
    /// The layer that adds a residual.
    pub(in crate::lowering) residual: Option<usize>,
    pub(in crate::lowering) list: OperandList,
}

impl Behind {
    /// Returns these functions as a list, if a list can hold them.
    pub(in crate::lowering) fn of(functions: &[Numbered<Pointwise>]) -> Option<Behind> {
        Some(Self::of_steps(functions, false)?.1)
    }

    /// Returns the functions as a list. If `has_epilogue`, the first step is returned separately if a store
    /// epilogue supports it.
    pub(in crate::lowering) fn of_steps(
        functions: &[Numbered<Pointwise>],
        has_epilogue: bool,
    ) -> Option<(Option<StoreEpilogue>, Behind)> {
        let (mut rest, mut functions, mut list) = (functions, Vec::new(), OperandList::EMPTY);
        let (mut residual, mut affine) = (None, Vec::new());
        // Steps before an operand are not merged with steps after it.
        let mut from = 0;
        while let steps @ [(layer, step), behind @ ..] = rest {
            let at = functions.len() as u32;
            rest = behind;
            match step {
                Pointwise::Function(of) => push(&mut functions, from, Step::of(&of.function)),
                Pointwise::Keep => functions.push(Step::plain(Function::Keep)),
                Pointwise::Kept(of) => functions.push(Step::plain(Function::of_kept(of.operation))),
                // If both operands are at one position, the residual comes first.
                Pointwise::Residual(problem) if !list.has_residual() && list.affine_at != at => {
                    (residual, list.residual_at) = (Some(*layer), at);
                    list.residual_operation = problem.operation;
                    from = functions.len();
                }
                Pointwise::Affine(_) | Pointwise::Scale(_) if !list.is_affine() => {
                    list.affine_at = at;
                    (affine, rest) = leading_affine(steps);
                    from = functions.len();
                }
                _ => return None,
            }
        }
        let is_first = has_epilogue && list.residual_at > 0 && list.affine_at > 0;
        let first = functions.first().filter(|_| is_first);
        let first = first.and_then(|step| StoreEpilogue::of(*step));
        if first.is_some() {
            functions.remove(0);
            for at in [&mut list.residual_at, &mut list.affine_at] {
                *at = at
                    .checked_sub(1)
                    .filter(|_| *at != OperandList::ABSENT)
                    .unwrap_or(*at);
            }
        }
        let fits = functions.len() <= MAX_STEPS;
        list.functions = PointwiseList::take(&mut functions.into_iter());
        let behind = Behind {
            affine,
            residual,
            list,
        };
        fits.then_some((first, behind))
    }
}

/// A layer's operation, with the layer's number.
pub(in crate::lowering) type Numbered<T> = (usize, T);

/// Splits off the leading layers that together are one gain and shift for each channel. The first may be a
/// batch norm; operations with one value, or one for each channel, follow.
pub(in crate::lowering) fn leading_affine(
    list: &[Numbered<Pointwise>],
) -> (Vec<Numbered<ChannelAffine>>, &[Numbered<Pointwise>]) {
    let affine = list.iter().enumerate();
    let affine = affine.map_while(|(at, (layer, of))| match of {
        Pointwise::Affine(ChannelAffine::BatchNorm(_)) if at > 0 => None,
        Pointwise::Affine(affine) => Some((*layer, *affine)),
        Pointwise::Scale(problem) => {
            let product = ArithmeticProblem::of_channels(ArithmeticOp::Mul, problem.shape);
            Some((*layer, ChannelAffine::Arithmetic(product)))
        }
        _ => None,
    });
    let affine: Vec<_> = affine.collect();
    let rest = &list[affine.len()..];
    (affine, rest)
}
