//! Bubblewrap: from a policy to its arguments.
//!
//! Owns the translation, which is pure, and finding the program where only the system's owner can have put it. Refuses
//! a `bwrap` from the search path: whoever writes to the workspace could put one there.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::network::Network;
use super::policy::{Mount, Policy};
use super::settings::{self, Copies};
use crate::limits;

/// Where a system keeps its programs.
const PLACES: &[&str] = &["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];

/// Where our own program is inside.
pub(super) const HELPER: &str = "/run/longhaul/enter";

/// Where the way out is inside, if there is one.
pub(super) const PROXY: &str = "/run/longhaul/egress";

/// The program, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bubblewrap {
    pub(super) program: PathBuf,
    pub(super) abilities: Abilities,
}

/// Options that not every version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) disable_userns: bool,
    pub(super) size: bool,
}

/// What is missing where it is not found.
pub(super) const NOT_INSTALLED: &str = "bubblewrap (bwrap) is not installed";

impl Bubblewrap {
    pub(super) fn find() -> Result<Bubblewrap, String> {
        let candidates = PLACES.iter().map(|place| Path::new(place).join("bwrap"));
        let program = candidates.into_iter().find(|file| is_the_systems(file));
        let program = program.ok_or_else(|| NOT_INSTALLED.to_owned())?;
        let said = Command::new(&program).arg("--help").env_clear().stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let said = [said.stdout, said.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let abilities =
            Abilities { disable_userns: said.contains("--disable-userns"), size: said.contains("--size ") };
        Ok(Bubblewrap { program, abilities })
    }
}

/// Root's own, and nobody else's to change.
fn is_the_systems(file: &Path) -> bool {
    let Ok(found) = file.metadata() else { return false };
    found.is_file() && found.uid() == 0 && found.mode() & 0o022 == 0
}

/// The arguments that make the world of `policy`, up to the command; `copies` are put there by the inner stage, `helper` is our
/// own program, `egress` the socket of the proxy.
pub(super) fn arguments(
    policy: &Policy,
    copies: &Copies,
    abilities: Abilities,
    helper: &Path,
    egress: Option<&Path>,
) -> Vec<OsString> {
    let mut list = Arguments(Vec::new());
    list.add(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
    if policy.network != Network::Full {
        list.add(&["--unshare-net"]);
    }
    if abilities.disable_userns {
        list.add(&["--disable-userns"]);
    }
    // Root keeps every capability in a namespace of its own unless told otherwise.
    list.add(&["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "longhaul"]);
    if !copies.files.is_empty() {
        list.add(&["--tmpfs", settings::PLACE]);
    }
    for mount in policy.mounts.iter().filter(|mount| !copies.replace(mount)) {
        list.mount(mount, abilities);
    }
    // Parts of `/proc` belong to the whole machine, and the kernel lets root write to them without any capability.
    list.add(&["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]);
    list.path("--ro-bind", helper).path_only(Path::new(HELPER));
    if let Some(egress) = egress {
        list.path("--ro-bind", egress).path_only(Path::new(PROXY));
    }
    for mount in &policy.mounts {
        if let Mount::Nothing(at) = mount {
            list.path("--remount-ro", at);
        }
    }
    list.add(&["--remount-ro", "/"]);
    list.path("--chdir", &policy.cwd);
    list.add(&["--"]);
    list.0
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn path(&mut self, option: &str, path: &Path) -> &mut Arguments {
        self.0.push(option.into());
        self.path_only(path)
    }

    fn path_only(&mut self, path: &Path) -> &mut Arguments {
        self.0.push(path.into());
        self
    }

    fn mount(&mut self, mount: &Mount, abilities: Abilities) {
        match mount {
            Mount::ReadOnly(at) => self.path("--ro-bind", at).path_only(at),
            Mount::Writable(at) => self.path("--bind", at).path_only(at),
            Mount::Scratch(at) => {
                if abilities.size {
                    self.add(&["--size", &limits::SCRATCH_BYTES_MAX.to_string()]);
                }
                self.path("--tmpfs", at)
            }
            Mount::Nothing(at) => self.path("--tmpfs", at),
            Mount::Link { at, to } => self.path("--symlink", to).path_only(at),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(policy: &Policy, abilities: Abilities) -> String {
        let copies = Copies { files: [("/etc/passwd".into(), String::new())].into() };
        let words = arguments(policy, &copies, abilities, Path::new("/usr/bin/longhaul"), None);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// A32: every namespace, no capability, whatever the policy; what is covered is made read-only after all mounts, and what is
    /// copied is not mounted.
    #[test]
    fn a_policy_becomes_arguments() {
        let policy = Policy {
            workspace: "/w".into(),
            cwd: "/w".into(),
            mounts: vec![
                Mount::Link { at: "/bin".into(), to: "usr/bin".into() },
                Mount::Scratch("/tmp".into()),
                Mount::ReadOnly("/etc/passwd".into()),
                Mount::ReadOnly("/etc/ld.so.cache".into()),
                Mount::ReadOnly("/usr".into()),
                Mount::Writable("/w".into()),
                Mount::Nothing("/w/.longhaul".into()),
            ],
            network: Network::None,
            home: "/home/me".into(),
            swept: Vec::new(),
            links: std::sync::Arc::default(),
        };
        let all = Abilities { disable_userns: true, size: true };
        let expected = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net \
             --disable-userns --cap-drop ALL --new-session --die-with-parent --hostname longhaul \
             --tmpfs /etc --symlink usr/bin /bin --size 4294967296 --tmpfs /tmp \
             --ro-bind /etc/ld.so.cache /etc/ld.so.cache --ro-bind /usr /usr --bind /w /w --tmpfs /w/.longhaul \
             --proc /proc --remount-ro /proc --dev /dev \
             --ro-bind /usr/bin/longhaul /run/longhaul/enter --remount-ro /w/.longhaul --remount-ro / --chdir /w --";
        assert_eq!(words(&policy, all), expected);
        let open = Policy { network: Network::Full, ..policy };
        let few = Abilities { disable_userns: false, size: false };
        assert_eq!(
            words(&open, few),
            expected
                .replace(" --unshare-net", "")
                .replace(" --disable-userns", "")
                .replace(" --size 4294967296", "")
        );
    }
}
