//! What is done on a connection, as data: so that every answer and every fault is decided before a byte moves. It owns
//! the shapes; `line` performs them.

use std::time::Duration;

use serde_json::Value;

/// One answer, from its first byte to what becomes of the connection.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) head: Head,
    pub(super) acts: Vec<Act>,
    pub(super) end: End,
}

#[derive(Debug)]
pub(super) enum Head {
    /// The answer has none, because it is not HTTP or never comes.
    None,
    Status {
        status: u16,
        headers: Vec<(&'static str, String)>,
        framing: Framing,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// A stated length, which a fault may not keep to.
    Length(usize),
    Chunks,
}

#[derive(Debug)]
pub(super) enum Act {
    Send(Vec<u8>),
    Pause {
        ms: u64,
    },
    /// The same bytes so many times, with a pause after each.
    Repeat {
        bytes: Vec<u8>,
        times: usize,
        pause_ms: u64,
    },
    /// The bytes one by one, with a pause after each.
    Drip {
        bytes: Vec<u8>,
        pause_ms: u64,
    },
    /// Blanks that unpack to so many bytes.
    Bomb {
        bytes: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The body ends as it should, and the connection is kept.
    Whole,
    /// The connection closes where it is.
    Close,
    /// Nothing more happens for that time, or until the client goes.
    Hold(Duration),
}

/// Whether another request may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Request,
    Nothing,
}

pub(super) type Headers = Vec<(&'static str, String)>;

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream; charset=utf-8";

impl Plan {
    pub(super) fn json(status: u16, headers: Headers, body: &Value) -> Plan {
        Plan::whole(status, JSON, headers, body.to_string().into_bytes())
    }

    pub(super) fn whole(status: u16, kind: &str, mut headers: Headers, body: Vec<u8>) -> Plan {
        headers.push(("content-type", kind.to_owned()));
        let head = Head::Status { status, headers, framing: Framing::Length(body.len()) };
        Plan { head, acts: vec![Act::Send(body)], end: End::Whole }
    }

    pub(super) fn stream(headers: Headers, acts: Vec<Act>, end: End) -> Plan {
        Plan::chunks(EVENTS, headers, acts, end)
    }

    pub(super) fn chunks(kind: &str, mut headers: Headers, acts: Vec<Act>, end: End) -> Plan {
        headers.push(("content-type", kind.to_owned()));
        Plan { head: Head::Status { status: 200, headers, framing: Framing::Chunks }, acts, end }
    }

    pub(super) fn raw(acts: Vec<Act>, end: End) -> Plan {
        Plan { head: Head::None, acts, end }
    }

    /// The same plan after a pause.
    #[must_use]
    pub(super) fn after(mut self, ms: u64) -> Plan {
        if ms > 0 {
            self.acts.insert(0, Act::Pause { ms });
        }
        self
    }
}
