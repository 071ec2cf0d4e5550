//! Servers elsewhere that are killed and started again while a run talks with them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longhaul_core::tool::{EffectClass, Failure, Outcome};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{Fixture, done, failure};
use crate::rig::Rig;

/// Far less than a call may take here.
const SOON: Duration = Duration::from_secs(30);

/// One process of the server; killed when dropped.
struct Elsewhere {
    child: Child,
    port: u16,
}

impl Elsewhere {
    fn start(fixture: &Fixture, mode: &str, description: &str, port: u16) -> Elsewhere {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/elsewhere.py")).args([mode, description]);
        command.arg(memory(fixture)).arg(port.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Elsewhere { child, port: said.trim().parse().unwrap() }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn memory(fixture: &Fixture) -> std::path::PathBuf {
    fixture.outer.path().join("carried-out")
}

/// A run whose server was met, and that process.
async fn met(mode: &str) -> (Rig, Elsewhere) {
    let fixture = Fixture::new();
    let server = Elsewhere::start(&fixture, mode, "adds", 0);
    let mut rig =
        Rig::over(fixture, json!({ "url": format!("http://127.0.0.1:{}/mcp", server.port) })).met().await;
    rig.fixture.context.timeout = 2 * SOON;
    assert_eq!(rig.tool("add").spec().class, EffectClass::Once);
    (rig, server)
}

impl Rig {
    async fn add(&self) -> Outcome {
        self.call("add", json!({})).await
    }

    fn carried_out(&self) -> Vec<String> {
        let text = fs::read_to_string(memory(&self.fixture)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Ends the server and starts it again at the same place.
    fn restart(&self, server: Elsewhere, mode: &str, description: &str) -> Elsewhere {
        let port = server.port;
        drop(server);
        Elsewhere::start(&self.fixture, mode, description, port)
    }
}

/// A session the server does not know is begun anew, and the call that met it is put again: it was not carried out.
#[tokio::test]
async fn a_call_to_a_server_that_was_restarted_is_carried_out_once() {
    for mode in ["404", "400"] {
        let (rig, server) = met(mode).await;
        assert_eq!(done(&rig.add().await), "added");
        let _server = rig.restart(server, mode, "adds");
        let began = Instant::now();
        let outcome = rig.add().await;
        assert_eq!(done(&outcome), "added", "{mode}");
        assert!(began.elapsed() < SOON, "{mode}");
        assert_eq!(rig.carried_out(), ["added", "added"], "{mode}");
        assert_eq!(done(&rig.add().await), "added", "and the new session is kept");
        rig.rest().await;
    }
}

/// A59: what came back with another description is not what was accepted.
#[tokio::test]
async fn a_restarted_server_is_held_against_its_pin() {
    let (rig, server) = met("404").await;
    assert_eq!(done(&rig.add().await), "added");
    let _server = rig.restart(server, "404", "adds, and tells others");
    let outcome = rig.add().await;
    let (kind, message, _) = failure(&outcome);
    assert_eq!(kind, Failure::NotPermitted);
    assert!(message.contains("the description of `add`"), "{message}");
    assert_eq!(rig.carried_out(), ["added"]);
    rig.rest().await;
}

/// Nobody listens for a moment: the call waits and is put again. What nobody took has no unknown outcome.
#[tokio::test]
async fn a_call_waits_for_a_server_that_is_being_restarted() {
    let (rig, server) = met("404").await;
    assert_eq!(done(&rig.add().await), "added");
    let next = Elsewhere::start(&rig.fixture, "404", "adds", 0);
    let (old, new) = (server.port, next.port);
    drop(server);
    let comes_back = async {
        while !rig.log().contains("no connection could be made") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let listener = TcpListener::bind(("127.0.0.1", old)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = TcpStream::connect(("127.0.0.1", new)).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
            }
        });
    };
    let both = async { tokio::join!(rig.add(), comes_back) };
    let (outcome, ()) = tokio::time::timeout(SOON, both).await.unwrap();
    assert_eq!(done(&outcome), "added");
    assert_eq!(rig.carried_out(), ["added", "added"]);
    rig.rest().await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_said_to_be_gone() {
    let (rig, server) = met("404").await;
    assert_eq!(done(&rig.add().await), "added");
    let port = server.port;
    drop(server);
    let gone = rig.add().await;
    let (kind, message, _) = failure(&gone);
    assert_eq!(kind, Failure::Network);
    assert!(message.contains("`srv` cannot be reached"), "{message}");
    let _server = Elsewhere::start(&rig.fixture, "404", "adds", port);
    assert_eq!(done(&rig.add().await), "added");
    assert_eq!(rig.carried_out(), ["added", "added"]);
    rig.rest().await;
}

/// A server that forgets every session is asked twice and not for ever.
#[tokio::test]
async fn a_call_is_put_once_more_and_not_again() {
    let (rig, _server) = met("forgetful").await;
    let outcome = rig.add().await;
    let (kind, message, _) = failure(&outcome);
    assert_eq!(kind, Failure::Network);
    assert!(message.contains("does not know the session; nothing was carried out"), "{message}");
    assert!(message.contains("the next call starts afresh"), "{message}");
    assert_eq!(rig.carried_out(), ["forgotten", "forgotten"]);
    rig.rest().await;
}

/// A connection that ends in the middle: the call may have been carried out, so it is not put again.
#[tokio::test]
async fn a_call_that_may_have_been_carried_out_is_not_put_again() {
    let (rig, server) = met("breaks").await;
    let outcome = rig.add().await;
    let Outcome::Unknown { message } = &outcome else { panic!("{outcome:?}") };
    assert!(message.contains("broke off") && message.ends_with("; the next call starts afresh"), "{message}");
    assert_eq!(rig.carried_out(), ["added"]);
    let _server = rig.restart(server, "404", "adds");
    assert_eq!(done(&rig.add().await), "added");
    rig.rest().await;
}

/// An error that does not say what it answers is not waited through until the call's time is over, and that session is left.
#[tokio::test]
async fn an_error_without_a_number_ends_the_call() {
    let (rig, _server) = met("nameless").await;
    let began = Instant::now();
    let outcome = rig.add().await;
    let Outcome::Unknown { message } = &outcome else { panic!("{outcome:?}") };
    assert!(message.contains("too full") && message.ends_with("; the next call starts afresh"), "{message}");
    assert!(began.elapsed() < SOON);
    assert_eq!(done(&rig.add().await), "added");
    rig.rest().await;
}

/// What answers this very request was taken, however much it speaks of sessions: the call is not put again.
#[tokio::test]
async fn an_error_of_the_call_itself_is_no_lost_session() {
    let (rig, server) = met("upstream").await;
    let outcome = rig.add().await;
    assert!(outcome.error().unwrap().contains("3 rows written"), "{outcome:?}");
    assert_eq!(rig.carried_out(), ["added"]);
    drop(server);
    rig.rest().await;
    // The same from a server that leaves out what the protocol wants of an error.
    let (rig, _server) = met("upstream-codeless").await;
    let outcome = rig.add().await;
    let Outcome::Unknown { message } = &outcome else { panic!("{outcome:?}") };
    assert!(message.contains("3 rows written"), "{message}");
    assert_eq!(rig.carried_out(), ["added"]);
    rig.rest().await;
}
