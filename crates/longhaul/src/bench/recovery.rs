//! `kill -9`, and how soon a new process goes on: a real process is killed in the middle of its steps, `longhaul resume`
//! is started, and the clock runs from before the kill until the journal holds what the new process wrote.

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_engine::Onlooker;
use longhaul_store::{Engine, Store};

use super::ground::{Ground, PLAIN_AGENT, READ_SCRIPT};
use super::report::{Row, Target};
use super::sizes::Sizes;
use super::stats::{median, millis};
use crate::failure::Failure;

/// Between two looks at the journal.
const LOOK_PAUSE: Duration = Duration::from_micros(200);
/// How long a run may take to come so far. Far more than it needs on a slow disk.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// What a process looks for before it goes on.
#[derive(Clone, Copy, Debug)]
enum Sandbox {
    Off,
    /// Tries to get out of it first, as a run does unless it is told otherwise.
    Probed,
}

pub fn measure(ground: &Ground, sizes: &Sizes) -> Result<[Row; 4], Failure> {
    let [short, long] = sizes.killed_at;
    let [short, short_probed] = resume(ground, ["resume_short", "resume_short_probed"], short, sizes.kills)?;
    let [long, long_probed] = resume(ground, ["resume_long", "resume_long_probed"], long, sizes.kills)?;
    let (short, long) = (short.target(Target::AtMost(20.0)), long.target(Target::AtMost(60.0)));
    Ok([short, short_probed, long, long_probed])
}

fn resume(
    ground: &Ground,
    names: [&'static str; 2],
    steps: usize,
    kills: usize,
) -> Result<[Row; 2], Failure> {
    let state_dir = ground.place(names[0])?;
    let mut victim = Victim::start(ground, &state_dir)?;
    victim.wait_for_steps(steps)?;
    let mut row = |name, sandbox| {
        let mut times = Vec::new();
        for _ in 0..kills {
            times.push(victim.kill_and_resume(ground, &state_dir, sandbox)?);
        }
        let how = match sandbox {
            Sandbox::Off => "sandbox off",
            Sandbox::Probed => "sandbox probed first",
        };
        let about = format!("kill -9 after {steps} steps to the first new append of a new process, {how}");
        Ok::<_, Failure>(Row::new(name, about, median(&times), "ms"))
    };
    Ok([row(names[0], Sandbox::Off)?, row(names[1], Sandbox::Probed)?])
}

/// A run in another process, watched from here.
struct Victim {
    id: RunId,
    process: Process,
    onlooker: Onlooker,
}

/// A process that is never left behind.
pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

impl Process {
    pub fn start(command: &mut Command) -> Result<Process, Failure> {
        Ok(Process(command.spawn()?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Victim {
    fn start(ground: &Ground, state_dir: &Path) -> Result<Victim, Failure> {
        let model = format!("scripted/{READ_SCRIPT}");
        let limit = u32::MAX.to_string();
        let process = Process::start(ground.longhaul(state_dir)?.args([
            "run",
            "read again and again",
            "--in-place",
            "--model",
            &model,
            "--agent",
            PLAIN_AGENT,
            "--tools",
            "read",
            "--max-steps",
            &limit,
            "--max-tool-calls",
            &limit,
        ]))?;
        let engine = Engine::new(state_dir);
        let id = within(|| Ok(engine.runs()?.pop()))?;
        let onlooker = Onlooker::new(&engine, &id)?;
        Ok(Victim { id, process, onlooker })
    }

    /// Two events a step: an outcome, and the intent that follows from it.
    fn wait_for_steps(&mut self, steps: usize) -> Result<(), Failure> {
        let onlooker = &mut self.onlooker;
        within(|| {
            let mut last = 0;
            onlooker.look(&mut |_, seq, _, _| last = seq)?;
            Ok((last >= 2 * steps as u64).then_some(()))
        })
    }

    fn kill_and_resume(
        &mut self,
        ground: &Ground,
        state_dir: &Path,
        sandbox: Sandbox,
    ) -> Result<f64, Failure> {
        let mut resume = ground.longhaul(state_dir)?;
        resume.args(["resume", self.id.as_str()]);
        match sandbox {
            Sandbox::Off => &mut resume,
            // A machine without bubblewrap is measured too.
            Sandbox::Probed => resume.env("LONGHAUL_SANDBOX", "best_effort"),
        };
        self.onlooker.look(&mut |_, _, _, _| {})?;
        let killed = Instant::now();
        self.process.0.kill()?;
        self.process.0.wait()?;
        self.process = Process::start(&mut resume)?;
        let onlooker = &mut self.onlooker;
        within(|| {
            let mut recovered = None;
            onlooker.look(&mut |_, _, _, event| {
                if matches!(event, Event::Recovered { .. }) {
                    recovered = Some(());
                }
            })?;
            Ok(recovered)
        })?;
        Ok(millis(killed.elapsed()))
    }
}

/// Looks until there is something to see.
pub fn within<T>(mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let started = Instant::now();
    while started.elapsed() < WAIT_MAX {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        thread::sleep(LOOK_PAUSE);
    }
    Err(anyhow::anyhow!("a process of the benchmark did not come as far as it should have").into())
}
