//! Commands that may throw work away: before one runs, the files are kept under a name.
//!
//! Owns which commands these are, as rules like any others, so that they are found through wrappers, in scripts and in text that
//! could not be read. Refuses to say whether one may run: that is for the permissions.

use serde_json::Value;

use super::bash::{self, Doubts};
use super::call::OPEN;
use super::rules::{Permissions, Rules};
use super::{Action, Here};
use crate::limits::RISK_BYTES_MAX;
use crate::prompt::head;

/// Generous on purpose: a checkpoint too many costs little. Not among them is `rm` of files that are all named outright (`rm a b`), nor
/// what writes over a file (`mv`, `cp`, `>`, `sed -i`), nor what a program's own code does: files are stored when a turn ends anyway,
/// and whoever goes back to a guard finds its command begun, so that an everyday one would not be done again.
const RISKS: &[&str] = &[
    "rm -r *",
    "xargs rm *",
    "find * -delete",
    "find * -exec rm *",
    "shred *",
    "truncate *",
    "rsync --del*",
    "git reset --hard *",
    "git reset --merge *",
    "git reset --keep *",
    "git clean -f *",
    "git checkout -f *",
    "git checkout -- *",
    "git checkout . *",
    "git checkout HEAD* *",
    "git checkout-index *",
    "git read-tree *",
    "git restore *",
    "git switch -f *",
    "git switch -C *",
    "git switch --discard-changes *",
    "git stash drop *",
    "git stash clear *",
    "git stash pop *",
    "git branch -D *",
    "git branch -M *",
    "git branch -f *",
    "git tag -d *",
    "git update-ref *",
    "git reflog expire *",
    "git rebase *",
    "git filter-branch *",
    "git filter-repo *",
    "git commit --amend *",
    "git gc --prune*",
    "git prune *",
    "git rm -r *",
    "git rm -f *",
    "git worktree remove *",
    "git sparse-checkout *",
    "git submodule deinit *",
    "git push --force*",
    "git push -f *",
];

/// The command of a call that may throw work away, as it is shown; `None` if there is none.
pub fn risk(here: Here<'_>, tool: &str, args: &Value) -> Option<String> {
    let text = args.get("command").and_then(Value::as_str).filter(|_| tool == "bash")?;
    let rules = RISKS.iter().map(|pattern| ((*pattern).to_owned(), Action::Deny)).collect();
    let rules = Permissions([("bash".to_owned(), Rules(rules))].into());
    let found = bash::explain(&rules, here, text, Doubts::LeftOut);
    let is_risk = |words: &[String]| brings_files_back(words) || removes_by_pattern(words);
    if let Some(risk) = found.commands.iter().find(|command| is_risk(&command.words)) {
        return Some(shown(&risk.words.join(" ")));
    }
    let rule = found.verdict.rule.filter(|_| found.verdict.action > Action::Allow)?;
    let worst = found.commands.into_iter().find(|command| command.action == found.verdict.action);
    let words = worst.map_or(rule.pattern, |command| command.words.join(" "));
    Some(shown(&words))
}

fn shown(words: &str) -> String {
    let shown: String = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    head(&shown, RISK_BYTES_MAX).to_owned()
}

/// Is it `rm` of what nobody knows before it runs: a pattern, a variable, what a command prints?
fn removes_by_pattern(words: &[String]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    name.rsplit('/').next() == Some("rm") && rest.iter().any(|word| word.ends_with(OPEN))
}

/// Is it `git checkout` with files, also without `--`? A lone word may be a branch, and is taken for one unless it looks like a file.
fn brings_files_back(words: &[String]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let is_git = name.rsplit('/').next() == Some("git");
    let Some(place) = rest.iter().position(|word| word == "checkout").filter(|_| is_git) else {
        return false;
    };
    let arguments = &rest[place + 1..];
    let makes_branch = |word: &String| ["-b", "-B", "-t", "--track", "--orphan"].contains(&word.as_str());
    if arguments.iter().any(makes_branch) {
        return false;
    }
    let plain: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let looks_like_file = |word: &str| {
        word.contains(['.', '/', '*', ':']) || word.starts_with(|letter: char| letter.is_ascii_uppercase())
    };
    plain.len() > 1 || plain.iter().any(|word| looks_like_file(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Here;
    use super::risk;

    fn found(command: &str) -> Option<String> {
        let here = Here { workspace: "/work", cwd: "" };
        risk(here, "bash", &json!({ "command": command }))
    }

    #[test]
    fn what_throws_work_away_is_found_wherever_it_stands() {
        for command in [
            "rm -rf build",
            "rm --recursive x",
            "cd a && sudo rm -r b",
            "bash -c 'git reset --hard HEAD~1'",
            "git -C sub clean -fdx",
            "git clean --force -d",
            "git checkout -- .",
            "git checkout .",
            "git checkout HEAD src/lib.rs",
            "git checkout src/lib.rs",
            "git checkout notes.txt",
            "git checkout Makefile",
            "git checkout main src",
            "git -C sub checkout --quiet main src",
            "cd a && sudo git checkout b.c",
            "bash -c 'git checkout a.c'",
            "git restore src",
            "git branch -D feature",
            "git stash drop",
            "git stash pop",
            "git stash clear",
            "git rebase main",
            "find . -name '*.o' -delete",
            "find . -type f -exec rm {} +",
            "git ls-files -o | xargs rm",
            "if true; then git reset --hard; fi",
            "rm $FLAGS x",
            "rm *",
            "rm -f *.log",
            "/bin/rm -- build/?.o",
            "cd a && sudo rm [ab]*",
            "for f in *; do rm -- $f; done",
            "for f in *.log; do rm \"$f\"; done",
            "rm $(git ls-files -o)",
            "echo \"$(git clean -fd)\"",
        ] {
            assert!(found(command).is_some(), "{command}");
        }
    }

    #[test]
    fn what_does_not_is_left_alone() {
        for command in [
            "ls -la",
            "rm notes.txt",
            "rm -f a.txt b.txt",
            "rm '*'",
            "ls *",
            "mv *.log old",
            "git stash push",
            "cargo test",
            "git status",
            "git checkout main",
            "git checkout -b feature",
            "git checkout -b feature/one origin/main",
            "git checkout -q main",
            "git commit -m 'checkout a.c'",
            "echo git checkout a.c",
            "git reset HEAD file",
            "git clean -n",
            "git branch feature",
            "git stash",
            "git commit -m 'reset --hard'",
            "echo rm -rf build",
            "grep -rn 'rm -rf' .",
        ] {
            assert_eq!(found(command), None, "{command}");
        }
        let here = Here { workspace: "/work", cwd: "" };
        assert_eq!(risk(here, "write", &json!({ "command": "rm -rf x" })), None);
        assert_eq!(risk(here, "bash", &json!({ "command": 3 })), None);
    }

    #[test]
    fn it_is_shown_short_and_on_one_line() {
        let long = format!("git clean -f 'a\nb' {}", "x".repeat(4000));
        let shown = found(&long).unwrap();
        assert!(shown.starts_with("git clean -f a b xxx") && shown.len() <= crate::limits::RISK_BYTES_MAX);
    }
}
