//! MCP servers are held as commands are.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::rig::{LONGHAUL, can_hold, has, processes_with};

/// Answers by the protocol; its one tool runs what it is given and says what came of it.
const SERVER: &str = r#"
import json, subprocess, sys
TOOL = {"name": "do", "description": "d", "inputSchema": {"type": "object", "properties": {"command": {"type": "string"}}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        command = asked["params"]["arguments"]["command"]
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        answer = {"content": [{"type": "text", "text": done.stdout + done.stderr}]}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"#;

/// A project with the server, a home with a secret, and a service on the machine.
struct Desk {
    outer: TempDir,
    service: TcpListener,
}

impl Desk {
    /// `settings` are the server's, beside its command.
    fn new(settings: Value) -> Desk {
        let outer = tempfile::tempdir().unwrap();
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        for directory in ["home/.ssh", "work/.git", "work/tools"] {
            fs::create_dir_all(outer.path().join(directory)).unwrap();
        }
        fs::write(outer.path().join("home/.ssh/id"), "CANARY").unwrap();
        fs::write(outer.path().join("work/tools/server.py"), SERVER).unwrap();
        let mut server = json!({ "command": ["python3", "tools/server.py"] });
        server.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let settings = json!({ "mcp": { "servers": { "srv": server } } });
        fs::write(outer.path().join("work/longhaul.yaml"), settings.to_string()).unwrap();
        Desk { outer, service }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().canonicalize().unwrap().join(name)
    }

    fn longhaul(&self, args: &[&str]) -> Output {
        let mut command = Command::new(LONGHAUL);
        command.args(args).current_dir(self.path("work")).env("HOME", self.path("home"));
        command.env("LONGHAUL_TRUST", "1").env_remove("LONGHAUL_SANDBOX").env_remove("XDG_CONFIG_HOME");
        command.env("ANTHROPIC_API_KEY", "CANARY").stdin(Stdio::null()).output().unwrap()
    }

    /// What the server's tool answers to a person.
    fn ask(&self, command: &str) -> String {
        let arguments = json!({ "command": command }).to_string();
        let output = self.longhaul(&["mcp", "call", "srv", "do", &arguments]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A secret, a file outside, the machine's network: what is reached of them.
    fn reached(&self) -> [bool; 3] {
        let made = self.path("home/made");
        let port = self.service.local_addr().unwrap().port();
        let said = self.ask(&format!(
            "cat {}; echo x > {}; exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED",
            self.path("home/.ssh/id").display(),
            made.display(),
        ));
        [said.contains("CANARY"), made.exists(), said.contains("CONNECTED")]
    }
}

fn can(test: &str) -> bool {
    if !has("python3") {
        eprintln!("SKIP {test}: needs python3");
        return false;
    }
    can_hold(test)
}

/// A40: an MCP server reaches what it needs and nothing else; the control is the same server outside of the sandbox.
#[test]
fn a_server_is_held() {
    if !can("a_server_is_held") {
        return;
    }
    assert_eq!(Desk::new(json!({ "sandbox": false })).reached(), [true; 3], "the control");
    let held = Desk::new(json!({}));
    assert_eq!(held.reached(), [false; 3]);
    let status = held.ask("grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/self/status; env");
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000") && !status.contains("CANARY"), "{status}");
    assert!(held.ask("ls tools; ls -A .longhaul").starts_with("server.py\n"), "its program is there");
    let given = Desk::new(json!({ "network": "full" })).reached();
    assert_eq!(given, [false, false, true], "what it was given, and no more");
}

/// A40, F40: in a run, a server writes where the run works, not where the user does; nothing it started outlives it.
#[test]
fn a_server_of_a_run_writes_where_the_run_works() {
    if !can("a_server_of_a_run_writes_where_the_run_works") {
        return;
    }
    let desk = Desk::new(json!({}));
    fs::remove_dir(desk.path("work/.git")).unwrap();
    let git = |words: &[&str]| super::rig::git(&desk.path("work"), words);
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    let time = format!("65432.{}", std::process::id());
    let command = format!(
        "(env -i setsid sleep {time} > /dev/null 2>&1 &); pwd; echo x > here; cat ~/.ssh/id; \
         for place in /proc/self/cwd {}/.longhaul/workspace/run/*; do (cd $place && echo x > made); done",
        desk.path("work").display()
    );
    let script = json!({ "conversations": [ { "turns": [
        { "calls": [ { "tool": "srv__do", "args": { "command": command } } ] }, { "text": "ok" } ] } ] });
    fs::write(desk.path("s.yaml"), script.to_string()).unwrap();
    let model = format!("scripted/{}", desk.path("s.yaml").display());
    let output = desk.longhaul(&["run", "x", "--json", "--model", &model]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!desk.path("work/here").exists() && !desk.path("work/made").exists(), "the user's own checkout");
    let run = only(&desk.path("work/.longhaul/workspace/run"));
    assert!(run.join("made").exists(), "{said}");
    let end = Instant::now() + Duration::from_secs(2);
    while processes_with(&time) > 0 {
        assert!(Instant::now() < end, "a server's process outlived the run");
    }
}

fn only(directory: &Path) -> PathBuf {
    let places = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let mut entries = places.filter(|path| path.is_dir());
    let first = entries.next().unwrap();
    assert!(entries.next().is_none());
    first
}
