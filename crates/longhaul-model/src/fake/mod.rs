//! A provider that plays a script: the three wire protocols on one port of this machine, with every fault a real
//! provider has been seen to have.
//!
//! It owns a small HTTP server, the way from a request of any of the protocols to the script's turn, and the way from
//! there to bytes. It answers whoever asks for whichever model; it listens on the loopback address only, speaks no TLS
//! and refuses to be a general server: one request after the other on a connection, heads and bodies within bounds.
//!
//! How a turn is found. The wire carries less than a run knows, so the turn is the number of times the model has spoken
//! in the conversation, plus one; the prompt is the system text and what the user said before the model first spoke;
//! `match` keys about the agent, step, iteration and depth cannot be checked (see `Stage::Unknown`). The attempt is the
//! number of times the very same body has come to this server, whoever sent it: two runs with one prompt share their
//! attempts, and a second rehearsal wants a fresh server.

mod answer;
mod anthropic;
mod asked;
mod chat;
mod line;
mod plan;
mod record;
mod refusal;
mod responses;
mod spoken;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::limits;
use crate::scripted::Scripted;
use crate::wire::Api;

use answer::Desk;
use line::Line;
pub use record::Received;

#[derive(Clone)]
pub struct Options {
    /// The one protocol to speak; `None` speaks all three.
    pub api: Option<Api>,
    /// The port to listen on; 0 takes any that is free.
    pub port: u16,
    /// The one key that is accepted. `None` accepts everything, also no key at all.
    pub key: Option<String>,
}

impl Options {
    /// Every protocol, any port, any key.
    pub fn open() -> Options {
        Options { api: None, port: 0, key: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "[secret]");
        f.debug_struct("Options")
            .field("api", &self.api)
            .field("port", &self.port)
            .field("key", &key)
            .finish()
    }
}

/// A running server. Dropping it ends it, with all its connections.
#[derive(Debug)]
pub struct FakeProvider {
    address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

impl FakeProvider {
    pub async fn start(script: Scripted, options: Options) -> Result<FakeProvider, io::Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk::new(script, options));
        let task = tokio::spawn(accept(listener, desk.clone()));
        Ok(FakeProvider { address, desk, task })
    }

    /// What a client takes for its base address: without a path, which clients of every protocol complete.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What has come so far, in its order; of very much only the newest.
    pub fn requests(&self) -> Vec<Arc<Received>> {
        self.desk.record.requests()
    }

    /// Hears each request from now on, as it is answered.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Received>> {
        self.desk.record.watch()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.desk.record.connections()
    }

    /// How many bytes of answers clients have taken so far.
    pub fn sent_bytes(&self) -> u64 {
        self.desk.record.sent_bytes()
    }

    /// Ends it now, as dropping it does.
    pub fn stop(self) {}
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes connections until it is aborted; those it has opened end with it.
async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < limits::FAKE_CONNECTIONS_MAX => match accepted {
                Ok((socket, _)) => {
                    desk.record.connected();
                    open.spawn(serve(Line::new(socket), desk.clone()));
                }
                // Its client has given up, or the system has no more to give; both pass.
                Err(_) => sleep(limits::FAKE_ACCEPT_PAUSE).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// One request after the other, until either side has had enough. A socket that fails is the client's matter.
async fn serve(mut line: Line, desk: Arc<Desk>) {
    while let Ok(Some(request)) = line.request().await {
        let plan = desk.answer(request);
        let sent = |bytes: usize| desk.record.sent(bytes);
        match line.perform(plan, sent).await {
            Ok(plan::Next::Request) => {}
            Ok(plan::Next::Nothing) | Err(_) => return,
        }
    }
}
