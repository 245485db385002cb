//! All output of the program: results to standard output, progress and error messages to standard error.
//!
//! `clippy::print_stdout` and `print_stderr` forbid other output. Errors of standard output are
//! [failures](Failure); errors of standard error are ignored, since they cannot be reported. Output may
//! contain text of files, such as titles and names. Control characters are therefore escaped and do not
//! reach a terminal.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};

use super::failure::Failure;

/// Standard output, locked once for the whole program.
pub(super) struct Out {
    lock: io::StdoutLock<'static>,
    silent: bool,
}

impl Out {
    pub(super) fn new() -> Out {
        Out {
            lock: io::stdout().lock(),
            silent: false,
        }
    }

    /// Suppresses all text from now on, because a program reads standard output.
    pub(super) fn be_silent(&mut self) {
        self.silent = true;
    }

    /// Whether text is suppressed.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Called by `write!` and `writeln!`.
    pub(super) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let mut whole = String::new();
        // Formatting into a string fails only if a `Display` implementation fails. That output is dropped.
        let _ = whole.write_fmt(text);
        self.bytes(shown(&whole, true).as_bytes())
    }

    /// Writes bytes without escapes, such as JSON for another program.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.lock.write_all(bytes).map_err(of_stdout)
    }

    /// Flushes the output, so that a later failure loses nothing.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.lock.flush().map_err(of_stdout)
    }

    /// Whether standard output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.lock.is_terminal()
    }
}

/// Converts an error of standard output.
pub(super) fn of_stdout(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Machine(format!("standard output: {error}")),
    }
}

/// Writes a line to standard error.
pub(super) fn say(text: fmt::Arguments<'_>) {
    err(&format!("{}\n", shown(&text.to_string(), true)));
}

/// Writes an error message to standard error, in one line.
pub(super) fn complain(text: &str) {
    err(&format!("convfuse: {}\n", plain(text)));
}

/// Writes text to standard error without escapes.
pub(super) fn err(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Returns the text in one line, with escapes for control characters and line breaks.
pub(super) fn plain(text: &str) -> String {
    shown(text, false)
}

fn shown(text: &str, lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' if lines => shown.push(c),
            c if c.is_control() || turns(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether a character changes the text direction, or is a line break for some programs.
const fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats JSON with every control character escaped, including those that JSON allows in strings.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    // All keys are strings, and serde_json writes non-finite numbers as null.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\n' => escaped.push(c),
            c if c.is_control() || turns(c) => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped.push('\n');
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        let text = "a\x1b[2Jb\nc\u{9b}1m\u{202e}d\te";
        assert_eq!(plain(text), "a\\u{1b}[2Jb\\nc\\u{9b}1m\\u{202e}d\\te");
        assert!(shown(text, true).contains("b\nc"));
        assert_eq!(plain("µs, 3 × 3"), "µs, 3 × 3");
    }

    #[test]
    fn json_keeps_what_it_says() {
        let text = "a\x1b\u{7f}\u{9b}\u{202e}\n";
        let json = json(&text);
        assert!(
            json[..json.len() - 1]
                .chars()
                .all(|c| !c.is_control() && !turns(c))
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
