//! The cases of the pointwise functions.

use op_spec::graph::Layer;
use op_spec::{ClampSpec, GeluApproximation, PointwiseSpec};
use serde::Deserialize;

use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases};

/// The cases of all functions.
pub(crate) const CASES: &[Cases] = &[
    CLAMP, RELU, LEAKY_RELU, SILU, GELU, SIGMOID, TANH, HARDSWISH, ELU, SOFTPLUS, MISH,
];

const CLAMP: Cases = Cases {
    kind: "clamp",
    smoke: || vec![clamp("plain", &[2, 3, 50], Some(-0.25), Some(0.5))],
    ragged: ragged_clamps,
    realistic: || vec![clamp("relu6", &[2, 32, 56, 56], Some(0.0), Some(6.0))],
    golden: "clamp",
    read: |file| {
        let layer = Layer::Pointwise(PointwiseSpec::Clamp(clamp_of(file)?));
        file.case("clamp", [layer], &[])
    },
};

const RELU: Cases = Cases {
    kind: "relu",
    smoke: || vec![case("relu/plain", RELU_SPEC, &[2, 3, 50])],
    ragged: || ragged("relu", RELU_SPEC),
    realistic: || vec![case("relu/resnet", RELU_SPEC, &[2, 32, 56, 56])],
    golden: "relu",
    read: |file| file.case("relu", [Layer::relu()], &[]),
};

pub(super) const RELU_SPEC: PointwiseSpec = PointwiseSpec::Relu {};

const LEAKY_RELU: Cases = Cases {
    kind: "leaky_relu",
    smoke: || vec![case("leaky_relu/plain", leaky_relu(0.01), &[2, 3, 50])],
    ragged: ragged_leaky_relus,
    realistic: || vec![case("leaky_relu/yolo", leaky_relu(0.1), &[2, 32, 56, 56])],
    golden: "leaky_relu",
    read: |file| {
        let LeakyReluAttributes { negative_slope } = file.attributes()?;
        file.case("leaky_relu", [Layer::leaky_relu(negative_slope)], &[])
    },
};

pub(super) const fn leaky_relu(negative_slope: f64) -> PointwiseSpec {
    PointwiseSpec::LeakyRelu { negative_slope }
}

fn ragged_leaky_relus() -> Vec<Case> {
    let mut cases = ragged("leaky_relu", leaky_relu(0.01));
    let slopes = [
        ("slope_of_0", 0.0),
        ("negative_slope", -0.5),
        ("slope_above_1", 3.0),
    ];
    cases.extend(slopes.map(|(name, slope)| {
        case(&format!("leaky_relu/{name}"), leaky_relu(slope), &[1, 211]).special()
    }));
    cases
}

#[derive(Deserialize)]
struct LeakyReluAttributes {
    negative_slope: f64,
}

const SILU: Cases = Cases {
    kind: "silu",
    smoke: || vec![case("silu/plain", SILU_SPEC, &[2, 3, 50])],
    ragged: || ragged("silu", SILU_SPEC),
    realistic: || vec![case("silu/decoder", SILU_SPEC, &[2, 32, 56, 56])],
    golden: "silu",
    read: |file| file.case("silu", [Layer::silu()], &[]),
};

const SILU_SPEC: PointwiseSpec = PointwiseSpec::Silu {};

const SIGMOID: Cases = Cases {
    kind: "sigmoid",
    smoke: || vec![case("sigmoid/plain", SIGMOID_SPEC, &[2, 3, 50])],
    ragged: || ragged("sigmoid", SIGMOID_SPEC),
    realistic: || vec![case("sigmoid/gate", SIGMOID_SPEC, &[2, 32, 56, 56])],
    golden: "sigmoid",
    read: |file| file.case("sigmoid", [Layer::sigmoid()], &[]),
};

const SIGMOID_SPEC: PointwiseSpec = PointwiseSpec::Sigmoid {};

const TANH: Cases = Cases {
    kind: "tanh",
    smoke: || vec![case("tanh/plain", TANH_SPEC, &[2, 3, 50])],
    ragged: || ragged("tanh", TANH_SPEC),
    realistic: || vec![case("tanh/generator", TANH_SPEC, &[2, 32, 56, 56])],
    golden: "tanh",
    read: |file| file.case("tanh", [Layer::tanh()], &[]),
};

const TANH_SPEC: PointwiseSpec = PointwiseSpec::Tanh {};

const HARDSWISH: Cases = Cases {
    kind: "hardswish",
    smoke: || vec![case("hardswish/plain", HARDSWISH_SPEC, &[2, 3, 50])],
    ragged: || ragged("hardswish", HARDSWISH_SPEC),
    realistic: || {
        vec![case(
            "hardswish/mobilenet_v3",
            HARDSWISH_SPEC,
            &[2, 32, 56, 56],
        )]
    },
    golden: "hardswish",
    read: |file| {
        let HardswishAttributes { sixth } = file.attributes()?;
        if let Some(sixth) = sixth {
            file.output_has_factor(6.0 * sixth);
        }
        file.case("hardswish", [Layer::hardswish()], &[])
    },
};

const HARDSWISH_SPEC: PointwiseSpec = PointwiseSpec::Hardswish {};

/// On a GPU PyTorch does not divide by 6 but multiplies by a sixth, which it rounds to f32 even if all else
/// is float64. A file from there names that number, and its output, divided by six times that, is hardswish
/// to float64's precision.
#[derive(Deserialize)]
struct HardswishAttributes {
    sixth: Option<f64>,
}

const MISH: Cases = Cases {
    kind: "mish",
    smoke: || vec![case("mish/plain", MISH_SPEC, &[2, 3, 50])],
    ragged: || ragged("mish", MISH_SPEC),
    realistic: || vec![case("mish/yolo_v4", MISH_SPEC, &[2, 32, 56, 56])],
    golden: "mish",
    read: |file| file.case("mish", [Layer::mish()], &[]),
};

const MISH_SPEC: PointwiseSpec = PointwiseSpec::Mish {};

const GELU: Cases = Cases {
    kind: "gelu",
    smoke: || {
        vec![case(
            "gelu/plain",
            gelu(GeluApproximation::None),
            &[2, 3, 50],
        )]
    },
    ragged: || {
        let of = |name, approximate| ragged(name, gelu(approximate));
        let exact = of("gelu", GeluApproximation::None);
        [exact, of("gelu/tanh", GeluApproximation::Tanh)].concat()
    },
    realistic: || {
        vec![case(
            "gelu/convnext",
            gelu(GeluApproximation::None),
            &[2, 32, 56, 56],
        )]
    },
    golden: "gelu",
    read: |file| {
        let GeluAttributes { approximate } = file.attributes()?;
        file.case("gelu", [Layer::gelu(approximate)], &[])
    },
};

const fn gelu(approximate: GeluApproximation) -> PointwiseSpec {
    PointwiseSpec::Gelu { approximate }
}

#[derive(Deserialize)]
struct GeluAttributes {
    approximate: GeluApproximation,
}

const ELU: Cases = Cases {
    kind: "elu",
    smoke: || vec![case("elu/plain", elu(1.0), &[2, 3, 50])],
    ragged: || {
        let mut cases = ragged("elu", elu(1.0));
        let alphas = [
            ("alpha_of_0", 0.0),
            ("negative_alpha", -0.5),
            ("alpha_above_1", 1.7),
        ];
        cases
            .extend(alphas.map(|(name, alpha)| {
                case(&format!("elu/{name}"), elu(alpha), &[1, 211]).special()
            }));
        cases
    },
    realistic: || vec![case("elu/autoencoder", elu(1.0), &[2, 32, 56, 56])],
    golden: "elu",
    read: |file| {
        let EluAttributes { alpha } = file.attributes()?;
        file.case("elu", [Layer::elu(alpha)], &[])
    },
};

const fn elu(alpha: f64) -> PointwiseSpec {
    PointwiseSpec::Elu { alpha }
}

#[derive(Deserialize)]
struct EluAttributes {
    alpha: f64,
}

const SOFTPLUS: Cases = Cases {
    kind: "softplus",
    smoke: || vec![case("softplus/plain", softplus(1.0, 20.0), &[2, 3, 50])],
    ragged: || {
        let mut cases = ragged("softplus", softplus(1.0, 20.0));
        let attributes = [
            ("beta_of_0", 0.0, 20.0),
            ("negative_beta", -0.7, 20.0),
            ("large_beta", 30.0, 20.0),
            ("low_threshold", 1.3, 0.25),
            ("negative_threshold", 1.0, -1.0),
            ("high_threshold", 500.0, 300.0),
        ];
        cases.extend(attributes.map(|(name, beta, threshold)| {
            case(
                &format!("softplus/{name}"),
                softplus(beta, threshold),
                &[1, 211],
            )
            .special()
        }));
        cases
    },
    realistic: || {
        vec![case(
            "softplus/plain_large",
            softplus(1.0, 20.0),
            &[2, 32, 56, 56],
        )]
    },
    golden: "softplus",
    read: |file| {
        let SoftplusAttributes { beta, threshold } = file.attributes()?;
        file.case("softplus", [Layer::softplus(beta, threshold)], &[])
    },
};

const fn softplus(beta: f64, threshold: f64) -> PointwiseSpec {
    PointwiseSpec::Softplus { beta, threshold }
}

#[derive(Deserialize)]
struct SoftplusAttributes {
    beta: f64,
    threshold: f64,
}

pub(super) fn case(name: &str, function: PointwiseSpec, x: &[usize]) -> Case {
    Case::of_layer(name, Layer::Pointwise(function), x).expect("a chain")
}

/// Shapes and values that any function may get wrong.
fn ragged(kind: &str, function: PointwiseSpec) -> Vec<Case> {
    let case = |name: &str, x: &[usize]| case(&format!("{kind}/{name}"), function, x);
    vec![
        case("one_value", &[1, 1]),
        case("empty", &[0, 3]),
        case("primes", &[3, 1031]),
        case("far_below_0", &[1, 1031]).shifted(-4.0),
        case("nan_and_infinities", &[2, 3, 211]).special(),
    ]
}

pub(super) fn clamp(name: &str, x: &[usize], min: Option<f64>, max: Option<f64>) -> Case {
    let function = PointwiseSpec::Clamp(ClampSpec { min, max });
    case(&format!("clamp/{name}"), function, x)
}

fn ragged_clamps() -> Vec<Case> {
    vec![
        clamp("one_value", &[1, 1], Some(0.1), Some(0.2)),
        clamp("empty", &[0, 3], Some(0.1), Some(0.2)),
        clamp("lower_bound_only", &[3, 1031], Some(0.1), None),
        clamp("upper_bound_only", &[1, 1031], None, Some(0.1)),
        clamp("min_above_max", &[3, 101], Some(0.5), Some(-0.5)),
        clamp("nan_bound", &[1, 101], Some(f64::NAN), Some(0.5)),
        clamp("nan_bound_alone", &[1, 101], None, Some(f64::NAN)),
        clamp("nan_and_infinities", &[2, 3, 211], Some(-0.5), Some(0.25)).special(),
        clamp(
            "nan_and_infinities_min_above_max",
            &[1, 211],
            Some(0.5),
            Some(-0.25),
        )
        .special(),
    ]
}

#[derive(Deserialize)]
struct ClampAttributes {
    clamp_min: Option<f64>,
    clamp_max: Option<f64>,
}

/// The bounds that a file of a chain with a clamp names, too.
pub(crate) fn clamp_of(file: &Reader) -> Result<ClampSpec, GoldenFlaw> {
    let attributes: ClampAttributes = file.attributes()?;
    Ok(ClampSpec {
        min: attributes.clamp_min,
        max: attributes.clamp_max,
    })
}
