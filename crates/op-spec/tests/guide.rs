//! The schema of chain files and the guide's examples, compared with the reader of chain files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use op_spec::graph::{Chain, Layer};
use op_spec::{GeluApproximation, ReductionOp, ReductionSpec, UpsampleSpec};
use serde_json::{Map, Value, json};

/// Returns the path of a file of the repository.
pub(super) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).expect(path)
}

/// Returns each layer from its constructor, which has the operator's name.
pub(super) fn constructed() -> Vec<Layer> {
    let reductions = ReductionOp::ALL.iter();
    let reductions = reductions.map(|&operation| ReductionSpec::new(operation, &[1]));
    let others = [
        Layer::from(Layer::conv1d("x", 1, 1)),
        Layer::from(Layer::conv2d("x", 1, 1)),
        Layer::from(Layer::conv3d("x", 1, 1)),
        Layer::from(Layer::conv_transpose1d("x", 1, 1)),
        Layer::from(Layer::conv_transpose2d("x", 1, 1)),
        Layer::from(Layer::conv_transpose3d("x", 1, 1)),
        Layer::from(Layer::linear("x", 1, 1)),
        Layer::flatten(),
        Layer::reshape(&[-1]),
        Layer::from(Layer::pad([1, 1])),
        Layer::cat(["x"], 1),
        Layer::narrow(1, 0, 1),
        Layer::gate("x"),
        Layer::channel_shuffle(1),
        Layer::pixel_shuffle(1),
        Layer::pixel_unshuffle(1),
        Layer::upsample(UpsampleSpec::scale_factor(2.0)),
        Layer::from(Layer::group_norm("x", 1)),
        Layer::from(Layer::instance_norm("x")),
        Layer::from(Layer::layer_norm("x", &[1])),
        Layer::from(Layer::batch_norm("x")),
        Layer::from(Layer::scale("x")),
        Layer::from(Layer::prelu("x", 1)),
        Layer::softmax(&[1]),
        Layer::log_softmax(&[1]),
        Layer::from(Layer::max_pool2d(1)),
        Layer::add("x"),
        Layer::from(Layer::max_pool3d(1)),
        Layer::from(Layer::avg_pool2d(1)),
        Layer::from(Layer::avg_pool3d(1)),
        Layer::adaptive_avg_pool2d(1),
        Layer::adaptive_avg_pool3d(1),
        Layer::clamp(0.0, 1.0),
        Layer::relu(),
        Layer::leaky_relu(0.01),
        Layer::silu(),
        Layer::gelu(GeluApproximation::None),
        Layer::sigmoid(),
        Layer::tanh(),
        Layer::hardswish(),
        Layer::elu(1.0),
        Layer::softplus(1.0, 20.0),
        Layer::mish(),
        Layer::hardtanh(-1.0, 1.0),
        Layer::hardsigmoid(),
        Layer::sub(0.5),
        Layer::mul(0.5),
        Layer::div(0.5),
        Layer::minimum(0.5),
        Layer::maximum(0.5),
    ];
    others
        .into_iter()
        .chain(reductions.map(Layer::Reduction))
        .collect()
}

pub(super) fn layer(operator: &str, attributes: &Map<String, Value>) -> Result<Layer, String> {
    let mut file = Map::new();
    file.insert(operator.to_owned(), Value::Object(attributes.clone()));
    serde_json::from_value(Value::Object(file)).map_err(|error| {
        // Errors in attributes begin with the operator.
        let message = error.to_string();
        let of_operator = message.strip_prefix(&format!("{operator}: "));
        of_operator.unwrap_or(&message).to_owned()
    })
}

/// Returns the names in backticks, without the first one.
fn names(message: &str) -> BTreeSet<String> {
    let quoted = message.split('`').skip(1).step_by(2);
    quoted.skip(1).map(str::to_owned).collect()
}

/// Returns all operators of the reader, from its error for an unknown one.
pub(super) fn operators() -> BTreeSet<String> {
    let message = layer("no_such_operator", &Map::new()).unwrap_err();
    names(&message)
}

/// Returns all attributes of an operator, from the reader's error for an unknown one.
pub(super) fn attributes(operator: &str) -> BTreeSet<String> {
    let mut unknown = Map::new();
    unknown.insert("no_such_attribute".to_owned(), json!(0));
    let message = layer(operator, &unknown).unwrap_err();
    assert!(
        message.starts_with("unknown field"),
        "{operator}: {message}"
    );
    names(&message)
}

/// Returns a valid value of an attribute without a default.
fn sample(operator: &str, attribute: &str) -> Value {
    match attribute {
        "name" | "input" => json!("x"),
        "inputs" => json!(["x"]),
        "start" => json!(0),
        "normalized_shape" => json!([1, 4, 4]),
        "shape" => json!([-1]),
        "padding" => json!([1, 1]),
        "value" | "length" | "dim" | "in_features" | "out_features" | "out_channels"
        | "kernel_size" | "num_groups" | "output_size" | "groups" | "upscale_factor"
        | "downscale_factor" => json!(1),
        _ => panic!("{operator}: {attribute} has no sample"),
    }
}

/// Returns the mandatory attributes; the reader's errors name one missing attribute at a time.
pub(super) fn required(operator: &str) -> Map<String, Value> {
    let mut given = Map::new();
    while let Err(message) = layer(operator, &given) {
        let missing = message.strip_prefix("missing field `");
        let missing = missing.and_then(|rest| rest.split('`').next());
        let missing = missing.unwrap_or_else(|| panic!("{operator}: {message}"));
        given.insert(missing.to_owned(), sample(operator, missing));
    }
    given
}

/// Returns valid attributes. `clamp` needs at least one of its bounds, and `upsample` either a size or a
/// factor; no single attribute of these is mandatory.
pub(super) fn valid(operator: &str) -> Map<String, Value> {
    let mut given = required(operator);
    if operator == "clamp" {
        given.insert("min".to_owned(), json!(0.0));
    }
    if operator == "upsample" {
        given.insert("size".to_owned(), json!(1));
    }
    given
}

pub(super) fn chain_file(operator: &str, attributes: &Map<String, Value>) -> Value {
    let mut layer = Map::new();
    layer.insert(operator.to_owned(), Value::Object(attributes.clone()));
    json!({"in_channels": 1, "layers": [layer]})
}

fn is_chain(file: &Value) -> bool {
    serde_json::from_value::<Chain>(file.clone()).is_ok()
}

fn schema() -> Validator {
    let schema: Value = serde_json::from_str(&read("docs/chain.schema.json")).unwrap();
    jsonschema::validator_for(&schema).expect("the schema is one")
}

#[test]
fn the_schema_takes_every_chain_of_the_repository() {
    let schema = schema();
    let mut taken = 0;
    for folder in ["examples/chains", "tests/corpus"] {
        for entry in fs::read_dir(repository(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            if is_chain(&file) {
                assert!(schema.is_valid(&file), "{}", path.display());
                taken += 1;
            }
        }
    }
    assert!(taken >= 12, "{taken} chains");
}

#[test]
fn the_guides_examples_are_chains_that_the_schema_takes() {
    let schema = schema();
    let guide = read("docs/guide.md");
    let blocks = guide.split("```json\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks
        .filter(|block| block.contains("in_channels"))
        .collect();
    assert!(blocks.len() >= 2, "{} examples", blocks.len());
    for block in blocks {
        let file: Value = serde_json::from_str(block).unwrap();
        serde_json::from_value::<Chain>(file.clone()).expect(block);
        assert!(schema.is_valid(&file), "{block}");
    }
}

#[test]
fn the_schema_has_the_layers_and_attributes_of_the_reader() {
    let schema: Value = serde_json::from_str(&read("docs/chain.schema.json")).unwrap();
    let keys = |value: &Value| -> BTreeSet<String> {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(keys(&schema["$defs"]["layer"]["properties"]), operators());
    for operator in operators() {
        let reference = &schema["$defs"]["layer"]["properties"][operator.as_str()]["$ref"];
        let definition = reference.as_str().and_then(|at| schema.pointer(&at[1..]));
        let definition = definition.unwrap_or_else(|| panic!("{operator}: {reference}"));
        let listed = keys(&definition["properties"]);
        assert_eq!(listed, attributes(&operator), "{operator}");
    }
}

#[test]
fn the_schema_refuses_unknown_layers_and_attributes() {
    let schema = schema();
    assert!(!schema.is_valid(&chain_file("no_such_operator", &Map::new())));
    for operator in operators() {
        let mut given = valid(&operator);
        assert!(
            schema.is_valid(&chain_file(&operator, &given)),
            "{operator}"
        );
        given.insert("no_such_attribute".to_owned(), json!(1));
        let file = chain_file(&operator, &given);
        assert!(!is_chain(&file) && !schema.is_valid(&file), "{operator}");
        for missing in required(&operator).keys() {
            let mut given = valid(&operator);
            given.remove(missing);
            let file = chain_file(&operator, &given);
            assert!(!schema.is_valid(&file), "{operator} without {missing}");
        }
    }
}

/// Values of all kinds in every attribute: the schema accepts all files that the reader accepts, and refuses
/// wrong types.
#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema = schema();
    let Value::Array(values) = json!([
        null, true, false, -1, 0, 1, 2, 0.5, [], [1], [1, 1], [1, 1, 1], [1, 1, 1, 1], "", "x", "same", "valid",
        "zeros", "reflect", "replicate", "circular", "ones", "normal", "none", "tanh", {"constant": 2.0},
        {"uniform": {"fan_in": 3}}
    ]) else {
        unreachable!("a list")
    };
    let mut differing = Vec::new();
    for operator in operators() {
        for attribute in attributes(&operator) {
            for value in &values {
                let mut given = valid(&operator);
                given.insert(attribute.clone(), value.clone());
                let file = chain_file(&operator, &given);
                let (read, taken) = (is_chain(&file), schema.is_valid(&file));
                // Only the reader checks that attributes fit together; the schema may therefore accept more.
                let is_of_wrong_type = layer(&operator, &given).is_err();
                if read && !taken || is_of_wrong_type && taken {
                    differing.push(format!(
                        "{operator}: {attribute} = {value}: reader {read}, schema {taken}"
                    ));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
