//! Who a commit is by.
//!
//! Owns finding the user's name as git would: what the repository says goes before what the user says everywhere. A
//! repository may claim any name, as any commit may; it is data and is never run. Refuses to ask anybody.

use super::repository::Setting;

/// Used where the user has not told git a name.
const FALLBACK: [&str; 2] = ["longhaul", "longhaul@localhost"];

pub(super) struct Identity {
    name: String,
    email: String,
}

impl Identity {
    pub(super) fn find(repository: &[Setting], user: &[Setting]) -> Identity {
        let said = |key: &str| {
            let all = user.iter().chain(repository).rfind(|(name, value)| name == key && is_usable(value));
            all.map(|(_, value)| value.clone())
        };
        match (said("user.name"), said("user.email")) {
            (Some(name), Some(email)) => Identity { name, email },
            (Some(_) | None, Some(_) | None) => {
                let [name, email] = FALLBACK.map(str::to_owned);
                Identity { name, email }
            }
        }
    }

    /// As git takes it from its environment.
    pub(super) fn environment(&self) -> [(&str, &str); 4] {
        [
            ("GIT_AUTHOR_NAME", &self.name),
            ("GIT_AUTHOR_EMAIL", &self.email),
            ("GIT_COMMITTER_NAME", &self.name),
            ("GIT_COMMITTER_EMAIL", &self.email),
        ]
    }
}

/// Git drops what would break the line a name stands in, and refuses a name of which nothing is left.
fn is_usable(value: &str) -> bool {
    value.chars().any(char::is_alphanumeric) && !value.contains('\0')
}
