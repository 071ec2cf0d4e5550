//! A bound on the number of processes for root, to whom the kernel's own limit does not apply.
//!
//! Owns one control group for each command, where such groups can be made: in the hierarchy that only counts processes. Refuses
//! to touch a unified hierarchy, in which a group of ours would take the command away from whoever counts the rest.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const HIERARCHY: &str = "/sys/fs/cgroup/pids";
const PREFIX: &str = "longhaul-";

/// The prefix with a number that no process has.
const NOBODYS: &str = "longhaul-0-";

/// Enters the group and becomes the command, so that nothing of it is ever outside. What cannot enter is not run. Who moves
/// itself, its one thread, waits for nobody; to move a whole process by its number, all processors have to be waited for.
const ENTER: &str = "echo 0 > \"$0\" && exec \"$@\"";

/// A group of processes that can only become so many. Taken away when dropped, once they are gone.
#[derive(Debug)]
pub(super) struct Group(PathBuf);

/// Where groups can be made, if we need any and they hold.
pub(super) fn place() -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = ours.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "pids").then(|| path.trim_start_matches('/').to_owned())
    })?;
    let place = Path::new(HIERARCHY).join(own);
    let group = Group::new(&place, 1).ok()?;
    // One process and no other: what forks must fail, what does not must not.
    let runs = |text: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        let status = group.around(&command).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    (runs(":") && !runs("(:)& wait $!")).then_some(place)
}

impl Group {
    pub(super) fn new(place: &Path, processes: u64) -> std::io::Result<Group> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        sweep(place);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = Group(place.join(format!("{PREFIX}{}-{number}", std::process::id())));
        fs::create_dir(&group.0)?;
        fs::write(group.0.join("pids.max"), processes.to_string())?;
        Ok(group)
    }

    /// The same command within the group; its number stays the one that is started.
    pub(super) fn around(&self, command: &Command) -> Command {
        let mut outer = Command::new("/bin/sh");
        outer.args([OsStr::new("-c"), OsStr::new(ENTER), self.0.join("tasks").as_os_str()]);
        outer.arg(command.get_program()).args(command.get_args()).env_clear();
        outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            outer.current_dir(directory);
        }
        outer
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that are over are counted a moment longer. Under a name of nobody's, it goes when the next one is made.
        if fs::remove_dir(&self.0).is_err()
            && let Some(name) = self.0.file_name().and_then(OsStr::to_str)
        {
            let name = name.replacen(PREFIX, NOBODYS, 1);
            fs::rename(&self.0, self.0.with_file_name(name)).ok();
        }
    }
}

/// Takes away what harnesses that are gone have left. A group with a process in it cannot be removed.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F41: root's processes are bounded where groups can be made, and no group is left behind.
    #[test]
    fn a_group_bounds_its_processes_and_goes() {
        let Some(place) = place() else {
            return eprintln!("SKIP a_group_bounds_its_processes_and_goes: needs root and a pids hierarchy");
        };
        let group = Group::new(&place, 3).unwrap();
        let path = group.0.clone();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "for i in 1 2 3 4 5; do sleep 0.2 & done; wait"]);
        let output = group.around(&command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!output.status.success() && said.contains("fork"), "{said}");
        drop(group);
        assert!(!path.exists());
    }
}
