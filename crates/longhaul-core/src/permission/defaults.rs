//! The rules that hold before anybody has written one.

use super::Action::{self, Allow, Ask, Deny};
use super::rules::{Permissions, Rules};

const BASH: &[(&str, Action)] = &[
    ("*", Allow),
    ("rm -rf *", Deny),
    ("rm -r *", Deny),
    ("rm -f /*", Deny),
    ("chmod 777 *", Deny),
    ("chmod -R 777 *", Deny),
    ("chmod 0*777 *", Deny),
    ("chmod a+rwx *", Deny),
    ("chmod a=rwx *", Deny),
    ("chmod ugo+rwx *", Deny),
    ("chmod ugo=rwx *", Deny),
    ("curl * | sh *", Deny),
    ("curl * | bash *", Deny),
    ("wget * | sh *", Deny),
    ("wget * | bash *", Deny),
    ("find * -delete", Deny),
    ("find * -exec rm *", Deny),
    ("git push --force*", Deny),
    ("git push -f *", Deny),
    ("git push * +*", Deny),
    ("git reset --hard *", Deny),
    // A worktree shares these with the user's own checkout.
    ("git stash drop *", Deny),
    ("git stash clear *", Deny),
    ("git stash pop *", Deny),
    ("git stash branch *", Deny),
    ("git branch -D *", Deny),
    ("git branch -M *", Deny),
    ("git branch -C *", Deny),
    ("git branch -f *", Deny),
    ("git tag -d *", Deny),
    ("git tag -f *", Deny),
    ("git fetch -f *", Deny),
    ("git fetch . +*", Deny),
    ("git fetch -P *", Deny),
    ("git fetch --stdin *", Deny),
    ("git fetch --refmap*", Deny),
    ("git pull -f *", Deny),
    ("git pull . +*", Deny),
    ("git pull --refmap*", Deny),
    ("git update-ref *", Deny),
    ("git symbolic-ref refs/heads/*", Deny),
    ("git symbolic-ref refs/tags/*", Deny),
    ("git symbolic-ref refs/stash*", Deny),
    ("git reflog expire *", Deny),
    ("git reflog delete *", Deny),
    // These lose something only if the name is another's, and that is not seen here.
    ("git branch -m *", Ask),
    ("git checkout -B *", Ask),
    ("git switch -C *", Ask),
    ("git fetch +*", Ask),
    ("git fetch -p *:*", Ask),
    ("git fetch --prune *:*", Ask),
    ("git pull +*", Ask),
    ("git pull -p *:*", Ask),
    ("git pull --prune *:*", Ask),
    ("git worktree add -B *", Ask),
    ("git rebase --update-refs *", Ask),
    ("git push *", Ask),
    ("git commit *", Ask),
];

/// Files that are not for an agent, wherever they are.
const HIDDEN: &[(&str, Action)] = &[
    ("*.env", Deny),
    (".env.*", Deny),
    ("*.pem", Deny),
    ("*.key", Deny),
    ("*credentials*", Deny),
    ("*secrets*", Deny),
];

/// Files through which a change of the tree becomes a change of what runs, or of these rules.
const GUARDED: &[(&str, Action)] = &[
    (".git/*", Deny),
    (".gitmodules", Ask),
    (".longhaul/*", Deny),
    ("longhaul.yaml", Ask),
    ("node_modules/*", Deny),
    (".bashrc", Ask),
    (".mcp.json", Ask),
    (".vscode/*", Ask),
    (".idea/*", Ask),
];

pub(super) fn permissions() -> Permissions {
    let rules = |parts: &[&[(&str, Action)]]| {
        Rules(parts.concat().into_iter().map(|(pattern, action)| (pattern.to_owned(), action)).collect())
    };
    let all: &[(&str, Action)] = &[("*", Allow)];
    let sections = [
        ("bash", rules(&[BASH])),
        ("read", rules(&[all, HIDDEN, &[(".git/objects/*", Deny)]])),
        ("write", rules(&[all, HIDDEN, GUARDED])),
        ("edit", rules(&[all, HIDDEN, GUARDED])),
        ("external_directory", rules(&[&[("*", Deny)]])),
    ];
    Permissions(sections.into_iter().map(|(section, rules)| (section.to_owned(), rules)).collect())
}
