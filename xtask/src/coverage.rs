//! `cargo xtask coverage`: what of the kernels their tests in the emulator reach.
//!
//! There kernels are native code, so the compiler can have them count what runs. The crate of the kernels is
//! compiled with counters, alone; its tests run, each in a process of its own, and LLVM's tools read what was
//! counted. What they count are *regions*: pieces of source without a way in or out between their ends. A
//! region of a generic function stands in every instance of that function, and is counted in two ways:
//! *together* it is reached if any instance reached it, *apart* it is as many regions as it has instances.
//! Regions that nothing can reach are marked, with the reason, in `kernels-gpu/coverage.txt`, which also has
//! the figures that must not be fallen short of.

mod constants;
mod counted;
mod error;
mod figures;
mod regions;
mod report;
mod source;

mod tools;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use counted::Tested;
use figures::Figures;
use regions::Regions;
use report::Report;
use tools::Tools;

pub(crate) use counted::wrapped_compiler;

/// The crate whose regions count.
const KERNELS: &str = "kernels-gpu";

/// Figures and marks.
const FIGURES: &str = "kernels-gpu/coverage.txt";

/// Runs the tests whose names contain one of `names`, all if there are none, and prints what they reach.
/// Fails on a test that does, and, if all ran, on figures below those in the repository and on marks that
/// mark nothing.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<(), Box<dyn Error>> {
    let tools = Tools::find()?;
    let tested = counted::run(root, &folder(root), names)?;
    report(root, &tools, &tested, names.is_empty())
}

/// Prints what the tests reached that ran last.
pub(crate) fn report_last(root: &Path) -> Result<(), Box<dyn Error>> {
    let tools = Tools::find()?;
    let tested = counted::last(root, &folder(root))?;
    report(root, &tools, &tested, false)
}

/// Where counters are kept.
fn folder(root: &Path) -> PathBuf {
    crate::ptx::target_dir(root).join("xtask-coverage")
}

fn report(root: &Path, tools: &Tools, tested: &Tested, hold: bool) -> Result<(), Box<dyn Error>> {
    let figures = Figures::parse(&fs::read_to_string(root.join(FIGURES))?)?;
    let src = root.join(KERNELS).join("src");
    let marks = figures.marks(&src)?;
    let export = tools.export(tested, &folder(root))?;
    let regions = Regions::read(&export, &src)?;
    let names = tools.readable(regions.missed())?;
    let report = Report::new(&regions, &marks, &names);
    report.print();
    if hold {
        report.hold(&figures)?;
    }
    Ok(())
}
