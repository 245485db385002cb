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
    // Writing to a dangling link creates its target.
    let new = folder.path().join("new.json");
    symlink("new.json", folder.path().join("other.json")).unwrap();
    write(&folder.path().join("other.json"), "text").unwrap();
    assert_eq!(fs::read_to_string(&new).unwrap(), "text");
    assert!(link.is_symlink() && !new.is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn files_are_the_same_behind_links_to_their_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
    fs::create_dir(&real).expect("a folder");
    fs::write(real.join("old"), "").expect("a file");
    symlink(&real, &link).expect("a link");
    let target = |folder: &Path, name| Target::new("--json", &folder.join(name)).expect("a target");
    for name in ["old", "new"] {
        assert!(target(&real, name).is(&target(&link, name)), "{name}");
    }
    assert!(!target(&real, "old").is(&target(&link, "new")));
}
