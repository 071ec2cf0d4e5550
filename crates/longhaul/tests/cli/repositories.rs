//! Repositories that hurt: each is worked on, taken back, gone on with, looked at and brought in, and the user's checkout is byte
//! for byte what it was until that is asked for.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::desk::Desk;

fn git(directory: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"];
    let done = Command::new("git").args(who).args(args).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
}

/// A repository with one commit of `a.txt`.
fn repository() -> Desk {
    let desk = Desk::new();
    git(&desk.path(""), &["init", "-q", "--initial-branch=main"]);
    desk.write(".gitignore", "s.yaml\n.longhaul\n.config\n.local\norigin.git\n");
    desk.write("a.txt", "first\n");
    commit(&desk);
    desk
}

fn commit(desk: &Desk) {
    git(&desk.path(""), &["add", "--all"]);
    git(&desk.path(""), &["commit", "-q", "-m", "more"]);
}

/// Everything below a directory but our own and git's: links, whether files can be run, and their bytes.
fn found(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            let facts = path.symlink_metadata().unwrap();
            let is_ours =
                [".longhaul", ".config", "s.yaml", "origin.git"].iter().any(|ours| name == Path::new(ours));
            if is_ours || path.file_name().is_some_and(|name| name == ".git") {
                continue;
            } else if facts.is_dir() {
                left.push(path);
            } else if facts.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let mode = facts.permissions().mode() & 0o111;
                found.insert(name, format!("{mode:o} {}", bytes.escape_ascii()));
            }
        }
    }
    found
}

/// The user's files, what git says of them, what is staged, and where the branch is.
fn checkout(desk: &Desk) -> (BTreeMap<PathBuf, String>, [String; 4]) {
    let top = desk.path("");
    let asked: [&[&str]; 4] =
        [&["status", "--porcelain"], &["ls-files", "--stage"], &["rev-parse", "HEAD"], &["stash", "list"]];
    (found(&top), asked.map(|asked| git(&top, asked)))
}

/// First a file, then the command, then an end.
fn script(command: &str) -> String {
    let args = json!({ "command": command });
    format!(
        "conversations:\n  - turns:\n      - calls: [ {{ tool: write, args: {{ path: first.txt, content: \"1\\n\" }} }} ]\n      \
         - calls: [ {{ tool: bash, args: {args} }} ]\n      - text: \"All done.\"\n"
    )
}

/// A run that worked on the repository and has ended: its id, and what it left.
struct Done {
    id: String,
    end: BTreeMap<PathBuf, String>,
}

/// Runs, takes the run back to its first turn and goes on, with the checkout as it was all the time.
fn worked(desk: &Desk, command: &str, more: &[&str]) -> Done {
    desk.write("s.yaml", &script(command));
    let before = checkout(desk);
    let args = [&["run", "Work", "--model", "scripted/s.yaml"], more].concat();
    let shown = desk.json(&args);
    let id = shown["id"].as_str().unwrap().to_owned();
    let workspace: PathBuf = shown["workspace"].as_str().unwrap().into();
    let end = found(&workspace);
    assert_eq!(checkout(desk), before, "a run touches nothing here");
    let listed = desk.json(&["checkpoints", &id, "--all"]);
    // The first is from before the first change.
    let stored = listed.as_array().unwrap().iter().filter(|point| point["number"].is_null()).nth(1).unwrap();
    let back = desk.say(&["rewind", &id, "--to", &format!("@{}", stored["seq"])]);
    assert_eq!(back.code, 0, "{}", back.err);
    // What git itself would have put there, and the first file.
    let fresh = tempfile::tempdir().unwrap();
    let place = fresh.path().join("fresh");
    git(&desk.path(""), &["worktree", "add", "-q", "--detach", &place.display().to_string(), "HEAD"]);
    std::fs::write(place.join("first.txt"), "1\n").unwrap();
    assert_eq!(found(&workspace), found(&place), "as it was after the first turn");
    git(&desk.path(""), &["worktree", "remove", "--force", &place.display().to_string()]);
    let resumed = desk.say(&["resume", &id]);
    assert_eq!((resumed.out.as_str(), resumed.code), ("All done.\n", 0), "{}", resumed.err);
    assert_eq!(found(&workspace), end, "and as it was at the end");
    assert_eq!(checkout(desk), before, "nor does taking it back");
    Done { id, end }
}

/// The same, then looked at and merged: each of the changed files is here as it is there.
fn merged(desk: &Desk, command: &str, changed: &[&str]) {
    let done = worked(desk, command, &[]);
    let before = checkout(desk);
    let files = desk.json(&["diff", &done.id, "--stat"])["files"].clone();
    let mut paths: Vec<String> =
        files.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    let mut expected: Vec<&str> = [changed, &["first.txt"]].concat();
    expected.sort_unstable();
    assert_eq!(paths, expected);
    assert_eq!(checkout(desk), before, "looking at it changes nothing");
    let said = desk.say(&["merge", &done.id]);
    assert_eq!(said.code, 0, "{}", said.err);
    let after = found(&desk.path(""));
    for name in expected {
        assert_eq!(after.get(Path::new(name)), done.end.get(Path::new(name)), "{name:?}");
    }
    for (name, was) in before.0.iter().filter(|(name, _)| !changed.iter().any(|new| name == &Path::new(new)))
    {
        assert_eq!(after.get(name), Some(was), "{} is nobody's change", name.display());
    }
    assert_eq!(git(&desk.path(""), &["status", "--porcelain"]), before.1[0]);
}

/// D11.16: what is in a submodule is neither brought in nor touched.
#[test]
fn a_repository_with_a_submodule() {
    let desk = repository();
    let other = tempfile::tempdir().unwrap();
    git(other.path(), &["init", "-q", "--initial-branch=main"]);
    std::fs::write(other.path().join("inner.txt"), "inner\n").unwrap();
    git(other.path(), &["add", "."]);
    git(other.path(), &["commit", "-q", "-m", "inner"]);
    git(&desk.path(""), &["submodule", "--quiet", "add", &other.path().display().to_string(), "sub"]);
    commit(&desk);
    std::fs::write(desk.path("sub/inner.txt"), "mine\n").unwrap();
    let inner = git(&desk.path("sub"), &["rev-parse", "HEAD"]);
    merged(&desk, "echo two >> a.txt; ls sub", &["a.txt"]);
    assert_eq!(git(&desk.path("sub"), &["rev-parse", "HEAD"]), inner);
    assert_eq!(std::fs::read_to_string(desk.path("sub/inner.txt")).unwrap(), "mine\n");
}

/// D11.16: pointers of large files are files like any other. Where a filter stands for them, nobody runs it.
#[test]
fn a_repository_with_large_file_pointers() {
    let desk = repository();
    desk.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    desk.write("large.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    commit(&desk);
    merged(&desk, "echo two >> a.txt; sed -i s/4d7a/5e8b/ large.bin", &["a.txt", "large.bin"]);
    let mark = desk.path(".local");
    for key in ["clean", "smudge"] {
        let command = format!("touch {}; cat", mark.display());
        git(&desk.path(""), &["config", &format!("filter.lfs.{key}"), &command]);
    }
    desk.write("s.yaml", &script("echo three >> a.txt"));
    let shown = desk.json(&["run", "Work", "--model", "scripted/s.yaml"]);
    let (id, workspace) = (shown["id"].as_str().unwrap(), Path::new(shown["workspace"].as_str().unwrap()));
    assert!(!mark.exists(), "it was run for the worktree");
    let pointer = std::fs::read(desk.path("large.bin")).unwrap();
    std::fs::write(workspace.join("large.bin"), "bytes").unwrap();
    let said = desk.say(&["rewind", id, "--to", "@1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(std::fs::read(workspace.join("large.bin")).unwrap(), pointer);
    assert_eq!(desk.say(&["start", id]).code, 0);
    assert_eq!(desk.get(&["diff", id, "--name-only"]), "a.txt\n");
    assert!(!mark.exists(), "nothing of it was run");
    git(&desk.path(""), &["worktree", "add", "--quiet", "--detach", ".plain"]);
    assert!(mark.exists(), "void: git does not run it");
}

/// D11.16: two names that differ by case only.
#[test]
fn a_repository_with_names_that_collide() {
    let desk = repository();
    desk.write("Name", "upper\n");
    desk.write("name", "lower\n");
    commit(&desk);
    merged(&desk, "echo more >> Name; rm name; mkdir NAME; echo in > NAME/x", &["Name", "name", "NAME/x"]);
}

/// D11.16: line ends that git changes on the way are what they were, each in its place.
#[test]
fn a_repository_with_both_line_ends() {
    let desk = repository();
    git(&desk.path(""), &["config", "core.autocrlf", "true"]);
    desk.write(".gitattributes", "*.bat eol=crlf\n*.sh eol=lf\n*.raw -text\nfirst.txt -text\n");
    for (name, text) in [
        ("x.bat", "one\r\ntwo\r\n"),
        ("x.sh", "one\ntwo\n"),
        ("x.raw", "one\r\ntwo\n"),
        ("x.txt", "a\r\nb\r\n"),
    ] {
        desk.write(name, text);
    }
    commit(&desk);
    // As git itself would write them.
    git(&desk.path(""), &["rm", "-q", "--cached", "-r", "."]);
    git(&desk.path(""), &["reset", "-q", "--hard"]);
    merged(&desk, "printf 'three\\r\\n' >> x.bat; printf 'c\\r\\n' >> x.txt", &["x.bat", "x.txt"]);
}

/// D11.16: nobody's branch is checked out. What is brought in is applied, and HEAD stays where it is.
#[test]
fn a_repository_on_no_branch() {
    let desk = repository();
    git(&desk.path(""), &["checkout", "-q", "--detach"]);
    let head = git(&desk.path(""), &["rev-parse", "HEAD"]);
    let done = worked(&desk, "echo two >> a.txt", &[]);
    assert_eq!(desk.get(&["apply", &done.id]), "M a.txt\nA first.txt\n");
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "first\ntwo\n");
    assert_eq!(git(&desk.path(""), &["rev-parse", "HEAD"]), head);
    assert_eq!(
        git(&desk.path(""), &["for-each-ref", "--format=%(refname)", "refs/heads/main"]),
        "refs/heads/main"
    );
}

/// D11.16: one commit and no history.
#[test]
fn a_repository_without_its_history() {
    let source = repository();
    source.write("a.txt", "second\n");
    commit(&source);
    let desk = Desk::new();
    let url = format!("file://{}", source.path("").display());
    git(&desk.path(""), &["clone", "-q", "--depth=1", &url, "clone"]);
    std::fs::rename(desk.path("clone/.git"), desk.path(".git")).unwrap();
    git(&desk.path(""), &["reset", "-q", "--hard"]);
    std::fs::remove_dir_all(desk.path("clone")).unwrap();
    assert!(desk.path(".git/shallow").exists());
    merged(&desk, "echo two >> a.txt", &["a.txt"]);
    assert!(desk.path(".git/shallow").exists());
}

/// D11.16: without a commit there is no worktree; in place, everything can be taken back all the same.
#[test]
fn a_repository_without_commits() {
    let desk = Desk::new();
    git(&desk.path(""), &["init", "-q", "--initial-branch=main"]);
    desk.write(".gitignore", "s.yaml\n.longhaul\n.config\n");
    desk.write("a.txt", "first\n");
    desk.write("s.yaml", &script("echo two >> a.txt; git add a.txt"));
    let before = found(&desk.path(""));
    let shown = desk.json(&["run", "Work", "--model", "scripted/s.yaml", "--in-place"]);
    let id = shown["id"].as_str().unwrap();
    let end = found(&desk.path(""));
    assert_ne!(end, before);
    let back = desk.say(&["rewind", id, "--to", "@1"]);
    assert_eq!(back.code, 0, "{}", back.err);
    assert_eq!(found(&desk.path("")), before);
    assert_eq!(desk.say(&["start", id]).code, 0);
    assert_eq!(found(&desk.path("")), end);
    let fresh = desk.json(&["run", "Work", "--model", "scripted/s.yaml"]);
    assert_eq!(fresh["branch"], json!(null));
    assert_eq!(found(&desk.path("")), end);
}

/// A106: nobody works in place in `/`, in the state directory, in another run's workspace or in a repository's own directory; two
/// that work in one directory are told so.
#[test]
fn places_that_are_vital_are_refused() {
    let desk = repository();
    desk.write("s.yaml", &script("echo two >> a.txt"));
    let run = ["run", "Work", "--model", "scripted/s.yaml"];
    let other = desk.json(&run)["workspace"].as_str().unwrap().to_owned();
    let there = found(Path::new(&other));
    std::fs::create_dir(desk.path("below")).unwrap();
    let model = format!("scripted/{}", desk.path("s.yaml").display());
    let within = |place: &Path| {
        let mut command = desk.command(&["run", "Work", "--in-place", "--model", &model]);
        let output = command.current_dir(place).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for place in [
        Path::new("/"),
        &desk.path(".longhaul"),
        &desk.path(".longhaul/runs"),
        Path::new(&other),
        &desk.path(".git"),
        &desk.path(".git/refs"),
    ] {
        let (code, said) = within(place);
        assert_eq!(code, Some(2), "{}: {said}", place.display());
        assert!(said.contains("nobody works in place there"), "{said}");
    }
    assert_eq!(found(Path::new(&other)), there);
    let (code, said) = within(&desk.path("below"));
    assert_eq!(code, Some(0), "the control: {said}");
    assert!(!said.contains("home directory"), "{said}");
    let mut at_home = desk.command(&["run", "Work", "--in-place", "--model", &model]);
    at_home.current_dir(desk.path("below")).env("HOME", desk.path("below"));
    let said = at_home.output().unwrap().stderr;
    assert!(String::from_utf8_lossy(&said).contains("warning: this is your home directory"));
}

/// D11.16: a repository in a repository, the user's or the agent's own, is left alone.
#[test]
fn a_repository_in_a_repository() {
    let desk = repository();
    std::fs::create_dir(desk.path("inner")).unwrap();
    git(&desk.path("inner"), &["init", "-q"]);
    desk.write("inner/file", "inner\n");
    let command = "echo two >> a.txt; git init -q own; echo x > own/file";
    let before = checkout(&desk);
    desk.write("s.yaml", &script(command));
    let shown = desk.json(&["run", "Work", "--model", "scripted/s.yaml"]);
    let (id, workspace) =
        (shown["id"].as_str().unwrap(), PathBuf::from(shown["workspace"].as_str().unwrap()));
    let listed = desk.json(&["checkpoints", id, "--all"]);
    // The first is from before the first change.
    let stored = listed.as_array().unwrap().iter().filter(|point| point["number"].is_null()).nth(1).unwrap();
    let back = desk.say(&["rewind", id, "--to", &format!("@{}", stored["seq"])]);
    assert_eq!(back.code, 0, "{}", back.err);
    assert!(back.err.contains("own/ is no part of checkpoints, and was left as it is"), "{}", back.err);
    assert!(workspace.join("own/file").exists());
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "first\n");
    assert_eq!(desk.say(&["resume", id]).code, 0);
    assert_eq!(checkout(&desk), before);
    assert_eq!(desk.say(&["merge", id]).code, 0);
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "first\ntwo\n");
    assert!(!desk.path("own").exists() && desk.path("inner/file").exists());
}

/// D11.16: names with spaces, line breaks, quotes and letters of every kind.
#[test]
fn a_repository_with_odd_names() {
    let desk = repository();
    let names = ["with space", "new\nline", "-dash", "quo\"te", "back\\slash", "ünï", "a/b c/d\te"];
    std::fs::create_dir_all(desk.path("a/b c")).unwrap();
    names.iter().for_each(|name| desk.write(name, "one\n"));
    commit(&desk);
    let command = "for f in 'with space' $'new\\nline' ./-dash 'quo\"te' 'back\\slash' ünï $'a/b c/d\\te'; do echo two >> \"$f\"; done";
    merged(&desk, command, &names);
}

/// D11.16: files that may not be written or can be run, and links that lead nowhere.
#[test]
fn a_repository_with_read_only_files_and_links() {
    let desk = repository();
    desk.write("locked", "one\n");
    desk.write("run.sh", "echo\n");
    std::fs::set_permissions(desk.path("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("nowhere", desk.path("link")).unwrap();
    commit(&desk);
    std::fs::set_permissions(desk.path("locked"), std::fs::Permissions::from_mode(0o444)).unwrap();
    let command = "chmod 444 locked; chmod -x run.sh; ln -sf a.txt link; mkdir d; echo x > d/f; chmod 555 d";
    merged(&desk, command, &["d/f", "link", "run.sh"]);
    let mode = std::fs::metadata(desk.path("locked")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o444, "it is nobody's change");
}

/// A106: what a repository lacks, and where somebody stands in it, is said.
#[test]
fn a_repository_that_has_nothing_to_work_on_is_said_to_be_one() {
    let desk = Desk::new();
    git(&desk.path(""), &["init", "-q", "--initial-branch=main"]);
    let create = ["create", "--task", "x", "--model", "scripted/s.yaml"];
    let refused = desk.say(&[&create[..], &["--with-changes"]].concat());
    assert!(refused.code == 2 && refused.err.contains("has no commit yet"), "{}", refused.err);
    let bare = Desk::new();
    git(&bare.path(""), &["init", "-q", "--bare", "."]);
    let warned = bare.say(&create);
    assert!(warned.err.contains("is a repository without a checkout"), "{}", warned.err);
    // In the workspace of another run.
    let desk = repository();
    let run = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    let workspace = desk.json(&["show", run["id"].as_str().unwrap()])["workspace"].clone();
    let script = format!("scripted/{}", desk.path("s.yaml").display());
    let mut inside = desk.command(&["create", "--task", "x", "--model", &script]);
    let said = inside.current_dir(workspace.as_str().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("is a workspace of another run"), "{said}");
}
