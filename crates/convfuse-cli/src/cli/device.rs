//! The option `--device`.

use std::fmt;
use std::str::FromStr;

use convfuse::{Device, DeviceProperties, EmulatorOptions};

use super::out::say;

/// The device requested by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Choice {
    /// GPU 0 if it answers, else the CPU.
    #[default]
    Best,
    Cpu,
    Emulator,
    Gpu(u32),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        match text {
            "best" => Ok(Choice::Best),
            "cpu" => Ok(Choice::Cpu),
            "emulator" => Ok(Choice::Emulator),
            "gpu" => Ok(Choice::Gpu(0)),
            _ => match text.strip_prefix("gpu:").map(str::parse) {
                Some(Ok(ordinal)) => Ok(Choice::Gpu(ordinal)),
                _ => Err(format!(
                    "device is {text}, must be best, cpu, emulator, gpu, or gpu:ORDINAL"
                )),
            },
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Best => f.write_str("best"),
            Choice::Cpu => f.write_str("cpu"),
            Choice::Emulator => f.write_str("emulator"),
            Choice::Gpu(ordinal) => write!(f, "gpu:{ordinal}"),
        }
    }
}

impl Choice {
    /// Opens the device. A fallback to the CPU is explained on standard error.
    pub(super) fn open(self) -> convfuse::Result<Device> {
        match self {
            Choice::Cpu => Ok(Device::cpu()),
            Choice::Emulator => {
                // The command line owns its process, and a signal's error message is more helpful than a
                // crash.
                let mut options = EmulatorOptions::new();
                options.catch_signals = true;
                Ok(Device::emulator_with(options))
            }
            Choice::Gpu(ordinal) => Device::gpu(ordinal),
            Choice::Best => {
                let device = Device::best();
                if let Some(reason) = reason(&device) {
                    say(format_args!("running on the CPU: {reason}"));
                }
                Ok(device)
            }
        }
    }
}

/// The reason, in one line, why the best device is not a GPU; `None` if it is one.
pub(super) fn reason(best: &Device) -> Option<String> {
    Some(first_line(&best.fallback_reason()?.to_string()))
}

/// Returns the first line of an error. A compiler's log follows after it.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches(':').to_owned()
}

/// The device that kernels are selected for: one of this machine, or a named one that need not be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Here(Choice),
    Named(DeviceProperties),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if let Ok(properties) = DeviceProperties::named(text) {
            return Ok(Target::Named(properties));
        }
        let names = DeviceProperties::NAMED.iter().map(|(name, _)| *name);
        let names: Vec<&str> = names.collect();
        let choice = text.parse().map(Target::Here);
        choice.map_err(|error: String| format!("{error}, or one of {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_not_there_have_names() {
        assert_eq!("gpu:1".parse(), Ok(Target::Here(Choice::Gpu(1))));
        let Ok(Target::Named(a100)) = "a100".parse() else {
            panic!("a100 has a name")
        };
        assert_eq!(a100.multiprocessors, 108);
        assert_eq!("NVIDIA A100-SXM4-80GB".parse(), Ok(Target::Named(a100)));
        let refusal = "a1000".parse::<Target>().unwrap_err();
        assert!(refusal.starts_with("device is a1000") && refusal.contains("h200"));
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(first_line("gpu: no driver"), "gpu: no driver");
        let error = convfuse::Error::NoDriver {
            reason: "not found:\nlog\n".to_owned(),
        };
        assert_eq!(first_line(&error.to_string()), "gpu: not found");
        assert_eq!(Device::best().is_cpu(), reason(&Device::best()).is_some());
        assert_eq!(reason(&Device::cpu()), None);
    }

    #[test]
    fn names_of_devices() {
        use Choice::{Best, Cpu, Emulator, Gpu};
        let named = [
            ("best", Best),
            ("cpu", Cpu),
            ("emulator", Emulator),
            ("gpu:3", Gpu(3)),
        ];
        for (name, choice) in named {
            assert_eq!((name.parse(), &*choice.to_string()), (Ok(choice), name));
        }
        assert_eq!("gpu".parse(), Ok(Gpu(0)));
        assert!(
            ["gpu:", "tpu"]
                .iter()
                .all(|name| name.parse::<Choice>().is_err())
        );
    }
}
