//! What a command may see and change, as data.
//!
//! Owns the list of mounts a command's world is made of: everything is absent unless it is named here. Refuses a
//! workspace that would let the whole home directory in. How the list is enforced is `bwrap`'s and `inside`'s matter.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_workspace::gitdirs;

use super::More;
use super::link::Link;
use super::network::Network;
use crate::limits;

/// What of the machine every command sees, read-only, where it exists.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/run/current-system",
    "/home/linuxbrew",
    "/sys/devices/system/cpu",
];

/// What of `/etc`: how programs are found, linked and localised. Nothing that is a secret, nothing that names services, and
/// nothing that only a terminal or an administrator reads: each mount makes the start of every command longer.
const ETC: &[&str] = &[
    "alternatives",
    "crypto-policies",
    "debian_version",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "python3",
    "rpc",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// What of the home directory: where toolchains and what they downloaded are. Their configuration beside it may hold
/// credentials, so directories are named as narrowly as the tools allow.
const HOME: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cabal/bin",
    ".deno/bin",
    ".elan",
    ".gem/ruby",
    ".ghcup/bin",
    ".ghcup/ghc",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".m2/repository",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".sdkman/candidates",
    ".volta",
    "anaconda3",
    "go/bin",
    "go/pkg/mod",
    "miniconda3",
    "miniforge3",
];

/// What of cargo's home: programs and sources, not `credentials.toml`.
const CARGO: &[&str] = &["bin", "config.toml", "env", "git", "registry"];

/// Variables that name a toolchain's place, shown read-only wherever that is.
const PLACES: &[&str] = &[
    "RUSTUP_HOME",
    "GOROOT",
    "GOMODCACHE",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VIRTUAL_ENV",
];

/// Of the home directory, what is no toolchain's place whatever the environment says: keys and settings are kept there. What is
/// below may be one, as `~/.config/composer/vendor/bin`.
const NO_PLACES: &[&str] = &[
    ".aws",
    ".azure",
    ".cargo",
    ".config",
    ".docker",
    ".gnupg",
    ".kube",
    ".local",
    ".local/share",
    ".password-store",
    ".ssh",
];

/// One thing in a command's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// Of the machine, to be read.
    ReadOnly(PathBuf),
    /// Of the machine, to be read and written.
    Writable(PathBuf),
    /// Empty, writable and gone with the command.
    Scratch(PathBuf),
    /// Empty and not to be written: covers what lies there on the machine.
    Nothing(PathBuf),
    Link {
        at: PathBuf,
        to: PathBuf,
    },
}

impl Mount {
    pub fn at(&self) -> &Path {
        match self {
            Mount::ReadOnly(at) | Mount::Writable(at) | Mount::Scratch(at) | Mount::Nothing(at) => at,
            Mount::Link { at, .. } => at,
        }
    }
}

/// What was found out before, which commands may have changed since.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// State directories of others in the workspace.
    pub(super) states: Arc<[PathBuf]>,
    /// Guarded files that are links.
    pub(super) links: Arc<[Link]>,
}

/// What is known of the machine when a policy is made.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub environment: BTreeMap<OsString, OsString>,
    /// What must not be seen, whatever else is shown: our state directory.
    pub hidden: Vec<PathBuf>,
    /// Files that must not be written or made, where the workspace would allow it: our settings.
    pub guarded: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub workspace: PathBuf,
    /// Where it is started.
    pub cwd: PathBuf,
    /// Parents before what lies in them.
    pub mounts: Vec<Mount>,
    pub network: Network,
    /// Private to the command, for what it would keep at home.
    pub home: PathBuf,
    /// Names that were not there before the command and must not be there after it.
    pub swept: Vec<PathBuf>,
    /// Links that must lead after the command where they led before.
    pub links: Arc<[Link]>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "the workspace `{}` holds the home directory: all of it would be open to the agent's commands",
        workspace.display()
    )]
    HoldsHome { workspace: PathBuf },
    #[error("the workspace `{}` is part of the system's directories", workspace.display())]
    System { workspace: PathBuf },
    #[error("below the workspace `{}` are the state directories of {count} other projects", workspace.display())]
    HoldsStates { workspace: PathBuf, count: usize },
}

impl Policy {
    /// The world of a command in `workspace`, which is given with its links resolved.
    pub fn new(host: &Host, workspace: &Path, network: Network) -> Result<Policy, PolicyError> {
        let links = host.guarded.iter().filter_map(|path| Link::at(path)).collect();
        let known = Known { links, ..Known::default() };
        Policy::showing(host, workspace, network, &More::default(), known)
    }

    /// The same with more to be seen, and with what was found out before.
    pub(super) fn showing(
        host: &Host,
        workspace: &Path,
        network: Network,
        more: &More,
        known: Known,
    ) -> Result<Policy, PolicyError> {
        let home = host.home();
        if home.starts_with(workspace) {
            return Err(PolicyError::HoldsHome { workspace: workspace.to_owned() });
        }
        if is_system(workspace) {
            return Err(PolicyError::System { workspace: workspace.to_owned() });
        }
        let mut world = World::default();
        world.system(&network);
        world.home(host, &home);
        for path in
            more.shown.iter().filter(|path| !more.is_seen_with_cwd(path, host, &home)).chain(&more.cwd)
        {
            world.show_more(path, workspace, &home);
        }
        world.workspace(host, workspace, &home);
        world.hide(host, workspace, &known.links);
        if known.states.len() > limits::STATES_MAX {
            return Err(PolicyError::HoldsStates {
                workspace: workspace.to_owned(),
                count: known.states.len(),
            });
        }
        known.states.iter().for_each(|state| world.cover(state));
        let cwd = more.cwd.clone().filter(|cwd| cwd.starts_with(workspace) || world.has(cwd));
        Ok(Policy {
            workspace: workspace.to_owned(),
            cwd: cwd.unwrap_or_else(|| workspace.to_owned()),
            mounts: world.in_order(),
            network,
            home,
            swept: world.swept,
            links: known.links,
        })
    }

    /// Everything a command may write to, for a layer that knows nothing of mounts.
    pub fn writable(&self) -> Vec<PathBuf> {
        let writable = self.mounts.iter().filter(|mount| match mount {
            Mount::Writable(_) | Mount::Scratch(_) => true,
            Mount::ReadOnly(_) | Mount::Nothing(_) | Mount::Link { .. } => false,
        });
        writable.map(|mount| mount.at().to_owned()).collect()
    }

    /// Places that are private to the command.
    pub fn scratch(&self) -> Vec<PathBuf> {
        let scratch = self.mounts.iter().filter(|mount| matches!(mount, Mount::Scratch(_)));
        scratch.map(|mount| mount.at().to_owned()).collect()
    }

    /// Everything a command may read, for a layer that knows nothing of mounts.
    pub fn readable(&self) -> Vec<PathBuf> {
        let readable = self.mounts.iter().filter(|mount| match mount {
            Mount::ReadOnly(_) | Mount::Writable(_) | Mount::Link { .. } => true,
            Mount::Scratch(_) | Mount::Nothing(_) => false,
        });
        readable.map(|mount| mount.at().to_owned()).collect()
    }
}

impl Host {
    pub(super) fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    fn get(&self, name: &str) -> Option<PathBuf> {
        let value = self.environment.get(OsStr::new(name)).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value)).filter(|path| path.is_absolute())
    }

    /// The home directory with its links resolved; one that is nowhere if there is none.
    fn home(&self) -> PathBuf {
        let home = self.get("HOME").unwrap_or_else(|| "/home/nobody".into());
        home.canonicalize().unwrap_or(home)
    }
}

/// A policy in the making: one mount for each place, the last word counts.
#[derive(Default)]
pub(super) struct World {
    pub(super) mounts: BTreeMap<PathBuf, Mount>,
    pub(super) swept: Vec<PathBuf>,
}

impl World {
    pub(super) fn add(&mut self, mount: Mount) {
        self.mounts.insert(mount.at().to_owned(), mount);
    }

    /// Shows what is there. A link is made anew, so that it means the same inside.
    fn show(&mut self, path: &Path) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {
                if let Ok(to) = fs::read_link(path) {
                    self.add(Mount::Link { at: path.to_owned(), to });
                }
            }
            Ok(_) => self.add(Mount::ReadOnly(path.to_owned())),
            Err(_) => {}
        }
    }

    /// Shows what is at a path, also where a link there leads out of what is shown.
    pub(super) fn show_content(&mut self, path: &Path) {
        if path.exists() {
            self.add(Mount::ReadOnly(path.to_owned()));
        }
    }

    /// Shows a setting of the system. One that is a link into what is shown stays one, which costs no mount.
    fn show_setting(&mut self, path: &Path) {
        match path.canonicalize() {
            Ok(to) if path.is_symlink() && self.shows(&to) => {
                self.add(Mount::Link { at: path.to_owned(), to })
            }
            Ok(_) => self.add(Mount::ReadOnly(path.to_owned())),
            Err(_) => {}
        }
    }

    /// Shows what the user's settings name, unless that is writable already, seen already, or all of the home directory.
    fn show_more(&mut self, path: &Path, workspace: &Path, home: &Path) {
        if !path.starts_with(workspace) && !home.starts_with(path) && !self.shows(path) {
            self.show_content(path);
        }
    }

    fn system(&mut self, network: &Network) {
        for path in SYSTEM {
            self.show(Path::new(path));
        }
        for name in ETC {
            self.show_setting(&Path::new("/etc").join(name));
        }
        if *network == Network::Full {
            self.show_content(Path::new("/etc/resolv.conf"));
        }
        self.add(Mount::Scratch("/tmp".into()));
        self.add(Mount::Scratch("/var/tmp".into()));
    }

    fn home(&mut self, host: &Host, home: &Path) {
        self.add(Mount::Scratch(home.to_owned()));
        if let Some(given) = host.get("HOME").filter(|given| given != home) {
            self.add(Mount::Link { at: given, to: home.to_owned() });
        }
        for name in HOME {
            self.show_content(&home.join(name));
        }
        let cargo = host.get("CARGO_HOME").unwrap_or_else(|| home.join(".cargo"));
        if cargo.is_dir() {
            // Cargo locks files beside its sources, so the directory itself is writable and private.
            self.add(Mount::Scratch(cargo.clone()));
            let shown = CARGO.iter().map(|name| cargo.join(name)).filter(|path| !names_token(path));
            shown.for_each(|path| self.show_content(&path));
        }
        self.show_content(&home.join(".rustup"));
        let path = host.environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let programs = std::env::split_paths(&path).filter(|path| path.is_absolute());
        for place in PLACES.iter().filter_map(|name| host.get(name)).chain(programs) {
            // A toolchain that is all of the home directory, or of the machine, is not one.
            let found = place.canonicalize().unwrap_or_default();
            let is_private = NO_PLACES.iter().any(|name| found == home.join(name));
            if !home.starts_with(&place) && !home.starts_with(&found) && !is_private && !self.shows(&place) {
                self.show_content(&place);
            }
        }
    }

    /// Is this seen already, as it is on the machine?
    pub(super) fn shows(&self, path: &Path) -> bool {
        let nearest = path.ancestors().find_map(|path| self.mounts.get(path));
        nearest.is_some_and(|mount| match mount {
            Mount::ReadOnly(_) | Mount::Writable(_) | Mount::Link { .. } => true,
            Mount::Scratch(_) | Mount::Nothing(_) => false,
        })
    }

    /// Is it there at all, if only as the way to something that is shown?
    fn has(&self, path: &Path) -> bool {
        self.shows(path) || self.mounts.contains_key(path)
    }

    fn workspace(&mut self, host: &Host, workspace: &Path, home: &Path) {
        let ours = host.hidden.iter().any(|hidden| workspace.starts_with(hidden));
        // A directory of our own does not belong to the repository that the state directory happens to lie in.
        let git = if ours { gitdirs::at(workspace) } else { gitdirs::above(workspace, home) };
        if let Some(git) = &git {
            if git.top() != workspace {
                // Without the rest of the checkout, git would take it for deleted.
                self.add(Mount::ReadOnly(git.top().to_owned()));
            }
            self.git(host, git);
        }
        self.add(Mount::Writable(workspace.to_owned()));
    }

    fn hide(&mut self, host: &Host, workspace: &Path, links: &[Link]) {
        for path in &host.guarded {
            if path.parent().is_some_and(|parent| parent.starts_with(workspace)) {
                self.guard(path, workspace, links.iter().find(|link| link.place() == path));
            }
        }
        for path in &host.hidden {
            self.cover(path);
            if !path.exists() && path.starts_with(workspace) {
                // What is not there would be believed once it is.
                self.swept.push(path.clone());
            }
        }
    }

    /// Lets nobody change a file that is in the workspace, make it, or exchange the link that it is.
    fn guard(&mut self, path: &Path, workspace: &Path, link: Option<&Link>) {
        let end = link.map_or(Some(path), Link::end).filter(|end| end.starts_with(workspace));
        match end.filter(|end| end.exists()).map(Path::to_owned) {
            Some(end) => {
                self.hold_above(&end);
                self.add(Mount::ReadOnly(end));
            }
            None if link.is_none() => self.swept.push(path.to_owned()),
            None => {}
        }
    }

    /// What is shown inside of it, like the workspace, is mounted over the emptiness.
    fn cover(&mut self, path: &Path) {
        if path.exists() && self.shows(path) {
            self.hold_above(path);
            self.add(Mount::Nothing(path.to_owned()));
        }
    }

    /// Makes the directories above a path mounts of their own: renaming one of them would take the path from under its cover.
    pub(super) fn hold_above(&mut self, path: &Path) {
        let above = path.ancestors().skip(1).take_while(|dir| !self.mounts.contains_key(*dir));
        let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
        let root = above.last().and_then(|dir| self.mounts.get(dir.parent()?));
        if matches!(root, Some(Mount::Writable(_))) {
            above.into_iter().for_each(|dir| self.add(Mount::Writable(dir)));
        }
    }

    /// Sorted by path, so that what lies in something comes after it.
    fn in_order(&mut self) -> Vec<Mount> {
        std::mem::take(&mut self.mounts).into_values().collect()
    }
}

/// Has somebody put a registry's token into cargo's settings, where it does not belong but may stand? Then those are not shown.
fn names_token(path: &Path) -> bool {
    let is_settings = path.extension().is_some_and(|extension| extension == "toml");
    let text = if is_settings { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    text.match_indices("token").any(|(at, word)| {
        let rest = text[at + word.len()..].trim_start_matches(['"', '\'', ' ', '\t']);
        rest.starts_with('=')
    })
}

pub(crate) fn is_system(workspace: &Path) -> bool {
    let system =
        ["/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"];
    // Below `/var`, `/run` and `/usr` there are places to work in; what is meant is the system's own.
    let whole = ["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys"];
    system.iter().any(|path| workspace == Path::new(path))
        || whole.iter().any(|path| workspace.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies below `base`, as one line each.
    fn below(policy: &Policy, base: &Path) -> Vec<String> {
        let line = |mount: &Mount| {
            let at = mount.at().strip_prefix(base).ok()?.display().to_string();
            Some(match mount {
                Mount::ReadOnly(_) => format!("read {at}"),
                Mount::Writable(_) => format!("write {at}"),
                Mount::Scratch(_) => format!("scratch {at}"),
                Mount::Nothing(_) => format!("nothing {at}"),
                Mount::Link { to, .. } => format!("link {at} to {}", to.display()),
            })
        };
        policy.mounts.iter().filter_map(line).collect()
    }

    fn host(base: &Path, state: &str) -> Host {
        let environment = [("HOME".into(), base.join("home").into()), ("PATH".into(), "/usr/bin".into())];
        let guarded = vec![base.join("repo/longhaul.yaml")];
        Host { environment: environment.into(), hidden: vec![base.join(state)], guarded }
    }

    fn ground(directories: &[&str], files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let base = outer.path().canonicalize().unwrap();
        directories.iter().for_each(|path| fs::create_dir_all(base.join(path)).unwrap());
        files.iter().for_each(|(path, text)| fs::write(base.join(path), text).unwrap());
        (outer, base)
    }

    /// A11, A12, A60: in place, the state directory is covered, and of `.git` and the settings only what is harmless can
    /// be written.
    #[test]
    fn in_place_the_state_directory_is_nothing() {
        let directories = [
            "home/.cargo/registry",
            "home/.cargo/bin",
            "home/.ssh",
            "repo/.git/hooks",
            "repo/.longhaul/runs",
        ];
        let (_outer, base) = ground(&directories, &[("repo/.git/config", "")]);
        // One that is named twice, or lies in another that is hidden, is there all the same: nothing of it is taken away.
        let mut host = host(&base, "repo/.longhaul");
        host.hidden.extend(["repo/.longhaul", "repo/.longhaul/runs"].map(|path| base.join(path)));
        let policy = Policy::new(&host, &base.join("repo"), Network::None).unwrap();
        let expected = [
            "scratch home",
            "scratch home/.cargo",
            "read home/.cargo/bin",
            "read home/.cargo/registry",
            "write repo",
            "write repo/.git",
            "read repo/.git/config",
            "read repo/.git/hooks",
            "nothing repo/.git/info",
            "nothing repo/.git/modules",
            "nothing repo/.git/worktrees",
            "nothing repo/.longhaul",
        ];
        assert_eq!(below(&policy, &base), expected);
        let git = base.join("repo/.git");
        let swept = ["commondir", "config.worktree", "gitdir", "longhaul-fetched", "longhaul-worktree"];
        let swept = swept.map(|name| git.join(name));
        assert_eq!(policy.swept, [&swept[..], &[base.join("repo/longhaul.yaml")]].concat());
        // Whoever says that he is a run's worktree is not believed.
        fs::write(git.join("longhaul-worktree"), format!("{}/worktrees/x\n", git.display())).unwrap();
        let policy = Policy::new(&host, &base.join("repo"), Network::None).unwrap();
        assert!(below(&policy, &git).contains(&"nothing modules".to_owned()));
        fs::remove_file(git.join("longhaul-worktree")).unwrap();
        // Neither where git looks for objects, nor what it takes for others, can be exchanged with what lies above it.
        fs::create_dir_all(git.join("objects/info")).unwrap();
        fs::create_dir_all(git.join("refs")).unwrap();
        let policy = Policy::new(&host, &base.join("repo"), Network::None).unwrap();
        let held = ["write objects", "read objects/info", "write refs", "nothing refs/replace"];
        assert_eq!(below(&policy, &git)[5..9], held);
    }

    /// A11: settings that are a link are held where they are, and the link is looked at afterwards.
    #[test]
    fn settings_may_be_a_link() {
        let (_outer, base) = ground(&["home", "repo/conf"], &[("repo/conf/l.yaml", "")]);
        std::os::unix::fs::symlink("conf/l.yaml", base.join("repo/longhaul.yaml")).unwrap();
        let policy = Policy::new(&host(&base, "state"), &base.join("repo"), Network::None).unwrap();
        let expected = ["scratch home", "write repo", "write repo/conf", "read repo/conf/l.yaml"];
        assert_eq!(below(&policy, &base), expected);
        assert_eq!(policy.links[..], [Link::at(&base.join("repo/longhaul.yaml")).unwrap()]);
        assert!(policy.swept.is_empty());
        // One that leads nowhere leads nowhere afterwards.
        fs::remove_file(base.join("repo/conf/l.yaml")).unwrap();
        let policy = Policy::new(&host(&base, "state"), &base.join("repo"), Network::None).unwrap();
        assert_eq!(policy.links[0].end(), None);
        assert!(policy.swept.is_empty(), "what it may lead to is looked at through it");
    }

    /// A01: a token in cargo's settings is not seen; settings without one are.
    #[test]
    fn a_token_among_cargos_settings_is_not_shown() {
        for (text, is_shown) in [
            ("[registries.x]\ntoken = \"s\"\n", false),
            ("registries = { x = { \"token\"=\"s\" } }\n", false),
            ("[registry]\nglobal-credential-providers = [\"cargo:token\"]\n", true),
        ] {
            let (_outer, base) = ground(&["home/.cargo", "repo"], &[("home/.cargo/config.toml", text)]);
            let policy = Policy::new(&host(&base, "state"), &base.join("repo"), Network::None).unwrap();
            let line = "read home/.cargo/config.toml".to_owned();
            assert_eq!(below(&policy, &base).contains(&line), is_shown, "{text}");
        }
    }

    /// A48: a program that is started in the user's checkout, as a hook is, reads its `.git` and can commit in the worktree; with
    /// branches that are kept in another way nothing is mounted for them.
    #[test]
    fn from_the_users_checkout_git_is_only_read() {
        let own = "repo/.git/worktrees/run_x";
        let directories = [
            "home",
            own,
            "repo/.git/objects",
            "repo/.git/refs",
            "repo/.git/reftable",
            "state/workspace/run_x",
        ];
        let files = [
            ("repo/.git/HEAD", "ref: refs/heads/.invalid\n"),
            ("repo/.git/index", ""),
            ("repo/.git/refs/heads", "this repository uses the reftable format"),
        ];
        let (_outer, base) = ground(&directories, &files);
        let tree = base.join("state/workspace/run_x");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", base.join(own).display())).unwrap();
        fs::write(base.join(own).join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(base.join(own).join("commondir"), "../..\n").unwrap();
        let shown = |more: &More| {
            let host = host(&base, "state");
            let policy = Policy::showing(&host, &tree, Network::None, more, Known::default()).unwrap();
            let shown = below(&policy, &base.join("repo"));
            assert!(!shown.iter().any(|line| line.contains("refs/heads")), "{shown:?}");
            shown
        };
        assert!(shown(&More::default()).contains(&"write .git".to_owned()));
        let from_there = shown(&More { cwd: Some(base.join("repo")), ..More::default() });
        for line in ["read .git", "write .git/objects", "write .git/refs", "write .git/reftable"] {
            assert!(from_there.contains(&line.to_owned()), "{line}: {from_there:?}");
        }
        assert!(!from_there.contains(&"nothing .git/modules".to_owned()), "{from_there:?}");
    }

    /// A01, A31: keys beside programs are not shown because a search path names them.
    #[test]
    fn what_the_search_path_names_is_not_always_programs() {
        let (_outer, base) =
            ground(&["home/.ssh", "home/.cargo/bin", "home/.config/x/bin", "home/bin", "repo"], &[]);
        let home = base.join("home");
        std::os::unix::fs::symlink(".ssh", home.join("link")).unwrap();
        std::os::unix::fs::symlink(".", home.join("all")).unwrap();
        let places = ["", ".ssh", "link", "all", ".cargo", ".config", ".config/x/bin", "bin"];
        let path = std::env::join_paths(places.map(|name| home.join(name))).unwrap();
        let mut host = host(&base, "state");
        host.environment.insert("PATH".into(), path);
        let policy = Policy::new(&host, &base.join("repo"), Network::None).unwrap();
        let expected = ["scratch ", "scratch .cargo", "read .cargo/bin", "read .config/x/bin", "read bin"];
        assert_eq!(below(&policy, &home), expected);
    }

    /// A12, A60: whoever writes to a state directory answers for a person; nobody writes to those of others.
    #[test]
    fn the_state_of_others_is_nothing_too() {
        let (_outer, base) = ground(&["home", "repo/.longhaul", "repo/sub/.longhaul"], &[]);
        let others =
            ["repo/.longhaul", "repo/sub/.longhaul", "repo/gone/.longhaul"].map(|path| base.join(path));
        let policy = Policy::showing(
            &host(&base, "state"),
            &base.join("repo"),
            Network::None,
            &More::default(),
            Known { states: others.into(), ..Known::default() },
        );
        let expected = [
            "scratch home",
            "write repo",
            "nothing repo/.longhaul",
            "write repo/sub",
            "nothing repo/sub/.longhaul",
        ];
        assert_eq!(below(&policy.unwrap(), &base), expected);
        let many = vec![base.join("repo/.longhaul"); limits::STATES_MAX + 1];
        let known = Known { states: many.into(), ..Known::default() };
        let host = host(&base, "state");
        let refused = Policy::showing(&host, &base.join("repo"), Network::None, &More::default(), known);
        assert!(matches!(refused, Err(PolicyError::HoldsStates { count: 65, .. })));
    }

    /// Of a hidden directory that a hook is run in, only what it shows is there.
    #[test]
    fn a_hidden_directory_can_be_worked_in() {
        let directories = ["home/.config/own/hooks", "repo"];
        let (_outer, base) = ground(&directories, &[("home/.config/own/longhaul.yaml", "key: x")]);
        let own = base.join("home/.config/own");
        let host = host(&base, "home/.config/own");
        let more = More { cwd: Some(own.clone()), shown: vec![own.join("hooks")], ..More::default() };
        let policy =
            Policy::showing(&host, &base.join("repo"), Network::None, &more, Known::default()).unwrap();
        assert_eq!(policy.cwd, own);
        let expected =
            ["scratch home", "nothing home/.config/own", "read home/.config/own/hooks", "write repo"];
        assert_eq!(below(&policy, &base), expected);
    }

    /// A link of a project that a hook names shows nothing that it leads to.
    #[test]
    fn a_link_beside_a_projects_settings_opens_nothing() {
        let (_outer, base) = ground(&["home/.ssh", "home/project/hooks", "repo"], &[("home/.ssh/id", "key")]);
        let project = base.join("home/project");
        std::os::unix::fs::symlink("../.ssh", project.join("link")).unwrap();
        let shown = vec![project.join("link"), project.join("hooks")];
        let more = More { cwd: Some(project.clone()), shown, ..More::default() };
        let policy = Policy::showing(
            &host(&base, "state"),
            &base.join("repo"),
            Network::None,
            &more,
            Known::default(),
        )
        .unwrap();
        assert_eq!(below(&policy, &base), ["scratch home", "read home/project", "write repo"]);
    }

    /// A12, A48: a worktree below the state directory sees its repository's `.git` and nothing else of either.
    #[test]
    fn a_worktree_sees_its_repository_and_not_the_state_directory() {
        let own = "repo/.git/worktrees/run_x";
        let directories = [
            "home",
            own,
            "repo/.git/worktrees/users",
            "repo/.git/worktrees/odd",
            "repo/.git/refs/heads/names",
            "repo/.git/hooks",
            "repo/.git/info",
            "repo/.git/logs",
            "repo/.git/objects/info",
            "repo/.git/rebase-merge",
            "repo/.git/refs/heads",
            "state/workspace/run/run_x",
            "state/runs",
        ];
        let files = [
            ("repo/.git/config", ""),
            ("repo/.git/HEAD", "ref: refs/heads/main\n"),
            ("repo/.git/MERGE_HEAD", ""),
            ("repo/.git/index", ""),
            ("repo/.git/refs/heads/names/below", ""),
            ("repo/.git/worktrees/odd/HEAD", "ref: refs/heads/names\n"),
            ("repo/.git/worktrees/odd/gitdir", "/odd/.git\n"),
            ("repo/.git/refs/heads/main", ""),
            ("repo/.git/worktrees/users/HEAD", "ref: refs/heads/packed\n"),
            ("repo/.git/worktrees/users/gitdir", "/elsewhere/.git\n"),
            ("repo/.git/worktrees/run_x/HEAD", "ref: refs/heads/agent/x\n"),
        ];
        let (_outer, base) = ground(&directories, &files);
        let tree = base.join("state/workspace/run/run_x");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", base.join(own).display())).unwrap();
        fs::write(base.join(own).join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(base.join(own).join("commondir"), "../..\n").unwrap();
        let policy = Policy::new(&host(&base, "state"), &tree, Network::None).unwrap();
        let expected = [
            "scratch home",
            "write repo/.git",
            "read repo/.git/HEAD",
            "read repo/.git/config",
            "read repo/.git/hooks",
            "read repo/.git/index",
            "read repo/.git/info",
            "nothing repo/.git/modules",
            "write repo/.git/objects",
            "read repo/.git/objects/info",
            "read repo/.git/rebase-merge",
            "write repo/.git/refs",
            "write repo/.git/refs/heads",
            "read repo/.git/refs/heads/main",
            "nothing repo/.git/refs/heads/packed",
            "nothing repo/.git/refs/replace",
            "read repo/.git/worktrees",
            "write repo/.git/worktrees/run_x",
            "read repo/.git/worktrees/run_x/commondir",
            "read repo/.git/worktrees/run_x/gitdir",
            "write state/workspace/run/run_x",
            "read state/workspace/run/run_x/.git",
        ];
        assert_eq!(below(&policy, &base), expected);
        // From the user's checkout nothing more can be changed.
        let more = More { cwd: Some(base.join("repo")), ..More::default() };
        let policy = Policy::showing(&host(&base, "state"), &tree, Network::None, &more, Known::default());
        let shown = below(&policy.unwrap(), &base.join("repo/.git"));
        for line in
            ["read ", "write refs", "read refs/heads/main", "nothing refs/heads/packed", "read objects/info"]
        {
            assert!(shown.contains(&line.to_owned()), "{line}: {shown:?}");
        }
        // A forged link leads nowhere.
        fs::write(tree.join(".git"), format!("gitdir: {}\n", base.join("home").display())).unwrap();
        let policy = Policy::new(&host(&base, "state"), &tree, Network::None).unwrap();
        assert_eq!(below(&policy, &base), ["scratch home", "write state/workspace/run/run_x"]);
    }

    /// A12: a state directory deep in the workspace stays under its cover: no directory above it can be moved. What of the
    /// user's own is not there yet cannot be made.
    #[test]
    fn what_lies_above_the_state_directory_is_held() {
        let (_outer, base) = ground(&["home", "repo/sub/dir/state"], &[]);
        let mut host = host(&base, "repo/sub/dir/state");
        host.hidden.push(base.join("repo/.config/longhaul"));
        let policy = Policy::new(&host, &base.join("repo"), Network::None).unwrap();
        let expected = [
            "scratch home",
            "write repo",
            "write repo/sub",
            "write repo/sub/dir",
            "nothing repo/sub/dir/state",
        ];
        assert_eq!(below(&policy, &base), expected);
        assert_eq!(policy.swept, ["repo/longhaul.yaml", "repo/.config/longhaul"].map(|path| base.join(path)));
    }

    /// A12: of the machine's certificates what is public is there, and no private key.
    #[test]
    fn private_keys_of_the_machine_are_not_shown() {
        let (_outer, base) = ground(&["home", "repo"], &[]);
        let policy = Policy::new(&host(&base, "state"), &base.join("repo"), Network::Full).unwrap();
        let readable = policy.readable();
        for hidden in
            ["/etc/ssl/private/ssl-cert.key", "/etc/pki/tls/private/localhost.key", "/etc/shadow", "/etc/ssh"]
        {
            let shown = readable.iter().find(|mount| Path::new(hidden).starts_with(mount));
            assert_eq!(shown, None, "{hidden}");
        }
        let certificates = Path::new("/etc/ssl/certs");
        assert_eq!(readable.iter().any(|mount| mount == certificates), certificates.exists());
    }

    /// A106: below a checkout's root the rest of it is to be read; nobody works in the home directory or the system's.
    #[test]
    fn workspaces_that_hold_too_much_are_refused() {
        let (_outer, base) = ground(&["home/repo/.git/hooks", "home/repo/.git/info", "home/repo/sub"], &[]);
        let host = host(&base, "state");
        let refused = |path: &Path| Policy::new(&host, path, Network::None).unwrap_err();
        assert!(matches!(refused(&base.join("home")), PolicyError::HoldsHome { .. }));
        assert!(matches!(refused(&base), PolicyError::HoldsHome { .. }));
        assert!(matches!(refused(Path::new("/etc/x")), PolicyError::System { .. }));
        let policy = Policy::new(&host, &base.join("home/repo/sub"), Network::None).unwrap();
        let shown = below(&policy, &base);
        assert!(
            shown.contains(&"read home/repo".to_owned()) && shown.contains(&"write home/repo/sub".to_owned())
        );
        assert!(!policy.mounts.contains(&Mount::ReadOnly("/etc/resolv.conf".into())));
        let open = Policy::new(&host, &base.join("home/repo/sub"), Network::Full).unwrap();
        assert_eq!(
            open.mounts.contains(&Mount::ReadOnly("/etc/resolv.conf".into())),
            Path::new("/etc/resolv.conf").exists()
        );
    }
}
