//! One conversation with a server, from the handshake to its end.
//!
//! Owns asking it to do something within a time, telling it when nobody waits any more, and saying in words how it broke
//! off. Refuses to ask twice, but says when a question was surely not taken.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
    ErrorData, JsonObject, PingRequest, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{Peer, RoleClient, ServiceError, serve_client};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::client::{Client, Heard};
use super::http::NotTaken;
use super::listing::{self, Listing};
use super::log::Log;
use super::names::plainly;
use super::pin::Offered;
use super::stdio::{Mark, Process, Program, Verdict};
use super::{http, limits};
use crate::cancel::Cancel;

/// Where the other side is.
pub(super) enum Place {
    Program(Program),
    Address { url: String, headers: Vec<(String, String)> },
}

impl Place {
    /// Which of the code there is held by no hash, in words. Of a server elsewhere nobody expects it.
    pub(super) fn unpinned(&self) -> Option<String> {
        match self {
            Place::Program(program) => program.unpinned(),
            Place::Address { .. } => None,
        }
    }
}

pub(super) struct Link {
    server: String,
    peer: Peer<RoleClient>,
    heard: Arc<Heard>,
    verdict: Verdict,
    log: Log,
    /// Empty once closed.
    held: Mutex<Option<Held>>,
}

/// Dropped, the conversation ends first and the process is killed then.
struct Held {
    service: RunningService<RoleClient, Client>,
    process: Option<Process>,
}

/// How a call went.
pub(super) enum Called {
    Answered(Box<CallToolResult>),
    /// The server says no, in the protocol's words.
    Refused(ErrorData),
    TimedOut,
    Cancelled,
    /// The conversation broke off after the question was put: nobody knows what became of it.
    Cut(String),
}

/// What can end waiting for an answer.
enum Wake<T> {
    Came(T),
    TimedOut,
    Cancelled,
}

impl Link {
    /// Starts or reaches the server and greets it. The error says what went wrong.
    pub(super) async fn open(
        place: &Place,
        mark: &Mark<'_>,
        log: &Log,
        client: Client,
    ) -> Result<Link, String> {
        let (server, heard) = (client.heard.server().to_owned(), Arc::clone(&client.heard));
        let (service, process, verdict) = match place {
            Place::Program(program) => {
                let (mut process, stdout, stdin) = Process::start(program, mark, log)
                    .map_err(|error| format!("{} cannot be started: {error}", program.file.display()))?;
                let verdict = stdout.verdict.clone();
                // Our own watch over the output is the one that ends it, and says why.
                let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(usize::MAX);
                match serve_client(client, transport).await {
                    Ok(service) => (service, Some(process), verdict),
                    Err(error) => {
                        return Err(why(&error.to_string(), &verdict, Some(&mut process), log).await);
                    }
                }
            }
            Place::Address { url, headers } => {
                let greeted = serve_client(client, http::transport(url, headers)?).await;
                let service = greeted.map_err(|error| plainly(&error.to_string()))?;
                (service, None, Verdict::default())
            }
        };
        let peer = service.peer().clone();
        let held = Mutex::new(Some(Held { service, process }));
        Ok(Link { server, peer, heard, verdict, log: log.clone(), held })
    }

    /// The server's tools. Some servers add tools once they know their client, so we wait a moment for a list that rests.
    pub(super) async fn tools(&self) -> Result<(Vec<Offered>, Vec<String>), String> {
        for _ in 0..limits::SETTLE_ROUNDS_MAX {
            self.heard.take_tools_changed();
            let tools = listing::tools(&self.server, &self.peer, &self.log).await?;
            sleep(limits::SETTLE_TIME).await;
            if !self.heard.take_tools_changed() {
                return Ok(tools);
            }
        }
        listing::tools(&self.server, &self.peer, &self.log).await
    }

    /// Everything the server has.
    pub(super) async fn listing(&self) -> Result<Listing, String> {
        let (tools, left_out) = self.tools().await?;
        let (mut resources, mut prompts) = listing::others(&self.peer).await;
        for text in resources.iter_mut().chain(&mut prompts).flat_map(|one| [&mut one.name, &mut one.about]) {
            *text = self.log.struck(text);
        }
        let about = self.peer.peer_info().map(|info| listing::about(&info)).unwrap_or_default();
        Ok(Listing { about, tools, left_out, resources, prompts })
    }

    pub(super) fn tools_changed(&self) -> bool {
        self.heard.take_tools_changed()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Does the server still answer at all?
    pub(super) async fn answers(&self) -> bool {
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        matches!(timeout(limits::PING_TIME, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        time: Duration,
        cancel: &Cancel,
    ) -> Result<Called, NotTaken> {
        self.heard.call_begins();
        self.log.take_last_words();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut asked: Option<RequestId> = None;
        let asking = async {
            let handle =
                self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
            asked = Some(handle.id.clone());
            handle.await_response().await
        };
        Ok(match within(asking, time, cancel).await {
            Wake::Came(Ok(ServerResult::CallToolResult(result))) => Called::Answered(Box::new(result)),
            Wake::Came(Ok(_)) => Called::Refused(ErrorData::internal_error(
                "the server wants something a run cannot give instead of answering",
                None,
            )),
            Wake::Came(Err(error)) => self.broke(error).await?,
            Wake::TimedOut => {
                self.nobody_waits(asked, "timed out").await;
                Called::TimedOut
            }
            Wake::Cancelled => {
                self.nobody_waits(asked, "the run was paused").await;
                Called::Cancelled
            }
        })
    }

    /// Ends the conversation and everything that was started for it.
    pub(super) async fn close(&self) {
        let Some(Held { mut service, process }) = self.held.lock().await.take() else { return };
        service.close_with_timeout(limits::CLOSE_TIME).await.ok();
        if let Some(process) = process {
            process.end().await;
        }
        self.log.note("ended");
    }

    async fn nobody_waits(&self, asked: Option<RequestId>, reason: &str) {
        if asked.is_some() {
            let told = CancelledNotificationParam::new(asked, Some(reason.to_owned()));
            timeout(limits::CANCEL_TIME, self.peer.notify_cancelled(told)).await.ok();
        }
    }

    async fn broke(&self, error: ServiceError) -> Result<Called, NotTaken> {
        if let ServiceError::McpError(error) = error {
            return Ok(Called::Refused(error));
        }
        if let ServiceError::TransportSend(error) = &error
            && let Some(not_taken) = NotTaken::of(error)
        {
            return Err(not_taken);
        }
        let mut held = self.held.lock().await;
        let process = held.as_mut().and_then(|held| held.process.as_mut());
        Ok(Called::Cut(why(&error.to_string(), &self.verdict, process, &self.log).await))
    }
}

/// How a conversation broke off, in words: what we objected to, else how the process ended, else what the protocol says.
async fn why(error: &str, verdict: &Verdict, process: Option<&mut Process>, log: &Log) -> String {
    if let Some(verdict) = verdict.get() {
        return verdict;
    }
    let status = match process {
        Some(process) => process.ended().await,
        None => None,
    };
    let words = log.quoted();
    match status {
        Some(status) => format!("the server ended ({status}){words}"),
        None => format!("{}{words}", plainly(error)),
    }
}

async fn within<T>(work: impl Future<Output = T>, time: Duration, cancel: &Cancel) -> Wake<T> {
    let (mut work, mut deadline, mut cancelled) = (pin!(work), pin!(sleep(time)), pin!(cancel.cancelled()));
    tokio::select! {
        came = &mut work => Wake::Came(came),
        () = &mut deadline => Wake::TimedOut,
        () = &mut cancelled => Wake::Cancelled,
    }
}
