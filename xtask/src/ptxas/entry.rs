//! Checks that machine code for Hopper touches no memory before its wait for earlier launches.
//!
//! A launch may start while an earlier one still writes its inputs. Each kernel's PTX begins with the wait,
//! but the assembler reorders instructions, and assumes that loads through the read-only cache may move
//! before the wait.

use object::{Object, ObjectSection};

/// Bytes per instruction. Its lowest 12 bits are the opcode.
const INSTRUCTION: usize = 16;

/// `ACQBULK`, the machine instruction of `griddepcontrol.wait`.
const WAIT: u16 = 0x82e;

/// Instructions allowed before the wait: they read constants and special registers, and move values.
const HARMLESS: [u16; 7] = [
    0xb82, // LDC
    0xab9, // ULDC
    0x919, // S2R
    0x9c3, // S2UR
    0x805, // CS2R
    0x202, // MOV
    0xc82, // UMOV
];

/// The reason why the code of `kernel` in a cubin for sm_90a must not start before its inputs are complete;
/// `None` if it may.
pub(super) fn fault(kernel: &str, cubin: &[u8]) -> Option<String> {
    let file = object::File::parse(cubin).ok();
    let section = file
        .as_ref()
        .and_then(|file| file.section_by_name(&format!(".text.{kernel}")));
    let Some(code) = section.and_then(|section| section.data().ok()) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LDC: u16 = 0xb82;
    const LDG: u16 = 0x981;
    const EXIT: u16 = 0x94d;

    /// An ELF file with the section names and code of these instructions, without predicates.
    fn cubin(opcodes: &[u16]) -> Vec<u8> {
        // Padded to the alignment of the following headers.
        let names = b"\0.names\0.text.k2\0.text.k\0\0\0\0\0\0\0\0";
        let mut code = Vec::new();
        for opcode in opcodes {
            let mut instruction = [0xff; INSTRUCTION];
            instruction[..2].copy_from_slice(&(0x7000 | opcode).to_le_bytes());
            code.extend(instruction);
        }
        let headers = 64 + names.len() + code.len();
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[0x28..0x30].copy_from_slice(&(headers as u64).to_le_bytes());
        for (at, value) in [(0x3a, 64u16), (0x3c, 4), (0x3e, 1)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        file.extend(names);
        file.extend(&code);
        let of_code = (64 + names.len(), code.len());
        // For each section: name offset, type (3 is a string table), file offset and length.
        let sections = [
            (0, 0, (0, 0)),
            (1, 3, (64, names.len())),
            (8, 1, (0, 0)),
            (17, 1, of_code),
        ];
        for (name, kind, (start, len)) in sections {
            let words = [name | kind << 32, 0, 0, start as u64, len as u64, 0, 0, 0];
            file.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
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
        for len in 0..file.len() {
            let cut = fault("k", &file[..len]).expect("something is missing");
            assert!(cut.contains("no code"), "{len}: {cut}");
        }
    }
}
