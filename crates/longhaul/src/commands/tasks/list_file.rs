//! The file of a task list: held by one runner, read anew before each change, and replaced whole or not at all.
//!
//! It belongs to somebody who may change it meanwhile, so nothing of it is kept in memory between two tasks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use longhaul_core::limits::TASK_LIST_BYTES_MAX;
use longhaul_core::tasks::{TaskList, TaskStatus, paper};
use longhaul_workspace::Workspace;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;

/// Names the temporary files; one that a killed runner left is replaced by the next.
const KEY: &str = "tasks";

pub struct ListFile {
    path: PathBuf,
    name: String,
    dir: Workspace,
    /// Held as long as this lives.
    _lock: Lock,
}

/// A file beside the list, gone with this value; the kernel lets go of it when the process dies.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still held, so that nobody else has it.
        std::fs::remove_file(&self.path).ok();
    }
}

/// A list to look at.
pub fn read(path: &Path) -> Result<TaskList, Failure> {
    parsed(path, &text(path)?)
}

impl ListFile {
    /// Takes hold of the list.
    pub fn open(path: &Path) -> Result<ListFile, Failure> {
        read(path)?;
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("cannot work off {}: {error}", path.display()))
        };
        let whole = path.canonicalize().map_err(|error| cannot(&error))?;
        let name = whole
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| cannot(&"its name is not UTF-8"))?;
        let dir = whole.parent().ok_or_else(|| cannot(&"it is in no directory"))?;
        let lock = lock(&dir.join(format!(".{name}.lock")), path)?;
        let dir = Workspace::open(dir).map_err(|error| cannot(&error))?;
        Ok(ListFile { path: path.to_owned(), name: name.to_owned(), dir, _lock: lock })
    }

    pub fn read(&self) -> Result<TaskList, Failure> {
        read(&self.path)
    }

    /// Changes fields of one task, and with them the statuses that follow from it.
    pub fn change(&self, id: &str, changes: &[(&str, Value)]) -> Result<TaskList, Failure> {
        let changed = paper::with(&text(&self.path)?, id, changes).map_err(|bad| self.wrong(&bad))?;
        self.write(&changed)
    }

    /// Writes down which tasks are pending, ready or blocked, if the file says otherwise.
    pub fn settle(&self) -> Result<TaskList, Failure> {
        self.write(&text(&self.path)?)
    }

    fn write(&self, changed: &str) -> Result<TaskList, Failure> {
        let mut changed = changed.to_owned();
        let list = parsed(&self.path, &changed)?;
        for (task, status) in list.tasks.iter().zip(list.settled()) {
            if task.status != status {
                let change = [("status", json!(status))];
                changed = paper::with(&changed, &task.id, &change).map_err(|bad| self.wrong(&bad))?;
            }
        }
        let list = parsed(&self.path, &changed)?;
        if text(&self.path)? != changed {
            self.put(&self.name, changed.as_bytes())?;
        }
        Ok(list)
    }

    /// What a finished task left, beside the list: `prd.output/ID.md`. Answers with its path from there.
    pub fn keep_output(&self, id: &str, output: &str) -> Result<String, Failure> {
        let stem = self.name.strip_suffix(".json").unwrap_or(&self.name);
        let path = format!("{stem}.output/{}.md", file_name(id));
        self.put(&path, output.as_bytes())?;
        Ok(path)
    }

    /// What a task left, if it can still be read.
    pub fn output(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.dir.read(path).ok()?).into_owned())
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.dir.replace(path, bytes, KEY).map_err(|error| Failure::from(anyhow::Error::from(error)))
    }

    fn wrong(&self, bad: &paper::BadList) -> Failure {
        Failure::usage(format!("{}: {bad}", self.path.display()))
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    let bytes_max = TASK_LIST_BYTES_MAX as u64 + 1;
    File::open(path).map_err(cannot)?.take(bytes_max).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

fn parsed(path: &Path, text: &str) -> Result<TaskList, Failure> {
    paper::read(text).map_err(|bad| Failure::usage(format!("{}: {bad}", path.display())))
}

fn lock(path: &Path, list: &Path) -> Result<Lock, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("cannot lock {}: {error}", list.display()));
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.take(32).read_to_string(&mut holder).ok();
            let error = anyhow::anyhow!("another runner works off {}", list.display());
            let hint = format!("process {} does; wait for it, or stop it with Ctrl-C", holder.trim());
            return Err(Failure { exit: Exit::Held, error, hint: Some(hint) });
        }
        Err(TryLockError::Error(error)) => return Err(cannot(error)),
    }
    // For people only: the kernel's lock is what counts.
    file.set_len(0).ok();
    writeln!(file, "{}", std::process::id()).ok();
    // Whoever held it before may have removed it between our opening and our holding it.
    let is_there = path.metadata().is_ok_and(|there| {
        file.metadata().is_ok_and(|held| (there.dev(), there.ino()) == (held.dev(), held.ino()))
    });
    if !is_there {
        return lock(path, list);
    }
    Ok(Lock { path: path.to_owned(), _file: file })
}

/// An id as a file's name. One that has to be changed for it gets a mark of its own, so that no two are the same.
fn file_name(id: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if id.len() <= 64 && id.chars().all(plain) && !id.starts_with('.') {
        return id.to_owned();
    }
    let name: String = id.chars().map(|letter| if plain(letter) { letter } else { '_' }).take(48).collect();
    let mark: String = longhaul_workspace::digest_of(id.as_bytes()).chars().take(12).collect();
    format!("_{name}-{mark}")
}

/// The status a task is given, as a change.
pub fn status(status: TaskStatus) -> (&'static str, Value) {
    ("status", json!(status))
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn ids_become_file_names_of_their_own() {
        assert_eq!(file_name("task-1"), "task-1");
        let odd = ["../etc/x", ".hidden", "a/b", "a b", "ä", &"x".repeat(100)].map(file_name);
        for (index, name) in odd.iter().enumerate() {
            assert!(!name.contains('/') && !name.starts_with('.') && name.len() < 100, "{name}");
            assert!(!odd[..index].contains(name), "{name}");
        }
    }
}
