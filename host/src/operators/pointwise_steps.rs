//! Simplification of the steps of pointwise lists. Clamps and operations with constants are merged into as
//! few as possible: `x * 2`, clamped, times a half, becomes one clamp.
//!
//! An `fma` with constants is monotonic, also when rounded. It can therefore be moved before a preceding
//! clamp if the clamp's bounds go through it, and no bit changes. Two operations with constants become one,
//! which is rounded once.

use launch_config::pointwise::{Function, Step};

/// Adds a step to a list. Steps from index `from` on may change; no other operands come between them.
pub(crate) fn push(steps: &mut Vec<Step>, from: usize, step: Step) {
    steps.push(step);
    loop {
        let joined = match &steps[from..] {
            [.., a, b] if joined(*a, *b).is_some() => joined(*a, *b).map(|one| (2, vec![one])),
            [.., a, b, c] => match (exchanged(*a, *b), exchanged(*b, *c)) {
                (Some([b, a]), _) if c.function == Function::Clamp => {
                    joined(a, *c).map(|clamp| (3, vec![b, clamp]))
                }
                (_, Some([c, b])) if a.function == Function::Affine => {
                    joined(*a, c).map(|affine| (3, vec![affine, b]))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((taken, by)) = joined else { break };
        steps.truncate(steps.len() - taken);
        steps.extend(by);
        let mut last = steps.split_off(from);
        // One step stays, so that operands before and after it remain separate.
        if last.len() > 1 {
            last.retain(|step| !is_nothing(step));
        }
        steps.extend(last);
    }
}

/// The bounds of a clamp.
fn bounds(step: Step) -> Option<[f32; 2]> {
    let [min, max, _] = step.attributes;
    (step.function == Function::Clamp).then_some([min, max])
}

/// Factor and summand of an operation with constants, if both are finite and the factor is a normal number.
fn affine(step: Step) -> Option<[f32; 2]> {
    let [factor, summand, _] = step.attributes;
    let is_affine = step.function == Function::Affine;
    (is_affine && factor.is_normal() && summand.is_finite()).then_some([factor, summand])
}

/// Whether the step is `x * 1 + -0`, which returns the bits of `x`.
fn is_nothing(step: &Step) -> bool {
    step.function == Function::Affine
        && step.attributes[..2]
            .iter()
            .map(|x| x.to_bits())
            .eq([1.0, -0.0f32].map(f32::to_bits))
}

/// Joins two steps into one, if possible.
fn joined(first: Step, second: Step) -> Option<Step> {
    if let (Some([min, max]), Some(by)) = (bounds(first), bounds(second)) {
        let [min, max] = [min, max].map(|bound| clamped(bound, by));
        return Some(Step::new(Function::Clamp, [min.into(), max.into(), 0.0]));
    }
    if let (Some([min, _]), Function::LeakyRelu) = (bounds(first), second.function) {
        return (min >= 0.0).then_some(first);
    }
    let ([factor, summand], [by, and]) = (affine(first)?, affine(second)?);
    let factor = f64::from(factor) * f64::from(by);
    let summand = f64::from(summand) * f64::from(by) + f64::from(and);
    let step = Step::new(Function::Affine, [factor, summand, 0.0]);
    affine(step).map(|_| step)
}

/// Exchanges a clamp and a following operation with constants.
fn exchanged(first: Step, second: Step) -> Option<[Step; 2]> {
    let ([min, max], [factor, summand]) = (bounds(first)?, affine(second)?);
    let [a, b] = [min, max].map(|bound| bound.mul_add(factor, summand));
    let [min, max] = if factor > 0.0 { [a, b] } else { [b, a] };
    // A clamp with crossed bounds returns the upper bound. This need not hold for the reversed bounds.
    (min <= max).then(|| {
        let clamp = Step::new(Function::Clamp, [min.into(), max.into(), 0.0]);
        [second, clamp]
    })
}

/// Clamps as the kernels do.
fn clamped(x: f32, [min, max]: [f32; 2]) -> f32 {
    x.max(min).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAMP: Function = Function::Clamp;
    const AFFINE: Function = Function::Affine;

    fn shortened(steps: &[(Function, [f64; 2])]) -> Vec<Step> {
        let mut short = Vec::new();
        for (function, [a, b]) in steps {
            push(&mut short, 0, Step::new(*function, [*a, *b, 0.0]));
        }
        short
    }

    /// Applies the steps to a value.
    fn value(steps: &[Step], x: f32) -> f32 {
        steps.iter().fold(x, |x, step| match step.function {
            _ if x.is_nan() => x,
            CLAMP => clamped(x, [step.attributes[0], step.attributes[1]]),
            AFFINE => x.mul_add(step.attributes[0], step.attributes[1]),
            Function::LeakyRelu if x <= 0.0 => x * step.attributes[0],
            _ => x,
        })
    }

    #[test]
    fn clamps_and_constants_become_few_and_change_no_bit_where_nothing_is_rounded() {
        let infinite = f64::INFINITY;
        for (steps, left) in [
            (&[(CLAMP, [0.0, 1.0]), (CLAMP, [-1.0, 0.5])][..], 1),
            (&[(CLAMP, [2.0, 1.0]), (CLAMP, [-1.0, 0.5])], 1),
            (&[(CLAMP, [0.0, 1.0]), (AFFINE, [2.0, -0.0])], 2),
            (
                &[
                    (CLAMP, [0.0, 1.0]),
                    (AFFINE, [2.0, -0.0]),
                    (CLAMP, [0.0, 1.0]),
                ],
                2,
            ),
            (
                &[
                    (CLAMP, [0.0, 1.0]),
                    (AFFINE, [2.0, -0.0]),
                    (CLAMP, [0.0, 1.0]),
                    (AFFINE, [0.5, -0.0]),
                ],
                1,
            ),
            (
                &[
                    (AFFINE, [-4.0, 1.0]),
                    (CLAMP, [0.0, infinite]),
                    (AFFINE, [-0.25, 2.0]),
                ],
                2,
            ),
            (&[(AFFINE, [2.0, -0.0]), (AFFINE, [0.5, -0.0])], 1),
            (
                &[(CLAMP, [0.0, infinite]), (Function::LeakyRelu, [0.25, 0.0])],
                1,
            ),
            (
                &[
                    (CLAMP, [-1.0, infinite]),
                    (Function::LeakyRelu, [0.25, 0.0]),
                ],
                2,
            ),
            (
                &[
                    (CLAMP, [3.0, 1.0]),
                    (AFFINE, [-2.0, 1.0]),
                    (CLAMP, [0.0, 1.0]),
                ],
                3,
            ),
            (&[(AFFINE, [0.0, 1.0]), (AFFINE, [2.0, 1.0])], 2),
            (&[(AFFINE, [1e30, 0.0]), (AFFINE, [1e30, 0.0])], 2),
        ] {
            let all: Vec<_> = (steps.iter())
                .map(|(function, [a, b])| Step::new(*function, [*a, *b, 0.0]))
                .collect();
            let short = shortened(steps);
            assert_eq!(short.len(), left, "{steps:?}: {short:?}");
            let numbers = (-40..=40).map(|eighths| eighths as f32 / 8.0);
            for x in numbers.chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30]) {
                let (a, b) = (value(&all, x), value(&short, x));
                assert!(
                    a == b || a.is_nan() && b.is_nan(),
                    "{steps:?} of {x}: {a} and {b}"
                );
            }
        }
    }

    #[test]
    fn steps_in_front_of_an_operand_stay() {
        let mut steps = vec![Step::new(AFFINE, [2.0, -0.0, 0.0])];
        push(&mut steps, 1, Step::new(AFFINE, [0.5, -0.0, 0.0]));
        push(&mut steps, 1, Step::new(AFFINE, [2.0, -0.0, 0.0]));
        assert_eq!(steps.len(), 2);
        assert!(is_nothing(&steps[1]));
    }
}
