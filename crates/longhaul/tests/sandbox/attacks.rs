//! The attack suite, as `longhaul doctor --attack-suite` runs it on anybody's machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::rig::{LONGHAUL, can_hold};

/// The findings, and the exit code.
fn suite(mut command: Command, dir: &Path, more: &[&str]) -> (Vec<Value>, i32) {
    let output = command
        .args(["doctor", "--attack-suite", "--json"])
        .args(more)
        .current_dir(dir)
        .env("HOME", dir)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_str(&text).unwrap_or_else(|_| panic!("{told}")), output.status.code().unwrap_or(-1))
}

fn of<'a>(findings: &'a [Value], verdict: &str) -> Vec<&'a Value> {
    findings.iter().filter(|finding| finding["verdict"] == verdict).collect()
}

/// Every case that could be tried succeeded unheld and failed held; what could not be tried is said.
fn assert_held(findings: &[Value], code: i32, least: usize) {
    assert_eq!((of(findings, "broken"), of(findings, "void")), (Vec::new(), Vec::new()));
    for skipped in of(findings, "skipped") {
        eprintln!("SKIP {} {}: {}", skipped["row"], skipped["attack"], skipped["detail"]);
    }
    assert!(of(findings, "held").len() >= least, "{findings:?}");
    assert_eq!(code, 0);
}

/// A01, A03, A06, A07, A11, A12, A14, A27, A31, A32, A33, A34, A35, A36, A38, A41, A48, A60, A66, A71, A96, A99: nobody
/// gets out, whoever runs this test.
#[test]
fn every_attack_is_held() {
    if !can_hold("every_attack_is_held") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (findings, code) = suite(Command::new(LONGHAUL), dir.path(), &[]);
    assert_held(&findings, code, 40);
}

/// The same for an ordinary user, when root runs the tests.
#[test]
fn every_attack_of_an_ordinary_user_is_held() {
    let test = "every_attack_of_an_ordinary_user_is_held";
    if !rustix::process::geteuid().is_root() || !super::rig::has("setpriv") {
        return eprintln!("SKIP {test}: needs root and setpriv to become another user");
    }
    if !can_hold(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The program may lie where only root comes.
    let program = dir.path().join("longhaul");
    std::fs::copy(LONGHAUL, &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    let (findings, code) = suite(command, dir.path(), &[]);
    assert_held(&findings, code, 40);
}

/// The suite is worth something only if it notices that nothing holds.
#[test]
fn without_a_sandbox_every_attack_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let (findings, code) = suite(Command::new(LONGHAUL), dir.path(), &["--sandbox", "off"]);
    assert_eq!((of(&findings, "held"), of(&findings, "void")), (Vec::new(), Vec::new()));
    assert!(of(&findings, "broken").len() >= 40);
    assert_eq!(code, 1);
}

/// Rows of which attacks get through without namespaces; `WITHOUT_NAMESPACES` of the self-probe says so in words.
const OPEN_WITHOUT_NAMESPACES: [&str; 9] = ["A11", "A12", "A14", "A31", "A33", "A35", "A48", "A60", "F40"];

/// A39: best effort without bubblewrap is weaker by what is said, and by nothing else.
#[test]
fn best_effort_is_worth_what_is_said() {
    let test = "best_effort_is_worth_what_is_said";
    let Some(command) = super::levels::without_bubblewrap() else {
        return eprintln!("SKIP {test}: needs root and bubblewrap");
    };
    if !has_landlock() {
        return eprintln!("SKIP {test}: needs a kernel with Landlock");
    }
    let dir = tempfile::tempdir().unwrap();
    let (findings, code) = suite(command, dir.path(), &["--sandbox", "best_effort"]);
    assert_eq!((of(&findings, "void"), code), (Vec::new(), 1));
    for broken in of(&findings, "broken") {
        assert!(OPEN_WITHOUT_NAMESPACES.iter().any(|row| broken["row"] == *row), "{broken}");
    }
    assert!(of(&findings, "held").len() >= 30, "{findings:?}");
}

/// As the self-probe has found it.
fn has_landlock() -> bool {
    let doctor = Command::new(LONGHAUL).args(["doctor", "--sandbox", "required"]).output().unwrap();
    String::from_utf8_lossy(&doctor.stdout).contains("Landlock, ")
}
