//! What `llvm-cov export` says of the kernels' sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::constants::{Choice, Position, choices};
use super::error::CoverageError;

/// A piece of source, by file (below the sources' folder), lines and columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region {
    pub(super) file: String,
    pub(super) start: Position,
    pub(super) end: Position,
}

/// What an instance has to do with a region of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Its constants exclude the region: a branch that they do not take.
    Excluded,
    /// It has the region, which never ran.
    Missed,
    Reached,
}

/// Each region with the instances of its source, by their names.
#[derive(Default)]
pub(super) struct Regions {
    pub(super) of: BTreeMap<Region, BTreeMap<String, Standing>>,
    /// What constants decide, in the files that were looked at.
    choices: BTreeMap<String, Vec<Choice>>,
}

/// The kind of a region that is code; others are gaps between them and what macros stand for.
const CODE: u64 = 0;

impl Regions {
    /// Those in sources below `src`, by an export of what was counted.
    pub(super) fn read(export: &str, src: &Path) -> Result<Self, CoverageError> {
        let mut regions = Self::default();
        for ((name, file), runs) in runs(export, src)? {
            let source = src.join(&file);
            let text = fs::read_to_string(&source);
            let text = text.map_err(|error| CoverageError::File {
                path: source,
                error,
            })?;
            let choices = regions
                .choices
                .entry(file.clone())
                .or_insert_with(|| choices(&text));
            let of_those = |wanted: bool| move |&(_, &has): &(&[Position; 2], &bool)| has == wanted;
            let reached: BTreeSet<Position> = runs
                .iter()
                .filter(of_those(true))
                .map(|(&[start, _], _)| start)
                .collect();
            for ([start, end], has) in runs {
                let standing = if has {
                    Standing::Reached
                } else if choices
                    .iter()
                    .any(|choice| choice.excludes(start, &reached))
                {
                    Standing::Excluded
                } else {
                    Standing::Missed
                };
                let region = Region {
                    file: file.clone(),
                    start,
                    end,
                };
                regions
                    .of
                    .entry(region)
                    .or_default()
                    .insert(name.clone(), standing);
            }
        }
        Ok(regions)
    }

    /// These, of no source.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(of: [(Region, BTreeMap<String, Standing>); N]) -> Self {
        Self {
            of: of.into(),
            ..Self::default()
        }
    }

    /// The instances that do not reach a region.
    pub(super) fn missed(&self) -> BTreeSet<&str> {
        let all = self.of.values().flatten();
        let missed = all.filter(|&(_, &standing)| standing != Standing::Reached);
        missed.map(|(name, _)| name.as_str()).collect()
    }
}

/// Of each instance in each file, whether the regions between these positions ran.
type Runs = BTreeMap<(String, String), BTreeMap<[Position; 2], bool>>;

fn runs(export: &str, src: &Path) -> Result<Runs, CoverageError> {
    let wrong = |what: &str| CoverageError::Export(what.to_owned());
    let export: Value =
        serde_json::from_str(export).map_err(|error| CoverageError::Export(error.to_string()))?;
    let list = |value: &Value, what: &str| value.as_array().cloned().ok_or_else(|| wrong(what));
    let mut runs = Runs::new();
    for function in list(&export["data"][0]["functions"], "no functions")? {
        let name = function["name"]
            .as_str()
            .ok_or_else(|| wrong("a function without a name"))?;
        let files = list(&function["filenames"], "a function without files")?;
        let files: Vec<_> = files.iter().map(|file| below(src, file)).collect();
        for region in list(&function["regions"], "a function without regions")? {
            let number =
                |index: usize| region[index].as_u64().ok_or_else(|| wrong("an odd region"));
            let file = files
                .get(number(5)? as usize)
                .ok_or_else(|| wrong("a region of no file"))?;
            let (Some(file), CODE) = (file, number(7)?) else {
                continue;
            };
            let place = [(number(0)?, number(1)?), (number(2)?, number(3)?)];
            let of_file = runs.entry((name.to_owned(), file.clone())).or_default();
            // Loops that are written out have a region several times.
            *of_file.entry(place).or_default() |= number(4)? > 0;
        }
    }
    if runs.is_empty() {
        return Err(wrong("nothing of the kernels"));
    }
    Ok(runs)
}

/// A file below `src`, by its path from there.
fn below(src: &Path, file: &Value) -> Option<String> {
    let file = Path::new(file.as_str()?).strip_prefix(src).ok()?;
    Some(file.to_string_lossy().replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n    one();\n    if F::SCALED { two() } else { three() }\n}\n";

    /// How often the instances `a` and `b` ran what stands in the source.
    fn export(src: &Path, a: [u32; 3], b: [u32; 3]) -> String {
        let file = src.join("add.rs");
        let function = |name: &str, [one, two, three]: [u32; 3]| {
            format!(
                r#"{{"name": "{name}", "filenames": [{file:?}, "/other/lib.rs"], "regions": [[2, 5, 2, 11, {one}, 0, 0, 0],
                [3, 8, 3, 17, 0, 0, 0, 3], [3, 20, 3, 25, {two}, 0, 0, 0], [3, 35, 3, 42, {three}, 0, 0, 0], [1, 1, 2, 2, 0, 1, 0, 0]]}}"#
            )
        };
        let (a, b) = (function("a", a), function("b", b));
        format!(r#"{{"data": [{{"functions": [{a}, {b}]}}]}}"#)
    }

    #[test]
    fn a_region_is_known_by_its_place_and_how_instances_stand_to_it() {
        use Standing::{Excluded, Missed, Reached};
        let src = tempfile::tempdir().unwrap();
        fs::write(src.path().join("add.rs"), SOURCE).unwrap();
        let export = export(src.path(), [7, 7, 0], [0, 0, 0]);
        let regions = Regions::read(&export, src.path()).unwrap().of;
        let found: Vec<_> = (regions.iter())
            .flat_map(|(region, instances)| {
                let line = (region.file.as_str(), region.start);
                instances
                    .iter()
                    .map(move |(name, &standing)| (line, name.as_str(), standing))
            })
            .collect();
        let wanted = [
            (("add.rs", (2, 5)), "a", Reached),
            (("add.rs", (2, 5)), "b", Missed),
            (("add.rs", (3, 20)), "a", Reached),
            (("add.rs", (3, 20)), "b", Missed),
            (("add.rs", (3, 35)), "a", Excluded),
            (("add.rs", (3, 35)), "b", Missed),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for wrong in [
            "",
            "{}",
            r#"{"data": [{"functions": [{"name": 1}]}]}"#,
            r#"{"data": [{"functions": []}]}"#,
        ] {
            assert!(
                Regions::read(wrong, Path::new("/k/src")).is_err(),
                "{wrong}"
            );
        }
    }
}
