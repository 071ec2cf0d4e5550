//! What one run was told about a rate limit, all runs of the same key know, also those of other processes: a moment in a
//! small file, before which nobody asks. It owns those files; losing them costs one refused request.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use longhaul_core::limits::WISHED_WAIT_MS_MAX;
use longhaul_core::time::Timestamp;

/// Cheap to ask; shared by all providers of a process.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Where other processes are told; `None` keeps it to this one.
    dir: Option<PathBuf>,
    until: Mutex<HashMap<String, Timestamp>>,
}

impl Limiter {
    pub fn new(dir: Option<PathBuf>) -> Limiter {
        Limiter { dir, until: Mutex::default() }
    }

    /// How long the account must still be left alone.
    pub fn left_ms(&self, account: &str, now: Timestamp) -> Option<u64> {
        let here = self.until.lock().unwrap_or_else(PoisonError::into_inner).get(account).copied();
        let told = self.dir.as_deref().and_then(|dir| read(&dir.join(account)));
        let until = here.max(told)?;
        let left_ms = until.millis_since(now);
        // A moment further away than any wait we take was written by a clock that was wrong.
        (1..=WISHED_WAIT_MS_MAX).contains(&left_ms).then_some(left_ms)
    }

    /// Remembers that nobody should ask before `until`, and tells the others as well as it can.
    pub fn hold(&self, account: &str, until: Timestamp) {
        let mut known = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(account.to_owned(), until);
        drop(known);
        if let Some(dir) = &self.dir {
            // Nobody is worse off than without a limiter if this fails.
            drop(write(dir, account, until));
        }
    }
}

fn read(path: &Path) -> Option<Timestamp> {
    let text = fs::read_to_string(path).ok()?;
    Some(Timestamp::from_millis(text.trim().parse().ok()?))
}

fn write(dir: &Path, account: &str, until: Timestamp) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let draft = dir.join(format!(".{account}.{}", std::process::id()));
    fs::write(&draft, until.as_millis().to_string())?;
    fs::rename(&draft, dir.join(account))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes of one account share its limit; another account is free; a limit ends, and nonsense is none.
    #[test]
    fn a_limit_is_shared_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Limiter::new(Some(dir.path().join("limits"))));
        let at = Timestamp::from_millis;
        one.hold("a", at(5_000));
        assert_eq!(other.left_ms("a", at(1_000)), Some(4_000));
        assert_eq!(other.left_ms("b", at(1_000)), None);
        assert_eq!(other.left_ms("a", at(5_000)), None);
        fs::write(dir.path().join("limits/c"), "garbage").unwrap();
        fs::write(dir.path().join("limits/d"), i64::MAX.to_string()).unwrap();
        assert_eq!((other.left_ms("c", at(0)), other.left_ms("d", at(0))), (None, None));
    }
}
