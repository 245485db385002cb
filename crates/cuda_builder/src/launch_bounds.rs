//! Launch bounds: converts a kernel's declaration to directives of its PTX entry.
//!
//! Rust cannot attach `.maxntid` and `.minnctapersm` to a function, and without them `ptxas` may give a
//! thread more registers than a full block can have. `#[kernel(max_threads = .., min_blocks = ..)]` leaves
//! a comment in the module's assembly, which the compiler copies unchanged:
//!
//! ```text
//! //@launch_bounds conv_direct_d2_wide_f32 256 2
//! ```
//!
//! with 0 for a bound that was not declared, and a third number for the blocks of a cluster. This module
//! replaces the comment by the directives.

use std::collections::BTreeMap;

use crate::{Error, Result};

const MARKER: &str = "//@launch_bounds";

/// The largest block of any device, in threads.
const MAX_BLOCK_THREADS: u32 = 1024;

/// The largest cluster that every device with clusters can launch.
const MAX_CLUSTER_BLOCKS: u32 = 8;

struct Bounds {
    max_threads: u32,
    min_blocks: u32,
    cluster_blocks: u32,
}

/// Replaces the `//@launch_bounds` comments of a PTX module by directives on its entries.
///
/// # Errors
///
/// [`Error::LaunchBounds`] for a comment that cannot be read, that is given twice, that has more threads
/// than a block can have, or that has blocks without threads; [`Error::UnknownKernel`] if it names no entry
/// of the module.
pub fn apply_launch_bounds(ptx: &str) -> Result<String> {
    let mut bounds = BTreeMap::new();
    for line in ptx.lines().map(str::trim) {
        if let Some(declaration) = line.strip_prefix(MARKER) {
            let refuse = |reason| Error::LaunchBounds {
                line: line.into(),
                reason,
            };
            let (kernel, declared) = parse(declaration).map_err(refuse)?;
            if bounds.insert(kernel, declared).is_some() {
                return Err(refuse("the kernel has bounds already"));
            }
        }
    }

    let mut text = String::with_capacity(ptx.len() + 64 * bounds.len());
    let mut pending = None;
    for line in ptx.lines() {
        if line.trim().starts_with(MARKER) {
            continue;
        }
        if let Some(kernel) = entry_name(line) {
            pending = bounds.remove(kernel);
        }
        // The parameter list ends, and the body begins, with a brace on a line of its own.
        if line == "{"
            && let Some(bounds) = pending.take()
        {
            bounds.write_to(&mut text);
        }
        text += line;
        text.push('\n');
    }
    match bounds.into_keys().next() {
        Some(unknown) => Err(Error::UnknownKernel(unknown.into())),
        None => Ok(text),
    }
}

fn parse(declaration: &str) -> Result<(&str, Bounds), &'static str> {
    let fields: Vec<_> = declaration.split_whitespace().collect();
    let (kernel, max_threads, min_blocks, cluster_blocks) = match fields[..] {
        [kernel, threads, blocks] => (kernel, threads, blocks, "0"),
        [kernel, threads, blocks, cluster] => (kernel, threads, blocks, cluster),
        _ => return Err("expected a kernel, its threads, its blocks, and perhaps its cluster"),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| "not a number");
    let bounds = Bounds {
        max_threads: number(max_threads)?,
        min_blocks: number(min_blocks)?,
        cluster_blocks: number(cluster_blocks)?,
    };
    if bounds.max_threads > MAX_BLOCK_THREADS {
        return Err("a block has at most 1024 threads");
    }
    if bounds.min_blocks > 0 && bounds.max_threads == 0 {
        return Err("min_blocks needs max_threads");
    }
    if bounds.cluster_blocks > MAX_CLUSTER_BLOCKS {
        return Err("a portable cluster has at most 8 blocks");
    }
    Ok((kernel, bounds))
}

impl Bounds {
    fn write_to(&self, text: &mut String) {
        if self.max_threads > 0 {
            *text += &format!(".maxntid {}, 1, 1\n", self.max_threads);
        }
        if self.min_blocks > 0 {
            *text += &format!(".minnctapersm {}\n", self.min_blocks);
        }
        if self.cluster_blocks > 1 {
            *text += ".explicitcluster\n";
            *text += &format!(".reqnctapercluster {}, 1, 1\n", self.cluster_blocks);
        }
    }
}

/// Returns the name of the kernel whose parameter list starts on this line.
fn entry_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(".entry ")?;
    let end = rest.find('(')?;
    Some(rest[..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 8.0
//@launch_bounds clamp 256 2
//@launch_bounds clamp_all 0 0

.visible .entry clamp(
\t.param .u64 clamp_param_0
)
{
\tret;
}
.visible .entry clamp_all()
{
\t{
\tret;
\t}
}
.func helper()
{
}
";

    #[test]
    fn bounds_stand_between_parameters_and_body_of_their_kernel_alone() {
        let declared = "//@launch_bounds clamp 256 2\n//@launch_bounds clamp_all 0 0\n";
        let expected = MODULE.replace(declared, "");
        let expected = expected.replace(
            ")\n{\n\tret",
            ")\n.maxntid 256, 1, 1\n.minnctapersm 2\n{\n\tret",
        );
        assert_eq!(apply_launch_bounds(MODULE).unwrap(), expected);
    }

    #[test]
    fn bounds_without_blocks_and_of_clusters_give_their_own_directives() {
        let clusters = ".minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n";
        for (declared, threads, others) in [("1024 0", 1024, ""), ("384 1 2", 384, clusters)] {
            let text = apply_launch_bounds(&MODULE.replace("256 2", declared)).unwrap();
            let directives = format!("\n)\n.maxntid {threads}, 1, 1\n{others}{{");
            assert!(text.contains(&directives), "{text}");
        }
    }

    #[test]
    fn bounds_on_an_unknown_kernel_are_refused() {
        let error = apply_launch_bounds(&MODULE.replace("bounds clamp ", "bounds clump "));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "launch bounds: clump is not an entry of the module");
    }

    #[test]
    fn bounds_that_make_no_sense_are_refused() {
        for (declared, reason) in [
            ("clamp 2048 1", "at most 1024"),
            ("clamp 0 1", "needs max_threads"),
            ("clamp 256", "expected a kernel"),
            ("clamp 256 two", "not a number"),
            ("clamp 256 1 16", "at most 8 blocks"),
            ("clamp_all 32 1", "already"),
        ] {
            let error = apply_launch_bounds(&MODULE.replace("clamp 256 2", declared));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
