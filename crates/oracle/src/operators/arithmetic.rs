//! `y = op(x, other)`, where `other` has the shape of `x`, one value for each channel, or a single value.
//! Arithmetic with a constant is a [pointwise function](super::pointwise).
//!
//! *Condition*: `abs(y)`. *Passes on* `t` unchanged, multiplied by the magnitude of a factor, or divided by
//! that of a divisor. If a residual has the error `u`: sums and differences pass on `t + u`, products
//! `t * abs(other) + u * abs(x) + t * u`, quotients the largest error of both together.

use ndarray::{ArrayD, Axis, Zip};
use op_spec::{ArithmeticOp, ArithmeticOperand, ArithmeticProblem};

use super::operator::{Given, Operator, chained};
use crate::cases::{cases, row, rows};
use crate::golden_file::Reader;
use crate::{Case, Cases, Precision};

impl Operator for ArithmeticProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        map(self, x, parameters[0], |x, other| {
            self.operation.of(x, other)
        })
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { y, parameters, .. } = of;
        let passed_on = map(self, &t, parameters[0], |t, other| match self.operation {
            ArithmeticOp::Mul if t > 0.0 => t * other.abs(),
            ArithmeticOp::Div if t > 0.0 => t / other.abs(),
            _ => t,
        });
        rounded(y, passed_on, precision)
    }

    fn cost(&self) -> u64 {
        self.len() as u64
    }
}

/// Adds the operation's own rounding to the tolerance.
fn rounded(y: &ArrayD<f64>, passed_on: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
    let magnitudes = y.mapv(f64::abs) + &passed_on;
    magnitudes * (chained(0) * precision.arithmetic) + passed_on
}

/// The tolerance for an input with error `t` and a residual, the only parameter, with error `u`.
pub(crate) fn tolerance_of_both(
    operation: ArithmeticOp,
    of: &Given<'_>,
    [t, u]: [&ArrayD<f64>; 2],
    precision: &Precision,
) -> ArrayD<f64> {
    // An exact operand may be infinite.
    let times = |t: f64, magnitude: f64| if t > 0.0 { t * magnitude } else { 0.0 };
    let values = Zip::from(of.x).and(of.parameters[0]).and(t).and(u);
    let passed_on = values.map_collect(|x, other, &t, &u| match operation {
        ArithmeticOp::Mul => times(t, other.abs()) + times(u, x.abs()) + t * u,
        ArithmeticOp::Div if u == 0.0 => times(t, other.abs().recip()),
        ArithmeticOp::Div if u < other.abs() => {
            (t + times(u, (x / other).abs())) / (other.abs() - u)
        }
        ArithmeticOp::Div => f64::INFINITY,
        _ => t + u,
    });
    rounded(of.y, passed_on, precision)
}

/// Combines each value with the corresponding value of the other operand.
fn map(
    problem: &ArithmeticProblem,
    x: &ArrayD<f64>,
    other: &ArrayD<f64>,
    f: impl Fn(f64, f64) -> f64,
) -> ArrayD<f64> {
    let mut y = x.to_owned();
    match problem.operand {
        ArithmeticOperand::Channels { values: 1, .. } => {
            let other = other.first().expect("one value");
            y.mapv_inplace(|v| f(v, *other));
        }
        ArithmeticOperand::Channels { .. } => {
            for (mut channel, &other) in y.axis_iter_mut(Axis(1)).zip(other) {
                channel.mapv_inplace(|v| f(v, other));
            }
        }
        _ => y.zip_mut_with(other, |v, &other| *v = f(*v, other)),
    }
    y
}

const ADD: Cases = Cases {
    read: |file| file.case("add", of_other(file)),
    ..OF_RESIDUALS
};

const OF_RESIDUALS: Cases = cases!(
    "add", "input=residual",
    smoke: "plain 2x3x5x7",
    ragged: "
        empty_batch 0x3x5
        matrix 5x13
        one_value 1x1x1x1
        primes 3x7x11x13x5
        nan_and_infinities 2x3x29x31 special",
    realistic: "
        bottleneck 2x256x56x56
        last_block 2x512x7x7",
    more: [rows("add", "name=other", PARAMETERS), rows("add", "value=0.3", "
        value/plain 2x3x50
        value/one_value 1x1
        value/empty 0x3
        value/primes 3x1031
        value/nan_and_infinities 2x3x211 special"), vec![cancelled()]].concat()
);

/// The residual cancels most of the value, so the rounding error dominates.
fn cancelled() -> Case {
    let mut case = row("add", "input=residual", "cancelled 2x5x41");
    case.inputs = vec![case.x.mapv(|v| -v * 0.999)];
    case
}

/// The attributes of an operation with the operand of a golden file.
fn of_other(file: &Reader) -> &'static str {
    match file.has("residual") {
        true => "input=residual",
        false if file.has("other") => "name=other",
        false => "",
    }
}

/// Parameters of every shape.
const PARAMETERS: &str = "
    parameter/empty_batch 0x3x5
    parameter/matrix 5x13
    parameter/one_value 1x1x1x1
    parameter/primes 3x7x11x13x5
    parameter/of_all_channels 2x5x3x7 shape=[1]
    parameter/scalar 2x5x37 shape=[]
    parameter/with_an_axis_for_the_batch 2x5x3x7 shape=[1,5,1,1]
    parameter/nan_and_infinities 2x3x29x31 special";

/// Defines the cases of an operation that also supports constants and parameters.
macro_rules! operation {
    ($name:literal) => {
        Cases {
            read: |file| file.case($name, of_other(file)),
            ..cases!(
                $name, "name=other",
                smoke: "plain 2x3x5x7",
                ragged: PARAMETERS,
                realistic: "bottleneck 2x96x28x28",
                more: [rows($name, "value=0.3", "
                    value/plain 2x3x50
                    value/one_value 1x1
                    value/empty 0x3
                    value/primes 3x1031
                    value/nan_and_infinities 2x3x211 special"), rows($name, "input=residual", "
                    residual/empty_batch 0x3x5
                    residual/matrix 5x13
                    residual/one_value 1x1x1x1
                    residual/primes 3x7x11x13x5
                    residual/nan_and_infinities 2x3x29x31 special"), rows($name, "", "
                    value_of_0/special 1x211 value=0 special
                    negative_value/special 1x211 value=-1.5 special")].concat()
            )
        }
    };
}

/// The cases of all operations.
pub(super) const CASES: &[Cases] = &[ADD, operation!("sub"), operation!("mul"), operation!("div")];
