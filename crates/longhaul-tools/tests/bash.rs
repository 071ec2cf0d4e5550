//! `bash`: how commands end, what is kept of what they print, and that nothing of them is left.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fixture::{Fixture, done, failure};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::{Failure, Outcome, Output};
use longhaul_tools::{Bash, Printed, Sandbox, Tool, limits, reap_leftovers, reap_leftovers_of_tree};
use serde_json::json;

async fn bash(fixture: &Fixture, command: &str) -> Outcome {
    fixture.run("bash", &json!({ "command": command })).await
}

fn output(outcome: &Outcome) -> &Output {
    match outcome {
        Outcome::Done { output } | Outcome::Failed { output, .. } => output,
        Outcome::Unknown { .. } => panic!("{outcome:?}"),
    }
}

/// Processes whose command line has `word` as an argument: found without our markers.
fn processes_with(word: &str) -> BTreeSet<i32> {
    let has_word = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_word).collect()
}

/// A sleep time that no other test uses, so that its processes can be found.
fn sleep_time(fixture: &Fixture) -> String {
    let digits: String = fixture.context.run.as_str().chars().filter(char::is_ascii_digit).collect();
    format!("98765.{digits}")
}

fn daemons(time: &str) -> [String; 7] {
    [
        format!("sleep {time} &"),
        format!("nohup sleep {time} > /dev/null 2>&1 &"),
        format!("setsid sleep {time} &"),
        format!("setsid --fork sleep {time} > /dev/null 2>&1 < /dev/null"),
        format!("(setsid bash -c 'sleep {time} & sleep {time}' &) ; (sleep {time} &)"),
        format!("setsid bash -c 'trap \"\" TERM HUP INT; while true; do sleep {time}; done' &"),
        format!("env -i sleep {time} > /dev/null 2>&1 & disown"),
    ]
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_and_its_output_comes_in_order() {
    let fixture = Fixture::new();
    let outcome = bash(&fixture, "pwd; echo to-error >&2; echo to-output; touch made").await;
    let root = fixture.context.workspace.root().display().to_string();
    assert_eq!(done(&outcome), format!("{root}\nto-error\nto-output\n"));
    assert_eq!(fixture.names(), ["made"]);
    assert_eq!(output(&outcome).bytes, output(&outcome).text.len() as u64);
    assert_eq!(done(&bash(&fixture, "true").await), "(no output)");
    assert_eq!(done(&bash(&fixture, "-x 2> /dev/null || echo ran").await), "ran\n");
}

#[tokio::test]
async fn the_end_of_a_command_is_said() {
    let fixture = Fixture::new();
    assert_eq!(failure(&bash(&fixture, "echo no; exit 3").await), (Failure::Tool, "exit code 3", "no\n"));
    assert_eq!(failure(&bash(&fixture, "kill -9 $$").await), (Failure::Tool, "killed by signal 9", ""));
    let missing = bash(&fixture, "no-such-program").await;
    assert_eq!(failure(&missing).1, "exit code 127");
    fs::remove_dir(fixture.path("")).unwrap();
    let gone = bash(&fixture, "true").await;
    assert!(failure(&gone).1.contains("is gone"), "{gone:?}");
}

/// A3.4, F45: a command that outlasts its time is stopped, said to be, and gone, with what it printed so far; also one that does
/// not listen, and one that sleeps because it was told to.
#[tokio::test]
async fn a_command_out_of_time_is_killed() {
    let fixture = Fixture::new();
    let time = sleep_time(&fixture);
    let args = json!({ "command": format!("echo so far; sleep {time}"), "timeout_ms": 300 });
    let outcome = fixture.run("bash", &args).await;
    assert_eq!(failure(&outcome), (Failure::Timeout, "timed out after 300 ms", "so far\n"));
    assert_eq!(processes_with(&time), BTreeSet::new());

    let mut fixture = Fixture::new();
    fixture.context.timeout = Duration::from_millis(200);
    let outcome = bash(&fixture, &format!("trap '' TERM; sleep {time}; sleep {time}; echo survived")).await;
    assert_eq!(failure(&outcome), (Failure::Timeout, "timed out after 200 ms", ""));
    assert_eq!(processes_with(&time), BTreeSet::new());

    let stopped = format!("sleep {time} & kill -STOP $! $$; echo survived");
    let outcome = bash(&fixture, &stopped).await;
    assert_eq!(failure(&outcome), (Failure::Timeout, "timed out after 200 ms", ""));
    assert_eq!(processes_with(&time), BTreeSet::new());
}

#[tokio::test]
async fn a_cancelled_command_is_killed() {
    let fixture = Fixture::new();
    let time = sleep_time(&fixture);
    let switch = fixture.switch.clone();
    let started = fixture.path("started");
    let command = format!("echo so far; touch started; sleep {time}");
    let cancel = async {
        while !started.exists() {
            tokio::task::yield_now().await;
        }
        switch.cancel();
    };
    let (outcome, ()) = tokio::join!(bash(&fixture, &command), cancel);
    let message = "stopped because the run was paused; it may have partly run";
    assert_eq!(failure(&outcome), (Failure::Cancelled, message, "so far\n"));
    assert_eq!(processes_with(&time), BTreeSet::new());
    assert_eq!(failure(&bash(&fixture, "touch never").await).0, Failure::Cancelled);
    assert!(!fixture.path("never").exists());
}

/// F40: the control. Without us, each way of daemonising does leave a process.
#[test]
fn daemons_do_survive_by_themselves() {
    let fixture = Fixture::new();
    let time = sleep_time(&fixture);
    for script in daemons(&time) {
        let null = std::process::Stdio::null;
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env("LONGHAUL_RUN", fixture.context.run.as_str());
        assert!(command.stdin(null()).stdout(null()).stderr(null()).status().unwrap().success(), "{script}");
        let mut left = processes_with(&time);
        while left.is_empty() {
            left = processes_with(&time);
        }
        // Only what was started here: the number is this test's own.
        while !left.is_empty() {
            for pid in left {
                Command::new("kill").args(["-9", &pid.to_string()]).stderr(null()).status().unwrap();
            }
            reap_leftovers(&fixture.context.run);
            left = processes_with(&time);
        }
    }
}

/// F40: daemonised children are gone when the command ends by itself.
#[tokio::test]
async fn nothing_survives_the_normal_end() {
    let fixture = Fixture::new();
    let time = sleep_time(&fixture);
    for script in daemons(&time) {
        let outcome = bash(&fixture, &format!("{script}\necho ended")).await;
        assert!(done(&outcome).starts_with("ended\n"), "{script}: {outcome:?}");
        assert_eq!(processes_with(&time), BTreeSet::new(), "{script}");
    }
    let outcome = bash(&fixture, &format!("sleep {time} & sleep 0")).await;
    assert_eq!(done(&outcome), "\n[processes left running by the command and stopped: 1]");
}

/// F40: and when it runs out of time.
#[tokio::test]
async fn nothing_survives_a_timeout() {
    let fixture = Fixture::new();
    let time = sleep_time(&fixture);
    for script in daemons(&time) {
        let args = json!({ "command": format!("{script}\nsleep {time}"), "timeout_ms": 200 });
        assert_eq!(failure(&fixture.run("bash", &args).await).0, Failure::Timeout, "{script}");
        assert_eq!(processes_with(&time), BTreeSet::new(), "{script}");
    }
}

/// F40: and when it is cancelled, or simply abandoned by whoever awaited it.
#[tokio::test]
async fn nothing_survives_a_cancellation_or_an_abandoned_call() {
    for script in daemons("TIME") {
        let fixture = Fixture::new();
        let time = sleep_time(&fixture);
        let command = format!("{}\ntouch started; sleep {time}", script.replace("TIME", &time));
        let started = fixture.path("started");
        let is_started = async || {
            while !started.exists() {
                tokio::task::yield_now().await;
            }
        };
        let cancel = async {
            is_started().await;
            fixture.switch.cancel();
        };
        let (outcome, ()) = tokio::join!(bash(&fixture, &command), cancel);
        assert_eq!(failure(&outcome).0, Failure::Cancelled, "{script}");
        assert_eq!(processes_with(&time), BTreeSet::new(), "{script}");

        let fixture = Fixture::new();
        let time = sleep_time(&fixture);
        let command = format!("{}\ntouch started; sleep {time}", script.replace("TIME", &time));
        let started = fixture.path("started");
        tokio::select! {
            outcome = bash(&fixture, &command) => panic!("{outcome:?}"),
            () = async { while !started.exists() { tokio::task::yield_now().await } } => {}
        }
        assert_eq!(processes_with(&time), BTreeSet::new(), "{script} abandoned");
    }
}

/// F40: what a killed harness left is found by the run's id and killed; other runs' processes and ourselves are not.
#[test]
fn leftovers_of_a_killed_harness_are_reaped() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    let (time, other_time) = (sleep_time(&fixture), sleep_time(&other));
    let start = |run: &str, time: &str| {
        let script = format!("setsid sleep {time} > /dev/null 2>&1 & setsid bash -c 'sleep {time}; true' &");
        let mut command = Command::new("bash");
        let null = std::process::Stdio::null;
        command.args(["-c", &script]).env("LONGHAUL_RUN", run).env("LONGHAUL_CALL", format!("{run}.call_1"));
        assert!(command.stdin(null()).stdout(null()).stderr(null()).status().unwrap().success());
        while processes_with(time).len() < 2 {}
    };
    start(fixture.context.run.as_str(), &time);
    start(other.context.run.as_str(), &other_time);

    assert_eq!(reap_leftovers(&fixture.context.run), 3);
    assert_eq!(processes_with(&time), BTreeSet::new());
    assert_eq!(processes_with(&other_time).len(), 2);
    assert_eq!(reap_leftovers(&fixture.context.run), 0);
    assert_eq!(reap_leftovers(&other.context.run), 3);

    // Those below are of the tree, one with a longer number is not.
    let (below, beside) = (format!("{}.1.2", fixture.context.run), format!("{}0", fixture.context.run));
    start(&below, &time);
    start(&beside, &other_time);
    assert_eq!(reap_leftovers(&fixture.context.run), 0);
    assert_eq!(reap_leftovers_of_tree(&fixture.context.run), 3);
    assert_eq!(processes_with(&other_time).len(), 2);
    assert_eq!(reap_leftovers(&RunId::parse(&beside).unwrap()), 3);
}

/// A harness that was itself started inside a tool call carries the marker and must not kill itself or its parents.
#[test]
fn a_marked_harness_spares_itself_and_its_ancestors() {
    let run = format!("run_nested-{}", std::process::id());
    if let Ok(nested) = std::env::var("LONGHAUL_RUN")
        && nested.starts_with("run_nested-")
    {
        assert_eq!(reap_leftovers(&RunId::parse(&nested).unwrap()), 0);
        return;
    }
    let test = std::env::current_exe().unwrap();
    let script = "\"$0\" --exact a_marked_harness_spares_itself_and_its_ancestors; echo \"ended $?\"";
    let output =
        Command::new("bash").args(["-c", script]).arg(test).env("LONGHAUL_RUN", run).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("ended 0\n"), "{output:?}");
}

/// F42: floods are bounded in memory and in what is kept; the count is exact and the cut is said.
#[tokio::test]
async fn floods_are_bounded() {
    let fixture = Fixture::new();
    bash(&fixture, "true").await;
    let before = resident_bytes();
    let floods = [
        ("head -c 200000000 /dev/zero", 200_000_000),
        ("head -c 200000000 /dev/zero | tr '\\0' x", 200_000_000),
        ("yes | head -c 50000000 >&2", 50_000_000),
        ("head -c 20000000 /dev/urandom", 20_000_000),
        ("printf start; yes é | head -c 3000000; printf end", 3_000_008),
        ("head -c 20000 /dev/urandom", 20_000),
    ];
    for (command, bytes) in floods {
        let outcome = bash(&fixture, command).await;
        let output = output(&outcome);
        assert!(outcome.is_done(), "{command}");
        assert_eq!(output.bytes, bytes, "{command}");
        assert!(output.text.len() <= OUTPUT_INLINE_BYTES_MAX, "{command}: {}", output.text.len());
        let said = format!("[output cut: {bytes} bytes in all, start and end are shown; ");
        assert!(output.text.contains(&said), "{command}");
        assert!(!output.text.contains('\0'), "{command}");
        let kept = fixture.context.blobs.fetch(output.blob.as_ref().unwrap()).unwrap();
        let most = limits::OUTPUT_HEAD_BYTES_MAX + limits::OUTPUT_TAIL_BYTES_MAX;
        assert!(
            kept.len() <= most + 100 && kept.len() >= most.min(bytes as usize),
            "{command}: {}",
            kept.len()
        );
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
}

/// F42: a flood without end is cut off by the time limit, with its start and end.
#[tokio::test]
async fn an_endless_flood_ends_with_its_time() {
    let fixture = Fixture::new();
    for command in ["yes", "yes >&2", "yes & sleep 1000", "cat /dev/zero"] {
        let outcome = fixture.run("bash", &json!({ "command": command, "timeout_ms": 300 })).await;
        let (kind, _, text) = failure(&outcome);
        assert_eq!(kind, Failure::Timeout, "{command}");
        assert!(text.contains("[output cut: ") && text.len() <= OUTPUT_INLINE_BYTES_MAX, "{command}");
    }
    let outcome = bash(&fixture, "setsid yes & exit 4").await;
    assert_eq!(failure(&outcome).1, "exit code 4");
}

/// A blob that cannot be kept is said, and the result still comes.
#[tokio::test]
async fn an_output_that_cannot_be_kept_is_still_shown() {
    struct Full;
    impl longhaul_tools::Blobs for Full {
        fn keep(&self, _bytes: &[u8]) -> Result<String, String> {
            Err("disk full".to_owned())
        }
        fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
            Err(hash.to_owned())
        }
    }
    let mut fixture = Fixture::new();
    fixture.context.blobs = Arc::new(Full);
    let outcome = bash(&fixture, "seq 100000").await;
    let text = done(&outcome);
    assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n"));
    assert!(text.contains("the rest could not be kept: disk full"));
}

/// F44: nothing waits for a person. The time limit is far away; reaching it would be the failure.
#[tokio::test]
async fn nothing_waits_for_input() {
    let fixture = Fixture::new();
    let commands = [
        "cat",
        "read x",
        "read x < /dev/tty",
        "git init -q . && git log; git -c core.pager=less -p config --list",
        "git credential fill <<< $'protocol=https\\nhost=example.invalid\\n'",
        "git commit --allow-empty",
        "$EDITOR file; $GIT_EDITOR file; $PAGER < /dev/null",
        "python3 -c 'input()'",
        "bash -i -c 'read x'",
        "sudo -S true",
        "ssh -p 1 127.0.0.1 true",
    ];
    for command in commands {
        let outcome = bash(&fixture, command).await;
        if let Outcome::Failed { failure, .. } = &outcome {
            assert_eq!(*failure, Failure::Tool, "{command}: {outcome:?}");
        }
    }
}

/// Commands see where things are and nothing that opens doors; they have no terminal and are marked.
#[tokio::test]
async fn the_environment_is_an_allow_list() {
    let mut fixture = Fixture::new();
    let variables = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/home/me"),
        ("ANTHROPIC_API_KEY", "CANARY"),
        ("SSH_ASKPASS", "CANARY"),
        ("SSH_AUTH_SOCK", "CANARY"),
        ("GIT_DIR", "CANARY"),
        ("LD_PRELOAD", "CANARY"),
        ("BASH_ENV", "CANARY"),
    ];
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let tool = Bash::new(variables, Sandbox::off());
    assert_eq!(tool.spec().name, "bash");
    fixture.toolbox = fixture.toolbox.with(Arc::new(tool));
    let outcome = bash(&fixture, "env | grep -v -e ^_= -e ^SHLVL= -e ^PWD= -e ^OLDPWD= | sort").await;
    let text = done(&outcome);
    assert!(!text.contains("CANARY"), "{text}");
    let run = fixture.context.run.as_str();
    for line in ["HOME=/home/me", "PATH=/usr/bin:/bin", "TERM=dumb", "GIT_TERMINAL_PROMPT=0", "PAGER=cat"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(
        text.contains(&format!("LONGHAUL_RUN={run}\n"))
            && text.contains(&format!("LONGHAUL_CALL={run}.call_1\n"))
    );
    let session = bash(&fixture, "cut -d' ' -f6,7 /proc/$$/stat; echo $$").await;
    let words: Vec<&str> = done(&session).split_whitespace().collect();
    assert_eq!((words[0], words[1]), (words[2], "0"), "own session, no terminal");
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<String>>);

impl Printed for Heard {
    fn line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

/// What a command prints can be watched while it runs, line by line; what is no line or too long is not.
#[tokio::test]
async fn lines_are_heard_while_the_command_runs() {
    let mut fixture = Fixture::new();
    let heard = Arc::new(Heard::default());
    fixture.context.printed = Arc::clone(&heard) as Arc<dyn Printed>;
    let listening = Arc::clone(&heard);
    let waiting = async {
        while listening.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::write(fixture.path("go"), "").unwrap();
    };
    let command = "echo first; until test -e go; do sleep 0.01; done; head -c 5000 /dev/zero | tr '\\0' x; echo; printf end";
    let (outcome, ()) = tokio::join!(bash(&fixture, command), waiting);
    assert!(done(&outcome).starts_with("first\nxxx"), "{outcome:?}");
    assert_eq!(*heard.0.lock().unwrap(), ["first"]);
}

/// A53: the files that a command names are looked at when leave is asked for it, however they are quoted and wherever it goes.
#[tokio::test]
async fn the_files_that_a_command_names_are_found() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("bin/deep")).unwrap();
    for name in ["release.sh", "release", "my script.sh", "bin/tool", "bin/deep/x", "Makefile", "notes.txt"] {
        fs::write(fixture.path(name), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc/profile", fixture.path("outside.sh")).unwrap();
    let found = async |command: &str| {
        let tool = fixture.toolbox.get("bash").unwrap();
        let args = Json::of(&json!({ "command": command }));
        let traces = tool.prepare(&fixture.context, &args).await.unwrap();
        traces.into_iter().map(|trace| trace.target).collect::<Vec<_>>()
    };
    for (command, names) in [
        ("sh release.sh; ./bin/tool < notes.txt", &["./bin/tool", "notes.txt", "release.sh"][..]),
        ("sh release", &["release"]),
        ("sh rel''ease.sh", &["release.sh"]),
        ("sh \"my script.sh\"", &["my script.sh"]),
        ("cd bin && sh tool", &["bin/tool"]),
        ("cd bin/deep; ./x", &["bin/deep/./x"]),
        ("make -j4", &["Makefile"]),
        ("cat missing.sh outside.sh ../x.sh /bin/sh", &[]),
    ] {
        assert_eq!(found(command).await, names, "{command}");
    }
    let digests = async || {
        let args = Json::of(&json!({ "command": "sh release.sh" }));
        fixture.toolbox.get("bash").unwrap().prepare(&fixture.context, &args).await.unwrap()
    };
    let before = digests().await;
    fs::write(fixture.path("release.sh"), "rm").unwrap();
    assert_ne!(digests().await, before);
}
