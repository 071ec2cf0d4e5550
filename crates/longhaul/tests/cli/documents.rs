//! Export and import: what comes in goes out, and what cannot be read leaves nothing behind.

use serde_json::{Value, json};

use super::desk::{Desk, files_below};

const EXAMPLE: &str = include_str!("../../../longhaul-core/tests/golden/harness-state-v1.json");

/// A9.1, A9.2, A9.4, AI6: the published example imports under its own id and exports unchanged.
#[test]
fn the_example_round_trips() {
    let desk = Desk::new();
    desk.write("state.json", EXAMPLE);
    assert_eq!(desk.get(&["import", "state.json"]), "harness-abc123\n");
    let exported: Value = serde_json::from_str(&desk.get(&["export", "harness-abc123"])).unwrap();
    assert_eq!(exported, serde_json::from_str::<Value>(EXAMPLE).unwrap());
    let again = desk.say(&["import", "state.json"]);
    assert_eq!(again.code, 1, "the id is taken: {}", again.err);
    assert_eq!(desk.get(&["resume", "harness-abc123", "--model", "scripted/s.yaml"]), "All done.\n");
    assert_eq!(desk.json(&["show", "harness-abc123"])["status"], "completed");
}

/// A9.2, A9.3: a run of ours, exported half-way, goes on elsewhere; export, import, export gives the same bytes, and what was
/// said before is told there too.
#[test]
fn a_run_can_move() {
    let here = Desk::new();
    let said =
        here.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let exported = here.get(&["export", id]);
    let there = Desk::new();
    there.write("run.json", &exported);
    there.get(&["import", "run.json"]);
    assert_eq!(there.get(&["export", id]), exported);
    let calls = |desk: &Desk| {
        let told = desk.get(&["logs", id]);
        told.lines().filter(|line| line.starts_with(['>', '<'])).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(calls(&there), calls(&here));
    assert!(!calls(&here).is_empty());
    assert_eq!(there.get(&["resume", id, "--max-steps", "9"]), "All done.\n");
    assert_eq!(there.json(&["tools", id])["calls"].as_array().unwrap().len(), 2);
}

/// A9.5, AE8: a wrong version, a truncated, flipped or nested document names what is wrong; nothing is stored.
#[test]
fn bad_documents_leave_nothing() {
    let desk = Desk::new();
    let before = files_below(&desk.path(""));
    let nested = format!("{{\"schemaVersion\":1,\"x\":{}{}}}", "[".repeat(9999), "]".repeat(9999));
    let mut flipped = EXAMPLE.as_bytes().to_vec();
    flipped[40] ^= 0x80;
    for (bytes, word) in [
        (EXAMPLE.replace("\"schemaVersion\": 1", "\"schemaVersion\": 99").into_bytes(), "99"),
        (EXAMPLE.as_bytes()[..300].to_vec(), "line "),
        (flipped, "byte 40 is not part of any text (UTF-8) at line "),
        (nested.into_bytes(), "recursion limit"),
        (b"[]".to_vec(), "bad.json"),
        (Vec::new(), "bad.json"),
    ] {
        std::fs::write(desk.path("bad.json"), &bytes).unwrap();
        let said = desk.say(&["import", "bad.json"]);
        assert!(
            said.code == 2 && said.err.contains(word) && said.err.contains("bad.json"),
            "{word}: {}",
            said.err
        );
        std::fs::remove_file(desk.path("bad.json")).unwrap();
        assert_eq!(files_below(&desk.path("")), before, "{word}");
    }
}

/// A2.3: a binary export holds every event and large output; taken in under another id it is the same run but for the id
/// and where it works.
#[test]
fn a_binary_export_round_trips() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'seq 20000' } } ] }, { text: ok } ] } ]",
    );
    let id = desk.completed();
    let output = desk.command(&["store", "export", &id, "--format", "bin"]).output().unwrap();
    std::fs::write(desk.path("f.bin"), &output.stdout).unwrap();
    desk.get(&["store", "import", "f.bin", "--as", "copy"]);
    let (mut first, mut second) = (desk.json(&["show", &id]), desk.json(&["show", "copy"]));
    assert_ne!(first["id"], second["id"]);
    for shown in [&mut first, &mut second] {
        assert_eq!(shown["executionContext"]["agentRunId"], shown["id"]);
        shown["id"] = json!(null);
        shown["executionContext"]["agentRunId"] = json!(null);
        // Where it works is for whoever takes it in to say.
        shown["workspace"] = json!(null);
        shown["executionContext"]["workspace"] = json!(null);
    }
    assert_eq!(first, second);
    let hash =
        desk.json(&["tools", "copy"])["calls"][0]["result"]["output"]["blob"].as_str().unwrap().to_owned();
    assert!(desk.get(&["store", "blob", "copy", &hash]).ends_with("20000\n"));
    assert_ne!(desk.say(&["store", "blob", "copy", "../journal"]).code, 0);
    std::fs::write(desk.path("f.bin"), &output.stdout[..output.stdout.len() - 1]).unwrap();
    assert_eq!(desk.say(&["store", "import", "f.bin", "--as", "copy2"]).code, 2);
}

/// A9.2: where an imported run works and what it may do is for whoever imports it to say, not for the document; nor for a
/// binary export.
#[test]
fn a_document_does_not_say_where_it_works() {
    let here = Desk::new();
    std::fs::create_dir(here.path("victim")).unwrap();
    let said =
        here.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let mut document: Value = serde_json::from_str(&here.get(&["export", id])).unwrap();
    let spec = &mut document["longhaul"]["spec"];
    spec["workspace"] = json!(here.path("victim"));
    spec["autonomy"] = json!(5);
    spec["limits"]["maxToolCalls"] = json!(9999);
    spec["tools"][0]["class"] = json!("repeatable");
    spec["session"] = json!("somebodys");
    spec["branch"] = json!("main");
    spec["repository"] = json!(here.path("victim"));
    document["longhaul"].as_object_mut().unwrap().remove("digest");
    let bytes = here.command(&["store", "export", id, "--format", "bin"]).output().unwrap().stdout;
    let there = Desk::new();
    there.write("evil.json", &document.to_string());
    std::fs::write(there.path("evil.bin"), bytes).unwrap();
    there.get(&["import", "evil.json", "--as", "evil"]);
    there.get(&["store", "import", "evil.bin", "--as", "evil2"]);
    assert_eq!(
        serde_json::from_str::<Value>(&there.get(&["export", "evil"])).unwrap()["longhaul"]["spec"]["workspace"],
        document["longhaul"]["spec"]["workspace"],
        "until something happens to it, it is written as it came"
    );
    for evil in ["evil", "evil2"] {
        let shown = there.json(&["show", evil]);
        let own = there.path(".longhaul/workspace/run").join(evil);
        assert_eq!(shown["workspace"], json!(own), "{shown}");
        assert_eq!((&shown["branch"], &shown["sessionId"]), (&json!(null), &json!(null)), "{shown}");
        assert_eq!(there.get(&["resume", evil, "--max-steps", "9"]), "All done.\n");
    }
    assert!(files_below(&here.path("victim")).is_empty());
    there.get(&["import", "evil.json", "--as", "here", "--in-place"]);
    assert_eq!(
        there.json(&["show", "here"])["workspace"],
        json!(there.path("")).as_str().unwrap().trim_end_matches('/')
    );
}

/// Commands that the harness would run for a document are taken in only if somebody says so.
#[test]
fn a_documents_commands_wait_for_a_word() {
    let desk = Desk::new();
    let args = ["create", "--task", "x", "--model", "scripted/s.yaml", "--verify", "touch ran"];
    let id = desk.get(&args).trim().to_owned();
    desk.write("run.json", &desk.get(&["export", &id]));
    let import = |more: &[&str]| {
        let args = [&["import", "run.json", "--as", "copy"], more].concat();
        desk.command(&args).env_remove("LONGHAUL_TRUST").output().unwrap()
    };
    let refused = import(&[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("`touch ran`") && said.contains("--with-commands"), "{said}");
    assert!(import(&["--with-commands"]).status.success());
}

/// AE8: a document that was changed on its way is refused, with how to say that it was meant; what a document cannot hold is said
/// when it is written, when it is read, and by `store verify`.
#[test]
fn what_a_document_lost_is_said() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'seq 20000' } } ] }, { text: ok } ] } ]",
    );
    let id = desk.completed();
    let said = desk.say(&["export", &id]);
    assert!(said.err.contains("does not hold the large outputs"), "{}", said.err);
    desk.write("run.json", &said.out);
    let taken = desk.say(&["import", "run.json", "--as", "copy"]);
    assert!(taken.code == 0 && taken.err.contains("does not hold the large outputs"), "{}", taken.err);
    assert_eq!(desk.say(&["store", "verify", &id]).code, 0);
    let checked = desk.say(&["store", "verify", "copy"]);
    assert!(checked.code == 1 && checked.out.contains("large outputs"), "{}", checked.out);
    desk.write("run.json", &said.out.replace("ok", "no"));
    let refused = desk.say(&["import", "run.json", "--as", "other"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("hint: ") && refused.err.contains("longhaul.digest"), "{}", refused.err);
}

/// AI6: what sub-agents came to is in the document.
#[test]
fn the_results_of_sub_agents_are_in_the_document() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: Made. } ] } ]");
    std::fs::create_dir(desk.path("agents")).unwrap();
    desk.write("agents/one.md", "---\ndescription: one\n---\nYou are one.\n");
    desk.write("plan.yaml", "steps:\n  - { id: a, description: by one, agent: one }\n");
    let shown = desk.json(&["run", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"]);
    let exported: Value =
        serde_json::from_str(&desk.get(&["export", shown["id"].as_str().unwrap()])).unwrap();
    let child = exported["subAgentIds"][0].as_str().unwrap();
    let result = &exported["subAgentResults"][child];
    assert_eq!(
        (&result["status"], &result["output"]),
        (&json!("completed"), &json!("Made.")),
        "{exported:#}"
    );
}
