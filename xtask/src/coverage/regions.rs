//! Reads the regions of the kernels' sources from `llvm-cov export`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::choices::{Choice, Position, choices};

/// A piece of source: its file (relative to the sources' folder), lines and columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region {
    pub(super) file: String,
    pub(super) start: Position,
    pub(super) end: Position,
}

/// The coverage of a region in an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing {
    /// The instance's constants exclude the region.
    Excluded,
    /// The instance contains the region, but it never ran.
    Missed,
    Reached,
}

/// Each region with its instances by name.
pub(super) type Regions = BTreeMap<Region, BTreeMap<String, Standing>>;

#[derive(Deserialize)]
struct Export {
    data: [Functions; 1],
}

#[derive(Deserialize)]
struct Functions {
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    filenames: Vec<String>,
    /// For each region: line and column of start and end, execution count, file, expanded file, and kind. 0
    /// is code, others are gaps and macro expansions.
    regions: Vec<[u64; 8]>,
}

/// Reads the regions in sources below `src` from an export.
pub(super) fn read(export: &str, src: &Path) -> Result<Regions> {
    let Export {
        data: [Functions { functions }],
    } = serde_json::from_str(export)?;
    let mut regions = Regions::new();
    let mut known = BTreeMap::<String, Vec<Choice>>::new();
    for function in functions {
        let mut runs = BTreeMap::<String, BTreeMap<[Position; 2], bool>>::new();
        for [line, column, end_line, end_column, count, file, _, kind] in function.regions {
            let file = function
                .filenames
                .get(file as usize)
                .context("a region of no file")?;
            if let (Ok(file), 0) = (Path::new(file).strip_prefix(src), kind) {
                let of_file = runs.entry(file.to_string_lossy().into_owned()).or_default();
                // An unrolled loop has a region several times.
                *of_file
                    .entry([(line, column), (end_line, end_column)])
                    .or_default() |= count > 0;
            }
        }
        for (file, runs) in runs {
            if !known.contains_key(&file) {
                known.insert(
                    file.clone(),
                    choices(&fs::read_to_string(src.join(&file))?)?,
                );
            }
            let of_those = runs.iter().filter(|(_, has)| **has);
            let reached: BTreeSet<Position> = of_those.map(|(&[start, _], _)| start).collect();
            for ([start, end], has) in runs {
                let excludes = |choice: &Choice| choice.excludes(start, &reached);
                let standing = match has {
                    true => Standing::Reached,
                    false if known[&file].iter().any(excludes) => Standing::Excluded,
                    false => Standing::Missed,
                };
                let region = Region {
                    file: file.clone(),
                    start,
                    end,
                };
                regions
                    .entry(region)
                    .or_default()
                    .insert(function.name.clone(), standing);
            }
        }
    }
    ensure!(!regions.is_empty(), "nothing of the kernels");
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n    one();\n    if F::SCALED { two() } else { three() }\n}\n";

    #[test]
    fn a_region_is_known_by_its_place_and_how_instances_stand_to_it() {
        use Standing::{Excluded, Missed, Reached};
        let src = tempfile::tempdir().unwrap();
        let file = src.path().join("add.rs");
        fs::write(&file, SOURCE).unwrap();
        // The execution counts of an instance.
        let function = |name: &str, [one, two, three]: [u32; 3]| {
            format!(
                r#"{{"name": "{name}", "filenames": [{file:?}, "/other/lib.rs"], "regions": [[2, 5, 2, 11, {one}, 0, 0, 0],
                [3, 8, 3, 17, 0, 0, 0, 3], [3, 20, 3, 25, {two}, 0, 0, 0], [3, 35, 3, 42, {three}, 0, 0, 0], [1, 1, 2, 2, 0, 1, 0, 0]]}}"#
            )
        };
        let (a, b) = (function("a", [7, 7, 0]), function("b", [0, 0, 0]));
        let export = format!(r#"{{"data": [{{"functions": [{a}, {b}]}}]}}"#);
        let regions = read(&export, src.path()).unwrap();
        let found: Vec<_> = (regions.iter())
            .map(|(region, of)| (&*region.file, region.start, of["a"], of["b"]))
            .collect();
        let wanted = [
            ("add.rs", (2, 5), Reached, Missed),
            ("add.rs", (3, 20), Reached, Missed),
            ("add.rs", (3, 35), Excluded, Missed),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let name = r#"{"data": [{"functions": [{"name": 1}]}]}"#;
        for wrong in ["", "{}", name, r#"{"data": [{"functions": []}]}"#] {
            assert!(read(wrong, Path::new("/k/src")).is_err(), "{wrong}");
        }
    }
}
