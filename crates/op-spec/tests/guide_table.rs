//! The guide's table of layers, compared with the reader of chain files and with the shapes of graphs.

use std::collections::BTreeSet;
use std::fs;

use op_spec::ReductionOp;
use op_spec::graph::{Chain, Graph};
use serde_json::{Map, Value, json};

use super::guide::{
    attributes, chain_file, constructed, layer, operators, read, repository, required,
};

/// A row of the guide's table.
struct Row {
    operator: String,
    constructor: String,
    /// The attributes with their defaults.
    attributes: Vec<(String, Option<Value>)>,
    input: String,
    output: String,
}

/// Parses attributes of the form `name`, or `name` = `default`.
fn parse_attributes(cell: &str) -> Vec<(String, Option<Value>)> {
    let mut attributes: Vec<(String, Option<Value>)> = Vec::new();
    let mut parts = cell.split('`');
    while let (Some(before), Some(quoted)) = (parts.next(), parts.next()) {
        if before.trim() == "=" {
            let default = serde_json::from_str(quoted);
            let default = default.unwrap_or_else(|_| panic!("{quoted} is no JSON, in {cell}"));
            attributes.last_mut().expect("a name comes first").1 = Some(default);
        } else {
            attributes.push((quoted.to_owned(), None));
        }
    }
    attributes
}

fn rows() -> Vec<Row> {
    let guide = read("docs/guide.md");
    let (_, table) = guide
        .split_once("| JSON name |")
        .expect("the guide has the table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{line}");
        Row {
            operator: cells[0].trim_matches('`').to_owned(),
            constructor: cells[1].to_owned(),
            attributes: parse_attributes(cells[2]),
            input: cells[3].to_owned(),
            output: cells[4].to_owned(),
        }
    });
    rows.collect()
}

#[test]
fn the_guide_lists_every_layer_once() {
    let rows = rows();
    let listed: BTreeSet<String> = rows.iter().map(|row| row.operator.clone()).collect();
    assert_eq!(listed, operators());
    assert_eq!(rows.len(), listed.len(), "an operator stands in two rows");
}

/// Compares the lines that contain `mark` with one line for each reduction. With the environment variable
/// `CONVFUSE_UPDATE`, it writes these lines in their place.
fn reductions_stand_in(path: &str, mark: &str, line: impl Fn(&str) -> String) {
    let text = read(path);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| line.contains(mark));
    let (before, rest) = lines.split_at(first.expect("a reduction"));
    let len = rest.iter().take_while(|line| line.contains(mark)).count();
    let (listed, after) = rest.split_at(len);
    let wanted: String = ReductionOp::ALL
        .iter()
        .map(|operation| line(operation.name()) + "\n")
        .collect();
    if std::env::var_os("CONVFUSE_UPDATE").is_some() {
        let text = [before.concat(), wanted, after.concat()].concat();
        return fs::write(repository(path), text).expect(path);
    }
    assert_eq!(listed.concat(), wanted, "{path}");
}

#[test]
fn documents_have_a_line_for_each_reduction() {
    let attributes = "`dim`, `keepdim` = `false` | N C D H W";
    let output = "without the axes `dim`, or with extents of 1";
    reductions_stand_in("docs/guide.md", output, |name| {
        let pytorch = match name {
            "max" | "min" => format!("a{name}"),
            _ => name.to_owned(),
        };
        format!(
            "| `{name}` | `Layer::{name}(dim)` | {attributes} | {output} | `torch.{pytorch}(x, dim)` |"
        )
    });
    let definition = "{\"$ref\": \"#/$defs/reduction\"},";
    reductions_stand_in("docs/chain.schema.json", definition, |name| {
        format!("        \"{name}\": {definition}")
    });
}

/// The attributes that an argument of a constructor stands for.
fn attributes_of(argument: &str) -> Vec<&str> {
    match argument {
        "other" => vec!["value", "name", "input", "layer"],
        "spec" => vec!["size", "scale_factor"],
        name => vec![name],
    }
}

#[test]
fn the_guide_names_every_constructor_with_its_arguments() {
    let constructed = constructed();
    let built = constructed.iter().map(|layer| layer.operator().to_owned());
    assert_eq!(built.collect::<BTreeSet<_>>(), operators());
    for Row {
        operator,
        constructor,
        ..
    } in rows()
    {
        let call = constructor.strip_prefix(&format!("`Layer::{operator}("));
        let arguments = call
            .and_then(|rest| rest.strip_suffix(")`"))
            .expect(&constructor);
        let arguments = arguments.split(", ").filter(|name| !name.is_empty());
        let taken: BTreeSet<_> = arguments
            .flat_map(attributes_of)
            .map(str::to_owned)
            .collect();
        assert!(taken.is_subset(&attributes(&operator)), "{constructor}");
        let required: BTreeSet<_> = required(&operator).keys().cloned().collect();
        assert!(required.is_subset(&taken), "{constructor}");
    }
}

#[test]
fn the_guide_lists_every_attribute_with_its_default() {
    for row in rows() {
        let operator = &row.operator;
        let listed: BTreeSet<String> = row
            .attributes
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(listed, attributes(operator), "{operator}");
        assert_eq!(
            row.attributes.len(),
            listed.len(),
            "{operator}: one stands twice"
        );
        let required = required(operator);
        let without = layer(operator, &required).unwrap();
        for (name, default) in row.attributes {
            let Some(default) = default else {
                assert!(
                    required.contains_key(&name),
                    "{operator}: {name} has a default"
                );
                continue;
            };
            assert!(
                !required.contains_key(&name),
                "{operator}: {name} has no default"
            );
            let mut given = required.clone();
            given.insert(name.clone(), default.clone());
            let with = layer(operator, &given).unwrap();
            assert_eq!(with, without, "{operator}: {name} = {default}");
        }
    }
}

/// The extents of an example's input.
const EXTENTS: [(&str, usize); 6] = [("N", 2), ("C", 4), ("L", 12), ("D", 6), ("H", 8), ("W", 10)];

/// The output channels of an example, and its factor, window or length.
const K: usize = 6;
const R: usize = 2;

/// The attributes of an example, other than 1 where they change the output's shape.
fn example(operator: &str) -> Map<String, Value> {
    let mut attributes = required(operator);
    for (name, value) in &mut attributes {
        *value = match name.as_str() {
            "in_features" => json!(EXTENTS[1].1),
            "out_channels" | "out_features" => json!(K),
            "kernel_size" | "output_size" | "length" | "upscale_factor" | "downscale_factor" => {
                json!(R)
            }
            "normalized_shape" => json!([6, 8, 10]),
            "shape" => json!([R, -1]),
            "padding" => json!([0, R, 0, 0, 0, 0]),
            _ => continue,
        };
    }
    match operator {
        "clamp" => _ = attributes.insert("min".to_owned(), json!(0.0)),
        "upsample" => _ = attributes.insert("scale_factor".to_owned(), json!(R as f64)),
        _ => {}
    }
    attributes
}

/// The input's shape: the symbols that the cell begins with.
fn input_shape(cell: &str) -> Vec<usize> {
    let symbols = if cell == "any" { "N C H W" } else { cell };
    let symbols = symbols.split([',', ';']).next().unwrap_or_default();
    let extent = |symbol: &str| {
        EXTENTS
            .iter()
            .find(|known| known.0 == symbol)
            .expect(cell)
            .1
    };
    symbols.split(' ').map(extent).collect()
}

/// The output's shape by the cell, with `None` for extents that it leaves open.
fn output_shape(cell: &str, input: &[usize]) -> Vec<Option<usize>> {
    let mut output = input.to_vec();
    let values: usize = input[1..].iter().product();
    match cell {
        "same" => {}
        "N and one axis of all others" => output = vec![input[0], values],
        "N and the axes of `shape`, of which one may be -1" => {
            output = vec![input[0], R, values / R]
        }
        "each spatial axis with its two widths" => *output.last_mut().expect("an axis") += R,
        "the extents along `dim` in sum" => output[1] *= 2,
        "`length` along the axis `dim`" => output[1] = R,
        "N C and `output_size`" => output[2..].fill(R),
        "without the axes `dim`, or with extents of 1" => _ = output.remove(1),
        _ => return symbolic(cell),
    }
    output.into_iter().map(Some).collect()
}

/// The shape by symbols, such as `N C / r² H * r W * r`.
fn symbolic(cell: &str) -> Vec<Option<usize>> {
    let mut shape: Vec<Option<usize>> = Vec::new();
    let mut words = cell.split(' ');
    while let Some(word) = words.next() {
        let last = shape.last_mut();
        match word {
            "*" | "/" => {
                let factor = if words.next() == Some("r²") {
                    R * R
                } else {
                    R
                };
                let extent = last.and_then(Option::as_mut).expect(cell);
                *extent = if word == "*" {
                    *extent * factor
                } else {
                    *extent / factor
                };
            }
            "K" => shape.push(Some(K)),
            "Z" | "P" | "Q" => shape.push(None),
            _ => shape.push(Some(input_shape(word)[0])),
        }
    }
    shape
}

fn check_shapes(
    operator: &str,
    attributes: &Map<String, Value>,
    input: &[usize],
    output: &[Option<usize>],
) {
    let mut file = chain_file(operator, attributes);
    file["in_channels"] = json!(input[1]);
    let chain: Chain = serde_json::from_value(file).expect(operator);
    let problem = Graph::from(chain).problem(input).expect(operator);
    let shape = problem.output_shape();
    let fits =
        |(&actual, &expected): (&usize, &Option<usize>)| expected.is_none_or(|one| one == actual);
    let agrees = shape.len() == output.len() && shape.iter().zip(output).all(fits);
    assert!(
        agrees,
        "{operator} of {input:?}: {shape:?}, the guide has {output:?}"
    );
}

#[test]
fn the_guide_lists_the_shapes_of_inputs_and_outputs() {
    const WITH_DIM: &str = ", with `dim` 1 ";
    for Row {
        operator,
        input,
        output,
        ..
    } in rows()
    {
        let mut attributes = example(&operator);
        // A row of two cases names the input and the output of each.
        if let Some((first, second)) = input.split_once(WITH_DIM)
            && let Some((of_first, of_second)) = output.split_once(", ")
        {
            check_shapes(
                &operator,
                &attributes,
                &input_shape(first),
                &symbolic(of_first),
            );
            attributes.insert("dim".to_owned(), json!(1));
            check_shapes(
                &operator,
                &attributes,
                &input_shape(second),
                &symbolic(of_second),
            );
            continue;
        }
        let input = input_shape(&input);
        check_shapes(
            &operator,
            &attributes,
            &input,
            &output_shape(&output, &input),
        );
    }
}
