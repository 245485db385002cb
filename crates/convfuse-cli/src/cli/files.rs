//! Files: inputs must be regular files, and outputs are written completely or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempPath;

use super::failure::Failure;
use super::interrupt;
use super::out::{Out, of_stdout};

/// The file name that means standard input or standard output.
const STANDARD: &str = "-";

/// The time limit for a reader to open a pipe.
const READER_COMES: Duration = Duration::from_secs(3);

/// The size limit of a text file in bytes.
const MOST_TEXT: u64 = 1 << 30;

/// Opens a file for reading. Refuses pipes, devices and folders: reading them might never end.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let failed = |error| Failure::of_file(path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        let kind = kind(&metadata.file_type());
        return Err(Failure::from(format!("is {kind}, must be a file")).of(path.display()));
    }
    File::open(path).map_err(failed)
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::Refused(format!("{}: is not UTF-8", path.display())),
        _ => Failure::of_file(path, &error),
    };
    let mut text = String::new();
    let read = match path == Path::new(STANDARD) {
        true => io::stdin().lock().take(MOST_TEXT).read_to_string(&mut text),
        false => open(path)?.take(MOST_TEXT).read_to_string(&mut text),
    };
    match read.map_err(failed)? as u64 {
        MOST_TEXT.. => Err(Failure::from(format!(
            "has {MOST_TEXT} bytes or more, too many for JSON"
        ))
        .of(path.display())),
        _ => Ok(text),
    }
}

fn kind(kind: &fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () if kind.is_socket() => "a socket",
        () => "no file",
    }
}

/// The destination of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Standard output: `-`, or a name of it such as /dev/stdout.
    Stdout,
    /// An existing file that is not a regular file, such as a pipe or /dev/null.
    Direct(PathBuf),
    /// A regular file, after following links. It is replaced atomically.
    File(PathBuf),
}

impl Target {
    /// Resolves `path`, the value of an option. Refuses paths that could not be written to later.
    pub(super) fn new(option: &str, path: &Path) -> Result<Target, Failure> {
        Target::find(path).map_err(|error| Failure::of_file(path, &error).of(option))
    }

    fn find(path: &Path) -> io::Result<Target> {
        if path == Path::new(STANDARD) {
            return Ok(Target::Stdout);
        }
        let mut target = path.to_owned();
        // The same limit as the kernel's.
        for _ in 0..40 {
            if is_stdout(&target) {
                return Ok(Target::Stdout);
            }
            let folder = folder(&target);
            let is_link = fs::symlink_metadata(&target).is_ok_and(|found| found.is_symlink());
            if !is_link {
                return Target::behind_links(target, folder);
            }
            // Links in these folders refer to open files instead of paths.
            let of_system =
                |folder: PathBuf| folder.starts_with("/proc") || folder == Path::new("/dev");
            if fs::canonicalize(&folder).is_ok_and(of_system) {
                break;
            }
            target = folder.join(fs::read_link(&target)?);
        }
        fs::metadata(path)?;
        Ok(Target::Direct(path.to_owned()))
    }

    fn behind_links(target: PathBuf, folder: PathBuf) -> io::Result<Target> {
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            // Opening a pipe waits for a reader, so it is opened only for writing its contents.
            Ok(found) if !found.is_file() => return Ok(Target::Direct(target)),
            // A user without write permission to a file may not replace it either.
            Ok(_) => drop(OpenOptions::new().write(true).open(&target)?),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if target.file_name().is_none() => {
                return Err(io::ErrorKind::InvalidFilename.into());
            }
            Err(_) => {}
        }
        // Detects a folder that does not allow new files.
        drop(interrupt::temporary(&folder)?);
        Ok(Target::File(target))
    }

    /// Whether two targets are the same file.
    pub(super) fn is(&self, other: &Target) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match (self, other) {
            (Target::File(one), Target::File(other)) if one.exists() && other.exists() => {
                real(one) == real(other)
            }
            (Target::Stdout, Target::Stdout) => true,
            (Target::File(one), Target::File(other)) => {
                let place =
                    |path: &Path| (real(&folder(path)), path.file_name().map(OsStr::to_owned));
                place(one) == place(other)
            }
            _ => false,
        }
    }

    /// Writes the whole text.
    pub(super) fn write(&self, out: &mut Out, text: &str) -> Result<(), Failure> {
        interrupt::give_way();
        match self {
            Target::Stdout => out.bytes(text.as_bytes()).and_then(|()| out.flush()),
            _ => self.write_beside(text),
        }
    }

    /// As [`write`](Target::write), for use while [`Out`] is in use: the text follows what is already
    /// printed.
    pub(super) fn write_beside(&self, text: &str) -> Result<(), Failure> {
        let mut file = self.create()?;
        let path = || self.path().unwrap_or(Path::new("standard output"));
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| Failure::of_file(path(), &error))?;
        file.finish()
    }

    /// Begins a file, which becomes visible when it is [finished](Whole::finish).
    pub(super) fn create(&self) -> Result<Whole, Failure> {
        let begun = match self {
            Target::Stdout => {
                use std::os::fd::AsFd;
                let stdout = io::stdout();
                let file = stdout.as_fd().try_clone_to_owned().map(File::from);
                file.map(|file| (None, file))
            }
            Target::Direct(path) => direct(path).map(|file| (None, file)),
            Target::File(path) => interrupt::temporary(&folder(path))
                .map(|(file, temporary)| (Some((temporary, path.clone())), file)),
        };
        let failed = |error| Failure::of_file(self.path().unwrap_or(Path::new(STANDARD)), &error);
        let (moving, file) = begun.map_err(failed)?;
        Ok(Whole {
            target: self.clone(),
            file: BufWriter::with_capacity(1 << 18, file),
            moving,
        })
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Target::Stdout => None,
            Target::Direct(path) | Target::File(path) => Some(path),
        }
    }
}

/// Opens a file that is not a regular file. A pipe is opened once it has a reader, within [`READER_COMES`].
fn direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if fs::metadata(path)?.file_type().is_fifo() {
        let begun = Instant::now();
        // A non-blocking open fails where a blocking one would wait, possibly forever.
        let attempt = || options.clone().custom_flags(libc::O_NONBLOCK).open(path);
        loop {
            match attempt() {
                // While the non-blocking handle is held, a blocking open succeeds immediately.
                Ok(_held) => return options.open(path),
                Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
                Err(_) if begun.elapsed() > READER_COMES => {
                    let text = "is a pipe that nobody reads";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    options.open(path)
}

/// Whether a path is a name of standard output.
fn is_stdout(path: &Path) -> bool {
    let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.into_iter().any(|name| path == Path::new(name))
}

/// Returns the folder of a file.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A file that is being written. If it is dropped before it is finished, the old contents remain.
pub(super) struct Whole {
    target: Target,
    file: BufWriter<File>,
    /// The temporary file and its final path.
    moving: Option<(TempPath, PathBuf)>,
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Whole {
    /// Converts an error in writing this file.
    pub(super) fn failed(&self, error: io::Error) -> Failure {
        match self.target.path() {
            None => of_stdout(error),
            Some(path) => Failure::of_file(path, &error),
        }
    }

    /// Moves the complete file to its final path.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let finished = self.try_finish();
        finished.map_err(|error| self.failed(error))
    }

    fn try_finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some((temporary, path)) = self.moving.take() else {
            return Ok(());
        };
        // The new file gets the old one's permissions.
        if let Ok(before) = fs::metadata(&path) {
            self.file.get_ref().set_permissions(before.permissions())?;
        }
        self.file.get_ref().sync_all()?;
        interrupt::persist(temporary, &path)
    }
}

#[cfg(test)]
mod tests;
