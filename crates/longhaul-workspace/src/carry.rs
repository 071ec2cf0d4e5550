//! Ignored files that a fresh worktree needs: dependencies, examples of settings.
//!
//! Owns bringing them from the user's checkout, each whole or not at all, so that it can be killed and repeated. Refuses what
//! git does not ignore, which would end up in a commit, and every path that leads out of the checkout.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::git::Git;
use crate::place::{Error, create_directories};

/// Copies these paths of `repo` to the worktree at `path`. What is not there is left out, and what the worktree has is kept.
pub fn ignored(repo: &Path, path: &Path, wanted: &[String]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".copying");
    let fresh = path.with_file_name(name);
    for name in wanted {
        let relative = Path::new(name.trim_end_matches('/'));
        let (from, to) = (repo.join(relative), path.join(relative));
        if !is_within(relative) || from.symlink_metadata().is_err() || to.symlink_metadata().is_ok() {
            continue;
        }
        if Git::at(repo).run(&["check-ignore", "--quiet", "--", name.trim_end_matches('/')]).is_err() {
            continue;
        }
        remove(&fresh)?;
        copy(&from, &fresh)?;
        create_directories(to.parent().unwrap_or(path))?;
        fs::rename(&fresh, &to).map_err(io_error("copy", &to))?;
    }
    remove(&fresh)
}

/// Is this a path below a checkout, and not of git's own?
pub fn is_within(path: &Path) -> bool {
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => false,
    };
    !path.as_os_str().is_empty() && path.components().all(plain)
}

/// Links stay links, wherever they lead.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let kind = from.symlink_metadata().map_err(io_error("read", from))?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(from).map_err(io_error("read", from))?;
        return symlink(target, to).map_err(io_error("copy", from));
    }
    if kind.is_file() {
        return fs::copy(from, to).map(drop).map_err(io_error("copy", from));
    }
    if !kind.is_dir() {
        return Ok(());
    }
    fs::create_dir(to).map_err(io_error("create", to))?;
    for entry in fs::read_dir(from).map_err(io_error("read", from))? {
        let name = entry.map_err(io_error("read", from))?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Error> {
    let removed = match path.symlink_metadata() {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.map_err(io_error("remove", path))
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { action, path: PathBuf::from(path), source }
}
