//! All that the program prints: results to standard output, progress and complaints to standard error.
//!
//! Nothing else prints, which `clippy::print_stdout` and `print_stderr` hold. Errors of standard output are
//! [failures](Failure), those of standard error are passed over: nobody is left to tell. What is printed may
//! come from files, titles and names for example, so control characters are shown and do not reach a
//! terminal.

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

    /// Leaves out all text from now on, for a program reads standard output.
    pub(super) fn be_silent(&mut self) {
        self.silent = true;
    }

    /// Whether text is left out.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// What `write!` and `writeln!` call.
    pub(super) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let mut whole = String::new();
        // A string takes all, and what cannot be shown is left out.
        let _ = whole.write_fmt(text);
        self.bytes(shown(&whole, true).as_bytes())
    }

    /// Text as it is, such as JSON, whose reader is a program.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.lock.write_all(bytes).map_err(of_stdout)
    }

    /// Hands over what is there, so that a later failure loses nothing.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.lock.flush().map_err(of_stdout)
    }

    /// Whether people read it.
    pub(super) fn is_terminal(&self) -> bool {
        self.lock.is_terminal()
    }
}

/// What an error of standard output means.
pub(super) fn of_stdout(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Machine(format!("standard output: {error}")),
    }
}

/// A line on standard error.
pub(super) fn say(text: fmt::Arguments<'_>) {
    err(&format!("{}\n", shown(&text.to_string(), true)));
}

/// A complaint on standard error, in one line.
pub(super) fn complain(text: &str) {
    err(&format!("convfuse: {}\n", plain(text)));
}

/// Text on standard error as it is.
pub(super) fn err(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// The text in one line, with escapes for what would change a line or a terminal.
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

/// Whether a character changes the direction of others, or ends a line for some readers.
const fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON in which every control character stands as an escape: those that JSON allows in strings, too.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    // All keys are strings, and numbers that JSON lacks become null.
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
