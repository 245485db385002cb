//! The parameters of a graph: one table for initialisation, checks, files and uploads.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::GraphError;
use super::layer::{Flow, Layer};
use super::parameters::{AbsentParameter, Parameter, Wanted};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// Every parameter once.
    pub(super) parameters: Vec<Parameter>,
    /// For each layer, the indices of its parameters.
    pub(super) indices: Vec<Vec<usize>>,
    /// Parameters that layers lack with their attributes.
    pub(super) absent: Vec<AbsentParameter>,
}

/// Collects the parameters of these layers.
pub(super) fn table(layers: &[Layer], flow: &[Flow]) -> Result<Table, GraphError> {
    let mut table: Vec<Parameter> = Vec::new();
    let mut by_name = BTreeMap::<String, usize>::new();
    let mut absent = Vec::new();
    let mut indices = Vec::with_capacity(layers.len());
    let mut stream = 0;
    for (index, (layer, flow)) in layers.iter().zip(flow).enumerate() {
        let mut of_layer = Vec::new();
        let stored_as = layer.kind().name();
        for wanted in layer.kind().parameters(flow) {
            let Wanted {
                suffix,
                shape,
                initialisation,
                absent_without,
            } = wanted;
            let own = stream;
            stream += 1;
            if let Some(attribute) = absent_without {
                if !stored_as.is_empty() {
                    absent.push(AbsentParameter {
                        name: format!("{stored_as}{suffix}"),
                        layer: index,
                        attribute,
                    });
                }
                continue;
            }
            if stored_as.is_empty() {
                let operator = layer.operator();
                return Err(GraphError::NoName {
                    layer: index,
                    operator,
                });
            }
            let name = format!("{stored_as}{suffix}");
            if let Some(&known) = by_name.get(&name) {
                let expected = &table[known];
                if expected.shape != shape {
                    return Err(GraphError::Shared {
                        layer: index,
                        name,
                        actual: shape,
                        expected: expected.shape.clone(),
                    });
                }
                if expected.initialisation != initialisation {
                    return Err(GraphError::SharedInitialisation { layer: index, name });
                }
                of_layer.push(known);
                continue;
            }
            by_name.insert(name.clone(), table.len());
            of_layer.push(table.len());
            table.push(Parameter {
                name,
                shape,
                initialisation,
                stream: own,
            });
        }
        indices.push(of_layer);
    }
    Ok(Table {
        parameters: table,
        indices,
        absent,
    })
}
