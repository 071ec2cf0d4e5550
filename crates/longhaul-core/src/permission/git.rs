//! git runs programs in many ways: options, subcommands, aliases, configuration. What is known not to is listed here.

use super::call::Term;
use super::pattern::basename;
use super::programs::is_option;

const VALUED: &[&str] =
    &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--exec-path"];

/// Global options that change what is run or where.
const STEERING: &[&str] = &["-c", "--config-env", "--exec-path", "--git-dir", "--work-tree"];

/// Subcommands; anything else may be an alias for a shell command.
const KNOWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "mergetool",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "replace",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Options that run a program or write a file, by subcommand; `*` is every one.
const HAZARDS: &[(&str, &[&str])] = &[
    (
        "*",
        &[
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--extcmd",
            "--ext-diff",
            "--textconv",
            "--no-index",
            "--output",
            "--template",
            "--separate-git-dir",
            "--edit-description",
        ],
    ),
    ("grep", &["-O", "--open-files-in-pager"]),
    ("clone", &["-u", "-c", "--config"]),
    ("ls-remote", &["-u"]),
    ("fetch", &["-u"]),
    ("rebase", &["-x"]),
    ("difftool", &["-x"]),
    ("archive", &["-o", "--remote"]),
    ("format-patch", &["-o"]),
    ("branch", &["--edit-description"]),
    ("help", &["-w", "--web"]),
];

/// Subcommands that run what configuration or arguments name.
const OPAQUE: &[&str] = &["difftool", "mergetool"];

/// What `git-branch -D x` is as `git branch -D x`; `None` for any other program.
pub(super) fn spelled_out(terms: &[Term]) -> Option<Vec<Term>> {
    let (program, arguments) = terms.split_first()?;
    let subcommand = subcommand(program.fixed()?)?;
    let words = ["git", subcommand].map(|word| Term::Fixed(word.to_owned()));
    Some(words.into_iter().chain(arguments.iter().cloned()).collect())
}

/// The subcommand that a program is, by whatever path: `git-branch` is `branch`.
pub(super) fn subcommand(program: &str) -> Option<&str> {
    basename(program).strip_prefix("git-").filter(|subcommand| !subcommand.is_empty())
}

/// Whether it is one of git's own, and no program that somebody named so.
pub(super) fn is_known(subcommand: &str) -> bool {
    KNOWN.contains(&subcommand)
}

/// How many words the global options take.
pub(super) fn global_options(arguments: &[Term]) -> usize {
    let mut at = 0;
    while let Some(word) = arguments.get(at).and_then(Term::fixed) {
        if !word.starts_with('-') {
            break;
        }
        at += if VALUED.contains(&word) { 2 } else { 1 };
    }
    at.min(arguments.len())
}

/// What makes this git command more than itself: the word that does, and a sentence.
pub(super) fn hazards(arguments: &[Term]) -> Vec<(Option<String>, String)> {
    let at = global_options(arguments);
    let (global, rest) = arguments.split_at(at);
    let mut hazards = Vec::new();
    for word in global.iter().filter_map(Term::fixed) {
        if let Some(option) =
            STEERING.iter().find(|option| word == **option || word.starts_with(&format!("{option}=")))
        {
            hazards.push((Some(word.to_owned()), format!("git's option `{option}` changes what it runs")));
        }
    }
    let Some(subcommand) = rest.first() else { return hazards };
    let Some(subcommand) = subcommand.fixed() else {
        hazards.push((None, "git's subcommand is not known before it runs".to_owned()));
        return hazards;
    };
    if !KNOWN.contains(&subcommand) {
        hazards.push((
            Some(subcommand.to_owned()),
            format!("`git {subcommand}` may be an alias for any command"),
        ));
    }
    let words: Vec<&str> = rest[1..].iter().filter_map(Term::fixed).collect();
    if runs_others(subcommand, &words) {
        hazards
            .push((Some(subcommand.to_owned()), format!("`git {subcommand}` runs or sets what it is given")));
    }
    let options = HAZARDS
        .iter()
        .filter(|(name, _)| *name == "*" || *name == subcommand)
        .flat_map(|(_, options)| *options);
    for option in options {
        if let Some(word) =
            words.iter().take_while(|word| **word != "--").find(|word| is_option(word, option))
        {
            hazards.push((
                Some((*word).to_owned()),
                format!("git's option `{option}` runs a program or leads elsewhere"),
            ));
        }
    }
    if words.iter().any(|word| word.contains("ext::")) {
        hazards.push((None, "an address that names a command".to_owned()));
    }
    hazards
}

fn runs_others(subcommand: &str, words: &[&str]) -> bool {
    let first = words.iter().find(|word| !word.starts_with('-')).copied();
    match subcommand {
        "config" => {
            let looks =
                ["--get", "--list", "-l", "--get-all", "--get-regexp", "--show-origin", "get", "list"];
            !words.first().is_some_and(|word| looks.contains(word))
                && words.iter().filter(|word| !word.starts_with('-')).count() != 1
        }
        "submodule" => first == Some("foreach"),
        "bisect" => first == Some("run"),
        "bundle" => first == Some("create"),
        subcommand => OPAQUE.contains(&subcommand),
    }
}
