//! The kernels that this build carries, and the choice of them for a device.
//!
//! A build has each kernel as PTX, which the driver compiles, and as machine code for some architectures.
//! Machine code is used only if it was made from the same PTX as this build's.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kernel_archive::{Archive, Entry};

use crate::device::info::Carried;

/// The architectures for which this build has PTX.
const ARCHS: [&str; 2] = ["sm_80", "sm_90a"];

/// The PTX: compiled by the build script, or carried by the repository.
static PTX_FILE: &[u8] = include_bytes!(env!("CONVFUSE_PTX"));
static PTX: LazyLock<Archive<'static>> = LazyLock::new(|| open(PTX_FILE));

/// The machine code that the repository carries.
static MACHINE_CODE_FILE: &[u8] = include_bytes!(env!("CONVFUSE_MACHINE_CODE"));
static MACHINE_CODE: LazyLock<Archive<'static>> = LazyLock::new(|| open(MACHINE_CODE_FILE));

/// The origin of this build's PTX, in words.
pub(crate) const ORIGIN: &str = env!("CONVFUSE_PTX_ORIGIN");

fn open(file: &'static [u8]) -> Archive<'static> {
    Archive::open(file).expect("the build script, or `cargo xtask ptx`, made it")
}

/// Decompressed kernels by the address of their entry, kept for the life of the process, because its devices
/// load the same few kernels.
static READ: LazyLock<Mutex<HashMap<usize, Arc<[u8]>>>> = LazyLock::new(Mutex::default);

fn read(archive: &Archive<'static>, entry: &'static Entry) -> Arc<[u8]> {
    let key = std::ptr::from_ref(entry).addr();
    let known = |read: &HashMap<usize, Arc<[u8]>>| read.get(&key).cloned();
    let lock = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = known(&lock()) {
        return bytes;
    }
    // Decompress outside of the lock, so that threads can decompress other kernels.
    let bytes = archive.read(entry);
    let bytes = bytes.expect("the build script, or `cargo xtask ptx`, made it");
    Arc::clone(lock().entry(key).or_insert_with(|| bytes.into()))
}

/// The kernels for one kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernels {
    capability: (u32, u32),
    /// The architecture of the PTX.
    arch: &'static str,
}

/// One kernel for one kind of device.
pub(crate) struct Kernel {
    kernels: Kernels,
    entry: &'static Entry,
}

impl Kernels {
    /// The kernels for a device of this compute capability, if this build has any.
    pub(crate) fn of(capability: (u32, u32)) -> Option<Kernels> {
        let arch = ARCHS[choose(capability, ARCHS, runs_ptx)?];
        Some(Kernels { capability, arch })
    }

    /// The lowest compute capability of this build's kernels.
    pub(crate) fn lowest() -> (u32, u32) {
        let all = ARCHS.into_iter().filter_map(parse);
        all.map(|(needed, _)| needed).min().unwrap_or((0, 0))
    }

    /// The device's compute capability.
    pub(crate) fn capability(self) -> (u32, u32) {
        self.capability
    }

    /// The architecture of the PTX, such as `sm_90a`.
    pub(crate) fn arch(self) -> &'static str {
        self.arch
    }

    /// The kernel of this name.
    pub(crate) fn find(self, name: &str) -> Option<Kernel> {
        let kernels = self;
        let entry = PTX.find(name, self.arch)?;
        Some(Kernel { kernels, entry })
    }
}

impl Kernel {
    /// A hash of the PTX.
    pub(crate) fn source(&self) -> &'static str {
        &self.entry.source
    }

    /// The PTX as a C string, for the driver.
    pub(crate) fn ptx(&self) -> CString {
        let text = read(&PTX, self.entry);
        CString::new(&*text).expect("PTX is text without NUL")
    }

    /// Machine code for the device, and its architecture: the device's own, else the nearest older one.
    pub(crate) fn machine_code(&self) -> Option<(&'static str, Arc<[u8]>)> {
        let entries = MACHINE_CODE.entries().iter();
        let same =
            |entry: &&Entry| entry.kernel == self.entry.kernel && entry.source == self.entry.source;
        let entries: Vec<&'static Entry> = entries.filter(same).collect();
        let archs = entries.iter().map(|entry| entry.arch.as_str());
        let chosen = entries[choose(self.kernels.capability, archs, runs_machine_code)?];
        Some((&chosen.arch, read(&MACHINE_CODE, chosen)))
    }
}

/// Parses an architecture's name into its compute capability, and whether its code runs on that capability
/// alone.
///
/// `sm_90a` is Hopper with its architecture-specific instructions, which no other device has, not even a
/// newer one.
fn parse(arch: &str) -> Option<((u32, u32), bool)> {
    let digits = arch.strip_prefix("sm_")?;
    let exact = digits.ends_with('a');
    let number: u32 = digits.trim_end_matches('a').parse().ok()?;
    Some(((number / 10, number % 10), exact))
}

/// Whether a device runs PTX for `needed`: all devices of at least that compute capability do.
fn runs_ptx(device: (u32, u32), needed: (u32, u32)) -> bool {
    needed <= device
}

/// Whether a device runs machine code for `needed`: within a generation, newer devices run older code.
fn runs_machine_code(device: (u32, u32), needed: (u32, u32)) -> bool {
    needed.0 == device.0 && needed.1 <= device.1
}

/// The index of the newest architecture that runs on a device of this compute capability.
fn choose<'a>(
    device: (u32, u32),
    archs: impl IntoIterator<Item = &'a str>,
    runs: fn((u32, u32), (u32, u32)) -> bool,
) -> Option<usize> {
    let parsed = archs.into_iter().map(parse).enumerate();
    parsed
        .filter_map(|(index, arch)| Some((index, arch?)))
        .filter(|(_, (needed, exact))| {
            if *exact {
                *needed == device
            } else {
                runs(device, *needed)
            }
        })
        .max_by_key(|&(_, (needed, exact))| (needed, exact))
        .map(|(index, _)| index)
}

/// The names of the kernels for an architecture, such as `sm_80`.
#[cfg(all(feature = "lab", feature = "emulator"))]
pub(crate) fn names(arch: &str) -> impl Iterator<Item = &'static str> {
    let entries = PTX.entries().iter();
    entries
        .filter(move |entry| entry.arch == arch)
        .map(|entry| &*entry.kernel)
}

/// A description of the kernels that this build carries.
pub(crate) fn carried() -> Vec<Carried> {
    // Machine code that was made from other PTX is not used, and not counted.
    let has_ptx = |code: &Entry| {
        let of_kernel = ARCHS.iter().filter_map(|arch| PTX.find(&code.kernel, arch));
        of_kernel.into_iter().any(|ptx| ptx.source == code.source)
    };
    let mut carried = summary("PTX", &PTX, PTX_FILE.len(), |_| true);
    carried.extend(summary(
        "machine code",
        &MACHINE_CODE,
        MACHINE_CODE_FILE.len(),
        has_ptx,
    ));
    carried
}

/// Summarises an archive by architecture. Each gets a share of the file's bytes, because they share sections.
fn summary(
    what: &'static str,
    archive: &Archive<'_>,
    file_bytes: usize,
    is_used: impl Fn(&Entry) -> bool,
) -> Vec<Carried> {
    let all: usize = archive.entries().iter().map(Entry::len).sum();
    let mut archs: BTreeMap<(u32, u32), Carried> = BTreeMap::new();
    for entry in archive.entries() {
        let (number, _) = parse(&entry.arch).unwrap_or_default();
        let carried = archs.entry(number).or_insert_with(|| Carried {
            what,
            arch: entry.arch.clone(),
            kernels: 0,
            bytes: 0,
        });
        carried.bytes += entry.len();
        carried.kernels += usize::from(is_used(entry));
    }
    let of_file = |carried: Carried| Carried {
        bytes: file_bytes * carried.bytes / all.max(1),
        ..carried
    };
    archs.into_values().map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_this_build_is_a_module_for_its_architecture() {
        for arch in ARCHS {
            let (capability, _) = parse(arch).unwrap();
            let kernels = Kernels::of(capability).unwrap();
            assert_eq!(kernels.arch(), arch);
            let own: Vec<&Entry> = PTX
                .entries()
                .iter()
                .filter(|entry| entry.arch == arch)
                .collect();
            for entry in [own[0], own[own.len() - 1]] {
                let text = kernels.find(&entry.kernel).unwrap().ptx();
                let text = text.into_string().expect("PTX is ASCII");
                let head = format!(".target {arch}\n");
                let entry = format!(".entry {}(", entry.kernel);
                assert!(text.contains(&head) && text.contains(&entry), "{entry}");
            }
            assert!(kernels.find("no_such_kernel").is_none());
        }
    }

    /// A build that compiled its own PTX may not match the PTX of the carried machine code.
    #[test]
    fn machine_code_is_an_elf_file_for_the_device() {
        for (capability, carried) in [
            ((8, 0), (8, 0)),
            ((8, 6), (8, 0)),
            ((9, 0), (9, 0)),
            ((12, 0), (12, 0)),
        ] {
            let kernels = Kernels::of(capability).unwrap();
            let kernel = kernels.find("scale_f32").unwrap();
            if let Some((arch, code)) = kernel.machine_code() {
                assert_eq!(parse(arch).unwrap().0, carried);
                assert!(code.starts_with(b"\x7fELF"), "{arch}");
            }
        }
    }

    #[test]
    fn hopper_has_ptx_of_its_own_and_every_other_device_from_ampere_on_the_portable_one() {
        for device in [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            let wanted = if device == (9, 0) { "sm_90a" } else { "sm_80" };
            assert_eq!(Kernels::of(device).unwrap().arch(), wanted, "{device:?}");
        }
        assert_eq!(Kernels::of((7, 5)), None);
        assert_eq!(Kernels::lowest(), (8, 0));
    }

    #[test]
    fn newer_plain_architectures_win_over_older_ones() {
        for device in [(12, 0), (10, 0)] {
            let chosen = choose(device, ["sm_80", "sm_90a", "sm_100"], runs_ptx);
            assert_eq!(chosen, Some(2));
        }
    }

    #[test]
    fn machine_code_stays_within_its_generation() {
        let archs = ["sm_80", "sm_86", "sm_90a", "sm_100"];
        let chosen = |device| choose(device, archs, runs_machine_code).map(|index| archs[index]);
        assert_eq!(chosen((8, 0)), Some("sm_80"));
        assert_eq!(chosen((8, 9)), Some("sm_86"));
        assert_eq!(chosen((9, 0)), Some("sm_90a"));
        assert_eq!(chosen((10, 3)), Some("sm_100"));
        assert_eq!(chosen((12, 0)), None);
    }
}
