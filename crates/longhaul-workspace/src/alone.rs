//! A git that can start nothing but git, and in a workspace of ours reaches nothing but that.
//!
//! Owns the wall around every git that we run ourselves and that has nobody to reach. Git starts programs for more settings than
//! anybody can name: filters, hooks, drivers, helpers, and the next version's. An agent can write the settings of a repository
//! that it made, also while we look. So the kernel is told which programs there are for that git: git itself and its loader.
//! It can also put links in the place of git's own files, which git follows: where an agent works, the kernel is told what else
//! there is, too.
//! Refuses to be all there is: a kernel without Landlock has no wall, and what is known to start programs is replaced by the
//! caller in any case.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};

/// What a git may reach, beside the system's files and the user's settings for git.
pub(crate) struct Bounds {
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
}

/// Starts it behind the wall, if this machine has one.
pub(crate) fn spawn(command: &mut Command, bounds: Option<&Bounds>) -> io::Result<Child> {
    #[cfg(target_os = "linux")]
    if let Some(wall) = linux::wall() {
        let bounds = bounds.filter(|_| linux::files().is_some());
        return match wall.spawn(command, bounds) {
            // Not the git that the wall was made for. Where an agent works, it is that one or none.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && bounds.is_none() => {
                command.spawn()
            }
            spawned => spawned,
        };
    }
    command.spawn()
}

/// Has this machine one?
#[cfg(test)]
pub(crate) fn has_wall() -> bool {
    #[cfg(target_os = "linux")]
    return linux::wall().is_some();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Does it hold what is reached, too?
pub(crate) fn holds_files() -> bool {
    #[cfg(target_os = "linux")]
    return linux::wall().is_some() && linux::files().is_some();
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs::File;
    use std::io;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::OnceLock;
    use std::thread;

    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError, RulesetStatus, path_beneath_rules,
    };

    use super::Bounds;
    use crate::checkout::{path_of, split};
    use crate::git::user_settings;
    use crate::limits;

    /// The first with all that is told here: Linux 6.2.
    const FILES: ABI = ABI::V3;

    /// Of the system, what git, its libraries and its settings are.
    const SYSTEM: &[&str] = &[
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/gnu", "/proc", "/sys",
    ];

    /// Devices that hold nothing and start nothing. A log of git's could be a link to another.
    const DEVICES: &[&str] =
        &["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

    /// Of where git is, what belongs to it.
    const BESIDE_GIT: &[&str] = &["bin", "lib", "lib64", "libexec", "share/git-core", "share/locale", "etc"];

    /// The programs that may be started.
    pub(super) struct Wall(Vec<PathBuf>);

    /// What this machine has; found out once, because it asks git.
    pub(super) fn wall() -> Option<&'static Wall> {
        static WALL: OnceLock<Option<Wall>> = OnceLock::new();
        WALL.get_or_init(Wall::found).as_ref()
    }

    /// What every git may read, as far as it is known; `None` where files cannot be held, or git would not work then. Found out once,
    /// and only where somebody asks: it takes git a while to name the user's settings.
    pub(super) fn files() -> Option<&'static [PathBuf]> {
        static READ: OnceLock<Option<Vec<PathBuf>>> = OnceLock::new();
        READ.get_or_init(|| wall()?.readable()).as_deref()
    }

    impl Wall {
        /// `None` where it would not hold, or where git itself would not work behind it: one that is a script, say.
        fn found() -> Option<Wall> {
            let path = std::env::var_os("PATH")?;
            let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
            let git = places.map(|place| place.join("git")).find(|git| git.is_file())?.canonicalize().ok()?;
            let mut wall = Wall(vec![git.clone()]);
            wall.0.extend(loader(&git)?);
            let mut asked = Command::new(&git);
            asked.arg("--exec-path").env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
            let printed = wall.spawn(&mut asked, None).ok()?.wait_with_output().ok()?;
            let mut own = printed.stdout;
            own.truncate(own.trim_ascii_end().len());
            let own = PathBuf::from(std::ffi::OsString::from_vec(own));
            // By this name git starts itself.
            wall.0.push(own.join("git").canonicalize().ok()?);
            printed.status.success().then_some(wall)
        }

        fn readable(&self) -> Option<Vec<PathBuf>> {
            let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
            let prefixes = self.0.iter().filter_map(|program| program.parent()?.parent());
            read.extend(prefixes.flat_map(|prefix| BESIDE_GIT.iter().map(|name| prefix.join(name))));
            let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            read.extend(std::env::split_paths(&libraries).filter(|place| place.is_absolute()));
            read.extend(self.settings(&["--list"]));
            let nowhere = Bounds { read: Vec::new(), write: Vec::new() };
            let mut asked = self.git(&["config", "--list", "--name-only"])?;
            let inside = || {
                self.put_up(Some((&nowhere, &read))).map_err(io::Error::other)?;
                asked.stdout(Stdio::null()).status()
            };
            let joined = thread::scope(|scope| scope.spawn(inside).join()).ok()?;
            joined.is_ok_and(|status| status.success()).then_some(read)
        }

        /// Git with the user's settings and no repository.
        fn git(&self, words: &[&str]) -> Option<Command> {
            let mut git = Command::new(self.0.first()?);
            git.args(words).current_dir("/").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
            let passed = ["PATH", "HOME", "XDG_CONFIG_HOME", "LD_LIBRARY_PATH"];
            git.envs(passed.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
            Some(git)
        }

        /// The files that the user's settings for git are in, also those that hold only in some places, and those that they name.
        fn settings(&self, words: &[&str]) -> BTreeSet<PathBuf> {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let own = user_settings();
            // One by one: there may be keys beside them, and one of them may be a link.
            let mut found: BTreeSet<PathBuf> =
                ["config", "ignore", "attributes"].map(|name| own.join(name)).into();
            found.insert(home.join(".gitconfig"));
            for key in ["core.excludesFile", "core.attributesFile"] {
                let asked = self.git(&["config", "--null", "--includes", "--type=path", "--get-all", key]);
                let named = asked
                    .and_then(|mut git| git.output().ok())
                    .map(|output| output.stdout)
                    .unwrap_or_default();
                found.extend(split(&named).map(path_of).filter(|path| path.is_absolute()));
            }
            let mut left: Vec<Vec<OsString>> = vec![words.iter().map(OsString::from).collect()];
            let mut asked = 0;
            while let Some(words) = left.pop().filter(|_| asked < limits::SETTINGS_FILES_MAX) {
                asked += 1;
                let Some(mut git) = self.git(&["config", "--null", "--show-origin", "--includes"]) else {
                    break;
                };
                let printed = git.args(words).output().map(|output| output.stdout).unwrap_or_default();
                let words: Vec<&[u8]> = split(&printed).collect();
                for pair in words.chunks_exact(2) {
                    let origin = pair[0].strip_prefix(b"file:").map(path_of).unwrap_or_default();
                    let line = pair[1].splitn(2, |byte| *byte == b'\n').collect::<Vec<_>>();
                    let [key, value] = line[..] else { continue };
                    found.insert(origin.clone());
                    if key.starts_with(b"include") && key.ends_with(b".path") {
                        let named = value
                            .strip_prefix(b"~/")
                            .map_or_else(|| path_of(value), |rest| home.join(path_of(rest)));
                        let named = origin.parent().unwrap_or(Path::new("/")).join(named);
                        if found.insert(named.clone()) {
                            left.push(["--list".into(), "--file".into(), named.into()].into());
                        }
                    }
                }
            }
            found
        }

        /// A domain is one thread's, and what that thread starts is born into it.
        pub(super) fn spawn(&self, command: &mut Command, bounds: Option<&Bounds>) -> io::Result<Child> {
            let bounds = bounds.zip(bounds.and_then(|_| files()));
            let inside = || {
                self.put_up(bounds).map_err(io::Error::other)?;
                command.spawn()
            };
            let joined = thread::scope(|scope| scope.spawn(inside).join());
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }

        /// With what may be reached, and what may be read in any case.
        fn put_up(&self, bounds: Option<(&Bounds, &[PathBuf])>) -> Result<(), RulesetError> {
            let held = match bounds {
                Some(_) => AccessFs::from_all(FILES),
                // Whoever handles nothing of moving between directories forbids it, and git moves objects so.
                None => AccessFs::Execute | AccessFs::Refer,
            };
            let rules = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(held)?
                .create()?
                .add_rules(path_beneath_rules(&self.0, AccessFs::Execute))?;
            let rules = match bounds {
                None => rules.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?,
                Some((bounds, system)) => {
                    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
                    let device = read | AccessFs::WriteFile | AccessFs::Truncate;
                    let read_only = system.iter().chain(&self.0).chain(&bounds.read);
                    rules
                        .add_rules(path_beneath_rules(DEVICES, device))?
                        .add_rules(path_beneath_rules(read_only, read))?
                        .add_rules(path_beneath_rules(&bounds.write, read | AccessFs::from_write(FILES)))?
                }
            };
            let status = rules.restrict_self()?;
            debug_assert_eq!(status.ruleset, RulesetStatus::FullyEnforced);
            Ok(())
        }
    }

    /// The program that the kernel starts in place of a dynamic one (ELF, `PT_INTERP`): none for a static one. `None` if it is no
    /// program that can be read.
    fn loader(program: &Path) -> Option<Option<PathBuf>> {
        const LOADER: u64 = 3;
        let file = File::open(program).ok()?;
        let number = |at: u64, size: usize| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes[..size], at).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        // 64 bits, the lowest first: all machines that have Landlock and that we build for.
        if number(0, 6)? != 0x01_02_46_4c_45_7f {
            return None;
        }
        let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let header = |index: u64| first.checked_add(index * size);
        let Some(found) = (0..count).filter_map(header).find(|at| number(*at, 4) == Some(LOADER)) else {
            return Some(None);
        };
        let (at, length) = (number(found + 8, 8)?, usize::try_from(number(found + 32, 8)?).ok()?);
        let mut name = vec![0; length.min(limits::LOADER_NAME_BYTES_MAX)];
        file.read_exact_at(&mut name, at).ok()?;
        while name.pop_if(|byte| *byte == 0).is_some() {}
        Some(Some(PathBuf::from(std::ffi::OsString::from_vec(name))))
    }
}
