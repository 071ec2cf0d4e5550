//! Checkpoints: which there are, also in a journal that is damaged after them, and the way back to one.
//!
//! A checkpoint is an event in the middle of a decision. Going back keeps that decision whole, with the events that came
//! after the checkpoint in it: what was decided together was never true in part. Here the agent's work since is only
//! forgotten, so whoever goes back is told which calls that was; `rewind` takes the files along.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longhaul_core::event::{Event, Moment, Purpose, Stored};
use longhaul_core::ids::{CallId, RunId};
use longhaul_core::json::Json;
use longhaul_core::run::Files;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::text::visible;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, PUSH};
use longhaul_store::engine::{Cutting, Damage};
use longhaul_store::{Backend, Home, Record};

use crate::error::{Error, Unreadable};
use crate::fold::Fold;
use crate::harness::Harness;
use crate::limits::COMMAND_SHOWN_MAX;
use crate::undo;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Nothing for a turn's end, where only the files were stored, and for the moment before the first change.
    pub number: Option<u32>,
    /// What it is called.
    pub name: Option<String>,
    /// The command before which it was made, because that may throw work away.
    pub before: Option<String>,
    /// The tree of the workspace then.
    pub files: Option<String>,
    pub seq: u64,
    pub at: Timestamp,
    /// The step in hand.
    pub step: Option<String>,
    /// The run's status right after the checkpoint.
    pub status: Status,
    /// The last event of the decision that made it, and the run's status then: where going back leads.
    pub end: u64,
    pub status_at_end: Status,
}

/// Which point of a run is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    Number(u32),
    Name(String),
    /// By the number of an event, written `@12`: the last moment up to then whose files are known.
    Event(u64),
}

impl From<&str> for Point {
    fn from(text: &str) -> Point {
        let event = text.strip_prefix('@').and_then(|seq| seq.parse().ok()).map(Point::Event);
        let number = || text.parse().ok().map(Point::Number);
        event.or_else(number).unwrap_or_else(|| Point::Name(text.to_owned()))
    }
}

impl std::str::FromStr for Point {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Point, Self::Err> {
        Ok(text.into())
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Point::Number(number) => write!(formatter, "{number}"),
            Point::Name(name) => write!(formatter, "{}", name.escape_debug()),
            Point::Event(seq) => write!(formatter, "@{seq}"),
        }
    }
}

impl Checkpoint {
    /// How it is asked for: by its number, or by its event.
    pub fn label(&self) -> String {
        self.number.map_or_else(|| format!("@{}", self.seq), |number| number.to_string())
    }

    fn is(&self, point: &Point) -> bool {
        match point {
            Point::Number(number) => self.number == Some(*number),
            Point::Name(name) => self.name.as_ref() == Some(name),
            Point::Event(seq) => self.seq == *seq,
        }
    }
}

/// The checkpoints that can be gone back to, oldest first, and why there may be no later ones.
#[derive(Debug, Default)]
pub struct Checkpoints {
    pub found: Vec<Checkpoint>,
    /// Where each decision ended, with the files if nothing had begun that may change them.
    rests: Vec<Checkpoint>,
    last_seq: u64,
    /// The files that a fork was made with.
    begun_with: Option<String>,
    /// Did anything begin that may have changed files?
    has_worked: bool,
    pub damage: Option<Damage>,
    pub unreadable: Option<Unreadable>,
}

/// What going back to a checkpoint did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    pub checkpoint: Checkpoint,
    pub events_lost: u64,
    /// The calls on record that were started or ended since, by tool and name, in order.
    pub calls: Vec<String>,
    /// There was more after the checkpoint than could be read.
    pub more: bool,
    /// The journal as it was; `None` if there was nothing to cut.
    pub kept_as: Option<PathBuf>,
}

impl Checkpoints {
    /// The newest one from which there is something to go on with.
    pub fn newest(&self) -> Option<&Checkpoint> {
        let goes_on = |found: &&Checkpoint| found.number.is_some() && !found.status_at_end.is_terminal();
        self.found.iter().rev().find(goes_on)
    }

    pub fn at(&self, point: &Point) -> Option<&Checkpoint> {
        let found = self.found.iter().find(|checkpoint| checkpoint.is(point));
        found.or_else(|| match point {
            Point::Event(seq) if *seq <= self.last_seq => {
                self.rests.iter().rev().find(|rest| rest.end <= *seq && rest.files.is_some())
            }
            Point::Event(_) | Point::Number(_) | Point::Name(_) => None,
        })
    }

    /// The files that the run began with, if they are known. What was done before a fork was made is not the fork's.
    pub(crate) fn start(&self) -> Option<&String> {
        self.begun_with.as_ref().or_else(|| self.rests.first()?.files.as_ref())
    }

    /// Has the agent begun nothing yet that may change files?
    pub(crate) fn is_untouched(&self) -> bool {
        !self.has_worked
    }

    /// The moment right after an event, whose files need not be known.
    pub(crate) fn after(&self, run: &RunId, end: u64) -> Result<Checkpoint, Error> {
        let rest = self.rests.iter().rev().find(|rest| rest.end <= end);
        let rest = rest.ok_or_else(|| Error::Empty(run.clone()))?;
        Ok(Checkpoint { end, ..rest.clone() })
    }

    /// Every tree that the run can be taken back to or is compared with.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &String> {
        let points = self.found.iter().chain(&self.rests);
        points.filter_map(|point| point.files.as_ref()).chain(&self.begun_with)
    }

    pub(crate) fn find(&self, run: &RunId, point: &Point) -> Result<&Checkpoint, Error> {
        let checkpoint = self.known(run, point)?;
        match checkpoint.status_at_end {
            Status::Created | Status::Running | Status::Paused => Ok(checkpoint),
            status @ (Status::Completed | Status::Failed) => {
                Err(Error::EndedThen { run: run.clone(), point: point.to_string(), status })
            }
        }
    }

    /// One to look at, whether or not the run can go on from it.
    pub(crate) fn known(&self, run: &RunId, point: &Point) -> Result<&Checkpoint, Error> {
        self.at(point).ok_or_else(|| {
            let numbers: Vec<String> =
                self.found.iter().filter(|found| found.number.is_some()).map(Checkpoint::label).collect();
            let there = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            Error::NoCheckpoint { run: run.clone(), point: point.to_string(), there }
        })
    }
}

impl Harness {
    /// The checkpoints of a run. Takes no lock, and reads a damaged journal as far as it is sound.
    pub fn checkpoints(&self, id: &RunId) -> Result<Checkpoints, Error> {
        let mut gathering = Gathering::default();
        let damage = match self.home().filter(|home| home.engine().contains(id)) {
            Some(home) => home.engine().sound_part(id, &mut |batch| gathering.batch(batch))?,
            None => {
                self.store_of(id)?.reader(id)?.poll(&mut |record| {
                    gathering.record(record);
                    Ok(())
                })?;
                None
            }
        };
        Ok(gathering.checkpoints(damage))
    }

    /// Takes a run that nobody drives back to one of its checkpoints: all later events are cut from its journal, which is
    /// kept beside it as it was. Nothing is changed if the checkpoint is not there or the run had ended with it.
    pub fn take_back(&self, id: &RunId, point: &Point) -> Result<TakenBack, Error> {
        self.settle_rewind(id)?;
        let home = self.home_to_cut(id)?;
        let cutting = home.engine().cutting(id, &self.writer())?;
        let seen = Seen::of(&cutting, |_| Ok(()), |all| all.find(id, point).cloned())?;
        let kept_as = seen.goes_back().then(|| cutting.free_name()).transpose()?;
        if let Some(kept_as) = &kept_as {
            self.about_to_cut(home, id)?;
            // Before the cut: after it nobody knows whose they were.
            self.put_away_all(home, &home.run_dir(id).join(CHILDREN_BEFORE), &seen.children)?;
            cutting.cut_after(seen.checkpoint.end, &[], kept_as)?;
            // A rewind before this one is no longer of this journal.
            undo::forget(home, id)?;
        }
        self.forget_later(home, id);
        Ok(seen.taken_back(kept_as))
    }

    pub(crate) fn home_to_cut(&self, id: &RunId) -> Result<&Home, Error> {
        let (store, _) = self.store_to_drive(id)?;
        let home = self.home().filter(|_| store.backend() == Backend::Engine);
        Ok(home.ok_or_else(|| Error::NotInEngine { run: id.clone() })?)
    }

    /// Comes before every change to a journal that is no append. What was spent since stays counted; what was answered since is asked
    /// again, and an answer that outlived the cut would be taken for the one to that.
    pub(crate) fn about_to_cut(&self, home: &Home, id: &RunId) -> Result<(), Error> {
        self.note_spent(home, id)?;
        self.forget_answers(id);
        // Before the cut: a log that was longer than its journal would never be noticed.
        drop(std::fs::remove_file(home.run_dir(id).join("events.jsonl")));
        Ok(())
    }

    /// Its row is made anew, and nothing of what was answered since is left.
    pub(crate) fn forget_later(&self, home: &Home, id: &RunId) {
        self.forget_answers(id);
        if let Ok(catalog) = home.catalog() {
            drop(catalog.remove(id));
        }
    }
}

/// A journal as it is before it is cut, and where that will be.
pub(crate) struct Seen {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) last_seq: u64,
    pub(crate) spec: Option<RunSpec>,
    /// Those that were sent since.
    pub(crate) children: Vec<RunId>,
    /// Those that were sent before and had not ended then. Without the files that they wrote since, what they did is not done.
    pub(crate) out: Vec<RunId>,
    /// The calls since that may have done something outside the workspace.
    pub(crate) outside: Vec<String>,
    /// What the journal leads back to.
    pub(crate) trees: BTreeSet<String>,
    calls: Vec<String>,
    more: bool,
}

/// Where children are moved that a run no longer knows of.
pub(crate) const CHILDREN_BEFORE: &str = "children-before";

impl Seen {
    /// Whether the run may be taken back at all is asked before it is looked where to.
    pub(crate) fn of(
        cutting: &Cutting<'_>,
        may: impl Fn(&RunSpec) -> Result<(), Error>,
        which: impl FnOnce(&Checkpoints) -> Result<Checkpoint, Error>,
    ) -> Result<Seen, Error> {
        let mut gathering = Gathering::default();
        let damage = cutting.show(&mut |batch| gathering.batch(batch))?;
        let spec = gathering.fold.run().map(|run| run.spec.clone());
        spec.iter().try_for_each(may)?;
        let last_seq = gathering.last_seq;
        let (all_calls, sent) = (std::mem::take(&mut gathering.calls), std::mem::take(&mut gathering.sent));
        let (outside, ended) =
            (std::mem::take(&mut gathering.outside), std::mem::take(&mut gathering.children_ended));
        let checkpoints = gathering.checkpoints(damage);
        let checkpoint = which(&checkpoints)?;
        let end = checkpoint.end;
        let since = |all: Vec<(u64, String)>| -> Vec<String> {
            let mut seen = BTreeSet::new();
            let later = all.into_iter().filter(|(seq, _)| *seq > end).map(|(_, call)| call);
            later.filter(|call| seen.insert(call.clone())).collect()
        };
        // What was about to run at the checkpoint has run since, and is one of them.
        let (calls, outside) = (since(all_calls), since(outside));
        let had_ended = |number| ended.iter().any(|(seq, ended)| *ended == number && *seq <= end);
        let (later, before): (Vec<_>, Vec<_>) = sent.into_iter().partition(|(seq, ..)| *seq > end);
        let children = later.into_iter().map(|(.., child)| child).collect();
        let out = before.into_iter().filter(|(_, number, _)| !had_ended(*number));
        let out = out.map(|(.., child)| child).collect();
        let more = checkpoints.damage.is_some() || checkpoints.unreadable.is_some();
        let trees = checkpoints.trees().cloned().collect();
        Ok(Seen { checkpoint, last_seq, spec, children, out, outside, trees, calls, more })
    }

    /// Is there anything after the checkpoint?
    pub(crate) fn goes_back(&self) -> bool {
        self.last_seq > self.checkpoint.end || self.more
    }

    pub(crate) fn taken_back(self, kept_as: Option<PathBuf>) -> TakenBack {
        let events_lost = self.last_seq - self.checkpoint.end;
        let Seen { checkpoint, calls, more, .. } = self;
        TakenBack { checkpoint, events_lost, calls, more, kept_as }
    }
}

impl Harness {
    /// Moves the children that a run will no longer know of, or will send again, out of the way.
    pub(crate) fn put_away_all(&self, home: &Home, to: &Path, lost: &[RunId]) -> Result<(), Error> {
        lost.iter().try_for_each(|child| self.put_away(home, child, to))
    }

    /// Moves a child out of the way, with all below it: whoever is sent next must not be taken for it, nor asked what it asked.
    fn put_away(&self, home: &Home, child: &RunId, to: &Path) -> Result<(), Error> {
        let failed = |source| Error::PutAway { path: to.to_owned(), source };
        let below = format!("{child}.");
        let is_lost = |run: &&RunId| *run == child || run.as_str().starts_with(&below);
        for run in home.all_runs()?.iter().filter(is_lost).filter(|run| home.engine().contains(run)) {
            // First: once it is away, nobody who comes after a kill finds out whose they were.
            self.forget_answers(run);
            std::fs::create_dir_all(to).map_err(failed)?;
            let place = (1..).map(|number| to.join(format!("{run}-{number}"))).find(|place| !place.exists());
            std::fs::rename(home.run_dir(run), place.unwrap_or_else(|| to.join(run.as_str())))
                .map_err(failed)?;
            if let Ok(catalog) = home.catalog() {
                drop(catalog.remove(run));
            }
        }
        Ok(())
    }
}

/// Folds a journal as far as it can be read and notes the checkpoints on the way.
#[derive(Default)]
struct Gathering {
    fold: Fold,
    found: Vec<Checkpoint>,
    /// How many of those found are of the decision being read.
    open: usize,
    at: Option<Timestamp>,
    last_seq: u64,
    /// Events that began or ended a call: sequence number, and the call as it is shown.
    calls: Vec<(u64, String)>,
    /// The same of those of which nothing is known but that they ran: what they did need not be in the workspace.
    outside: Vec<(u64, String)>,
    once: BTreeSet<CallId>,
    /// Children that were sent, with the event's number, and those that ended.
    sent: Vec<(u64, u32, RunId)>,
    children_ended: Vec<(u64, u32)>,
    unreadable: Option<Unreadable>,
    /// How many were found when something last began or ended that may change files.
    touched: usize,
    /// The calls that may.
    changing: BTreeSet<CallId>,
    /// Where the decisions so far ended, and the one being read as far as it was.
    rests: Vec<Checkpoint>,
    rest: Option<Checkpoint>,
    /// Nothing has begun yet that may change files.
    untouched: bool,
    /// Where something first did.
    first_touch: Option<u64>,
    /// Has the agent itself, or one that it sent, begun something of that kind? A look of the harness is no work of theirs.
    has_worked: bool,
}

impl Gathering {
    fn batch(&mut self, batch: &[Record<'_>]) -> Result<(), longhaul_store::Error> {
        batch.iter().for_each(|record| self.record(*record));
        self.close();
        Ok(())
    }

    /// All events of a decision have one moment, so a new moment is a new decision, also inside a batch: an import
    /// writes many decisions as one.
    fn record(&mut self, record: Record<'_>) {
        self.last_seq = record.seq;
        if self.unreadable.is_some() {
            return;
        }
        if self.at.replace(record.at) != Some(record.at) {
            self.close();
        }
        match self.fold.take(record) {
            Ok(event) => self.event(record.seq, record.at, &event),
            Err(error) => {
                // A decision of which a part cannot be read is none to go back to.
                self.found.truncate(self.found.len() - self.open);
                self.rest = None;
                self.unreadable = Some(error);
            }
        }
    }

    /// A decision is over.
    fn close(&mut self) {
        self.open = 0;
        self.rests.extend(self.rest.take());
    }

    fn event(&mut self, seq: u64, at: Timestamp, event: &Event) {
        let Some(run) = self.fold.run() else { return };
        let (step, status) = (run.step().map(|step| step.id.clone()), run.status);
        let files = match &run.files {
            Files::Stored { tree } => Some(tree.clone()),
            Files::Untouched | Files::Beginning | Files::Changed => None,
        };
        let was_untouched = std::mem::replace(&mut self.untouched, run.files == Files::Untouched);
        if let Event::CallStarted { call, .. } | Event::CallFinished { call, .. } = event {
            let tool = run.call(*call).map_or("", |call| call.tool.as_str());
            self.calls.push((seq, format!("{tool} {call}")));
            // What was pushed can be looked for again, and is elsewhere all the same.
            if tool == PUSH || matches!(event, Event::CallStarted { class: EffectClass::Once, .. }) {
                self.once.insert(*call);
            }
            if self.once.contains(call) {
                let command = run.call(*call).and_then(|call| command(&call.args, COMMAND_SHOWN_MAX));
                let command = command.map_or_else(String::new, |command| format!(" `{command}`"));
                self.outside.push((seq, format!("{tool} {call}{command}")));
            }
        }
        let here = Checkpoint {
            number: None,
            name: None,
            before: None,
            files,
            seq,
            at,
            step,
            status,
            end: seq,
            status_at_end: status,
        };
        self.point(&here, event);
        if let Event::FilesStored { stored: Stored::Tree { tree, .. }, moment } = event
            && (was_untouched || *moment == Moment::BeforeFirst)
        {
            self.begin_with(tree);
        }
        if touches(event) {
            self.first_touch.get_or_insert(seq);
            self.has_worked |= !matches!(event, Event::ExamineStarted { .. });
        }
        if touches(event) || self.is_too_late(event) {
            self.touched = self.found.len();
        }
        if let Event::ChildSpawned(errand) = event {
            self.sent.push((seq, errand.number, errand.id.clone()));
        } else if let Event::ChildEnded { number, .. } | Event::ChildHeld { number } = event {
            self.children_ended.push((seq, *number));
        }
        let first_open = self.found.len() - self.open;
        for checkpoint in &mut self.found[first_open..] {
            (checkpoint.end, checkpoint.status_at_end) = (seq, status);
        }
        self.rest = Some(here);
    }

    /// Notes a checkpoint, or what the event says of those there are.
    fn point(&mut self, here: &Checkpoint, event: &Event) {
        let numbered = |found: &mut Vec<Checkpoint>, number: u32, name: &str, before: Option<&String>| {
            if let Some(found) = found.iter_mut().rev().find(|found| found.number == Some(number)) {
                (found.name, found.before) = (Some(name.to_owned()), before.cloned());
            }
        };
        if let Event::Checkpointed { number } = event {
            self.found.push(Checkpoint { number: Some(*number), ..here.clone() });
            self.open += 1;
        } else if let Event::CheckpointNamed { number, name } = event {
            numbered(&mut self.found, *number, name, None);
        } else if let Event::CheckpointGuarded { number, name, command, .. } = event {
            numbered(&mut self.found, *number, name, Some(command));
        } else if let Event::FilesStored { stored: Stored::Tree { tree, .. }, moment } = event {
            // Those made since something last began or ended that may change files are of this very state.
            let since = if *moment == Moment::BeforeFirst { 0 } else { self.touched };
            for found in self.found[since..].iter_mut().filter(|found| found.files.is_none()) {
                found.files = Some(tree.clone());
            }
            if *moment == Moment::Now {
                // What is stored right after a checkpoint belongs to it.
                let before = self.found.iter_mut().filter(|found| found.end + 1 == here.seq);
                before.for_each(|found| found.end = here.seq);
                self.found.push(Checkpoint { files: Some(tree.clone()), ..here.clone() });
                self.open += 1;
            }
        }
    }

    /// Can the checkpoints so far no longer have the files that are stored next? What is made before a command comes after the event
    /// that begins it, so it has those that are stored at once or none: the command runs all the same.
    fn is_too_late(&mut self, event: &Event) -> bool {
        if let Event::CheckpointGuarded { call, .. }
        | Event::CallStarted { call, class: EffectClass::Checkable | EffectClass::Once, .. } = event
        {
            self.changing.insert(*call);
            return false;
        }
        if let Event::CallStarted { call, .. } | Event::CallFinished { call, .. } = event {
            return self.changing.contains(call);
        }
        matches!(event, Event::FilesStored { stored: Stored::Failed { .. }, .. })
    }

    /// Until something began that may change them, the files were as they are now stored.
    fn begin_with(&mut self, tree: &str) {
        let is_before = |rest: &&mut Checkpoint| self.first_touch.is_none_or(|seq| rest.end < seq);
        for rest in self.rests.iter_mut().take_while(is_before) {
            rest.files.get_or_insert_with(|| tree.to_owned());
        }
    }

    /// The last moment before anything began that may change files, unless a checkpoint before that has them too. A later one may have
    /// the same files, but not the same conversation.
    fn beginning(&self) -> Option<&Checkpoint> {
        let first_touch = self.first_touch?;
        let last = self.rests.iter().take_while(|rest| rest.end < first_touch).last();
        let before = self.found.iter().take_while(|found| found.end < first_touch);
        let has_same = |last: &&Checkpoint| before.clone().any(|found| found.files == last.files);
        last.filter(|last| last.files.is_some() && !has_same(last))
    }

    fn checkpoints(mut self, damage: Option<Damage>) -> Checkpoints {
        self.close();
        if let Some(beginning) = self.beginning().cloned() {
            let place = self.found.partition_point(|found| found.seq < beginning.seq);
            self.found.insert(place, beginning);
        }
        let begun_with = self.fold.run().and_then(|run| run.spec.begun_with.clone());
        let Gathering { found, rests, last_seq, unreadable, has_worked, .. } = self;
        Checkpoints { found, rests, last_seq, begun_with, has_worked, damage, unreadable }
    }
}

/// The command that a call runs, in one line of no more than so many letters.
pub(crate) fn command(args: &Json, letters_max: usize) -> Option<String> {
    let args = args.value();
    let line = visible(args.get("command")?.as_str()?).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = line.chars();
    let mut shown: String = letters.by_ref().take(letters_max).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    Some(shown)
}

/// Does something begin that may change files?
fn touches(event: &Event) -> bool {
    matches!(
        event,
        Event::CallStarted { class: EffectClass::Checkable | EffectClass::Once, .. }
            | Event::ExamineStarted { purpose: Purpose::Claim | Purpose::Whole, .. }
            | Event::ChildSpawned(_)
    )
}
