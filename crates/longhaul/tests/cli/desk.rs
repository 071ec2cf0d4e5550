//! A directory with a script in it, and the built binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub struct Desk {
    dir: TempDir,
    /// What longhaul keeps for its user lies outside of every project.
    users: TempDir,
}

pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Two turns and an answer: a file is written, a command runs.
pub const SCRIPT: &str = r#"
name: cli
prices: { input: 3.00, output: 15.00 }
conversations:
  - turns:
      - text: "I write."
        calls: [ { tool: write, args: { path: a.txt, content: "hello\n" } } ]
        usage: { input: 1000, output: 10 }
      - text: "I look."
        calls: [ { tool: bash, args: { command: "cat a.txt" } } ]
        usage: { input: 1000, output: 10 }
      - text: "All done."
        usage: { input: 1000, output: 10 }
"#;

impl Desk {
    pub fn new() -> Desk {
        Desk::with_script(SCRIPT)
    }

    pub fn with_script(script: &str) -> Desk {
        let desk = Desk { dir: tempfile::tempdir().unwrap(), users: tempfile::tempdir().unwrap() };
        desk.write("s.yaml", script);
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A place of the user's where no project is, and so no agent.
    pub fn elsewhere(&self, name: &str) -> PathBuf {
        self.users.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(args);
        self.at_home(command)
    }

    /// The same with a terminal for everything; what it shows comes out of it.
    pub fn on_terminal(&self, args: &[&str]) -> Command {
        let quoted: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("'{}' {}", env!("CARGO_BIN_EXE_longhaul"), quoted.join(" "));
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]);
        let mut command = self.at_home(command);
        command.env("TERM", "xterm");
        command
    }

    fn at_home(&self, mut command: Command) -> Command {
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("XDG_STATE_HOME", self.users.path())
            // What holds commands has tests of its own; here it would only depend on the machine.
            .env("LONGHAUL_SANDBOX", "off")
            // What these tests write into the project is theirs; those about trust take it away.
            .env("LONGHAUL_TRUST", "1")
            .stdin(Stdio::null());
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
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        said.out
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        serde_json::from_str(&self.get(&args)).unwrap()
    }

    /// The events of a run, one value each.
    pub fn events(&self, id: &str) -> Vec<Value> {
        let lines = self.get(&["events", id, "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn create(&self) -> String {
        self.get(&["create", "--task", "x", "--model", "scripted/s.yaml"]).trim().to_owned()
    }

    /// A run that has completed.
    pub fn completed(&self) -> String {
        let id = self.create();
        self.get(&["start", &id]);
        id
    }

    pub fn journal(&self, id: &str) -> PathBuf {
        self.path(&format!(".longhaul/runs/{id}/journal"))
    }
}

/// Every file below a directory with its bytes.
pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}
