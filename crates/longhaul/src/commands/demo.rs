//! `demo`: the whole thing on a sample repository with a recorded model, killed in the middle and resumed. Real processes,
//! real kills; what the report says is read back from the journal and from a witness that the test script leaves.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhaul_core::child::ChildState;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};
use longhaul_core::view::{ChildView, gate_id};
use longhaul_engine::Harness;
use longhaul_engine::clock::{Clock, SystemClock, fresh_bits};
use longhaul_store::Home;
use longhaul_tools::sandbox::{Mode, Network};
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::DEMO_MOMENT_MS_MAX;
use crate::render::{self, table};
use crate::settings::Permissions;

/// Watch longhaul mend a small repository and survive being killed; needs no key and no network
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to make the sample repository [default: a new directory among the temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

const MODEL: &str = include_str!("../demo/model.yaml");

const PLAN: &str = include_str!("../demo/plan.yaml");

const RUN: [&str; 9] = [
    "run",
    "Make test.sh pass, then announce it",
    "--in-place",
    "--model",
    "scripted/model.yaml",
    "--plan",
    "plan.yaml",
    "--autonomy",
    "3",
];

const CALC: &str = "# Adds two numbers.\nadd() { echo $(($1 - $2)); }\n";

/// Leaves a line with the call that ran it, so that the report can count real executions.
const TEST: &str = "\
echo \"$LONGHAUL_CALL\" >> witness.log
. ./calc.sh
sum=$(add 2 3)
if [ \"$sum\" != 5 ]; then echo \"FAIL: add 2 3 is $sum, not 5\"; exit 1; fi
echo \"all tests passed\"
";

/// A moment of the run at which its process is killed.
struct Moment {
    what: &'static str,
    came: fn(&Run, &Event) -> bool,
}

const KILLS: [Moment; 3] = [
    Moment {
        what: "while the model was being asked",
        came: |_, event| matches!(event, Event::TurnStarted { turn: 2, .. }),
    },
    Moment {
        what: "as the edit of calc.sh began",
        came: |run, event| matches!(event, Event::CallStarted { call, .. } if run.call(*call).is_some_and(|call| call.tool == "edit")),
    },
    Moment {
        what: "while the test was running",
        came: |run, event| matches!(event, Event::CallStarted { call, .. } if run.call(*call).is_some_and(|call| call.args.as_str().contains("sleep"))),
    },
];

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let dir = make_repository(args.dir)?;
    let demo = Demo { state_dir: dir.join(".longhaul"), dir, sandbox: sandbox(app)? };
    render::talk(&format!("a sample repository with a failing test: {}", demo.dir.display()));
    let mut kills = Vec::new();
    let mut child = demo.spawn(&RUN)?;
    let id = demo.wait_for_run(&mut child)?;
    for moment in &KILLS {
        let seq = demo.wait_for(&id, moment, &mut child)?;
        child.kill()?;
        kills.push((moment.what, seq));
        render::talk(&killed(moment.what, seq, demo.last_event(&id)?));
        child = demo.spawn(&["resume", id.as_str()])?;
    }
    child.wait()?;
    demo.approve(&id)?;
    demo.report(app, &id, &kills)
}

/// A signal takes its time: what the run did in between has been told above, and this is not to contradict it.
fn killed(what: &str, seq: u64, last: u64) -> String {
    let after =
        if last > seq { format!("; it got to event {last} before the signal came") } else { String::new() };
    format!("      killed with SIGKILL {what} (event {seq}{after})")
}

struct Demo {
    dir: PathBuf,
    state_dir: PathBuf,
    sandbox: Mode,
}

/// The sandbox is shown where it can be had. The demo's own commands are harmless, so it also runs where it cannot, and
/// says so.
fn sandbox(app: &App) -> Result<Mode, Failure> {
    let asked = Permissions { sandbox: Mode::Required, network: Network::None };
    match app.sandbox(asked)?.prove() {
        Ok(_) => Ok(Mode::Required),
        Err(refused) => {
            render::warn(&format!("{refused}; the demo goes on with `--sandbox best_effort`"));
            Ok(Mode::BestEffort)
        }
    }
}

/// A longhaul process whose talk is passed on, indented.
struct Spawned {
    child: Child,
    talk: Option<JoinHandle<()>>,
}

impl Drop for Spawned {
    /// A demo that goes wrong leaves no process behind.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Spawned {
    /// SIGKILL: the process gets no chance to do anything about it.
    fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.child.wait()?;
        if let Some(talk) = self.talk.take() {
            drop(talk.join());
        }
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Demo {
    fn spawn(&self, args: &[&str]) -> Result<Spawned, Failure> {
        let mut child = Process::new(std::env::current_exe()?)
            .env_clear()
            .args(args)
            .current_dir(&self.dir)
            .envs(std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("LONGHAUL_")))
            .env("LONGHAUL_STATE_DIR", &self.state_dir)
            // It made this repository itself, also for a user without a home.
            .env("LONGHAUL_TRUST", "1")
            .env("LONGHAUL_SANDBOX", self.sandbox.as_str())
            // The user's own settings are for real work; the demo is the same for everybody.
            .env("XDG_CONFIG_HOME", &self.state_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let talk = child.stderr.take().map(|stderr| {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    render::talk(&format!("    {line}"));
                }
            })
        });
        Ok(Spawned { child, talk })
    }

    fn harness(&self) -> Result<Option<Harness>, Failure> {
        let Some(home) = Home::existing(&self.state_dir)? else { return Ok(None) };
        if home.all_runs()?.is_empty() {
            return Ok(None);
        }
        let shared = crate::cli::Shared { state_dir: Some(self.state_dir.clone()), trust: true, json: false };
        Ok(Some(App::new(shared)?.reading()?))
    }

    fn wait_for_run(&self, child: &mut Spawned) -> Result<RunId, Failure> {
        let started = Instant::now();
        loop {
            if let Some(harness) = self.harness()?
                && let Some(id) = harness.home().and_then(|home| home.all_runs().ok()?.into_iter().next())
            {
                return Ok(id);
            }
            give_up_if(
                child.has_ended()? || started.elapsed() > Duration::from_millis(DEMO_MOMENT_MS_MAX),
                "the run did not begin",
            )?;
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Follows the journal, as any other process may, until the moment comes; returns its sequence number.
    fn wait_for(&self, id: &RunId, moment: &Moment, child: &mut Spawned) -> Result<u64, Failure> {
        let harness = self.harness()?.ok_or_else(|| Failure::from(anyhow::anyhow!("the run is gone")))?;
        let mut onlooker = harness.onlooker(id)?;
        let started = Instant::now();
        loop {
            let mut seen = None;
            onlooker.look(&mut |run, seq, _, event| {
                if seen.is_none() && (moment.came)(run, event) {
                    seen = Some(seq);
                }
            })?;
            if let Some(seq) = seen {
                return Ok(seq);
            }
            give_up_if(
                child.has_ended()? || started.elapsed() > Duration::from_millis(DEMO_MOMENT_MS_MAX),
                moment.what,
            )?;
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn last_event(&self, id: &RunId) -> Result<u64, Failure> {
        let harness = self.harness()?.ok_or_else(|| Failure::from(anyhow::anyhow!("the run is gone")))?;
        Ok(harness.look(id)?.seq)
    }

    /// Answers for the person at the gate, as a person would: a process of its own that ends before the run goes on.
    fn approve(&self, id: &RunId) -> Result<(), Failure> {
        let harness = self.harness()?.ok_or_else(|| Failure::from(anyhow::anyhow!("the run is gone")))?;
        let run = harness.look(id)?;
        give_up_if(run.wait() != Wait::Human, "the wait for a person")?;
        let gate = gate_id(id, run.gates.len() as u32);
        render::talk("      nobody drives it now: it waits for a person before its critical step");
        render::talk(&format!("      the demo answers for you: longhaul approve {gate}"));
        self.spawn(&["approve", &gate])?.wait()?;
        self.spawn(&["resume", id.as_str()])?.wait()
    }

    fn report(&self, app: &App, id: &RunId, kills: &[(&str, u64)]) -> Result<Exit, Failure> {
        let harness = self.harness()?.ok_or_else(|| Failure::from(anyhow::anyhow!("the run is gone")))?;
        let run = harness.look(id)?;
        let witness = std::fs::read_to_string(self.dir.join("witness.log")).unwrap_or_default();
        let passes = Process::new("sh").arg("test.sh").current_dir(&self.dir).output()?.status.success();
        let footprint = harness.store_of(id)?.footprint(id)?;
        let approved =
            run.gates.iter().filter(|gate| gate.answer.as_ref().is_some_and(|answer| answer.approved));
        let gates: Vec<String> = approved.map(|gate| gate_id(id, gate.number)).collect();
        let reviewed = matches!(&run.children[..], [only] if only.state == ChildState::Completed);
        let good = run.status == Status::Completed && passes && gates.len() == 1 && reviewed;
        if app.json() {
            render::json(&json!({
                "dir": self.dir.display().to_string(), "id": id, "status": run.status, "testPasses": passes,
                "kills": kills.iter().map(|(what, seq)| json!({ "moment": what, "seq": seq })).collect::<Vec<_>>(),
                "approved": gates, "subAgents": ChildView::of_all(&run), "checkpoints": run.checkpoints, "events": run.seq, "generation": run.generation,
                "calls": run.calls.iter().map(|call| json!({
                    "callId": call.id.to_string(), "tool": call.tool, "attempts": call.attempt(),
                    "outcome": call.outcome(), "witnessed": executions(&witness, id, call),
                })).collect::<Vec<_>>(),
                "journalBytes": footprint.journal_bytes, "diskBytes": footprint.disk_bytes,
            }));
        } else {
            self.print(&run, kills, &witness, passes, footprint.journal_bytes);
        }
        Ok(if good { Exit::Ok } else { Exit::Failed })
    }

    fn print(&self, run: &Run, kills: &[(&str, u64)], witness: &str, passes: bool, journal_bytes: u64) {
        let id = &run.spec.id;
        render::data(&format!(
            "\nThe run is {} after {} kills and {} wait for a person; the test {}.",
            run.status,
            kills.len(),
            run.gates.len(),
            if passes { "passes" } else { "FAILS" }
        ));
        for child in ChildView::of_all(run) {
            render::data(&format!(
                "It sent the sub-agent {} ({}), which is {}.",
                child.agent_name, child.id, child.called
            ));
        }
        render::data(&format!(
            "All {} events and {} checkpoints survived, in {} of journal.\n",
            run.seq,
            run.checkpoints,
            table::bytes(journal_bytes)
        ));
        let lines = run.calls.iter().map(|call| {
            let outcome = match call.outcome() {
                Some(outcome) => outcome.error().map_or("done".to_owned(), |error| table::short(error, 48)),
                None => "open".to_owned(),
            };
            let ran =
                if call.tool == "bash" { executions(witness, id, call).to_string() } else { "-".to_owned() };
            vec![call.id.to_string(), call.tool.to_string(), call.attempt().to_string(), ran, outcome]
        });
        render::data(&table::rows(&["CALL", "TOOL", "ATTEMPTS", "TEST RUNS", "OUTCOME"], lines));
        render::data(
            "\nA read may be repeated; the edit was looked for before it was made again; a command that was cut short\nwas not repeated behind the agent's back: the agent was told, looked, and decided.",
        );
        render::hint(&format!("look around: cd {} && longhaul events {id}", self.dir.display()));
    }
}

/// How often the test script really ran for this call, by its own account.
fn executions(witness: &str, id: &RunId, call: &longhaul_core::run::Call) -> usize {
    let key = longhaul_engine::perform::effect_key(id, call.id);
    witness.lines().filter(|line| *line == key).count()
}

fn give_up_if(condition: bool, what: &str) -> Result<(), Failure> {
    if condition {
        return Err(Failure::from(anyhow::anyhow!("the demo went wrong: {what} never came"))
            .hint("run `longhaul doctor`; bash and a writable temporary directory are needed"));
    }
    Ok(())
}

fn make_repository(dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let dir = match dir {
        Some(dir) => dir,
        None => {
            let bits = fresh_bits(SystemClock.now()).map_err(longhaul_engine::Error::from)?;
            std::env::temp_dir().join(format!("longhaul-demo-{:x}", bits & 0xffff_ffff))
        }
    };
    // Made here and by nobody before: in a shared temporary directory a name that exists is somebody else's.
    std::fs::create_dir(&dir).map_err(|error| {
        Failure::usage(format!("cannot make {}: {error}", dir.display()))
            .hint("name a new directory with --dir")
    })?;
    let dir = dir.canonicalize()?;
    for (name, text) in [("calc.sh", CALC), ("test.sh", TEST), ("model.yaml", MODEL), ("plan.yaml", PLAN)] {
        std::fs::write(dir.join(name), text)?;
    }
    commit(&dir);
    Ok(dir)
}

/// The demo works without git too; with it, `git diff` shows what the agent did.
fn commit(dir: &Path) {
    let git = |args: &[&str]| {
        let quiet = Process::new("git").args(args).current_dir(dir).stdin(Stdio::null()).output();
        quiet.is_ok_and(|output| output.status.success())
    };
    let _ = git(&["init", "--quiet"])
        && git(&["add", "."])
        && git(&[
            "-c",
            "user.name=demo",
            "-c",
            "user.email=demo@localhost",
            "commit",
            "--quiet",
            "-m",
            "a bug",
        ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_signal_is_told_as_late() {
        let plain = killed("as the edit began", 12, 12);
        assert_eq!(plain, "      killed with SIGKILL as the edit began (event 12)");
        let late = killed("as the edit began", 12, 14);
        assert!(late.ends_with("(event 12; it got to event 14 before the signal came)"), "{late}");
    }
}
