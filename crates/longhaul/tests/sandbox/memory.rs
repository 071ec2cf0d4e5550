//! What is in longhaul's own memory stays there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::rig::{LONGHAUL, has};

const CANARY: &str = "CANARY-7d1f";

const SCRIPT: &str = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'touch started; sleep 600' } } ] }, \
     { text: ok } ] } ]";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// As an ordinary user: root reads everything.
fn ordinary(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    command
}

fn start(mut command: Command, dir: &Path) -> Running {
    command.current_dir(dir).env("HOME", dir).env("LONGHAUL_SANDBOX", "off").env("SECRET", CANARY);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// What another process of the same user reads of one.
fn read_by_another(process: &Running, file: &str) -> String {
    let output = ordinary(Path::new("cat")).arg(format!("/proc/{}/{file}", process.0.id())).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A36, A96, A99: a process of the same user does not read longhaul's environment or memory, as it does any other's, and
/// there is no core dump of it.
#[test]
fn nobody_reads_our_memory() {
    if rustix::process::geteuid().is_root() && !has("setpriv") {
        return eprintln!("SKIP nobody_reads_our_memory: needs setpriv to become an ordinary user");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("longhaul");
    fs::copy(LONGHAUL, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("s.yaml"), SCRIPT).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    }
    let mut sleep = ordinary(Path::new("sleep"));
    sleep.arg("600");
    let control = start(sleep, dir.path());
    let patience = Instant::now() + Duration::from_secs(60);
    while !read_by_another(&control, "environ").contains(CANARY) {
        assert!(Instant::now() < patience, "the control: any other process's environment is read");
    }
    let mut run = ordinary(&program);
    run.args(["run", "x", "--in-place", "--model", "scripted/s.yaml"]);
    let longhaul = start(run, dir.path());
    while !dir.path().join("started").exists() {
        assert!(Instant::now() < patience, "the run did not begin");
    }
    assert_eq!(read_by_another(&longhaul, "environ"), "");
    assert_eq!(read_by_another(&longhaul, "maps"), "");
    let limits = fs::read_to_string(format!("/proc/{}/limits", longhaul.0.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
