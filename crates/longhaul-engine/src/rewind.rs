//! Taking a run back with its files, and making another run from one of its checkpoints.
//!
//! Owns the order of a rewind: what stands in the workspace is stored, it is noted what is about to happen, the files are
//! written, what is staged is made to fit them, the journal is cut, the note goes. A workspace that is gone is made again first, and noted before that: half of one would be
//! taken for where the work is. Killed anywhere after the note, the next command that opens the run finishes it
//! before anything else; before the note, nothing has changed. Refuses a run that somebody drives, a workspace whose files are
//! also others', and a checkpoint whose files are not all there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use longhaul_core::collaboration::Home as Whose;
use longhaul_core::decide::decide;
use longhaul_core::event::{Cause, Event, Moment, Stored};
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_store::engine::Cutting;
use longhaul_store::{Entry, Home};
use longhaul_workspace::checkout::{Change, Checkout, Filters};
use longhaul_workspace::checkpoints::{self, Tree, Vault};
use longhaul_workspace::gitdirs;
use longhaul_workspace::place::{self, Place};
use longhaul_workspace::staged::{self, By};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::checkpoints::{CHILDREN_BEFORE, Point, Seen, TakenBack};
use crate::error::Error;
use crate::fold::{Fold, entry};
use crate::forking::Forking;
use crate::harness::Harness;
use crate::undo;

/// What a rewind did.
#[derive(Clone, Debug)]
pub struct Rewound {
    pub taken: TakenBack,
    /// The files that were written or removed.
    pub changes: Vec<Change>,
    /// The files as they were before, which are kept.
    pub before: String,
    /// What was neither stored nor touched.
    pub left_out: Vec<PathBuf>,
    /// The calls since of which nobody knows what they did outside the workspace.
    pub outside: Vec<String>,
    /// Why what is staged in the workspace was left as it is, if it was.
    pub staged_left: Option<String>,
}

impl Rewound {
    /// Was there anything to take back? Otherwise there is nothing to undo, but what was before this.
    pub fn changed_anything(&self) -> bool {
        self.taken.kept_as.is_some() || !self.changes.is_empty()
    }
}

/// What a fork does not share with the run it is made from.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Go on with another model.
    pub model: Option<String>,
    /// The branch of its own, if it works in git.
    pub branch: Option<String>,
    /// For a fork of what worked in place: the checkout, and the commit that its worktree is made from.
    pub checkout: Option<(PathBuf, String)>,
}

/// A rewind that has begun, or the undoing of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) workspace: PathBuf,
    /// The files as they were. Not known as long as a workspace that was gone is being made again: nothing else has changed then.
    pub(crate) before: Option<String>,
    /// The files as they will be.
    pub(crate) after: String,
    /// The journal's last event, before and then.
    pub(crate) last_seq: u64,
    pub(crate) end: u64,
    /// Sub-agents that the run will no longer know of, or will send again.
    pub(crate) children: Vec<RunId>,
    pub(crate) at: Timestamp,
    /// The name beside the journal under which it is kept as it was. Notes of older versions have none.
    #[serde(default)]
    pub(crate) kept_as: Option<String>,
    /// The journal of that name takes its place, instead of its being cut.
    #[serde(default)]
    pub(crate) journal: Option<String>,
    /// What the journal as it was leads back to.
    #[serde(default)]
    pub(crate) trees: BTreeSet<String>,
    /// The files that the rewind has written which this undoes.
    #[serde(default)]
    pub(crate) written: Option<String>,
}

impl Harness {
    /// Takes a run that nobody drives back to a checkpoint: conversation, files, turns, calls, approvals and
    /// steps. What was spent stays counted. [`Harness::undo_rewind`] is the way forward again.
    pub fn rewind(&self, id: &RunId, point: &Point) -> Result<Rewound, Error> {
        self.settle_rewind(id)?;
        let home = self.home_to_cut(id)?;
        let cutting = home.engine().cutting(id, &self.writer())?;
        let seen = Seen::of(
            &cutting,
            |spec| self.refuse_shared(home, spec),
            // Also one that the run ended with: there is nothing to go on with, but its files are wanted.
            |all| all.known(id, point).cloned(),
        )?;
        let after = seen.checkpoint.files.clone();
        let after = after.ok_or_else(|| Error::NoFiles { run: id.clone(), point: point.to_string() })?;
        let way = Way { after, journal: None, written: None, called: point.to_string() };
        let Done { changes, before, left_out, kept_as, staged_left } =
            self.go(home, &cutting, id, &seen, way)?;
        let kept_as = kept_as.filter(|_| seen.goes_back());
        let outside = seen.outside.clone();
        Ok(Rewound { taken: seen.taken_back(kept_as), changes, before, left_out, outside, staged_left })
    }

    /// The order of it all, for both directions.
    pub(crate) fn go(
        &self,
        home: &Home,
        cutting: &Cutting<'_>,
        id: &RunId,
        seen: &Seen,
        way: Way,
    ) -> Result<Done, Error> {
        let spec = seen.spec.as_ref().ok_or_else(|| Error::Empty(id.clone()))?;
        let workspace = PathBuf::from(&spec.workspace);
        let place = self.place(spec, &workspace);
        let is_gone = place::is_gone(&place);
        if is_gone && !workspace.starts_with(home.dir()) {
            return Err(Error::PlaceGone { run: id.clone(), path: workspace });
        }
        let mut note = Note {
            workspace: workspace.clone(),
            before: None,
            after: way.after,
            last_seq: seen.last_seq,
            end: seen.checkpoint.end,
            children: [&seen.children[..], &seen.out].concat(),
            at: self.clock.now(),
            kept_as: name_of(&cutting.free_name()?),
            journal: way.journal,
            trees: seen.trees.clone(),
            written: way.written,
        };
        // What a dead driver left running would write into what we write.
        longhaul_tools::reap_leftovers(id);
        let begun = if is_gone {
            write_note(home, id, &note)?;
            begin_anew(home, id, &place, &way.called, &mut note)
        } else if workspace.starts_with(home.dir()) {
            // It may be there and be none.
            ensure(&place).and_then(|()| begin(home, id, &way.called, &mut note))
        } else {
            begin(home, id, &way.called, &mut note)
        };
        let Begun { vault, before, changes } = begun?;
        if let Err(error) = vault.write(&before.tree, &note.after) {
            let vault = vault.having_written(Some(note.after.clone()));
            vault.write_rest(&note.after, &before.tree).map_err(files(&workspace))?;
            if is_gone {
                take_away_again(&place);
            }
            forget_note(home, id)?;
            return Err(files(&workspace)(error));
        }
        let staged_left = unstage(home, &vault, &before.tree, &note);
        let kept_as = self.finish(home, cutting, id, &before.tree, note)?;
        Ok(Done { changes, before: before.tree, left_out: before.left_out, kept_as, staged_left })
    }

    /// What comes after the files, and can be done any number of times. Returns where the journal as it was is kept, if it is.
    fn finish(
        &self,
        home: &Home,
        cutting: &Cutting<'_>,
        id: &RunId,
        before: &str,
        mut note: Note,
    ) -> Result<Option<PathBuf>, Error> {
        let dir = home.run_dir(id);
        // Also if there is nothing to cut: who is put away below has used something.
        self.note_spent(home, id)?;
        let kept_as = note.kept_as.as_ref().map(|name| dir.join(name));
        let kept_as = kept_as.map_or_else(|| cutting.free_name(), Ok)?;
        let mut last_seq = 0;
        let damage = cutting.show(&mut |batch| {
            last_seq = batch.last().map_or(last_seq, |record| record.seq);
            Ok(())
        })?;
        if let Some(journal) = &note.journal {
            self.about_to_cut(home, id)?;
            cutting.bring_back(&dir.join(journal), &kept_as)?;
        } else if last_seq > note.end || damage.is_some() {
            let then = files_on_record(cutting, &note)?;
            self.about_to_cut(home, id)?;
            cutting.cut_after(note.end, &then, &kept_as)?;
        }
        let put_away = dir.join(CHILDREN_BEFORE).join(name_of(&kept_as).unwrap_or_default());
        self.put_away_all(home, &put_away, &note.children)?;
        if let Some(journal) = note.journal.clone() {
            // Those that come back have the same names: who finishes this another time must not put them away.
            note.children.clear();
            write_note(home, id, &note)?;
            undo::bring_children_back(home, &dir.join(CHILDREN_BEFORE).join(journal))?;
        }
        self.forget_later(home, id);
        let kept_as = kept_as.exists().then_some(kept_as);
        if kept_as.is_some() || before != note.after {
            undo::keep(home, id, before, &note, kept_as.as_deref())?;
        }
        forget_note(home, id)?;
        Ok(kept_as)
    }

    /// Only what is a run's own is taken back with it, and nobody else may be at work there.
    pub(crate) fn refuse_shared(&self, home: &Home, spec: &RunSpec) -> Result<(), Error> {
        let run = || spec.id.clone();
        let whose = match spec.home() {
            Whose::Session(name) => Some(format!("session {name}")),
            Whose::Workflow(name) => Some(format!("the workspace of workflow run {name}")),
            Whose::Everybody => Some("the workspace that all runs share".to_owned()),
            Whose::Own => None,
        };
        if let Some(whose) = whose {
            return Err(Error::Shared { run: run(), whose });
        }
        let place = |path: &str| Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
        let here = place(&spec.workspace);
        let works_here =
            |other: &RunId| self.look(other).is_ok_and(|other| place(&other.spec.workspace) == here);
        if let Some(parent) = spec.parent.clone().filter(&works_here) {
            return Err(Error::OfParent { run: run(), parent });
        }
        let below = format!("{}.", spec.id);
        for other in home.all_runs()?.into_iter().filter(|other| *other != spec.id) {
            let is_held = home.store_of(&other)?.holder(&other)?.is_some();
            if is_held && (other.as_str().starts_with(&below) || works_here(&other)) {
                return Err(Error::OtherAtWork { run: run(), other });
            }
        }
        Ok(())
    }

    /// Finishes a rewind that was killed. Whoever opens a run for writing comes by here first.
    pub(crate) fn settle_rewind(&self, id: &RunId) -> Result<(), Error> {
        let Some(home) = self.home() else { return Ok(()) };
        if !note_path(home, id).exists() {
            return Ok(());
        }
        let cutting = home.engine().cutting(id, &self.writer())?;
        // Read under the lock: another may have finished it by now.
        let Some(mut note) = read_note(home, id)? else { return Ok(()) };
        // The git of whoever was killed may still be writing.
        longhaul_tools::reap_leftovers(id);
        let workspace = note.workspace.clone();
        let (vault, before) = match note.before.clone() {
            Some(before) => (vault(home, id, &workspace)?.having_written(note.written.clone()), before),
            None => {
                let spec = spec_of(&cutting)?.ok_or_else(|| Error::Empty(id.clone()))?;
                let called = Point::Event(note.end).to_string();
                let begun = begin_anew(home, id, &self.place(&spec, &workspace), &called, &mut note)?;
                (begun.vault, begun.before.tree)
            }
        };
        vault.write_rest(&before, &note.after).map_err(files(&workspace))?;
        unstage(home, &vault, &before, &note);
        self.finish(home, &cutting, id, &before, note).map(drop)
    }

    /// How the files that stand in a run's workspace differ from those of a checkpoint, as git prints it.
    pub fn diff_since(&self, id: &RunId, point: &Point, form: &[&str]) -> Result<Vec<u8>, Error> {
        let checkpoints = self.checkpoints(id)?;
        let found = checkpoints.known(id, point)?.files.clone();
        let tree = found.ok_or_else(|| Error::NoFiles { run: id.clone(), point: point.to_string() })?;
        self.diff_from(id, &tree, form)
    }

    /// The same since the run began; nothing if nobody knows what the files were then.
    pub fn diff_since_start(&self, id: &RunId, form: &[&str]) -> Result<Option<Vec<u8>>, Error> {
        let checkpoints = self.checkpoints(id)?;
        if checkpoints.is_untouched() {
            return Ok(Some(Vec::new()));
        }
        checkpoints.start().map(|tree| self.diff_from(id, tree, form)).transpose()
    }

    fn diff_from(&self, id: &RunId, tree: &str, form: &[&str]) -> Result<Vec<u8>, Error> {
        let home = self.home().ok_or_else(|| Error::NotInEngine { run: id.clone() })?;
        let workspace = PathBuf::from(self.look(id)?.spec.workspace);
        let vault = Vault::open(&workspace, home.dir()).map_err(files(&workspace))?;
        let now = vault.store().map_err(files(&workspace))?.tree;
        vault.diff(form, tree, &now).map_err(files(&workspace))
    }

    /// Another run with the journal and the files of this one up to a checkpoint. This one is only read.
    pub fn fork(&self, id: &RunId, point: &Point, new: &RunId, apart: Apart) -> Result<Run, Error> {
        let home = self.home().ok_or_else(|| Error::NotInEngine { run: id.clone() })?;
        let checkpoints = self.checkpoints(id)?;
        let checkpoint = checkpoints.known(id, point)?.clone();
        let no_files = || Error::NoFiles { run: id.clone(), point: point.to_string() };
        let tree = checkpoint.files.ok_or_else(no_files)?;
        let mut export = self.export(id)?;
        export.events.truncate(checkpoint.end as usize);
        reopen(&mut export.events, id);
        let path = home.dir().join("workspace").join("run").join(new.as_str());
        if let Some((_, Event::RunCreated(spec) | Event::Imported { spec, .. })) = export.events.first_mut() {
            spec.workspace = path.display().to_string();
            spec.session = None;
            if let Some((repository, base)) = apart.checkout {
                (spec.repository, spec.base) = (Some(repository.display().to_string()), Some(base));
            }
            spec.branch = apart.branch;
            spec.begun_with = Some(tree.clone());
        }
        if let Some(model) = apart.model
            && let Some((at, _)) = export.events.last()
        {
            export.events.push((*at, Event::ModelChanged { model, why: None }));
        }
        let run = self.renamed(new, &mut export)?;
        let at = self.clock.now();
        export.events.extend(stored_there(&run, at, &tree)?.into_iter().map(|event| (at, event)));
        if run.children.iter().any(|child| !child.has_ended()) {
            return Err(Error::ChildAtWork { run: id.clone(), point: point.to_string() });
        }
        let making = Forking::begin(&path, &run.spec)?;
        ensure(&self.place(&run.spec, &path))?;
        let vault = Vault::open(&path, home.dir()).map_err(files(&path))?;
        let now = vault.store().map_err(files(&path))?.tree;
        vault.way(&now, &tree).map_err(lost(id, &point.to_string(), &path))?;
        vault.write(&now, &tree).map_err(files(&path))?;
        let run = self.adopt(new, export)?;
        making.made();
        Ok(run)
    }
}

/// Where the files go, and what becomes of the journal.
pub(crate) struct Way {
    pub(crate) after: String,
    /// The kept one that takes its place; otherwise it is cut.
    pub(crate) journal: Option<String>,
    /// What the rewind has written that this undoes.
    pub(crate) written: Option<String>,
    /// What it is called where they go.
    pub(crate) called: String,
}

/// What was done on the way.
pub(crate) struct Done {
    pub(crate) changes: Vec<Change>,
    pub(crate) before: String,
    pub(crate) left_out: Vec<PathBuf>,
    pub(crate) kept_as: Option<PathBuf>,
    pub(crate) staged_left: Option<String>,
}

/// Makes what is staged fit the files again, in a workspace that is a checkout. Says why not, if it could not: the files are taken
/// back in any case.
fn unstage(home: &Home, vault: &Vault, before: &str, note: &Note) -> Option<String> {
    gitdirs::at(&note.workspace.canonicalize().ok()?)?;
    let unstage = || {
        let checkout = Checkout::open(&note.workspace, &home.dir().join("scratch"), Filters::Absent)?;
        if note.workspace.starts_with(home.dir()) {
            return staged::settle(&checkout, By::Agent);
        }
        // What cannot be told stays.
        let changes = vault.changes(before, &note.after).unwrap_or_default();
        staged::settle(&checkout, By::Anybody(&changes))
    };
    unstage().err().map(|error| error.to_string())
}

/// What comes after the cut: the files are those of the checkpoint, also for whoever goes back there another time. What was stored
/// of them after the checkpoint is cut off.
fn files_on_record(cutting: &Cutting<'_>, note: &Note) -> Result<Vec<Entry>, Error> {
    let mut fold = Fold::default();
    cutting.show(&mut |batch| {
        let kept = batch.iter().filter(|record| record.seq <= note.end);
        kept.for_each(|record| drop(fold.take(*record)));
        Ok(())
    })?;
    let Some(run) = fold.run() else { return Ok(Vec::new()) };
    Ok(stored_there(run, note.at, &note.after)?.iter().map(|event| entry(note.at, event)).collect())
}

/// A fork of what has completed is paused there: it is made to be given something else to do.
fn reopen(events: &mut [(Timestamp, Event)], of: &RunId) {
    let is_change = |event: &Event| matches!(event, Event::StatusChanged { .. });
    let last = events.iter_mut().map(|(_, event)| event).rfind(|event| is_change(event));
    if let Some(Event::StatusChanged { to: to @ Status::Completed, cause, reason, .. }) = last {
        *to = Status::Paused;
        *cause = Cause::Asked;
        *reason = Some(format!("{of} had completed here; `longhaul replan` gives it more to do"));
    }
}

/// What a run that has come to a place with these files must still be told.
fn stored_there(run: &Run, at: Timestamp, tree: &str) -> Result<Vec<Event>, Error> {
    let stored = Stored::Tree { tree: tree.to_owned(), left_out: 0 };
    Ok(decide(run, at, Input::FilesStored { stored, moment: Moment::Now })?.events)
}

fn files(path: &Path) -> impl Fn(checkpoints::Error) -> Error + '_ {
    move |source| Error::Files { path: path.to_owned(), source }
}

/// The same, where what is lost is the checkpoint's.
fn lost<'a>(id: &'a RunId, point: &'a str, path: &'a Path) -> impl Fn(checkpoints::Error) -> Error + 'a {
    move |source| {
        if let checkpoints::Error::Lost = source {
            return Error::FilesLost { run: id.clone(), point: point.to_owned() };
        }
        files(path)(source)
    }
}

fn vault(home: &Home, id: &RunId, workspace: &Path) -> Result<Vault, Error> {
    let vault = Vault::open(workspace, home.dir()).map_err(files(workspace))?;
    Ok(vault.marked(longhaul_tools::RUN_MARKER, id.as_str()))
}

fn ensure(place: &Place) -> Result<(), Error> {
    let path = place.directory().to_owned();
    place::ensure(place).map_err(|source| Error::Workspace { path, source: Box::new(source) })
}

/// A rewind of which it is noted what the files were and will be.
struct Begun {
    vault: Vault,
    before: Tree,
    changes: Vec<Change>,
}

fn begin(home: &Home, id: &RunId, called: &str, note: &mut Note) -> Result<Begun, Error> {
    let workspace = note.workspace.clone();
    let vault = vault(home, id, &workspace)?.having_written(note.written.clone());
    let before = vault.store().map_err(files(&workspace))?;
    let changes = vault.way(&before.tree, &note.after).map_err(lost(id, called, &workspace))?;
    note.before = Some(before.tree.clone());
    write_note(home, id, note)?;
    Ok(Begun { vault, before, changes })
}

/// The same in a place that is gone, which is made once more after that was noted. If nothing comes of it, nothing has changed. What
/// cannot be taken away again stays noted: whoever comes next does the rest, and does not take it for where the work is.
fn begin_anew(home: &Home, id: &RunId, place: &Place, called: &str, note: &mut Note) -> Result<Begun, Error> {
    let begun =
        ensure(place).and_then(|()| begin(home, id, called, note).inspect_err(|_| take_away_again(place)));
    if begun.is_err() && !place.directory().exists() {
        forget_note(home, id)?;
    }
    begun
}

/// Takes away a place that was made again for nothing.
fn take_away_again(place: &Place) {
    if !place::is_unsaved(place.directory()) {
        place::remove(place).ok();
    }
}

/// The run as its journal has it, as far as that can be read.
fn spec_of(cutting: &Cutting<'_>) -> Result<Option<RunSpec>, Error> {
    let mut fold = Fold::default();
    cutting.show(&mut |batch| {
        batch.iter().for_each(|record| drop(fold.take(*record)));
        Ok(())
    })?;
    Ok(fold.run().map(|run| run.spec.clone()))
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn note_path(home: &Home, id: &RunId) -> PathBuf {
    home.run_dir(id).join("rewind.json")
}

fn write_note(home: &Home, id: &RunId, note: &Note) -> Result<(), Error> {
    write_beside(home, id, &note_path(home, id), note)
}

/// Writes a file of the run's directory whole or not at all.
pub(crate) fn write_beside(home: &Home, id: &RunId, path: &Path, said: &impl Serialize) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let text = serde_json::to_vec(said).unwrap_or_default();
    let write = || {
        let mut file = File::create(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        File::open(home.run_dir(id))?.sync_all()
    };
    write().map_err(|source| Error::Note { path: path.to_owned(), source })
}

fn read_note(home: &Home, id: &RunId) -> Result<Option<Note>, Error> {
    read_beside(&note_path(home, id))
}

pub(crate) fn read_beside<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let failed = |source| Error::Note { path: path.to_owned(), source };
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(io::Error::other(error))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// What a rewind needs that was killed and will be finished.
pub(crate) fn trees_under_way(home: &Home, id: &RunId) -> Result<Vec<String>, Error> {
    let under_way = |note: Note| {
        note.before.into_iter().chain([note.after]).chain(note.written).chain(note.trees).collect()
    };
    Ok(read_note(home, id)?.map_or_else(Vec::new, under_way))
}

fn forget_note(home: &Home, id: &RunId) -> Result<(), Error> {
    let path = note_path(home, id);
    fs::remove_file(&path).map_err(|source| Error::Note { path, source })
}
