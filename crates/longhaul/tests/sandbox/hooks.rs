//! Hooks are held as commands are.

use std::fs;
use std::process::{Command, Stdio};

use super::rig::{LONGHAUL, can_hold, git};

/// What a hook can do: read where the settings are, write where the run works, and nothing else.
const GUARD: &str = r#"
cat > "$LONGHAUL_WORKSPACE/seen"
echo x > "$LONGHAUL_WORKSPACE/../../../../written" && echo "wrote outside"
echo x > written && echo "wrote to the project"
cat "$1/.ssh/id" && echo "read a secret"
true
"#;

/// A hook finds its own files where the settings are, is told of the call, and reaches neither the user's home nor anything
/// outside of the run's workspace; without a sandbox it reaches all of that.
#[test]
fn a_hook_is_held() {
    for (sandbox, reached) in [("off", true), ("required", false)] {
        if sandbox == "required" && !can_hold("a_hook_is_held") {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let [home, work] = ["home", "work"].map(|name| outer.path().join(name));
        for directory in [home.join(".ssh"), work.join("hooks")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(home.join(".ssh/id"), "CANARY").unwrap();
        fs::write(work.join("hooks/guard.sh"), GUARD).unwrap();
        let hook =
            format!("hooks: {{ before_tool: [ {{ command: 'sh hooks/guard.sh {}' }} ] }}", home.display());
        fs::write(work.join("longhaul.yaml"), hook).unwrap();
        let script = "conversations: [ { turns: [ { calls: [ { tool: read, args: { path: seen } } ] }, { text: ok } ] } ]";
        fs::write(work.join("s.yaml"), script).unwrap();
        git(&work, &["init", "-q"]);
        git(&work, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let mut command = Command::new(LONGHAUL);
        command.args(["run", "x", "--model", "scripted/s.yaml", "--sandbox", sandbox, "--trust", "--json"]);
        command.current_dir(&work).env("HOME", &home).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let seen = fs::read_to_string(format!("{}/seen", run["workspace"].as_str().unwrap())).unwrap();
        assert!(seen.contains("before_tool") && seen.contains(r#""tool":"read""#), "{seen}");
        assert_eq!(work.join("written").exists(), reached, "{sandbox}");
    }
}

/// A hook of the user's own settings is run beside them and sees no more of them than what it runs; a repository that brings a
/// file of the same name does not stand in for it.
#[test]
fn a_users_own_hook_is_run_where_its_settings_are() {
    for sandbox in ["off", "required"] {
        if sandbox == "required" && !can_hold("a_users_own_hook_is_run_where_its_settings_are") {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let [home, work] = ["home", "work"].map(|name| outer.path().join(name));
        let own = home.join(".config/longhaul");
        for directory in [own.join("hooks"), work.join("hooks")] {
            fs::create_dir_all(directory).unwrap();
        }
        let guard = "cat longhaul.yaml > \"$LONGHAUL_WORKSPACE/settings\"; ls hooks; . hooks/why.sh; exit 2";
        fs::write(own.join("hooks/guard.sh"), guard).unwrap();
        fs::write(own.join("hooks/why.sh"), "echo the users own word").unwrap();
        fs::write(work.join("hooks/guard.sh"), "touch \"$LONGHAUL_WORKSPACE/stood-in\"").unwrap();
        let hook = "hooks: { before_tool: [ { command: sh hooks/guard.sh, tools: [write] } ] }";
        fs::write(own.join("longhaul.yaml"), hook).unwrap();
        let script = "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: w, content: x } } ] }, { text: ok } ] } ]";
        fs::write(work.join("s.yaml"), script).unwrap();
        git(&work, &["init", "-q"]);
        git(&work, &["add", "hooks"]);
        git(&work, &["commit", "-q", "-m", "first"]);
        for place in [None, Some("--in-place")] {
            let mut command = Command::new(LONGHAUL);
            command.args(["run", "x", "--model", "scripted/s.yaml", "--sandbox", sandbox, "--json"]);
            command.args(place).current_dir(&work).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
            let output = command.stdin(Stdio::null()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let workspace = std::path::Path::new(run["workspace"].as_str().unwrap());
            let mut tools = Command::new(LONGHAUL);
            tools
                .args(["tools", run["id"].as_str().unwrap(), "--json"])
                .current_dir(&work)
                .env("HOME", &home);
            let calls = tools.env_remove("XDG_CONFIG_HOME").output().unwrap().stdout;
            let calls = String::from_utf8_lossy(&calls);
            assert!(calls.contains("the users own word"), "{sandbox} {place:?}: {calls}");
            assert!(
                !workspace.join("w").exists() && !workspace.join("stood-in").exists(),
                "{sandbox} {place:?}"
            );
            let settings = fs::read_to_string(workspace.join("settings")).unwrap();
            assert_eq!(settings.is_empty(), sandbox == "required", "{settings}");
        }
    }
}

/// So is the search command of the user's own settings, held as it is everywhere else.
#[test]
fn a_users_own_search_is_run_where_its_settings_are() {
    for sandbox in ["off", "required"] {
        if sandbox == "required" && !can_hold("a_users_own_search_is_run_where_its_settings_are") {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let [home, work] = ["home", "work"].map(|name| outer.path().join(name));
        let own = home.join(".config/longhaul");
        for directory in [own.join("lib"), work.join("lib")] {
            fs::create_dir_all(directory).unwrap();
        }
        let search = "n=$(wc -c < longhaul.yaml); echo \"[{\\\"url\\\":\\\"https://own.example\\\",\\\"title\\\":\\\"bytes ${n:-none}\\\"}]\"";
        fs::write(own.join("lib/search.sh"), search).unwrap();
        // One that is at home, and not beside the settings, is found as well.
        fs::rename(own.join("lib/search.sh"), home.join("search.sh")).unwrap();
        fs::write(own.join("lib/search.sh"), ". ~/search.sh").unwrap();
        fs::write(own.join("longhaul.yaml"), "search: { command: \"LATER=~/search.sh sh lib/search.sh\" }")
            .unwrap();
        let theirs = r#"echo '[{"url":"https://theirs.example","title":"x"}]'"#;
        fs::write(work.join("lib/search.sh"), theirs).unwrap();
        let script = "conversations: [ { turns: [ { calls: [ { tool: search, args: { query: x } } ] }, { text: ok } ] } ]";
        fs::write(work.join("s.yaml"), script).unwrap();
        let mut command = Command::new(LONGHAUL);
        command.args(["run", "x", "--model", "scripted/s.yaml", "--sandbox", sandbox, "--in-place"]);
        command.current_dir(&work).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let found = fs::read_dir(work.join("search_results")).unwrap().next().unwrap().unwrap().path();
        let found = fs::read_to_string(found).unwrap();
        assert!(found.contains("own.example") && !found.contains("theirs"), "{sandbox}: {found}");
        assert_eq!(found.contains("bytes none"), sandbox == "required", "{sandbox}: {found}");
    }
}
