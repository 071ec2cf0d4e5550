//! Commands that only look: list, steps, result, events, replay, config, doctor, completions.

use expect_test::expect;
use serde_json::{Value, json};

use super::desk::{Desk, files_below};

/// A1.6, AI3, AT1, AT2: the list has every run with its fields, newest first, and filters by status, agent and parent.
#[test]
fn the_list_is_complete() {
    let desk = Desk::new();
    let done = desk.completed();
    let mars = desk.json(&["create", "--agent", "MARS", "--task", "y", "--model", "scripted/s.yaml"]);
    let all = desk.json(&["list"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(all[0]["id"], mars["id"]);
    for field in [
        "id",
        "agentName",
        "taskId",
        "status",
        "createdAt",
        "lastCheckpointAt",
        "subAgentCount",
        "stepsTotal",
        "stepsCompleted",
        "toolCallCount",
        "parentId",
        "updatedAt",
        "completedAt",
        "error",
    ] {
        assert!(all[1].get(field).is_some(), "{field}");
    }
    assert_eq!(desk.json(&["list", "--status", "completed"])[0]["id"], json!(done));
    assert_eq!(desk.json(&["list", "--agent", "MARS"])[0]["id"], mars["id"]);
    assert_eq!(desk.json(&["list", "--parent", &done]), json!([]));
    assert_eq!(desk.say(&["list", "--status", "walking"]).code, 2);
}

/// AT1: SQL over the catalogue has every column of every run, is current, and cannot change anything.
#[test]
fn the_catalogue_answers_sql() {
    let desk = Desk::new();
    let id = desk.completed();
    let rows = desk.json(&["db", "query", "select * from runs"]);
    for column in [
        "id",
        "task_id",
        "agent",
        "task",
        "status",
        "steps_total",
        "steps_completed",
        "tool_calls",
        "sub_agents",
        "parent",
        "created_at",
        "updated_at",
        "completed_at",
        "error",
    ] {
        assert!(rows[0].get(column).is_some(), "{column}");
    }
    assert_eq!((&rows[0]["id"], &rows[0]["tool_calls"]), (&json!(id), &json!(2)));
    desk.create();
    let count = "select status, count(*) as n from runs group by status order by status";
    let counted = json!([{ "status": "completed", "n": 1 }, { "status": "created", "n": 1 }]);
    assert_eq!(desk.json(&["db", "query", count]), counted);
    assert_eq!(desk.get(&["db", "query", count]), "status     n\ncompleted  1\ncreated    1\n");
    std::fs::remove_file(desk.path(".longhaul/catalog.db")).unwrap();
    assert_eq!(desk.json(&["db", "query", count]), counted, "made anew from the journals");
    for (sql, named) in [
        ("select bogus from runs", "no such column: bogus"),
        ("delete from runs", "only read"),
        ("attach 'x.db' as x", "too many attached databases"),
        ("selec", "syntax error"),
    ] {
        let said = desk.say(&["db", "query", sql]);
        assert!(said.code == 2 && said.err.contains(named), "{sql}: {}", said.err);
    }
    assert_eq!(desk.json(&["db", "query", count]), counted);
}

/// The catalogue is derived: deleted, damaged or stale, the list is the same.
#[test]
fn the_catalogue_can_be_lost() {
    let desk = Desk::new();
    let id = desk.completed();
    desk.create();
    let before = desk.json(&["list"]);
    let catalogue = desk.path(".longhaul/catalog.db");
    std::fs::remove_file(&catalogue).unwrap();
    assert_eq!(desk.json(&["list"]), before);
    std::fs::write(&catalogue, "not a database").unwrap();
    assert_eq!(desk.json(&["list"]), before);
    desk.get(&["store", "rebuild"]);
    assert_eq!(desk.json(&["list"]), before);
    std::fs::remove_dir_all(desk.path(&format!(".longhaul/runs/{id}"))).unwrap();
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1, "a run that is gone is not listed");
}

/// AI5: the result has output, status, steps done and in all, calls and duration; it exits as the run did.
#[test]
fn the_result_has_its_fields() {
    let desk = Desk::new();
    let id = desk.completed();
    let result = desk.json(&["result", &id]);
    assert_eq!(result["output"], "All done.");
    assert_eq!(result["status"], "completed");
    assert_eq!(
        (&result["stepsCompleted"], &result["totalSteps"], &result["toolCallCount"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert!(result["duration"].is_u64());
    let failing =
        Desk::with_script("conversations: [ { turns: [ { fail: [ { fatal: no such model } ] } ] } ]");
    let failed = failing.create();
    assert_eq!(failing.say(&["start", &failed]).code, 1);
    assert_eq!(failing.say(&["result", &failed]).code, 1);
    assert!(failing.json(&["show", &failed])["error"].as_str().unwrap().contains("no such model"));
}

/// AI4, AI7: steps have id, description, agent, dependencies and critical flag; a bad plan names its field.
#[test]
fn steps_are_shown() {
    let desk = Desk::new();
    desk.write("plan.yaml", "steps:\n- { id: a, description: first }\n- { id: b, description: second, dependencies: [a], critical: true }\n");
    let id = desk.get(&["create", "--task", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"]);
    let steps = desk.json(&["steps", id.trim()]);
    assert_eq!(
        steps[0],
        json!({ "id": "a", "description": "first", "assignedAgent": "coder", "dependencies": [], "critical": false, "status": "ready" })
    );
    assert_eq!((&steps[1]["status"], &steps[1]["critical"]), (&json!("pending"), &json!(true)));
    for (plan, word) in [
        ("steps:\n- { id: a, description: '' }\n", "steps[0].description"),
        ("steps:\n- { id: a, description: x, dependencies: [z] }\n", "steps[0].dependencies[0]"),
        ("steps:\n- { id: a, description: x, dependencies: [a] }\n", "circle"),
        ("steps:\n- { id: a, description: x }\n- { id: a, description: y }\n", "used twice"),
        ("steps:\n- { id: a, description: x, agent: NOBODY }\n", "there is no agent `NOBODY`"),
        ("steps: []\n", "at least one"),
        ("steps:\n- { id: a, descriptoin: x }\n", "descriptoin"),
        ("- { id: a, description: x }\n", "hint: a plan is `steps:`, and then a list of them"),
        ("[]\n", "line 1: this is not a group of fields, each as `name: value`"),
    ] {
        desk.write("bad.yaml", plan);
        let said = desk.say(&["create", "--task", "x", "--plan", "bad.yaml", "--model", "scripted/s.yaml"]);
        assert!(said.code == 2 && said.err.contains(word), "{word}: {}", said.err);
    }
}

/// AI4: the tree of a run that started no others is itself.
#[test]
fn a_tree_has_a_root() {
    let desk = Desk::new();
    let id = desk.completed();
    let tree = desk.json(&["tree", &id]);
    assert_eq!(
        (&tree["id"], &tree["status"], &tree["children"]),
        (&json!(id), &json!("completed"), &json!([]))
    );
}

/// AD4: replay rebuilds the run from the journal alone; without the derived files too.
#[test]
fn replay_equals_show() {
    let desk = Desk::new();
    let id = desk.completed();
    let shown = desk.json(&["show", &id]);
    std::fs::remove_file(desk.path(".longhaul/catalog.db")).unwrap();
    std::fs::remove_file(desk.path(&format!(".longhaul/runs/{id}/events.jsonl"))).unwrap();
    assert_eq!(desk.json(&["replay", &id]), shown);
    assert_eq!(desk.json(&["replay", &id, "--to", "1"])["status"], "created");
    let told = desk.get(&["replay", &id]);
    for word in [
        "== turn 1 · @",
        "== turn 3 · @",
        "> call_2 bash {\"command\":\"cat a.txt\"}",
        "· completed · 3030 tokens",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let third = told.lines().find_map(|line| line.strip_prefix("== turn 3 · @")?.split(' ').next()).unwrap();
    let half = desk.get(&["replay", &id, "--to", third]);
    assert!(
        half.contains(&format!("\n== @{third} · running · 2020 tokens")) && !half.contains("All done."),
        "{half}"
    );
    assert_eq!(desk.say(&["replay", &id, "--to", "0"]).code, 2);
}

/// AI9: the four tool defaults of the specification are the defaults, and every value says where it came from.
#[test]
fn settings_are_layered() {
    let desk = Desk::new();
    let shown = desk.json(&["config", "show"]);
    for (key, value) in [
        ("harness.retries.max_retries", 3),
        ("harness.retries.base_backoff_ms", 1000),
        ("harness.retries.timeout_ms", 30_000),
        ("harness.limits.max_tool_calls", 100),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "harness: { autonomy: 5, limits: { max_steps: 11 } }\n");
    desk.write("longhaul.yaml", "harness: { limits: { max_steps: 12 } }\n");
    let output = desk
        .command(&["config", "show", "--origin", "--json"])
        .env("LONGHAUL_MAX_TOOL_CALLS", "13")
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["harness.autonomy"], json!({ "value": 5, "origin": "user" }));
    assert_eq!(shown["harness.limits.max_steps"], json!({ "value": 12, "origin": "project" }));
    assert_eq!(shown["harness.limits.max_tool_calls"], json!({ "value": 13, "origin": "environment" }));
    for (text, words) in [
        ("harness: { autonomy: 6 }\n", ["harness.autonomy", "longhaul.yaml"]),
        ("harness: { autonomi: 1 }\n", ["autonomi", "longhaul.yaml"]),
        ("harness: { enabled: no }\n", ["longhaul.yaml", "no"]),
        ("harness: [\n", ["longhaul.yaml", "line"]),
    ] {
        desk.write("longhaul.yaml", text);
        let said = desk.say(&["config", "show"]);
        assert_eq!(said.code, 2, "{text}");
        assert!(words.iter().all(|word| said.err.contains(word)), "{text}: {}", said.err);
    }
}

/// A97: no part of an address that may be a key is shown.
#[test]
fn keys_in_addresses_are_not_shown() {
    let desk = Desk::new();
    desk.write(
        "longhaul.yaml",
        "providers: { a: { api: chat, base_url: 'https://me:s3cret@host.example/v1?key=s3cret&x' }, b: { api: chat, base_url: 'https://host.example:8080/v1@2' } }\n",
    );
    let shown = desk.json(&["config", "show"]);
    assert_eq!(shown["providers.a"]["base_url"], "https://…@host.example/v1?key=…&…");
    assert_eq!(shown["providers.b"]["base_url"], "https://host.example:8080/v1@2");
    assert!(!desk.get(&["config", "show"]).contains("s3cret"));
}

/// Settings below the root of a repository are not read, which is said once and by name.
#[test]
fn settings_in_the_wrong_place_are_named() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.path(".git")).unwrap();
    std::fs::create_dir_all(desk.path("part/deep")).unwrap();
    desk.write(".git/HEAD", "ref: refs/heads/main\n");
    let from = |place: &str| {
        let output = desk.command(&["config", "show"]).current_dir(desk.path(place)).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    desk.write("longhaul.yaml", "harness: { autonomy: 3 }\n");
    assert_eq!(from("part/deep"), "");
    desk.write("part/longhaul.yaml", "harness: { autonomy: 5 }\n");
    let told = from("part/deep");
    assert_eq!(told.matches("part/longhaul.yaml is not read").count(), 1, "{told}");
    assert_eq!(from(""), "");
}

/// A run that there is no model for is refused before anything is made, and the hint can be typed where it is given.
#[test]
fn without_a_model_nothing_is_made() {
    let desk = Desk::new();
    for args in [&["run", "x"][..], &["loop", "x"], &["create", "--task", "x"]] {
        let said = desk.say(args);
        assert!(said.code == 2 && said.err.contains("no model is configured"), "{args:?}: {}", said.err);
        assert!(said.err.contains("`--model P/M`"), "{}", said.err);
        assert!(!desk.path(".longhaul").exists(), "{args:?}");
    }
    let said = desk.say(&["models", "check"]);
    assert!(
        said.err.contains("`longhaul models check P/M`") && !said.err.contains("--model"),
        "{}",
        said.err
    );
}

/// What is wrong in a file is said with its line, its field and what was meant, and in no parser's words.
#[test]
fn a_mistake_in_the_settings_is_said_in_plain_words() {
    let desk = Desk::new();
    for (text, said) in [
        (
            "harness: { autonmy: 3 }",
            "line 1: harness.autonmy: there is no such field; did you mean `autonomy`?; there are enabled, ",
        ),
        ("harness: { autonomy: high }", "line 1: harness.autonomy: `high` is not a whole number"),
        (
            "harness:\n  limits:\n    max_steps: -3",
            "line 3: harness.limits.max_steps: `-3` is not a whole number",
        ),
        ("models: [a]", "line 1: this is not a group of fields"),
        ("harness: { enabled: no }", "line 1: harness.enabled: `no` is not true or false"),
        (
            "providers:\n  x: { api: chatt }",
            "line 2: providers.x.api: `chatt` is none of anthropic, responses, chat, scripted; did you mean `chat`?",
        ),
        (
            "mcp: { servers: { a: { comand: [x] } } }",
            "mcp.servers.a.comand: there is no such field; did you mean `command`?",
        ),
        ("hooks: { before_tool: [ { comand: x } ] }", "hooks.before_tool[0].comand: there is no such field"),
        ("permissions: { bash: { 'ls *': maybe } }", "`maybe` is none of allow, ask, deny"),
        ("harness: { autonomy: 3, autonomy: 4 }", "line 1: `autonomy` is there twice"),
        ("modles: { default: x }", "modles: there is no such field; did you mean `models`?"),
        ("harness: [\n", "line "),
    ] {
        desk.write("longhaul.yaml", text);
        let told = desk.say(&["config", "show"]);
        assert_eq!(told.code, 2, "{text}");
        let path = desk.path("longhaul.yaml").display().to_string();
        assert!(told.err.contains(&path), "{}", told.err);
        assert!(told.err.contains(said), "{text}: {}", told.err);
        // The path has letters of chance in it.
        let words = told.err.replace(&path, "");
        for jargon in ["<input>", "u8", "u32", "variant", "mapping", "untagged", "struct", "column", "Policy"]
        {
            assert!(!words.contains(jargon), "{text}: {}", told.err);
        }
    }
}

/// Those who only look leave nothing behind.
#[test]
fn looking_makes_nothing() {
    let desk = Desk::new();
    let before = files_below(&desk.path(""));
    assert_eq!(desk.get(&["list"]), "");
    for args in
        [vec!["show", "run_x"], vec!["events", "run_x"], vec!["store", "verify"], vec!["export", "run_x"]]
    {
        let said = desk.say(&args);
        assert!(
            said.code == 2 && said.err.contains("there are no runs") && said.err.contains("hint:"),
            "{}",
            said.err
        );
    }
    desk.get(&["doctor"]);
    desk.get(&["store", "status"]);
    desk.get(&["completions", "bash"]);
    assert_eq!(files_below(&desk.path("")), before);
}

/// An id may be shortened to what only one run begins with.
#[test]
fn ids_can_be_shortened() {
    let desk = Desk::new();
    let (first, second) = (desk.create(), desk.create());
    assert_eq!(desk.json(&["show", &first[..first.len() - 2]])["id"], json!(first));
    let said = desk.say(&["show", "run_"]);
    assert!(said.code == 2 && said.err.contains(&first) && said.err.contains(&second), "{}", said.err);
}

/// A run whose process died says so in the list, and a follower does not wait for it for ever.
#[test]
fn a_dead_run_is_told_from_a_live_one() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { delay_ms: 60000, text: slow, calls: [ { tool: bash, args: { command: 'true' } } ] } ] } ]",
    );
    let id = desk.create();
    let mut live = desk.command(&["start", &id]).spawn().unwrap();
    while !desk.events(&id).iter().any(|event| event["type"] == "turn_started") {}
    assert_eq!(desk.json(&["list"])[0]["driven"], true);
    live.kill().unwrap();
    live.wait().unwrap();
    assert_eq!(desk.json(&["list"])[0]["driven"], false);
    assert!(desk.get(&["list"]).contains("running (nobody drives it)"));
    let said = desk.say(&["events", &id, "--follow"]);
    assert!(said.code == 0 && said.err.contains("nobody drives it"), "{}", said.err);
}

/// What a model or a task says cannot move the cursor or set the title of somebody's terminal.
#[test]
fn control_characters_are_not_shown() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: \"\\e[2J\\e]0;pwn\\a hi\" } ] } ]");
    let id = desk.get(&["create", "--task", "\u{1b}[31mred", "--model", "scripted/s.yaml"]).trim().to_owned();
    let said = desk.say(&["start", &id]);
    assert!(said.err.contains("hi"), "{}", said.err);
    for text in [
        said.err,
        desk.get(&["list"]),
        desk.get(&["show", &id]),
        desk.get(&["logs", &id]),
        desk.get(&["events", &id]),
    ] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }
}

/// AT3: the row of a run is kept current while it works: steps and calls rise, and the end has its time.
#[test]
fn rows_are_kept_current() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'sleep 0.4' } } ] }, { text: ok } ] } ]",
    );
    desk.write(
        "plan.yaml",
        "steps:\n- { id: a, description: x }\n- { id: b, description: y, dependencies: [a] }\n- { id: c, description: z, dependencies: [b] }\n",
    );
    let id = desk
        .get(&["create", "--task", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"])
        .trim()
        .to_owned();
    let mut live = desk.command(&["start", &id]).spawn().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while live.try_wait().unwrap().is_none() {
        let row = &desk.json(&["list"])[0];
        seen.insert((row["stepsCompleted"].as_u64().unwrap(), row["toolCallCount"].as_u64().unwrap()));
    }
    assert!(seen.len() >= 3, "{seen:?}");
    let row = &desk.json(&["list"])[0];
    assert_eq!(
        (&row["stepsCompleted"], &row["toolCallCount"], &row["status"]),
        (&json!(3), &json!(3), &json!("completed"))
    );
    assert!(row["completedAt"].is_string());
}

/// An answer is what was asked for, or it is said not to be: by the exit code, in words, and to whoever asks later.
#[test]
fn an_answer_fits_its_schema_or_is_said_not_to() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: '{\"ok\": 1}' } ] } ]");
    desk.write("good.json", r#"{ "type": "object", "properties": { "ok": { "type": "integer" } } }"#);
    desk.write("other.json", r#"{ "type": "object", "properties": { "ok": { "type": "boolean" } } }"#);
    desk.write("none.json", r#"{ "type": "banana" }"#);
    let ask = |schema: &str, mode: &str| {
        desk.say(&["run", "x", "--model", "scripted/s.yaml", "--mode", mode, "--answer-schema", schema])
    };
    let good = ask("good.json", "complete");
    assert_eq!((good.code, good.out.as_str()), (0, "{\"ok\": 1}\n"), "{}", good.err);
    let other = ask("other.json", "complete");
    assert_eq!((other.code, other.out.as_str()), (1, "{\"ok\": 1}\n"), "{}", other.err);
    assert!(other.err.contains("does not fit the schema: at /ok: 1 is not of type"), "{}", other.err);
    let ids: Vec<String> = desk
        .json(&["list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    let said: Vec<Value> = ids
        .iter()
        .map(|id| serde_json::from_str(&desk.say(&["result", id, "--json"]).out).unwrap())
        .collect();
    assert_eq!((&said[0]["fits"], &said[1]["fits"]), (&json!(false), &json!(true)));
    assert_eq!((desk.say(&["result", &ids[0]]).code, desk.say(&["result", &ids[1]]).code), (1, 0));
    for (schema, mode, word) in
        [("none.json", "complete", "not a JSON Schema"), ("good.json", "exec", "--mode complete")]
    {
        let refused = ask(schema, mode);
        assert_eq!((refused.code, refused.err.contains(word)), (2, true), "{}", refused.err);
    }
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 2);
}

/// What came back is told with the call it came from, also when several were asked for at once; and whole, where it is no
/// terminal that has no room for it.
#[test]
fn logs_tie_results_to_their_calls_and_pipes_get_everything() {
    let long = "a long text ".repeat(40);
    let desk = Desk::with_script(&format!(
        r#"
conversations:
  - turns:
      - text: "Both. {long}"
        calls: [ {{ tool: bash, args: {{ command: "echo one" }} }}, {{ tool: bash, args: {{ command: "echo two; exit 3" }} }} ]
      - text: "Done."
"#
    ));
    let task = format!("a task of {long}");
    let ran = desk.say(&["run", &task, "--model", "scripted/s.yaml"]);
    assert!(ran.err.contains(&format!("turn 1: Both. {}", long.trim())), "{}", ran.err);
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let told = desk.get(&["logs", &id]);
    for part in [
        "\n> call_1 bash {\"command\":\"echo one\"}\n",
        "\n> call_2 bash {\"command\":\"echo two; exit 3\"}\n",
        "\n< call_1 bash\none\n",
        "\n< call_2 bash\n",
    ] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
    for args in [&["list"][..], &["show", &id], &["cost"]] {
        assert!(desk.get(args).contains(task.trim()), "{args:?}: {}", desk.get(args));
    }
}

/// An empty question is answered with how to ask one.
#[test]
fn an_empty_query_is_no_query() {
    let desk = Desk::new();
    desk.create();
    let refused = desk.say(&["db", "query", " "]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("the query is empty") && refused.err.contains("SELECT status"),
        "{}",
        refused.err
    );
}

const GRAPH: &str = r#"
steps:
  - { id: look, description: Look at it }
  - { id: parse, description: Rewrite the parser, dependencies: [look] }
  - { id: docs, description: "Write \"docs\" <b>", dependencies: [look], critical: true }
  - { id: ship, description: Put it together, dependencies: [parse, docs] }
"#;

/// A5.1: who waits for whom is drawn, with how far each step is; on a narrow terminal less is said of each, and on the
/// narrowest the list says what cannot be drawn.
#[test]
fn steps_are_drawn() {
    let desk = Desk::new();
    desk.write("plan.yaml", GRAPH);
    let create =
        ["create", "--task", "x", "--plan", "plan.yaml", "--autonomy", "1", "--model", "scripted/s.yaml"];
    let id = desk.get(&create).trim().to_owned();
    expect![[r#"
             STEP   STATUS   AGENT  CRITICAL  AFTER        DESCRIPTION
        ○    look   ready    coder                         Look at it
        ├─╮
        ○ │  parse  pending  coder            look         Rewrite the parser
        │ ○  docs   pending  coder  yes       look         Write "docs" <b>
        ├─╯
        ○    ship   pending  coder            parse, docs  Put it together
    "#]]
    .assert_eq(&desk.get(&["steps", &id]));
    assert_eq!(desk.say(&["start", &id]).code, 3);
    let narrow = |columns: &str| {
        let output = desk.command(&["steps", &id]).env("COLUMNS", columns).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    expect![[r#"
             STEP   STATUS                DESCRIPT…
        ◇    look   waiting for a person  Look at …
        ├─╮
        ○ │  parse  pending               Rewrite …
        │ ○  docs   pending               Write "d…
        ├─╯
        ○    ship   pending               Put it t…
    "#]]
    .assert_eq(&narrow("43"));
    assert!(narrow("8").lines().all(|line| line.chars().count() <= 8) && !narrow("8").contains('├'));
}

/// A5.1: the same for Graphviz and for Markdown; what a step says cannot break out of its box.
#[test]
fn steps_are_given_to_other_programs() {
    let desk = Desk::new();
    desk.write("plan.yaml", GRAPH);
    let id = desk
        .get(&["create", "--task", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"])
        .trim()
        .to_owned();
    let dot = desk.get(&["steps", &id, "--dot"]);
    assert!(
        dot.starts_with(&format!("digraph \"{id}\" {{"))
            && dot.contains("  s0 -> s2;")
            && dot.contains(r#"Write \"docs\" <b>"#),
        "{dot}"
    );
    let mermaid = desk.get(&["steps", &id, "--mermaid"]);
    assert!(
        mermaid.starts_with("flowchart TD\n")
            && mermaid.contains("s1 --> s3")
            && mermaid.contains("Write #34;docs#34; #60;b#62;"),
        "{mermaid}"
    );
    assert_eq!(desk.say(&["steps", &id, "--dot", "--mermaid"]).code, 2);
    for drawing in ["--dot", "--mermaid"] {
        let both = desk.say(&["steps", &id, drawing, "--json"]);
        assert!(both.code == 2 && both.out.is_empty(), "{}", both.out);
        assert!(both.err.contains(&format!("{drawing} and --json")), "{}", both.err);
    }
    let steps = desk.json(&["steps", &id]);
    for field in ["id", "description", "assignedAgent", "dependencies", "critical", "status"] {
        assert!(steps[2].get(field).is_some(), "{field}: {steps}");
    }
}

/// AP19: every event of a run has all fields of its type, and a log that somebody damaged is found out.
#[test]
fn events_are_validated() {
    let desk = Desk::new();
    let id = desk.completed();
    let shown = desk.json(&["events", "validate", &id]);
    let count = desk.events(&id).len();
    assert_eq!(
        (&shown["valid"], &shown["events"], &shown["logged"]),
        (&json!(true), &json!(count), &json!(count))
    );
    assert_eq!(desk.get(&["events", "validate", &id]), "");
    let path = desk.path(&format!(".longhaul/runs/{id}/events.jsonl"));
    let log = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replace("\"harnessId\"", "\"harness\"");
    lines.remove(4);
    std::fs::write(&path, lines.join("\n")).unwrap();
    let said = desk.say(&["events", "validate", &id]);
    assert_eq!(said.code, 1);
    assert!(
        said.out.starts_with("events.jsonl event 3: a ") && said.out.contains("without harnessId"),
        "{}",
        said.out
    );
    assert!(said.out.contains("events.jsonl event 5: it has the number 6"), "{}", said.out);
    assert_eq!(desk.say(&["events"]).code, 2);
    assert_eq!(desk.say(&["events", "validate"]).code, 2);
}

/// A8.5: a trace has the same events, as lines or as spans, and making it changes nothing.
#[test]
fn a_trace_is_exported() {
    let desk = Desk::new();
    let id = desk.completed();
    let before = files_below(&desk.path(&format!(".longhaul/runs/{id}")));
    assert_eq!(desk.get(&["trace", "export", &id]), desk.get(&["events", &id, "--json"]));
    let otlp: Value =
        serde_json::from_str(&desk.get(&["trace", "export", &id, "--format", "otlp-json"])).unwrap();
    let spans = otlp["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [&*format!("run {id}"), "step step-1", "turn 1", "tool write", "turn 2", "tool bash", "turn 3"]
    );
    let told: usize = spans.iter().map(|span| span["events"].as_array().unwrap().len()).sum();
    assert_eq!(told, desk.events(&id).len());
    assert_eq!(spans[2]["parentSpanId"], spans[1]["spanId"]);
    assert!(
        spans.iter().all(|span| span["status"]["code"] == 1 && span["traceId"] == spans[0]["traceId"]),
        "{otlp}"
    );
    assert_eq!(files_below(&desk.path(&format!(".longhaul/runs/{id}"))), before);
    assert_eq!(desk.say(&["trace", "export", &id, "--format", "xml"]).code, 2);
}
