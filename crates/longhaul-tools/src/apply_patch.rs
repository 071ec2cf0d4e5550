//! `apply_patch`: changes, adds, deletes and moves several files at once.
//!
//! Owns all or nothing, as far as a file system has it: everything is worked out and compared with the traces before the
//! first file is touched, files are written before any is deleted, and what was done is taken back when a file cannot be changed.
//! A crash between two files leaves each either as it was or as it will be; the next attempt does the rest. Refuses to overwrite a file that it adds or moves to, to delete through a
//! link, and to touch anything when one of the files is not as it was.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::{ABSENT, Error, digest_of};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::change;
use crate::patch::{self, Action, FileChange};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};
use crate::{really, tag};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`, or a unified diff.
    #[serde(alias = "input")]
    patch: String,
}

const DESCRIPTION: &str = "Applies a patch to one or more files, all of it or nothing. It is a unified diff, or of this form:\n\
*** Begin Patch\n\
*** Update File: path/of/file\n\
*** Move to: new/path (only to move it)\n\
@@ a line above, if the place is not unique\n \
line that stays\n\
-line that goes\n\
+line that comes\n\
*** Add File: other/file\n\
+its lines\n\
*** Delete File: third/file\n\
*** End Patch";

pub struct ApplyPatch(ToolSpec);

impl ApplyPatch {
    pub fn new() -> ApplyPatch {
        ApplyPatch(ToolSpec {
            name: "apply_patch".to_owned(),
            description: DESCRIPTION.to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        })
    }

    fn changes(&self, args: &Json) -> Result<Vec<FileChange>, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        patch::parse(&args.patch).map_err(invalid)
    }

    async fn traces(&self, context: &Context, args: &Json) -> Result<Vec<Trace>, Outcome> {
        let (context, changes) = (context.clone(), self.changes(args)?);
        blocking(move || {
            let steps = steps(&changes);
            steps.iter().map(|step| Work::new(&context, step, None).map(|work| work.trace)).collect()
        })
        .await?
    }

    async fn make(&self, context: &Context, args: &Json, traces: &[Trace]) -> Result<Outcome, Outcome> {
        let (context, changes, traces) = (context.clone(), self.changes(args)?, traces.to_vec());
        blocking(move || {
            let steps = steps(&changes);
            let traces = aligned(&steps, &traces)?;
            untouched(&context, traces.iter().copied().flatten())?;
            let all = steps.iter().zip(traces).map(|(step, trace)| Work::new(&context, step, trace));
            let all: Vec<Work<'_>> = all.collect::<Result<_, _>>()?;
            let mut done = Vec::new();
            for work in &all {
                // Before it is done: it may be done in part.
                let kept = work.kept(&context).map(|before| done.push((work, before)));
                kept.and_then(|()| work.perform(&context)).map_err(|error| stuck(&context, &error, &done))?;
            }
            Ok(Outcome::done(report(&changes, &all)))
        })
        .await?
    }
}

impl Default for ApplyPatch {
    fn default() -> ApplyPatch {
        ApplyPatch::new()
    }
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(self.traces(context, args))
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.make(context, args, traces).await.unwrap_or_else(|outcome| outcome) })
    }

    /// Some files done and the others not yet is "not done": the next attempt does the others.
    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let Ok(changes) = self.changes(args) else { return Found::Unknown };
            if traces.is_empty() || aligned(&steps(&changes), traces).is_err() {
                return Found::Unknown;
            }
            let steps = steps(&changes);
            // Whether a file may be run is no part of a trace.
            let modes = || steps.iter().all(|step| step.set_mode(context).is_ok());
            let mut all = Found::Done;
            for trace in traces {
                match change::check(context, trace.target.clone(), std::slice::from_ref(trace)).await {
                    Found::Done => {}
                    Found::NotDone if all == Found::Done => all = Found::NotDone,
                    Found::NotDone => {}
                    Found::Unknown => all = Found::Unknown,
                }
            }
            if all != Found::Done || modes() { all } else { Found::Unknown }
        })
    }
}

/// What becomes of one path.
#[derive(Clone, Copy)]
struct Step<'a> {
    path: &'a str,
    what: What<'a>,
    executable: Option<bool>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Create(&'a str),
    Change(&'a FileChange),
    /// The file of this change arrives here.
    Arrive(&'a FileChange),
    Remove,
}

/// All paths, those that are written before those that are removed: a crash in between loses no text.
fn steps(changes: &[FileChange]) -> Vec<Step<'_>> {
    let (mut written, mut removed) = (Vec::new(), Vec::new());
    for change in changes {
        let step = |path, what| Step { path, what, executable: change.executable };
        let gone = Step { path: change.path.as_str(), what: What::Remove, executable: None };
        match &change.action {
            Action::Add { text } => written.push(step(gone.path, What::Create(text))),
            Action::Delete => removed.push(gone),
            Action::Update { move_to: None, .. } => written.push(step(gone.path, What::Change(change))),
            Action::Update { move_to: Some(to), .. } => {
                written.push(step(to, What::Arrive(change)));
                removed.push(gone);
            }
        }
    }
    written.append(&mut removed);
    written
}

/// One trace for each step, or none at all.
fn aligned<'a>(steps: &[Step<'_>], traces: &'a [Trace]) -> Result<Vec<Option<&'a Trace>>, Outcome> {
    if traces.is_empty() {
        return Ok(vec![None; steps.len()]);
    }
    let same = steps.len() == traces.len()
        && steps.iter().zip(traces).all(|(step, trace)| step.path == trace.target);
    if same {
        Ok(traces.iter().map(Some).collect())
    } else {
        Err(Outcome::failed(Failure::Tool, "the patch is no longer the one that was prepared"))
    }
}

/// Every file is as it was, or as the patch leaves it. Asked before hunks are placed, which would fail with lesser reasons.
fn untouched<'a>(context: &Context, traces: impl Iterator<Item = &'a Trace>) -> Result<(), Outcome> {
    for trace in traces {
        let now = context.workspace.digest(&trace.target).map_err(|error| refused(&error))?;
        if now != trace.before && now != trace.after {
            return Err(change::changed_meanwhile(&trace.target));
        }
    }
    Ok(())
}

/// A step that was found possible.
struct Work<'a> {
    step: Step<'a>,
    trace: Trace,
    todo: Todo,
}

enum Todo {
    /// The file is already as the step leaves it.
    Nothing,
    Write(Vec<u8>),
    Remove,
}

impl<'a> Work<'a> {
    fn new(context: &Context, step: &Step<'a>, trace: Option<&Trace>) -> Result<Work<'a>, Outcome> {
        really::permitted(context, "apply_patch", step.path)?;
        let before = context.workspace.digest(step.path).map_err(|error| refused(&error))?;
        if let Some(trace) = trace {
            if before == trace.after {
                return Ok(Work { step: *step, trace: trace.clone(), todo: Todo::Nothing });
            }
            if before != trace.before {
                return Err(change::changed_meanwhile(step.path));
            }
        }
        let bytes = step.bytes(context, &before)?;
        let after = bytes.as_deref().map_or_else(|| ABSENT.to_owned(), digest_of);
        let path = step.path;
        let changes_mode = step.executable.is_some() && bytes.is_some();
        if before == after && !changes_mode {
            return Err(Outcome::failed(Failure::Tool, format!("the patch changes nothing in `{path}`")));
        }
        if trace.is_some_and(|trace| trace.after != after) {
            return Err(Outcome::failed(
                Failure::Tool,
                format!("the change of `{path}` is no longer the same"),
            ));
        }
        let todo = match bytes {
            Some(_) if before == after => Todo::Nothing,
            bytes => bytes.map_or(Todo::Remove, Todo::Write),
        };
        Ok(Work { step: *step, trace: Trace { target: path.to_owned(), before, after }, todo })
    }

    fn perform(&self, context: &Context) -> Result<(), Error> {
        let (workspace, path) = (&context.workspace, self.step.path);
        match (&self.todo, self.step.what) {
            (Todo::Nothing, _) => {
                workspace.sweep(path, &context.key)?;
                workspace.settle(path)
            }
            (Todo::Write(bytes), What::Arrive(change)) => {
                workspace.replace_like(path, &change.path, bytes, &context.key)
            }
            (Todo::Write(bytes), What::Create(_) | What::Change(_) | What::Remove) => {
                workspace.replace(path, bytes, &context.key)
            }
            (Todo::Remove, _) => workspace.remove(path),
        }?;
        self.step.set_mode(context)
    }

    /// What is at the path now, to be put back if need be.
    fn kept(&self, context: &Context) -> Result<Before, Error> {
        let (workspace, path) = (&context.workspace, self.step.path);
        let executable = workspace.is_executable(path).ok();
        Ok(match self.todo {
            Todo::Write(_) | Todo::Remove if self.trace.before == ABSENT => Before::Absent,
            Todo::Write(_) | Todo::Remove => Before::File { bytes: workspace.read(path)?, executable },
            Todo::Nothing => Before::Same { executable },
        })
    }

    /// Makes the path what it was, if it is what this has made of it. Answers whether it is that.
    fn take_back(&self, context: &Context, before: &Before) -> bool {
        let (workspace, path) = (&context.workspace, self.step.path);
        // Where nothing can be reached, nothing was put.
        let Ok(now) = workspace.digest(path) else { return matches!(before, Before::Absent) };
        let mode = |executable: &Option<bool>| {
            executable.is_none_or(|executable| workspace.set_executable(path, executable).is_ok())
        };
        match before {
            Before::Absent => now == ABSENT || (now == self.trace.after && workspace.remove(path).is_ok()),
            Before::File { executable, .. } if now == self.trace.before => mode(executable),
            Before::File { bytes, executable } if now == self.trace.after => {
                workspace.replace(path, bytes, &context.key).is_ok() && mode(executable)
            }
            Before::File { .. } => false,
            // What an attempt before this one has done stays done: its text is gone.
            Before::Same { executable } => mode(executable) && now == self.trace.before,
        }
    }
}

/// What was at a path.
enum Before {
    Absent,
    File {
        bytes: Vec<u8>,
        executable: Option<bool>,
    },
    /// What the patch makes of it, but for whether it may be run.
    Same {
        executable: Option<bool>,
    },
}

impl Step<'_> {
    fn set_mode(&self, context: &Context) -> Result<(), Error> {
        let executable = self.executable.filter(|wanted| {
            context.workspace.is_executable(self.path).is_ok_and(|executable| executable != *wanted)
        });
        executable.map_or(Ok(()), |executable| context.workspace.set_executable(self.path, executable))
    }

    /// What is to be at the path; `None` for nothing.
    fn bytes(&self, context: &Context, before: &str) -> Result<Option<Vec<u8>>, Outcome> {
        let failed = |message: String| Err(Outcome::failed(Failure::Tool, message));
        let path = self.path;
        match self.what {
            What::Create(_) | What::Arrive(_) if before != ABSENT => {
                failed(format!("`{path}` is already there; update it, or delete it in a patch of its own"))
            }
            What::Create(text) => Ok(Some(text.as_bytes().to_vec())),
            What::Change(change) | What::Arrive(change) => patched(context, change).map(Some),
            What::Remove if before == ABSENT => failed(format!("`{path}` does not exist")),
            What::Remove => {
                context.workspace.refuse_link(path).map(|()| None).map_err(|error| refused(&error))
            }
        }
    }
}

fn patched(context: &Context, change: &FileChange) -> Result<Vec<u8>, Outcome> {
    let path = &change.path;
    let bytes = context.workspace.read(path).map_err(|error| refused(&error))?;
    let Action::Update { hunks, .. } = &change.action else { return Ok(bytes) };
    if hunks.is_empty() {
        return Ok(bytes);
    }
    let failed = |message: String| Outcome::failed(Failure::Tool, message);
    let text = String::from_utf8(bytes)
        .map_err(|_| failed(format!("`{path}` is not UTF-8 text; change it with bash")))?;
    Ok(patch::applied(path, &text, hunks).map_err(failed)?.into_bytes())
}

/// A file that cannot be changed: what was done is taken back. What cannot be is said.
fn stuck(context: &Context, error: &Error, done: &[(&Work<'_>, Before)]) -> Outcome {
    let stays = done.iter().rev().filter(|(work, before)| !work.take_back(context, before));
    let stays: Vec<String> = stays.map(|(work, _)| format!("`{}`", work.step.path)).collect();
    match (stays.is_empty(), done.len() < 2) {
        (true, true) => refused(error),
        (true, false) => Outcome::failed(Failure::Tool, format!("{error}; no file was changed")),
        (false, _) => {
            let stays = stays.join(", ");
            let message =
                format!("{error}; {stays} could not be put back as they were: read them before going on");
            Outcome::failed(Failure::Tool, message)
        }
    }
}

fn report(changes: &[FileChange], all: &[Work<'_>]) -> String {
    let tag = |path: &str| {
        let work = all.iter().find(|work| work.step.path == path);
        work.map_or_else(String::new, |work| format!(" (tag {})", tag::of(&work.trace.after)))
    };
    let lines = changes.iter().map(|change| match &change.action {
        Action::Add { .. } => format!("added {}{}\n", change.path, tag(&change.path)),
        Action::Delete => format!("deleted {}\n", change.path),
        Action::Update { move_to: None, .. } => format!("updated {}{}\n", change.path, tag(&change.path)),
        Action::Update { move_to: Some(to), .. } => format!("moved {} to {to}{}\n", change.path, tag(to)),
    });
    let modes = all.iter().filter_map(|work| {
        let may = if work.step.executable? { "may" } else { "may not" };
        Some(format!("{} {may} be run now\n", work.step.path))
    });
    lines.chain(modes).collect()
}
