//! Gates of channels-last tensors: the products, rounded once, in every order of threads.

use cuda_std::Storage;
use launch_config::gate::{BLOCK_VECTORS, GateGeometry};
use launch_config::reciprocal::Reciprocal;
use op_spec::graph::Layer;

use super::super::kernels::gate::GATE_NHWC;
use super::{Loaded, Outcome, Run, case, label, rounded_once, same_bits};

/// One vector; several samples to a block, and several blocks to a sample, with a partial last block; blocks
/// that begin within a pixel.
const ROWS: [&[usize]; 4] = [
    &[1, 4, 1],
    &[5, 12, 3, 7],
    &[2, 24, 17, 41],
    &[700, 8, 1, 1],
];

/// Checks every row.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for input in ROWS {
        let case = case::<T>([Layer::gate("gate")], input).special();
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let spatial = input[2..].iter().product();
        let g = GateGeometry::new(input[0], input[1], spatial).expect("whole vectors");
        let last = |tensor| run.channels_last::<T>(tensor, input[0] as u64, input[1] as u32);
        let x = last(&x)?;
        let gate = |g: GateGeometry| {
            let y = run.empty::<T>(x.len())?;
            let arguments = (x.source(), parameters[0].source(), y.ptr(), g);
            run.launch(&GATE_NHWC, &[label::<T>()], g.shape(), arguments)?;
            Ok::<_, super::Failure>(y)
        };
        let y = gate(g)?;
        let expected = rounded_once::<T>(&case).values().expect("all elements");
        let wanted: Vec<f32> = expected.iter().map(|&value| value as f32).collect();
        let wanted = last(&run.tensor::<T>(&wanted)?)?;
        same_bits(&format!("{input:?}"), &y, &wanted)?;
        // Treats the samples as too long for a reciprocal.
        if g.sample_vectors > BLOCK_VECTORS {
            let near = Reciprocal::of(BLOCK_VECTORS);
            same_bits(
                &format!("{input:?} far"),
                &gate(GateGeometry { near, ..g })?,
                &y,
            )?;
        }
    }
    Ok(())
}
