//! One suite for every protocol: what a run is does not depend on who answers.

use std::process::Command;

use serde_json::{Value, json};

use super::rig::{APIS, Exchanged, KEY, Rig, asked, files_below, offered, serve, text};

const WORK: &str = r#"
prices: { input: 999, output: 999 }
conversations:
  - turns:
      - text: "I write."
        calls:
          - { tool: write, args: { path: a.txt, content: "hello\n" } }
          - { tool: bash, args: { command: "echo more >> a.txt; cat a.txt" } }
        usage: { input: 1000, output: 100, cache_read: 500, cache_write: 200 }
      - text: "I look."
        calls: [ { tool: read, args: { path: a.txt } } ]
        usage: { input: 2000, output: 10, cache_read: 1500 }
      - text: "All done."
        usage: { input: 10, output: 1 }
"#;

fn kinds(rig: &Rig, id: &str) -> Vec<String> {
    rig.events(id).iter().map(|event| text(&event["type"])).collect()
}

/// C3.2, C3.3, C3.5, C13.1: in mode exec the agent edits files and runs commands, and its next turn shows it each result under
/// the provider's own name for the call. C3.9: the events are of the same kinds in the same order for every protocol.
#[test]
fn exec_works_on_every_protocol() {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for api in APIS {
        let fake = serve(WORK);
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        assert_eq!(said.json()["mode"], "exec", "{api}");
        assert_eq!(rig.read("a.txt"), "hello\nmore\n", "{api}");
        let requests = asked(&fake);
        assert_eq!(requests.len(), 3, "{api}");
        for request in &requests {
            assert_eq!(
                offered(request),
                [
                    "apply_patch",
                    "ask_human",
                    "bash",
                    "bash_kill",
                    "bash_output",
                    "edit",
                    "fetch",
                    "finalize_research",
                    "git_add",
                    "git_blame",
                    "git_branch",
                    "git_commit",
                    "git_diff",
                    "git_log",
                    "git_push",
                    "git_show",
                    "git_status",
                    "glob",
                    "grep",
                    "handoff",
                    "list",
                    "read",
                    "spawn",
                    "todo",
                    "write"
                ],
                "{api}"
            );
            assert_eq!(request.body["model"], "m", "{api}");
            let key = request.header("x-api-key").or(request.header("authorization")).unwrap();
            assert_eq!(key.trim_start_matches("Bearer "), KEY, "{api}");
        }
        let prefix = if api == "anthropic" { "toolu_" } else { "call_" };
        let second = Exchanged::of(&requests[1]);
        second.check();
        assert_eq!(second.results.len(), 2, "{api}: {second:?}");
        assert!(second.calls.iter().all(|id| id.starts_with(prefix)), "{api}: {second:?}");
        assert!(second.results[1].1.contains("hello\nmore"), "{api}: {second:?}");
        let third = Exchanged::of(&requests[2]);
        third.check();
        assert_eq!(third.calls[..2], second.calls[..], "{api}: what was said stays as it was said");
        seen.push(kinds(&rig, &said.id()));
    }
    assert!(seen[0].contains(&"model_reply".to_owned()), "{seen:?}");
    assert_eq!((&seen[0], &seen[0]), (&seen[1], &seen[2]));
}

/// B8.4, C3.8: tokens with what a cache held, and money, in all and for each step, iteration and model.
#[test]
fn usage_is_counted_on_every_protocol() {
    let fake = serve(WORK);
    let rig = Rig::with_all(&fake);
    for api in APIS {
        let model = format!("{api}/m");
        let id = rig.run(&model, &[]).id();
        let usage = json!({
            "inputTokens": 3010, "outputTokens": 111, "cacheReadTokens": 2000, "cacheWriteTokens": 200,
            "costUsd": 0.012045, "unpricedTokens": 0,
        });
        let shown = rig.show(&id);
        assert_eq!(shown["usage"], usage, "{api}");
        assert_eq!(shown["totalCost"], 0.012045, "{api}");
        let mut iteration = usage.clone();
        iteration["iteration"] = json!(1);
        assert_eq!(shown["costByIteration"], json!([iteration]), "{api}");
        let cost = rig.json(&["cost", &id]);
        let row = json!({ "stepId": "step-1", "iteration": 1, "model": model, "replies": 3, "usage": usage });
        assert_eq!(cost, json!({ "id": id, "spending": [row], "subAgents": [], "total": usage }), "{api}");
        let table = rig.get(&["cost", &id]);
        assert!(table.contains("$0.012") && table.contains(&model), "{api}: {table}");
    }
    let all = rig.json(&["cost"]);
    assert_eq!(all["runs"].as_array().unwrap().len(), 3);
    assert_eq!(all["total"]["costUsd"], 0.036135);
}

/// C3.2, C3.3, C3.6: a reviewer is offered only what changes nothing; a wish to write all the same is refused and told to it,
/// and the tree stays clean.
#[test]
fn review_only_looks_on_every_protocol() {
    const REVIEW: &str = r#"
conversations:
  - turns:
      - calls:
          - { tool: write, args: { path: a.txt, content: "mine" } }
          - { tool: bash, args: { command: "touch b.txt" } }
          - { tool: read, args: { path: a.txt } }
      - text: "It is fine."
"#;
    for api in APIS {
        let fake = serve(REVIEW);
        let rig = Rig::with_all(&fake);
        rig.write("a.txt", "theirs\n");
        let git = |args: &[&str]| {
            let done = Command::new("git").args(args).current_dir(rig.path("")).output().unwrap();
            assert!(done.status.success(), "{args:?}: {done:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "a.txt"]);
        git(&["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"]);
        let model = format!("{api}/m");
        let said = rig.say(&["run", "look", "--mode", "review", "--model", &model, "--json"]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        let requests = asked(&fake);
        assert_eq!(
            requests.iter().map(|request| offered(request)).collect::<Vec<_>>(),
            [[
                "ask_human",
                "fetch",
                "git_blame",
                "git_diff",
                "git_log",
                "git_show",
                "git_status",
                "glob",
                "grep",
                "list",
                "read",
                "todo"
            ]; 2]
        );
        let told = Exchanged::of(&requests[1]);
        told.check();
        let texts: Vec<&str> = told.results.iter().map(|(_, text)| text.as_str()).collect();
        assert!(texts[0].contains("not permitted") && texts[1].contains("not permitted"), "{api}: {texts:?}");
        assert!(texts[2].contains("theirs"), "{api}: {texts:?}");
        let workspace = text(&said.json()["workspace"]);
        let status = Command::new("git").args(["status", "--porcelain"]).current_dir(workspace).output();
        assert_eq!(status.unwrap().stdout, b"", "{api}");
    }
}

/// C3.2, C3.3, C3.7: mode complete asks once and offers nothing; a schema for the answer goes with the question; read-only tools
/// are there for those who name them.
#[test]
fn complete_answers_once_on_every_protocol() {
    let schema = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
        "additionalProperties": false,
    });
    for api in APIS {
        let fake = serve(r#"{ "conversations": [ { "turns": [ { "text": "{\"ok\":true}" } ] } ] }"#);
        let rig = Rig::with_all(&fake);
        let before = files_below(&rig.path(""));
        rig.write("schema.json", &schema.to_string());
        let model = format!("{api}/m");
        let fixed = ["run", "judge", "--mode", "complete", "--model", &model];
        let answer = rig.get(&[&fixed[..], &["--answer-schema", "schema.json"]].concat());
        assert_eq!(answer, "{\"ok\":true}\n", "{api}");
        let requests = asked(&fake);
        assert_eq!(requests.len(), 1, "{api}");
        assert_eq!(offered(&requests[0]), [""; 0], "{api}");
        assert!(has(&requests[0].body, &schema), "{api}: {}", requests[0].body);
        let shown = rig.show(&rig.only_run());
        assert_eq!((&shown["mode"], &shown["turnCount"]), (&json!("complete"), &json!(1)), "{api}");
        assert_eq!(before.len() + 1, files_here(&rig), "{api}: nothing but the schema was added");

        let plain = rig.say(&fixed);
        assert_eq!(plain.code, 0, "{api}: {plain:?}");
        assert!(!has(&asked(&fake)[1].body, &schema), "{api}");
        let with_read = rig.say(&[&fixed[..], &["--tools", "read"]].concat());
        assert_eq!(with_read.code, 0, "{api}: {with_read:?}");
        assert_eq!(offered(&asked(&fake)[2]), ["read"], "{api}");
    }
}

fn files_here(rig: &Rig) -> usize {
    files_below(&rig.path("")).iter().filter(|(path, _)| !path.starts_with(rig.path(".longhaul"))).count()
}

/// Does the value stand anywhere in the tree?
fn has(tree: &Value, wanted: &Value) -> bool {
    let below = match tree {
        Value::Array(items) => items.iter().any(|item| has(item, wanted)),
        Value::Object(fields) => fields.values().any(|field| has(field, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    tree == wanted || below
}
