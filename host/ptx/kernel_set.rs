// Which kernels the project ships, and what they are compiled from: shared by the build script and the
// chores.

use std::path::Path;

use cuda_builder::{Arch, KernelSet};

/// The kernels of the package `convfuse` in this folder: PTX, portable and for Hopper, and machine code for
/// every architecture that users may have. Beside a published package their sources are not there.
pub(crate) fn kernel_set(package: &Path) -> KernelSet {
    let root = package.parent().unwrap_or(package);
    let sources = [
        "kernels-gpu",
        "crates/cuda_std",
        "crates/cuda_std_macros",
        "crates/launch-config",
        "crates/op-spec",
    ];
    KernelSet {
        name: "kernels".into(),
        crate_path: root.join("kernels-gpu"),
        sources: sources.iter().map(|path| root.join(path)).collect(),
        archs: vec![Arch::Sm80, Arch::Sm90a],
        machine_code: vec![Arch::Sm80, Arch::Sm90a, Arch::Sm100, Arch::Sm120],
        shipped: package.join("ptx"),
        target_dir: None,
    }
}
