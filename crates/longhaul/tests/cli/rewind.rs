//! Going back with the files: to every point, through kills, under a name, and into another run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::checkout::{self, git};
use super::desk::Desk;
use super::{checkpoints, crew};

const SCRIPT: &str = r#"
name: files
conversations:
  - turns:
      - calls: [ { tool: write, args: { path: one.sh, content: "echo two > a; mkdir d; echo x > 'd/with space'; ln -s a link; echo > run.sh; chmod +x run.sh\n" } } ]
      - calls: [ { tool: write, args: { path: two.sh, content: "rm -r d link a; echo z > link; chmod -x run.sh; mkdir a; echo in > a/b\n" } } ]
      - calls: [ { tool: bash, args: { command: "sh one.sh" } } ]
      - calls: [ { tool: bash, args: { command: "sh two.sh" } } ]
      - text: "All done."
"#;

fn done(desk: &Desk) -> (String, PathBuf) {
    let id = desk.json(&["run", "x", "--model", "scripted/s.yaml"])["id"].as_str().unwrap().to_owned();
    let workspace = desk.json(&["show", &id])["workspace"].as_str().unwrap().into();
    (id, workspace)
}

/// What stands in a directory: paths, kinds, whether they can be run, and what is in them.
fn found(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let facts = path.symlink_metadata().unwrap();
            if name == ".git" {
                continue;
            } else if facts.is_dir() {
                left.push(path);
            } else if facts.is_symlink() {
                found.push(format!("{name} -> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(format!("{name} {:o} {text}", facts.permissions().mode() & 0o111));
            }
        }
    }
    found.sort();
    found
}

/// Where the run can be taken back to by an event: before its first change, and to each turn's end.
fn all_points(desk: &Desk, id: &str) -> Vec<Value> {
    let listed = desk.json(&["checkpoints", id, "--all"]);
    listed.as_array().unwrap().iter().filter(|point| point["number"].is_null()).cloned().collect()
}

/// The ends of turns.
fn points(desk: &Desk, id: &str) -> Vec<Value> {
    all_points(desk, id).split_off(1)
}

fn types(desk: &Desk, id: &str) -> Vec<String> {
    desk.events(id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// D11.16: taken back to any point, and gone on from there, a run ends as it did, and so do its files. The first of the points is
/// from before anything was changed.
#[test]
fn a_run_taken_back_to_any_point_ends_the_same() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let (end, events) = (found(&workspace), types(&desk, &id));
    let points = all_points(&desk, &id);
    assert_eq!(points.len(), 5, "the beginning, and one for each turn that may have changed files");
    for point in points.iter().rev() {
        let at = format!("@{}", point["seq"]);
        let said = desk.say(&["rewind", &id, "--to", &at]);
        assert_eq!(said.code, 0, "{}", said.err);
        let seq = point["seq"].as_u64().unwrap() as usize;
        let mut then = events[..seq].to_vec();
        // Its files were noted when the first change came, which is gone from the journal now.
        then.extend((point == &points[0]).then(|| "files_stored".to_owned()));
        assert_eq!(types(&desk, &id), then, "{at}");
        if seq < events.len() / 2 {
            assert!(!workspace.join("a").exists(), "{at}");
        }
        let said = desk.say(&["resume", &id]);
        assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
        assert_eq!(found(&workspace), end, "{at}");
    }
    let first = format!("@{}", points[0]["seq"]);
    assert_eq!(desk.say(&["rewind", &id, "--to", &first]).code, 0);
    assert_eq!(found(&workspace), Vec::<String>::new(), "nothing was there yet");
}

/// A git that is killed at a chosen point, alone or with whoever started it. `when` beside it says where: before its N-th start, N
/// files into what it writes to a workspace (done here as git does it: what goes goes first), or with longhaul gone and git left.
const DYING_GIT: &str = r#"#!/bin/sh
real=@REAL@
here=@HERE@
[ -e "$here/when" ] || exec "$real" "$@"
read -r how left < "$here/when"
die() {
    rm "$here/when"
    case $how in alone) ;; *) kill -9 $PPID ;; esac
    [ "$how" = outlived ] || exit 137
}
step() { left=$((left - 1)); [ "$left" -gt 0 ] || die; }
case $how in
started | outlived)
    step
    [ ! -e "$here/when" ] || echo "$how $left" > "$here/when"
    exec "$real" "$@"
    ;;
esac
case " $* " in *" read-tree -m -u "*) ;; *) exec "$real" "$@" ;; esac
cd "$2" || exit 1
for word; do before=$after after=$word; done
: > "$GIT_DIR/index.lock"
step
"$real" diff-tree -r --no-renames --name-only --diff-filter=D "$before" "$after" > "$here/gone"
"$real" diff-tree -r --no-renames --name-only --diff-filter=d "$before" "$after" > "$here/made"
while read -r path; do rm "$path"; step; done < "$here/gone"
while read -r path; do
    parent=$(dirname "$path")
    if [ "$parent" != . ] && rmdir "$parent" 2> /dev/null; then step; fi
done < "$here/gone"
while read -r path; do
    parent=$(dirname "$path")
    if [ ! -d "$parent" ]; then mkdir -p "$parent"; step; fi
    if [ -e "$path" ] || [ -L "$path" ]; then rm "$path"; step; fi
    case $("$real" ls-tree "$after" -- "$path") in
    120000*) ln -s "$("$real" cat-file blob "$after:$path")" "$path" ;;
    100755*) "$real" cat-file blob "$after:$path" > "$path" && chmod +x "$path" ;;
    *) "$real" cat-file blob "$after:$path" > "$path" ;;
    esac
    step
done < "$here/made"
rm "$here/when" "$GIT_DIR/index.lock"
exec "$real" read-tree "$after"
"#;

/// D11.16: killed anywhere in a rewind, together with its git, before it or after it, a run and its files are as before or as then, and
/// the next command makes that so. A git that dies alone is an error, and everything is as before.
#[test]
fn a_rewind_that_is_killed_is_finished_or_never_was() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let end = found(&workspace);
    let all = points(&desk, &id);
    // A file and a directory, and a file and a link, change places on the way there.
    let (at, seq) = (format!("@{}", all[2]["seq"]), all[2]["seq"].as_u64().unwrap() as usize);
    assert_eq!(desk.say(&["rewind", &id, "--to", &at]).code, 0);
    let then = found(&workspace);
    assert_ne!(then, end);
    let note = desk.journal(&id).with_file_name("rewind.json");
    let (path, when) = (with_dying_git(&desk), desk.elsewhere("bin/when"));
    let mut half_way = 0;
    for how in ["started", "outlived", "half", "alone"] {
        for point in 1.. {
            assert_eq!(desk.say(&["resume", &id]).code, 0);
            assert_eq!(found(&workspace), end);
            std::fs::write(&when, format!("{how} {point}\n")).unwrap();
            let mut rewind = desk.command(&["rewind", &id, "--to", &at]);
            let said = rewind.env("PATH", &path).output().unwrap();
            let status = said.status;
            if when.exists() || status.success() {
                assert!(point > 5, "{how} {point}: it was not killed");
                std::fs::remove_file(&when).ok();
                assert_eq!((status.code(), found(&workspace) == then), (Some(0), true), "{how} {point}");
                break;
            }
            let told = String::from_utf8_lossy(&said.stderr);
            assert_eq!(status.code().is_some(), how == "alone", "{how} {point}: {told}");
            let (stands, was_noted) = (found(&workspace), note.exists());
            half_way += usize::from(stands != end && stands != then);
            let whole = types(&desk, &id).len();
            // A command that writes to the run settles what was noted.
            let named = desk.say(&["checkpoint", &id, "--name", "after"]);
            assert_eq!(named.code, 0, "{how} {point}: {}", named.err);
            assert!(!note.exists());
            let is_back = found(&workspace) == then;
            assert!(is_back || found(&workspace) == end, "{how} {point}: {:?}", found(&workspace));
            assert!(is_back || !was_noted, "{how} {point}: what was noted is finished");
            assert!(!is_back || how != "alone", "{how} {point}: what failed is taken back");
            let kept = if is_back { seq } else { whole };
            // What was spent since stays counted, and comes first.
            let names =
                types(&desk, &id).into_iter().filter(|name| name != "spent_before").collect::<Vec<_>>();
            assert_eq!(names[kept], "command_applied", "{how} {point}: {names:?}");
            assert_eq!(desk.say(&["rewind", &id, "--to", &at]).code, 0);
            assert_eq!(found(&workspace), then);
        }
    }
    assert!(half_way > 5, "only {half_way} kills landed half way");
}

/// A PATH on which that git comes first.
fn with_dying_git(desk: &Desk) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|place| place.join("git")).find(|git| git.is_file()).unwrap();
    let here = desk.elsewhere("bin");
    std::fs::create_dir(&here).unwrap();
    let text = DYING_GIT.replace("@REAL@", &real.display().to_string());
    std::fs::write(here.join("git"), text.replace("@HERE@", &here.display().to_string())).unwrap();
    std::fs::set_permissions(here.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::env::join_paths(std::iter::once(here).chain(std::env::split_paths(&path))).unwrap()
}

/// A run that has ended, whose worktree was cleaned away; what stood there in the end and after its first turn, and where that is.
fn cleaned_away(desk: &Desk) -> (String, PathBuf, [Vec<String>; 2], Value) {
    let (id, workspace) = done(desk);
    let of_run =
        || found(&workspace).into_iter().filter(|file| !file.starts_with(".git ")).collect::<Vec<_>>();
    let (end, point) = (of_run(), points(desk, &id)[0].clone());
    let to = format!("@{}", point["seq"]);
    assert_eq!(desk.say(&["rewind", &id, "--to", &to]).code, 0);
    let then = of_run();
    assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    assert_eq!(desk.json(&["workspace", "cleanup", "--older-than", "1ms"])["removed"], json!([id]));
    (id, workspace, [end, then], point)
}

/// What was left of a worktree when its making was stopped.
const LEFT: [fn(&Desk, &str, &Path); 5] = [
    |_, _, _| {},
    |_, _, place| std::fs::create_dir(place).unwrap(),
    |desk, branch, place| drop(git(desk, &["worktree", "add", "-q", &place.display().to_string(), branch])),
    // Git was killed while it wrote the files.
    |desk, branch, place| {
        let name = place.file_name().unwrap().to_str().unwrap();
        git(desk, &["worktree", "add", "-q", "--no-checkout", &place.display().to_string(), branch]);
        desk.write(&format!(".git/worktrees/{name}/locked"), "initializing");
        std::fs::write(place.join("one.sh"), "half of").unwrap();
    },
    // Or before that, and somebody has cleaned up behind it.
    |_, _, place| {
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join(".git"), "gitdir: nowhere\n").unwrap();
    },
];

/// D11.16: a rewind that makes a workspace again may be stopped at any step of that: whatever comes next, a rewind or a resume, finds
/// a worktree with the files of the checkpoint, and the run goes on there.
#[test]
fn a_workspace_is_made_again_wherever_that_was_stopped() {
    for (step, leave) in LEFT.iter().enumerate() {
        for words in [&["rewind", "--to"][..], &["resume"]] {
            let desk = checkout::repository(SCRIPT, &[(".gitignore", ".config\n.local\n")]);
            let (id, workspace, [end, then], point) = cleaned_away(&desk);
            let note = json!({
                "workspace": workspace, "before": null, "after": point["files"], "last_seq": types(&desk, &id).len(),
                "end": point["seq"], "children": [], "at": point["at"],
            });
            std::fs::write(desk.journal(&id).with_file_name("rewind.json"), note.to_string()).unwrap();
            let branch = desk.json(&["show", &id])["branch"].as_str().unwrap().to_owned();
            leave(&desk, &branch, &workspace);
            let to = format!("@{}", point["seq"]);
            let is_rewind = words.len() == 2;
            let said = match words {
                [rewind, option] => desk.say(&[rewind, &id, option, &to]),
                words => desk.say(&[words[0], &id]),
            };
            let what = format!("step {step}, {words:?}: {}", said.err);
            assert_eq!(said.code, 0, "{what}");
            let stands = || {
                let mut files = found(&workspace);
                files.retain(|file| !file.starts_with(".git "));
                files
            };
            assert_eq!(stands(), if is_rewind { then } else { end.clone() }, "{what}");
            if is_rewind {
                assert_eq!(desk.say(&["resume", &id]).code, 0, "{what}");
                assert_eq!(stands(), end, "{what}");
            }
            assert!(git(&desk, &["worktree", "list"]).contains(&id), "{what}");
            assert!(!desk.get(&["diff", &id, "--name-only"]).is_empty(), "{what}");
        }
    }
}

/// D11.16: where git refuses to make the worktree again, nothing has changed, and nothing is left that would be taken for it; an empty
/// directory that somebody else left is none either.
#[test]
fn a_workspace_that_cannot_be_made_again_is_not_half_there() {
    let desk = checkout::repository(SCRIPT, &[(".gitignore", ".config\n.local\n")]);
    let (id, workspace, _, _) = cleaned_away(&desk);
    let branch = desk.json(&["show", &id])["branch"].as_str().unwrap().to_owned();
    git(&desk, &["checkout", "-q", &branch]);
    let before = types(&desk, &id);
    for is_there in [false, true] {
        if is_there {
            std::fs::create_dir(&workspace).unwrap();
        }
        let said = desk.say(&["rewind", &id, "--to", "1"]);
        assert!(said.code == 2 && said.err.contains("already"), "{} {}", said.code, said.err);
        assert_eq!((workspace.exists(), types(&desk, &id)), (false, before.clone()));
        assert!(!desk.journal(&id).with_file_name("rewind.json").exists());
    }
    git(&desk, &["checkout", "-q", "main"]);
    std::fs::create_dir(&workspace).unwrap();
    assert_eq!(desk.say(&["rewind", &id, "--to", "1"]).code, 0);
    assert!(git(&desk, &["worktree", "list"]).contains(&id));
    let first = all_points(&desk, &id)[0]["seq"].clone();
    assert_eq!(desk.say(&["rewind", &id, "--to", &format!("@{first}")]).code, 0);
    assert_eq!(desk.say(&["resume", &id]).out, "All done.\n");
}

/// D11.16: a directory that is made again for files that turn out to be lost is taken away again: the run would be resumed in it.
#[test]
fn a_directory_without_its_files_is_not_left_behind() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::remove_dir_all(desk.path(".longhaul/checkpoints/files.git/objects")).unwrap();
    std::fs::create_dir(desk.path(".longhaul/checkpoints/files.git/objects")).unwrap();
    let said = desk.say(&["rewind", &id, "--to", "1"]);
    assert!(said.code == 2 && said.err.contains("no longer all there"), "{} {}", said.code, said.err);
    assert!(!workspace.exists());
    assert!(!desk.journal(&id).with_file_name("rewind.json").exists());
}

/// D11.16: the moment before the first change is there to be gone back to, also if the files are later what they were then.
#[test]
fn the_beginning_is_listed_though_its_files_come_back() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "echo x > tmp1" } } ]
      - calls: [ { tool: bash, args: { command: "rm tmp1" } } ]
      - text: "All done."
"#;
    let desk = Desk::with_script(script);
    let (id, _) = done(&desk);
    let all = all_points(&desk, &id);
    assert_eq!(all.len(), 3, "the beginning, and one for each turn: {all:?}");
    assert_eq!(all[0]["files"], all[2]["files"]);
    assert!(all[0]["seq"].as_u64() < all[1]["seq"].as_u64());
}

/// D11.16: the same checkpoint is gone back to again and again, at once and after the run has gone on, and has its files each time.
#[test]
fn a_checkpoint_can_be_gone_back_to_twice() {
    let desk = Desk::with_script(SCRIPT);
    let id = &desk.create();
    assert_eq!(desk.say(&["start", id, "--max-steps", "3"]).code, 4);
    assert_eq!(desk.say(&["resume", id, "--max-steps", "50"]).code, 0);
    let workspace: PathBuf = desk.json(&["show", id])["workspace"].as_str().unwrap().into();
    let numbered = |point: &&Value| point["number"].is_u64() && point["files"].is_string();
    let listed = desk.json(&["checkpoints", id]);
    let all: Vec<Value> = listed.as_array().unwrap().iter().filter(numbered).cloned().collect();
    assert!(all.len() > 1, "{listed}");
    for point in all.iter().rev() {
        let number = point["number"].to_string();
        assert_eq!(desk.say(&["rewind", id, "--to", &number]).code, 0);
        let then = found(&workspace);
        let files = |id: &str| {
            let listed = desk.json(&["checkpoints", id]);
            let mut found = listed.as_array().unwrap().iter();
            found.find(|found| found["number"] == point["number"]).unwrap()["files"].clone()
        };
        assert_eq!(files(id), point["files"], "checkpoint {number}");
        std::fs::write(workspace.join("by-hand"), "x").unwrap();
        assert_eq!(desk.say(&["rewind", id, "--to", &number]).code, 0);
        assert_eq!(found(&workspace), then, "checkpoint {number}");
        let fork = desk.json(&["fork", id, "--at", &number]);
        assert_eq!(found(Path::new(fork["workspace"].as_str().unwrap())), then);
        assert_eq!(files(fork["id"].as_str().unwrap()), point["files"], "the fork's checkpoint {number}");
    }
}

/// What is staged after the first turn, and after the second.
const STAGING: &str = r#"
name: staging
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "echo 1 > kept; echo 1 > same; git add kept same; git rm -q early" } } ]
      - calls: [ { tool: bash, args: { command: "echo 2 > kept; echo 2 > new; git add kept new; git rm -q late; git rm -q --cached loose" } } ]
      - text: "All done."
"#;

/// A run that has staged something, where nothing is committed by itself.
fn staged(place: &str) -> (Desk, String, PathBuf) {
    let files = ["early", "late", "loose", "mine"].map(|name| (name, "0\n"));
    let settings = [(".gitignore", ".config\n.local\n"), ("longhaul.yaml", "git: { auto_commit: false }\n")];
    let desk = checkout::repository(STAGING, &[&files[..], &settings].concat());
    desk.write("mine", "1\n");
    git(&desk, &["add", "mine"]);
    desk.write("mine", "2\n");
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", place]);
    let (id, workspace) = (shown["id"].as_str().unwrap().to_owned(), shown["workspace"].as_str().unwrap());
    let workspace = PathBuf::from(workspace);
    (desk, id, workspace)
}

fn status(place: &Path) -> String {
    let asked = std::process::Command::new("git").args(["status", "--porcelain"]).current_dir(place).output();
    String::from_utf8(asked.unwrap().stdout).unwrap()
}

/// D11.16: what is staged after a rewind is what stands in the files then, and nothing of what was staged later. It is the same after a
/// kill at every step, and where the user works too, nothing of the user's is unstaged.
#[test]
fn what_was_staged_later_is_not_staged_after_a_rewind() {
    let (desk, id, workspace) = staged("--sandbox=best_effort");
    let end = "D  early\nA  kept\nD  late\nD  loose\nA  new\nA  same\n?? loose\n";
    let then = "D  early\nA  same\n?? kept\n";
    assert_eq!(status(&workspace), end);
    let at = format!("@{}", points(&desk, &id)[0]["seq"]);
    let (path, when) = (with_dying_git(&desk), desk.elsewhere("bin/when"));
    for point in 1.. {
        std::fs::write(&when, format!("started {point}\n")).unwrap();
        let killed = desk.command(&["rewind", &id, "--to", &at]).env("PATH", &path).output().unwrap();
        if killed.status.success() {
            std::fs::remove_file(&when).unwrap();
            assert!(point > 10, "it was not killed");
            assert_eq!(status(&workspace), then);
            break;
        }
        let named = desk.say(&["checkpoint", &id, "--name", "after"]);
        assert_eq!(named.code, 0, "{point}: {}", named.err);
        let stands = status(&workspace);
        assert!(stands == then || stands == end, "{point}: {stands}");
        assert_eq!(desk.say(&["rewind", &id, "--to", &at]).code, 0);
        assert_eq!(status(&workspace), then, "{point}");
        assert_eq!(desk.say(&["resume", &id]).code, 0);
        assert_eq!(status(&workspace), end, "{point}");
    }

    let (desk, id, workspace) = staged("--in-place");
    let mine = "MM mine\n";
    assert_eq!(status(&workspace).replace(mine, ""), end, "{}", status(&workspace));
    let at = format!("@{}", points(&desk, &id)[0]["seq"]);
    let said = desk.say(&["rewind", &id, "--to", &at]);
    assert_eq!(said.code, 0, "{}", said.err);
    // That `loose` is not tracked any more may be what the user wanted: its file has not changed.
    assert_eq!(status(&workspace), "D  early\nD  loose\nMM mine\nA  same\n?? kept\n?? loose\n");
    assert_eq!(git(&desk, &["show", ":mine"]), "1");
}

/// D11.16: an index that somebody else has locked, or that a merge will be finished with, stays as it is, and that is said.
#[test]
fn an_index_that_is_in_use_is_left_by_a_rewind() {
    let (desk, id, workspace) = staged("--sandbox=best_effort");
    let at = format!("@{}", points(&desk, &id)[0]["seq"]);
    let own = workspace.join(".git");
    for (name, why) in [("index.lock", "another git is at work"), ("MERGE_HEAD", "a merge is under way")] {
        std::fs::write(own.join(name), git(&desk, &["rev-parse", "HEAD"])).unwrap();
        // A lock that nobody has open is a dead git's.
        let held = std::fs::File::open(own.join(name)).unwrap();
        let said = desk.say(&["rewind", &id, "--to", &at]);
        drop(held);
        assert!(
            said.code == 0 && said.err.contains("what is staged in the workspace was left as it is"),
            "{}",
            said.err
        );
        assert!(said.err.contains(why), "{}", said.err);
        assert!(own.join(name).exists() && status(&workspace).contains("AD new"), "{}", status(&workspace));
        std::fs::remove_file(own.join(name)).unwrap();
        assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    }
}

/// D11.16: a rewind can be undone, at once or after the run has gone on, and so can that; nothing is lost on the way.
#[test]
fn a_rewind_can_be_undone() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let none = desk.say(&["rewind", &id, "--undo"]);
    assert!(none.code == 2 && none.err.contains("was not rewound"), "{} {}", none.code, none.err);
    let (end, events) = (found(&workspace), desk.events(&id));
    let at = format!("@{}", points(&desk, &id)[1]["seq"]);
    std::fs::write(workspace.join("by-hand"), "mine").unwrap();
    let with_mine = found(&workspace);
    let said = desk.say(&["rewind", &id, "--to", &at]);
    assert!(said.code == 0 && said.err.contains(&format!("longhaul rewind {id} --undo")), "{}", said.err);
    let then = found(&workspace);
    assert!(!workspace.join("by-hand").exists());
    let said = desk.say(&["rewind", &id, "--undo"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!((found(&workspace), desk.events(&id)), (with_mine.clone(), events.clone()));
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
    assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    assert_eq!(found(&workspace), then);
    assert_eq!(desk.json(&["show", &id])["status"], "running");
    assert_eq!(desk.say(&["resume", &id]).code, 0);
    assert_eq!(found(&workspace), end);
    let gone_on = desk.events(&id);
    assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    assert_eq!(found(&workspace), with_mine);
    assert_eq!(desk.events(&id)[..events.len()], events[..]);
    assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    assert_eq!((found(&workspace), desk.events(&id)), (end, gone_on));
}

/// D11.16: killed anywhere while a rewind is undone, the next command finishes it.
#[test]
fn undoing_a_rewind_survives_kills() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let (end, events) = (found(&workspace), types(&desk, &id));
    let (at, seq) = {
        let point = &points(&desk, &id)[1];
        (format!("@{}", point["seq"]), point["seq"].as_u64().unwrap() as usize)
    };
    assert_eq!(desk.say(&["rewind", &id, "--to", &at]).code, 0);
    let then = found(&workspace);
    for round in 0..16 {
        let mut undo = desk.command(&["rewind", &id, "--undo"]);
        let mut child = undo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // What was noted is finished before it is looked where to.
        let nowhere = desk.say(&["rewind", &id, "--to", "nowhere"]);
        assert!(nowhere.err.contains("has no checkpoint nowhere"), "{}", nowhere.err);
        let is_undone = found(&workspace) == end;
        assert!(is_undone || found(&workspace) == then, "round {round}: {:?}", found(&workspace));
        let kept = if is_undone { &events[..] } else { &events[..seq] };
        assert_eq!(types(&desk, &id), kept, "round {round}");
        if is_undone {
            assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
        }
        assert_eq!(found(&workspace), then);
    }
}

/// D11.16: the git of a rewind that was killed does not write on behind the back of the next command, nor hold it up.
#[test]
fn what_a_killed_rewind_left_running_is_ended() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let at = format!("@{}", points(&desk, &id)[1]["seq"]);
    let path = std::env::var("PATH").unwrap();
    let slow = format!(
        "#!/bin/sh\ncase \"$*\" in *'read-tree -m -u'*) touch '{}'; exec sleep 600;; esac\nPATH='{path}' exec git \"$@\"\n",
        desk.path("at-it").display()
    );
    std::fs::create_dir(desk.path("slow")).unwrap();
    desk.write("slow/git", &slow);
    std::fs::set_permissions(desk.path("slow/git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut rewind = desk.command(&["rewind", &id, "--to", &at]);
    rewind.env("PATH", format!("{}:{path}", desk.path("slow").display()));
    let mut child = rewind.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !desk.path("at-it").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it must not end before it is killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let named = desk.say(&["checkpoint", &id, "--name", "after"]);
    assert_eq!(named.code, 0, "{}", named.err);
    assert_eq!(found(&workspace).len(), 2, "the two scripts");
}

/// AX3: a named checkpoint is gone back to by its name, conversation and files; a name is taken once, and is no number.
#[test]
fn a_checkpoint_has_a_name() {
    let desk = Desk::with_script(SCRIPT);
    let id = &desk.create();
    assert_eq!(desk.say(&["start", id, "--max-steps", "2"]).code, 4);
    let workspace: PathBuf = desk.json(&["show", id])["workspace"].as_str().unwrap().into();
    let before = found(&workspace);
    let made = desk.json(&["checkpoint", id, "--name", "before-x"]);
    assert_eq!(made["name"], json!("before-x"));
    assert!(made["files"].is_string());
    for (name, why) in [("before-x", "there is one of that name"), ("12", "no number"), ("@3", "begins with")]
    {
        let said = desk.say(&["checkpoint", id, "--name", name]);
        assert!(said.code == 2 && said.err.contains(why), "{}", said.err);
    }
    let seq = made["seq"].as_u64().unwrap();
    let kept = desk.events(id);
    assert_eq!(desk.say(&["resume", id, "--max-steps", "50"]).code, 0);
    assert_ne!(found(&workspace), before);
    let diff = desk.get(&["diff", id, "--at", "before-x", "--name-only"]);
    assert_eq!(diff, "a/b\nlink\nrun.sh\n");
    assert_eq!(desk.say(&["rewind", id, "--to", "before-x"]).code, 0);
    assert_eq!(found(&workspace), before);
    let events = desk.events(id);
    assert!(events.len() as u64 > seq && kept[..events.len()] == events[..], "exactly what it was");
    assert_eq!(desk.json(&["show", id])["status"], json!("paused"));
    let said = desk.say(&["rewind", id, "--to", "nowhere"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("has no checkpoint nowhere"), "{}", said.err);
    assert_eq!(desk.say(&["resume", id, "--checkpoint", "before-x", "--max-steps", "50"]).code, 0);
}

/// AX3: it has the files as they stand when it is made, also what a person did to them while the run rested or after it was done.
#[test]
fn a_named_checkpoint_has_what_a_person_changed() {
    let desk = Desk::with_script(SCRIPT);
    let id = &desk.create();
    for (name, steps, code) in [("paused", "2", 4), ("completed", "50", 0)] {
        assert_eq!(desk.say(&["resume", id, "--max-steps", steps]).code, code, "{name}");
        let workspace: PathBuf = desk.json(&["show", id])["workspace"].as_str().unwrap().into();
        std::fs::write(workspace.join("mine.txt"), name).unwrap();
        let before = found(&workspace);
        desk.get(&["checkpoint", id, "--name", name]);
        std::fs::write(workspace.join("mine.txt"), "junk").unwrap();
        assert_eq!(desk.say(&["rewind", id, "--to", name]).code, 0, "{name}");
        assert_eq!(found(&workspace), before, "{name}");
    }
}

/// D11.16: a fork has the conversation and the files of a checkpoint, and a place of its own; the first run is not touched.
#[test]
fn a_fork_goes_its_own_way() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let (end, journal) = (found(&workspace), std::fs::read(desk.journal(&id)).unwrap());
    let at = format!("@{}", points(&desk, &id)[1]["seq"]);
    let refused = desk.say(&["fork", &id, "--at", &at, "--model", "scripted/none.yaml"]);
    assert!(refused.code == 2 && refused.err.contains("none.yaml"), "{}", refused.err);
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1, "a model that is not there makes no run");
    let fork = desk.json(&["fork", &id, "--at", &at]);
    let new = fork["id"].as_str().unwrap();
    let place: PathBuf = fork["workspace"].as_str().unwrap().into();
    assert_ne!(place, workspace);
    assert_eq!(found(&place).len(), 2, "the two scripts");
    let said = desk.say(&["resume", new]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    assert_eq!(found(&place), end);
    assert_eq!(found(&workspace), end);
    assert_eq!(std::fs::read(desk.journal(&id)).unwrap(), journal);
}

/// D11.16: the checkpoint that a run completed with is one, too: its files can be had again, and another run can go on from there.
#[test]
fn the_last_checkpoint_of_a_completed_run_can_be_used() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    let (end, events) = (found(&workspace), desk.events(&id));
    let listed = desk.json(&["checkpoints", &id]);
    let last = listed.as_array().unwrap().iter().rev().find(|point| point["number"].is_u64()).unwrap();
    let last = last["number"].to_string();
    std::fs::remove_file(workspace.join("link")).unwrap();
    let said = desk.say(&["rewind", &id, "--to", &last]);
    assert!(said.code == 0 && !said.err.contains("goes on"), "{}", said.err);
    assert_eq!(found(&workspace), end);
    assert_eq!(desk.events(&id), events);
    let fork = desk.json(&["fork", &id, "--at", &last]);
    let new = fork["id"].as_str().unwrap();
    assert_eq!(fork["status"], "paused");
    assert_eq!(found(Path::new(fork["workspace"].as_str().unwrap())), end);
    desk.write("more.yaml", "steps:\n  - { id: more, description: More. }\n");
    let said = desk.say(&["replan", new, "--plan", "more.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = desk.say(&["resume", new]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    // What is hinted at is what can be done: there is more only once it is given.
    let said = desk.say(&["fork", &id, "--at", &last]).err;
    assert!(said.contains("`longhaul replan run_") && !said.contains("longhaul resume"), "{said}");
    let at = format!("@{}", points(&desk, &id)[1]["seq"]);
    let said = desk.say(&["fork", &id, "--at", &at]).err;
    assert!(said.contains("`longhaul resume run_") && !said.contains("longhaul replan"), "{said}");
    let other = desk.json(&["fork", &id, "--at", &last]);
    assert_eq!(desk.say(&["resume", other["id"].as_str().unwrap()]).code, 0);
}

const IGNORING: &str = r#"
name: ignoring
conversations:
  - turns:
      - calls: [ { tool: write, args: { path: a, content: "one\n" } } ]
      - calls: [ { tool: write, args: { path: .gitignore, content: "*.log\n" } } ]
      - calls: [ { tool: write, args: { path: x.log, content: "secret\n" } } ]
      - calls: [ { tool: write, args: { path: a, content: "two\n" } } ]
      - text: "All done."
"#;

/// D11.16: back to before a file was ignored, that file is left alone, also by whoever finishes a rewind that was killed, and by
/// undoing it.
#[test]
fn a_rewind_leaves_alone_what_was_not_ignored_then() {
    let desk = Desk::with_script(IGNORING);
    let (id, workspace) = done(&desk);
    let (end, first) = (found(&workspace), &points(&desk, &id)[0]);
    let at = format!("@{}", first["seq"]);
    let said = desk.json(&["rewind", &id, "--to", &at]);
    let then = ["a 0 one\n", "x.log 0 secret\n"];
    assert_eq!(found(&workspace), then);
    // Undone and gone back again, it still is where it was.
    desk.get(&["rewind", &id, "--undo"]);
    assert_eq!(found(&workspace), end);
    desk.get(&["rewind", &id, "--to", &at]);
    assert_eq!(found(&workspace), then);
    assert_eq!(desk.say(&["resume", &id]).code, 0);
    assert_eq!(found(&workspace), end);
    // Killed when one of the files was written.
    let journal = types(&desk, &id).len();
    let note = json!({
        "workspace": workspace, "before": said["filesBefore"], "after": first["files"], "last_seq": journal,
        "end": first["seq"], "children": [], "at": first["at"],
    });
    std::fs::write(desk.journal(&id).with_file_name("rewind.json"), note.to_string()).unwrap();
    std::fs::remove_file(workspace.join(".gitignore")).unwrap();
    let named = desk.say(&["checkpoint", &id, "--name", "after"]);
    assert_eq!(named.code, 0, "{}", named.err);
    assert_eq!(found(&workspace), then);
}

/// D11.16: a sub-agent that was out at a checkpoint is sent again after a rewind: without its files its step is not done.
#[test]
fn a_sub_agent_whose_files_are_taken_back_is_sent_again() {
    let desk = crew::desk();
    let steps = [
        crew::step("one", "MARS", &[], false),
        crew::step("two", "PLUTO", &["one"], false),
        crew::step("three", "MARS", &["two"], false),
    ];
    let id = crew::id(&crew::run(&desk, &steps, &[]));
    let workspace: PathBuf = desk.json(&["show", &id])["workspace"].as_str().unwrap().into();
    let end = found(&workspace);
    assert!(workspace.join("pluto.txt").exists());
    let said = desk.say(&["rewind", &id, "--to", "1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!workspace.join("pluto.txt").exists());
    let said = desk.say(&["resume", &id]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(found(&workspace), end);
    // Undone, those that were sent first are the run's again.
    let child = format!("{id}.1");
    let second = desk.json(&["show", &child])["createdAt"].clone();
    let said = desk.say(&["rewind", &id, "--undo"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let first = desk.json(&["show", &child])["createdAt"].clone();
    assert_ne!(first, second);
    assert_eq!(desk.json(&["show", &child])["status"], "completed");
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
    assert_eq!(desk.say(&["rewind", &id, "--undo"]).code, 0);
    assert_eq!(desk.json(&["show", &child])["createdAt"], second);
    assert_eq!(found(&workspace), end);
}

/// D11.16: files that are also other runs' are not taken back with one of them.
#[test]
fn a_workspace_that_others_share_is_not_taken_back() {
    let desk = crew::desk();
    let child = [crew::step("one", "PLUTO", &[], false), crew::step("two", "MARS", &["one"], false)];
    let refused = |id: &str, why: &str| {
        let workspace: PathBuf = desk.json(&["show", id])["workspace"].as_str().unwrap().into();
        let (before, events) = (found(&workspace), types(&desk, id));
        let said = desk.say(&["rewind", id, "--to", "@3"]);
        assert!(said.code == 2 && said.err.contains(why), "{} {}", said.code, said.err);
        assert!(said.err.contains("nothing was changed"), "{}", said.err);
        assert_eq!((found(&workspace), types(&desk, id)), (before, events));
    };
    let parent = crew::id(&crew::run(&desk, &child, &[]));
    refused(&format!("{parent}.1"), &format!("works where {parent} does"));
    refused(&crew::id(&crew::run(&desk, &child, &["--workflow-run", "w"])), "workflow run w");
    refused(&crew::id(&crew::run(&desk, &child, &["--session", "s"])), "session s");
    desk.write("longhaul.yaml", "agents:\n  dirs: [agents]\nworkspace:\n  isolation_mode: shared\n");
    refused(&crew::id(&crew::run(&desk, &child, &[])), "all runs share");
}

const DESTROYING: &str = r#"
name: destroying
conversations:
  - turns:
      - calls: [ { tool: write, args: { path: a, content: "one\n" } } ]
      - calls: [ { tool: bash, args: { command: "truncate -s 0 a" } } ]
      - calls: [ { tool: write, args: { path: b, content: "two\n" } } ]
      - text: "All done."
"#;

/// D11.16: a checkpoint before a command that throws work away has the files from before it, or none.
#[test]
fn a_guard_whose_files_could_not_be_stored_has_none() {
    let desk = Desk::with_script(DESTROYING);
    let id = &desk.create();
    let store = desk.path(".longhaul/checkpoints");
    std::fs::write(&store, "in the way").unwrap();
    assert_eq!(desk.say(&["start", id, "--max-steps", "2"]).code, 4);
    std::fs::remove_file(&store).unwrap();
    let named = desk.json(&["checkpoint", id, "--name", "later"]);
    assert!(named["files"].is_string(), "{named}");
    let listed = desk.json(&["checkpoints", id]);
    let guard = listed.as_array().unwrap().iter().find(|point| point["name"] == "before-call_2").unwrap();
    assert_eq!(guard["files"], Value::Null, "{guard}");
    let said = desk.say(&["rewind", id, "--to", "before-call_2"]);
    assert!(said.code == 2 && said.err.contains("no files were stored"), "{}", said.err);
}

/// D11.16: while another run is at work in the same place, nothing there is taken back.
#[test]
fn a_place_where_another_run_is_at_work_is_not_taken_back() {
    let desk = Desk::with_script(DESTROYING);
    let made = |verb: &[&str]| {
        let said = desk.json(&[verb, &["--model", "scripted/s.yaml", "--in-place"]].concat());
        said["id"].as_str().unwrap().to_owned()
    };
    let (id, other) = (made(&["run", "x"]), made(&["create", "--task", "y"]));
    let at = format!("@{}", points(&desk, &id)[0]["seq"]);
    let held = checkpoints::open(&desk, &other);
    let said = desk.say(&["rewind", &id, "--to", &at]);
    assert!(
        said.code == 7 && said.err.contains(&format!("{other} is at work")),
        "{} {}",
        said.code,
        said.err
    );
    assert!(desk.path("b").exists());
    drop(held);
    let said = desk.say(&["rewind", &id, "--to", &at]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!desk.path("b").exists());
}
