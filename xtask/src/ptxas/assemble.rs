//! Assembles the machine code of all kernels, each on its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cuda_builder::{Arch, KernelModule, MachineCode, split};
use rayon::prelude::*;

use super::entry;
use super::report::{self, Report, Resources};
use crate::compiled::Compiled;
use crate::paths::target_dir;

/// An assembler and its working folder.
pub(crate) struct Assembler {
    path: PathBuf,
    folder: PathBuf,
    /// The assembler's version text.
    pub(crate) version: String,
}

/// A kernel's name, its target architecture, and the hash of its PTX.
pub(crate) type Key = (String, String, String);

/// Existing machine code.
pub(crate) type Known = BTreeMap<Key, Vec<u8>>;

/// Machine code of all kernels, and the assembler's reports of those that are not from [`Known`].
pub(crate) struct Assembled {
    pub(crate) machine_code: Vec<MachineCode>,
    reports: Vec<(Arch, Report)>,
}

/// One run of the assembler.
struct Job<'a> {
    kernel: &'a KernelModule,
    hash: String,
    target: Arch,
}

impl Assembler {
    /// Finds the assembler of this machine.
    pub(crate) fn find(root: &Path) -> Result<Assembler> {
        let path = super::find::ptxas(root)?;
        let output = Command::new(&path).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().find(|line| line.contains("release"));
        let version = version.with_context(|| format!("{}: no version", path.display()))?;
        let folder = target_dir(root).join("xtask-ptxas");
        fs::create_dir_all(&folder)?;
        Ok(Assembler {
            path,
            folder,
            version: version.trim().to_owned(),
        })
    }

    /// Assembles all kernels for the architectures of their set, except known ones. Runs as many assemblers
    /// as there are processors.
    pub(crate) fn assemble(&self, compiled: &Compiled, known: &Known) -> Result<Assembled> {
        let set = &compiled.set;
        let mut kernels = BTreeMap::new();
        for (arch, module) in &compiled.modules {
            kernels.insert(*arch, split(&module.ptx)?);
        }
        let of_target = |&target: &Arch| {
            let kernels = set.ptx_for(target).map(|arch| &kernels[&arch]);
            let job = move |kernel| Job {
                kernel,
                hash: KernelModule::hash(kernel),
                target,
            };
            kernels.into_iter().flatten().map(job)
        };
        let jobs: Vec<Job<'_>> = set.machine_code.iter().flat_map(of_target).collect();

        let assembled = jobs.par_iter().map(|job| -> Result<_> {
            let (kernel, arch) = (job.kernel.name.clone(), job.target);
            let key = (kernel.clone(), arch.to_string(), job.hash.clone());
            let (bytes, report) = match known.get(&key) {
                Some(bytes) => (bytes.clone(), Report::default()),
                None => self.run(job)?,
            };
            let source = job.hash.clone();
            let code = MachineCode {
                kernel,
                arch,
                source,
                bytes,
            };
            Ok((code, (arch, report)))
        });
        let mut done = assembled.collect::<Result<Vec<_>>>()?;
        done.sort_by(|(one, _), (two, _)| (one.arch, &one.kernel).cmp(&(two.arch, &two.kernel)));
        let (machine_code, reports) = done.into_iter().unzip();
        Ok(Assembled {
            machine_code,
            reports,
        })
    }

    fn run(&self, job: &Job<'_>) -> Result<(Vec<u8>, Report)> {
        let worker = rayon::current_thread_index().unwrap_or(0);
        let in_folder = |end: &str| self.folder.join(format!("{worker}.{end}"));
        let (ptx, cubin) = (in_folder("ptx"), in_folder("cubin"));
        fs::write(&ptx, &job.kernel.ptx)?;
        let output = Command::new(&self.path)
            .args(["--verbose", "--warn-on-spills", "--output-file"])
            .arg(&cubin)
            .arg(format!("--gpu-name={}", job.target))
            .arg(&ptx)
            .output()
            .with_context(|| self.path.display().to_string())?;
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let (kernel, target) = (&job.kernel.name, job.target);
        ensure!(
            output.status.success(),
            "{kernel} for {target}: ptxas refuses: {text}"
        );
        Ok((fs::read(&cubin)?, report::parse(&text)))
    }
}

impl Assembled {
    /// Fails with a list of all slow or wrong kernels, if there are any.
    pub(crate) fn refuse_faults(&self) -> Result<()> {
        let faults = self.reports.iter().flat_map(|(arch, report)| {
            let faults = report.faults();
            faults.map(move |fault| format!("{arch}: {fault}"))
        });
        let for_hopper = (self.machine_code.iter()).filter(|code| code.arch == Arch::Sm90a);
        let early = for_hopper.filter_map(|code| entry::fault(&code.kernel, &code.bytes));
        let early = early.map(|fault| format!("{}: {fault}", Arch::Sm90a));
        let faults: Vec<String> = faults.chain(early).collect();
        ensure!(faults.is_empty(), "{}", faults.join("\n"));
        Ok(())
    }

    /// The names of all kernels, each once per architecture.
    pub(super) fn kernels(&self) -> impl Iterator<Item = &str> {
        self.machine_code.iter().map(|code| code.kernel.as_str())
    }

    /// The architectures, each once per kernel.
    pub(super) fn archs(&self) -> impl Iterator<Item = Arch> {
        self.machine_code.iter().map(|code| code.arch)
    }

    /// The resources that a kernel uses.
    pub(super) fn resources(&self, kernel: &str, arch: Arch) -> Option<&Resources> {
        let mut reports = self.reports.iter().filter(|(of, _)| *of == arch);
        reports.find_map(|(_, report)| report.kernels.get(kernel))
    }
}
