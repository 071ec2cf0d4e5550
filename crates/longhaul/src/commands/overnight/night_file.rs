//! The file of a night: held by one process, replaced whole or not at all at the end of every piece of work.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use longhaul_core::overnight::Night;
use longhaul_workspace::Workspace;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::NIGHT_BYTES_MAX;

const NIGHT: &str = "night.json";
const REPORT: &str = "report.md";
const LOCK: &str = "lock";

/// Names the temporary files; one that a killed process left is replaced by the next.
const KEY: &str = "night";

/// A night that only this process works on.
pub struct NightFile {
    dir: Workspace,
    /// Held as long as this lives; the kernel lets go of it when the process dies.
    _lock: File,
}

/// Where nights are kept.
pub fn nights_dir(app: &App) -> PathBuf {
    app.state_dir.join("overnight")
}

/// All nights, the oldest first: their names begin with the time.
pub fn all(app: &App) -> Result<Vec<Night>, Failure> {
    app.home()?;
    let Ok(entries) = std::fs::read_dir(nights_dir(app)) else { return Ok(Vec::new()) };
    let mut dirs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    dirs.sort();
    // A directory without a night in it is one whose maker was killed before it began.
    dirs.iter().filter(|dir| dir.join(NIGHT).exists()).map(|dir| read(dir)).collect()
}

/// The night of that name, or of a beginning that only one has; the last one if none is named.
pub fn find(app: &App, name: Option<&str>) -> Result<Night, Failure> {
    let mut nights = all(app)?;
    let none = || {
        Failure::usage("there was no night here yet")
            .hint("begin one with `longhaul overnight start OBJECTIVE`")
    };
    let Some(name) = name else { return nights.pop().ok_or_else(none) };
    // All names are equally long: whoever gives a whole one gives the beginning of no other.
    nights.retain(|night| !name.is_empty() && night.id.starts_with(name));
    match (nights.pop(), nights.is_empty()) {
        (Some(night), true) => Ok(night),
        (None, _) => Err(Failure::usage(format!("there is no night `{name}`"))
            .hint("`longhaul overnight list` shows those there are")),
        (Some(_), false) => {
            Err(Failure::usage(format!("`{name}` could be more than one night; give more of it")))
        }
    }
}

impl NightFile {
    /// Makes a new night; there is nothing of it before this has returned.
    pub fn create(app: &App, night: &Night) -> Result<NightFile, Failure> {
        app.make_home()?;
        let dir = nights_dir(app).join(&night.id);
        std::fs::create_dir_all(&dir)?;
        let file = hold(&dir, &night.id)?;
        file.write(night)?;
        Ok(file)
    }

    /// Takes hold of a night, and reads what has become of it meanwhile.
    pub fn open(app: &App, id: &str) -> Result<(NightFile, Night), Failure> {
        let dir = nights_dir(app).join(id);
        let file = hold(&dir, id)?;
        let night = read(&dir)?;
        Ok((file, night))
    }

    pub fn write(&self, night: &Night) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(night).map_err(anyhow::Error::from)?;
        self.put(NIGHT, &text)
    }

    /// Writes the report, and answers where it is.
    pub fn write_report(&self, text: &str) -> Result<PathBuf, Failure> {
        self.put(REPORT, text)?;
        Ok(self.dir.root().join(REPORT))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), Failure> {
        Ok(self.dir.replace(name, text.as_bytes(), KEY).map_err(anyhow::Error::from)?)
    }
}

/// Does some process work on this night?
pub fn is_held(app: &App, id: &str) -> bool {
    let dir = nights_dir(app).join(id);
    dir.join(LOCK).exists() && hold(&dir, id).is_err_and(|failure| failure.exit == Exit::Held)
}

fn hold(dir: &Path, id: &str) -> Result<NightFile, Failure> {
    let lock = lock(&dir.join(LOCK), id)?;
    let dir = Workspace::open(dir).map_err(anyhow::Error::from)?;
    Ok(NightFile { dir, _lock: lock })
}

fn read(dir: &Path) -> Result<Night, Failure> {
    let path = dir.join(NIGHT);
    let mut text = String::new();
    File::open(&path)
        .and_then(|file| file.take(NIGHT_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| Failure::from(anyhow::anyhow!("cannot read {}: {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::from(anyhow::anyhow!("{}: {error}", path.display()))
            .hint("its runs are kept: `longhaul list` shows them")
    })
}

fn lock(path: &Path, id: &str) -> Result<File, Failure> {
    let cannot = |error: std::io::Error| Failure::from(anyhow::anyhow!("cannot lock night {id}: {error}"));
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.take(32).read_to_string(&mut holder).ok();
            let error = anyhow::anyhow!("another process works on night {id}");
            let hint = format!("process {} does; wait for it, or stop it with Ctrl-C", holder.trim());
            return Err(Failure { exit: Exit::Held, error, hint: Some(hint) });
        }
        Err(TryLockError::Error(error)) => return Err(cannot(error)),
    }
    // For people only: the kernel's lock is what counts.
    file.set_len(0).ok();
    writeln!(file, "{}", std::process::id()).ok();
    Ok(file)
}
