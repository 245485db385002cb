use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Target::new("--json", path)?.write_beside(text)
}

#[test]
fn files_are_replaced_and_nothing_is_left_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    write(&path, "first").unwrap();
    let ordinary = tempfile::tempdir().unwrap();
    fs::write(ordinary.path().join("b"), "").unwrap();
    assert_eq!(mode(&path), mode(&ordinary.path().join("b")));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&path, "second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(mode(&path), 0o640);
    let link = folder.path().join("link.json");
    symlink("a.json", &link).unwrap();
    write(&link, "third").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "third");
    assert!(link.is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_link_to_what_is_not_there_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link.json");
    symlink("new.json", &link).unwrap();
    write(&link, "text").unwrap();
    assert!(link.is_symlink());
    assert_eq!(
        fs::read_to_string(folder.path().join("new.json")).unwrap(),
        "text"
    );
}

#[test]
fn a_file_that_is_not_finished_leaves_the_one_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, "before").unwrap();
    let mut half = Target::new("--json", &path).unwrap().create().unwrap();
    half.write_all(&vec![b'x'; 1 << 20]).unwrap();
    drop(half);
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_written_is_refused_before_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Target::new("--json", path).unwrap_err().to_string();
    let absent = folder.path().join("absent").join("a.json");
    assert!(refused(&absent).contains("a.json: No such file"));
    assert!(refused(folder.path()).contains("directory"));
    assert!(refused(Path::new("")).starts_with("--json: "));
    let long = folder.path().join("x".repeat(300));
    assert!(refused(&long).contains("too long"));
    let around = folder.path().join("around");
    symlink("around", &around).unwrap();
    assert!(refused(&around).contains("symbolic links"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_file_is_written_to_as_it_is() {
    let null = Path::new("/dev/null");
    assert_eq!(Target::find(null).unwrap(), Target::Direct(null.to_owned()));
    write(null, "text").unwrap();
    assert!(!null.is_file());
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        assert_eq!(Target::find(Path::new(name)).unwrap(), Target::Stdout);
    }
    let full = write(Path::new("/dev/full"), "text").unwrap_err();
    assert!(matches!(full, Failure::Machine(_)), "{full:?}");
}

#[test]
fn only_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| open(path).unwrap_err().to_string();
    assert!(refused(folder.path()).ends_with("is a folder, must be a file"));
    assert!(refused(Path::new("/dev/zero")).ends_with("is a device, must be a file"));
    let binary = folder.path().join("binary");
    fs::write(&binary, [0xff, 0xfe]).unwrap();
    assert!(
        text(&binary)
            .unwrap_err()
            .to_string()
            .ends_with("is not UTF-8")
    );
}
