//! Settings that are a link, in a workspace.
//!
//! Nothing can be mounted over a link itself, so that a command could put another one in its place. Owns noticing that and putting
//! back the one that was there. What it leads to is held like any file that is guarded.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::wrapped::put_aside;

/// A link as it was before a command.
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

    pub(super) fn end(&self) -> Option<&Path> {
        self.end.as_deref()
    }

    /// What it says, be anything there or not.
    pub(super) fn target(&self) -> PathBuf {
        self.at.parent().map_or_else(|| self.to.clone(), |parent| parent.join(&self.to))
    }

    /// Puts it back if it does not lead where it led; answers its place if it did not.
    pub(super) fn restore(&self) -> Option<PathBuf> {
        if self.is_as_it_was() {
            return None;
        }
        put_aside(&self.at);
        symlink(&self.to, &self.at).ok();
        if let Some(end) = self.end.as_ref().filter(|_| !self.is_as_it_was()) {
            // A link further on was exchanged: this one leads there without it.
            put_aside(&self.at);
            symlink(end, &self.at).ok();
        }
        Some(self.at.clone())
    }

    fn is_as_it_was(&self) -> bool {
        self.at.is_symlink() && self.at.canonicalize().ok() == self.end
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
        assert_eq!(link.restore(), None);

        fs::remove_file(base.join("settings")).unwrap();
        fs::write(base.join("settings"), "forged").unwrap();
        assert_eq!(link.restore(), Some(base.join("settings")));
        assert_eq!(fs::read_link(base.join("settings")).unwrap(), Path::new("way/settings"));
        assert_eq!(fs::read_to_string(base.join("settings.refused")).unwrap(), "forged");

        fs::create_dir(base.join("other")).unwrap();
        fs::write(base.join("other/settings"), "forged").unwrap();
        fs::remove_file(base.join("way")).unwrap();
        symlink("other", base.join("way")).unwrap();
        assert!(link.restore().is_some());
        assert_eq!(fs::read_to_string(base.join("settings")).unwrap(), "mine");
        assert_eq!(Link::at(&base.join("conf/settings")), None);
    }
}
