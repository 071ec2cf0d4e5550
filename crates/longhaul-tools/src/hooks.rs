//! Hooks: the user's own commands that look at calls before and after they are made.
//!
//! A hook gets the call as JSON on standard input and prints what is to happen, alone or as its last line. Owns that every hook
//! is heard and the strictest word counts, and that a hook which breaks, is late or talks nonsense lets nothing through.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::json::Json;
use longhaul_core::prompt::head;
use longhaul_core::tool::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::child::{Child, End};
use crate::limits;
use crate::sandbox::{More, Sandbox};
use crate::shell::{Shell, agents_environment, named_beside};
use crate::tool::Context;

/// Exit code by which a hook blocks without JSON: what it printed is the reason.
const BLOCKS: i32 = 2;

/// One hook, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// Run by the shell, where the settings are.
    pub command: String,
    /// What it is called in messages; its command, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tools whose calls it sees; `files__*` is all that begins so. All, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Where the settings are that it is from, with links resolved; it is run there.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

/// All hooks, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HooksConfig {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_tool: Vec<HookConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_tool: Vec<HookConfig>,
}

impl HooksConfig {
    /// What is wrong with it, if anything is.
    pub fn check(&self) -> Result<(), String> {
        let max = limits::HOOK_TIME_MAX.as_millis() as u64;
        for (place, hook) in self.places() {
            if hook.command.trim().is_empty() {
                return Err(format!("{place}: `command` is empty"));
            }
            if hook.tools.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!(
                    "{place}: `tools` is empty, so it would see nothing; leave it out for all tools"
                ));
            }
            if hook.timeout_ms.is_some_and(|time| time == 0 || time > max) {
                return Err(format!("{place}: `timeout_ms` must be from 1 to {max}"));
            }
        }
        Ok(())
    }

    /// What is wrong with the tools it names, if `known` are all there are. Those of servers are known only once they are met.
    pub fn check_tools(&self, known: &[&str]) -> Result<(), String> {
        for (place, hook) in self.places() {
            let is_known =
                |tool: &&String| tool.contains("__") || tool.ends_with('*') || known.contains(&tool.as_str());
            if let Some(unknown) = hook.tools.iter().flatten().find(|tool| !is_known(tool)) {
                return Err(format!(
                    "{place}: there is no tool `{unknown}`; there are: {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The same, of settings that are in `base_dir`.
    pub fn from_settings_in(mut self, base_dir: &Path) -> HooksConfig {
        let all = self.before_tool.iter_mut().chain(&mut self.after_tool);
        all.for_each(|hook| hook.base_dir = base_dir.to_owned());
        self
    }

    /// Adds what another source says: hooks are never replaced.
    pub fn add(&mut self, more: HooksConfig) {
        self.before_tool.extend(more.before_tool);
        self.after_tool.extend(more.after_tool);
    }

    fn places(&self) -> impl Iterator<Item = (String, &HookConfig)> {
        let named = |when: &'static str| move |(index, hook)| (format!("hooks.{when}[{index}]"), hook);
        let before = self.before_tool.iter().enumerate().map(named("before_tool"));
        before.chain(self.after_tool.iter().enumerate().map(named("after_tool")))
    }
}

/// What hooks say to a call, from the mildest to the strictest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Continue,
    Block(String),
    /// A person is to be asked.
    Interrupt(String),
    /// A hook did not do its part.
    Broken(String),
}

/// A call as hooks are shown it.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    pub call: CallId,
    pub attempt: Attempt,
    pub tool: &'a str,
    pub args: &'a Json,
}

/// The hooks of one harness.
#[derive(Debug, Default)]
pub struct Hooks {
    config: HooksConfig,
    /// Nothing if there are no hooks.
    shell: Option<Shell>,
}

impl Hooks {
    pub fn new(config: HooksConfig, sandbox: Sandbox) -> Hooks {
        Hooks { config, shell: Some(Shell::new(agents_environment(), sandbox)) }
    }

    /// What the hooks say before a call.
    pub async fn before(&self, context: &Context, looked: Looked<'_>) -> Verdict {
        self.hear(&self.config.before_tool, context, looked.tool, || looked.told("before_tool", context))
            .await
    }

    /// What they say after it.
    pub async fn after(&self, context: &Context, looked: Looked<'_>, outcome: &Outcome) -> Verdict {
        let told = || {
            let mut told = looked.told("after_tool", context);
            told["result"] = result(outcome);
            told
        };
        self.hear(&self.config.after_tool, context, looked.tool, told).await
    }

    async fn hear(
        &self,
        hooks: &[HookConfig],
        context: &Context,
        tool: &str,
        told: impl Fn() -> Value,
    ) -> Verdict {
        let mut strictest = Verdict::Continue;
        for hook in hooks.iter().filter(|hook| hook.sees(tool)) {
            strictest = strictest.max(self.ask(hook, context, &told()).await);
        }
        strictest
    }

    async fn ask(&self, hook: &HookConfig, context: &Context, told: &Value) -> Verdict {
        let broken = |why: String| Verdict::Broken(format!("the hook {} {why}", hook.called()));
        let Some(shell) = &self.shell else { return broken("has no shell to run in".to_owned()) };
        // Its end is not that of what the call left running in the background.
        let context = &Context { key: format!("{}.hook", context.key), ..context.clone() };
        // Before the directory, which stays hidden if it is the user's own: then these are all that is seen of it.
        let shown = named_beside(&hook.base_dir, &hook.command, shell.sandbox.hides(&hook.base_dir));
        let more = More { cwd: Some(hook.base_dir.clone()), shown, ..More::default() };
        let named = [("LONGHAUL_WORKSPACE", context.workspace.root())];
        let wrapped = match shell.wrapped(context, &hook.command, &named, more) {
            Ok(wrapped) => wrapped,
            Err(why) => return broken(format!("could not be run: {why}")),
        };
        let reach = wrapped.reach();
        let input = Some(told.to_string().into_bytes());
        let child = match Child::start_apart(wrapped.command, &context.key, reach, input) {
            Ok(child) => child,
            Err(error) => return broken(format!("could not be started: {error}")),
        };
        let time = hook.timeout_ms.map_or(limits::HOOK_TIME, Duration::from_millis);
        let finished = child.finish(time, &context.cancel).await;
        let Some(said) = finished.capture.whole(limits::HOOK_OUTPUT_BYTES_MAX) else {
            return broken(format!("printed more than {} bytes", limits::HOOK_OUTPUT_BYTES_MAX));
        };
        let aside = finished.errors.clipped(limits::HOOK_REASON_BYTES_MAX, "\n[…]\n");
        match finished.end {
            End::Exited(status) => hook.heard(status.code(), said.trim(), aside.trim()),
            End::TimedOut => broken(format!("said nothing within {} ms", time.as_millis())),
            End::Cancelled => broken("was stopped because the run was paused".to_owned()),
            End::Lost(error) => broken(format!("ended nobody knows how: {error}")),
        }
    }
}

impl HookConfig {
    fn sees(&self, tool: &str) -> bool {
        let fits = |name: &String| match name.strip_suffix('*') {
            Some(start) => tool.starts_with(start),
            None => tool == name,
        };
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(fits))
    }

    fn called(&self) -> String {
        format!("`{}`", self.name.as_ref().unwrap_or(&self.command))
    }

    /// What a hook means by its exit code, what it printed, and what it said on standard error.
    fn heard(&self, code: Option<i32>, said: &str, aside: &str) -> Verdict {
        let words = |verb: &str, reason: &str| {
            let reason = head(reason.trim(), limits::HOOK_REASON_BYTES_MAX);
            let reason = if reason.is_empty() { "without a reason" } else { reason };
            format!("the hook {} {verb}: {reason}", self.called())
        };
        let told = if said.is_empty() { aside } else { said };
        let broken = |why: &str| Verdict::Broken(words(why, told));
        match code {
            Some(0) => {}
            Some(BLOCKS) => return Verdict::Block(words("blocks this", told)),
            Some(code) => return broken(&format!("failed with exit code {code}")),
            None => return broken("was killed"),
        }
        let last = said.lines().last().unwrap_or_default();
        // Chatter is none of our business; what may have been meant as a decision is.
        if !said.contains(['{', '}']) {
            return Verdict::Continue;
        }
        match serde_json::from_str(said).or_else(|_| serde_json::from_str(last)) {
            Ok(Word { decision: Decision::Continue, .. }) => Verdict::Continue,
            Ok(Word { decision: Decision::Block, reason }) => Verdict::Block(words("blocks this", &reason)),
            Ok(Word { decision: Decision::Interrupt, reason }) => {
                Verdict::Interrupt(words("wants a person to look", &reason))
            }
            Err(error) => broken(&format!("said what is no decision ({error})")),
        }
    }
}

/// What a hook prints.
#[derive(Deserialize)]
struct Word {
    decision: Decision,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Continue,
    Block,
    Interrupt,
}

impl Looked<'_> {
    fn told(&self, event: &str, context: &Context) -> Value {
        json!({
            "event": event,
            "run": context.run.as_str(),
            "call": self.call.to_string(),
            "attempt": self.attempt.0,
            "tool": self.tool,
            "args": self.args.value(),
            "workspace": context.workspace.root(),
        })
    }
}

fn result(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Done { output } => json!({ "success": true, "text": output.text.as_str() }),
        Outcome::Failed { failure, message, output } => {
            json!({ "success": false, "failure": failure.as_str(), "error": message, "text": output.text.as_str() })
        }
        Outcome::Unknown { message } => json!({ "success": false, "failure": "unknown", "error": message }),
    }
}

/// The outcome of a call to which hooks said `verdict` afterwards, and why a person should look, if they want that. What was
/// done stays done: a block only tells the agent what is wrong with it.
pub fn judged(outcome: Outcome, verdict: Verdict) -> (Outcome, Option<String>) {
    let (failure, reason) = match verdict {
        Verdict::Continue => return (outcome, None),
        Verdict::Interrupt(reason) => return (outcome, Some(reason)),
        Verdict::Block(reason) => (Failure::Tool, reason),
        Verdict::Broken(reason) => (Failure::Hook, reason),
    };
    let outcome = match outcome {
        Outcome::Done { output } => {
            let message = format!("the call was made, but {reason}");
            Outcome::Failed { failure, message, output }
        }
        Outcome::Failed { failure: own, message, output } => {
            Outcome::Failed { failure: own, message: format!("{message}; and {reason}"), output }
        }
        Outcome::Unknown { message } => Outcome::Unknown { message: format!("{message}; and {reason}") },
    };
    (outcome, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(tools: Option<&[&str]>) -> HookConfig {
        let tools = tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
        HookConfig { command: "./guard".to_owned(), tools, ..HookConfig::default() }
    }

    /// D7.1: what counts as which decision; whatever is not clearly a yes is none.
    #[test]
    fn words_are_understood_or_nothing_goes() {
        let heard = |code, said| hook(None).heard(code, said, "");
        for said in
            ["", "looked at it", r#"{"decision":"continue"}"#, "chatter\n {\"decision\":\"continue\"}"]
        {
            assert_eq!(heard(Some(0), said), Verdict::Continue, "{said}");
        }
        let block = Verdict::Block("the hook `./guard` blocks this: no".to_owned());
        assert_eq!(heard(Some(0), r#"{"decision":"block","reason":"no"}"#), block);
        assert_eq!(heard(Some(2), "no"), block);
        assert_eq!(hook(None).heard(Some(2), "", "no"), block);
        assert_eq!(
            heard(Some(0), "{\n  \"decision\": \"block\",\n  \"reason\": \"no\"\n}"),
            block,
            "as jq prints it"
        );
        assert!(
            matches!(heard(Some(0), r#"{"decision":"interrupt"}"#), Verdict::Interrupt(why) if why.contains("without a reason"))
        );
        for (code, said) in [
            (Some(0), r#"{"decision":"blok"}"#),
            (Some(0), r#"{"reason":"no decision"}"#),
            (Some(0), "{"),
            (Some(0), "{\"decision\":\"block\"}\nand more"),
            (Some(1), r#"{"decision":"continue"}"#),
            (Some(127), "not found"),
            (None, ""),
        ] {
            assert!(matches!(heard(code, said), Verdict::Broken(_)), "{code:?} {said}");
        }
    }

    /// Of a hidden directory only what the command names is seen, and never what may hold keys.
    #[test]
    fn a_hook_shows_what_it_runs() {
        let settings = tempfile::tempdir().unwrap();
        let dir = settings.path();
        std::fs::create_dir_all(dir.join("hooks/lib")).unwrap();
        std::fs::create_dir_all(dir.join(".keys")).unwrap();
        for file in ["guard.sh", "hooks/lint.py", "hooks/lib/a", "longhaul.yaml", ".keys/k"] {
            std::fs::write(dir.join(file), "").unwrap();
        }
        let shown = |command: &str| {
            let shown = named_beside(dir, command, false);
            let inside =
                shown.iter().map(|path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            inside.collect::<Vec<_>>().join(" ")
        };
        let absolute = format!("{}/guard.sh x", dir.display());
        let cases = [
            ("./guard.sh", "guard.sh"),
            ("sh guard.sh; true", "guard.sh"),
            ("python3 'hooks/lint.py' --x", "hooks hooks/lint.py"),
            ("A=hooks/lib/a ./gone.sh", "hooks/lib hooks/lib/a"),
            (absolute.as_str(), "guard.sh"),
            ("true", ""),
            ("cat longhaul.yaml ./longhaul.yaml . ./ .keys/k hooks/../.keys/k ../x /etc/passwd", ""),
        ];
        for (command, expected) in cases {
            assert_eq!(shown(command), expected, "{command}");
        }
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        let command =
            format!("{} /etc/passwd {}", elsewhere.path().display(), std::env::temp_dir().display());
        assert_eq!(named_beside(dir, &command, true), [elsewhere.path()], "a file of the user's own");
        assert!(named_beside(dir, &command, false).is_empty());
    }

    #[test]
    fn a_hook_sees_the_tools_it_names() {
        assert!(hook(None).sees("bash"));
        let some = hook(Some(&["write", "files__*"]));
        assert!(
            some.sees("write") && some.sees("files__read") && !some.sees("bash") && !some.sees("write_x")
        );
    }

    /// D7.3: the strictest word wins, and a broken hook is the strictest of all.
    #[test]
    fn verdicts_are_ordered() {
        let all = ["b", "a"].map(|why| why.to_owned());
        let [block, interrupt] = [Verdict::Block(all[0].clone()), Verdict::Interrupt(all[1].clone())];
        assert!(Verdict::Continue < block && block < interrupt && interrupt < Verdict::Broken(String::new()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |hook| HooksConfig { after_tool: vec![hook], ..HooksConfig::default() };
        assert_eq!(with(hook(None)).check(), Ok(()));
        let said = with(HookConfig::default()).check().unwrap_err();
        assert_eq!(said, "hooks.after_tool[0]: `command` is empty");
        let slow = HookConfig { timeout_ms: Some(300_001), ..hook(None) };
        assert!(with(slow).check().unwrap_err().contains("from 1 to 300000"));
    }
}
