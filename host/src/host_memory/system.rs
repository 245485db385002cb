//! The memory that a process may use.
//!
//! The machine has memory and swap space; a control group, such as a container's, may have less. The check
//! uses the totals, not the free memory: other processes may free theirs soon, and most used memory is file
//! cache, which can be evicted. The memory of this process is subtracted.

use std::fs;
use std::path::Path;

/// The root folder of the system's files.
pub(super) struct System<'a>(pub(super) &'a Path);

/// The number of bytes that the process may still allocate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) bytes: u64,
    /// A description of the limit's source.
    pub(super) reason: String,
}

impl System<'_> {
    /// Returns the bytes that the process may still allocate; `None` if the system does not report them.
    pub(super) fn left(&self) -> Option<Left> {
        let machine = self.read("proc/meminfo")?;
        let memory = kib(&machine, "MemTotal:")?;
        let swap = kib(&machine, "SwapTotal:").unwrap_or(0);
        let (total, owner) = match self.group(swap) {
            Some(group) if group < memory + swap => (group, "control group"),
            _ => (memory + swap, "machine"),
        };
        let process = self.read("proc/self/status").unwrap_or_default();
        let held = ["RssAnon:", "VmSwap:"].map(|name| kib(&process, name).unwrap_or(0));
        let held = held[0] + held[1];
        Some(Left {
            bytes: total.saturating_sub(held),
            reason: format!("the {owner} has {total} bytes, of which this process holds {held}"),
        })
    }

    /// Returns the smallest limit of the process's control groups: memory plus at most `swap` bytes of swap
    /// space.
    fn group(&self, swap: u64) -> Option<u64> {
        let groups = self.read("proc/self/cgroup")?;
        let limits = groups.lines().filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            match controllers {
                "" => self.least("sys/fs/cgroup", path, |folder| {
                    let memory = self.number(folder, "memory.max")?;
                    let swap = self.number(folder, "memory.swap.max").unwrap_or(swap);
                    Some(memory.saturating_add(swap))
                }),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    self.least("sys/fs/cgroup/memory", path, |folder| {
                        let memory = self.number(folder, "memory.limit_in_bytes")?;
                        let both = self.number(folder, "memory.memsw.limit_in_bytes");
                        Some(both.unwrap_or(u64::MAX).min(memory.saturating_add(swap)))
                    })
                }
                _ => None,
            }
        });
        limits.min()
    }

    /// Returns the smallest `limit` of a group and its ancestors. In a container, the group's folder may be
    /// mounted as the root, whatever the group's name.
    fn least(&self, top: &str, path: &str, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
        let group = Path::new(path.trim_start_matches('/'));
        let folders = group.ancestors().map(|folder| Path::new(top).join(folder));
        folders.filter_map(|folder| limit(&folder)).min()
    }

    /// Reads the number in a file of a group; `None` if there is no limit.
    fn number(&self, folder: &Path, name: &str) -> Option<u64> {
        self.read(folder.join(name))?.trim().parse().ok()
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok()
    }
}

/// Returns the size after a name, converted from KiB to bytes.
fn kib(report: &str, name: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.starts_with(name))?;
    let number = line.split_ascii_whitespace().nth(1)?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the bytes left from system files with these contents.
    fn left(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Some(System(root.path()).left()?.bytes)
    }

    const MACHINE: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:  1000 kB\nMemFree: 10 kB\nSwapTotal:  24 kB\n",
    );

    #[test]
    fn a_machine_has_its_memory_and_swap_less_what_the_process_holds() {
        assert_eq!(left(&[]), None);
        assert_eq!(left(&[MACHINE]), Some(1024 << 10));
        let status = "VmRSS: 900 kB\nRssAnon: 100 kB\nVmSwap: 4 kB\n";
        assert_eq!(
            left(&[MACHINE, ("proc/self/status", status)]),
            Some(920 << 10)
        );
        let status = "RssAnon: 4000 kB\n";
        assert_eq!(left(&[MACHINE, ("proc/self/status", status)]), Some(0));
    }

    #[test]
    fn a_control_group_may_have_less() {
        let of = |files: &[(&str, &str)]| {
            left(&[&[MACHINE, ("proc/self/cgroup", "0::/a/b\n")], files].concat())
        };
        assert_eq!(of(&[]), Some(1024 << 10));
        assert_eq!(of(&[("sys/fs/cgroup/a/b/memory.max", "max\n")]), of(&[]));
        // The machine's swap space is added, up to its limit.
        let memory = ("sys/fs/cgroup/a/b/memory.max", "4096\n");
        assert_eq!(of(&[memory]), Some(4096 + (24 << 10)));
        let swap = ("sys/fs/cgroup/a/b/memory.swap.max", "0\n");
        assert_eq!(of(&[memory, swap]), Some(4096));
        let above = ("sys/fs/cgroup/a/memory.max", "100\n");
        let no_swap = ("sys/fs/cgroup/a/memory.swap.max", "0\n");
        assert_eq!(of(&[memory, swap, above, no_swap]), Some(100));
        // A container mounts its group's folder as the root.
        let own = ("sys/fs/cgroup/memory.max", "200\n");
        let no_swap = ("sys/fs/cgroup/memory.swap.max", "0\n");
        assert_eq!(of(&[own, no_swap]), Some(200));
    }

    #[test]
    fn control_groups_of_the_first_version_count_as_well() {
        let groups = ("proc/self/cgroup", "5:cpu:/a\n4:hugetlb,memory:/a\n0::/\n");
        let limit = "sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        let of = |files: &[(&str, &str)]| left(&[&[MACHINE, groups], files].concat());
        assert_eq!(of(&[(limit, "9223372036854771712\n")]), Some(1024 << 10));
        assert_eq!(of(&[(limit, "4096\n")]), Some(4096 + (24 << 10)));
        let both = "sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes";
        assert_eq!(of(&[(limit, "4096\n"), (both, "5000\n")]), Some(5000));
    }
}
