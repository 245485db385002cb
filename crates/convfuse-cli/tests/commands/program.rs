//! Helpers that run the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program in its own working folder.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit status; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The line of standard error that begins with the program's name.
    #[track_caller]
    pub(crate) fn complaint(&self) -> &str {
        let mut lines = self
            .err
            .lines()
            .filter(|line| line.starts_with("convfuse: "));
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("no complaint: {self:?}"));
        assert_eq!(lines.next(), None, "one complaint: {self:?}");
        line
    }

    /// Asserts that the exit status is 0.
    #[track_caller]
    pub(crate) fn right(self) -> Ran {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts that the run was refused early, with an error message that contains these words.
    #[track_caller]
    pub(crate) fn was_refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        for words in words {
            self.complains(words);
        }
    }

    /// Asserts that the error message contains these words.
    #[track_caller]
    pub(crate) fn complains(&self, words: &str) {
        assert!(self.complaint().contains(words), "{words}: {self:?}");
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let ran = Ran {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        };
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        ran
    }
}

impl Program {
    pub(crate) fn new() -> Program {
        Program {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the folder.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).expect("a file");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    /// The sorted names in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The program with these arguments, separated by spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convfuse"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .env("CONVFUSE_CACHE", "off");
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Ran {
        self.command(arguments)
            .output()
            .expect("the program")
            .into()
    }

    /// Runs the program, and asserts that the exit status is 0.
    #[track_caller]
    pub(crate) fn right(&self, arguments: &str) -> Ran {
        self.run(arguments).right()
    }

    /// Runs the program with an additional last argument of arbitrary bytes.
    pub(crate) fn run_with(&self, arguments: &str, last: impl AsRef<OsStr>) -> Ran {
        let mut command = self.command(arguments);
        command.arg(last).output().expect("the program").into()
    }

    /// A pipe in the folder without a writer.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        system("mkfifo", &[path.as_os_str()]);
        path
    }
}

/// Runs a command of the system.
pub(crate) fn system(name: &str, arguments: &[&OsStr]) {
    let status = Command::new(name).args(arguments).status();
    assert!(status.expect(name).success(), "{name}");
}

/// The repository's golden files.
pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// An array in NumPy's format.
pub(crate) fn npy(shape: &str, values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let mut head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + head.len() + 1) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.into_bytes());
    bytes.extend(values.into_iter().flat_map(f32::to_le_bytes));
    bytes
}
