//! Parses the output of `ptxas --verbose`.

use std::collections::BTreeMap;

/// Numbers of warnings about serialised wgmma: because of the accumulators' registers, and for other
/// reasons.
const SERIALISED_WGMMA: &[&str] = &[
    "C7508", "C7509", "C7510", "C7511", "C7512", "C7513", "C7514",
];

/// The resources of a kernel.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Resources {
    pub(crate) registers: u32,
    pub(crate) shared_bytes: u32,
    stack_bytes: u32,
    spill_bytes: u32,
}

impl Resources {
    pub(crate) fn cell(&self) -> String {
        format!("{}/{}", self.registers, self.shared_bytes)
    }
}

/// The report of one run of the assembler.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) kernels: BTreeMap<String, Resources>,
    serialised: Vec<String>,
}

impl Report {
    /// The faults, one per line.
    pub(crate) fn faults(&self) -> impl Iterator<Item = String> {
        let in_memory = |used: &Resources| used.stack_bytes + used.spill_bytes > 0;
        let memory = self.kernels.iter().filter(move |(_, used)| in_memory(used));
        let memory = memory.map(|(kernel, used)| {
            format!(
                "{kernel}: {} bytes of local memory, {} bytes spilled",
                used.stack_bytes, used.spill_bytes
            )
        });
        memory.chain(self.serialised.iter().cloned())
    }
}

/// Parses the output: a line that names a kernel, then the lines about it.
pub(crate) fn parse(output: &str) -> Report {
    let mut report = Report::default();
    let mut kernel = String::new();
    for line in output.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            report.kernels.entry(kernel.clone()).or_default();
        } else if line.contains("bytes stack frame") {
            // The figures of functions that are not inlined belong to no particular kernel. They are also
            // unwanted, so the largest figure is kept.
            let used = report.kernels.entry(kernel.clone()).or_default();
            let stored = before(line, " bytes spill stores");
            let loaded = before(line, " bytes spill loads");
            used.stack_bytes = used.stack_bytes.max(before(line, " bytes stack frame"));
            used.spill_bytes = used.spill_bytes.max(stored + loaded);
        } else if line.contains("Used ") && line.contains(" registers") {
            let used = report.kernels.entry(kernel.clone()).or_default();
            used.registers = before(line, " registers");
            used.shared_bytes = before(line, " bytes smem");
        } else if SERIALISED_WGMMA.iter().any(|number| line.contains(number)) {
            report.serialised.push(line.trim().to_owned());
        }
    }
    report
}

/// Returns the number before `unit`, or 0 if there is none.
fn before(line: &str, unit: &str) -> u32 {
    let number = line.find(unit).and_then(|end| {
        let head = &line[..end];
        let start = head
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + 1);
        head[start..].parse().ok()
    });
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'clamp_f32' for 'sm_80'
ptxas info    : Function properties for clamp_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 11 registers, used 1 barriers, 132 bytes smem
ptxas info    : Compiling entry function 'scale_f32' for 'sm_80'
ptxas info    : Function properties for scale_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";

    #[test]
    fn registers_and_shared_memory_are_read() {
        let report = parse(CLEAN);
        assert_eq!(report.kernels["clamp_f32"].cell(), "11/132");
        assert_eq!(report.kernels["scale_f32"].cell(), "8/0");
        assert_eq!(report.faults().count(), 0);
    }

    #[test]
    fn stack_frames_and_spills_are_faults() {
        for (clean, fault) in [
            ("0 bytes stack frame", "344 bytes stack frame"),
            ("0 bytes spill stores", "16 bytes spill stores"),
            ("0 bytes spill loads", "4 bytes spill loads"),
        ] {
            let report = parse(&CLEAN.replacen(clean, fault, 1));
            let faults: Vec<_> = report.faults().collect();
            assert_eq!(faults.len(), 1, "{fault}: {faults:?}");
            assert!(faults[0].starts_with("clamp_f32: "), "{faults:?}");
        }
    }

    #[test]
    fn serialised_wgmma_is_a_fault() {
        let warning = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async \
                       instructions are serialized due to insufficient register resources";
        let report = parse(&format!(
            "{CLEAN}{warning} for the wgmma pipeline in 'conv'\n"
        ));
        assert_eq!(report.faults().count(), 1);
    }
}
