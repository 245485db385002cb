//! Machine code of all kernels, each assembled by itself.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_builder::{Arch, KernelModule, MachineCode, split};

use super::entry;
use super::report::{self, Report, Resources};
use crate::ptx::Compiled;

/// An assembler, and where it works.
pub(crate) struct Assembler {
    path: PathBuf,
    folder: PathBuf,
    /// What it calls itself.
    pub(crate) version: String,
}

/// What is known already: machine code by kernel, architecture, and hash of the PTX.
pub(crate) type Known = BTreeMap<(String, Arch, String), Vec<u8>>;

/// Machine code of all kernels, and what the assembler said of those that are not from [`Known`].
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
    /// The assembler of this machine.
    pub(crate) fn find(root: &Path) -> Result<Assembler, Box<dyn Error>> {
        let path = super::find::ptxas(root)?;
        let output = Command::new(&path).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().find(|line| line.contains("release"));
        let version = version.ok_or_else(|| format!("{}: no version", path.display()))?;
        let folder = crate::ptx::target_dir(root).join("xtask-ptxas");
        fs::create_dir_all(&folder)?;
        Ok(Assembler {
            path,
            folder,
            version: version.trim().to_owned(),
        })
    }

    /// Assembles all kernels for the architectures of their set, but those that are known, as many at a time
    /// as there are processors.
    pub(crate) fn assemble(
        &self,
        compiled: &Compiled,
        known: &Known,
    ) -> Result<Assembled, Box<dyn Error>> {
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

        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = |worker: usize| -> Result<(), String> {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let key = (job.kernel.name.clone(), job.target, job.hash.clone());
                let (bytes, report) = match known.get(&key) {
                    Some(bytes) => (bytes.clone(), Report::default()),
                    None => self.run(job, worker)?,
                };
                let code = MachineCode {
                    kernel: job.kernel.name.clone(),
                    arch: job.target,
                    source: job.hash.clone(),
                    bytes,
                };
                let mut done = done.lock().map_err(|error| error.to_string())?;
                done.push((code, report));
            }
            Ok(())
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> = (0..workers)
                .map(|worker| scope.spawn(move || work(worker)))
                .collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().try_for_each(join)
        })?;
        let mut done = done.into_inner().unwrap_or_default();
        done.sort_by(|(one, _), (two, _)| (one.arch, &one.kernel).cmp(&(two.arch, &two.kernel)));
        let report = |(code, report): (MachineCode, Report)| {
            let arch = code.arch;
            (code, (arch, report))
        };
        let (machine_code, reports) = done.into_iter().map(report).unzip();
        Ok(Assembled {
            machine_code,
            reports,
        })
    }

    fn run(&self, job: &Job<'_>, worker: usize) -> Result<(Vec<u8>, Report), String> {
        let in_folder = |end: &str| self.folder.join(format!("{worker}.{end}"));
        let (ptx, cubin) = (in_folder("ptx"), in_folder("cubin"));
        let named = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        fs::write(&ptx, &job.kernel.ptx).map_err(named)?;
        let output = Command::new(&self.path)
            .args(["--verbose", "--warn-on-spills", "--output-file"])
            .arg(&cubin)
            .arg(format!("--gpu-name={}", job.target))
            .arg(&ptx)
            .output()
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let (kernel, target) = (&job.kernel.name, job.target);
            return Err(format!("{kernel} for {target}: ptxas refuses: {text}"));
        }
        Ok((fs::read(&cubin).map_err(named)?, report::parse(&text)))
    }
}

impl Assembled {
    /// An error that names what would be slow, or wrong, if anything would.
    pub(crate) fn refuse_faults(&self) -> Result<(), String> {
        let faults = self.reports.iter().flat_map(|(arch, report)| {
            let faults = report.faults();
            faults.map(move |fault| format!("{arch}: {fault}"))
        });
        let for_hopper = (self.machine_code.iter()).filter(|code| code.arch == Arch::Sm90a);
        let early = for_hopper.filter_map(|code| entry::fault(&code.kernel, &code.bytes));
        let early = early.map(|fault| format!("{}: {fault}", Arch::Sm90a));
        let faults: Vec<String> = faults.chain(early).collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("\n"))
        }
    }

    /// The names of all kernels, each once per architecture.
    pub(super) fn kernels(&self) -> impl Iterator<Item = &str> {
        self.machine_code.iter().map(|code| code.kernel.as_str())
    }

    /// The architectures, each once per kernel.
    pub(super) fn archs(&self) -> impl Iterator<Item = Arch> {
        self.machine_code.iter().map(|code| code.arch)
    }

    /// What a kernel uses.
    pub(super) fn resources(&self, kernel: &str, arch: Arch) -> Option<&Resources> {
        let mut reports = self.reports.iter().filter(|(of, _)| *of == arch);
        reports.find_map(|(_, report)| report.kernels.get(kernel))
    }
}
