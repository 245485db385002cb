//! Requirements on published packages that `cargo package` does not check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::Table;

/// Manifest fields that users see before they depend on a package.
const FIELDS: &[&str] = &[
    "description",
    "documentation",
    "license",
    "readme",
    "rust-version",
];

/// Files that each package needs in its own folder.
const FILES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// The script that packs all packages except those that it names.
const STEPS: &str = ".ci/run";

/// Returns the faults of published packages, and of the list of excluded packages in `.ci/run`.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut kept = BTreeSet::new();
    for folder in members(root)? {
        let package = manifest(&folder)?.remove("package");
        let package = package.with_context(|| folder.display().to_string())?;
        let name = package.get("name").and_then(|name| name.as_str());
        let name = name.context("a manifest without a name")?.to_owned();
        match package.get("publish").and_then(|publish| publish.as_bool()) {
            Some(false) => _ = kept.insert(name),
            _ => faults.extend(lacks(&folder, &name, &package)),
        }
    }
    let steps = fs::read_to_string(root.join(STEPS))?;
    let excluded = words_behind("--exclude", &steps);
    let packed = kept.difference(&excluded);
    faults.extend(packed.map(|name| format!("{STEPS}: packs {name}, which is not published")));
    let unknown = excluded.difference(&kept);
    faults.extend(unknown.map(|name| format!("{STEPS}: does not pack {name}")));
    Ok(faults)
}

/// The folders of the workspace's packages.
fn members(root: &Path) -> Result<Vec<PathBuf>> {
    let table = manifest(root)?;
    let members = table.get("workspace").and_then(|all| all.get("members"));
    let members = members.and_then(|members| members.as_array());
    let mut folders = Vec::new();
    for member in members.context("a workspace without members")? {
        let member = member.as_str().context("a member that is no path")?;
        let Some(parent) = member.strip_suffix("/*") else {
            folders.push(root.join(member));
            continue;
        };
        for entry in root.join(parent).read_dir()? {
            let folder = entry?.path();
            if folder.join("Cargo.toml").is_file() {
                folders.push(folder);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

fn manifest(folder: &Path) -> Result<Table> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Returns the missing parts of a published package.
fn lacks(folder: &Path, name: &str, package: &toml::Value) -> Vec<String> {
    let mut faults = Vec::new();
    if name != "convfuse" && !name.starts_with("convfuse-") {
        faults.push(format!(
            "{name}: the name of a published package begins with convfuse"
        ));
    }
    let fields = FIELDS.iter().filter(|field| package.get(field).is_none());
    faults.extend(fields.map(|field| format!("{name}: the manifest has no {field}")));
    let files = FILES.iter().filter(|file| !folder.join(file).is_file());
    faults.extend(files.map(|file| format!("{name}: the folder has no {file}")));
    faults
}

/// The word after each occurrence of `option`.
fn words_behind(option: &str, text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == option);
    pairs.map(|pair| pair[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace with a package of this manifest and an unpublished package.
    fn faults_of(package: &str, steps: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"host\", \"crates/*\"]\n",
        );
        write("host/Cargo.toml", &format!("[package]\n{package}"));
        write("host/LICENSE-MIT", "");
        write("host/LICENSE-APACHE", "");
        write(
            "crates/tests/Cargo.toml",
            "[package]\nname = \"tests\"\npublish = false\n",
        );
        write("crates/README.md", "");
        write(STEPS, steps);
        faults(root.path()).unwrap()
    }

    const WHOLE: &str = "name = \"convfuse\"\ndescription = \"\"\ndocumentation = \"\"\n\
        license.workspace = true\nreadme = \"\"\nrust-version.workspace = true\n";

    #[test]
    fn a_published_package_has_a_name_of_the_project_and_all_fields() {
        let steps = "cargo package --exclude tests";
        assert_eq!(faults_of(WHOLE, steps), [""; 0]);
        let taken = WHOLE.replace("\"convfuse\"", "\"cuda_std\"");
        assert_eq!(
            faults_of(&taken, steps),
            ["cuda_std: the name of a published package begins with convfuse"]
        );
        let bare = WHOLE.replace("readme = \"\"\n", "");
        assert_eq!(
            faults_of(&bare, steps),
            ["convfuse: the manifest has no readme"]
        );
    }

    #[test]
    fn those_that_are_packed_are_those_that_are_published() {
        assert_eq!(
            faults_of(WHOLE, "cargo package"),
            [".ci/run: packs tests, which is not published"]
        );
        assert_eq!(
            faults_of(WHOLE, "cargo package --exclude tests --exclude convfuse"),
            [".ci/run: does not pack convfuse"]
        );
    }
}
