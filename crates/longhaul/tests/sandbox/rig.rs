//! A workspace whose commands are held by the built program, as a run's are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{Outcome, Output};
use longhaul_tools::sandbox::{Host, Mode, Network, Options, Sandbox};
use longhaul_tools::{Bash, Blobs, Cancel, CancelSwitch, Context, Tool};
use longhaul_workspace::Workspace;
use serde_json::json;
use tempfile::TempDir;

pub const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// Whether commands can be held here as they should be. Says why not.
pub fn can_hold(test: &str) -> bool {
    let host = Host { environment: std::env::vars_os().collect(), ..Host::default() };
    let options = Options { mode: Mode::Required, network: Network::None, helper: LONGHAUL.into(), host };
    match Sandbox::new(options).prove() {
        Ok(_) => true,
        Err(refused) => {
            eprintln!("SKIP {test}: {refused}");
            false
        }
    }
}

#[derive(Default)]
struct MemoryBlobs(Mutex<BTreeMap<String, usize>>);

impl Blobs for MemoryBlobs {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        let hash = longhaul_workspace::digest_of(bytes);
        self.0.lock().unwrap().insert(hash.clone(), bytes.len());
        Ok(hash)
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        Err(format!("no blob {hash}"))
    }
}

pub struct Held {
    pub outer: TempDir,
    /// Never thrown; a switch that is dropped would not be either.
    _switch: CancelSwitch,
    context: Context,
    bash: Bash,
}

impl Held {
    /// In an empty directory.
    pub fn new() -> Held {
        Held::at("work", "state")
    }

    /// In `workspace`, with the state directory at `state`, both below a directory of the test's own.
    pub fn at(workspace: &str, state: &str) -> Held {
        let outer = tempfile::tempdir().unwrap();
        Held::over(outer, workspace, state)
    }

    /// In an empty directory, with a network.
    pub fn reaching(network: &str) -> Held {
        Held::with(tempfile::tempdir().unwrap(), "work", "state", network.parse().unwrap())
    }

    pub fn over(outer: TempDir, workspace: &str, state: &str) -> Held {
        Held::with(outer, workspace, state, Network::None)
    }

    fn with(outer: TempDir, workspace: &str, state: &str, network: Network) -> Held {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let base = outer.path().canonicalize().unwrap();
        let root = base.join(workspace);
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(base.join("home")).unwrap();
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        environment.entry("CARGO_HOME".into()).or_insert_with(|| home().join(".cargo").into());
        environment.entry("RUSTUP_HOME".into()).or_insert_with(|| home().join(".rustup").into());
        environment.insert("HOME".into(), base.join("home").into());
        let guarded = vec![root.join("longhaul.yaml")];
        let host = Host { environment: environment.clone(), hidden: vec![base.join(state)], guarded };
        let options = Options { mode: Mode::Required, network, helper: LONGHAUL.into(), host };
        let (switch, cancel) = Cancel::new();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let run = RunId::parse(&format!("run_held-{}-{count}", std::process::id())).unwrap();
        let context = Context {
            workspace: Arc::new(Workspace::open(&root).unwrap()),
            key: format!("{run}.call_1"),
            run,
            asked_at: Timestamp::default(),
            timeout: Duration::from_secs(120),
            printed: Arc::new(longhaul_tools::Unheard),
            seen: None,
            cwd: None,
            cancel,
            blobs: Arc::new(MemoryBlobs::default()),
            rules: Arc::default(),
        };
        Held { outer, _switch: switch, context, bash: Bash::new(environment, Sandbox::new(options)) }
    }

    pub fn root(&self) -> &Path {
        self.context.workspace.root()
    }

    pub async fn run(&self, command: &str) -> Outcome {
        self.run_for(command, None).await
    }

    pub async fn run_for(&self, command: &str, timeout_ms: Option<u64>) -> Outcome {
        let args = json!({ "command": command, "timeout_ms": timeout_ms });
        self.bash.run(&self.context, &Json::of(&args), &[]).await
    }

    /// What it printed; it must have ended well.
    pub async fn get(&self, command: &str) -> String {
        match self.run(command).await {
            Outcome::Done { output } => output.text.to_string(),
            other @ (Outcome::Failed { .. } | Outcome::Unknown { .. }) => panic!("{command}: {other:?}"),
        }
    }
}

pub fn output(outcome: &Outcome) -> &Output {
    match outcome {
        Outcome::Done { output } | Outcome::Failed { output, .. } => output,
        Outcome::Unknown { .. } => panic!("{outcome:?}"),
    }
}

fn home() -> PathBuf {
    std::env::var_os("HOME").unwrap().into()
}

pub fn git(directory: &Path, words: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
    let output = Command::new("git").args(who).args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Processes whose command line holds `word`.
pub fn processes_with(word: &str) -> usize {
    let has_word = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_word).count()
}

pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok()
}
