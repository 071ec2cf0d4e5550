//! What a command that did not succeed leaves behind: a kind for the exit code, a chain for the reader, a hint for the user.

use std::path::Path;

use longhaul_core::decide::Refusal;
use longhaul_core::ids::RunId;
use longhaul_core::text::visible;
use longhaul_engine::Error as EngineError;
use longhaul_store::Error as StoreError;

use crate::exit::Exit;

#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: anyhow::Error,
    pub hint: Option<String>,
}

impl Failure {
    /// Something wrong with what was typed. Much of that is quoted, so what a terminal would obey in it is written out.
    pub fn usage(message: impl Into<String>) -> Failure {
        let message = visible(&message.into());
        Failure { exit: Exit::Usage, error: anyhow::Error::msg(message), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { exit: Exit::Failed, error, hint: None }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::from(anyhow::Error::from(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::from(EngineError::from(error))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let (exit, hint) = classify(&error);
        Failure { exit, error: anyhow::Error::from(error), hint }
    }
}

fn classify(error: &EngineError) -> (Exit, Option<String>) {
    let hint = |text: &str| Some(text.to_owned());
    match error {
        EngineError::Store(store) => classify_store(store),
        EngineError::Model { source, .. } => (Exit::Usage, source.hint()),
        EngineError::Unpriced { .. } => (
            Exit::Usage,
            hint(
                "set `providers.NAME.prices` in longhaul.yaml, or limit with --max-tokens instead of --max-cost",
            ),
        ),
        EngineError::Spec(_) | EngineError::Document(_) | EngineError::Id(_) | EngineError::Export { .. } => {
            (Exit::Usage, None)
        }
        EngineError::NoFiles { run, .. } => (
            Exit::Usage,
            Some(format!(
                "`longhaul checkpoints {run} --all` lists those with files; `longhaul resume {run} --checkpoint N` takes the \
                 conversation back without them"
            )),
        ),
        EngineError::PlaceGone { run, .. } => (
            Exit::Usage,
            Some(format!(
                "nothing was changed; `longhaul fork {run} --at N` makes a new run from a checkpoint, with its files in a place of \
                 their own"
            )),
        ),
        EngineError::NotRewound { run } => (
            Exit::Usage,
            Some(format!(
                "`longhaul checkpoints {run}` lists where it can be taken back to; nothing was changed"
            )),
        ),
        EngineError::FilesLost { run, .. }
        | EngineError::ChildAtWork { run, .. }
        | EngineError::NoCheckpoint { run, .. }
        | EngineError::EndedThen { run, .. } => {
            (Exit::Usage, Some(format!("`longhaul checkpoints {run}` lists them; nothing was changed")))
        }
        EngineError::NotInEngine { .. } => (
            Exit::Usage,
            hint(
                "only the engine keeps a run as it was decided; `longhaul doctor` says whether it can be used",
            ),
        ),
        EngineError::WorkspaceGone { .. } => (
            Exit::Usage,
            hint("put it back, or start over with a new run; an empty directory there is taken as it is"),
        ),
        EngineError::SetUp { run, .. } => (
            Exit::Failed,
            Some(format!(
                "the agent has not begun; see to workspace.setup in longhaul.yaml, then `longhaul resume {run}`"
            )),
        ),
        EngineError::Workspace { .. } => {
            (Exit::Usage, hint("see where the run works with `longhaul show ID`"))
        }
        EngineError::Journal { source: longhaul_engine::Unreadable::Codec(codec), .. }
            if codec.is_newer() =>
        {
            (Exit::Failed, hint("nothing was changed; reading with `show` and `events` still works"))
        }
        EngineError::Journal { run, .. } => {
            (Exit::Failed, Some(format!("look closer with `longhaul store verify {run}`")))
        }
        EngineError::Shared { run, .. } => (
            Exit::Usage,
            Some(format!(
                "nothing was changed; `longhaul fork {run} --at N` has its files in a place of their own"
            )),
        ),
        EngineError::OfParent { parent, .. } => (
            Exit::Usage,
            Some(format!(
                "nothing was changed; `longhaul checkpoints {parent}` lists where both can be taken back to"
            )),
        ),
        EngineError::OtherAtWork { other, .. } => {
            (Exit::Held, Some(format!("nothing was changed; `longhaul pause {other}` asks it to stop")))
        }
        EngineError::AtWork { .. } => (Exit::Held, hint("nothing was removed; try again when it rests")),
        EngineError::NeedsUnknown { run } => (
            Exit::Failed,
            Some(format!("nothing was removed; `longhaul store verify {run}` says what is wrong")),
        ),
        EngineError::Prune { .. } => (Exit::Failed, hint("nothing that a run needs was removed; try again")),
        EngineError::PutAway { .. } | EngineError::Note { .. } => (Exit::Failed, None),
        EngineError::Files { .. } => {
            (Exit::Failed, hint("see to what is said above, and give the same command again"))
        }
        EngineError::Answer { .. } => {
            (Exit::Failed, hint("nothing was answered; see to the directory, and try again"))
        }
        EngineError::Crew(_) => (Exit::Usage, hint("`longhaul agents list` shows the agents there are")),
        EngineError::ParentEnded { run, parent } => (
            Exit::Usage,
            Some(format!(
                "what it did is kept: `longhaul result {run}`; `longhaul checkpoints {parent}` lists where both can be taken back to"
            )),
        ),
        EngineError::Refused(Refusal::NoGate { .. }) => {
            (Exit::Usage, hint("list them with `longhaul approvals`"))
        }
        EngineError::Refused(Refusal::Plan { .. } | Refusal::Name { .. }) => (Exit::Usage, None),
        EngineError::Refused(
            Refusal::Transition { .. }
            | Refusal::OtherKind { .. }
            | Refusal::OtherAction { .. }
            | Refusal::Answered { .. },
        )
        | EngineError::Stuck
        | EngineError::Driver(_)
        | EngineError::Randomness(_)
        | EngineError::Empty(_) => (Exit::Failed, None),
    }
}

fn classify_store(error: &StoreError) -> (Exit, Option<String>) {
    match error {
        // A name that is none is a mistake in what was typed; 1 would say that the run failed.
        StoreError::NotFound { .. } => {
            (Exit::Usage, Some("list what there is with `longhaul list`".to_owned()))
        }
        StoreError::Held { run, holder } => (
            Exit::Held,
            Some(format!("process {} drives it; `longhaul pause {run}` asks it to stop", holder.pid)),
        ),
        StoreError::TakenBack { .. } => {
            (Exit::Failed, Some("look again: what was shown last is no longer part of it".to_owned()))
        }
        StoreError::Fenced { .. } => (Exit::Held, Some("another process has taken the run over".to_owned())),
        StoreError::NoSpace { file, .. } => {
            let id = run_of(file);
            (Exit::Waiting, Some(format!("free some space on that disk, then `longhaul resume {id}`")))
        }
        // 3 would say that the run waits; it goes on as if nothing had been asked.
        StoreError::NoRoomForCommand { .. } => (
            Exit::Failed,
            Some(
                "nothing was asked of the run; free some space on that disk, and give the same command again"
                    .to_owned(),
            ),
        ),
        StoreError::Damaged { file, .. } => {
            let id = run_of(file);
            let hint = format!(
                "`longhaul store verify {id}` shows what is sound, `longhaul store repair {id}` keeps it"
            );
            (Exit::Failed, Some(hint))
        }
        StoreError::NothingSound { run, file, .. } => {
            let log = file.with_file_name("events.jsonl");
            let told = if log.exists() {
                format!("; {} may tell what was done", log.display())
            } else {
                String::new()
            };
            let hint = format!(
                "there is nothing to keep, and nothing was changed{told}; `longhaul rm {run} --force` forgets the run"
            );
            (Exit::Failed, Some(hint))
        }
        StoreError::Gone { .. } => (
            Exit::Failed,
            Some("the run cannot go on without it; what it did to its files is where it worked".to_owned()),
        ),
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            let hint =
                "nothing that was said to be done is lost; see to it that you may read and write there";
            (Exit::Failed, Some(hint.to_owned()))
        }
        StoreError::Query { .. } | StoreError::QueryWrites | StoreError::QueryTooSlow { .. } => {
            (Exit::Usage, None)
        }
        StoreError::Exists { .. }
        | StoreError::NoFirstEvent { .. }
        | StoreError::Poisoned { .. }
        | StoreError::TooNew { .. }
        | StoreError::TooLarge { .. }
        | StoreError::InboxFull { .. }
        | StoreError::Io { .. }
        | StoreError::Sqlite { .. }
        | StoreError::BlobMissing { .. }
        | StoreError::BlobDamaged { .. }
        | StoreError::Diverged { .. }
        | StoreError::Visit(_) => (Exit::Failed, None),
    }
}

/// The run whose directory a file is in, as one would type it.
fn run_of(file: &Path) -> String {
    let dir = file.parent().filter(|dir| dir.parent().is_some_and(|runs| runs.ends_with("runs")));
    let id = dir.and_then(Path::file_name).and_then(|name| RunId::parse(name.to_str()?).ok());
    id.map_or_else(|| "ID".to_owned(), String::from)
}
