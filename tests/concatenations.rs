//! Concatenations of channels in networks: convolutions write their part in place.

use convfuse::graph::{Graph, Layer};
use convfuse::model::Precision;
use convfuse::spec::Layout;
use convfuse::{DType, Device, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::layouts::{are_close, bits_of};
use crate::suite::count;

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS_OF_ALL,
        "concatenations",
        &[
            ("of_convolutions_are_written_in_place", branches),
            ("of_other_values_are_copied", others),
            ("of_unaligned_channels_are_copied", unaligned),
            ("of_outputs_are_copied", outputs),
        ],
    )
}

fn conv(name: &str, filters: usize, kernel_size: usize) -> Layer {
    let conv = Layer::conv2d(name, filters, kernel_size);
    conv.padding(kernel_size / 2).into()
}

/// The branches of an Inception module, joined twice.
fn branches(backend: Backend) -> Outcome {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 24, 3))
        .layer("pixels", "stem", conv("pixels", 16, 1))
        .layer("narrow", "stem", conv("narrow", 8, 1))
        .layer("windows", "narrow", conv("windows", 40, 3))
        .layer("relu", "windows", Layer::relu())
        .layer("pooled", "stem", Layer::max_pool2d(3).stride(1).padding(1))
        .layer("of_pool", "pooled", conv("of_pool", 8, 1))
        .layer("joined", "pixels", Layer::cat(["relu", "of_pool"], 1))
        .layer("last", "joined", conv("last", 48, 3))
        .layer("again", "last", Layer::cat(["joined"], 1))
        .layer("y", "again", Layer::adaptive_avg_pool2d(1))
        .build("y")?;
    // The first concatenation is read twice, so the second one copies it.
    check(backend, &graph, 1)
}

/// A value that another layer reads too, and a value of a pool.
fn others(backend: Backend) -> Outcome {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 16, 3))
        .layer("twice", "stem", conv("twice", 40, 1))
        .layer("windows", "twice", conv("windows", 72, 3))
        .layer("pooled", "stem", Layer::max_pool2d(3).stride(1).padding(1))
        .layer(
            "joined",
            "windows",
            Layer::cat(["twice", "pooled", "stem"], 1),
        )
        .layer("last", "joined", conv("last", 48, 3))
        .layer("y", "last", Layer::adaptive_avg_pool2d(1))
        .build("y")?;
    check(backend, &graph, 3)
}

/// A product whose first channel is not aligned in a tensor that is, and one of which the reverse is true.
fn unaligned(backend: Backend) -> Outcome {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 16, 3))
        .layer("odd", "stem", conv("odd", 10, 1))
        .layer("rest", "stem", conv("rest", 6, 1))
        .layer("windows", "stem", conv("windows", 72, 3))
        .layer("behind", "odd", Layer::cat(["windows", "rest"], 1))
        .layer("last", "behind", conv("last", 48, 3))
        .layer("in_front", "last", Layer::cat(["odd"], 1))
        .layer("y", "in_front", Layer::adaptive_avg_pool2d(1))
        .build("y")?;
    check(backend, &graph, 5)
}

/// A product that is an output too, one that is written in place, and a concatenation that is an output.
fn outputs(backend: Backend) -> Outcome {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 16, 3))
        .layer("given", "stem", conv("given", 40, 1))
        .layer("windows", "stem", conv("windows", 72, 3))
        .layer("joined", "given", Layer::cat(["windows"], 1))
        .layer("last", "joined", conv("last", 48, 3))
        .layer("y", "last", Layer::adaptive_avg_pool2d(1))
        .output("given")
        .output("joined")
        .build("y")?;
    // Outputs that are not reformatted.
    let options = Options::default().output_layout(Layout::Nhwc);
    check_with(backend, &graph, options, 1)
}

fn check(backend: Backend, graph: &Graph, copies: usize) -> Outcome {
    check_with(backend, graph, Options::default(), copies)
}

/// Compares all outputs of a network with the CPU's. On a device with kernels for it, `copies` operands are
/// copied.
fn check_with(backend: Backend, graph: &Graph, options: Options, copies: usize) -> Outcome {
    let (stream, cpu) = (backend.stream()?, Device::cpu().stream()?);
    let parameters = Parameters::init(graph, 3)?;
    let values = data::signed(1, &[2, 3, 14, 19][..]);
    let fast = options.precision(Precision::Fast);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let on_cpu = Model::with_dtype(&cpu, graph, &parameters, dtype)?;
        let x = Tensor::from_f32_array(&cpu, &values, dtype)?;
        let wanted = on_cpu.forward_all(&x, &fast)?;
        let model = Model::with_dtype(&stream, graph, &parameters, dtype)?;
        let x = Tensor::from_f32_array(&stream, &values, dtype)?;
        let all = model.forward_all(&x, &fast)?;
        for (y, wanted) in all.iter().zip(&wanted) {
            are_close(&bits_of(y)?, &bits_of(wanted)?, (dtype, Precision::Fast));
        }
        if stream.device().properties().arch.has_warpgroup_mma() {
            let explained = model.plan_for(&stream, &x, &fast)?.explain()?;
            assert_eq!(count(&explained, "copy_rows"), copies, "{explained}");
        }
    }
    Ok(())
}
