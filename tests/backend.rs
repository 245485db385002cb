//! What the tests run on.

use std::sync::{OnceLock, PoisonError, RwLock};

use convfuse::{Arch, Device, EmulatorOptions, Stream};
use libtest_mimic::{Completion, Failed, Trial};

/// Something that carries out cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The float64 reference; only golden files can judge it.
    Reference,
    /// The ndarray backend.
    Cpu,
    /// The GPU's kernels for Hopper, run by the emulator.
    Emulator,
    /// Those for other GPUs.
    EmulatorSm80,
    /// GPU 0.
    Gpu,
}

/// What a test gives.
pub(crate) type Outcome = Result<(), Failed>;

/// What a test does on a backend.
pub(crate) type Test = fn(Backend) -> Outcome;

impl Backend {
    pub(crate) const ALL: [Backend; 4] = [
        Backend::Reference,
        Backend::Cpu,
        Backend::Emulator,
        Backend::Gpu,
    ];

    /// Those that are devices of the library.
    pub(crate) const DEVICES: [Backend; 3] = [Backend::Cpu, Backend::Emulator, Backend::Gpu];

    /// The same, with both architectures of the emulator.
    pub(crate) const ARCHITECTURES: [Backend; 4] = [
        Backend::Cpu,
        Backend::Emulator,
        Backend::EmulatorSm80,
        Backend::Gpu,
    ];

    /// Those that run kernels.
    pub(crate) const KERNELS: [Backend; 2] = [Backend::Emulator, Backend::Gpu];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Reference => "reference",
            Backend::Cpu => "cpu",
            Backend::Emulator => "emulator",
            Backend::EmulatorSm80 => "emulator_sm80",
            Backend::Gpu => "gpu",
        }
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

    /// A stream on which kernels run in another order than usual, where the backend has a say in that.
    pub(crate) fn shuffled_stream(self, seed: u64) -> Result<Stream, Failed> {
        match self {
            Backend::Emulator => Ok(emulator(Some(seed), Arch::Sm90).stream()?),
            _ => self.stream(),
        }
    }

    /// Tests of a group by name, each on each of these backends.
    pub(crate) fn trials(backends: &[Backend], group: &str, tests: &[(&str, Test)]) -> Vec<Trial> {
        let on = |backend: &Backend| {
            let tests = tests.iter();
            let trials = tests.map(|&(name, test)| backend.trial(group, name, test));
            trials.collect::<Vec<_>>()
        };
        backends.iter().flat_map(on).collect()
    }

    /// The test `group::backend::name`. Without a device for it, it reports itself as ignored.
    pub(crate) fn trial(
        self,
        group: &str,
        name: &str,
        test: impl FnOnce(Backend) -> Outcome + Send + 'static,
    ) -> Trial {
        self.trial_with_memory(group, name, 0, test)
    }

    /// The same for a test that holds the device up: no other runs meanwhile, since what some of them do
    /// waits for all of the device, and makes every call of the driver wait for that.
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

    /// The same for a test that needs `bytes` bytes of a GPU's memory.
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

/// Read by tests that share the GPU, written by those that are alone on it.
static COMPANY: RwLock<()> = RwLock::new(());

/// An emulator in which a kernel that crashes fails its test alone.
fn emulator(seed: Option<u64>, arch: Arch) -> Device {
    let mut options = EmulatorOptions::new();
    options.arch = arch;
    options.seed = seed;
    options.catch_signals = true;
    Device::emulator_with(options)
}

/// Why there is no GPU to test on, if there is none.
fn gpu() -> &'static Result<(), String> {
    static GPU: OnceLock<Result<(), String>> = OnceLock::new();
    GPU.get_or_init(|| match convfuse::Device::gpu(0) {
        Ok(_) => Ok(()),
        // A driver without a device, or none: nothing to test. All else is a failure of what is under test.
        Err(error @ (convfuse::Error::NoDriver { .. } | convfuse::Error::NoSuchDevice { .. })) => {
            Err(error.to_string())
        }
        Err(_) => Ok(()),
    })
}
