//! What machine code for Hopper does before it waits for the launches before it: nothing that touches memory.
//!
//! A launch may start while the one before it still writes what it will read. Each kernel's PTX begins with
//! the wait, but the assembler puts instructions into an order of its own, and takes loads by the read-only
//! cache for ones that nothing needs to come before.

/// Bytes of an instruction. Its lowest 12 bits are the opcode.
const INSTRUCTION: usize = 16;

/// `ACQBULK`, which `griddepcontrol.wait` becomes.
const WAIT: u16 = 0x82e;

/// Instructions that may stand before it: they read constants and special registers, and move.
const HARMLESS: [u16; 7] = [
    0xb82, // LDC
    0xab9, // ULDC
    0x919, // S2R
    0x9c3, // S2UR
    0x805, // CS2R
    0x202, // MOV
    0xc82, // UMOV
];

/// Why the code of `kernel`, a file of the assembler's for sm_90a, must not be launched before what it reads
/// is there.
pub(super) fn fault(kernel: &str, cubin: &[u8]) -> Option<String> {
    let Some(code) = section(cubin, &format!(".text.{kernel}")) else {
        return Some(format!("{kernel}: no code that can be read"));
    };
    let opcode = |instruction: &[u8]| u16::from_le_bytes([instruction[0], instruction[1]]) & 0xfff;
    let mut opcodes = code.chunks_exact(INSTRUCTION).map(opcode);
    match opcodes.find(|opcode| !HARMLESS.contains(opcode)) {
        Some(WAIT) => None,
        Some(other) => Some(format!(
            "{kernel}: an instruction with opcode {other:#x} stands before the wait for earlier launches"
        )),
        None => Some(format!("{kernel}: no wait for earlier launches")),
    }
}

/// The bytes of a section of a 64-bit ELF file, by its name.
fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    file.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (headers, size) = (number(0x28, 8)?, number(0x3a, 2)?);
    let (count, names) = (number(0x3c, 2)?, number(0x3e, 2)?);
    let header = |index: usize| headers.checked_add(index.checked_mul(size)?);
    let content = |header: usize| {
        let (start, len) = (number(header + 0x18, 8)?, number(header + 0x20, 8)?);
        file.get(start..start.checked_add(len)?)
    };
    let texts = content(header(names)?)?;
    let is_called = |header: &usize| {
        let text = number(*header, 4).and_then(|at| texts.get(at..));
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    };
    content((0..count).filter_map(header).find(is_called)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LDC: u16 = 0xb82;
    const LDG: u16 = 0x981;
    const EXIT: u16 = 0x94d;

    /// A file with the section names, and code of these instructions that all threads do.
    fn cubin(opcodes: &[u16]) -> Vec<u8> {
        let names = b"\0.names\0.text.k2\0.text.k\0";
        let mut code = Vec::new();
        for opcode in opcodes {
            let mut instruction = [0xff; INSTRUCTION];
            instruction[..2].copy_from_slice(&(0x7000 | opcode).to_le_bytes());
            code.extend(instruction);
        }
        let headers = 64 + names.len() + code.len();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x28..0x30].copy_from_slice(&(headers as u64).to_le_bytes());
        for (at, value) in [(0x3a, 64u16), (0x3c, 4), (0x3e, 1)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        file.extend(names);
        file.extend(&code);
        let of_code = (64 + names.len(), code.len());
        let sections = [
            (0, (0, 0)),
            (1, (64, names.len())),
            (8, (0, 0)),
            (17, of_code),
        ];
        for (name, (start, len)) in sections {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::to_le_bytes(name));
            header[0x18..0x20].copy_from_slice(&(start as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(len as u64).to_le_bytes());
            file.extend(header);
        }
        file
    }

    #[test]
    fn code_that_waits_first_is_taken() {
        assert_eq!(fault("k", &cubin(&[LDC, WAIT, LDG, EXIT])), None);
    }

    #[test]
    fn loads_before_the_wait_are_faults() {
        let fault = fault("k", &cubin(&[LDC, LDG, WAIT, EXIT])).unwrap();
        assert!(
            fault.starts_with("k: an instruction with opcode 0x981 "),
            "{fault}"
        );
    }

    #[test]
    fn code_without_a_wait_or_that_is_none_is_a_fault() {
        assert!(fault("k", &cubin(&[LDC])).unwrap().contains("no wait"));
        assert!(fault("k", &cubin(&[LDC, EXIT])).unwrap().contains("0x94d"));
        assert!(fault("k", &cubin(&[])).unwrap().contains("no wait"));
        let file = cubin(&[LDC, WAIT]);
        assert!(fault("j", &file).unwrap().contains("no code"));
        // The last 24 bytes of a section's header are not read, and the code's header is the last.
        for len in 0..file.len() - 24 {
            let cut = fault("k", &file[..len]).expect("something is missing");
            assert!(cut.contains("no code"), "{len}: {cut}");
        }
    }
}
