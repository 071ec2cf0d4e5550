//! A git that can start nothing but git.
//!
//! Owns the wall around every git that we run ourselves and that has nobody to reach. Git starts programs for more settings than
//! anybody can name: filters, hooks, drivers, helpers, and the next version's. An agent can write the settings of a repository
//! that it made, also while we look. So the kernel is told which programs there are for that git: git itself and its loader.
//! Refuses to be all there is: a kernel without Landlock has no wall, and what is known to start programs is replaced by the
//! caller in any case.

use std::io;
use std::process::{Child, Command};

/// Starts it behind the wall, if this machine has one.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    #[cfg(target_os = "linux")]
    if let Some(wall) = linux::wall() {
        return match wall.spawn(command) {
            // Not the git that the wall was made for.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => command.spawn(),
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

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::OnceLock;
    use std::thread;

    use landlock::{
        AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
        RulesetStatus, path_beneath_rules,
    };

    use crate::limits;

    /// The programs that may be started.
    pub(super) struct Wall(Vec<PathBuf>);

    /// What this machine has; found out once, because it asks git.
    pub(super) fn wall() -> Option<&'static Wall> {
        static WALL: OnceLock<Option<Wall>> = OnceLock::new();
        WALL.get_or_init(Wall::found).as_ref()
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
            let printed = wall.spawn(&mut asked).ok()?.wait_with_output().ok()?;
            let mut own = printed.stdout;
            own.truncate(own.trim_ascii_end().len());
            let own = PathBuf::from(std::ffi::OsString::from_vec(own));
            // By this name git starts itself.
            wall.0.push(own.join("git").canonicalize().ok()?);
            printed.status.success().then_some(wall)
        }

        /// A domain is one thread's, and what that thread starts is born into it.
        pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
            let inside = || {
                self.put_up().map_err(io::Error::other)?;
                command.spawn()
            };
            let joined = thread::scope(|scope| scope.spawn(inside).join());
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }

        fn put_up(&self) -> Result<(), RulesetError> {
            let rules = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                // Whoever handles nothing of moving between directories forbids it, and git moves objects so.
                .handle_access(AccessFs::Execute | AccessFs::Refer)?
                .create()?
                .add_rules(path_beneath_rules(["/"], AccessFs::Refer))?
                .add_rules(path_beneath_rules(&self.0, AccessFs::Execute))?;
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
