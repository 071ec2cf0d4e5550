//! Taking a run back with its files, and making another run from one of its checkpoints.
//!
//! Owns the order of a rewind: what stands in the workspace is stored, it is noted what is about to happen, the files are
//! written, the journal is cut, the note goes. Killed anywhere after the note, the next command that opens the run finishes it
//! before anything else; before the note, nothing has changed. Refuses a run that somebody drives, a workspace whose files are
//! also others', and a checkpoint whose files are not all there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use longhaul_core::collaboration::Home as Whose;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::time::Timestamp;
use longhaul_store::Home;
use longhaul_workspace::checkout::Change;
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::place;
use serde::{Deserialize, Serialize};

use crate::checkpoints::{Point, Seen, TakenBack};
use crate::error::Error;
use crate::harness::Harness;

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
}

/// A rewind that has begun.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    workspace: PathBuf,
    /// The files as they were.
    before: String,
    /// The files as they will be.
    after: String,
    /// The journal's last event, before and then.
    last_seq: u64,
    end: u64,
    /// Sub-agents that the run will no longer know of, or will send again.
    children: Vec<RunId>,
    at: Timestamp,
}

impl Harness {
    /// Takes a run that nobody drives back to a checkpoint: conversation, files, turns, calls, approvals and
    /// steps. What was spent stays counted.
    pub fn rewind(&self, id: &RunId, point: &Point) -> Result<Rewound, Error> {
        self.settle_rewind(id)?;
        let home = self.home_to_cut(id)?;
        let cutting = home.engine().cutting(id, &self.writer())?;
        let seen = Seen::of(&cutting, id, point, |spec| self.refuse_shared(home, spec))?;
        let after = seen.checkpoint.files.clone();
        let after = after.ok_or_else(|| Error::NoFiles { run: id.clone(), point: point.to_string() })?;
        let spec = seen.spec.as_ref().ok_or_else(|| Error::Empty(id.clone()))?;
        let workspace = PathBuf::from(&spec.workspace);
        // What a dead driver left running would write into what we write.
        longhaul_tools::reap_leftovers(id);
        let vault = Vault::open(&workspace, home.dir()).map_err(files(&workspace))?;
        let before = vault.store().map_err(files(&workspace))?;
        let changes = vault.way(&before.tree, &after).map_err(lost(id, point, &workspace))?;
        let note = Note {
            workspace: workspace.clone(),
            before: before.tree.clone(),
            after,
            last_seq: seen.last_seq,
            end: seen.checkpoint.end,
            children: [&seen.children[..], &seen.out].concat(),
            at: self.clock.now(),
        };
        write_note(home, id, &note)?;
        if let Err(error) = vault.write(&note.before, &note.after) {
            vault.write_rest(&note.after, &note.before).map_err(files(&workspace))?;
            forget_note(home, id)?;
            return Err(files(&workspace)(error));
        }
        let kept_as = match seen.goes_back() {
            true => Some(self.cut(home, &cutting, id, note.end)?),
            false => None,
        };
        self.end_rewind(home, id, &note)?;
        let (outside, left_out) = (seen.outside.clone(), before.left_out);
        let taken = seen.taken_back(kept_as);
        Ok(Rewound { taken, changes, before: note.before, left_out, outside })
    }

    /// Only what is a run's own is taken back with it, and nobody else may be at work there.
    fn refuse_shared(&self, home: &Home, spec: &RunSpec) -> Result<(), Error> {
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
        let Some(note) = read_note(home, id)? else { return Ok(()) };
        let vault = Vault::open(&note.workspace, home.dir()).map_err(files(&note.workspace))?;
        vault.write_rest(&note.before, &note.after).map_err(files(&note.workspace))?;
        let mut last_seq = 0;
        cutting.show(&mut |batch| {
            last_seq = batch.last().map_or(last_seq, |record| record.seq);
            Ok(())
        })?;
        if last_seq > note.end {
            self.cut(home, &cutting, id, note.end)?;
        }
        self.end_rewind(home, id, &note)
    }

    fn end_rewind(&self, home: &Home, id: &RunId, note: &Note) -> Result<(), Error> {
        self.put_away_all(home, id, &note.children)?;
        self.forget_later(home, id);
        forget_note(home, id)
    }

    /// How the files that stand in a run's workspace differ from those of a checkpoint, as git prints it.
    pub fn diff_since(&self, id: &RunId, point: &Point, form: &[&str]) -> Result<Vec<u8>, Error> {
        let home = self.home().ok_or_else(|| Error::NotInEngine { run: id.clone() })?;
        let checkpoints = self.checkpoints(id)?;
        let found = checkpoints.known(id, point)?.files.clone();
        let tree = found.ok_or_else(|| Error::NoFiles { run: id.clone(), point: point.to_string() })?;
        let workspace = PathBuf::from(self.look(id)?.spec.workspace);
        let vault = Vault::open(&workspace, home.dir()).map_err(files(&workspace))?;
        let now = vault.store().map_err(files(&workspace))?.tree;
        vault.diff(form, &tree, &now).map_err(files(&workspace))
    }

    /// Another run with the journal and the files of this one up to a checkpoint. This one is only read.
    pub fn fork(&self, id: &RunId, point: &Point, new: &RunId, model: Option<String>) -> Result<Run, Error> {
        let home = self.home().ok_or_else(|| Error::NotInEngine { run: id.clone() })?;
        let checkpoints = self.checkpoints(id)?;
        let checkpoint = checkpoints.find(id, point)?.clone();
        let no_files = || Error::NoFiles { run: id.clone(), point: point.to_string() };
        let tree = checkpoint.files.ok_or_else(no_files)?;
        let mut export = self.export(id)?;
        export.events.truncate(checkpoint.end as usize);
        let path = home.dir().join("workspace").join("run").join(new.as_str());
        if let Some((_, Event::RunCreated(spec) | Event::Imported { spec, .. })) = export.events.first_mut() {
            spec.workspace = path.display().to_string();
            spec.session = None;
            spec.branch = spec.branch.as_ref().map(|_| format!("longhaul/{new}"));
        }
        if let Some(model) = model
            && let Some((at, _)) = export.events.last()
        {
            export.events.push((*at, Event::ModelChanged { model, why: None }));
        }
        let run = self.renamed(new, &mut export)?;
        if run.children.iter().any(|child| !child.has_ended()) {
            return Err(Error::ChildAtWork { run: id.clone(), point: point.to_string() });
        }
        let failed = |source: place::Error| Error::Workspace { path: path.clone(), source: Box::new(source) };
        place::ensure(&self.place(&run, &path)).map_err(failed)?;
        let vault = Vault::open(&path, home.dir()).map_err(files(&path))?;
        let now = vault.store().map_err(files(&path))?.tree;
        vault.way(&now, &tree).map_err(lost(id, point, &path))?;
        vault.write(&now, &tree).map_err(files(&path))?;
        self.adopt(new, export)
    }
}

fn files(path: &Path) -> impl Fn(longhaul_workspace::checkpoints::Error) -> Error + '_ {
    move |source| Error::Files { path: path.to_owned(), source }
}

/// The same, where what is lost is the checkpoint's.
fn lost<'a>(
    id: &'a RunId,
    point: &'a Point,
    path: &'a Path,
) -> impl Fn(longhaul_workspace::checkpoints::Error) -> Error + 'a {
    move |source| {
        if let longhaul_workspace::checkpoints::Error::Lost = source {
            return Error::FilesLost { run: id.clone(), point: point.to_string() };
        }
        files(path)(source)
    }
}

fn note_path(home: &Home, id: &RunId) -> PathBuf {
    home.run_dir(id).join("rewind.json")
}

fn write_note(home: &Home, id: &RunId, note: &Note) -> Result<(), Error> {
    let path = note_path(home, id);
    let fresh = path.with_extension("new");
    let text = serde_json::to_vec(note).unwrap_or_default();
    let write = || {
        let mut file = File::create(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(home.run_dir(id))?.sync_all()
    };
    write().map_err(|source| Error::Note { path: path.clone(), source })
}

fn read_note(home: &Home, id: &RunId) -> Result<Option<Note>, Error> {
    let path = note_path(home, id);
    let failed = |source| Error::Note { path: path.clone(), source };
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(io::Error::other(error))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// What a rewind needs that was killed and will be finished.
pub(crate) fn trees_under_way(home: &Home, id: &RunId) -> Result<Vec<String>, Error> {
    Ok(read_note(home, id)?.map_or_else(Vec::new, |note| vec![note.before, note.after]))
}

fn forget_note(home: &Home, id: &RunId) -> Result<(), Error> {
    let path = note_path(home, id);
    fs::remove_file(&path).map_err(|source| Error::Note { path, source })
}
