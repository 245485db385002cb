//! The report: a table by folders, what is not reached, and whether that is good enough.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CoverageError;
use super::figures::{Figures, Mark};
use super::regions::{Region, Regions, Standing};

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Share {
    reached: usize,
    all: usize,
}

impl Share {
    fn count(&mut self, is_reached: bool) {
        self.all += 1;
        self.reached += usize::from(is_reached);
    }

    fn per_cent(self) -> f64 {
        100.0 * self.reached as f64 / self.all.max(1) as f64
    }
}

/// What is reached of a folder's regions that are not marked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Folder {
    together: Share,
    apart: Share,
    /// Regions of instances that their constants exclude.
    excluded: usize,
    /// Those that a mark leaves out.
    marked: usize,
}

/// A region that some instances do not reach.
struct Missed<'a> {
    region: &'a Region,
    /// Readable names of those instances.
    instances: BTreeSet<&'a str>,
    /// Of how many, without those that a mark leaves out.
    of: usize,
}

/// What is reached, and what is not.
pub(super) struct Report<'a> {
    folders: BTreeMap<&'a str, Folder>,
    missed: Vec<Missed<'a>>,
    /// Lines of marks that leave nothing out.
    useless: Vec<usize>,
}

/// How many instances a line of the report names.
const NAMED: usize = 4;

impl<'a> Report<'a> {
    /// Counts regions; `names` has readable names of instances.
    pub(super) fn new(
        regions: &'a Regions,
        marks: &[Mark],
        names: &'a BTreeMap<String, String>,
    ) -> Self {
        let mut folders = BTreeMap::<_, Folder>::new();
        let mut missed = Vec::new();
        let mut useful = vec![false; marks.len()];
        let readable = |name: &'a String| names.get(name).unwrap_or(name).as_str();
        for (region, instances) in &regions.of {
            let folder = folders.entry(folder_of(&region.file)).or_default();
            let mut here = Share::default();
            let mut without = BTreeSet::new();
            // A region that no instance has is not needed, or an instance is: all miss it.
            let is_nowhere = instances.values().all(|&one| one == Standing::Excluded);
            for (name, standing) in instances {
                let name = readable(name);
                let is_for = |mark: &Mark| mark.is_for(region, name);
                if *standing == Standing::Reached {
                    here.count(true);
                } else if *standing == Standing::Excluded && !is_nowhere {
                    folder.excluded += 1;
                } else if marks.iter().any(is_for) {
                    folder.marked += 1;
                    let these = marks
                        .iter()
                        .zip(&mut useful)
                        .filter(|(mark, _)| is_for(mark));
                    these.for_each(|(_, useful)| *useful = true);
                } else {
                    here.count(false);
                    without.insert(name);
                }
            }
            if here.all == 0 {
                continue;
            }
            folder.apart.reached += here.reached;
            folder.apart.all += here.all;
            folder.together.count(here.reached > 0);
            if !without.is_empty() {
                missed.push(Missed {
                    region,
                    instances: without,
                    of: here.all,
                });
            }
        }
        let useless = marks.iter().zip(useful).filter(|(_, useful)| !useful);
        Self {
            folders,
            missed,
            useless: useless.map(|(mark, _)| mark.line).collect(),
        }
    }

    fn total(&self) -> Folder {
        let mut total = Folder::default();
        for folder in self.folders.values() {
            for (sum, share) in [
                (&mut total.together, folder.together),
                (&mut total.apart, folder.apart),
            ] {
                sum.reached += share.reached;
                sum.all += share.all;
            }
            total.excluded += folder.excluded;
            total.marked += folder.marked;
        }
        total
    }

    /// What is not reached, then the table.
    pub(super) fn print(&self) {
        for Missed {
            region,
            instances,
            of,
        } in &self.missed
        {
            let ((line, column), count) = (region.start, instances.len());
            println!(
                "not reached: {}/src/{}:{line}:{column}, in {count} of {of}",
                super::KERNELS,
                region.file
            );
            if *of > 1 {
                instances
                    .iter()
                    .take(NAMED)
                    .for_each(|name| println!("    {name}"));
                if count > NAMED {
                    println!("    and {} more", count - NAMED);
                }
            }
        }
        let width = self
            .folders
            .keys()
            .map(|name| name.len())
            .max()
            .unwrap_or(0);
        println!(
            "{:width$}  {:>25}  {:>25}  {:>8}  {:>6}",
            "regions", "instances together", "instances apart", "excluded", "marked"
        );
        let total = self.total();
        for (name, folder) in self
            .folders
            .iter()
            .map(|(&name, folder)| (name, folder))
            .chain([("all", &total)])
        {
            let cell = |share: Share| {
                format!(
                    "{:6} of {:6} {:6.2} %",
                    share.reached,
                    share.all,
                    share.per_cent()
                )
            };
            println!(
                "{name:width$}  {:>25}  {:>25}  {:>8}  {:>6}",
                cell(folder.together),
                cell(folder.apart),
                folder.excluded,
                folder.marked
            );
        }
    }

    /// Fails below the figures, and on marks that leave nothing out.
    pub(super) fn hold(&self, figures: &Figures) -> Result<(), CoverageError> {
        if let Some(&line) = self.useless.first() {
            let what = "leaves nothing out: what it is for is reached, or is no code";
            return Err(CoverageError::UselessMark { line, what });
        }
        let total = self.total();
        for (what, share, wanted) in [
            ("instances together", total.together, figures.together),
            ("instances apart", total.apart, figures.apart),
        ] {
            let reached = share.per_cent();
            if reached < wanted {
                return Err(CoverageError::Below {
                    what,
                    reached,
                    wanted,
                });
            }
        }
        Ok(())
    }
}

/// The folder of a file; of one beside `lib.rs`, the file.
fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(line: u64) -> Region {
        Region {
            file: "fused/depthwise/mod.rs".into(),
            start: (line, 1),
            end: (line, 9),
        }
    }

    fn regions() -> Regions {
        use Standing::{Excluded, Missed, Reached};
        let instances = |f32, f16| [("f32".to_owned(), f32), ("f16".to_owned(), f16)].into();
        let of = [
            (region(1), instances(Reached, Reached)),
            (region(2), instances(Reached, Missed)),
            (region(3), instances(Missed, Missed)),
            (region(4), instances(Reached, Excluded)),
            (region(5), instances(Excluded, Excluded)),
        ];
        Regions::of(of)
    }

    #[test]
    fn a_region_counts_once_together_and_for_each_instance_apart() {
        let (regions, names) = (regions(), BTreeMap::new());
        let report = Report::new(&regions, &[], &names);
        let folder = Folder {
            together: Share { reached: 3, all: 5 },
            apart: Share { reached: 4, all: 9 },
            excluded: 1,
            marked: 0,
        };
        assert_eq!(
            report.folders.into_iter().collect::<Vec<_>>(),
            [("fused/depthwise", folder)]
        );
        let missed: Vec<_> = report
            .missed
            .iter()
            .map(|one| (one.region.start.0, one.instances.len()))
            .collect();
        assert_eq!(missed, [(2, 1), (3, 2), (5, 2)]);
    }

    #[test]
    fn figures_that_are_not_reached_fail() {
        let (regions, names) = (regions(), BTreeMap::new());
        let report = Report::new(&regions, &[], &names);
        let figures = |text| Figures::parse(text).unwrap();
        assert!(report.hold(&figures("together 60\napart 44\n")).is_ok());
        assert!(matches!(
            report.hold(&figures("together 61\n")),
            Err(CoverageError::Below { .. })
        ));
        assert!(matches!(
            report.hold(&figures("apart 45\n")),
            Err(CoverageError::Below { .. })
        ));
    }

    #[test]
    fn marks_leave_out_what_is_not_reached_and_nothing_else() {
        let src = tempfile::tempdir().unwrap();
        let folder = src.path().join("fused/depthwise");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("mod.rs"), "a\nb\nc\nd\ne\n").unwrap();
        let (regions, names) = (regions(), BTreeMap::new());
        let of = |line: &str, instance: &str| {
            let text = format!(
                "unreachable fused/depthwise/mod.rs\n    {line}\n{instance}because\u{20}so it is\n"
            );
            let figures = Figures::parse(&text).unwrap();
            let marks = figures.marks(src.path()).unwrap();
            let report = Report::new(&regions, &marks, &names);
            (report.total(), report.hold(&figures).is_ok())
        };
        let share = |reached, all| Share { reached, all };
        // Of all instances, of one of them, and of such as are reached.
        let (total, holds) = of("c", "");
        assert_eq!(
            (total.together, total.apart, total.marked, holds),
            (share(3, 4), share(4, 7), 2, true)
        );
        let (total, holds) = of("c", "in f16 or bf16\n");
        assert_eq!(
            (total.together, total.apart, total.marked, holds),
            (share(3, 5), share(4, 8), 1, true)
        );
        let (total, holds) = of("e", "");
        assert_eq!(
            (total.together, total.apart, total.marked, holds),
            (share(3, 4), share(4, 7), 2, true)
        );
        let (total, holds) = of("a", "");
        assert_eq!((total.marked, holds), (0, false));
    }
}
