//! Every way in which a repository that an agent made could have our own git run a program, first seen to work with plain git, then
//! met by everything that we do there ourselves.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::commit::commit;
use longhaul_workspace::landing::{Form, Work, apply, bring, merge};
use longhaul_workspace::place::{self, Place};
use longhaul_workspace::source::{self, Address, Store};
use tempfile::TempDir;

/// One way: what the agent types, and what a user would have to type to fall for it. `$EVIL` is a program that leaves a mark.
struct Vector {
    name: &'static str,
    agent: &'static str,
    control: &'static str,
}

const VECTORS: &[Vector] = &[
    Vector {
        name: "filter clean",
        agent: "git config filter.f.clean $EVIL; echo '* filter=f' > .gitattributes",
        control: "git add file",
    },
    Vector {
        name: "filter smudge, committed attributes",
        agent: "echo '* filter=f' > .gitattributes; git add .; git commit -qm a; git config filter.f.smudge $EVIL",
        control: "git checkout -q -f HEAD -- file; rm file; git checkout -q file",
    },
    Vector {
        name: "filter process",
        agent: "git config filter.f.process $EVIL; echo '* filter=f' > .git/info/attributes",
        control: "git add file",
    },
    Vector {
        name: "filter of a name that is no text",
        agent: r#"printf '[filter "\377"]\n\tclean = %s\n\tsmudge = %s\n' $EVIL $EVIL >> .git/config
            printf '* filter=\377\n' > .gitattributes"#,
        control: "git add file",
    },
    Vector {
        name: "filter in a file that is included",
        agent: r#"printf '[filter "f"]\n\tclean = %s\n\tsmudge = %s\n' $EVIL $EVIL > .git/more
            git config include.path more; echo '* filter=f' > .git/info/attributes"#,
        control: "git add file",
    },
    Vector {
        name: "filter in a file that is included if",
        agent: r#"printf '[filter "f"]\n\tclean = %s\n\tsmudge = %s\n' $EVIL $EVIL > .git/more
            git config 'includeIf.gitdir:**.path' more; echo '* filter=f' > .git/info/attributes"#,
        control: "git add file",
    },
    Vector {
        name: "promisor, upload-pack",
        agent: r#"git config core.repositoryFormatVersion 1; git config extensions.partialClone evil
            git config remote.evil.promisor true; git config remote.evil.url "$PWD"
            git config remote.evil.uploadpack $EVIL
            b=$(git rev-parse HEAD:file); rm -f .git/objects/$(echo $b | sed 's,^..,&/,')"#,
        control: "git diff",
    },
    Vector {
        name: "promisor, ssh",
        agent: r#"git config core.repositoryFormatVersion 1; git config extensions.partialClone evil
            git config remote.evil.promisor true; git config remote.evil.url ssh://nowhere/x
            git config core.sshCommand $EVIL
            b=$(git rev-parse HEAD:file); rm -f .git/objects/$(echo $b | sed 's,^..,&/,')"#,
        control: "git diff",
    },
    Vector { name: "core.fsmonitor", agent: "git config core.fsmonitor $EVIL", control: "git status" },
    Vector {
        name: "core.hooksPath",
        agent:
            "mkdir h; for n in post-checkout reference-transaction post-index-change; do cp $EVIL h/$n; done
            git config core.hooksPath h",
        control: "git branch control",
    },
    Vector {
        name: "hooks",
        agent: "mkdir -p .git/hooks; for n in post-checkout reference-transaction post-index-change; do cp $EVIL .git/hooks/$n; done",
        control: "git branch control",
    },
    Vector { name: "diff.external", agent: "git config diff.external $EVIL", control: "git diff" },
    Vector {
        name: "textconv",
        agent: "git config diff.d.textconv $EVIL; echo '* diff=d' > .gitattributes",
        control: "git diff",
    },
    Vector {
        name: "merge driver",
        agent: "git config merge.d.driver $EVIL; echo '* merge=d' > .git/info/attributes",
        control: "git stash -q; git checkout -qb x HEAD~1; echo x > file; git commit -qam x; git merge main",
    },
    Vector {
        name: "gpg.program",
        agent: "git config gpg.program $EVIL; git config commit.gpgSign true",
        control: "git commit -qam x",
    },
    Vector {
        name: "credential helper",
        agent: "git config credential.helper $EVIL",
        control: "printf 'protocol=https\nhost=nowhere\n\n' | git credential fill",
    },
    Vector { name: "alias", agent: "git config alias.evil \"!$EVIL\"", control: "git evil" },
    Vector { name: "core.editor", agent: "git config core.editor $EVIL", control: "git commit -a" },
    Vector {
        name: "alternates",
        agent: "git clone -q --bare . ../other; echo \"$PWD/../other/objects\" > .git/objects/info/alternates
            git config core.alternateRefsCommand $EVIL",
        control: "git clone -q . ../third; git -C ../third commit -q --allow-empty -m y; git fetch -q ../third",
    },
];

struct Ground {
    dir: TempDir,
}

impl Ground {
    /// A directory that was no repository until an agent had done its work there.
    fn new(vector: Option<&Vector>) -> Ground {
        let ground = Ground { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(ground.repo()).unwrap();
        fs::create_dir(ground.at("home")).unwrap();
        fs::write(ground.at("evil"), format!("#!/bin/sh\ntouch '{}'\n", ground.mark().display())).unwrap();
        fs::set_permissions(ground.at("evil"), fs::Permissions::from_mode(0o755)).unwrap();
        let begun =
            "git init -q -b main; git config user.name a; git config user.email a@b; mkdir -p .git/info
            echo one > file; git add .; git commit -qm one; echo two > file; git commit -qam two";
        assert!(ground.shell(begun).status.success());
        if let Some(vector) = vector {
            let done = ground.shell(&format!("set -e; {}", vector.agent));
            assert!(done.status.success(), "{}: {done:?}", vector.name);
        }
        fs::write(ground.repo().join("file"), "three, of another length\n").unwrap();
        fs::remove_file(ground.mark()).ok();
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn repo(&self) -> PathBuf {
        self.at("repo")
    }

    fn mark(&self) -> PathBuf {
        self.at("mark")
    }

    fn shell(&self, text: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", text]).current_dir(self.repo()).env("EVIL", self.at("evil"));
        shell.env("HOME", self.at("home")).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap()
    }

    /// What is done there by `result`, `fork`, `run`, `diff`, `apply`, `merge`, checkpoints, `rewind`, sessions and cleanup; whether each
    /// could be done at all.
    fn ours(&self) -> Vec<(&'static str, bool)> {
        let (repo, scratch, state) = (self.repo(), self.at("scratch"), self.at("state"));
        let mut done = Vec::new();
        let head = place::head(&repo).unwrap_or_default();
        done.push(("head", !head.is_empty()));
        done.push(("discover", place::discover_repo(&repo).is_some()));
        done.push(("files", place::files(&repo).is_some()));
        done.push(("is_dirty", place::is_dirty(&repo)));
        done.push(("is_unsaved", place::is_unsaved(&repo)));
        done.push(("changes", place::changes(&repo, None, None).is_some()));
        done.push(("changes of a base", place::changes(&repo, Some(&repo), Some("HEAD~1")).is_some()));
        done.push(("changes_between", place::changes_between(&repo, "HEAD~1", "HEAD").is_some()));
        done.push(("make_branch", place::make_branch(&repo, "made", &head).is_ok()));
        done.push(("drop_branch", place::drop_branch(&repo, "made", &head).is_ok()));

        let open = |filters| Checkout::open(&repo, &scratch, filters);
        done.push(("carry", open(Filters::Absent).is_ok_and(|checkout| checkout.carry("run_0").is_ok())));
        let path = self.at("work/run_1");
        let branch = "agent/run_1".to_owned();
        let place =
            Place::Worktree { repo: repo.clone(), path: path.clone(), branch: branch.clone(), start: None };
        done.push(("worktree", place::ensure(&place).is_ok()));
        done.push(("detached", place::detached(&repo, &self.at("work/apart"), &head).is_ok()));
        done.push(("standing", place::standing(&path, &repo, "run_1", None).is_some()));
        fs::write(path.join("new"), "new\n").ok();
        fs::write(path.join("file"), "four, of yet another length\n").ok();
        // Where a repository keeps us from making a worktree, there is none to store.
        if let Ok(vault) = Vault::open(&path, &state) {
            let first = vault.store();
            fs::write(path.join("new"), "newer\n").ok();
            let second = vault.store();
            done.push(("checkpoint", first.is_ok() && second.is_ok()));
            let way = first.ok().zip(second.ok());
            let back = way.map(|(first, second)| vault.write(&second.tree, &first.tree));
            done.push(("rewind", back.is_some_and(|back| back.is_ok())));
        }
        let committed = Checkout::open(&path, &scratch, Filters::Failing)
            .is_ok_and(|tree| commit(&tree, "run_1", "x").0.is_ok());
        done.push(("commit", committed));
        let work = Work {
            run: "run_1".to_owned(),
            title: "x".to_owned(),
            repository: repo.clone(),
            worktree: path.clone(),
            branch,
            base: Some(head.clone()),
            carried: false,
            scratch: scratch.clone(),
        };
        let diff = work.result().and_then(|result| work.diff(&result, Form::Patch));
        done.push(("diff", diff.is_ok_and(|diff| !diff.is_empty())));
        done.push(("apply over changes", apply(&work).is_err()));
        fs::write(repo.join("file"), "two\n").unwrap();
        done.push(("apply", apply(&work).is_ok()));
        self.shell("rm -f new; echo two > file");
        done.push(("merge", merge(&work).is_ok()));
        done.push(("bring", bring(&repo, &scratch, "run_1", &head).is_ok()));

        let address = Address::parse("repo", &self.at("")).unwrap();
        let store = Store::at(&self.at("stores"), address, None);
        let start = store.fetch(None);
        let clone = start.ok().map(|start| Place::Clone {
            store: store.directory().to_owned(),
            url: repo.display().to_string(),
            path: self.at("work/clone"),
            branch: "agent/clone".to_owned(),
            start,
        });
        done.push(("clone", clone.is_some_and(|clone| place::ensure(&clone).is_ok())));
        done.push(("refresh", source::refresh(store.directory(), &repo, &self.at("scratch")).is_ok()));
        done.push(("cleanup", place::remove(&place).is_ok()));
        done
    }
}

/// A47, A48: no program is started that a repository names, whoever made that, by anything that we do in it ourselves.
#[test]
fn no_program_of_an_agents_repository_is_run() {
    for (what, is_done) in Ground::new(None).ours() {
        assert!(is_done, "void: {what} does nothing here");
    }
    for vector in VECTORS {
        let control = Ground::new(Some(vector));
        let said = control.shell(vector.control);
        assert!(control.mark().exists(), "void: plain git does not run it: {}: {said:?}", vector.name);
        let ground = Ground::new(Some(vector));
        let done = ground.ours();
        assert!(!ground.mark().exists(), "{} was run by one of {done:?}", vector.name);
    }
}

/// A48: a repository that says its files are elsewhere has nothing written there.
#[test]
fn a_repository_with_files_elsewhere_changes_nothing_there() {
    let ground = Ground::new(None);
    fs::create_dir(ground.at("elsewhere")).unwrap();
    fs::write(ground.at("elsewhere/file"), "the user's\n").unwrap();
    ground.shell("git config core.worktree ../../elsewhere");
    let status = ground.shell("git status --porcelain").stdout;
    assert_eq!(String::from_utf8_lossy(&status).trim(), "M file", "void: git does not look there");
    ground.ours();
    let left: Vec<_> = fs::read_dir(ground.at("elsewhere")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_to_string(ground.at("elsewhere/file")).unwrap(), "the user's\n");
}

/// A48: what is new at the origin is not fetched from where an agent's configuration leads instead.
#[test]
fn a_workspace_does_not_say_where_it_is_fetched_from() {
    for key in ["url.SECRET.insteadOf", "remote.STORE.uploadpack", "remote.STORE.vcs"] {
        let ground = Ground::new(None);
        let secret = ground.at("secret");
        ground.shell("git clone -q . ../secret; git -C ../secret commit -q --allow-empty -m secret");
        let address = Address::parse("repo", &ground.at("")).unwrap();
        let store = Store::at(&ground.at("stores"), address, None);
        store.fetch(None).unwrap();
        let store = store.directory();
        let key = key.replace("SECRET", secret.to_str().unwrap()).replace("STORE", store.to_str().unwrap());
        let value = if key.starts_with("url.") { store.to_owned() } else { ground.at("evil") };
        let set = Command::new("git").arg("-C").arg(ground.repo()).args(["config", &key]).arg(value).status();
        assert!(set.unwrap().success());
        source::refresh(store, &ground.repo(), &ground.at("scratch")).unwrap();
        assert!(!ground.mark().exists(), "{key}");
        let brought = ground.shell("git log --format=%s --remotes").stdout;
        assert!(!String::from_utf8(brought).unwrap().contains("secret"), "{key}");
    }
}
