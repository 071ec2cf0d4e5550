//! Started where it cannot work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use rustix::process::geteuid;

use crate::rig::{Mount, Rig, told};

const CALLS: &str = "{ tool: write, args: { path: out.txt, content: done } }";

/// F56: a state directory that is a file is refused with exit code 2 and by name, and left as it is.
#[test]
fn the_state_directory_is_a_file() {
    let rig = Rig::with_calls(CALLS);
    fs::write(&rig.state_dir, "mine").unwrap();
    for args in [rig.run_args(), vec!["list"], vec!["store", "status"]] {
        let output = rig.does(&args);
        assert_refused(&rig, &output, 2);
    }
    assert_eq!(fs::read_to_string(&rig.state_dir).unwrap(), "mine");
    assert!(!rig.work().join("out.txt").exists());
}

/// F56: where the state directory cannot be made, exit code 2, and nothing is.
#[test]
fn the_state_directory_cannot_be_made() {
    let mut rig = Rig::with_calls(CALLS);
    let place = rig.path().join("locked");
    // Permissions do not stop root, a read-only file system does.
    let mount = if geteuid().is_root() {
        let Some(mount) = Mount::tmpfs(place.clone(), 1 << 20) else { return };
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&place).status().unwrap();
        assert!(remounted.success());
        Some(mount)
    } else {
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o500)).unwrap();
        None
    };
    rig.state_dir = place.join("state");
    assert_refused(&rig, &rig.does(&rig.run_args()), 2);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    assert!(!rig.work().join("out.txt").exists());
    drop(mount);
}

/// F56: on a disk that is full from the start a run is refused with a clear error, half of one is never made, and it
/// works as soon as there is space.
#[test]
fn the_disk_is_full_from_the_start() {
    let mut rig = Rig::with_calls(CALLS);
    let Some(mount) = Mount::tmpfs(rig.path().join("small"), 1 << 20) else { return };
    let filler = mount.at.join("filler");
    rig.state_dir = mount.at.join("state");
    fs::create_dir(&rig.state_dir).unwrap();
    fill(&filler);
    let output = rig.does(&rig.run_args());
    assert_refused(&rig, &output, 2);
    assert!(told(&output).contains("no space left"), "{}", told(&output));
    assert_eq!(rig.runs(), [""; 0]);
    assert!(!rig.work().join("out.txt").exists());
    fs::remove_file(&filler).unwrap();
    rig.says(&rig.run_args());
    assert_eq!(rig.runs().len(), 1);
    let names = fs::read_dir(&rig.state_dir).unwrap().map(|entry| entry.unwrap().file_name());
    let half_made = names.filter(|name| name.to_str().unwrap().starts_with(".gitignore-")).count();
    assert_eq!(half_made, 0, "files half made");
    // The same where there is a state directory already.
    fill(&filler);
    let listed = || rig.json(&["list", "--json"]).as_array().unwrap().len();
    assert_eq!(listed(), 1, "looking works without space");
    let output = rig.does(&rig.run_args());
    assert_refused(&rig, &output, 3);
    assert!(told(&output).contains("no space left"), "{}", told(&output));
    assert_eq!(rig.runs().len(), 1);
    assert_eq!(listed(), 1, "a refused run leaves nothing that is in the way of looking");
    fs::remove_file(&filler).unwrap();
    assert_eq!(listed(), 1);
}

/// F56: without a home directory everything works that needs none.
#[test]
fn there_is_no_home() {
    let rig = Rig::with_calls(CALLS);
    let output =
        rig.command(&rig.run_args()).env_remove("HOME").env_remove("XDG_CONFIG_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

/// Fills a file system to its last byte.
pub fn fill(filler: &std::path::Path) {
    let mut size = 1 << 20;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(filler).unwrap();
    while size > 0 {
        if std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_err() {
            size /= 2;
        }
    }
}

fn assert_refused(rig: &Rig, output: &Output, code: i32) {
    let said = told(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains("error: "), "{said}");
    assert!(said.contains(rig.state_dir.to_str().unwrap()), "it names the place: {said}");
    assert!(output.stdout.is_empty(), "{said}");
}
