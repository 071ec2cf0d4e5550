//! A user's checkout of a repository, made by the test, and git in it.

use std::path::Path;
use std::process::Command;

use super::desk::Desk;

/// What git says, without the end of its last line.
pub fn git_in(place: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").args(who).args(args).current_dir(place).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

pub fn git(desk: &Desk, args: &[&str]) -> String {
    git_in(&desk.path(""), args)
}

/// A desk with these files beside its script, all of them committed on `main`.
pub fn repository(script: &str, files: &[(&str, &str)]) -> Desk {
    let desk = Desk::with_script(script);
    for (name, text) in files {
        desk.write(name, text);
    }
    git(&desk, &["init", "-q", "--initial-branch=main"]);
    git(&desk, &["add", "."]);
    git(&desk, &["commit", "-q", "-m", "first"]);
    desk
}
