//! Which of the build's PTX modules a device gets.

use std::ffi::CString;
use std::io::Read;

use lzma_rust2::XzReader;

/// A PTX module of this build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ptx {
    /// What it was compiled for: `sm_80`, or `sm_90a`.
    pub(crate) arch: &'static str,
    /// Its text, compressed by xz.
    pub(crate) compressed: &'static [u8],
}

impl Ptx {
    /// The text, as the driver takes it.
    pub(crate) fn text(&self) -> CString {
        let mut text = Vec::new();
        XzReader::new(self.compressed, false)
            .read_to_end(&mut text)
            .expect("the build script, or `cargo xtask ptx`, compressed it");
        CString::new(text).expect("PTX is text without NUL")
    }
}

/// The compute capability that an architecture name stands for, and whether it runs on that one alone.
///
/// `sm_90a` is Hopper with its architecture-specific instructions, which no other device has, not even a
/// newer one; plain `sm_80` runs on everything from 8.0 on.
fn capability(arch: &str) -> Option<((u32, u32), bool)> {
    let digits = arch.strip_prefix("sm_")?;
    let exact = digits.ends_with('a');
    let number: u32 = digits.trim_end_matches('a').parse().ok()?;
    Some(((number / 10, number % 10), exact))
}

/// The newest module that runs on a device of compute capability `device`.
pub(crate) fn choose(device: (u32, u32), modules: &[Ptx]) -> Option<&Ptx> {
    modules
        .iter()
        .filter_map(|module| Some((capability(module.arch)?, module)))
        .filter(|((needed, exact), _)| {
            if *exact {
                *needed == device
            } else {
                *needed <= device
            }
        })
        .max_by_key(|((needed, exact), _)| (*needed, *exact))
        .map(|(_, module)| module)
}

/// The lowest compute capability that some module supports.
pub(crate) fn lowest(modules: &[Ptx]) -> (u32, u32) {
    let all = modules.iter().filter_map(|module| capability(module.arch));
    all.map(|(needed, _)| needed).min().unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ptx(arch: &'static str) -> Ptx {
        let compressed = &[];
        Ptx { arch, compressed }
    }

    const MODULES: &[Ptx] = &[ptx("sm_80"), ptx("sm_90a")];

    fn chosen(device: (u32, u32)) -> Option<&'static str> {
        choose(device, MODULES).map(|module| module.arch)
    }

    #[test]
    fn every_module_of_this_build_is_text_for_its_architecture() {
        for module in super::super::module::MODULES {
            let text = module.text().into_string().expect("PTX is ASCII");
            let target = format!(".target {}\n", module.arch);
            assert!(text.contains(&target), "{}", module.arch);
        }
    }

    #[test]
    fn hopper_gets_its_own_module() {
        assert_eq!(chosen((9, 0)), Some("sm_90a"));
    }

    #[test]
    fn everything_else_from_ampere_on_gets_the_portable_one() {
        for device in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
            assert_eq!(chosen(device), Some("sm_80"), "{device:?}");
        }
    }

    #[test]
    fn older_devices_get_none() {
        assert_eq!(chosen((7, 5)), None);
        assert_eq!(lowest(MODULES), (8, 0));
    }

    #[test]
    fn newer_plain_modules_win_over_older_ones() {
        let modules = [MODULES[0], MODULES[1], ptx("sm_100")];
        for device in [(12, 0), (10, 0)] {
            let chosen = choose(device, &modules).map(|module| module.arch);
            assert_eq!(chosen, Some("sm_100"));
        }
    }
}
