//! The benchmark itself: every row is there, and what is counted rather than timed is as promised. Nothing timed is
//! asserted, since this runs on busy machines.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::collections::BTreeMap;

use serde_json::Value;

/// Every row, in order.
const ROWS: [&str; 31] = [
    "suspended_memory",
    "suspended_threads",
    "step_p50",
    "step_p99",
    "probe_p50",
    "probe_p99",
    "growing_probe_p50",
    "growing_probe_p99",
    "sqlite_p50",
    "sqlite_p99",
    "syncs_per_step",
    "written_bytes_growth",
    "step_growth",
    "stored_bytes",
    "stored_bytes_all",
    "concurrent_runs",
    "one_run",
    "concurrent_probe",
    "resume_short",
    "resume_short_probed",
    "resume_long",
    "resume_long_probed",
    "overhead_p50",
    "overhead_p99",
    "open_time",
    "open_memory",
    "idle_memory",
    "idle_private",
    "start",
    "list",
    "forgetful_files",
];

/// Rows that do not depend on how busy the machine is.
const COUNTED: [&str; 4] = ["suspended_threads", "syncs_per_step", "stored_bytes", "forgetful_files"];

fn rows(directory: &std::path::Path, arguments: &[&str]) -> Vec<Value> {
    let mut longhaul = assert_cmd::Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let output = longhaul.current_dir(directory).arg("bench").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["rows"].as_array().unwrap().clone()
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// A10.2, A10.3: one sync for each step, stored bytes near the payload, no thread for a suspended run, no file without the
/// harness.
#[test]
fn every_row_is_there_and_what_is_counted_holds() {
    let directory = tempfile::tempdir().unwrap();
    let rows = rows(directory.path(), &["durable", "--quick", "--dir", "."]);
    assert_eq!(names(&rows), ROWS);
    let verdicts: BTreeMap<&str, (&str, &Value)> = rows
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), (row["verdict"].as_str().unwrap(), row)))
        .collect();
    for name in COUNTED {
        let (verdict, row) = verdicts[name];
        assert_eq!(verdict, "meets", "{row}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A10.1: what a step costs without a disk is measured by itself, and nothing is written for it.
#[test]
fn overhead_needs_no_place() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        names(&rows(directory.path(), &["overhead", "--steps", "50"])),
        ["overhead_p50", "overhead_p99"]
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// D6.5, D6.6: the tools are measured beside known programs; what is found is the same, and a missing program is said.
#[test]
fn the_tools_are_measured_and_agree_with_their_rivals() {
    let directory = tempfile::tempdir().unwrap();
    let rows = rows(directory.path(), &["tools", "--quick"]);
    let expected = [
        "grep_word",
        "grep_word_same",
        "grep_regex",
        "grep_regex_same",
        "glob",
        "glob_same",
        "read_page",
        "edit",
    ];
    assert_eq!(names(&rows), expected);
    for row in rows.iter().filter(|row| row["name"].as_str().unwrap().ends_with("_same")) {
        if row["verdict"] == "skipped" {
            println!("SKIP: {}", row["about"]);
            continue;
        }
        assert_eq!(row["verdict"], "meets", "{row}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Every row of `bench models`, in order.
const MODEL_ROWS: [&str; 20] = [
    "framing_memory",
    "reading_memory",
    "anthropic_scan",
    "anthropic_framing",
    "anthropic_json",
    "anthropic_reading",
    "responses_scan",
    "responses_framing",
    "responses_json",
    "responses_reading",
    "chat_scan",
    "chat_framing",
    "chat_json",
    "chat_reading",
    "first_token_p50",
    "first_token_p99",
    "first_token_probe_p50",
    "first_token_probe_p99",
    "first_token_added_p50",
    "first_token_added_p99",
];

/// Every reply that is read in the benchmark of models is compared with what was said, so that its rows are about the
/// right work; what the framing holds does not grow with the stream; nothing is left on the disk.
#[test]
fn models_are_measured_without_a_place() {
    let directory = tempfile::tempdir().unwrap();
    let rows = rows(directory.path(), &["models", "--quick"]);
    assert_eq!(names(&rows), MODEL_ROWS);
    assert_eq!(rows[0]["verdict"], "meets", "{}", rows[0]);
    // Every time but a difference is there and has its ratio.
    for row in rows.iter().filter(|row| !row["name"].as_str().unwrap().contains("added")).skip(2) {
        let (value, ratio) = (row["value"].as_f64().unwrap(), row["ratio"].as_f64().unwrap());
        assert!(value > 0.0 && ratio > 0.0 && value.is_finite() && ratio.is_finite(), "{row}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// D11.16: checkpoints, the way back and second workspaces are measured beside git, and nothing is left on the disk.
#[test]
fn workspaces_are_measured_beside_git() {
    let directory = tempfile::tempdir().unwrap();
    let sizes = ["workspace", "--files=120", "--changed=12", "--megabytes=2", "--rounds=1", "--dir=."];
    let rows = rows(directory.path(), &sizes);
    let expected = [
        "git_status",
        "checkpoint",
        "git_checkout",
        "rewind",
        "git_worktree_add",
        "second_worktree",
        "second_clone",
    ];
    assert_eq!(names(&rows), expected);
    for row in rows.iter().filter(|row| !row["name"].as_str().unwrap().starts_with("git_")) {
        assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// F50: runs that are paused are rows of the catalogue: all of them are listed, one is opened when it is wanted, and no process holds
/// any.
#[test]
fn paused_runs_are_held_by_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let rows = rows(directory.path(), &["approvals", "--runs", "3", "--gates", "2", "--samples", "2"]);
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let all =
        ["approvals_list_p99", "approvals_answer_p99", "paused_list_p99", "paused_open_p99", "paused_held"];
    assert_eq!(names, all);
    assert_eq!(rows[4]["value"], 0.0);
    assert!(rows[4]["about"].as_str().unwrap().ends_with("with 3 runs paused"), "{}", rows[4]);
}
