//! Commands that follow one another, and commands in the background.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use fixture::{Fixture, done, failure};
use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Outcome, STILL_RUNNING};
use longhaul_tools::limits;
use serde_json::{Value, json};

async fn bash(fixture: &mut Fixture, command: &str) -> Outcome {
    let outcome = fixture.run("bash", &json!({ "command": command })).await;
    // As the engine does it, from what is on record.
    if let Some(cwd) = outcome.output().and_then(|output| output.cwd.clone()) {
        fixture.context.cwd = Some(cwd).filter(|cwd| !cwd.is_empty());
    }
    outcome
}

/// A command begins where the one before it ended, whether that succeeded or not, and nothing of that is in what it printed.
#[tokio::test]
async fn the_working_directory_is_kept() {
    let mut fixture = Fixture::new();
    let outcome = bash(&mut fixture, "mkdir -p 'a b/c' && cd 'a b' && printf x").await;
    assert_eq!(done(&outcome), "x\n[now in a b]");
    assert_eq!(done(&bash(&mut fixture, "basename \"$PWD\"; cd c").await), "a b\n\n[now in a b/c]");
    let failed = bash(&mut fixture, "basename \"$PWD\"; cd ..; exit 3").await;
    assert_eq!(failure(&failed), (Failure::Tool, "exit code 3", "c\n\n[now in a b]"));
    assert_eq!(done(&bash(&mut fixture, "true").await), "(no output)");
    assert_eq!(done(&bash(&mut fixture, "cd ../").await), "\n[now in the workspace's root]");
    assert_eq!(done(&bash(&mut fixture, "basename \"$PWD\"").await), "root\n");
}

/// What leaves the workspace, is taken away or never says where it ended does not move the next command.
#[tokio::test]
async fn only_places_in_the_workspace_are_kept() {
    let mut fixture = Fixture::new();
    bash(&mut fixture, "mkdir sub && cd sub").await;
    let outside = bash(&mut fixture, "cd / && echo there").await;
    assert!(done(&outside).contains("ended outside of the workspace"), "{outside:?}");
    assert_eq!(fixture.context.cwd.as_deref(), Some("sub"));
    bash(&mut fixture, "cd .. ; exec true").await;
    bash(&mut fixture, "cd .. ; trap - EXIT").await;
    bash(&mut fixture, "cd .. ; kill -9 $$").await;
    assert_eq!(fixture.context.cwd.as_deref(), Some("sub"));
    std::fs::remove_dir(fixture.path("sub")).unwrap();
    let gone = bash(&mut fixture, "basename \"$PWD\"").await;
    assert_eq!(
        done(&gone),
        "root\n\n[sub is gone; this ran in the workspace's root]\n[now in the workspace's root]"
    );
    assert_eq!(fixture.context.cwd, None);
    let fake = format!("printf '[{} ended in ]/etc'", fixture.context.key);
    let faked = bash(&mut fixture, &fake).await;
    assert!(done(&faked).contains("/etc"), "{faked:?}");
    assert_eq!(fixture.context.cwd, None);
}

struct Background {
    fixture: Fixture,
    calls: u32,
}

impl Background {
    fn new() -> Background {
        Background { fixture: Fixture::new(), calls: 0 }
    }

    /// Starts a command, as a call of its own, and answers its id.
    async fn start(&mut self, command: &str) -> Result<String, Outcome> {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.fixture.context.key = format!("{}.{id}", self.fixture.context.run);
        let outcome = self.fixture.run("bash", &json!({ "command": command, "background": true })).await;
        if outcome.is_done() { Ok(id) } else { Err(outcome) }
    }

    async fn call(&self, tool: &str, args: Value) -> String {
        let mut context = self.fixture.context.clone();
        context.key = format!("{}.call_1000", context.run);
        let outcome = self.fixture.tool(tool).run(&context, &Json::of(&args), &[]).await;
        outcome.output().map_or_else(|| format!("{outcome:?}"), |output| output.text.to_string())
            + outcome.error().unwrap_or_default()
    }

    /// Looks until it has been told `word`, and answers all it was told.
    async fn until(&self, id: &str, word: &str) -> String {
        let mut told = String::new();
        for _ in 0..1000 {
            told += &self.call("bash_output", json!({ "id": id, "wait_ms": 1000 })).await;
            if told.contains(word) {
                return told;
            }
        }
        panic!("never said {word}: {told}");
    }
}

/// A command in the background prints while others run, is looked at piece by piece, and ends when it is killed.
#[tokio::test]
async fn a_job_is_looked_at_and_killed() {
    let mut jobs = Background::new();
    let id =
        jobs.start("echo one; until test -e go; do sleep 0.01; done; echo two; sleep 100000").await.unwrap();
    let told = jobs.until(&id, "one").await;
    assert!(told.contains("one\n\n[still running]"), "{told}");
    let all = jobs.call("bash_output", json!({})).await;
    assert!(
        all.contains(&format!("{id}: echo one; until")) && all.trim_end().ends_with(STILL_RUNNING),
        "{all}"
    );
    jobs.call("bash", json!({ "command": "touch go" })).await;
    let told = jobs.until(&id, "two").await;
    assert!(!told.contains("one"), "it was shown before: {told}");
    assert_eq!(jobs.call("bash_kill", json!({ "id": id })).await, "(nothing new)\n[stopped]");
    assert_eq!(
        jobs.call("bash_kill", json!({ "id": id })).await,
        "(nothing new)\n[stopped]",
        "once is enough"
    );
    let unknown = jobs.call("bash_output", json!({ "id": "call_99" })).await;
    assert!(unknown.contains("nothing runs in the background as `call_99`"), "{unknown}");
}

/// Hears nothing, and keeps back the beginning of one word.
struct Discreet;

impl longhaul_tools::Printed for Discreet {
    fn line(&self, _line: &str) {}

    fn unfinished(&self, bytes: &[u8]) -> usize {
        if bytes.ends_with(b"hidd") { 4 } else { 0 }
    }
}

/// A100: what may begin a key is shown with what follows, or with the end if nothing does.
#[tokio::test]
async fn what_is_begun_is_shown_with_what_follows() {
    let mut jobs = Background::new();
    jobs.fixture.context.printed = std::sync::Arc::new(Discreet);
    let id = jobs
        .start("printf 'one hidd'; until test -e go; do sleep 0.01; done; printf 'en two hidd'; sleep 100000")
        .await
        .unwrap();
    let told = jobs.until(&id, "one ").await;
    assert!(!told.contains("hidd"), "{told}");
    assert_eq!(
        jobs.call("bash_output", json!({ "id": id })).await,
        format!("(nothing new)\n{STILL_RUNNING}")
    );
    jobs.call("bash", json!({ "command": "touch go" })).await;
    let told = jobs.until(&id, "two ").await;
    assert!(told.contains("hidden two \n[still"), "{told}");
    assert_eq!(jobs.call("bash_kill", json!({ "id": id })).await, "hidd\n[stopped]");
}

/// One that ends by itself says how; it takes nothing of what it started with it into the next call.
#[tokio::test]
async fn a_job_that_ends_says_how() {
    let mut jobs = Background::new();
    let id = jobs.start("sleep 100000 & exit 7").await.unwrap();
    let told = jobs.until(&id, "exit code 7").await;
    assert!(told.contains("[ended: exit code 7]"), "{told}");
}

/// F40: a run that is put down takes its jobs with it, also those that ignore being asked; other runs keep theirs.
#[tokio::test]
async fn jobs_end_with_their_run() {
    let mut jobs = Background::new();
    let id =
        jobs.start("trap '' TERM HUP; echo $$ > pid; echo ready; while :; do sleep 1; done").await.unwrap();
    jobs.until(&id, "ready").await;
    let pid = std::fs::read_to_string(jobs.fixture.path("pid")).unwrap();
    let alive = || std::path::Path::new(&format!("/proc/{}", pid.trim())).exists();
    let other = longhaul_core::ids::RunId::parse("run_other").unwrap();
    jobs.fixture.toolbox.rest(&other).await;
    assert!(alive());
    let run = jobs.fixture.context.run.clone();
    jobs.fixture.toolbox.rest(&run).await;
    assert!(!alive());
    let gone = jobs.call("bash_output", json!({ "id": id })).await;
    assert!(gone.contains("has ended"), "{gone}");
}

/// There is a bound to how many run at a time, and to how much is kept of what nobody looks at.
#[tokio::test]
async fn jobs_are_bounded() {
    let mut jobs = Background::new();
    let loud = jobs.start("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end").await.unwrap();
    while !jobs.call("bash_output", json!({})).await.contains("ended") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let told = jobs.call("bash_output", json!({ "id": loud })).await;
    assert!(told.len() < 200_000 && told.contains("20000005 bytes in all"), "{told}");
    for _ in 0..limits::JOBS_MAX {
        jobs.start("sleep 100000").await.unwrap();
    }
    let refused = jobs.start("sleep 100000").await.unwrap_err();
    assert!(refused.error().unwrap().contains("end one with bash_kill"), "{refused:?}");
    let run = jobs.fixture.context.run.clone();
    jobs.fixture.toolbox.rest(&run).await;
}

/// Pain 15: who waits for any of several commands is told when one of them has something new, and sees at the end of the list whether
/// one still runs.
#[tokio::test]
async fn any_of_several_jobs_is_waited_for() {
    let mut jobs = Background::new();
    let quiet = jobs.start("sleep 100000").await.unwrap();
    let ends = jobs.start("until test -e go; do sleep 0.01; done; exit 3").await.unwrap();
    let wait = async { jobs.call("bash_output", json!({ "wait_ms": 60_000 })).await };
    let go = async { jobs.call("bash", json!({ "command": "sleep 0.1; touch go" })).await };
    let (told, _) = tokio::join!(wait, go);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with(&ends) && lines[0].ends_with("[ended: exit code 3]"), "{told}");
    assert!(lines[1].starts_with(&quiet) && lines[1].ends_with(STILL_RUNNING), "{told}");
    jobs.call("bash_kill", json!({ "id": quiet })).await;
    assert!(!jobs.call("bash_output", json!({ "wait_ms": 60_000 })).await.contains(STILL_RUNNING));
}
