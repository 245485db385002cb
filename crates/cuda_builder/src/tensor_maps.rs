//! Aligns the tensor maps among a kernel's parameters to 64 bytes, as the driver requires.
//!
//! The compiler aligns no parameter to more than 16 bytes. `#[kernel]` leaves a comment for each
//! `&TensorMap`:
//!
//! ```text
//! //@tensor_map implicit_gemm_wide_halves_f16_param_11
//! ```

use std::collections::BTreeSet;

use crate::{Error, Result};

const MARKER: &str = "//@tensor_map";

/// The compiler's alignment of a map, and the required one.
const ALIGNMENTS: [&str; 2] = [".align 16 ", ".align 64 "];

/// Aligns the parameters that the `//@tensor_map` comments of a PTX module name.
///
/// # Errors
///
/// [`Error::UnknownKernel`] if a comment names no parameter of the module that can be a tensor map.
pub fn align_tensor_maps(ptx: &str) -> Result<String> {
    let named = |line: &str| {
        line.trim()
            .strip_prefix(MARKER)
            .map(|name| name.trim().to_owned())
    };
    let mut maps: BTreeSet<String> = ptx.lines().filter_map(named).collect();
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.lines().filter(|line| named(line).is_none()) {
        let [given, wanted] = ALIGNMENTS;
        // For example `.param .align 16 .b8 k_param_3[128],`.
        let name = line
            .trim()
            .strip_prefix(".param .align 16 .b8 ")
            .and_then(|rest| rest.split_once("[128]"))
            .map(|(name, _)| name);
        match name {
            Some(name) if maps.remove(name) => text += &line.replacen(given, wanted, 1),
            _ => text += line,
        }
        text.push('\n');
    }
    match maps.into_iter().next() {
        Some(unknown) => Err(Error::UnknownKernel(unknown)),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
//@tensor_map k_param_1
.visible .entry k(
\t.param .align 16 .b8 k_param_0[128],
\t.param .align 16 .b8 k_param_1[128]
)
{
}
";

    #[test]
    fn maps_alone_are_aligned() {
        let expected = MODULE
            .replace("//@tensor_map k_param_1\n", "")
            .replace("16 .b8 k_param_1", "64 .b8 k_param_1");
        assert_eq!(align_tensor_maps(MODULE).unwrap(), expected);
        assert_eq!(align_tensor_maps(&expected).unwrap(), expected);
    }

    #[test]
    fn a_map_that_is_no_parameter_of_its_size_is_refused() {
        for wrong in [
            MODULE.replace("map k_param_1", "map k_param_2"),
            MODULE.replace("k_param_1[128]", "k_param_1[64]"),
        ] {
            assert!(align_tensor_maps(&wrong).is_err(), "{wrong}");
        }
    }
}
