//! One run that uses every tool there is, held, in a real repository.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use longhaul_tools::{Sandbox, Toolbox};
use serde_json::Value;

use super::rig::{LONGHAUL, can_hold, git, has};

/// Serves one page to whoever asks, for as long as the test lives.
fn page() -> u16 {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in service.incoming() {
            let mut stream = stream.unwrap();
            let _count = stream.read(&mut [0; 4096]).unwrap();
            let text = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 12\r\nconnection: close\r\n\r\n<p>a page</p";
            stream.write_all(text.as_bytes()).unwrap();
        }
    });
    port
}

fn script(port: u16) -> String {
    format!(
        r##"
conversations:
  - match: {{ agent: reviewer }}
    turns: [ {{ text: it is good }} ]
  - turns:
      - calls:
          - {{ tool: list, args: {{}} }}
          - {{ tool: glob, args: {{ pattern: "**/*.txt" }} }}
          - {{ tool: grep, args: {{ pattern: first }} }}
          - {{ tool: read, args: {{ path: a.txt }} }}
          - {{ tool: todo, args: {{ items: [ {{ text: all of them, status: active }} ] }} }}
      - calls:
          - {{ tool: write, args: {{ path: new.txt, content: "new\n" }} }}
          - {{ tool: edit, args: {{ path: a.txt, old: first, new: second }} }}
          - {{ tool: handoff, args: {{ phase: two, next_step: commit, critical_files: [new.txt] }} }}
          - {{ tool: apply_patch, args: {{ patch: "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n" }} }}
          - {{ tool: finalize_research, args: {{ task_id: "01" }} }}
          - {{ tool: bash, args: {{ command: "cat new.txt patched.txt" }} }}
          - {{ tool: bash, args: {{ command: "echo up; sleep 100000", background: true }} }}
          - {{ tool: bash_output, args: {{ id: call_12, wait_ms: 60000 }} }}
          - {{ tool: bash_kill, args: {{ id: call_12 }} }}
          - {{ tool: fetch, args: {{ url: "http://127.0.0.1:{port}/" }} }}
      - calls:
          - {{ tool: git_branch, args: {{ name: side }} }}
          - {{ tool: git_status, args: {{}} }}
          - {{ tool: git_diff, args: {{}} }}
          - {{ tool: git_add, args: {{ paths: ["."] }} }}
          - {{ tool: git_commit, args: {{ message: "every tool" }} }}
          - {{ tool: git_push, args: {{}} }}
          - {{ tool: git_log, args: {{}} }}
          - {{ tool: git_show, args: {{}} }}
          - {{ tool: git_blame, args: {{ path: a.txt }} }}
          - {{ tool: spawn, args: {{ agent: reviewer, task: look at it }} }}
          - {{ tool: ask_human, args: {{ question: "is it good?" }} }}
      - text: all used
"##
    )
}

/// A repository and a user's own settings, which let the run do what would otherwise be asked about.
fn desk(port: u16) -> tempfile::TempDir {
    let outer = tempfile::tempdir().unwrap();
    let [config, work] = ["home/.config/longhaul", "work"].map(|name| outer.path().join(name));
    fs::create_dir_all(&config).unwrap();
    fs::create_dir_all(&work).unwrap();
    let settings =
        "permissions: { network: full, bash: { \"git commit *\": allow, \"git push *\": allow } }\n";
    fs::write(config.join("longhaul.yaml"), settings).unwrap();
    fs::write(work.join("a.txt"), "first\n").unwrap();
    fs::write(outer.path().join("s.yaml"), script(port)).unwrap();
    git(&work, &["init", "-q"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    git(outer.path(), &["init", "-q", "--bare", "origin.git"]);
    git(&work, &["remote", "add", "origin", "../origin.git"]);
    outer
}

fn assert_every_tool_works(mut longhaul: impl FnMut() -> Command, outer: &Path) {
    let mut say = |args: &[&str]| {
        let mut command = longhaul();
        command.args(args).arg("--json").current_dir(outer.join("work")).env("HOME", outer.join("home"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("LONGHAUL_SANDBOX").stdin(Stdio::null());
        command.output().unwrap()
    };
    let ran = say(&["run", "use them", "--model", "scripted/../s.yaml", "--on-ask", "pause"]);
    assert_eq!(ran.status.code(), Some(3), "{}", String::from_utf8_lossy(&ran.stderr));
    let run: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let id = run["id"].as_str().unwrap();
    assert!(say(&["answer", &format!("{id}.g1"), "yes"]).status.success());
    let resumed = say(&["resume", id]);
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let told: Value = serde_json::from_slice(&say(&["tools", id]).stdout).unwrap();
    let calls = told["calls"].as_array().unwrap();
    let mut used: Vec<&str> = calls.iter().map(|call| call["callName"].as_str().unwrap()).collect();
    let wrong: Vec<&Value> = calls.iter().filter(|call| call["result"]["state"] != "done").collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, Toolbox::builtin(Sandbox::off()).names(), "every tool there is");
    let shown: Value = serde_json::from_slice(&say(&["show", id]).stdout).unwrap();
    let branch = shown["branch"].as_str().unwrap();
    let committed = git(
        &outer.join("work"),
        &["-c", "safe.directory=*", "log", "-1", "--format=%s", "--grep=^every tool$", branch],
    );
    assert_eq!(committed, "every tool\n");
    let pushed = ["-c", "safe.directory=*", "log", "-1", "--format=%s", branch];
    assert_eq!(git(&outer.join("origin.git"), &pushed), "every tool\n");
}

/// D11.7: every tool works where commands are held.
#[test]
fn every_tool_works() {
    if !can_hold("every_tool_works") {
        return;
    }
    let outer = desk(page());
    assert_every_tool_works(|| Command::new(LONGHAUL), outer.path());
}

/// The same for an ordinary user, when root runs the tests.
#[test]
fn every_tool_works_for_an_ordinary_user() {
    let test = "every_tool_works_for_an_ordinary_user";
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        return eprintln!("SKIP {test}: needs root and setpriv to become another user");
    }
    if !can_hold(test) {
        return;
    }
    let outer = desk(page());
    // The program may lie where only root comes.
    let program = outer.path().join("longhaul");
    fs::copy(LONGHAUL, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let given = Command::new("chown").args(["-R", "65534:65534"]).arg(outer.path()).status().unwrap();
    assert!(given.success());
    let command = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        command
    };
    assert_every_tool_works(command, outer.path());
}
