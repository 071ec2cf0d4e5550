//! Settings that are a link, in a workspace.
//!
//! Nothing can be mounted over a link itself, so that a command could put another one in its place. Owns noticing that and putting
//! back the one that was there before any command. What it leads to is held like any file that is guarded.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::aside::put_aside;

/// A link as it was while no command was running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    at: PathBuf,
    to: PathBuf,
    /// The end of all links, if anything is there.
    end: Option<PathBuf>,
}

impl Link {
    /// What is at `at`, if that is a link.
    pub(super) fn at(at: &Path) -> Option<Link> {
        let to = fs::read_link(at).ok()?;
        Some(Link { at: at.to_owned(), to, end: at.canonicalize().ok() })
    }

    pub(super) fn place(&self) -> &Path {
        &self.at
    }

    pub(super) fn end(&self) -> Option<&Path> {
        self.end.as_deref()
    }

    /// Does it not lead where it led? Where it led nowhere, what lies outside was not made by a command.
    pub(super) fn is_forged(&self) -> bool {
        let leads = self.at.canonicalize().ok();
        let is_same = match (&self.end, &leads, self.at.parent()) {
            (None, Some(leads), Some(beside)) => !leads.starts_with(beside),
            (end, leads, _) => end == leads,
        };
        !is_same || fs::read_link(&self.at).ok().as_ref() != Some(&self.to)
    }

    /// Puts it back; answers whether what was forged is gone.
    pub(super) fn restore(&self) -> bool {
        let is_away = fs::symlink_metadata(&self.at).is_err() || put_aside(&self.at);
        symlink(&self.to, &self.at).ok();
        if !self.is_forged() || !is_away {
            return is_away;
        }
        // A link further on was exchanged, or what this one is to lead to was made: it leads there without that, or nowhere.
        let is_away = put_aside(&self.at);
        if let Some(end) = &self.end {
            symlink(end, &self.at).ok();
        }
        is_away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A11: whatever a command makes of a link to the settings, they are what they were.
    #[test]
    fn a_link_that_was_exchanged_is_put_back() {
        let outer = tempfile::tempdir().unwrap();
        let base = outer.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("conf")).unwrap();
        fs::write(base.join("conf/settings"), "mine").unwrap();
        symlink("conf", base.join("way")).unwrap();
        symlink("way/settings", base.join("settings")).unwrap();
        let link = Link::at(&base.join("settings")).unwrap();
        assert_eq!(link.end(), Some(base.join("conf/settings").as_path()));
        assert!(!link.is_forged());

        fs::remove_file(base.join("settings")).unwrap();
        fs::write(base.join("settings"), "forged").unwrap();
        assert!(link.is_forged() && link.restore());
        assert_eq!(fs::read_link(base.join("settings")).unwrap(), Path::new("way/settings"));
        assert_eq!(fs::read_to_string(base.join("settings.refused")).unwrap(), "forged");

        fs::create_dir(base.join("other")).unwrap();
        fs::write(base.join("other/settings"), "forged").unwrap();
        fs::remove_file(base.join("way")).unwrap();
        symlink("other", base.join("way")).unwrap();
        assert!(link.is_forged() && link.restore());
        assert_eq!(fs::read_to_string(base.join("settings")).unwrap(), "mine");
        assert_eq!(Link::at(&base.join("conf/settings")), None);

        // One that leads nowhere, and what the user makes for it outside.
        fs::create_dir(base.join("in")).unwrap();
        symlink("../out", base.join("in/dangling")).unwrap();
        let link = Link::at(&base.join("in/dangling")).unwrap();
        fs::write(base.join("out"), "mine").unwrap();
        assert!(!link.is_forged());
        fs::remove_file(base.join("in/dangling")).unwrap();
        symlink("elsewhere", base.join("in/dangling")).unwrap();
        assert!(link.is_forged() && link.restore());
        assert_eq!(fs::read_link(base.join("in/dangling")).unwrap(), Path::new("../out"));

        // And what was made inside for one to lead to, which may be anybody's.
        symlink("nowhere/settings", base.join("dangling")).unwrap();
        let link = Link::at(&base.join("dangling")).unwrap();
        symlink("other", base.join("nowhere")).unwrap();
        assert!(link.is_forged() && link.restore());
        assert!(!base.join("dangling").exists() && base.join("other/settings").exists());
    }
}
