//! What one run was told about a rate limit, all runs of the same key know, also those of other processes: a moment in a
//! small file, before which nobody asks. It owns those files; losing them costs one refused request.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use longhaul_core::event::Rest;
use longhaul_core::limits::WISHED_WAIT_MS_MAX;
use longhaul_core::time::Timestamp;

/// Cheap to ask; shared by all providers of a process.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Where other processes are told; `None` keeps it to this one.
    dir: Option<PathBuf>,
    held: Mutex<HashMap<String, Rest>>,
}

impl Limiter {
    pub fn new(dir: Option<PathBuf>) -> Limiter {
        Limiter { dir, held: Mutex::default() }
    }

    /// How long the account must still be left alone.
    pub fn left_ms(&self, account: &str, now: Timestamp) -> Option<u64> {
        let here = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(account).copied();
        let told = self.dir.as_deref().and_then(|dir| read(&dir.join(account)));
        // A rest knows its length as well as its end, so that a clock that was set back does not make it longer.
        let left = here.into_iter().chain(told).map(|rest| rest.left_ms(now));
        left.filter(|left_ms| (1..=WISHED_WAIT_MS_MAX).contains(left_ms)).max()
    }

    /// Remembers that nobody should ask for so long, and tells the others as well as it can. What was said before and lasts
    /// longer still holds.
    pub fn hold(&self, account: &str, now: Timestamp, after_ms: u64) {
        if self.left_ms(account, now) >= Some(after_ms) {
            return;
        }
        let rest = Rest::from(now, after_ms);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(account.to_owned(), rest);
        if let Some(dir) = &self.dir {
            // Nobody is worse off than without a limiter if this fails.
            drop(write(dir, account, rest));
        }
    }
}

fn read(path: &Path) -> Option<Rest> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(dir: &Path, account: &str, rest: Rest) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let draft = dir.join(format!(".{account}.{}", std::process::id()));
    fs::write(&draft, serde_json::to_vec(&rest)?)?;
    fs::rename(&draft, dir.join(account))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes of one account share its limit, the longer one counts, another account is free, a limit ends, a clock
    /// that is set back makes none longer, and nonsense is none.
    #[test]
    fn a_limit_is_shared_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Limiter::new(Some(dir.path().join("limits"))));
        let at = Timestamp::from_millis;
        one.hold("a", at(1_000), 4_000);
        assert_eq!(other.left_ms("a", at(1_000)), Some(4_000));
        other.hold("a", at(2_000), 1_000);
        assert_eq!(one.left_ms("a", at(2_000)), Some(3_000), "the shorter one does not undo the longer");
        assert_eq!(other.left_ms("b", at(1_000)), None);
        assert_eq!(other.left_ms("a", at(5_000)), None);
        assert_eq!(other.left_ms("a", at(-3_600_000)), Some(4_000));
        fs::write(dir.path().join("limits/c"), "garbage").unwrap();
        assert_eq!(other.left_ms("c", at(0)), None);
    }
}
