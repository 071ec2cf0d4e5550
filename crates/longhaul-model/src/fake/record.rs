//! What a server has seen: requests for tests to look at, attempts, connections. It owns memory within a bound and
//! shows no key.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::Attempt;
use serde_json::Value;
use tokio::sync::broadcast;

use super::line::Request;
use crate::limits;

/// One request, and how it was answered. Its `Debug` shows no value of a header that can carry a key.
#[derive(Clone)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// `Null` if the body was no JSON.
    pub body: Value,
    /// What was answered, for people: `turn 2, attempt 1: reply`.
    pub answer: String,
    size: usize,
}

impl Received {
    pub(super) fn new(request: Request, body: Value, answer: String) -> Received {
        let Request { method, path, headers, body: bytes } = request;
        let size = limits::FAKE_REQUEST_BYTES_LEAST + bytes.len();
        Received { method, path, headers, body, answer, size }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &(String, String)| {
            let value = if may_be_shown(name) { value.clone() } else { "[secret]".to_owned() };
            (name.clone(), value)
        };
        let headers: Vec<(String, String)> = self.headers.iter().map(shown).collect();
        f.debug_struct("Received")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &headers)
            .field("body", &self.body)
            .field("answer", &self.answer)
            .finish_non_exhaustive()
    }
}

/// Providers take keys under many names, so only what is known to carry none is shown.
fn may_be_shown(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "anthropic-beta"
            | "anthropic-version"
            | "content-length"
            | "content-type"
            | "host"
            | "transfer-encoding"
            | "user-agent"
    )
}

#[derive(Debug)]
pub(super) struct Record {
    log: Mutex<Log>,
    watchers: broadcast::Sender<Arc<Received>>,
    connections: AtomicU64,
    sent_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Log {
    requests: VecDeque<Arc<Received>>,
    request_bytes: usize,
    /// How often each body came.
    seen: HashMap<u64, u32>,
}

impl Record {
    pub(super) fn new() -> Record {
        Record {
            log: Mutex::default(),
            watchers: broadcast::Sender::new(limits::FAKE_WATCH_MAX),
            connections: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn requests(&self) -> Vec<Arc<Received>> {
        self.log().requests.iter().cloned().collect()
    }

    pub(super) fn watch(&self) -> broadcast::Receiver<Arc<Received>> {
        self.watchers.subscribe()
    }

    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Counts a body: the n-th of its kind is the n-th attempt.
    pub(super) fn attempt(&self, digest: u64) -> Attempt {
        let mut log = self.log();
        if log.seen.len() >= limits::FAKE_BODIES_MAX {
            log.seen.clear();
        }
        let times = log.seen.entry(digest).or_insert(0);
        *times = times.saturating_add(1);
        Attempt(*times)
    }

    pub(super) fn remember(&self, received: Received) {
        let received = Arc::new(received);
        let mut log = self.log();
        log.request_bytes += received.size;
        log.requests.push_back(received.clone());
        while log.request_bytes > limits::FAKE_RECORD_BYTES_MAX {
            let Some(oldest) = log.requests.pop_front() else { break };
            log.request_bytes -= oldest.size;
        }
        drop(log);
        // Nobody may be watching.
        let _ = self.watchers.send(received);
    }

    /// A log is whole after every change, so one that a panic left behind is still good.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for the same request in every process, because ids are made of it.
pub(super) fn digest(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.path, &request.body).hash(&mut hasher);
    hasher.finish()
}
