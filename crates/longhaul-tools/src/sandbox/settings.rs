//! The system's small settings, as copies.
//!
//! Owns which of the files in `/etc` that a policy shows are handed to a command as copies, in a directory of its own, instead
//! of as mounts: for every mount that bubblewrap makes it reads the kernel's whole table of mounts again, which was a large
//! part of its time. What the command sees is the same. Refuses what is large, is no plain text or not for everybody to
//! read, because everybody can see the arguments it is handed over in: that is mounted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::policy::{Mount, Policy};
use crate::limits;

/// Where they are.
pub(super) const PLACE: &str = "/etc";

#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) files: BTreeMap<PathBuf, String>,
}

impl Copies {
    /// Those of a policy, as they are now.
    pub(super) fn of(policy: &Policy) -> Copies {
        let mut copies = Copies::default();
        for mount in &policy.mounts {
            let Mount::ReadOnly(at) = mount else { continue };
            let above = || at.ancestors().skip(1).take_while(|path| path.starts_with(PLACE));
            if at.starts_with(PLACE) && above().next().is_some() && above().all(is_open) {
                copies.add(at);
            }
        }
        copies
    }

    /// Is there no need to make this mount?
    pub(super) fn replace(&self, mount: &Mount) -> bool {
        self.files.contains_key(mount.at())
    }

    fn add(&mut self, path: &Path) {
        let room = limits::SETTINGS_BYTES_MAX - self.files.values().map(String::len).sum::<usize>();
        if let Some(text) = small_and_plain(path).filter(|text| text.len() <= room) {
            self.files.insert(path.to_owned(), text);
        }
    }
}

/// Can everybody go through this directory?
fn is_open(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|kind| kind.mode() & 0o001 != 0)
}

/// The text of a file that everybody may read. Behind a link there may be a directory that not everybody goes through.
fn small_and_plain(path: &Path) -> Option<String> {
    let kind = fs::symlink_metadata(path).ok()?;
    let small = kind.is_file() && kind.len() <= limits::SETTING_BYTES_MAX;
    if !small || kind.mode() & 0o004 == 0 {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    // Other letters take more room as JSON than is reckoned with.
    let plain = |byte: u8| byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r');
    text.bytes().all(plain).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A32: what is small, plain and for everybody to read is copied.
    #[test]
    fn small_plain_text_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let large = "x".repeat(limits::SETTING_BYTES_MAX as usize);
        let cases: [(&str, &[u8], u32, bool); 7] = [
            ("plain", "zwölf\t12\n".as_bytes(), 0o644, true),
            ("empty", b"", 0o644, true),
            ("private", b"secret", 0o640, false),
            ("binary", b"a\0b", 0o644, false),
            ("no-text", &[0xff], 0o644, false),
            ("full", large.as_bytes(), 0o644, true),
            ("large", &[large.as_bytes(), b"x"].concat(), 0o644, false),
        ];
        for (name, bytes, mode, copied) in cases {
            fs::write(path(name), bytes).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
            let text = small_and_plain(&path(name));
            assert_eq!(text.as_ref().map(String::as_bytes), copied.then_some(bytes), "{name}");
        }
        std::os::unix::fs::symlink("plain", path("link")).unwrap();
        assert_eq!((small_and_plain(&path("link")), small_and_plain(directory.path())), (None, None));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert!(is_open(directory.path()));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(!is_open(directory.path()));
    }

    /// A32: copies are of what the policy shows in `/etc` and of nothing else, and fit into one argument.
    #[test]
    fn what_is_copied_is_what_is_shown() {
        let workspace = tempfile::tempdir().unwrap();
        let shown = Policy::new(
            &super::super::Host::default(),
            &workspace.path().canonicalize().unwrap(),
            super::super::Network::Full,
        );
        let policy = shown.unwrap();
        let copies = Copies::of(&policy);
        let small = fs::metadata("/etc/passwd").is_ok_and(|kind| kind.len() <= limits::SETTING_BYTES_MAX);
        assert_eq!(copies.files.contains_key(Path::new("/etc/passwd")), small, "{:?}", copies.files.keys());
        for (path, text) in &copies.files {
            assert_eq!(fs::read_to_string(path).unwrap(), *text);
            assert!(policy.mounts.contains(&Mount::ReadOnly(path.clone())), "{}", path.display());
        }
        assert!(serde_json::to_string(&copies.files).unwrap().len() < 120 * 1024);
    }
}
