//! Whole runs with a real model: Qwen2.5-Coder-1.5B behind llama.cpp's own server, on this machine and without a key.
//!
//! `HARNESS_E2E_TEST=1 cargo test -p longhaul e2e -- --nocapture` runs them; the first time 1.1 GB are fetched. They take
//! minutes, because the model says a handful of words in a second. What is claimed is what longhaul does with a real model, not
//! what the model is worth: it repeats calls that are done, which the limits and the guard against circles have to bear.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, reason = "what it took is to be read")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

const LLAMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../longhaul-model/tests/llama");

/// One at a time: each has a model of its own, and the machine has few cores.
static TURN: Mutex<()> = Mutex::new(());

struct Model {
    process: Child,
    address: String,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Model {
    /// A real model, if one is wanted; a word about it otherwise. One that is wanted and cannot be had is a failure.
    fn wanted() -> Option<Model> {
        if std::env::var_os("HARNESS_E2E_TEST").is_none_or(|value| value != "1") {
            println!("SKIP a real model: HARNESS_E2E_TEST is not 1");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let fetched = Command::new(Path::new(LLAMA).join("fetch.sh")).arg("qwen").output().unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        let model = PathBuf::from(String::from_utf8(fetched.stdout).unwrap().trim());
        let mut process = Command::new(model.with_file_name("venv/bin/python"))
            .arg(Path::new(LLAMA).join("serve.py"))
            .args(["--name", "qwen", "--attached", "--context", "16384", "--model"])
            .arg(&model)
            .arg("--template")
            .arg(Path::new(LLAMA).join("tools.jinja"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("http://"), "the server did not start: {address:?}");
        Some(Model { process, address: address.trim().to_owned(), _turn: turn })
    }
}

/// A project with the model as provider over each protocol, and an agent with few tools.
struct Desk {
    place: TempDir,
    home: TempDir,
    started: Instant,
}

const AGENT: &str = "---
description: Does one small thing.
tools: [TOOLS]
limits: { max_tool_calls: 30 }
harness_config: { max_steps: 30 }
COMPACTION---
Use the tools, one call at a time. When the task is done, say done.
";

impl Desk {
    fn new(model: &Model, tools: &str, window: u32) -> Desk {
        let [place, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let desk = Desk { place, home, started: Instant::now() };
        let provider = |name: &str, api: &str, path: &str| {
            format!(
                "  {name}: {{ api: {api}, base_url: \"{}{path}\", api_key_env: KEY, max_output_tokens: 150, \
                 context_window: {window}, prices: {{ input: 0, output: 0 }} }}\n",
                model.address
            )
        };
        let providers = [
            provider("qa", "anthropic", ""),
            provider("qr", "responses", "/v1"),
            provider("qc", "chat", "/v1"),
        ]
        .concat();
        let settings = format!("agents: {{ dirs: [agents] }}\nproviders:\n{providers}");
        std::fs::write(desk.path("longhaul.yaml"), settings).unwrap();
        std::fs::create_dir(desk.path("agents")).unwrap();
        let compaction = match window {
            ..4000 => "compaction: { enabled: true, threshold: 0.4, protect_tokens: 60 }\n",
            _ => "",
        };
        let agent = AGENT.replace("TOOLS", tools).replace("COMPACTION", compaction);
        std::fs::write(desk.path("agents/small.md"), agent).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(args)
            .current_dir(self.place.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .envs([("KEY", "any"), ("LONGHAUL_TRUST", "1"), ("LONGHAUL_SANDBOX", "best_effort")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Runs it, tells how long it took and how many tokens, and answers the run and its exit code.
    fn run(&self, what: &str, args: &[&str]) -> (i32, Value) {
        let agent = ["--agent", "small", "--in-place", "--json"];
        let (code, out, err) = self.command(&[args, &agent].concat());
        let shown: Value =
            serde_json::from_str(&out).unwrap_or_else(|_| panic!("{what}: exit {code}: {err}"));
        let seconds = self.started.elapsed().as_secs();
        println!("{what}: exit {code}, {seconds} s, {} tokens, {}", tokens(&shown), shown["reason"]);
        (code, shown)
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.command(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: exit {code}: {err}"))
    }

    fn events(&self, id: &str) -> Vec<Value> {
        let (_, out, _) = self.command(&["events", id, "--json"]);
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn tokens(shown: &Value) -> u64 {
    ["inputTokens", "outputTokens", "cacheReadTokens"]
        .iter()
        .filter_map(|kind| shown["usage"][kind].as_u64())
        .sum()
}

fn id(shown: &Value) -> &str {
    shown["id"].as_str().unwrap()
}

/// How often a small model may begin anew: what it says is not the same each time, and not always to the point.
const TRIES: u32 = 3;

/// A run that ended with its evidence, in a project of its own.
fn done(model: &Model, tools: &str, what: &str, args: &[&str], files: &[(&str, &str)]) -> (Desk, Value) {
    for number in 1..=TRIES {
        let desk = Desk::new(model, tools, 16384);
        for (name, text) in files {
            std::fs::write(desk.path(name), text).unwrap();
        }
        let (code, shown) = desk.run(&format!("{what}, try {number}"), args);
        assert!([0, 3, 4].contains(&code), "done, given up or out of a limit: exit {code}, {shown}");
        if code == 0 {
            assert_eq!(shown["status"], "completed", "{shown}");
            return (desk, shown);
        }
    }
    panic!("{what}: not once in {TRIES} tries");
}

/// D11.2, D11.4: a file is made, over each of the three protocols, and done is what a command finds done.
#[test]
fn e2e_a_file_is_made() {
    let Some(model) = Model::wanted() else { return };
    for provider in ["qa", "qr", "qc"] {
        let task = "Write the word hello into the file a.txt. When it is written, say done.";
        let name = format!("{provider}/qwen");
        let args = ["run", task, "--model", &name, "--verify", "grep hello a.txt"];
        let (desk, shown) = done(&model, "write", provider, &args, &[]);
        let text = std::fs::read_to_string(desk.path("a.txt")).unwrap_or_default();
        assert!(text.contains("hello"), "{provider}: {text:?}");
        let tools = desk.json(&["tools", id(&shown)])["calls"].to_string();
        assert!(tools.contains("\"write\""), "{provider}: {tools}");
    }
}

/// D11.4: a directory and a JSON file in it, in a loop that ends only when a command says that they are good.
#[test]
fn e2e_a_loop_ends_on_evidence() {
    let Some(model) = Model::wanted() else { return };
    let task = "Write the file conf/config.json. Its content must be exactly {\"name\": \"demo\"}. When it is written, say done.";
    let verify = "grep -Eq '^ *[{] *\"name\" *: *\"demo\" *[}] *$' conf/config.json";
    let args = ["loop", task, "--model", "qc/qwen", "--verify", verify];
    let more = ["--max-iterations", "8", "--completion-promise", "done"];
    let (desk, _) = done(&model, "write", "loop", &[&args[..], &more].concat(), &[]);
    let config: Value =
        serde_json::from_slice(&std::fs::read(desk.path("conf/config.json")).unwrap()).unwrap();
    assert_eq!(config["name"], "demo");
}

/// Fails five times, with much to say; whatever a model answers, the conversation grows.
const FUSSY: &str = "n=$(cat count 2>/dev/null || echo 0); n=$((n+1)); echo $n > count; test $n -gt 5 || \
                     { for line in 1 2 3 4 5 6 7 8; do echo \"check $n, line $line: the poem about the sea is not there yet\"; done; exit 1; }";

/// D11.4: a conversation that outgrows a small window is summed up by the model itself and goes on within it.
#[test]
fn e2e_a_long_conversation_is_summed_up() {
    let Some(model) = Model::wanted() else { return };
    let desk = Desk::new(&model, "write", 1500);
    let task = "Write a poem of four lines about the sea into sea.txt, then say done.";
    let args = ["run", task, "--model", "qc/qwen", "--max-steps", "20", "--verify", FUSSY];
    let (_, shown) = desk.run("compaction", &args);
    let events = desk.events(id(&shown));
    let by: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "compaction_applied")
        .map(|event| &event["by"])
        .collect();
    println!("compaction: {by:?}, {}", shown["status"]);
    assert!(by.iter().any(|by| **by == "summary"), "{by:?} in {} events", events.len());
    assert!(["completed", "paused"].contains(&shown["status"].as_str().unwrap()), "{shown}");
}

const STEPS: &str = r#"
steps:
  - { id: make, description: "Write the word hello into the file a.txt. When it is written, say done.", verify: ["grep hello a.txt"] }
  - { id: more, description: "Write the word world into the file b.txt. When it is written, say done.", dependencies: [make], verify: ["grep world b.txt"] }
"#;

/// D11.4: steps that build on each other, as a workflow has them.
#[test]
fn e2e_steps_build_on_each_other() {
    let Some(model) = Model::wanted() else { return };
    let args = ["run", "Make two files", "--plan", "steps.yaml", "--model", "qc/qwen"];
    let (desk, shown) = done(&model, "write", "steps", &args, &[("steps.yaml", STEPS)]);
    let told = desk.json(&["steps", id(&shown)]);
    for (step, (file, word)) in [("a.txt", "hello"), ("b.txt", "world")].into_iter().enumerate() {
        assert_eq!(told[step]["status"], "completed", "{told}");
        assert!(std::fs::read_to_string(desk.path(file)).unwrap_or_default().contains(word), "{file}");
    }
}

/// A limit stops a real model cleanly, and a higher one lets it go on.
#[test]
fn e2e_a_limit_stops_and_can_be_raised() {
    let Some(model) = Model::wanted() else { return };
    let desk = Desk::new(&model, "write, read", 16384);
    let task = "Write the word hello into the file a.txt, then read a.txt, then say done.";
    let args = ["run", task, "--model", "qc/qwen", "--max-tokens", "1", "--verify", "grep hello a.txt"];
    let (code, shown) = desk.run("limit", &args);
    assert_eq!((code, &shown["status"]), (4, &"paused".into()), "{shown}");
    let (code, out, err) = desk.command(&["resume", id(&shown), "--max-tokens", "200000", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    assert!([0, 4].contains(&code), "{shown}");
    assert!(tokens(&shown) > 1, "{shown}");
    println!("limit: raised, exit {code}, {} tokens", tokens(&shown));
}
