//! Attacks on what holds a command, made by commands.
//!
//! Owns the cases as data, the ground they are tried on, and the verdict. Every case is first tried with nothing holding
//! it, and must succeed there: one that fails anyway proves nothing and is void, which is an error. Only then is it tried
//! held, and must fail by itself: one that was only too slow is void as well. Refuses to touch anything but a directory of its own and processes it started.

mod cases;
mod ground;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{Failure, Outcome, Output};
use longhaul_workspace::Workspace;
use serde::Serialize;

use crate::bash::Bash;
use crate::cancel::Cancel;
use crate::limits;
use crate::sandbox::{Host, Mode, Network, Options, Sandbox};
use crate::tool::{Blobs, Context, Tool};
use cases::{CASES, Case, Who};
use ground::Ground;

/// Where attacks find their programs. The user's own places need not be there inside, and an attack that does not run proves
/// nothing.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What shells say of programs that are not there or cannot be run.
const NOT_RUN: [&str; 2] = ["exit code 126", "exit code 127"];

/// What the suite is run with.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Our own program.
    pub helper: PathBuf,
    /// How commands are held: required, or best effort to see what that is worth here.
    pub mode: Mode,
}

/// One case and how it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The row of the attack catalogue it belongs to.
    pub row: &'static str,
    pub attack: &'static str,
    pub verdict: Verdict,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Succeeded with nothing in its way, and failed when held.
    Held,
    /// Succeeded although it was held.
    Broken,
    /// Failed with nothing in its way, or was never tried to its end: the case proves nothing.
    Void,
    /// Could not be tried here.
    Skipped,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Held => "held",
            Verdict::Broken => "BROKEN",
            Verdict::Void => "VOID",
            Verdict::Skipped => "SKIP",
        })
    }
}

impl Suite {
    /// Tries every case; `heard` is told each finding as it comes.
    pub async fn run(&self, heard: &dyn Fn(&Finding)) -> Vec<Finding> {
        let mut findings = Vec::new();
        for case in CASES {
            let (verdict, detail) = self.judge(case).await;
            let finding = Finding { row: case.row, attack: case.attack, verdict, detail };
            heard(&finding);
            findings.push(finding);
        }
        findings
    }

    async fn judge(&self, case: &Case) -> (Verdict, String) {
        if let Some(reason) = Suite::cannot_try(case) {
            return (Verdict::Skipped, reason);
        }
        match self.attempt(case, Mode::Off).await {
            Err(reason) => return (Verdict::Void, format!("could not be set up: {reason}")),
            Ok(Attempt { succeeded: false, said, .. }) => {
                return (Verdict::Void, format!("failed with nothing in its way: {said}"));
            }
            Ok(Attempt { succeeded: true, .. }) => {}
        }
        match self.attempt(case, self.mode).await {
            Err(reason) => (Verdict::Skipped, reason),
            Ok(held) => held.judged(),
        }
    }

    fn cannot_try(case: &Case) -> Option<String> {
        let root = rustix::process::geteuid().is_root();
        match case.who {
            Who::Root if !root => return Some("needs root".to_owned()),
            Who::User if root => return Some("needs an ordinary user".to_owned()),
            Who::Bounded if root && !Sandbox::bounds_processes_of_root() => {
                return Some("needs an ordinary user, or control groups that can be made".to_owned());
            }
            Who::Root | Who::User | Who::Bounded | Who::Anybody => {}
        }
        let missing = |program: &&str| !std::env::split_paths(PATH).any(|dir| dir.join(program).is_file());
        case.needs.iter().find(|program| missing(program)).map(|program| format!("needs {program}"))
    }

    async fn attempt(&self, case: &Case, mode: Mode) -> Result<Attempt, String> {
        let ground = Ground::new(case.place).map_err(|error| error.to_string())?;
        let sandbox = Sandbox::new(Options {
            mode,
            network: Network::None,
            helper: self.helper.clone(),
            host: host(&ground),
        });
        sandbox.prove().map_err(|refused| refused.to_string())?;
        let environment = [("PATH".into(), PATH.into()), ("HOME".into(), ground.home().into())];
        let bash = Bash::new(environment, sandbox);
        let command = ground.spelled(case.command);
        let args = Json::of(&serde_json::json!({ "command": command }));
        let context = ground.context().map_err(|error| error.to_string())?;
        let outcome = bash.run(&context, &args, &[]).await;
        let said = said(&outcome);
        Ok(Attempt {
            succeeded: ground.shows(&case.proof, &said),
            end: match outcome {
                Outcome::Failed { failure: Failure::Timeout, .. } => End::TimeOver,
                Outcome::Done { .. } | Outcome::Failed { .. } | Outcome::Unknown { .. } => End::ByItself,
            },
            said: short(&said),
        })
    }
}

/// One try of an attack.
struct Attempt {
    succeeded: bool,
    end: End,
    /// What its command said.
    said: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    ByItself,
    TimeOver,
}

impl Attempt {
    /// What a try that was to be held says.
    fn judged(self) -> (Verdict, String) {
        let said = self.said;
        if self.succeeded {
            (Verdict::Broken, said)
        } else if self.end == End::TimeOver {
            (Verdict::Void, format!("its time was over, so nothing is known of what holds it: {said}"))
        } else if NOT_RUN.iter().any(|code| said.starts_with(code)) {
            (Verdict::Void, format!("was not even run inside: {said}"))
        } else {
            (Verdict::Held, said)
        }
    }
}

fn host(ground: &Ground) -> Host {
    let environment = [("PATH".into(), PATH.into()), ("HOME".into(), ground.home().into())];
    Host { environment: environment.into(), hidden: vec![ground.state()], guarded: vec![ground.settings()] }
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { output } => output.text.to_string(),
        Outcome::Failed { message, output: Output { text, .. }, .. } => format!("{message}: {text}"),
        Outcome::Unknown { message } => message.clone(),
    }
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(limits::ATTACK_DETAIL_CHARS_MAX).collect()
}

/// Nothing an attack prints is worth keeping.
struct Nowhere;

impl Blobs for Nowhere {
    fn keep(&self, _bytes: &[u8]) -> Result<String, String> {
        Err("not kept".to_owned())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        Err(format!("no blob {hash}"))
    }
}

impl Ground {
    fn context(&self) -> Result<Context, longhaul_workspace::Error> {
        let (switch, cancel) = Cancel::new();
        drop(switch);
        Ok(Context {
            workspace: Arc::new(Workspace::open(&self.workspace())?),
            run: RunId::from_bits(0),
            key: self.word().to_owned(),
            asked_at: Timestamp::default(),
            timeout: limits::ATTACK_TIME_MAX,
            printed: Arc::new(crate::tool::Unheard),
            cwd: None,
            seen: None,
            cancel,
            blobs: Arc::new(Nowhere),
            rules: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F41: only an attack that came to its end and failed was held.
    #[test]
    fn an_attack_that_was_too_slow_is_not_held() {
        let judged =
            |succeeded, end, said: &str| Attempt { succeeded, end, said: said.to_owned() }.judged().0;
        let cases = [
            (false, End::ByItself, "refused", Verdict::Held),
            (false, End::ByItself, "exit code 127: no such program", Verdict::Void),
            (false, End::TimeOver, "timed out", Verdict::Void),
            (true, End::TimeOver, "BROKE", Verdict::Broken),
            (true, End::ByItself, "BROKE", Verdict::Broken),
        ];
        for (succeeded, end, said, expected) in cases {
            assert_eq!(judged(succeeded, end, said), expected, "{said}");
        }
    }
}
