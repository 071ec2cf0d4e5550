//! A provider as bad as a test wants it: one answer to each connection, byte for byte as scripted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    /// The same bytes over and over, this often, with this pause.
    Repeat {
        bytes: Vec<u8>,
        times: usize,
        every: Duration,
    },
    /// Nothing more, with the line open.
    Hang,
}

pub struct Server {
    pub address: SocketAddr,
    /// The requests as they came, head and body.
    pub requests: mpsc::UnboundedReceiver<String>,
    /// One message for each line that the client closed while the server hung.
    pub closed: mpsc::UnboundedReceiver<()>,
    pub sent: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(steps: Vec<Step>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (request_sender, requests) = mpsc::unbounded_channel();
        let (closed_sender, closed) = mpsc::unbounded_channel();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = sent.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut line, _)) = listener.accept().await {
                let _ = request_sender.send(read_request(&mut line).await);
                if play(&mut line, &steps, &counter).await == Left::Hanging {
                    let mut rest = [0; 64];
                    while line.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                    let _ = closed_sender.send(());
                }
            }
        });
        Server { address, requests, closed, sent, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// The head of an answer whose body ends with the connection.
pub fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n").into_bytes()
}

#[derive(PartialEq)]
enum Left {
    Done,
    Hanging,
}

async fn play(line: &mut TcpStream, steps: &[Step], sent: &AtomicUsize) -> Left {
    for step in steps {
        let (bytes, times, every) = match step {
            Step::Send(bytes) => (bytes, 1, Duration::ZERO),
            Step::Repeat { bytes, times, every } => (bytes, *times, *every),
            Step::Hang => return Left::Hanging,
        };
        for _ in 0..times {
            if line.write_all(bytes).await.is_err() {
                return Left::Done;
            }
            sent.fetch_add(bytes.len(), Ordering::Relaxed);
            if !every.is_zero() {
                tokio::time::sleep(every).await;
            }
        }
    }
    let _ = line.shutdown().await;
    Left::Done
}

async fn read_request(line: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(|value| value.trim().to_owned())
            });
            if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                return text;
            }
        }
        match line.read(&mut chunk).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            Ok(_) | Err(_) => return text,
        }
    }
}
