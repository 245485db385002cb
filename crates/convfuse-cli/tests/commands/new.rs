//! Projects created by `new`. Building and running one takes minutes, which only continuous integration
//! does.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::Program;

/// The metadata that cargo resolves for a project, including the library and its dependencies. With this
/// repository's lock file, cargo needs no newer packages from the network.
fn metadata(project: &Path) -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).expect("a lock file");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(project)
        .output()
        .expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_project_stands_on_the_library_that_the_program_was_built_of() {
    let program = Program::new();
    let ran = program.right("new my-project");
    let project = program.path("my-project");
    assert!(
        ran.out.ends_with("run it: cd my-project && cargo run\n"),
        "{ran:?}"
    );
    let metadata = metadata(&project);
    let packages = metadata["packages"].as_array().expect("packages");
    let find = |name: &str| packages.iter().find(|package| package["name"] == name);
    let own = find("my-project").expect("the project");
    let library = find("convfuse").expect("the library");
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/Cargo.toml");
    assert_eq!(
        library["manifest_path"].as_str().map(Path::new),
        Some(fs::canonicalize(host).expect("a file").as_path())
    );
    assert_eq!(own["dependencies"][0]["uses_default_features"], false);
    assert!(project.join(".cargo/lib64").is_dir());
    let workspace = metadata["workspace_root"].as_str().map(Path::new);
    let expected = fs::canonicalize(&project).expect("a folder");
    assert_eq!(workspace, Some(expected.as_path()));
}

#[test]
fn a_project_is_refused_where_something_is_or_by_a_name_that_no_package_has() {
    let program = Program::new();
    program.right("new one");
    let manifest = program.read("one/Cargo.toml");
    let again = program.run("new one");
    again.was_refused(&["one: ", "exists"]);
    assert_eq!(program.read("one/Cargo.toml"), manifest);
    for name in ["2d", "a.b", "..", "gr\u{fc}n", "-- -x"] {
        program
            .run(&format!("new {name}"))
            .was_refused(&["must be a package's name"]);
    }
    program
        .run("new build")
        .was_refused(&["build: cargo refuses programs called build"]);
    program
        .run("new convfuse")
        .was_refused(&["cannot have the library's name"]);
    program
        .run("new no/such/folder")
        .was_refused(&["no/such/folder: "]);
    program
        .run("new two --path one")
        .was_refused(&["--path: one: has not the library"]);
    program
        .run("new two --path none")
        .was_refused(&["--path: none: none/Cargo.toml: "]);
    assert_eq!(program.names(), ["one"]);
}

#[test]
fn the_readme_shows_the_files_of_a_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).expect("a file");
    let example = root.join("examples/embedding");
    for (kind, file) in [
        ("toml", "Cargo.toml"),
        ("toml", ".cargo/config.toml"),
        ("rust", "src/main.rs"),
    ] {
        let text = fs::read_to_string(example.join(file)).expect("a file");
        let text = text.replace("../../host", "../convfuse/host");
        let shown = format!("`{file}`");
        let (_, behind) = readme
            .split_once(&shown)
            .unwrap_or_else(|| panic!("{shown}"));
        let block = format!("```{kind}\n{text}```\n");
        let (between, _) = behind
            .split_once(&block)
            .unwrap_or_else(|| panic!("{block}"));
        assert!(
            !between.contains("```"),
            "{file} is shown behind another block"
        );
    }
}
