//! Research by files: a configured search, `finalize_research`, `research finalize`, and who reads the overview.

use expect_test::expect;

use super::desk::Desk;

const SCRIPT: &str = r#"
conversations:
  - match: { prompt_contains: "look it up" }
    turns:
      - calls: [ { tool: search, args: { query: parsers } } ]
      - calls: [ { tool: finalize_research, args: { task_id: "01" } } ]
      - text: found
  - turns:
      - calls: [ { tool: read, args: { path: tasks/01/research_overview.md } } ]
      - when_result_contains: { "https://parsers.example": { text: "I know." } }
        text: "I know nothing."
"#;

const PROVIDER: &str = r#"search: { command: "printf '[{\"url\":\"https://parsers.example\",\"title\":\"%s\",\"content\":\"All of it.\"}]'" }"#;

/// B4.1, B4.2, B4.3, B4.4, B4.5: an agent searches and puts in order; a later one without its conversation reads that.
#[test]
fn research_outlives_its_conversation() {
    let desk = Desk::with_script(SCRIPT);
    desk.write("longhaul.yaml", PROVIDER);
    desk.get(&["run", "look it up", "--model", "scripted/s.yaml", "--in-place"]);
    let overview = std::fs::read_to_string(desk.path("tasks/01/research_overview.md")).unwrap();
    assert!(
        overview.contains("## parsers") && overview.contains("](<https://parsers.example>)"),
        "{overview}"
    );
    assert_eq!(
        std::fs::read_dir(desk.path("search_results")).unwrap().count(),
        1,
        "only processed_json is left"
    );
    assert_eq!(std::fs::read_dir(desk.path("search_results/processed_json")).unwrap().count(), 1);
    let said = desk.get(&["run", "what do we know?", "--model", "scripted/s.yaml", "--in-place"]);
    assert!(said.contains("I know.") && !said.contains("nothing"), "{said}");
}

/// B4.1: without a provider the tool is not offered; a wrong one is an error; one of a repository waits for trust.
#[test]
fn a_search_needs_a_provider() {
    let desk = Desk::with_script(SCRIPT);
    let run = ["run", "look it up", "--model", "scripted/s.yaml", "--tools", "search", "--in-place"];
    // The name is another harness's name for grep then.
    desk.say(&run);
    assert!(!desk.path("search_results").exists());
    desk.write("longhaul.yaml", "search: { url: \"https://x\" }");
    let wrong = desk.say(&run);
    assert!(wrong.code == 2 && wrong.err.contains("search.url has no {query}"), "{}", wrong.err);
    desk.write("longhaul.yaml", "search: { command: x, env: [ANTHROPIC_API_KEY] }");
    assert!(desk.say(&run).err.contains("holds a model provider's key"));
    desk.write("longhaul.yaml", PROVIDER);
    let untrusted = desk.command(&run).env_remove("LONGHAUL_TRUST").output().unwrap();
    let said = String::from_utf8(untrusted.stderr).unwrap();
    assert!(said.contains("sets search, which is ignored until you trust it"), "{said}");
    assert!(!desk.path("search_results").exists());
    let shown = desk.say(&["trust"]).out;
    assert!(shown.starts_with("search\n    runs `printf"), "{shown}");
}

/// A97: what a search command is given is a secret, whatever the command prints of it.
#[test]
fn the_key_of_a_search_is_struck_out() {
    let desk = Desk::with_script(SCRIPT);
    desk.write(
        "longhaul.yaml",
        "search: { command: \"echo my key is $SEARCH_KEY >&2; exit 1\", env: [SEARCH_KEY] }",
    );
    let run =
        ["run", "look it up", "--model", "scripted/s.yaml", "--tools", "search", "--in-place", "--json"];
    let output = desk.command(&run).env("SEARCH_KEY", "sk-of-the-search-0123456789").output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept = std::fs::read(desk.journal(shown["id"].as_str().unwrap())).unwrap();
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.contains("my key is") && !kept.contains("sk-of-the-search"), "{kept}");
}

/// B4.2, B4.6: a person does the same by hand, and a second time finds nothing new.
#[test]
fn research_is_finalized_by_hand() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.path("w/search_results")).unwrap();
    desk.write("w/search_results/a.json", r#"[{"url":"https://a.example","title":"A","snippet":"s"}]"#);
    desk.write("w/search_results/bad.json", "{");
    let finalize = ["research", "finalize", "--task", "01", "--dir", "w"];
    expect![[r#"
        1 new file, 1 new source; see tasks/01/research_overview.md
        bad.json stays in search_results: it is not JSON: EOF while parsing an object at line 1 column 1
    "#]]
    .assert_eq(&desk.get(&finalize));
    let second = desk.json(&finalize);
    assert_eq!((&second["moved"], &second["sources"]), (&serde_json::json!([]), &serde_json::json!(0)));
    assert!(
        std::fs::read_to_string(desk.path("w/tasks/01/research_overview.md")).unwrap().contains("a.example")
    );
    let wrong = desk.say(&["research", "finalize", "--task", "../x"]);
    assert!(wrong.code == 2 && wrong.err.contains("not a task's id"), "{}", wrong.err);
}
