//! The capabilities of devices. There are four kinds, which repeat:
//!
//! | ordinal modulo 4 | compute capability | pools of memory | modules that it loads |
//! |---|---|---|---|
//! | 0 | 9.0 | yes | PTX, and what its linker makes of it; refuses other machine code |
//! | 1 | 8.0 | yes | machine code, PTX |
//! | 2 | 8.0 | no | PTX; has no linker, and refuses machine code |
//! | 3 | 9.0 | yes | machine code, PTX |

pub(crate) fn is_hopper(ordinal: u32) -> bool {
    matches!(ordinal % 4, 0 | 3)
}

pub(crate) fn has_pools(ordinal: u32) -> bool {
    ordinal % 4 != 2
}

pub(crate) fn has_linker(ordinal: u32) -> bool {
    ordinal % 4 != 2
}

pub(crate) fn takes_machine_code(ordinal: u32) -> bool {
    matches!(ordinal % 4, 1 | 3)
}

/// Returns the maximum shared memory of a block, in bytes.
pub(crate) fn shared_bytes(ordinal: u32) -> u32 {
    if is_hopper(ordinal) { 232_448 } else { 166_912 }
}
