//! `--record FILE`: what a run's model said, as a script that plays it again. It is made from the journal, so a run that
//! was killed and resumed is recorded whole.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use longhaul_core::conversation::Stop;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::prompt;
use longhaul_engine::Harness;
use longhaul_model::{Part, Recording, Replied, Scripted};

use crate::app::App;
use crate::failure::Failure;
use crate::render;

/// Where to record, if anywhere; the same for `run` and `resume`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RecordArgs {
    /// Whenever the run rests, write what its model said so far as a script for `--model scripted/FILE`; a later `resume`
    /// remembers it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl RecordArgs {
    /// The file with its whole path, where links lead. One that could not be written is said before the night, not after it.
    pub fn settled(&self, app: &App) -> Result<Option<PathBuf>, Failure> {
        let Some(file) = &self.record else { return Ok(None) };
        let path = app.cwd.join(file);
        let wrong = |why: &str| Failure::usage(format!("--record {}: {why}", path.display()));
        let real = match std::fs::canonicalize(&path) {
            Ok(real) => real,
            Err(_) if path.is_symlink() => return Err(wrong("the link leads nowhere")),
            Err(_) => path.clone(),
        };
        let dir = real.parent().unwrap_or(Path::new("/"));
        if real.is_dir() {
            return Err(wrong("that is a directory"));
        }
        if !dir.is_dir() {
            return Err(wrong("there is no such directory"));
        }
        if real.exists() && !real.is_file() {
            return Err(wrong("that is no file but a device, a pipe or a socket"));
        }
        if !may_be_replaced(&real) {
            return Err(wrong("there is another file already")
                .hint("only a recording is replaced by a new one; name another file, or remove this one"));
        }
        let draft = draft(&real);
        let tried = std::fs::write(&draft, b"").and_then(|()| std::fs::remove_file(&draft));
        tried.map_err(|error| wrong(&format!("nothing can be written there: {error}")))?;
        Ok(Some(real))
    }
}

/// Where a run is recorded: what was asked for now, which is remembered with the run, else what was asked for before.
pub fn remembered(harness: &Harness, id: &RunId, asked: Option<PathBuf>) -> Option<PathBuf> {
    let note = harness.home().map(|home| home.run_dir(id).join("record"));
    match (asked, note) {
        (Some(path), Some(note)) => {
            // What cannot be remembered is recorded this time all the same.
            replace(&note, path.as_os_str().as_encoded_bytes()).ok();
            Some(path)
        }
        (asked @ Some(_), None) => asked,
        (None, note) => {
            let bytes = std::fs::read(note?).ok()?;
            let path = PathBuf::from(OsStr::from_bytes(&bytes));
            may_be_replaced(&path).then_some(path)
        }
    }
}

/// Nothing, or a script: what is lost with it can be recorded again.
fn may_be_replaced(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        // Its path was followed to the end when it was named; what is there now is not what was meant.
        Ok(found) if !found.is_file() => false,
        Ok(found) if found.len() == 0 => true,
        Ok(_) => Scripted::load_for_any_tools(path).is_ok(),
        Err(_) => true,
    }
}

/// Writes the script; the old one stays until the new one is whole. How the run ended does not depend on it, so what goes
/// wrong is only said.
pub fn write(harness: &Harness, id: &RunId, path: &Path) {
    match written(harness, id, path) {
        Ok(true) => render::talk(&format!("recorded in {}", path.display())),
        Ok(false) => render::warn("the model has said nothing yet, so nothing was recorded"),
        Err(why) => render::warn(&format!("not recorded in {}: {why}", path.display())),
    }
}

/// Was there anything to write?
fn written(harness: &Harness, id: &RunId, path: &Path) -> Result<bool, anyhow::Error> {
    let mut recording = Recording::default();
    let mut onlooker = harness.onlooker(id)?;
    onlooker.look(&mut |run, _, _, event| {
        if let Event::ModelReplied { text, calls, usage, stop, .. } = event
            && !matches!(stop, Some(Stop::Refused | Stop::Overflow))
        {
            let step = run.step().map_or("", |step| step.id.as_str());
            let tools: Vec<&str> = run.spec.tools.iter().map(|grant| grant.name.as_str()).collect();
            let stop = stop.unwrap_or_default();
            let part = Part { step, iteration: run.iteration, aside: None };
            recording.add(part, &Replied { text, calls, usage, stop, tools: &tools });
        }
        if let Event::AsideEnded { aside, text: Some(text), usage: Some(usage), .. } = event {
            let step = run.step().map_or("", |step| step.id.as_str());
            let part = Part { step, iteration: run.iteration, aside: Some(prompt::aside_agent(*aside)) };
            recording.add(part, &Replied { text, calls: &[], usage, stop: Stop::End, tools: &[] });
        }
    })?;
    if recording.is_empty() {
        return Ok(false);
    }
    if !may_be_replaced(path) {
        anyhow::bail!("there is another file now");
    }
    let name = path.file_stem().map_or_else(|| id.to_string(), |stem| stem.to_string_lossy().into_owned());
    let script = recording
        .script(&name)
        .map_err(|error| anyhow::anyhow!("the run cannot be written as a script: {error}"))?;
    let secrets = harness.secrets().clone();
    replace(path, secrets.strike(&script).as_bytes())?;
    Ok(true)
}

/// Puts the bytes there, for their owner alone. What could not be put there leaves nothing beside it.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = draft(path);
    // What a killed process of the same number left would keep its own rights.
    std::fs::remove_file(&draft).ok();
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    let replaced = file.write_all(bytes).and_then(|()| std::fs::rename(&draft, path));
    if replaced.is_err() {
        // On a disk that is full even that may fail, and the reason is what matters.
        std::fs::remove_file(&draft).ok();
    }
    replaced
}

/// Where a file grows until it is whole: beside the place it is for.
fn draft(path: &Path) -> PathBuf {
    path.with_extension(format!("draft-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk, or a directory where the file should be: what was begun beside it goes.
    #[test]
    fn what_is_not_recorded_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("night.yaml");
        std::fs::create_dir_all(path.join("kept")).unwrap();
        replace(&path, b"conversations: []").unwrap_err();
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [path]);
    }
}
