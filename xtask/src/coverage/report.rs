//! The report: a table by folder, the missed regions, and a check against the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, bail, ensure};

use super::marks::{Figures, Mark};
use super::regions::{Region, Regions, Standing};

/// Reached regions out of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Share {
    reached: usize,
    all: usize,
}

impl Share {
    fn add(&mut self, reached: usize, all: usize) {
        self.reached += reached;
        self.all += all;
    }

    fn per_cent(self) -> f64 {
        100.0 * self.reached as f64 / self.all.max(1) as f64
    }
}

/// The coverage of a folder, without marked regions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Folder {
    together: Share,
    apart: Share,
    /// Regions excluded by the constants of their instances.
    excluded: usize,
    /// Regions covered by a mark.
    marked: usize,
}

/// A region that some instances do not reach.
struct Missed<'a> {
    region: &'a Region,
    /// Readable names of these instances.
    instances: BTreeSet<String>,
    /// The number of instances of the region, without those covered by a mark.
    of: usize,
}

/// The coverage and the missed regions.
pub(super) struct Report<'a> {
    folders: BTreeMap<&'a str, Folder>,
    total: Folder,
    missed: Vec<Missed<'a>>,
    /// Marks that cover no missed region.
    useless: Vec<&'a Mark>,
}

/// The number of instances that a line of the report names.
const NAMED: usize = 4;

impl<'a> Report<'a> {
    pub(super) fn new(regions: &'a Regions, marks: &'a [Mark]) -> Self {
        let mut folders = BTreeMap::<_, Folder>::new();
        let (mut total, mut missed, mut useful) = (Folder::default(), Vec::new(), BTreeSet::new());
        for (region, instances) in regions {
            let (mut here, mut excluded, mut marked) = (Share::default(), 0, 0);
            let mut without = BTreeSet::new();
            // All instances exclude it: either the region is unnecessary, or an instance is missing.
            let is_nowhere = instances.values().all(|&one| one == Standing::Excluded);
            for (name, standing) in instances {
                match standing {
                    Standing::Reached => here.add(1, 1),
                    Standing::Excluded if !is_nowhere => excluded += 1,
                    _ => {
                        let name = format!("{:#}", rustc_demangle::demangle(name));
                        let of: Vec<usize> = (0..marks.len())
                            .filter(|&mark| marks[mark].is_for(region, &name))
                            .collect();
                        if of.is_empty() {
                            here.add(0, 1);
                            without.insert(name);
                        } else {
                            marked += 1;
                            useful.extend(of);
                        }
                    }
                }
            }
            let name = region
                .file
                .rsplit_once('/')
                .map_or(&*region.file, |(folder, _)| folder);
            for folder in [&mut total, folders.entry(name).or_default()] {
                folder
                    .together
                    .add(usize::from(here.reached > 0), usize::from(here.all > 0));
                folder.apart.add(here.reached, here.all);
                folder.excluded += excluded;
                folder.marked += marked;
            }
            if !without.is_empty() {
                missed.push(Missed {
                    region,
                    instances: without,
                    of: here.all,
                });
            }
        }
        let useless = (0..marks.len()).filter(|mark| !useful.contains(mark));
        let useless = useless.map(|mark| &marks[mark]).collect();
        Self {
            folders,
            total,
            missed,
            useless,
        }
    }

    /// Fails if coverage is below the figures, or if a mark is useless.
    pub(super) fn hold(&self, figures: &Figures) -> Result<()> {
        if let Some(Mark { file, line, .. }) = self.useless.first() {
            bail!("{file}: {line}: a mark of what is reached, or is no code");
        }
        for (what, share, wanted) in [
            ("together", self.total.together, figures.together),
            ("apart", self.total.apart, figures.apart),
        ] {
            let reached = share.per_cent();
            ensure!(
                reached >= wanted,
                "{reached:.2} % of regions are reached, instances {what}, the limit is {wanted:.2} %"
            );
        }
        Ok(())
    }
}

/// Prints the missed regions, then the table.
impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Missed {
            region,
            instances,
            of,
        } in &self.missed
        {
            let ((line, column), count) = (region.start, instances.len());
            let file = &region.file;
            writeln!(
                f,
                "not reached: kernels-gpu/src/{file}:{line}:{column}, in {count} of {of}"
            )?;
            if *of > 1 {
                for name in instances.iter().take(NAMED) {
                    writeln!(f, "    {name}")?;
                }
                if count > NAMED {
                    writeln!(f, "    and {} more", count - NAMED)?;
                }
            }
        }
        let width = self
            .folders
            .keys()
            .map(|name| name.len())
            .max()
            .unwrap_or(0);
        let row = |f: &mut fmt::Formatter<'_>, cells: [&dyn fmt::Display; 5]| {
            let [name, together, apart, excluded, marked] = cells;
            writeln!(
                f,
                "{name:width$}  {together:>25}  {apart:>25}  {excluded:>8}  {marked:>6}"
            )
        };
        row(
            f,
            [
                &"regions",
                &"instances together",
                &"instances apart",
                &"excluded",
                &"marked",
            ],
        )?;
        for (name, folder) in self.folders.iter().chain([(&"all", &self.total)]) {
            let [together, apart] = [folder.together, folder.apart].map(|share| {
                let Share { reached, all } = share;
                format!("{reached:6} of {all:6} {:6.2} %", share.per_cent())
            });
            row(
                f,
                [name, &together, &apart, &folder.excluded, &folder.marked],
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> Regions {
        use Standing::{Excluded, Missed, Reached};
        let instances = |f32, f16| [("f32".to_owned(), f32), ("f16".to_owned(), f16)].into();
        let region = |line| Region {
            file: "fused/depthwise/mod.rs".into(),
            start: (line, 1),
            end: (line, 9),
        };
        [
            (region(1), instances(Reached, Reached)),
            (region(2), instances(Reached, Missed)),
            (region(3), instances(Missed, Missed)),
            (region(4), instances(Reached, Excluded)),
            (region(5), instances(Excluded, Excluded)),
        ]
        .into()
    }

    const fn share(reached: usize, all: usize) -> Share {
        Share { reached, all }
    }

    #[test]
    fn a_region_counts_once_together_and_for_each_instance_apart() {
        let regions = regions();
        let report = Report::new(&regions, &[]);
        let folder = Folder {
            together: share(3, 5),
            apart: share(4, 9),
            excluded: 1,
            marked: 0,
        };
        assert_eq!(report.folders["fused/depthwise"], folder);
        assert_eq!(report.total, folder);
        let missed = report
            .missed
            .iter()
            .map(|one| (one.region.start.0, one.instances.len()));
        assert_eq!(missed.collect::<Vec<_>>(), [(2, 1), (3, 2), (5, 2)]);
    }

    #[test]
    fn marks_leave_out_what_is_not_reached_and_figures_are_held() {
        let src = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(src.path().join("fused/depthwise")).unwrap();
        std::fs::write(src.path().join("fused/depthwise/mod.rs"), "a\nb\nc\nd\ne\n").unwrap();
        let regions = regions();
        // The results for a mark of a line and instances, with these figures.
        let of = |line: &str, instances: &str, together: u32, apart: u32| {
            let text = format!(
                "together = {together}.0\napart = {apart}.0\n[[unreachable]]\nfile = 'fused/depthwise/mod.rs'
                line = '{line}'\nin = [{instances}]\nbecause = 'so it is'\n"
            );
            let (figures, marks) = Figures::read(&text, src.path()).unwrap();
            let report = Report::new(&regions, &marks);
            let Folder {
                together,
                apart,
                marked,
                ..
            } = report.total;
            (together, apart, marked, report.hold(&figures).is_ok())
        };
        // Marks of all instances, of one of them, and of reached instances.
        assert_eq!(of("c", "", 75, 57), (share(3, 4), share(4, 7), 2, true));
        assert_eq!(
            of("c", "'f16', 'bf16'", 60, 50),
            (share(3, 5), share(4, 8), 1, true)
        );
        assert_eq!(of("e", "", 75, 57), (share(3, 4), share(4, 7), 2, true));
        assert_eq!(of("a", "", 0, 0), (share(3, 5), share(4, 9), 0, false));
        assert!(!of("c", "", 76, 57).3);
        assert!(!of("c", "", 75, 58).3);
    }
}
