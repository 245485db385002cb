use std::path::Path;
use std::process::Command;

use super::*;

fn files(folder: &Path) -> Files {
    Files::new(folder.to_owned(), 1 << 30)
}

fn key(number: u32) -> Key {
    Key::new("0123abcd", (number, ""), (9, 0))
}

fn unfinished(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| has_end(path, UNFINISHED)).count()
}

#[test]
fn everything_that_decides_the_code_is_in_the_key() {
    let one = Key::new("a", (13000, "580.65"), (9, 0));
    assert_eq!(one, Key::new("a", (13000, "580.65"), (9, 0)));
    for other in [
        Key::new("b", (13000, "580.65"), (9, 0)),
        Key::new("a", (12080, "580.65"), (9, 0)),
        Key::new("a", (13000, "580.82"), (9, 0)),
        Key::new("a", (13000, "580.65"), (10, 0)),
        Key::new("a", (13000, "580.65"), (9, 1)),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn torn_files_are_ignored_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    files.write(&key(1), b"machine code").unwrap();
    let whole = fs::read(files.path(&key(1))).unwrap();
    for length in 0..whole.len() {
        fs::write(files.path(&key(1)), &whole[..length]).unwrap();
        assert_eq!(files.read(&key(1)), None, "{length} of {}", whole.len());
    }
    for place in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        fs::write(files.path(&key(1)), flipped).unwrap();
        assert_eq!(files.read(&key(1)), None, "byte {place}");
    }
    fs::write(files.path(&key(1)), [&whole[..], b"more"].concat()).unwrap();
    assert_eq!(files.read(&key(1)), None);
    files.write(&key(1), b"machine code").unwrap();
    assert_eq!(files.read(&key(1)).unwrap(), b"machine code");
}

#[test]
fn foreign_files_are_ignored_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    fs::write(files.path(&key(1)), b"\x7fELF, but whose?").unwrap();
    assert_eq!(files.read(&key(1)), None);
    // A complete file under another key's name.
    files.write(&key(2), b"two").unwrap();
    fs::copy(files.path(&key(2)), files.path(&key(1))).unwrap();
    assert_eq!(files.read(&key(1)), None);
    files.write(&key(1), b"one").unwrap();
    assert_eq!(files.read(&key(1)).unwrap(), b"one");
    // A folder of that name can be neither read nor replaced.
    fs::create_dir(files.path(&key(3))).unwrap();
    assert_eq!(files.read(&key(3)), None);
    files.write(&key(3), b"three").unwrap_err();
    assert_eq!(unfinished(folder.path()), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let made = Command::new("mkfifo").arg(files.path(&key(1))).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(files.read(&key(1)), None);
    }
}

/// Two processes can have one number, for example if each runs in its own container.
#[test]
fn a_writer_leaves_alone_what_another_is_writing() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let name = files.unfinished(&key(1), 7);
    fs::write(&name, b"half of it").unwrap();
    let written = files.write_by_way_of(&name, &key(1), b"one");
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&name).unwrap(), b"half of it");
    files.write(&key(1), b"one").unwrap();
    assert_eq!(files.read(&key(1)).unwrap(), b"one");
    assert_ne!(random(), random());
}

#[test]
fn the_oldest_files_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let head = TITLE.len() as u64 + 32;
    let files = Files::new(folder.path().to_owned(), 3 * (head + 100));
    let age = |number, seconds| {
        let file = fs::File::options()
            .write(true)
            .open(files.path(&key(number)));
        let time = SystemTime::now() - Duration::from_secs(seconds);
        file.unwrap().set_modified(time).unwrap();
    };
    for number in 1..=3 {
        files.write(&key(number), &[0; 100]).unwrap();
        age(number, 100 - u64::from(number));
    }
    age(2, 500);
    files.write(&key(4), &[0; 100]).unwrap();
    let kept = |number| files.read(&key(number)).is_some();
    assert_eq!([1, 2, 3, 4].map(kept), [true, false, true, true]);
}

#[test]
fn what_nobody_finished_is_removed_and_what_is_not_ours_stays() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path().to_owned(), 1_000);
    let make = |name: &str, age| {
        let path = folder.path().join(name);
        fs::write(&path, [0; 2_000]).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
        path
    };
    let abandoned = make("a.unfinished", ABANDONED * 2);
    let in_work = make("b.unfinished", Duration::ZERO);
    let foreign = make("notes.txt", ABANDONED * 2);
    files.write(&key(1), b"one").unwrap();
    assert!(!abandoned.exists() && in_work.exists() && foreign.exists());
    assert_eq!(files.read(&key(1)).unwrap(), b"one");
}
