//! Servers nobody here wrote: `everything` and `filesystem`, as npm has them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longhaul_core::tool::{EffectClass, Failure, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::{done, failure};
use crate::rig::Rig;

/// The installed program, or `None` with a word about what is missing.
fn installed(server: &str) -> Option<String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let program = cache.join("longhaul-test/mcp/node_modules/.bin").join(format!("mcp-server-{server}"));
    let has_node = Command::new("node").arg("--version").output().is_ok();
    if has_node && program.exists() {
        return Some(program.display().to_string());
    }
    println!("SKIP: node or {} is missing; ./test installs them", program.display());
    None
}

async fn everything() -> Option<Rig> {
    Some(Rig::new(json!({ "command": [installed("everything")?, "stdio"] })).met().await)
}

fn text(outcome: &Outcome) -> &str {
    done(outcome)
}

#[tokio::test]
async fn everything_is_listed() {
    let Some(rig) = everything().await else { return };
    let look = rig.servers.look("srv").await.unwrap();
    let tools: Vec<&str> = look.listing.tools.iter().map(|tool| tool.tool.as_str()).collect();
    for tool in ["echo", "get-sum", "get-structured-content", "trigger-long-running-operation"] {
        assert!(tools.contains(&tool), "{tools:?}");
    }
    assert!(!tools.contains(&"trigger-sampling-request"), "we lend nobody our model");
    assert_eq!(look.difference.unwrap().changed, Vec::<String>::new());
    assert!(look.listing.resources.len() >= 5 && look.listing.prompts.len() >= 3, "{:?}", look.listing);
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn everything_is_called() {
    let Some(rig) = everything().await else { return };
    assert_eq!(text(&rig.call("echo", json!({ "message": "hello" })).await), "Echo: hello");
    let sum = rig.call("get-sum", json!({ "a": 2, "b": 3 })).await;
    assert!(text(&sum).contains('5'), "{sum:?}");
    let structured = rig.call("get-structured-content", json!({ "location": "New York" })).await;
    let value: Value = serde_json::from_str(text(&structured)).unwrap();
    assert!(value["temperature"].is_number(), "{value}");
    let image = rig.call("get-tiny-image", json!({})).await;
    assert!(text(&image).contains("[image/png, "), "{image:?}");
    assert_eq!(image.images().len(), 1, "{image:?}");
    let wrong = rig.call("get-sum", json!({ "a": "two" })).await;
    assert!(matches!(failure(&wrong).0, Failure::Tool | Failure::InvalidArguments), "{wrong:?}");
    let first = rig.alive();
    assert!(!first.is_empty(), "one server for all calls of a run");
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn everything_reports_progress_and_is_cancelled() {
    let Some(rig) = everything().await else { return };
    let long = rig.call("trigger-long-running-operation", json!({ "duration": 1, "steps": 4 })).await;
    assert!(text(&long).contains("ompleted"), "{long:?}");
    let heard = rig.heard.lock().unwrap().clone();
    assert!(heard.iter().any(|line| line.starts_with("srv: 4 of 4")), "{heard:?}");
    let began = Instant::now();
    let cancelled = async {
        // Its first step is reported, so it is under way.
        while rig.heard.lock().unwrap().len() == heard.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rig.fixture.switch.cancel();
    };
    let args = json!({ "duration": 60, "steps": 60 });
    let (outcome, ()) = tokio::join!(rig.call("trigger-long-running-operation", args), cancelled);
    assert_eq!(failure(&outcome).0, Failure::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(30));
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn everything_is_killed_and_started_again() {
    let Some(rig) = everything().await else { return };
    rig.call("echo", json!({ "message": "x" })).await;
    let first = rig.alive();
    let killed = async {
        while rig.heard.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for pid in &first {
            kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
        }
    };
    let args = json!({ "duration": 60, "steps": 60 });
    let (outcome, ()) = tokio::join!(rig.call("trigger-long-running-operation", args), killed);
    let cut = outcome.error().unwrap();
    assert!(cut.contains("the server ended (signal: 9 (SIGKILL))"), "{outcome:?}");
    assert_eq!(text(&rig.call("echo", json!({ "message": "again" })).await), "Echo: again");
    assert!(rig.alive().iter().all(|pid| !first.contains(pid)));
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

/// The filesystem server is told where the run works, and keeps to it.
#[tokio::test]
async fn filesystem_works_where_the_run_works() {
    let Some(program) = installed("filesystem") else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("b.txt"), "b").unwrap();
    let rig = Rig::new(json!({ "command": [program, elsewhere.path()] })).met().await;
    assert_eq!(rig.tool("read_text_file").spec().class, EffectClass::Repeatable);
    assert_eq!(rig.tool("write_file").spec().class, EffectClass::Once);
    let path = |name: &str| rig.fixture.path(name).display().to_string();
    let written = rig.call("write_file", json!({ "path": path("a.txt"), "content": "hello" })).await;
    assert!(written.is_done(), "{written:?}");
    assert_eq!(fs::read_to_string(rig.fixture.path("a.txt")).unwrap(), "hello");
    let outside = rig.call("read_text_file", json!({ "path": elsewhere.path().join("b.txt") })).await;
    assert_eq!(failure(&outside).0, Failure::Tool);
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

/// `everything` over streamable HTTP; ended when dropped.
struct Remote {
    child: Child,
    port: u16,
}

impl Remote {
    fn start(port: Option<u16>) -> Option<Remote> {
        let program = installed("everything")?;
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = port.unwrap_or_else(free);
        let mut command = Command::new(program);
        command.arg("streamableHttp").env("PORT", port.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let remote = Remote { child, port };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(remote)
    }

    fn config(&self) -> Value {
        json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port), "headers": { "x-team": "sk-own ${HOME}" } })
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn everything_over_http_is_called_cut_off_and_called_again() {
    let Some(remote) = Remote::start(None) else { return };
    let rig = Rig::new(remote.config()).met().await;
    assert_eq!(text(&rig.call("echo", json!({ "message": "hello" })).await), "Echo: hello");
    let long = rig.call("trigger-long-running-operation", json!({ "duration": 1, "steps": 2 })).await;
    assert!(long.is_done(), "{long:?}");
    assert!(rig.heard.lock().unwrap().iter().any(|line| line.starts_with("srv: 2 of 2")));
    let port = remote.port;
    let heard = rig.heard.lock().unwrap().len();
    let cut_off = async {
        while rig.heard.lock().unwrap().len() == heard {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(remote);
    };
    let args = json!({ "duration": 60, "steps": 60 });
    let (outcome, ()) = tokio::join!(rig.call("trigger-long-running-operation", args), cut_off);
    assert!(outcome.error().unwrap().contains("broke off"), "{outcome:?}");
    let gone = rig.call("echo", json!({ "message": "x" })).await;
    assert_eq!(failure(&gone).0, Failure::Network, "nothing was sent, so it may be tried again");
    let _remote = Remote::start(Some(port)).unwrap();
    assert_eq!(text(&rig.call("echo", json!({ "message": "again" })).await), "Echo: again");
    rig.rest().await;
}

/// It answers 400 to a session it does not know, in an error that does not say which request it is about.
#[tokio::test]
async fn everything_over_http_is_restarted_between_two_calls() {
    let Some(remote) = Remote::start(None) else { return };
    let mut rig = Rig::new(remote.config()).met().await;
    rig.fixture.context.timeout = Duration::from_secs(30);
    assert_eq!(text(&rig.call("echo", json!({ "message": "one" })).await), "Echo: one");
    let port = remote.port;
    drop(remote);
    let _remote = Remote::start(Some(port)).unwrap();
    assert_eq!(text(&rig.call("echo", json!({ "message": "two" })).await), "Echo: two");
    rig.rest().await;
}
