//! The backends of the tests.

use std::sync::{OnceLock, PoisonError, RwLock};

use convfuse::{Arch, Device, EmulatorOptions, Stream};
use libtest_mimic::{Completion, Failed, Trial};

/// A backend that executes cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The float64 reference, compared only with golden files.
    Reference,
    /// The CPU backend.
    Cpu,
    /// The GPU's kernels for Hopper, run by the emulator.
    Emulator,
    /// The kernels for other GPUs, run by the emulator.
    EmulatorSm80,
    /// GPU 0.
    Gpu,
}

/// The result of a test.
pub(crate) type Outcome = Result<(), Failed>;

/// A test on a backend.
pub(crate) type Test = fn(Backend) -> Outcome;

impl Backend {
    pub(crate) const ALL: [Backend; 5] = [
        Backend::Reference,
        Backend::Cpu,
        Backend::Emulator,
        Backend::EmulatorSm80,
        Backend::Gpu,
    ];

    /// The backends that are devices of the library.
    pub(crate) const DEVICES: [Backend; 3] = [Backend::Cpu, Backend::Emulator, Backend::Gpu];

    /// The same backends, with both architectures of the emulator.
    pub(crate) const ARCHITECTURES: [Backend; 4] = [
        Backend::Cpu,
        Backend::Emulator,
        Backend::EmulatorSm80,
        Backend::Gpu,
    ];

    /// The backends that run kernels.
    pub(crate) const KERNELS: [Backend; 2] = [Backend::Emulator, Backend::Gpu];

    /// The same backends, with both architectures of the emulator.
    pub(crate) const KERNELS_OF_ALL: [Backend; 3] =
        [Backend::Emulator, Backend::EmulatorSm80, Backend::Gpu];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Reference => "reference",
            Backend::Cpu => "cpu",
            Backend::Emulator => "emulator",
            Backend::EmulatorSm80 => "emulator_sm80",
            Backend::Gpu => "gpu",
        }
    }

    /// Whether the backend is the emulator, of whichever architecture.
    pub(crate) fn is_emulator(self) -> bool {
        matches!(self, Backend::Emulator | Backend::EmulatorSm80)
    }

    /// A stream on the backend's device.
    pub(crate) fn stream(self) -> Result<Stream, Failed> {
        Ok(self.device()?.stream()?)
    }

    /// The backend's device.
    pub(crate) fn device(self) -> Result<Device, Failed> {
        match self {
            Backend::Reference => Err("the reference is no device".into()),
            Backend::Cpu => Ok(Device::cpu()),
            Backend::Emulator => Ok(emulator(None, Arch::Sm90)),
            Backend::EmulatorSm80 => Ok(emulator(None, Arch::Sm80)),
            Backend::Gpu => Ok(Device::gpu(0)?),
        }
    }

    /// A stream with another execution order of kernels, if the backend supports one.
    pub(crate) fn shuffled_stream(self, seed: u64) -> Result<Stream, Failed> {
        match self {
            Backend::Emulator => Ok(emulator(Some(seed), Arch::Sm90).stream()?),
            Backend::EmulatorSm80 => Ok(emulator(Some(seed), Arch::Sm80).stream()?),
            _ => self.stream(),
        }
    }

    /// The tests of a group by name, each on each of these backends.
    pub(crate) fn trials(backends: &[Backend], group: &str, tests: &[(&str, Test)]) -> Vec<Trial> {
        let on = |backend: &Backend| {
            let tests = tests.iter();
            let trials = tests.map(|&(name, test)| backend.trial(group, name, test));
            trials.collect::<Vec<_>>()
        };
        backends.iter().flat_map(on).collect()
    }

    /// The test `group::backend::name`. Without its device, it is reported as ignored.
    pub(crate) fn trial(
        self,
        group: &str,
        name: &str,
        test: impl FnOnce(Backend) -> Outcome + Send + 'static,
    ) -> Trial {
        self.trial_with_memory(group, name, 0, test)
    }

    /// As [`trial`](Backend::trial), for a test that blocks the device. It runs alone: other tests may wait
    /// for the whole device, which makes every driver call wait.
    pub(crate) fn trial_alone(
        self,
        group: &str,
        name: &str,
        test: impl FnOnce(Backend) -> Outcome + Send + 'static,
    ) -> Trial {
        let by_itself = |this| {
            let alone = COMPANY.write().unwrap_or_else(PoisonError::into_inner);
            let outcome = test(this);
            drop(alone);
            outcome
        };
        self.ignorable(group, name, 0, by_itself)
    }

    /// As [`trial`](Backend::trial), for a test that needs `bytes` bytes of GPU memory.
    pub(crate) fn trial_with_memory(
        self,
        group: &str,
        name: &str,
        bytes: u64,
        test: impl FnOnce(Backend) -> Outcome + Send + 'static,
    ) -> Trial {
        let in_company = |this: Backend| {
            let company = (this == Backend::Gpu)
                .then(|| COMPANY.read().unwrap_or_else(PoisonError::into_inner));
            let outcome = test(this);
            drop(company);
            outcome
        };
        self.ignorable(group, name, bytes, in_company)
    }

    fn ignorable(
        self,
        group: &str,
        name: &str,
        bytes: u64,
        test: impl FnOnce(Backend) -> Outcome + Send + 'static,
    ) -> Trial {
        Trial::ignorable_test(format!("{group}::{}::{name}", self.name()), move || {
            if let (Backend::Gpu, Err(reason)) = (self, gpu()) {
                if std::env::var_os("CONVFUSE_REQUIRE_GPU").is_some() {
                    return Err(format!("CONVFUSE_REQUIRE_GPU is set, but {reason}").into());
                }
                return Ok(Completion::ignored_with(reason));
            }
            if self == Backend::Gpu && Device::gpu(0)?.info().memory_bytes < Some(bytes) {
                return Ok(Completion::ignored_with("the GPU has too little memory"));
            }
            test(self).map(|()| Completion::Completed)
        })
    }
}

/// Tests that share the GPU take it for reading, tests that need the GPU alone for writing.
static COMPANY: RwLock<()> = RwLock::new(());

/// An emulator in which a crashing kernel fails only its own test.
fn emulator(seed: Option<u64>, arch: Arch) -> Device {
    let mut options = EmulatorOptions::new();
    options.arch = arch;
    options.seed = seed;
    options.catch_signals = true;
    Device::emulator_with(options)
}

/// The reason why there is no GPU, if there is none.
fn gpu() -> &'static Result<(), String> {
    static GPU: OnceLock<Result<(), String>> = OnceLock::new();
    GPU.get_or_init(|| match convfuse::Device::gpu(0) {
        Ok(_) => Ok(()),
        // Without a driver or a device there is nothing to test. Other errors are failures of the tested
        // library.
        Err(error @ (convfuse::Error::NoDriver { .. } | convfuse::Error::NoSuchDevice { .. })) => {
            Err(error.to_string())
        }
        Err(_) => Ok(()),
    })
}
