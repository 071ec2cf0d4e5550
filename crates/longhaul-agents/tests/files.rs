//! Agent files as people write them, and as nobody should.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use longhaul_agents::{
    Agent, AgentLimits, BadAgent, Engine, GENERIC, Group, HarnessConfig, NAMED, Origin, Place, ProtectPolicy,
    Roster,
};
use longhaul_core::money::Usd;
use longhaul_core::permission::Action;
use longhaul_core::policy::{Limit, Policies, Policy};
use longhaul_core::spec::Autonomy;
use tempfile::TempDir;

/// The example of the document that agent files come from.
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

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        fs::create_dir_all(desk.path("agents")).unwrap();
        fs::create_dir_all(desk.path("user")).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn roster(&self) -> Roster {
        let place = |origin, dir: &str| Place { origin, dir: self.path(dir), within: Some(self.path(dir)) };
        Roster::new(vec![place(Origin::Project, "agents"), place(Origin::User, "user")])
    }

    fn find(&self, name: &str) -> Result<Agent, BadAgent> {
        self.roster().find(name)
    }
}

fn read(text: &str) -> Result<Agent, BadAgent> {
    let desk = Desk::new();
    desk.write("agents/x.md", text);
    desk.find("x")
}

/// What is said about a file, without where the test put it.
fn said(error: &BadAgent) -> String {
    let text = error.to_string();
    text.split_once("/agents/").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

/// D1.1, D1.2, D1.3, D6.9: the example is read, every field of it.
#[test]
fn the_example_is_read() {
    let agent = read(EXAMPLE).unwrap();
    assert_eq!(agent.models, ["anthropic/claude-sonnet-4-20250514"]);
    assert_eq!(agent.tools.as_deref().unwrap(), ["read_file", "write_file", "bash"]);
    assert_eq!(agent.engine, Some(Engine::Agentic));
    let config =
        HarnessConfig { max_steps: Some(50), doom_loop_threshold: Some(3), timeout_ms: Some(600_000) };
    assert_eq!(agent.harness_config, config);
    assert_eq!(agent.prompt, "You are a code analysis agent...");
    assert_eq!(agent.origin, Origin::Project);
    assert_eq!(read("---\nharness: \"\"\n---\nx").unwrap().engine, Some(Engine::Plain));
    assert_eq!(read("---\nharness:\n---\nx").unwrap().engine, Some(Engine::Plain));
    assert_eq!(read("---\nmodel: a/b\n---\nx").unwrap().engine, None);
}

/// D1.2: whatever else an agent may say is read as it is.
#[test]
fn every_field_is_read() {
    let agent = read(
        "---
description: Does it all.
models: [a/b, c/d]
autonomy: 2
limits: { max_tool_calls: 0, max_tokens: 1000000, max_cost: 2.5, max_iterations: 7, max_iteration_tokens: 90000, policies: { max_cost: stop } }
verify:
  - cargo test
  - ./check.sh
protect: [\"tests/**\"]
protect_policy: refuse
permissions: { bash: { \"git push *\": deny }, write: ask }
mcp: [files]
summarizer: a/small
judge: c/d
compaction: { enabled: false, threshold: 0.7, protect_tokens: 1000 }
---
Do it.
",
    )
    .unwrap();
    let limits = AgentLimits {
        max_tool_calls: Some(0),
        max_tokens: Some(1_000_000),
        max_cost: Usd::from_dollars(2.5),
        max_iterations: Some(7),
        max_iteration_tokens: Some(90_000),
        policies: Policies::default().with(Limit::Cost, Policy::Stop).ok(),
        ..AgentLimits::default()
    };
    assert_eq!((agent.limits, agent.autonomy), (limits, Autonomy::new(2)));
    assert_eq!(agent.models, ["a/b", "c/d"]);
    assert_eq!(agent.verify.unwrap(), ["cargo test", "./check.sh"]);
    assert_eq!(
        (agent.protect.unwrap(), agent.protect_policy),
        (vec!["tests/**".to_owned()], Some(ProtectPolicy::Refuse))
    );
    let rules = agent.permissions.unwrap();
    assert_eq!((rules.0["bash"].0["git push *"], rules.0["write"].0["*"]), (Action::Deny, Action::Ask));
    assert_eq!(
        (agent.mcp.unwrap(), agent.summarizer.unwrap(), agent.judge.unwrap()),
        (vec!["files".to_owned()], "a/small".to_owned(), "c/d".to_owned())
    );
    let compaction = (agent.compaction.enabled, agent.compaction.threshold, agent.compaction.protect_tokens);
    assert_eq!(compaction, (Some(false), Some(0.7), Some(1000)));
}

fn check(texts: &[&str], expected: Expect) {
    let lines: Vec<String> =
        texts.iter().map(|matter| said(&read(&format!("---\n{matter}\n---\nx")).unwrap_err())).collect();
    expected.assert_eq(&lines.join("\n"));
}

/// What stands under an agent's name and can be no agent is an error, not an agent with all tools.
#[test]
fn what_is_no_file_is_no_other_agent() {
    let desk = Desk::new();
    fs::create_dir(desk.path("agents/dir.md")).unwrap();
    std::os::unix::fs::symlink("nowhere.md", desk.path("agents/dangling.md")).unwrap();
    for (name, word) in [("dir", "no regular file"), ("dangling", "cannot be read")] {
        let error = desk.find(name).unwrap_err().to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
    let broken = desk.roster().all().unwrap().into_iter().filter(|listed| listed.agent.is_err());
    assert_eq!(broken.map(|listed| listed.name).collect::<Vec<_>>(), ["dangling", "dir"]);
}

/// D1.2: whatever is wrong is one line with file, line and field, and with what was probably meant.
#[test]
fn what_is_wrong_is_said_with_its_line() {
    check(
        &[
            "model: a/b\ntoolz: [read]",
            "harness_config:\n  max_step: 3",
            "limits: { max_costs: 3 }",
            "nonsense: 1",
            "model: claude-sonnet",
            "model: anthropic:claude",
            "models: [a/b, \"gpt 5\"]",
            "summarizer: small",
            "model: a/b\nmodels: [c/d]",
            "models: []",
            "harness: agnetic",
            "tools: read",
            "tools: [read, \"\"]",
            "description: [x]",
            "name: other",
            "protect_policy: report",
            "protect: [a]\nprotect_policy: refus",
            "permissions: { bash: maybe }",
            "permissions: { bash: { \"\": deny } }",
            "model: a/b\nmodel: c/d",
            "compaction: { enabled: yes }",
        ],
        expect![[r#"
            x.md:3: `toolz` is not a field of an agent; did you mean `tools`?
            x.md:3: `max_step` is not a field of harness_config; did you mean `max_steps`?
            x.md:2: `max_costs` is not a field of limits; did you mean `max_cost`?
            x.md:2: `nonsense` is not a field of an agent; there are: name, role, description, model, models, tools, harness, harness_config, autonomy, limits, verify, protect, protect_policy, permissions, mcp, summarizer, judge, accept, compaction
            x.md:2: `model` is `claude-sonnet`, which is not of the form provider/model; did you mean `anthropic/claude-sonnet`?
            x.md:2: `model` is `anthropic:claude`, which is not of the form provider/model; did you mean `anthropic/claude`?
            x.md:2: `models` is `gpt 5`, which is not of the form provider/model
            x.md:2: `summarizer` is `small`, which is not of the form provider/model
            x.md:3: `models` and `model` are both there; give one of them
            x.md:2: `models` is empty; leave it out
            x.md:2: `harness` is `agnetic`; it is `agentic`, or empty for plain execution; did you mean `agentic`?
            x.md:2: `tools`: must be a list
            x.md:2: `tools` has an empty entry
            x.md:2: `description`: must be a text
            x.md:2: `name` is `other`, but an agent is called after its file: x
            x.md:2: `protect_policy` says what becomes of changes to paths that `protect` does not name
            x.md:3: `protect_policy`: `refus` is not a choice; did you mean `refuse`?
            x.md:2: `permissions`: `maybe` is not a choice; there are: allow, ask, deny
            x.md:2: `permissions` cannot hold: permissions.bash: a pattern is empty or longer than 512 bytes
            x.md:3: `model` is there twice
            x.md:2: `compaction.enabled`: must be true or false"#]],
    );
}

/// D1.3: limits that are negative, absurd or no numbers are refused, each by name.
#[test]
fn absurd_limits_are_refused() {
    let many = |field: &str, count: usize| format!("{field}:\n{}", "  - x\n".repeat(count));
    check(
        &[
            "harness_config:\n  max_steps: -1",
            "harness_config:\n  max_steps: 0",
            "harness_config:\n  max_steps: 99999999999999999999999",
            "harness_config:\n  max_steps: many",
            "harness_config: { max_steps: 1.5 }",
            "limits: { max_tool_calls: 99999999999999999999999 }",
            "limits: { max_cost: 1, max_tool_calls: 9999999999999999999999999999999999999999 }",
            "harness_config:\n  doom_loop_threshold: 1",
            "harness_config:\n  timeout: 0s",
            "harness_config:\n  timeout: soon",
            "harness_config:\n  timeout: -5m",
            "autonomy: 6",
            "limits:\n  max_cost: -0.5",
            "limits:\n  max_cost: .nan",
            "limits:\n  max_cost: .inf",
            "limits:\n  max_cost: 1e300",
            "limits:\n  max_tokens: 0",
            "compaction:\n  threshold: 85",
            "compaction:\n  protect_tokens: -3",
            "harness_config:\n  doom_loop_threshold: 500",
            "limits:\n  max_iterations: 500000",
            &many("verify", 51),
            &many("protect", 101),
            "verify:\n  - make\n  - \"\"",
            "accept: [fast]",
        ],
        expect![[r#"
            x.md:3: `harness_config.max_steps` is -1; it is from 1 to 1000000
            x.md:3: `harness_config.max_steps` is 0; it is from 1 to 1000000
            x.md:3: `harness_config.max_steps` is 99999999999999999999999; it is from 1 to 1000000
            x.md:3: `harness_config.max_steps`: must be a whole number of at most 38 digits
            x.md:2: `harness_config.max_steps`: must be a whole number of at most 38 digits
            x.md:2: `limits.max_tool_calls` is 99999999999999999999999; it is from 0 to 1000000
            x.md:2: `limits.max_tool_calls`: must be a whole number of at most 38 digits
            x.md:3: `harness_config.doom_loop_threshold` is 1; it is from 2 to 50
            x.md:3: `harness_config.timeout` is `0s`; write it like 90s, 10m, 2h or 1h30m, from 1s to 30d
            x.md:3: `harness_config.timeout` is `soon`; write it like 90s, 10m, 2h or 1h30m, from 1s to 30d
            x.md:3: `harness_config.timeout` is `-5m`; write it like 90s, 10m, 2h or 1h30m, from 1s to 30d
            x.md:2: `autonomy` is 1 to 5, not 6
            x.md:3: `limits.max_cost` is -0.5; it is from 0 to 1000000 dollars
            x.md:3: `limits.max_cost` is NaN; it is from 0 to 1000000 dollars
            x.md:3: `limits.max_cost` is inf; it is from 0 to 1000000 dollars
            x.md:3: `limits.max_cost` is 1e300; it is from 0 to 1000000 dollars
            x.md:3: `limits.max_tokens` is 0; it is from 1 to 1000000000000
            x.md:3: `compaction.threshold` is 85; it is a share of the context window, from 0.1 to 0.95
            x.md:3: `compaction.protect_tokens` is -3; it is from 0 to 1000000000000
            x.md:3: `harness_config.doom_loop_threshold` is 500; it is from 2 to 50
            x.md:3: `limits.max_iterations` is 500000; it is from 1 to 10000
            x.md:53: `verify` has 51 entries; at most 50
            x.md:103: `protect` has 101 entries; at most 100
            x.md:4: `verify` has an empty entry
            x.md:2: `accept` says what must be true of the work for a judge, and `judge` names none"#]],
    );
}

/// A75: YAML that means harm is one error, soon.
#[test]
fn hostile_yaml_is_one_error() {
    let bomb: String = (0..9)
        .map(|at| {
            let one = if at == 0 { "x".to_owned() } else { format!("*a{}", at - 1) };
            format!("a{at}: &a{at} [{}]\n", vec![one; 9].join(","))
        })
        .collect();
    let deep = format!("tools: {}", "[".repeat(10_000));
    for matter in [
        bomb.as_str(),
        &deep,
        "tools: &a [*a]",
        "<<: *x",
        "tools: !!python/object x",
        "a: b: c",
        "\t- x",
        "{",
        "- a\n- b",
        "just text",
    ] {
        let error = read(&format!("---\n{matter}\n---\nx")).unwrap_err();
        let BadAgent::Line { why, .. } = &error else { panic!("{error}") };
        assert!(why.lines().count() == 1 && why.len() < 500, "{error}");
    }
}

/// D1.2: files that are no agent files are refused as a whole, without reading all of them.
#[test]
fn what_is_no_agent_file_is_refused() {
    let desk = Desk::new();
    desk.write("agents/huge.md", "");
    fs::File::options()
        .write(true)
        .open(desk.path("agents/huge.md"))
        .unwrap()
        .set_len(50 * 1024 * 1024)
        .unwrap();
    desk.write("agents/empty.md", "");
    desk.write("agents/blank.md", "\u{feff} \n\n");
    desk.write("agents/dashes.md", "----\ntools: [read]\n----\nx");
    desk.write("agents/open.md", "---\nmodel: a/b\nYou are");
    desk.write("agents/latin.md", b"---\nmodel: a/b\n---\n\xe9");
    desk.write("secret", "key");
    symlink(desk.path("secret"), desk.path("agents/link.md")).unwrap();
    let said = ["huge", "empty", "blank", "dashes", "open", "latin", "link", "../x", ".x", ""]
        .map(|name| said(&desk.find(name).unwrap_err()));
    let text = said.join("\n").replace(&desk.path("").display().to_string(), "DESK/");
    expect![[r#"
        huge.md: has 52428800 bytes; an agent file has at most 1048576
        empty.md: is empty
        blank.md: is empty
        dashes.md:1: `----` looks like the start of front matter; write `---` as the first line of the file, not indented, with nothing above it
        open.md:1: the front matter that `---` opens is not closed by another `---`
        latin.md: is not UTF-8
        link.md: is reached by a link that leads out of DESK/agents
        `../x` is not an agent's name: letters, digits, `-`, `_` and `.` only
        `.x` is not an agent's name: letters, digits, `-`, `_` and `.` only
        `` is not an agent's name: letters, digits, `-`, `_` and `.` only"#]]
    .assert_eq(&text);
    fs::create_dir(desk.path("agents/dir.md")).unwrap();
    assert!(desk.find("dir").unwrap_err().to_string().ends_with("is no regular file"));
}

/// D1.2: a file without front matter is an agent, and one that can be told from those that say what they may.
#[test]
fn a_file_with_only_a_prompt_is_told() {
    assert!(read("You read.\n").unwrap().has_only_a_prompt());
    assert!(!read("---\n---\nYou read.\n").unwrap().has_only_a_prompt());
    assert!(!Desk::new().find("nobody").unwrap().has_only_a_prompt());
    let late = said(&read("\n\n---\ndescription: x\nautonomy: 9\n---\nx").unwrap_err());
    assert_eq!(late, "x.md:5: `autonomy` is 1 to 5, not 9");
}

/// D1.2: the project's file goes first, then the user's, then what is built in; each whole.
#[test]
fn the_first_file_of_a_name_counts() {
    let desk = Desk::new();
    let origin = |name: &str| desk.find(name).unwrap().origin;
    assert_eq!((origin("reviewer"), origin("nobody")), (Origin::BuiltIn, Origin::Default));
    desk.write("user/reviewer.md", "---\nmodel: a/b\n---\nMine.");
    assert_eq!(origin("reviewer"), Origin::User);
    desk.write("agents/reviewer.md", "Theirs.");
    let theirs = desk.find("reviewer").unwrap();
    assert_eq!((theirs.origin, theirs.prompt.as_str(), theirs.models.len()), (Origin::Project, "Theirs.", 0));
    desk.write("agents/broken.md", "---\nx");
    desk.write("agents/README.txt", "not an agent");
    let all = desk.roster().all().unwrap();
    let listed: Vec<(&str, &str, bool)> =
        all.iter().map(|one| (one.name.as_str(), one.origin.as_str(), one.agent.is_ok())).collect();
    assert_eq!(
        listed[NAMED.len()..],
        [
            ("broken", "project", false),
            ("coder", "built-in", true),
            ("judge", "built-in", true),
            ("planner", "built-in", true),
            ("researcher", "built-in", true),
            ("reviewer", "project", true),
            ("summarizer", "built-in", true),
        ]
    );
    assert!(desk.find("broken").is_err(), "a broken file is not passed over");
}

/// D1.2: tools and servers that nobody knows are named with their line; names of servers' tools are known when they are met.
#[test]
fn unknown_tools_and_servers_are_named() {
    let agent =
        read("---\nmcp: [flies]\ntools: [read_file, files__x, raed]\npermissions: { writ: ask }\n---\nx")
            .unwrap();
    let known = |name: &str| ["read", "read_file", "write"].contains(&name);
    let check = |names: &[&str]| said(&agent.check_tools(names, known).unwrap_err());
    assert_eq!(check(&["read", "write"]), "x.md:3: `tools`: `raed` is not a tool; did you mean `read`?");
    assert_eq!(
        said(&agent.check_servers(&["files"]).unwrap_err()),
        "x.md:2: `mcp`: `flies` is not a configured MCP server; did you mean `files`?"
    );
    assert!(agent.check_servers(&["flies", "files"]).is_ok());
    assert_eq!(
        said(&agent.check_servers(&[]).unwrap_err()),
        "x.md:2: `mcp`: `flies` is not a configured MCP server; none is configured"
    );
    assert_eq!(
        said(&agent.check_servers(&["flies"]).unwrap_err()),
        "x.md:3: `tools`: `files` is not a configured MCP server; did you mean `flies`?"
    );
    let rule = read("---\npermissions: { writ: ask, \"*\": deny }\n---\nx").unwrap();
    assert_eq!(
        said(&rule.check_tools(&["write"], known).unwrap_err()),
        "x.md:2: `permissions`: `writ` is not a tool; did you mean `write`?"
    );
}

/// D1.2, AX1: those that come with longhaul have a role, a description and a prompt of their own; each name is there once, and
/// the named ones say how many calls they may make.
#[test]
fn the_built_in_agents_are_whole() {
    let (mut names, mut prompts) = (BTreeSet::new(), BTreeSet::new());
    for (name, _) in NAMED.iter().chain(GENERIC) {
        let agent = Desk::new().find(name).unwrap();
        assert_eq!((agent.origin, &agent.file), (Origin::BuiltIn, &None), "{name}");
        assert!(agent.role.is_some() && agent.description.is_some() && agent.prompt.len() > 400, "{name}");
        // On a file system that does not tell capitals apart, a user's file must not stand for two.
        assert!(names.insert(name.to_lowercase()), "{name} is there twice");
        assert!(prompts.insert(agent.prompt), "{name} has another's prompt");
    }
    for (name, _) in NAMED {
        let agent = Desk::new().find(name).unwrap();
        assert!(agent.prompt.len() > 1000 && agent.limits.max_tool_calls.is_some(), "{name}");
    }
    assert_eq!((NAMED.len(), GENERIC.len()), (21, 6));
}

/// AX1: no two of the named agents say the same: hardly a line of one stands in another.
#[test]
fn the_named_agents_differ() {
    let lines = |text: &str| {
        let long = text.lines().map(str::trim).filter(|line| line.len() > 40);
        long.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let prompts: Vec<_> =
        NAMED.iter().map(|(name, _)| (name, Desk::new().find(name).unwrap().prompt)).collect();
    for (at, (name, prompt)) in prompts.iter().enumerate() {
        for (other, theirs) in &prompts[at + 1..] {
            let shared = lines(prompt).intersection(&lines(theirs)).count();
            assert!(shared <= 1, "{name} and {other} share {shared} lines");
        }
    }
}

/// AX1: who may not write has no tool that writes files, and who may has one.
#[test]
fn the_named_agents_may_what_their_role_needs() {
    let writers = ["PLUTO", "MARS", "VENUS", "TITAN", "EUROPA", "GANYMEDE", "CALLISTO", "CHARON"];
    let runners = ["MARS", "MERCURY", "SATURN", "IO", "TRITON"];
    for (name, _) in NAMED {
        let tools = Desk::new().find(name).unwrap().tools.unwrap();
        let has = |tool: &str| tools.iter().any(|own| own == tool);
        assert!(has("read") && has("grep"), "{name}");
        for tool in ["write", "edit", "apply_patch"] {
            assert_eq!(has(tool), writers.contains(name), "{name} and {tool}");
        }
        assert_eq!(has("bash"), runners.contains(name), "{name}");
    }
}

/// AX1: a file of the user's or the project's takes the place of a built-in agent and leaves its group.
#[test]
fn a_built_in_agent_is_overridden_by_its_name() {
    let desk = Desk::new();
    desk.write("user/MARS.md", "---\nrole: Ours\n---\nMine.");
    let mars = desk.find("MARS").unwrap();
    assert_eq!(
        (mars.origin, mars.role.as_deref(), mars.prompt.as_str()),
        (Origin::User, Some("Ours"), "Mine.")
    );
    assert_eq!(desk.roster().all().unwrap().len(), NAMED.len() + GENERIC.len());
    assert_eq!(["MARS", "coder", "mine"].map(Group::of), [Group::Named, Group::Generic, Group::Own]);
}

/// A role is a word or two.
#[test]
fn a_role_is_short() {
    let long = read(&format!("---\nrole: {}\n---\nx", "x".repeat(65))).unwrap_err();
    assert_eq!(said(&long), "x.md:2: `role` has 65 bytes; it is a word or two, at most 64 bytes");
    assert!(read("---\nrole: \"\"\n---\nx").is_err());
}
