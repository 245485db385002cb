//! Network files: graphs as JSON, and the schema of these files.

use std::collections::BTreeSet;

use jsonschema::{Registry, Validator};
use op_spec::graph::{Chain, Graph, GraphError, Layer};
use serde_json::{Value, json};

use super::guide::read as file_of_repository;

fn read(json: &str) -> Result<Graph, serde_json::Error> {
    serde_json::from_str(json)
}

fn written(graph: &Graph) -> Value {
    serde_json::to_value(graph).unwrap()
}

/// `relu(conv2(relu(conv1(x))) + down(x)) + skip`, with the operands of the first addition in either order.
fn block(swapped: bool) -> Graph {
    let (first, other) = match swapped {
        false => ("second", "shortcut"),
        true => ("shortcut", "second"),
    };
    let conv = |name: &str| Layer::conv2d(name, 8, 3).padding(1);
    Graph::builder("x", 8)
        .input("skip")
        .layer("first", "x", conv("conv1"))
        .layer("active", "first", Layer::relu())
        .layer("shortcut", "x", Layer::conv2d("down", 8, 1).bias(false))
        .layer("second", "active", conv("conv2"))
        .layer("sum", first, Layer::add(other))
        .layer("rectified", "sum", Layer::relu())
        .layer("doubled", "rectified", Layer::add("rectified"))
        .layer("y", "doubled", Layer::add("skip"))
        .build("y")
        .unwrap()
}

/// Reads a network of these layers on one input `x` of two channels; the last layer gives `y`.
fn of_layers(layers: &str) -> Result<Graph, serde_json::Error> {
    read(&format!(
        r#"{{"version": 1, "input": {{"name": "x", "channels": 2}}, "layers": [{layers}], "output": "y"}}"#
    ))
}

#[test]
fn a_graph_is_a_file_and_back() {
    for swapped in [false, true] {
        let graph = block(swapped);
        let file = written(&graph);
        let again: Graph = serde_json::from_value(file.clone()).unwrap();
        assert_eq!(again, graph);
        assert_eq!(again.operands(4), graph.operands(4));
        assert_eq!(written(&again), file);
    }
    assert_eq!(block(false).input(), "x");
}

#[test]
fn a_file_has_names_and_what_pytorch_has_no_default_for() {
    let graph = Graph::builder("x", 2)
        .layer("a", "x", Layer::conv2d("conv", 4, 3))
        .layer("y", "a", Layer::relu())
        .build("y")
        .unwrap();
    let file = r#"{"version":1,"input":{"name":"x","channels":2},"layers":[{"name":"a","input":"x","layer":{"conv2d":{"name":"conv","out_channels":4,"kernel_size":3}}},{"name":"y","input":"a","layer":{"relu":{}}}],"output":"y"}"#;
    assert_eq!(serde_json::to_string(&graph).unwrap(), file);
    assert_eq!(read(file).unwrap(), graph);
}

/// Generated names differ from those of inputs.
#[test]
fn a_chain_is_written_as_a_network_with_names_of_its_own() {
    let layers = (
        Layer::conv2d("c", 2, 1),
        Layer::add("1"),
        Layer::add("input"),
    );
    let chain = Chain::new(2, layers).unwrap();
    let graph = Graph::from(chain.clone());
    let again: Graph = serde_json::from_value(written(&graph)).unwrap();
    assert_eq!(again.input(), "input_");
    assert_eq!(again.inputs(), ["1", "input"]);
    assert_eq!(
        [0, 1, 2].map(|layer| again.name_of(layer).to_owned()),
        ["0", "1_", "2"]
    );
    let shape = [3, 2, 4, 5];
    assert_eq!(
        again.problem(&shape).unwrap(),
        chain.problem(&shape).unwrap()
    );
    assert_eq!(again.parameters(), chain.parameters());
}

#[test]
fn errors_name_the_layer_and_the_attribute() {
    let relu = |name, input| {
        format!(r#"{{"name": "{name}", "input": "{input}", "layer": {{"relu": {{}}}}}}"#)
    };
    let layer = |layer| format!(r#"{{"name": "y", "input": "x", "layer": {layer}}}"#);
    says! {
        of_layers(&layer(r#"{"conv2d": {"name": "c", "out_channels": 4, "kernel_size": 3, "strid": 2}}"#))
            => "layer 0: y: conv2d: unknown field `strid`, expected one of";
        of_layers(&layer(r#"{"conv2d": {"name": "c", "out_channels": "4", "kernel_size": 3}}"#))
            => "layer 0: y: conv2d: out_channels: invalid type: string \"4\", expected a whole number";
        of_layers(&layer(r#"{"conv2d": {"name": "c", "out_channels": 4, "kernel_size": 3, "groups": 3}}"#))
            => "layer 0: y: conv2d: in_channels is 2, which is not a multiple of groups 3";
        of_layers(&layer(r#"{"relu6": {}}"#)) => "layer 0: y: unknown operator `relu6`";
        of_layers(&layer("3")) => "layer 0: y: invalid type: integer `3`, expected a layer";
        of_layers(r#"{"name": "y", "input": "x", "layer": {"relu": {}}, "input": "x"}"#)
            => "layer 0: y: input: duplicate field `input`";
        of_layers(r#"{"name": "y", "inputs": "x"}"#)
            => "layer 0: y: unknown field `inputs`, expected one of `name`, `input`, `layer`";
        of_layers(r#"{"name": "y", "input": 3}"#) => "layer 0: y: input: invalid type: integer `3`";
        of_layers(r#"{"input": "x", "layer": {"relu": {}}}"#) => "layer 0: missing field `name`";
        of_layers(r#"{"name": "y", "layer": {"relu": {}}}"#) => "layer 0: y: missing field `input`";
        of_layers(r#"{"name": "y", "input": "x"}"#) => "layer 0: y: missing field `layer`";
        of_layers(r#"{"relu": {}}"#) => "layer 0: unknown field `relu`";
        of_layers(&relu("y", "z")) => "layer 0: y: relu: there is no value z before it, only x";
        of_layers(&[relu("a", "x"), relu("a", "a")].join(",")) => "graph: two values have the name a";
        of_layers(&[relu("a", "x"), relu("z", "a")].join(", ")) => "graph: the output y is no value that a layer gives";
        of_layers("") => "graph: layers are none, minimum 1";
        read("[]") => "expected a network, an object with version, input, layers and output";
        read(r#"{"version": 2, "layer": []}"#) => "version: is 2, expected 1";
        read(r#"{"version": 1.5}"#) => "version: invalid type: floating point `1.5`, expected a whole number";
        read(r#"{"version": 1, "in_channels": 3}"#) => "unknown field `in_channels`, expected one of `version`, `input`";
        read(r#"{"version": 1, "input": {"name": "x", "channels": -1}}"#) => "channels: invalid value: integer `-1`";
        read(r#"{"version": 1, "input": {"name": "x"}}"#) => "missing field `channels`";
        read(r#"{"version": 1, "input": {"name": "x", "channels": 3}, "layers": {}}"#)
            => "expected a list of layers with their names and inputs";
    }
    // The error for a wrong input names the layer, too.
    let graph = block(false);
    let error = graph.problem(&[1, 7, 5, 5]).unwrap_err();
    assert_eq!(error.layer(), Some(0));
    assert_eq!(
        error.to_string(),
        "layer 0: first: conv2d: input[1] is 7, expected 8"
    );
    assert!(matches!(error, GraphError::Named { name, .. } if name == "first"));
}

/// Endless and deeply nested files are refused, and the time to read a large file is linear in its size.
#[test]
fn hostile_files_are_refused_and_large_ones_are_read() {
    let deep = "[".repeat(100_000);
    says! {
        read(&deep) => "expected a network";
        of_layers(&format!(r#"{{"name": "y", "input": "x", "layer": {deep}"#)) => "layer 0: y: invalid type: sequence";
        of_layers(&format!(r#"{{"name": "y", "input": "x", "layer": {{"max": {{"dim": {deep}"#)) => "layer 0: y: ";
        of_layers(&format!(r#"{{"name": "y", "input": "x", "more": {deep}"#)) => "layer 0: y: unknown field `more`";
    }
    let mut graph = Graph::builder("x", 1);
    let mut last = "x".to_owned();
    for layer in 0..60_000 {
        let name = format!("value {layer}");
        graph = graph.layer(name.clone(), last, Layer::scale(name.clone()));
        last = name;
    }
    let graph = graph.build(&last).unwrap();
    let start = std::time::Instant::now();
    let text = serde_json::to_string(&graph).unwrap();
    assert_eq!(read(&text).unwrap(), graph);
    // Quadratic time would be minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    let unknown = text.replace(r#""input":"value 59998""#, r#""input":"nothing""#);
    let error = read(&unknown).unwrap_err().to_string();
    assert!(
        error.len() < 1000 && error.contains("59984 before these"),
        "{error}"
    );
}

fn schema() -> Value {
    serde_json::from_str(&file_of_repository("docs/network.schema.json")).unwrap()
}

fn with_validator(check: impl Fn(&Validator)) {
    let chains: Value =
        serde_json::from_str(&file_of_repository("docs/chain.schema.json")).unwrap();
    let registry = Registry::new()
        .add("file:///chain.schema.json", chains)
        .unwrap();
    let registry = registry.prepare().unwrap();
    let options = jsonschema::options().with_registry(&registry);
    let validator = options
        .with_base_uri("file:///network.schema.json")
        .build(&schema());
    check(&validator.expect("the schema is one"));
}

fn keys(value: &Value) -> BTreeSet<String> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect()
}

#[test]
fn the_guides_example_is_a_network_that_the_schema_takes() {
    let guide = file_of_repository("docs/guide.md");
    let (_, example) = guide
        .split_once("```json\n{\n  \"version\"")
        .expect("an example");
    let (example, _) = example.split_once("```").unwrap();
    let file: Value = serde_json::from_str(&format!("{{\"version\"{example}")).unwrap();
    let graph: Graph = serde_json::from_value(file.clone()).unwrap();
    assert_eq!(
        graph.problem(&[1, 64, 8, 8]).unwrap().output_shape(),
        [1, 128, 8, 8]
    );
    with_validator(|schema| assert!(schema.is_valid(&file)));
}

#[test]
fn the_schema_takes_every_network_of_the_repository() {
    let files: [(&str, &[usize]); 4] = [
        ("examples/networks/pyramid.json", &[2, 16, 4, 8]),
        ("examples/networks/resnet.json", &[2, 10]),
        ("examples/networks/vae_decoder.json", &[2, 3, 64, 128]),
        ("tests/corpus/network.json", &[2, 3, 306]),
    ];
    for (file, output) in files {
        let file: Value = serde_json::from_str(&file_of_repository(file)).unwrap();
        let graph: Graph = serde_json::from_value(file.clone()).unwrap();
        let problem = graph.problem(&[2, graph.in_channels(), 16, 32]).unwrap();
        assert_eq!(problem.output_shape(), output);
        with_validator(|schema| assert!(schema.is_valid(&file)));
    }
}

#[test]
fn the_schema_has_what_the_reader_has() {
    let schema = schema();
    let listed = |text: &str| -> BTreeSet<String> {
        let error = read(text).unwrap_err().to_string();
        let names = error.split('`').skip(3).step_by(2);
        names.map(str::to_owned).collect()
    };
    assert_eq!(keys(&schema["properties"]), listed(r#"{"no": 1}"#));
    assert_eq!(
        keys(&schema["properties"]["layers"]["items"]["properties"]),
        listed(r#"{"version": 1, "layers": [{"no": 1}]}"#)
    );
    assert_eq!(
        keys(&schema["properties"]["input"]["properties"]),
        listed(r#"{"input": {"no": 1}}"#)
    );
}

/// Values of all kinds in every place: the schema accepts all files that the reader accepts, and refuses
/// wrong types.
#[test]
fn the_schema_takes_what_the_reader_takes() {
    let whole = json!({
        "version": 1,
        "input": {"name": "x", "channels": 2},
        "inputs": ["skip"],
        "layers": [
            {"name": "a", "input": "x", "layer": {"scale": {"name": "s"}}},
            {"name": "y", "input": "a", "layer": {"add": {"input": "skip"}}}
        ],
        "output": "y"
    });
    let places = [
        "",
        "/version",
        "/input",
        "/input/name",
        "/input/channels",
        "/inputs",
        "/inputs/0",
        "/layers",
        "/layers/0",
        "/layers/0/name",
        "/layers/0/input",
        "/layers/0/layer",
        "/layers/0/layer/scale/name",
        "/output",
    ];
    let Value::Array(values) = json!([
        null, true, -1, 0, 1, 2, 0.5, "", "x", "y", "skip", [], [1], ["skip"], {}, {"relu": {}}, {"name": "x"},
        {"relu": {}, "silu": {}}, {"no_such_operator": {}}
    ]) else {
        unreachable!("a list")
    };
    with_validator(|schema| {
        assert!(schema.is_valid(&whole) && read(&whole.to_string()).is_ok());
        for place in places {
            for value in &values {
                let mut file = whole.clone();
                *file.pointer_mut(place).expect(place) = value.clone();
                let read = serde_json::from_value::<Graph>(file.clone());
                let taken = schema.is_valid(&file);
                // Only the reader checks names and numbers of channels.
                let is_of_graph = read.as_ref().is_err_and(|error| {
                    let error = error.to_string();
                    [
                        "graph: two",
                        "graph: no layer",
                        "graph: the output",
                        "there is no value",
                        "name is empty",
                        "first operand",
                    ]
                    .iter()
                    .any(|part| error.contains(part))
                });
                assert!(taken || read.is_err(), "{place} = {value}");
                assert!(
                    !taken || read.is_ok() || is_of_graph,
                    "{place} = {value}: {read:?}"
                );
            }
        }
        for place in places.iter().filter(|place| !place.is_empty()) {
            let (parent, key) = place.rsplit_once('/').unwrap();
            let mut file = whole.clone();
            let Some(Value::Object(parent)) = file.pointer_mut(parent) else {
                continue;
            };
            parent.remove(key);
            let read = serde_json::from_value::<Graph>(file.clone());
            if key != "inputs" {
                assert!(read.is_err() && !schema.is_valid(&file), "without {place}");
            } else {
                assert!(schema.is_valid(&file));
            }
        }
    });
}
