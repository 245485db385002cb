//! The user's folder of machine code, in whatever state: each program computes what it does without.

use std::fs;
use std::path::{Path, PathBuf};

use convfuse::{Device, KernelOrigin};

use crate::driver::{Driver, Mode, driver, folder, in_child, test_of};
use crate::things::{model_79, planned};

/// On the next device of those that take what their linker makes of PTX: opens it, plans, and runs. Returns
/// where the kernels came from.
struct Programs {
    script: Driver,
    ordinal: u32,
    /// Launches and copies of the first.
    log: Option<String>,
}

impl Programs {
    fn new(script: Driver) -> Programs {
        let (ordinal, log) = (0, None);
        Programs {
            script,
            ordinal,
            log,
        }
    }

    fn run(&mut self) -> Vec<KernelOrigin> {
        self.script.begin(Mode::AtOnce);
        self.run_as_it_fails()
    }

    fn run_as_it_fails(&mut self) -> Vec<KernelOrigin> {
        let ordinal = self.ordinal;
        self.ordinal += 4;
        let device = Device::gpu(ordinal).unwrap();
        let stream = device.stream().unwrap();
        let (mut plan, x, mut y) = planned(&model_79(&stream), &stream, &[2, 3, 5, 6, 7]);
        plan.execute(&x, &mut y).unwrap();
        y.to_array::<f32>().unwrap();
        self.script.expect_no_violations();
        let log = self.script.log(ordinal);
        assert!(log.lines().count() > 3, "{log}");
        assert_eq!(*self.log.get_or_insert_with(|| log.clone()), log);
        let kernels = device.info().kernels;
        assert!(kernels.len() > 1);
        kernels.into_iter().map(|load| load.origin).collect()
    }

    fn all_from(&mut self, origin: KernelOrigin) {
        let origins = self.run();
        assert!(origins.iter().all(|of| *of == origin), "{origins:?}");
    }

    fn compiles(&mut self) {
        self.all_from(KernelOrigin::Compiled);
    }

    fn finds(&mut self) {
        self.all_from(KernelOrigin::Cached);
    }
}

/// What becomes of programs in a child, whose cache `make` makes in an empty folder.
fn with_cache<F: FnOnce(Programs, &Path)>(make: fn(&Path) -> PathBuf, body: F) {
    let empty = folder();
    let cache = make(empty.path());
    let variables = [("CONVFUSE_CACHE", Some(cache.as_ref()))];
    in_child(test_of::<F>(), &variables, |script| {
        let cache = std::env::var_os("CONVFUSE_CACHE").unwrap_or_default();
        body(Programs::new(script), Path::new(&cache));
    });
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_torn_or_foreign_is_compiled_anew() {
    with_cache(Path::to_owned, |mut programs, folder| {
        programs.compiles();
        programs.finds();
        let spoil: [fn(&mut Vec<u8>); 4] = [
            |whole| whole.truncate(whole.len() / 2),
            |whole| whole.clear(),
            |whole| *whole = b"\x7fELF, but whose?".to_vec(),
            |whole| *whole.last_mut().unwrap() ^= 1,
        ];
        for spoil in spoil {
            for path in files(folder) {
                let mut whole = fs::read(&path).unwrap();
                spoil(&mut whole);
                fs::write(path, whole).unwrap();
            }
            programs.compiles();
            programs.finds();
        }
        // Whole, but not what this driver takes; nor does it take what the build carries, which comes first.
        programs.script.begin(Mode::AtOnce);
        programs.script.fail("cuModuleLoadData", 2, 209);
        let origins = programs.run_as_it_fails();
        assert_eq!(origins[0], KernelOrigin::Compiled);
        assert!(!origins[1..].contains(&KernelOrigin::Compiled));
    });
}

#[test]
fn a_file_in_place_of_the_folder() {
    let file = |folder: &Path| {
        let file = folder.join("file");
        fs::write(&file, "no folder").unwrap();
        file
    };
    with_cache(file, |mut programs, file| {
        programs.compiles();
        programs.compiles();
        assert_eq!(fs::read(file).unwrap(), b"no folder");
    });
}

/// Not even root makes a folder there.
#[test]
fn a_folder_that_cannot_be_made() {
    let nowhere = |_: &Path| "/proc/self/convfuse".into();
    with_cache(nowhere, |mut programs, _| {
        programs.compiles();
        programs.compiles();
    });
}

#[test]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;

    with_cache(Path::to_owned, |mut programs, folder| {
        let shut = |mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        shut(0o500);
        // Nothing is shut to root.
        if fs::File::create(folder.join("probe")).is_err() {
            programs.compiles();
            programs.compiles();
            assert!(files(folder).is_empty());
        }
        shut(0o700);
    });
}

/// Files end after a few bytes, as they do where a disk is full.
#[test]
fn a_disk_that_is_full() {
    with_cache(Path::to_owned, |mut programs, folder| {
        let limit = |rlim_cur| {
            let rlim_max = libc::RLIM_INFINITY;
            let limit = libc::rlimit { rlim_cur, rlim_max };
            // SAFETY: both calls concern this process alone, which is the child of a test.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            }
        };
        for bytes in [0, 10, 1000] {
            limit(bytes);
            programs.compiles();
            assert!(files(folder).is_empty(), "{bytes}");
        }
        limit(libc::RLIM_INFINITY);
        programs.compiles();
        programs.finds();
    });
}

#[test]
fn a_user_without_a_home() {
    let test = "cache::a_user_without_a_home";
    let homeless = ["CONVFUSE_CACHE", "XDG_CACHE_HOME", "HOME"].map(|name| (name, None));
    in_child(test, &homeless, |script| {
        assert_eq!(convfuse::kernel_cache::folder(), None);
        let mut programs = Programs::new(script);
        programs.compiles();
        programs.compiles();
    });
}

/// Four processes begin with an empty folder.
#[test]
fn processes_that_compile_the_same_at_once() {
    let (test, empty) = ("cache::processes_that_compile_the_same_at_once", folder());
    let run = || {
        let cache = [("CONVFUSE_CACHE", Some(empty.path().as_ref()))];
        in_child(test, &cache, |script| {
            let mut programs = Programs::new(script);
            // Of one's own or another's.
            programs.run();
            // All of it is there by now.
            programs.finds();
        });
    };
    let processes = if driver().is_some() { 1 } else { 4 };
    std::thread::scope(|scope| (0..processes).for_each(|_| drop(scope.spawn(run))));
    let is_finished = |path: &PathBuf| path.extension().is_some_and(|end| end == "cubin");
    assert!(files(empty.path()).iter().all(is_finished));
}
