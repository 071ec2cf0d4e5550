//! Looking at the work: what the harness itself sees of a workspace, as evidence.
//!
//! Owns the order: protected files first, so that the verify commands run on what may stay; then the commands, each held like
//! any command of the agent; then the hash of the tree they ran on. `tree` hashes, `protect` keeps what must not change,
//! `features` what may change in only one way. Refuses to judge: what follows from it is decided elsewhere.

mod features;
mod protect;
mod tree;

pub use tree::hash_of;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_core::conduct::{Protect, ProtectPolicy};
use longhaul_core::event::Purpose;
use longhaul_core::evidence::{Check, Examination, ProtectedChange, tail};
use longhaul_core::handoff::{self, Handoff};
use longhaul_core::json::Json;
use longhaul_core::limits::{CHECK_OUTPUT_BYTES_MAX, JUDGED_DIFF_BYTES_MAX, NOTE_BYTES_MAX};
use longhaul_core::prompt::head;
use longhaul_core::tool::{Failure, Outcome};
use serde_json::json;

use crate::limits::{JUDGED_FILE_BYTES_MAX, JUDGED_FILES_MAX, LOOK_COMMAND_TIME_MAX, VERIFY_TIME_MAX};
use crate::tool::{Context, Tool, blocking};

/// What is to be looked at.
#[derive(Clone, Debug)]
pub struct Examine {
    pub purpose: Purpose,
    pub verify: Vec<String>,
    pub protect: Option<Protect>,
    /// The work is a list of features.
    pub features: bool,
    /// The blob that says how protected files were when the run began.
    pub baseline: Option<String>,
    /// The blob of the list of features as it was last seen whole.
    pub feature_list: Option<String>,
    /// The commit the work starts from.
    pub base: Option<String>,
    /// Somebody will judge the work by what was changed.
    pub judged: bool,
}

/// Are these globs by which files can be protected? The error says what is wrong.
pub fn check_globs(globs: &[String], root: &Path) -> Result<(), String> {
    protect::patterns(globs, root).map(drop).map_err(|outcome| outcome.error().unwrap_or_default().to_owned())
}

/// Looks. `None` if the run was paused meanwhile: half a look is none.
pub async fn examine(asked: &Examine, bash: Arc<dyn Tool>, context: &Context) -> Option<Examination> {
    let claimed = asked.purpose.is_claim();
    if claimed {
        // Nothing of the agent runs while its work is looked at.
        bash.rest(&context.run).await;
    }
    let mut found = off_the_loop(asked, context, look_at_files).await.unwrap_or_else(|why| Examination {
        checks: if claimed { vec![unmet("a look at the files", why.clone())] } else { Vec::new() },
        warnings: vec![why],
        ..Examination::default()
    });
    found.tree = hash(asked, context, &mut found.warnings).await;
    let shell = Shell { bash, context };
    match asked.purpose {
        Purpose::Baseline => found.commit = shell.head().await,
        Purpose::Claim | Purpose::Whole => {
            for (index, command) in asked.verify.iter().enumerate() {
                found.checks.push(shell.check(index, command).await?);
            }
            look_again(asked, context, &mut found).await;
            found.changes = shell.changes(asked.base.as_deref()).await;
            look_at_commits(asked, &shell, &mut found).await;
            if asked.judged {
                found.diff = shell.diff(asked.base.as_deref()).await;
            }
        }
        Purpose::Stop | Purpose::FreshStart { .. } => {}
    }
    (!context.cancel.is_cancelled()).then_some(found)
}

/// Runs the commands that prepare a workspace, one after another, held like those of the agent. The error says which of them failed,
/// how, and what it printed last.
pub async fn set_up(commands: &[String], bash: Arc<dyn Tool>, context: &Context) -> Result<(), String> {
    let shell = Shell { bash, context };
    for (index, command) in commands.iter().enumerate() {
        let check = shell.check(index, command).await.ok_or("it was interrupted")?;
        if !check.passed {
            let printed = check.output.trim_end();
            return Err(format!("`{command}`: {}\n{printed}", check.ended).trim_end().to_owned());
        }
    }
    Ok(())
}

/// A protected file may be as it was, and another in the commit that is handed over.
async fn look_at_commits(asked: &Examine, shell: &Shell<'_>, found: &mut Examination) {
    let protect = asked.protect.as_ref().filter(|protect| !protect.globs.is_empty());
    let (Some(protect), Some(base)) = (protect, asked.base.as_deref()) else { return };
    let committed = shell.committed(protect, base).await;
    if committed.is_empty() {
        return;
    }
    if protect.policy == ProtectPolicy::Refuse {
        let why = format!("changed in a commit: {}; commit them as they were", committed.join(", "));
        found.checks.push(unmet("protected files are as they were in the last commit", why));
    }
    let known: Vec<String> = found.protected.iter().map(|change| change.path.clone()).collect();
    let new = committed.into_iter().filter(|path| !known.contains(path));
    found.protected.extend(new.map(|path| ProtectedChange {
        path,
        what: "changed in a commit".to_owned(),
        undone: false,
        kept: None,
    }));
}

/// What the verify commands changed: they run what the agent wrote.
async fn look_again(asked: &Examine, context: &Context, found: &mut Examination) {
    if asked.verify.is_empty() {
        return;
    }
    let after = hash(asked, context, &mut found.warnings).await;
    found.tree_after = after.filter(|after| Some(after) != found.tree.as_ref());
    match off_the_loop(asked, context, compare_protected).await {
        Ok((changes, checks)) => {
            let known: Vec<String> = found.protected.iter().map(|change| change.path.clone()).collect();
            found.protected.extend(changes.into_iter().filter(|change| !known.contains(&change.path)));
            found.checks.extend(checks);
        }
        Err(why) => found.checks.push(unmet("a second look at the files", why)),
    }
}

async fn off_the_loop<T: Send + 'static>(
    asked: &Examine,
    context: &Context,
    look: fn(&Examine, &Context) -> T,
) -> Result<T, String> {
    let (asked, context) = (asked.clone(), context.clone());
    let looked = blocking(move || look(&asked, &context)).await;
    looked.map_err(|outcome| outcome.error().unwrap_or_default().to_owned())
}

async fn hash(asked: &Examine, context: &Context, warnings: &mut Vec<String>) -> Option<String> {
    let hashed = off_the_loop(asked, context, |_, context| tree::hash(context)).await;
    let failed = |outcome: Outcome| outcome.error().unwrap_or_default().to_owned();
    match hashed.and_then(|hashed| hashed.map_err(failed)) {
        Ok(hash) => Some(hash),
        Err(why) => {
            warnings.push(format!("the workspace could not be hashed: {why}"));
            None
        }
    }
}

/// Something that does not hold, though no command was run for it.
fn unmet(what: &str, why: String) -> Check {
    Check {
        command: what.to_owned(),
        passed: false,
        ended: why,
        output: "".into(),
        blob: None,
        duration_us: 1,
    }
}

/// Everything that needs no command.
fn look_at_files(asked: &Examine, context: &Context) -> Examination {
    let mut found = Examination::default();
    if asked.purpose == Purpose::Baseline {
        match protect::keep(asked.protect.as_ref(), context, &mut found.warnings) {
            Ok(baseline) => found.baseline = baseline,
            Err(why) => found.warnings.push(why),
        }
        return found;
    }
    if asked.features {
        found.features = Some(features::look(asked.feature_list.as_deref(), context, &mut found.warnings));
    }
    (found.protected, found.checks) = compare_protected(asked, context);
    found.handoff = read_handoff(context, &mut found.warnings);
    found
}

/// What became of protected files. Where their change is refused, what is not known not to be changed does not hold.
fn compare_protected(asked: &Examine, context: &Context) -> (Vec<ProtectedChange>, Vec<Check>) {
    let Some(protect) = asked.protect.as_ref().filter(|protect| !protect.globs.is_empty()) else {
        return (Vec::new(), Vec::new());
    };
    let baseline = asked.baseline.as_deref().and_then(|hash| protect::Baseline::read(hash, context));
    let compared = protect::compare(protect, baseline.as_ref(), context);
    let refused = protect.policy == ProtectPolicy::Refuse && asked.purpose.is_claim();
    let doubts = compared.doubts.into_iter().filter(|_| refused);
    (compared.changes, doubts.map(|why| unmet("protected files are as they were", why)).collect())
}

/// The agent's note for its successor. A broken one is a warning, and the next conversation goes on without it.
fn read_handoff(context: &Context, warnings: &mut Vec<String>) -> Option<String> {
    let text = match context.workspace.read(handoff::PATH) {
        Ok(text) => text,
        Err(longhaul_workspace::Error::Missing { .. }) => return None,
        Err(why) => {
            warnings.push(format!("{} is not used: {why}", handoff::PATH));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    match Handoff::parse(&text) {
        Ok(_) => Some(text),
        Err(why) => {
            warnings.push(format!("{} is not used: {why}", handoff::PATH));
            None
        }
    }
}

/// Commands of the harness, held like those of the agent.
struct Shell<'a> {
    bash: Arc<dyn Tool>,
    context: &'a Context,
}

impl Shell<'_> {
    async fn run(&self, name: &str, command: &str, time: Duration) -> Outcome {
        let context = Context {
            key: format!("{}.{name}", self.context.key),
            timeout: time,
            cwd: None,
            ..self.context.clone()
        };
        let args = Json::of(&json!({ "command": command }));
        self.bash.run(&context, &args, &[]).await
    }

    /// One verify command. `None` if the run was paused.
    async fn check(&self, index: usize, command: &str) -> Option<Check> {
        let started = Instant::now();
        let outcome = self.run(&format!("verify{index}"), command, VERIFY_TIME_MAX).await;
        if matches!(outcome, Outcome::Failed { failure: Failure::Cancelled, .. }) {
            return None;
        }
        let output = outcome.output();
        let text = output.map_or("", |output| output.text.as_str());
        Some(Check {
            command: command.to_owned(),
            passed: outcome.is_done(),
            ended: outcome.error().unwrap_or("exit code 0").to_owned(),
            output: tail(text, CHECK_OUTPUT_BYTES_MAX).to_owned().into(),
            blob: output.and_then(|output| output.blob.clone()),
            duration_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1),
        })
    }

    async fn said(&self, name: &str, command: &str) -> Option<String> {
        let outcome = self.run(name, command, LOOK_COMMAND_TIME_MAX).await;
        let text = outcome.output().filter(|_| outcome.is_done())?.text.to_string();
        Some(text).filter(|text| !text.trim().is_empty() && text != "(no output)")
    }

    /// The commit the work starts from, if there is one.
    async fn head(&self) -> Option<String> {
        let said = self.said("head", "git rev-parse --verify --quiet HEAD").await?;
        Some(said.trim().to_owned())
            .filter(|hash| hash.len() >= 40 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    /// All lines of what a command says, however many.
    async fn lines(&self, name: &str, command: &str) -> Vec<String> {
        let outcome = self.run(name, command, LOOK_COMMAND_TIME_MAX).await;
        let Some(output) = outcome.output().filter(|_| outcome.is_done()) else { return Vec::new() };
        let blob = output.blob.as_deref().and_then(|hash| self.context.blobs.fetch(hash).ok());
        let text = blob
            .map_or_else(|| output.text.to_string(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.lines().map(str::to_owned).collect()
    }

    /// Protected files that are not in the last commit what they were in the first, nor what they are in the workspace.
    async fn committed(&self, protect: &Protect, base: &str) -> Vec<String> {
        const NAMES: &str =
            "git -c core.quotePath=false --no-pager diff --no-ext-diff --no-renames --relative --name-only";
        let Ok(patterns) = protect::patterns(&protect.globs, self.context.workspace.root()) else {
            return Vec::new();
        };
        let mut changed = self.lines("committed", &format!("{NAMES} {base} HEAD -- .")).await;
        changed.retain(|path| patterns.iter().any(|pattern| pattern.matches(Path::new(path))));
        if changed.is_empty() {
            return changed;
        }
        // What was already so when the run began may be committed as it was.
        let differs = self.lines("uncommitted", &format!("{NAMES} HEAD -- .")).await;
        changed.retain(|path| differs.contains(path));
        changed
    }

    /// What was changed since the run began, line by line, as far as a judge reads.
    async fn diff(&self, base: Option<&str>) -> Option<String> {
        let base = base.unwrap_or("HEAD");
        let diff =
            "git -c core.quotePath=false --no-pager diff --no-ext-diff --no-textconv --no-color --relative";
        // Something of each file rather than all of the first.
        let each = |list: &str, diff: &str| {
            format!(
                "{list} 2>/dev/null | head -n {JUDGED_FILES_MAX} | while IFS= read -r file; do {diff} \"$file\" 2>/dev/null | \
                 head -c {JUDGED_FILE_BYTES_MAX}; echo; done"
            )
        };
        let changed = each(&format!("{diff} --name-only {base} -- ."), &format!("{diff} {base} --"));
        let new =
            each("git ls-files --others --exclude-standard", &format!("{diff} --no-index -- /dev/null"));
        let command = format!("{changed}; {new}");
        let text = self.lines("diff", &command).await.join("\n");
        let text = text.trim_end();
        if text.is_empty() || text == "(no output)" {
            return None;
        }
        let cut = if text.len() > JUDGED_DIFF_BYTES_MAX { "\n[cut here: there is more]" } else { "" };
        Some(format!("{}{cut}", head(text, JUDGED_DIFF_BYTES_MAX)))
    }

    /// What was changed since the run began, for people.
    async fn changes(&self, base: Option<&str>) -> Option<String> {
        let base = base.unwrap_or("HEAD");
        let command = format!(
            "git --no-pager diff --no-ext-diff --no-textconv --stat=100 --stat-count=60 {base} -- . 2>/dev/null && \
             git ls-files --others --exclude-standard 2>/dev/null | head -n 60 | sed 's/^/ new: /'"
        );
        let said = self.said("changes", &command).await?;
        Some(tail(&said, NOTE_BYTES_MAX).to_owned())
    }
}
