//! Agents as a user meets them: `agents`, and what their files make of a run.

use expect_test::expect;
use serde_json::json;

use super::desk::Desk;

const EXAMPLE: &str = "---
model: anthropic/claude-sonnet-4-20250514
harness: agentic
harness_config:
  max_steps: 50
  doom_loop_threshold: 3
  timeout: 10m
tools:
  - read_file
  - write_file
  - bash
---
You are a code analysis agent...
";

/// Reads for ever.
const ENDLESS: &str = r#"
conversations:
  - turns:
      - calls: [ { tool: read, args: { path: s.yaml, offset: 1 } } ]
      - calls: [ { tool: read, args: { path: s.yaml, offset: 2 } } ]
      - calls: [ { tool: read, args: { path: s.yaml, offset: 3 } } ]
      - calls: [ { tool: read, args: { path: s.yaml, offset: 4 } } ]
"#;

fn with_agent(script: &str, name: &str, text: &str) -> Desk {
    let desk = Desk::with_script(script);
    std::fs::create_dir(desk.path("agents")).unwrap();
    desk.write(&format!("agents/{name}.md"), text);
    desk
}

/// D1.2, D6.9: the example file is shown field by field and is valid, other harnesses' names of tools included.
#[test]
fn the_example_is_shown() {
    let desk = with_agent(ENDLESS, "analyzer", EXAMPLE);
    let shown =
        desk.get(&["agents", "show", "analyzer"]).replace(&desk.path("").display().to_string(), "DESK/");
    expect![[r#"
        FIELD                               VALUE
        file                                DESK/agents/analyzer.md
        harness                             agentic
        harness_config.doom_loop_threshold  3
        harness_config.max_steps            50
        harness_config.timeout_ms           600000
        models                              anthropic/claude-sonnet-4-20250514
        name                                analyzer
        origin                              project
        tools                               read_file, write_file, bash

        You are a code analysis agent...
    "#]]
    .assert_eq(&shown);
    let shown = desk.json(&["agents", "show", "analyzer"]);
    assert_eq!(
        shown["harnessConfig"],
        json!({ "maxSteps": 50, "doomLoopThreshold": 3, "timeoutMs": 600_000 })
    );
    assert_eq!((&shown["harness"], &shown["origin"]), (&json!("agentic"), &json!("project")));
    assert_eq!(desk.get(&["agents", "validate", "analyzer"]), "analyzer: valid\n");
    let made = desk.json(&["create", "--task", "x", "--agent", "analyzer", "--model", "scripted/s.yaml"]);
    let tools = desk.json(&["show", made["id"].as_str().unwrap()]);
    assert_eq!(tools["agentName"], "analyzer");
}

/// D1.3: what an agent's file limits ends its run; what is typed goes over it.
#[test]
fn an_agents_limits_hold() {
    let desk = with_agent(ENDLESS, "short", "---\nharness_config: { max_steps: 2 }\n---\nx");
    let run = |more: &[&str]| {
        let mut args =
            vec!["run", "x", "--agent", "short", "--model", "scripted/s.yaml", "--in-place", "--json"];
        args.extend(more);
        let said = desk.say(&args);
        (said.code, serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["toolCallCount"].clone())
    };
    assert_eq!(run(&[]), (4, json!(2)));
    assert_eq!(run(&["--max-steps", "3"]), (4, json!(3)));
    desk.write(
        "agents/short.md",
        "---\nlimits: { max_tool_calls: 1 }\nharness_config: { max_steps: 5 }\n---\nx",
    );
    assert_eq!(run(&[]).1, json!(1));
}

/// A71: an agent file of a repository tightens and does not raise, and its rules hold beside the user's.
#[test]
fn a_repositorys_agent_cannot_widen() {
    let desk = with_agent(ENDLESS, "bold", "---\nautonomy: 5\n---\nx");
    std::fs::create_dir_all(desk.path(".config/longhaul/agents")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "harness: { autonomy: 3, limits: { max_cost: 1.0 } }\n");
    let create = ["create", "--task", "x", "--agent", "bold", "--model", "scripted/s.yaml"];
    let refused = desk.say(&create);
    assert!(
        refused.code == 2
            && refused.err.contains("bold.md:2: `autonomy`: a repository's agent may not raise 3"),
        "{}",
        refused.err
    );
    desk.write("agents/bold.md", "---\nlimits:\n  max_cost: 100\n---\nx");
    assert!(desk.say(&create).err.contains("bold.md:3: `limits.max_cost`"));
    assert_eq!(desk.say(&["agents", "validate"]).code, 2);
    assert_eq!(desk.say(&["agents", "validate", "agents/bold.md"]).code, 2);
    std::fs::rename(desk.path("agents/bold.md"), desk.path(".config/longhaul/agents/bold.md")).unwrap();
    assert_eq!(desk.json(&["agents", "show", "bold"])["origin"], "user");

    let desk = with_agent(
        ENDLESS,
        "loose",
        "---\npermissions: { read: { \"*\": allow, s.yaml: deny }, bash: { \"git push *\": allow } }\nharness_config: { max_steps: 1 }\n---\nx",
    );
    let run = ["run", "x", "--agent", "loose", "--model", "scripted/s.yaml", "--in-place", "--json"];
    let run: serde_json::Value = serde_json::from_str(&desk.say(&run).out).unwrap();
    let calls = desk.json(&["tools", run["id"].as_str().unwrap()]);
    assert!(calls.to_string().contains("not permitted"), "the agent's own rules tighten: {calls}");
    let exported = desk.json(&["export", run["id"].as_str().unwrap()]).to_string();
    assert!(exported.contains("git push *"), "{exported}");
}

/// D1.2: agents are listed with their origin, a broken one with what is wrong and where, and every mistake has its line.
#[test]
fn agents_are_listed_and_validated() {
    let desk = with_agent(ENDLESS, "broken", "---\ntools: [read]\nmodle: a/b\n---\nx");
    let listed = desk.json(&["agents", "list"]);
    let rows: Vec<(&str, &str, bool)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["origin"].as_str().unwrap(), row["error"].is_null()))
        .collect();
    assert!(rows.contains(&("broken", "project", false)), "{rows:?}");
    assert!(rows.contains(&("coder", "built-in", true)), "{rows:?}");
    assert!(desk.get(&["agents", "list"]).contains("broken: "));
    let said = desk.say(&["agents", "validate"]);
    assert!(
        said.code == 2
            && said
                .out
                .contains("agents/broken.md:3: `modle` is not a field of an agent; did you mean `model`?"),
        "{}",
        said.out
    );
    desk.write("agents/broken.md", "---\ntools: [raed]\n---\nx");
    assert!(
        desk.say(&["agents", "validate", "agents/broken.md"])
            .out
            .contains("broken.md:2: `tools`: `raed` is not a tool; did you mean `read`?")
    );
    desk.write("agents/broken.md", "---\nmcp: [files]\n---\nx");
    assert!(
        desk.say(&["agents", "validate", "broken"])
            .out
            .contains("`files` is not a configured MCP server; none is configured")
    );
    for (matter, line) in [("model: antropic/claude", 2), ("role: x\njudge: antropic/claude", 3)] {
        desk.write("agents/broken.md", &format!("---\n{matter}\n---\nx"));
        let field = if line == 2 { "model" } else { "judge" };
        let why =
            format!("broken.md:{line}: `{field}`: `antropic` is not a provider; did you mean `anthropic`?");
        let checked = desk.say(&["agents", "validate", "broken"]);
        assert!(checked.code == 2 && checked.out.contains(&why), "{}", checked.out);
        let run = desk.say(&["run", "x", "--agent", "broken"]);
        assert!(run.code == 2 && run.err.contains(&why), "{}", run.err);
    }
    let nobody = desk.say(&["agents", "show", "reviewr"]);
    assert!(nobody.code == 2 && nobody.err.contains("did you mean `reviewer`?"), "{}", nobody.err);
    for name in ["coder", "judge", "planner", "researcher", "reviewer", "summarizer"] {
        assert_eq!(desk.get(&["agents", "validate", name]), format!("{name}: valid\n"));
    }
}

/// AX1: twenty-one agents with names of their own come along, and six generic roles; each names its role and its tools, all
/// of which exist, and a project's file takes the place of one without adding another.
#[test]
fn the_roster_comes_along() {
    let desk = with_agent(ENDLESS, "VENUS", "---\nrole: Ours\n---\nx");
    let listed = desk.json(&["agents", "list"]);
    let of_group = |group: &str| {
        let of_group = listed.as_array().unwrap().iter().filter(|row| row["group"] == group);
        of_group.map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let named = "ANDROMEDA ATLAS CALLISTO CHARON EARTH ENCELADUS EUROPA GANYMEDE IO JUPITER MARS MERCURY MIMAS NEPTUNE \
                 PLUTO SATURN SUN TITAN TRITON URANUS VENUS";
    assert_eq!(of_group("named").join(" "), named);
    assert_eq!(of_group("generic").join(" "), "coder judge planner researcher reviewer summarizer");
    let venus = listed.as_array().unwrap().iter().find(|row| row["name"] == "VENUS").unwrap();
    assert_eq!((&venus["role"], &venus["origin"]), (&json!("Ours"), &json!("project")));

    let shown = desk.get(&["agents", "show", "MARS"]);
    for part in ["role", "Backend code", "tools", "bash", "apply_patch", "limits.max_tool_calls", "200"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let small = desk.say(&["agents", "show", "mars"]);
    assert!(small.code == 2 && small.err.contains("did you mean `MARS`?"), "{}", small.err);
    let create = ["create", "--task", "x", "--agent", "mars", "--model", "scripted/s.yaml"];
    assert!(desk.say(&create).err.contains("the default tools; did you mean `MARS`?"));
    let checked = desk.say(&["agents", "validate"]);
    assert_eq!((checked.code, checked.out.lines().count()), (0, 27), "{}", checked.out);
    let table = desk.get(&["agents", "list"]);
    assert!(table.lines().any(|line| line.starts_with("MARS ") && line.contains("Backend code")), "{table}");
}

/// AX1: a built-in agent's limit of calls is a default; one that somebody set goes before it, and one that is typed before all.
#[test]
fn a_built_in_limit_of_calls_is_a_default() {
    let desk = with_agent(ENDLESS, "other", "x");
    let limit = |more: &[&str]| {
        let create = ["create", "--task", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--json"];
        let run: serde_json::Value = serde_json::from_str(&desk.get(&[&create, more].concat())).unwrap();
        run["limits"]["maxToolCalls"].as_u64().unwrap()
    };
    assert_eq!((limit(&[]), limit(&["--max-tool-calls", "7"])), (200, 7));
    desk.write("longhaul.yaml", "harness: { limits: { max_tool_calls: 30 } }\n");
    assert_eq!(limit(&[]), 30);
}

/// D1.2: a new agent file is valid as it is written, and is never written over another.
#[test]
fn a_new_agent_is_valid() {
    let desk = Desk::new();
    assert!(desk.get(&["agents", "new", "helper"]).ends_with("agents/helper.md\n"));
    assert_eq!(desk.get(&["agents", "validate", "helper"]), "helper: valid\n");
    // What is commented out in it is valid as well.
    let text = std::fs::read_to_string(desk.path("agents/helper.md")).unwrap();
    let fields = text.lines().map(|line| {
        let field = line.strip_prefix("# ").filter(|rest| {
            rest.trim_start()
                .split(':')
                .next()
                .is_some_and(|key| key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
                && rest.contains(':')
        });
        field.unwrap_or(line).to_owned() + "\n"
    });
    desk.write("agents/full.md", &fields.collect::<String>());
    let full = desk.json(&["agents", "show", "full"]);
    assert_eq!(
        (&full["compaction"]["protectTokens"], &full["protectPolicy"]),
        (&json!(40_000), &json!("report"))
    );
    let again = desk.say(&["agents", "new", "helper"]);
    assert!(again.code == 2 && again.err.contains("is there already"), "{}", again.err);
    assert_eq!(desk.say(&["agents", "new", "../x"]).code, 2);
}

/// A71: a directory of agents that is a link out of the repository is not followed.
#[test]
fn a_linked_directory_of_agents_is_not_read() {
    let (desk, elsewhere) = (Desk::new(), tempfile::tempdir().unwrap());
    std::fs::write(elsewhere.path().join("coder.md"), "private").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), desk.path("agents")).unwrap();
    let refused = desk.say(&["create", "--task", "x", "--model", "scripted/s.yaml"]);
    assert!(refused.code == 2 && refused.err.contains("a link that leads out of"), "{}", refused.err);
    let told = desk.say(&["agents", "list", "--json"]);
    assert!(told.code == 0 && !told.out.contains("private"), "{}", told.out);
}

/// D1.2: front matter that is not quite front matter is refused and not sent as a prompt; a file without any is an agent with
/// every tool, which is said.
#[test]
fn front_matter_is_never_dropped_in_silence() {
    let desk = with_agent(ENDLESS, "q", "----\ntools: [read]\n----\nYou only read.\n");
    let run = ["create", "--task", "x", "--agent", "q", "--model", "scripted/s.yaml"];
    for text in [
        "----\ntools: [read]\n----\nx",
        " ---\ntools: [read]\n ---\nx",
        "<!-- c -->\n---\ntools: [read]\n---\nx",
        "",
    ] {
        desk.write("agents/q.md", text);
        let (checked, refused) = (desk.say(&["agents", "validate", "q"]), desk.say(&run));
        assert_eq!((checked.code, refused.code), (2, 2), "{text}: {}{}", checked.out, refused.err);
        assert!(checked.out.contains("q.md") && refused.err.contains("q.md"), "{text}: {}", refused.err);
    }
    for text in ["--- \ntools: [read]\n---\nx", "\u{feff}\n\n---\ntools: [read]\n--- \nx"] {
        desk.write("agents/q.md", text);
        let made = desk.say(&run);
        assert!(made.code == 0 && !made.err.contains("front matter"), "{text}: {}", made.err);
        assert_eq!(desk.json(&["agents", "show", "q"])["tools"], json!(["read"]), "{text}");
    }
    desk.write("agents/q.md", "You only read.\n");
    let (checked, made) = (desk.say(&["agents", "validate", "q"]), desk.say(&run));
    assert_eq!((checked.code, made.code, checked.out.as_str()), (0, 0, "q: valid\n"));
    for said in [&checked.err, &made.err] {
        assert!(said.contains("agents/q.md has no front matter, so q has every tool"), "{said}");
    }
    let checked = desk.json(&["agents", "validate", "q"]);
    assert!(checked[0]["warning"].as_str().unwrap().contains("no front matter"), "{checked}");
}

/// D1.2: what `agents validate` says of a file is what a run says that is asked to use it.
#[test]
fn a_run_says_of_an_agent_what_validate_says() {
    let desk = with_agent(ENDLESS, "bad", "x");
    for (matter, why) in [
        ("tools:\n  - read\n  - wriet", "bad.md:4: `tools`: `wriet` is not a tool; did you mean `write`?"),
        (
            "protect:\n  - ok\n  - \"[x\"",
            "bad.md:4: `protect`: `[x` is not a glob pattern: unclosed character class",
        ),
        ("mcp: [nope]", "bad.md:2: `mcp`: `nope` is not a configured MCP server; none is configured"),
        (
            "tools: [read, nope__x]",
            "bad.md:2: `tools`: `nope` is not a configured MCP server; none is configured",
        ),
        (
            "limits: { max_tool_calls: 99999999999999999999999 }",
            "bad.md:2: `limits.max_tool_calls` is 99999999999999999999999; it is from 0",
        ),
    ] {
        desk.write("agents/bad.md", &format!("---\n{matter}\n---\nx"));
        let checked = desk.say(&["agents", "validate", "bad"]);
        let run = desk.say(&["run", "x", "--agent", "bad", "--model", "scripted/s.yaml"]);
        assert!(checked.code == 2 && checked.out.contains(why), "{why}: {}", checked.out);
        assert!(run.code == 2 && run.err.contains(why), "{why}: {}", run.err);
    }
    let typed = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--protect", "ok,[y"]);
    assert!(typed.code == 2 && typed.err.contains("--protect: `[y` is not a glob pattern"), "{}", typed.err);
}
