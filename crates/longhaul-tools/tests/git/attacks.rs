//! Each way in which a repository makes plain git run a program, first seen to work, then tried on all tools.

use std::fs;

use serde_json::{Value, json};

use crate::repo::{Repo, plain};

/// One way, and the plain command that shows that it works.
struct Vector {
    name: &'static str,
    set: fn(&Repo),
    control: &'static [&'static str],
}

const VECTORS: &[Vector] = &[
    Vector {
        name: "core.fsmonitor",
        set: |repo| repo.config("core.fsmonitor", &repo.program(".git/evil")),
        control: &["status"],
    },
    Vector {
        name: "include.path",
        set: |repo| {
            repo.write(".git/more", &format!("[core]\nfsmonitor = {}\n", repo.program(".git/evil")));
            repo.config("include.path", "more");
        },
        control: &["status"],
    },
    Vector {
        name: "core.hooksPath",
        set: |repo| {
            repo.program("hooks/pre-commit");
            repo.config("core.hooksPath", "hooks");
        },
        control: &["commit", "-am", "x"],
    },
    Vector {
        name: ".git/hooks/post-index-change",
        set: |repo| drop(repo.program(".git/hooks/post-index-change")),
        control: &["add", "a.txt"],
    },
    Vector {
        name: ".git/hooks/reference-transaction",
        set: |repo| drop(repo.program(".git/hooks/reference-transaction")),
        control: &["branch", "control"],
    },
    Vector {
        name: "filter clean, attributes in the tree",
        set: |repo| {
            repo.config("filter.evil.clean", &repo.program(".git/evil"));
            repo.write(".gitattributes", "*.txt filter=evil\n");
        },
        control: &["add", "a.txt"],
    },
    Vector {
        name: "filter clean, attributes in .git/info",
        set: |repo| {
            repo.config("filter.evil.clean", &repo.program(".git/evil"));
            repo.write(".git/info/attributes", "*.txt filter=evil\n");
        },
        control: &["diff", "--no-ext-diff", "--no-textconv"],
    },
    Vector {
        name: "filter process of a strange name",
        set: |repo| {
            repo.config("filter.a=b.c.process", &repo.program(".git/evil"));
            repo.write(".git/info/attributes", "*.txt filter=a=b.c\n");
        },
        control: &["add", "a.txt"],
    },
    Vector {
        name: "filter smudge",
        set: |repo| {
            repo.config("filter.evil.smudge", &repo.program(".git/evil"));
            repo.write(".git/info/attributes", "*.txt filter=evil\n");
        },
        control: &["checkout", "--", "a.txt"],
    },
    Vector {
        name: "core.attributesFile",
        set: |repo| {
            repo.config("filter.evil.clean", &repo.program(".git/evil"));
            repo.write("attributes", "*.txt filter=evil\n");
            repo.config("core.attributesFile", repo.fixture.path("attributes").to_str().unwrap());
        },
        control: &["diff"],
    },
    Vector {
        name: "diff.external",
        set: |repo| repo.config("diff.external", &repo.program(".git/evil")),
        control: &["diff"],
    },
    Vector {
        name: "diff driver",
        set: |repo| {
            repo.config("diff.evil.command", &repo.program(".git/evil"));
            repo.write(".git/info/attributes", "*.txt diff=evil\n");
        },
        control: &["diff"],
    },
    Vector { name: "textconv in diff", set: textconv, control: &["diff"] },
    Vector { name: "textconv in show", set: textconv, control: &["show"] },
    Vector { name: "textconv in blame", set: textconv, control: &["blame", "a.txt"] },
    Vector { name: "gpg.program in log", set: signed, control: &["log"] },
    Vector {
        name: "gpg.program in commit",
        set: |repo| {
            repo.config("commit.gpgSign", "true");
            repo.config("gpg.program", &repo.program(".git/evil"));
        },
        control: &["commit", "-am", "x"],
    },
    Vector {
        name: "core.editor",
        set: |repo| repo.config("core.editor", &repo.program(".git/evil")),
        control: &["commit", "-a"],
    },
    Vector {
        name: "core.fsmonitor of a submodule",
        set: |repo| {
            repo.git(&["init", "--quiet", "sub"]);
            repo.git(&["-C", "sub", "commit", "--quiet", "--allow-empty", "-m", "x"]);
            repo.git(&["add", "sub"]);
            repo.git(&["commit", "--quiet", "-m", "sub", "sub"]);
            repo.git(&["-C", "sub", "config", "core.fsmonitor", &repo.program(".git/evil")]);
        },
        control: &["status"],
    },
    Vector {
        name: "lazy fetch, upload-pack",
        set: |repo| lazy(repo, "remote.origin.uploadpack", "/"),
        control: LAZY,
    },
    Vector {
        name: "lazy fetch, ssh",
        set: |repo| lazy(repo, "core.sshCommand", "ssh://host/x"),
        control: LAZY,
    },
    Vector {
        name: "a bare repository as the workspace",
        set: |repo| {
            let root = repo.root();
            for name in ["HEAD", "config", "objects", "refs", "index"] {
                fs::rename(root.join(".git").join(name), root.join(name)).unwrap();
            }
            fs::remove_dir_all(root.join(".git")).unwrap();
            let config = format!(
                "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = {}\n",
                repo.program("evil")
            );
            fs::write(root.join("config"), config).unwrap();
        },
        control: &["status"],
    },
];

/// A commit that is not the newest is compared with its parent, so that something is read of it.
const LAZY: &[&str] = &["show", "HEAD:a.txt"];

fn textconv(repo: &Repo) {
    repo.config("diff.evil.textconv", &repo.program(".git/evil"));
    repo.write(".git/info/attributes", "*.txt diff=evil\n");
}

fn signed(repo: &Repo) {
    repo.config("gpg.program", &repo.program(".git/evil"));
    repo.config("log.showSignature", "true");
    let tree = repo.git(&["rev-parse", "HEAD^{tree}"]);
    let who = "Test <test@example.com> 1700000000 +0000";
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----";
    let commit = format!("tree {tree}\nauthor {who}\ncommitter {who}\n{signature}\n\nsigned\n");
    repo.write(".git/commit", &commit);
    let id = repo.git(&["hash-object", "-t", "commit", "-w", ".git/commit"]);
    repo.git(&["update-ref", "HEAD", &id]);
}

/// A repository that fetches what it lacks, and lacks a file.
fn lazy(repo: &Repo, key: &str, url: &str) {
    let program = repo.program(".git/evil");
    let blob = repo.git(&["rev-parse", "HEAD:a.txt"]);
    repo.config("core.repositoryFormatVersion", "1");
    repo.config("extensions.partialClone", "origin");
    repo.config("remote.origin.promisor", "true");
    repo.config("remote.origin.url", url);
    repo.config(key, &program);
    fs::remove_file(repo.fixture.path(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_diff", json!({ "staged": true })),
        ("git_diff", json!({ "base": "HEAD" })),
        ("git_log", json!({})),
        ("git_log", json!({ "path": "a.txt" })),
        ("git_show", json!({})),
        ("git_show", json!({ "path": "a.txt" })),
        ("git_blame", json!({ "path": "a.txt" })),
        ("git_add", json!({ "paths": ["."] })),
        ("git_commit", json!({ "message": "m" })),
        ("git_branch", json!({ "name": "b", "switch": true })),
        ("git_push", json!({})),
    ]
}

fn prepared(vector: &Vector) -> Option<Repo> {
    let repo = Repo::new()?;
    (vector.set)(&repo);
    // Of another length than what is committed, so that nothing can be known without reading it.
    repo.write("a.txt", "changed to something else\n");
    fs::remove_file(repo.mark()).ok();
    Some(repo)
}

/// A47, A48: nothing that a repository names is run, in whichever of its configurations it stands.
#[tokio::test]
async fn no_program_of_a_repository_is_run() {
    for vector in VECTORS {
        let Some(control) = prepared(vector) else { return };
        plain(&control.root(), vector.control);
        assert!(control.mark().exists(), "void: plain git does not run it: {}", vector.name);
        let Some(repo) = prepared(vector) else { return };
        for (tool, args) in calls() {
            let outcome = repo.run(tool, args).await;
            assert!(!repo.mark().exists(), "{tool} ran it: {}: {outcome:?}", vector.name);
        }
    }
}
