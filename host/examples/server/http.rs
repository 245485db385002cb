//! The part of HTTP/1.1 that the server needs: one request per connection, with a time limit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use httparse::Status;

/// The largest number of bytes of request line and headers.
const HEAD_BYTES: usize = 16 << 10;
/// The time that a client has to read the answer to a request that was not read to its end.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) struct Request {
    /// The method and the path, such as `GET /healthz`.
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Answer {
    status: u16,
    /// The headers, each with its end of line.
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(status: u16, text: impl AsRef<str>) -> Answer {
        Answer {
            status,
            headers: "Content-Type: text/plain; charset=utf-8\r\n".to_owned(),
            body: format!("{}\n", text.as_ref()).into_bytes(),
        }
    }

    pub(crate) fn bytes(body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            headers: "Content-Type: application/octet-stream\r\n".to_owned(),
            body,
        }
    }

    pub(crate) fn header(mut self, header: impl AsRef<str>) -> Answer {
        self.headers += header.as_ref();
        self.headers += "\r\n";
        self
    }
}

/// A connection whose reads and writes fail after a deadline: a client that sends a byte now and then has no
/// more time than one that sends nothing.
pub(crate) struct Connection {
    stream: TcpStream,
    deadline: Instant,
    is_read: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Connection {
        Connection {
            stream,
            deadline: Instant::now() + patience,
            is_read: false,
        }
    }

    /// Reads the request, whose body may have at most `limit` bytes. Returns the error's answer for a bad
    /// request.
    pub(crate) fn request(&mut self, limit: usize) -> Result<Request, Answer> {
        let bad = |text: &str| Answer::text(400, text);
        let mut bytes = Vec::new();
        let (mut request, length, is_awaited) = loop {
            let mut part = [0; 4096];
            let count = self.read(&mut part).map_err(late)?;
            bytes.extend_from_slice(&part[..count]);
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut head = httparse::Request::new(&mut headers);
            match head.parse(&bytes) {
                Ok(Status::Complete(end)) => {
                    let target = [head.method, head.path].map(Option::unwrap_or_default);
                    let body = bytes[end..].to_vec();
                    let request = Request {
                        target: target.join(" "),
                        body,
                    };
                    let find = |name: &str| {
                        let mut headers = head.headers.iter();
                        headers.find(|header| header.name.eq_ignore_ascii_case(name))
                    };
                    let length = find("Content-Length").map_or(Some(0), |header| {
                        str::from_utf8(header.value).ok()?.parse::<usize>().ok()
                    });
                    let length = length.ok_or_else(|| bad("Content-Length is not a number"))?;
                    break (request, length, find("Expect").is_some());
                }
                Ok(Status::Partial) if count > 0 && bytes.len() < HEAD_BYTES => {}
                Ok(Status::Partial) => return Err(bad("the headers have no end, or are too long")),
                Err(error) => return Err(bad(&format!("this is no request: {error}"))),
            }
        };
        if length > limit {
            let text = format!("the body has {length} bytes, expected at most {limit}");
            return Err(Answer::text(413, text));
        }
        if is_awaited {
            self.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .map_err(late)?;
        }
        request.body.truncate(length);
        let mut rest = Read::take(&mut *self, (length - request.body.len()) as u64);
        rest.read_to_end(&mut request.body).map_err(late)?;
        self.is_read = true;
        Ok(request)
    }

    /// Sends the answer and closes the connection.
    pub(crate) fn send(mut self, answer: &Answer, patience: Duration) -> io::Result<()> {
        self.deadline = Instant::now() + patience;
        let (status, headers, length) = (answer.status, &answer.headers, answer.body.len());
        // The reason phrase after the status may be empty; the body has the reason.
        let head = format!(
            "HTTP/1.1 {status} \r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.write_all(&[head.as_bytes(), &answer.body].concat())?;
        if !self.is_read {
            // Closing a connection with unread bytes resets it, and the client may lose the answer.
            self.stream.shutdown(Shutdown::Write)?;
            self.deadline = Instant::now() + LINGER;
            io::copy(&mut self, &mut io::sink())?;
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.checked_duration_since(Instant::now());
        left.filter(|left| !left.is_zero())
            .map(Some)
            .ok_or(io::ErrorKind::TimedOut.into())
    }
}

fn late(_: io::Error) -> Answer {
    Answer::text(408, "the request did not arrive in time")
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
