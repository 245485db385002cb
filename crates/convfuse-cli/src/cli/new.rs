//! `convfuse new`: creates a project that uses the library, and builds without a CUDA SDK.
//!
//! It copies the project in `examples/embedding`, with another name and another path of the library.

use std::fs;
use std::path::{Path, PathBuf};

use convfuse_cli::Status;

use super::failure::{Failure, Outcome};
use super::files::Target;
use super::out::Out;

/// The files of the example. A new project has them at the same paths.
const FILES: [(&str, &str); 4] = [
    (
        "Cargo.toml",
        include_str!("../../../../examples/embedding/Cargo.toml"),
    ),
    (
        ".cargo/config.toml",
        include_str!("../../../../examples/embedding/.cargo/config.toml"),
    ),
    (
        ".cargo/lib64/README.md",
        include_str!("../../../../examples/embedding/.cargo/lib64/README.md"),
    ),
    (
        "src/main.rs",
        include_str!("../../../../examples/embedding/src/main.rs"),
    ),
];

/// The lines of the example's manifest that a new project replaces.
const NAME: &str = r#"name = "embedding""#;
const LIBRARY: &str = r#"path = "../../host""#;

/// The path of the library that this program was built from.
const BUILT_OF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host");

/// Options of `new`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder to make; its last part is the project's name
    folder: PathBuf,
    /// The folder of the library `convfuse`, such as `host` in a clone of its repository. Without this it is
    /// the one that this program was built of; where that is gone, the published package
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let folder = &arguments.folder;
    let name = project_name(folder)?;
    let library = match &arguments.path {
        Some(path) => {
            is_library(path).map_err(|failure| failure.of(path.display()).of("--path"))?;
            by_path(path)?
        }
        None if is_library(Path::new(BUILT_OF)).is_ok() => by_path(Path::new(BUILT_OF))?,
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::of_file(&path, &error)
    };
    fs::create_dir(folder).map_err(failed(folder))?;
    for (path, text) in FILES {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        let text = text.replacen(NAME, &format!("name = \"{name}\""), 1);
        let text = text.replacen(LIBRARY, &library, 1);
        Target::new("the project", &path)?.write_beside(&text)?;
    }
    writeln!(out, "{}: a project with {library}", folder.display())?;
    writeln!(out, "run it: cd {} && cargo run", folder.display())?;
    Ok(Status::Right)
}

/// The last component of the folder, if it is a valid package name.
fn project_name(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let is_word = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match name {
        "convfuse" => Err("the project cannot have the library's name, convfuse".into()),
        // Cargo's own folders below `target`.
        "build" | "deps" | "examples" | "incremental" => Err(Failure::Refused(format!(
            "{}: cargo refuses programs called {name}",
            folder.display()
        ))),
        _ if is_word && begins => Ok(name),
        _ => Err(Failure::Refused(format!(
            "{}: the last part must be a package's name: letters, digits, - and _, no digit first",
            folder.display()
        ))),
    }
}

/// Checks that a folder contains the library.
fn is_library(folder: &Path) -> Result<(), Failure> {
    let manifest = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).map_err(|error| Failure::of_file(&manifest, &error))?;
    match text.lines().any(|line| line == r#"name = "convfuse""#) {
        true => Ok(()),
        false => Err(
            "has not the library convfuse, which is in host in a clone of its repository".into(),
        ),
    }
}

/// The manifest's dependency on the library in this folder.
fn by_path(folder: &Path) -> Result<String, Failure> {
    let folder = fs::canonicalize(folder).map_err(|error| Failure::of_file(folder, &error))?;
    let Some(path) = folder.to_str() else {
        return Err(Failure::from("is not UTF-8, which a manifest must be").of(folder.display()));
    };
    // A JSON string is also a valid TOML string.
    Ok(format!("path = {}", serde_json::Value::from(path)))
}
