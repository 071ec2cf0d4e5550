//! Wording: errors say what failed and what to do, help teaches, nothing panics.

use expect_test::expect;

use super::desk::Desk;

/// Errors a user meets first, word for word.
#[test]
fn errors_have_hints() {
    let desk = Desk::new();
    let check = |args: &[&str], code: i32, expected: expect_test::Expect| {
        let said = desk.say(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.err);
        expected.assert_eq(&said.err.replace(&desk.path("").display().to_string(), "DESK/"));
    };
    check(
        &["run", "x"],
        2,
        expect![[r#"
            error: no model is configured
            hint: export ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server (ollama, llamacpp, lmstudio, vllm), or give one with `--model P/M`; `longhaul demo` needs none
        "#]],
    );
    check(
        &["run", "x", "--model", "scripted/s.yaml", "--autonomy", "6"],
        2,
        expect![[r#"
            error: --autonomy is 1 to 5, not 6
        "#]],
    );
    check(
        &["run", "x", "--model", "scripted/s.yaml", "--max-cost=-1"],
        2,
        expect![[r#"
            error: --max-cost -1 is not an amount of dollars
        "#]],
    );
    check(
        &["run", " ", "--model", "scripted/s.yaml"],
        2,
        expect![[r#"
        error: task may not be empty
    "#]],
    );
    check(
        &["run", "x", "--model", "openai/gpt"],
        2,
        expect![[r#"
            error: model openai/gpt cannot be used
              caused by: provider `openai` needs a key, and $OPENAI_API_KEY is not set
            hint: export OPENAI_API_KEY=…, or name another variable (`api_key_env`) or a command (`api_key_command`) in longhaul.yaml
        "#]],
    );
    check(
        &["run", "x", "--model", "scripted/none.yaml"],
        2,
        expect![[r#"
        error: model scripted/DESK/none.yaml cannot be used
          caused by: cannot read script `DESK/none.yaml`
          caused by: No such file or directory (os error 2)
    "#]],
    );
    check(
        &["run", "x", "--model", "scripted/s.yaml", "--tools", "raed"],
        2,
        expect![[r#"
            error: there is no tool `raed`; there are: apply_patch, ask_human, bash, bash_kill, bash_output, edit, fetch, finalize_research, git_add, git_blame, git_branch, git_commit, git_diff, git_log, git_push, git_show, git_status, glob, grep, handoff, list, read, spawn, todo, write
        "#]],
    );
    check(
        &["create", "--task", "x", "--agent", "../x", "--model", "scripted/s.yaml"],
        2,
        expect![[r#"
        error: `../x` is not an agent's name: letters, digits, `-`, `_` and `.` only
    "#]],
    );
    check(
        &["approve", "nonsense"],
        2,
        expect![[r#"
        error: `nonsense` is not an approval
        hint: list them with `longhaul approvals`
    "#]],
    );
}

/// Every command has help that says what it does, and all of them are listed.
#[test]
fn every_command_has_help() {
    let desk = Desk::new();
    let help = desk.get(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        let text = desk.get(&[command, "--help"]);
        assert!(text.lines().next().is_some_and(|line| line.len() > 10), "{command}: {text}");
    }
    assert!(desk.get(&["--version"]).starts_with("longhaul "));
}

/// Examples are typed as they stand: on a narrow terminal too each is on a line of its own, and its words below it.
#[test]
fn examples_fit_a_narrow_terminal() {
    let desk = Desk::new();
    for command in ["run", "loop", "permissions", "fake-model", "repl"] {
        let help = |columns: &str| {
            let output = desk.command(&[command, "--help"]).env("COLUMNS", columns).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let examples: Vec<String> =
                text.lines().filter(|line| line.starts_with("  longhaul ")).map(str::to_owned).collect();
            examples
        };
        let wide = help("300");
        assert!(!wide.is_empty() && help("80") == wide, "{command}: {wide:?}");
    }
}

/// Arguments that make no sense are usage errors, never panics.
#[test]
fn nonsense_is_refused() {
    let desk = Desk::new();
    for args in [
        vec!["frobnicate"],
        vec!["run"],
        vec!["show"],
        vec!["show", ""],
        vec!["show", "a/b"],
        vec!["create"],
        vec!["list", "--parent", "../x"],
        vec!["events", "x", "--after", "-1"],
        vec!["store"],
        vec!["completions", "tcsh9"],
        vec!["run", "x", "--max-steps", "99999999999999"],
        vec!["run", "x", "--model", "scripted/s.yaml", "--tool-timeout-ms", "0"],
        vec!["reject", "run_x.g1", "--reason", " "],
    ] {
        let said = desk.say(&args);
        assert!(said.code == 2 && !said.err.contains("panicked"), "{args:?}: {} {}", said.code, said.err);
    }
}

/// Data that could not be written is an error, whatever else went well.
#[test]
fn a_full_disk_is_not_success() {
    let desk = Desk::new();
    let id = desk.completed();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = desk.command(&["export", &id]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}
