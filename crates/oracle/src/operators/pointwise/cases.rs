//! The cases of the pointwise functions.

use op_spec::graph::Layer;
use op_spec::{ClampSpec, PointwiseSpec};

use crate::cases::{cases, rows};
use crate::{Case, Cases};

/// Cases for every function.
const ANY: &str = "
    one_value 1x1
    empty 0x3
    primes 3x1031
    far_below_0 1x1031 shifted=-4
    at_bounds 1x5700 at_bounds
    nan_and_infinities 2x3x211 special";

const PLAIN: &str = "plain 2x3x50";

/// The cases of all functions.
pub(crate) const CASES: &[Cases] = &[
    cases!("clamp", "",
        smoke: "plain 2x3x50 min=-0.25 max=0.5",
        ragged: "
            one_value 1x1 min=0.1 max=0.2
            empty 0x3 min=0.1 max=0.2
            lower_bound_only 3x1031 min=0.1
            upper_bound_only 1x1031 max=0.1
            min_above_max 3x101 min=0.5 max=-0.5
            at_bounds 1x5700 min=-20 max=0.0625 at_bounds
            nan_and_infinities 2x3x211 min=-0.5 max=0.25 special
            nan_and_infinities_min_above_max 1x211 min=0.5 max=-0.25 special",
        realistic: "relu6 2x32x56x56 min=0 max=6",
        more: vec![nan_bound("nan_bound", Some(0.5)), nan_bound("nan_bound_alone", None)]),
    cases!("relu", "", smoke: PLAIN, ragged: ANY, realistic: "resnet 2x32x56x56"),
    cases!("leaky_relu", "negative_slope=0.01", smoke: PLAIN, ragged: ANY,
        realistic: "yolo 2x32x56x56 negative_slope=0.1",
        more: rows("leaky_relu", "", "
            slope_of_0 1x211 negative_slope=0 special
            negative_slope 1x211 negative_slope=-0.5 special
            slope_above_1 1x211 negative_slope=3 special")),
    cases!("silu", "", smoke: PLAIN, ragged: ANY, realistic: "decoder 2x32x56x56"),
    cases!("gelu", "", smoke: PLAIN, ragged: ANY, realistic: "convnext 2x32x56x56",
        more: rows("gelu", "approximate=tanh", "
            tanh/one_value 1x1
            tanh/empty 0x3
            tanh/primes 3x1031
            tanh/far_below_0 1x1031 shifted=-4
            tanh/at_bounds 1x5700 at_bounds
            tanh/nan_and_infinities 2x3x211 special")),
    cases!("sigmoid", "", smoke: PLAIN, ragged: ANY, realistic: "gate 2x32x56x56"),
    cases!("tanh", "", smoke: PLAIN, ragged: ANY, realistic: "generator 2x32x56x56"),
    cases!("hardswish", "", smoke: PLAIN, ragged: ANY, realistic: "mobilenet_v3 2x32x56x56"),
    cases!("elu", "", smoke: PLAIN, ragged: ANY, realistic: "autoencoder 2x32x56x56",
        more: rows("elu", "", "
            alpha_of_0 1x211 alpha=0 special
            negative_alpha 1x211 alpha=-0.5 special
            alpha_above_1 1x211 alpha=1.7 special")),
    cases!("softplus", "", smoke: PLAIN, ragged: ANY, realistic: "plain_large 2x32x56x56",
        more: rows("softplus", "", "
            beta_of_0 1x211 beta=0 special
            negative_beta 1x211 beta=-0.7 special
            large_beta 1x211 beta=30 special
            low_threshold 1x211 beta=1.3 threshold=0.25 special
            negative_threshold 1x211 threshold=-1 special
            high_threshold 1x211 beta=500 threshold=300 special")),
    cases!("mish", "", smoke: PLAIN, ragged: ANY, realistic: "yolo_v4 2x32x56x56"),
    cases!("hardtanh", "", smoke: "plain 2x3x50 min_val=-0.25 max_val=0.5", ragged: ANY,
        realistic: "relu6 2x32x56x56 min_val=0 max_val=6",
        more: rows("hardtanh", "", "
            equal_bounds 1x211 min_val=0.25 max_val=0.25 special")),
    cases!("hardsigmoid", "", smoke: PLAIN, ragged: ANY, realistic: "squeeze 2x32x56x56",
        more: rows("hardsigmoid", "", "
            from_below_to_above 1x1031 scaled=5")),
    cases!("minimum", "value=0.3", smoke: PLAIN, ragged: ANY, realistic: "bound 2x32x56x56",
        more: vec![nan_value(Layer::minimum(f64::NAN))]),
    cases!("maximum", "value=-0.3", smoke: PLAIN, ragged: ANY, realistic: "bound 2x32x56x56",
        more: vec![nan_value(Layer::maximum(f64::NAN))]),
];

/// A clamp with a NaN upper bound, or with a NaN lower bound next to an upper one.
fn nan_bound(name: &str, max: Option<f64>) -> Case {
    let (min, max) = max.map_or((None, Some(f64::NAN)), |max| (Some(f64::NAN), Some(max)));
    let layer = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(min, max)));
    Case::of_layer(&format!("clamp/{name}"), layer, &[1, 101]).expect("a chain")
}

/// An operation with a NaN value.
fn nan_value(layer: Layer) -> Case {
    let name = format!("{}/nan_value", layer.operator());
    Case::of_layer(&name, layer, &[1, 101]).expect("a chain")
}
