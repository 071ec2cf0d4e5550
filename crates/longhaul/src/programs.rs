//! Which programs we start ourselves: git, a command for a key, what shows a notice. They run with the user's rights and are
//! found by name, so none may lie where an agent can put one: `bin` or `node_modules/.bin` of the project, which many have on
//! their PATH. The agents' own commands, which are held, find them there as before.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_tools::AGENTS_PATH;

use crate::app::whole;
use crate::failure::Failure;

/// Starts this very command anew with a PATH that leads into none of these places, if ours does.
pub fn beyond(places: &[&Path]) -> Result<(), Failure> {
    let Some(path) = std::env::var_os("PATH") else { return Ok(()) };
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    // Whoever works in all of the home directory has lent the agent more than that.
    let places: Vec<PathBuf> =
        places.iter().filter(|place| !home.starts_with(place)).map(|place| whole(place)).collect();
    let kept = outside(&path, &places);
    if kept == path {
        return Ok(());
    }
    let Err(error) = again(&kept, &path);
    Err(Failure::from(anyhow::Error::from(error).context("cannot start with another PATH")))
}

fn again(kept: &OsStr, path: &OsStr) -> std::io::Result<Infallible> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env("PATH", kept).env(AGENTS_PATH, path);
    Err(command.exec())
}

/// The directories of a PATH that are neither relative nor in one of these places, also by a link or before they are made.
fn outside(path: &OsStr, places: &[PathBuf]) -> OsString {
    let is_outside = |directory: &PathBuf| {
        let whole = whole(directory);
        directory.is_absolute()
            && !places.iter().any(|place| directory.starts_with(place) || whole.starts_with(place))
    };
    let all: Vec<PathBuf> = std::env::split_paths(path).collect();
    if all.iter().all(is_outside) {
        return path.to_owned();
    }
    let kept = std::env::join_paths(all.into_iter().filter(is_outside)).unwrap_or_default();
    if kept.is_empty() { "/usr/local/bin:/usr/bin:/bin".into() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_could_write_is_left_out() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(&project).unwrap();
        std::os::unix::fs::symlink(&project, place.path().join("link")).unwrap();
        let link = place.path().join("link/bin");
        let (inner, link) = (project.join("not/yet/bin"), link.display());
        let path = format!("{}:/usr/bin:bin:.:{link}:/bin:", inner.display());
        assert_eq!(outside(path.as_ref(), std::slice::from_ref(&project)), "/usr/bin:/bin");
        assert_eq!(outside("/usr/bin:/bin".as_ref(), std::slice::from_ref(&project)), "/usr/bin:/bin");
        assert_eq!(outside(inner.as_os_str(), &[project]), "/usr/local/bin:/usr/bin:/bin");
    }
}
