//! macOS: a policy as a profile for `sandbox-exec`.
//!
//! Owns the translation, which is pure and tested everywhere. Whether macOS holds to it was never tried on the machines
//! this is tested on; the self-probe decides there, as everywhere. Refuses paths that cannot be quoted.

use std::path::{Path, PathBuf};

use super::network::Network;
use super::policy::{Mount, Policy};

/// The profile: later rules win over earlier ones, so it goes from outside inwards as the mounts do.
pub(super) fn profile(policy: &Policy, scratch: &Path) -> Result<String, String> {
    let mut lines = vec![
        "(version 1)".to_owned(),
        "(deny default)".to_owned(),
        "(allow process-fork process-exec sysctl-read mach-lookup)".to_owned(),
        "(allow signal (target same-sandbox))".to_owned(),
        "(allow file-read-metadata)".to_owned(),
        "(allow file-read* (subpath \"/System\") (subpath \"/Library\") (subpath \"/private/etc\") (subpath \"/dev\"))"
            .to_owned(),
        "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (subpath \"/dev/fd\"))".to_owned(),
    ];
    for mount in &policy.mounts {
        let place = |at: &PathBuf| quoted(at).map(|path| format!("(subpath {path})"));
        lines.push(match mount {
            Mount::ReadOnly(at) => {
                let at = place(at)?;
                format!("(allow file-read* {at})\n(deny file-write* {at})")
            }
            Mount::Writable(at) => format!("(allow file-read* file-write* {})", place(at)?),
            Mount::Nothing(at) => format!("(deny file-read* file-write* {})", place(at)?),
            // Nothing private can be put there, so it is not there; links are as they are.
            Mount::Scratch(_) | Mount::Link { .. } => continue,
        });
    }
    lines.push(format!("(allow file-read* file-write* (subpath {}))", quoted(scratch)?));
    match policy.network {
        // There is no way to the proxy from there.
        Network::None | Network::Hosts(_) => {}
        Network::Full => lines.push("(allow network*)".to_owned()),
    }
    Ok(lines.join("\n") + "\n")
}

fn quoted(path: &Path) -> Result<String, String> {
    let plain = path.to_str().filter(|text| !text.contains(['"', '\\', '\n']));
    plain.map(|text| format!("\"{text}\"")).ok_or_else(|| format!("`{}` cannot be quoted", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_becomes_a_profile() {
        let policy = Policy {
            workspace: "/w".into(),
            cwd: "/w".into(),
            mounts: vec![
                Mount::Scratch("/tmp".into()),
                Mount::ReadOnly("/usr".into()),
                Mount::Writable("/w".into()),
                Mount::Nothing("/w/.longhaul".into()),
            ],
            network: Network::None,
            home: "/Users/me".into(),
            swept: Vec::new(),
            links: std::sync::Arc::default(),
        };
        let text = profile(&policy, Path::new("/private/tmp/s")).unwrap();
        let own: Vec<&str> = text.lines().skip(7).collect();
        assert_eq!(
            own,
            [
                "(allow file-read* (subpath \"/usr\"))",
                "(deny file-write* (subpath \"/usr\"))",
                "(allow file-read* file-write* (subpath \"/w\"))",
                "(deny file-read* file-write* (subpath \"/w/.longhaul\"))",
                "(allow file-read* file-write* (subpath \"/private/tmp/s\"))",
            ]
        );
        assert!(profile(&policy, Path::new("/a\"b")).is_err());
    }
}
