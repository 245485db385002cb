//! `cargo xtask ptxas`: assembles every kernel for every architecture that users may have, without a
//! GPU, and refuses what would be slow there: registers spilled to memory, arrays in local memory,
//! and wgmma instructions that the assembler had to put one after the other.

mod find;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use cuda_builder::Arch;

use report::{Report, Resources};

/// The portable module is assembled for each of these; a module for one architecture is assembled
/// for that one.
const PORTABLE_TARGETS: &[Arch] = &[
    Arch::Sm80,
    Arch::Sm86,
    Arch::Sm89,
    Arch::Sm90a,
    Arch::Sm100a,
    Arch::Sm120a,
];

/// One run of the assembler.
struct Job<'a> {
    module: Arch,
    target: Arch,
    ptx: &'a Path,
}

impl Job<'_> {
    fn name(&self) -> String {
        if self.module == self.target {
            self.target.to_string()
        } else {
            format!("{} as {}", self.module, self.target)
        }
    }

    fn run(&self, ptxas: &Path) -> Result<Report, String> {
        let output = Command::new(ptxas)
            .args([
                "--verbose",
                "--warn-on-spills",
                "--output-file",
                "/dev/null",
            ])
            .arg(format!("--gpu-name={}", self.target))
            .arg(self.ptx)
            .output()
            .map_err(|error| format!("{}: {error}", ptxas.display()))?;
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(report::parse(&text))
        } else {
            Err(format!("{}: ptxas refuses: {text}", self.name()))
        }
    }
}

/// Assembles freshly compiled kernels and prints what each uses.
pub(crate) fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let ptxas = find::ptxas(root)?;
    let modules = crate::ptx::compile(root)?.modules;
    let mut jobs = Vec::new();
    for (arch, module) in &modules {
        let targets = if arch.is_specific() {
            std::slice::from_ref(arch)
        } else {
            PORTABLE_TARGETS
        };
        jobs.extend(targets.iter().map(|&target| Job {
            module: *arch,
            target,
            ptx: &module.path,
        }));
    }

    let reports = assemble(&jobs, &ptxas)?;
    print_table(&jobs, &reports);
    let faults: Vec<_> = jobs
        .iter()
        .zip(&reports)
        .flat_map(|(job, report)| {
            let name = job.name();
            report.faults().map(move |fault| format!("{name}: {fault}"))
        })
        .collect();
    if faults.is_empty() {
        println!("no spills, no local memory, no serialised wgmma");
        Ok(())
    } else {
        Err(faults.join("\n").into())
    }
}

/// Runs all jobs, as many at a time as there are processors.
fn assemble(jobs: &[Job<'_>], ptxas: &Path) -> Result<Vec<Report>, String> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(0..jobs.len());
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(index) = next.lock().ok().and_then(|mut range| range.next()) {
            let result = jobs[index].run(ptxas);
            if let Ok(mut results) = results.lock() {
                results.insert(index, result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap_or_default();
    results.into_values().collect()
}

/// One line per kernel: registers and bytes of static shared memory on each architecture.
fn print_table(jobs: &[Job<'_>], reports: &[Report]) {
    let kernels: BTreeSet<_> = reports
        .iter()
        .flat_map(|report| report.kernels.keys())
        .collect();
    let width = kernels.iter().map(|kernel| kernel.len()).max().unwrap_or(0);
    let names: Vec<_> = jobs.iter().map(Job::name).collect();
    print!("{:width$}", "registers/shared");
    names.iter().for_each(|name| print!("  {name:>11}"));
    println!();
    for kernel in kernels {
        print!("{kernel:width$}");
        for (name, report) in names.iter().zip(reports) {
            let cell = report.kernels.get(kernel).map(Resources::cell);
            print!(
                "  {:>1$}",
                cell.unwrap_or_else(|| "-".into()),
                name.len().max(11)
            );
        }
        println!();
    }
}
