//! One connection: as much of HTTP/1.1 as clients of the three protocols use, and byte-level control over what goes
//! back. It owns the socket and the bounds on what is read from it; it understands no body.

use std::io::{self, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::plan::{Act, End, Framing, Head, Next, Plan};
use crate::limits;

#[derive(Debug)]
pub(super) struct Line {
    socket: TcpStream,
    /// What was read and not yet used.
    unread: Vec<u8>,
}

/// A request as it came.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without what follows a question mark.
    pub(super) path: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Line {
    pub(super) fn new(socket: TcpStream) -> Line {
        // Small events should arrive one by one; if the system will not have it so, they arrive later.
        let _ = socket.set_nodelay(true);
        Line { socket, unread: Vec::new() }
    }

    /// The next request; none if the client is done. What is no request, or too large a one, is answered here.
    pub(super) async fn request(&mut self) -> io::Result<Option<Request>> {
        match self.read_request().await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let text = format!("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n{error}\n");
                self.socket.write_all(text.as_bytes()).await?;
                self.socket.shutdown().await?;
                Ok(None)
            }
            read => read,
        }
    }

    async fn read_request(&mut self) -> io::Result<Option<Request>> {
        let Some(head) = self.head().await? else { return Ok(None) };
        let mut request = parse(&head)?;
        if request.header("expect").is_some_and(|expected| expected.eq_ignore_ascii_case("100-continue")) {
            self.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let chunked = request.header("transfer-encoding").is_some();
        request.body = if chunked { self.chunked_body().await? } else { self.sized_body(&request).await? };
        Ok(Some(request))
    }

    async fn head(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.unread, b"\r\n\r\n") {
                let mut head = self.take(end + 4).await?;
                head.truncate(end);
                return Ok(Some(head));
            }
            if self.unread.len() > limits::FAKE_HEAD_BYTES_MAX {
                return Err(wrong("the head is too large"));
            }
            if self.read_more().await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn sized_body(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        let Some(length) = request.header("content-length") else { return Ok(Vec::new()) };
        let length: usize = length.parse().map_err(|_| wrong("`content-length` is not a number"))?;
        if length > limits::FAKE_BODY_BYTES_MAX {
            return Err(wrong("the body is too large"));
        }
        self.take(length).await
    }

    async fn chunked_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.text_line().await?;
            let size = line.split(';').next().unwrap_or("").trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| wrong("a chunk has no size"))?;
            if size > limits::FAKE_BODY_BYTES_MAX || body.len() + size > limits::FAKE_BODY_BYTES_MAX {
                return Err(wrong("the body is too large"));
            }
            body.extend(self.take(size).await?);
            // After the last chunk come trailers, which nobody here reads, and an empty line.
            while !self.text_line().await?.is_empty() {}
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn text_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.unread, b"\r\n") {
                let line = self.take(end + 2).await?;
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.unread.len() > limits::FAKE_HEAD_BYTES_MAX {
                return Err(wrong("a line is too large"));
            }
            self.need_more().await?;
        }
    }

    async fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < count {
            self.need_more().await?;
        }
        let rest = self.unread.split_off(count);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    async fn need_more(&mut self) -> io::Result<()> {
        match self.read_more().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn read_more(&mut self) -> io::Result<usize> {
        timeout(limits::FAKE_REQUEST_WAIT, self.socket.read_buf(&mut self.unread)).await?
    }

    /// Does what is planned, and tells `sent` of every byte of a body that went out.
    pub(super) async fn perform(&mut self, plan: Plan, sent: impl Fn(usize)) -> io::Result<Next> {
        let framing = match plan.head {
            Head::None => None,
            Head::Status { status, headers, framing } => {
                self.write_head(status, &headers, framing).await?;
                Some(framing)
            }
        };
        let chunked = matches!(framing, Some(Framing::Chunks));
        let mut body = Body { socket: &mut self.socket, chunked, sent };
        for act in plan.acts {
            body.perform(act).await?;
        }
        match plan.end {
            End::Whole => {
                if chunked {
                    self.socket.write_all(b"0\r\n\r\n").await?;
                }
                Ok(Next::Request)
            }
            End::Close => {
                self.socket.shutdown().await?;
                Ok(Next::Nothing)
            }
            End::Hold(time) => {
                self.hold(time).await;
                Ok(Next::Nothing)
            }
        }
    }

    async fn write_head(
        &mut self,
        status: u16,
        headers: &[(&'static str, String)],
        framing: Framing,
    ) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", if status < 400 { "OK" } else { "Error" });
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &match framing {
            Framing::Length(length) => format!("content-length: {length}\r\n\r\n"),
            Framing::Chunks => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        };
        self.socket.write_all(head.as_bytes()).await
    }

    /// A client that has gone is not waited for: it would keep its place for nothing.
    async fn hold(&mut self, time: Duration) {
        let mut ignored = [0; 1024];
        let gone = async { while self.socket.read(&mut ignored).await.is_ok_and(|count| count > 0) {} };
        // Which of the two it was makes no difference.
        let _ = timeout(time, gone).await;
    }
}

/// A body on its way out.
struct Body<'a, F> {
    socket: &'a mut TcpStream,
    chunked: bool,
    sent: F,
}

impl<F: Fn(usize)> Body<'_, F> {
    async fn perform(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Send(bytes) => self.send(&bytes).await,
            Act::Pause { ms } => {
                sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            Act::Repeat { bytes, times, pause_ms } => {
                self.send_all(std::iter::repeat_n(bytes.as_slice(), times), pause_ms).await
            }
            Act::Drip { bytes, pause_ms } => self.send_all(bytes.chunks(1), pause_ms).await,
            Act::Bomb { bytes } => self.bomb(bytes).await,
        }
    }

    async fn send_all<'b>(
        &mut self,
        pieces: impl Iterator<Item = &'b [u8]>,
        pause_ms: u64,
    ) -> io::Result<()> {
        for piece in pieces {
            self.send(piece).await?;
            if pause_ms > 0 {
                sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            // An empty chunk would end the body.
            return Ok(());
        }
        if self.chunked {
            let size = format!("{:x}\r\n", bytes.len());
            self.socket.write_all(&[size.as_bytes(), bytes, b"\r\n"].concat()).await?;
        } else {
            self.socket.write_all(bytes).await?;
        }
        (self.sent)(bytes.len());
        Ok(())
    }

    /// Packed while it is sent, so that it is large nowhere but at the client.
    async fn bomb(&mut self, bytes: usize) -> io::Result<()> {
        let blanks = [b' '; limits::FAKE_BLOCK_BYTES];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..bytes / blanks.len() {
            encoder.write_all(&blanks)?;
            let packed = std::mem::take(encoder.get_mut());
            self.send(&packed).await?;
        }
        let rest = encoder.finish()?;
        self.send(&rest).await
    }
}

fn parse(head: &[u8]) -> io::Result<Request> {
    let head = std::str::from_utf8(head).map_err(|_| wrong("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or("").split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) else {
        return Err(wrong("this is not HTTP/1.1"));
    };
    let header = |line: &str| {
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a header has no colon"))?;
        Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    Ok(Request {
        method: method.to_owned(),
        path: target.split('?').next().unwrap_or("").to_owned(),
        headers: lines.map(header).collect::<io::Result<_>>()?,
        body: Vec::new(),
    })
}

fn wrong(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
