//! Whose a state directory is: this user's, nobody's yet, or a stranger's.
//!
//! A repository can bring any file with it, so also a `.longhaul` with runs to resume and MCP servers that are "accepted".
//! What is ours carries a mark made from a secret that is kept with the user and goes into no repository. Refuses to
//! judge what lies outside of the project: nobody who only wrote the project has put it there.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use longhaul_engine::clock::{Clock, SystemClock, fresh_bits};
use longhaul_store::engine::{Disk, RealDisk};
use longhaul_store::home::make_dirs;
use longhaul_workspace::{STATE_MARK as MARK, digest_of};

use crate::failure::Failure;
use crate::limits::MARK_BYTES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// There is nothing in it that could be believed.
    Nobodys,
    Strangers,
}

/// The user, as far as state directories know them.
pub struct Owner {
    /// Where their secret is; `None` for a user without a home.
    secret: Option<PathBuf>,
}

impl Owner {
    /// `dir` is where what belongs to the user and to no project is kept.
    pub fn new(dir: Option<PathBuf>) -> Owner {
        Owner { secret: dir.map(|dir| dir.join("owner-secret")) }
    }

    /// A directory that is not there is nobody's.
    pub fn whose(&self, dir: &Path) -> Result<Whose, Failure> {
        let mark = read(&dir.join(MARK));
        if mark.is_some() && mark == self.mark() {
            return Ok(Whose::Ours);
        }
        let unusable = |error: io::Error| {
            Failure::usage(format!("cannot look into the state directory {}: {error}", dir.display()))
        };
        let names = match fs::read_dir(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Whose::Nobodys),
            Err(error) => return Err(unusable(error)),
        };
        for name in names {
            let name = name.map_err(unusable)?.file_name();
            // What a process leaves that died while it made the directory.
            let made_first = [".gitignore", MARK]
                .iter()
                .any(|first| name.as_encoded_bytes().starts_with(first.as_bytes()));
            if !made_first {
                // Another process may have marked it in between, and begun to fill it.
                let mark = read(&dir.join(MARK));
                let is_ours = mark.is_some() && mark == self.mark();
                return Ok(if is_ours { Whose::Ours } else { Whose::Strangers });
            }
        }
        Ok(Whose::Nobodys)
    }

    /// Makes a directory ours: for good, before anything is in it that a power cut would leave without its mark.
    pub fn claim(&self, dir: &Path) -> Result<(), Failure> {
        let secret = self.secret.as_deref().ok_or_else(no_home)?;
        make_secret(secret).map_err(|error| {
            Failure::usage(format!("cannot write {}: {error}", secret.display()))
                .hint("a state directory outside of the project needs no such mark: `--state-dir DIR`")
        })?;
        let path = dir.join(MARK);
        let failed = |error: io::Error| Failure::usage(format!("cannot write {}: {error}", path.display()));
        let Some(mark) = self.mark() else { return Err(failed(io::ErrorKind::InvalidData.into())) };
        let temporary = dir.join(format!("{MARK}-{}", std::process::id()));
        // One that is there may be a link that came with the repository.
        fs::remove_file(&temporary).ok();
        let written = write_new(&temporary, mark.as_bytes()).and_then(|()| fs::rename(&temporary, &path));
        // Whoever made the directory may have died before its own name was on disk.
        let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
        let synced = |()| [Some(dir), above].into_iter().flatten().try_for_each(|dir| RealDisk.sync_dir(dir));
        written.and_then(synced).map_err(failed)
    }

    fn mark(&self) -> Option<String> {
        let secret = read(self.secret.as_deref()?)?;
        Some(digest_of(format!("longhaul state directory {secret}").as_bytes()))
    }
}

/// A stranger's directory, and what can be done about it.
pub fn refused(dir: &Path) -> Failure {
    let shown = dir.display();
    Failure::usage(format!("{shown} was not made by you on this machine, so nothing in it is believed")).hint(
        "if it came with the repository, remove it or choose another place with `--state-dir DIR`; \
         if it is yours, from another machine or an earlier longhaul, `longhaul store adopt` makes it so",
    )
}

fn no_home() -> Failure {
    Failure::usage("the state directory cannot be marked as yours: neither XDG_STATE_HOME nor HOME is set")
        .hint("set one of them, or choose a place outside of the project with `--state-dir DIR`")
}

/// A small file's text; nothing for what is no file, or not ours to read.
fn read(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let is_small = found.is_file() && found.len() <= MARK_BYTES_MAX;
    is_small.then(|| fs::read_to_string(path).ok()).flatten().filter(|text| !text.is_empty())
}

/// Appears whole, and is never replaced: two processes that make it at the same time agree on the first. It is on disk
/// afterwards, whoever made it: without it nothing that it marks is ours.
fn make_secret(path: &Path) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    if read(path).is_some() {
        return RealDisk.sync_dir(dir);
    }
    make_dirs(&RealDisk, dir)?;
    let chance = || fresh_bits(SystemClock.now()).map_err(|error| io::Error::other(error.to_string()));
    let temporary = path.with_extension(std::process::id().to_string());
    fs::remove_file(&temporary).ok();
    write_new(&temporary, format!("{:032x}{:032x}", chance()?, chance()?).as_bytes())?;
    let linked = match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&temporary).ok();
    linked.and_then(|()| RealDisk.sync_dir(dir))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(dir: &Path, names: &[&str]) -> PathBuf {
        let state = dir.join(".longhaul");
        fs::create_dir_all(&state).unwrap();
        names.iter().for_each(|name| fs::write(state.join(name), "x").unwrap());
        state
    }

    /// A71: what has no mark of this user's is nobody's if it is empty, and a stranger's if it is not.
    #[test]
    fn only_what_was_claimed_is_ours() {
        let (home, other, work) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (owner, stranger) = (Owner::new(Some(home.path().into())), Owner::new(Some(other.path().into())));
        let whose = |owner: &Owner, dir: &Path| owner.whose(dir).unwrap();
        assert_eq!(whose(&owner, &work.path().join("absent")), Whose::Nobodys);
        let state = made(work.path(), &[".gitignore", ".gitignore-1-2", "owner", "owner-3"]);
        assert_eq!(whose(&owner, &state), Whose::Nobodys);
        fs::write(state.join("catalog.db"), "").unwrap();
        assert_eq!(whose(&owner, &state), Whose::Strangers);
        owner.claim(&state).unwrap();
        assert_eq!((whose(&owner, &state), whose(&stranger, &state)), (Whose::Ours, Whose::Strangers));
        stranger.claim(&state).unwrap();
        assert_eq!((whose(&owner, &state), whose(&stranger, &state)), (Whose::Strangers, Whose::Ours));
        assert_eq!(whose(&Owner::new(None), &state), Whose::Strangers);
        assert!(Owner::new(None).claim(&state).is_err());
    }

    /// A mark is not written through a link that came with the repository.
    #[test]
    fn a_mark_replaces_a_link() {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = made(work.path(), &[]);
        let victim = work.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        for name in [MARK.to_owned(), format!("{MARK}-{}", std::process::id())] {
            std::os::unix::fs::symlink(&victim, state.join(name)).unwrap();
        }
        let owner = Owner::new(Some(home.path().into()));
        owner.claim(&state).unwrap();
        assert_eq!(owner.whose(&state).unwrap(), Whose::Ours);
        assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    }
}
