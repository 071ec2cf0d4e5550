//! A directory with settings, the fake provider, and the built program with an environment of its own. Owns that no
//! process outlives a test.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use longhaul_model::Scripted;
use longhaul_model::fake::{FakeProvider, Options, Received};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// How long anything may take that must happen at all. Only a hanging test gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The three protocols, each under the name a provider has in these tests and in `longhaul.yaml`.
pub const APIS: [&str; 3] = ["anthropic", "responses", "chat"];

/// Dollars for a million tokens, as `longhaul.yaml` has them.
pub const PRICES: &str = "prices: { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 }";

pub const KEY: &str = "sk-test-0123456789";

pub struct Rig {
    directory: TempDir,
    /// What longhaul keeps for its user lies outside of every project.
    users: TempDir,
    environment: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The run that was driven with `--json`.
    pub fn id(&self) -> String {
        text(&self.json()["id"])
    }
}

impl Rig {
    pub fn new() -> Rig {
        let (directory, users) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Rig { directory, users, environment: Vec::new() }
    }

    /// One provider of each protocol, all of them the one server.
    pub fn with_all(fake: &FakeProvider) -> Rig {
        let providers = APIS.map(|api| provider(api, api, &fake.url(), PRICES));
        Rig::with(&providers)
    }

    pub fn with(providers: &[String]) -> Rig {
        let rig = Rig::new().env("TEST_API_KEY", KEY);
        rig.settings(providers);
        rig
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Rig {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Settings with these providers, and waits as short as they can be.
    pub fn settings(&self, providers: &[String]) {
        let harness = "harness: { retries: { base_backoff_ms: 1 } }\n";
        let providers =
            if providers.is_empty() { String::new() } else { format!("providers:\n{}", providers.concat()) };
        self.write("longhaul.yaml", &format!("{harness}{providers}"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A program with none of our environment but the way to other programs.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("XDG_STATE_HOME", self.users.path())
            // What holds commands has tests of its own; here the home directory is where runs work.
            .env("LONGHAUL_SANDBOX", "off")
            .env("LONGHAUL_TRUST", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn say(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        Said {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Says it and expects success.
    pub fn get(&self, args: &[&str]) -> String {
        let said = self.say(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.get(&[args, &["--json"]].concat())).unwrap()
    }

    /// Runs a task with one model, here, and answers what was said.
    pub fn run(&self, model: &str, args: &[&str]) -> Said {
        let fixed = ["run", "the task", "--in-place", "--json", "--model", model];
        self.say(&[&fixed, args].concat())
    }

    pub fn start(&self, args: &[&str]) -> Live {
        Live(self.command(args).spawn().unwrap())
    }

    pub fn show(&self, id: &str) -> Value {
        self.json(&["show", id])
    }

    pub fn events(&self, id: &str) -> Vec<Value> {
        let lines = self.get(&["events", id, "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn events_of(&self, id: &str, kind: &str) -> Vec<Value> {
        self.events(id).into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Each call as `tools` shows it.
    pub fn calls(&self, id: &str) -> Vec<Value> {
        self.json(&["tools", id])["calls"].as_array().unwrap().clone()
    }

    pub fn runs(&self) -> Vec<String> {
        let Ok(found) = fs::read_dir(self.path(".longhaul/runs")) else { return Vec::new() };
        let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("run_")).collect()
    }

    /// The only run there is, once it is there.
    pub fn only_run(&self) -> String {
        until("a run", || self.runs().into_iter().next())
    }

    /// The run once its `show` has what is wanted.
    pub fn shown(&self, id: &str, field: &str, value: &str) -> Value {
        until(&format!("{field} {value}"), || {
            let said = self.say(&["show", id, "--json"]);
            let shown: Option<Value> = serde_json::from_str(&said.out).ok();
            shown.filter(|shown| shown[field] == value)
        })
    }
}

/// A process that is killed when its test ends, however that ends.
pub struct Live(Child);

impl Live {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The first line it prints.
    pub fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn kill(&mut self) {
        // It may have ended by itself in this moment, which is as good.
        self.0.kill().ok();
        self.0.wait().unwrap();
    }

    /// Waits for its end: what it said.
    pub fn ended(mut self) -> Said {
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                pipe.unwrap().read_to_string(&mut text).unwrap();
                text
            })
        };
        let out = read(self.0.stdout.take().map(|pipe| Box::new(pipe) as _));
        let err = read(self.0.stderr.take().map(|pipe| Box::new(pipe) as _));
        let status = until("the end of the process", || self.0.try_wait().unwrap());
        Said { out: out.join().unwrap(), err: err.join().unwrap(), code: status.code().unwrap_or(-1) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The fake provider with a script, for as long as it is held.
pub fn serve(script: &str) -> FakeProvider {
    let script = Scripted::parse_for_any_tools("fake", script).unwrap();
    RUNTIME.block_on(FakeProvider::start(script, Options::open())).unwrap()
}

/// What the servers of this process run on.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
});

/// A provider's entry in `longhaul.yaml`, with a key in the environment.
pub fn provider(name: &str, api: &str, url: &str, more: &str) -> String {
    format!("  {name}:\n    api: {api}\n    base_url: {url}\n    api_key_env: TEST_API_KEY\n    {more}\n")
}

/// An address where nobody listens and, for as long as it is held, nobody else can.
pub struct Dead(TcpSocket);

impl Dead {
    pub fn new() -> Dead {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Dead(socket)
    }

    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }
}

/// Takes a whole request off the line and gives its head: a line that is closed before is a line that broke.
pub fn take_request(line: &mut TcpStream) -> io::Result<String> {
    let (mut heard, mut block) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&heard);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.and_then(|length| length.trim().parse().ok()).unwrap_or(0) {
                return Ok(head.to_owned());
            }
        }
        match line.read(&mut block)? {
            0 => return Ok(String::new()),
            read => heard.extend_from_slice(&block[..read]),
        }
    }
}

/// Looks until it is there. Whatever must come comes long before our patience ends.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no {what} in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The questions for a turn that came, without those for lists and counts.
pub fn asked(fake: &FakeProvider) -> Vec<Arc<Received>> {
    let is_count = |path: &str| path.ends_with("/count_tokens") || path.ends_with("/input_tokens");
    let asks = |request: &Arc<Received>| request.method == "POST" && !is_count(&request.path);
    fake.requests().into_iter().filter(asks).collect()
}

/// The names of the tools a request offers.
pub fn offered(request: &Received) -> Vec<String> {
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| text(tool.get("name").unwrap_or(&tool["function"]["name"]))).collect()
}

/// The ids of the calls the model made in a conversation, and each result under the id it is sent for.
#[derive(Debug, Default, PartialEq)]
pub struct Exchanged {
    pub calls: Vec<String>,
    pub results: Vec<(String, String)>,
}

impl Exchanged {
    pub fn of(request: &Received) -> Exchanged {
        let mut exchanged = Exchanged::default();
        let body = &request.body;
        for message in body["messages"].as_array().into_iter().flatten() {
            if let Some(id) = message["tool_call_id"].as_str() {
                exchanged.results.push((id.to_owned(), said(&message["content"])));
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                exchanged.calls.push(text(&call["id"]));
            }
            for block in message["content"].as_array().into_iter().flatten() {
                exchanged.add(block, "tool_use", "id", "tool_result", "tool_use_id", "content");
            }
        }
        for item in body["input"].as_array().into_iter().flatten() {
            exchanged.add(item, "function_call", "call_id", "function_call_output", "call_id", "output");
        }
        exchanged
    }

    fn add(&mut self, block: &Value, call: &str, id: &str, result: &str, of: &str, content: &str) {
        if block["type"] == call {
            self.calls.push(text(&block[id]));
        }
        if block["type"] == result {
            self.results.push((text(&block[of]), said(&block[content])));
        }
    }

    /// Every call has one result, and no result is of another call.
    pub fn check(&self) {
        let mut answered: Vec<&String> = self.results.iter().map(|(id, _)| id).collect();
        let mut calls: Vec<&String> = self.calls.iter().collect();
        answered.sort_unstable();
        calls.sort_unstable();
        assert_eq!(calls, answered);
        let count = calls.len();
        calls.dedup();
        assert_eq!(calls.len(), count, "two calls under one name: {self:?}");
    }
}

fn said(value: &Value) -> String {
    match value.as_array() {
        Some(parts) => parts.iter().map(|part| text(&part["text"])).collect(),
        None => text(value),
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every file below a directory with its bytes.
pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_below(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}
