//! `handoff validate`, and the file an agent leaves.

use expect_test::expect;

use super::desk::Desk;

const EXAMPLE: &str = r#"{ "phase": "Phase 2 - Execution", "completed": ["Setup Env", "Research Phase 1"],
  "next_step": "Implement Feature X", "critical_files": ["tasks/01_research/overview.md", "src/config.py"],
  "memory_notes": "User prefers concise logs. API key is in env var." }"#;

/// B6.2, B6.3: a good file is shown as the next iteration will read it; a bad one is refused with its field.
#[test]
fn a_handoff_is_validated() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("state")).unwrap();
    desk.write("state/handoff.json", EXAMPLE);
    expect![[r#"
        [RESUMED STATE]
        Phase: Phase 2 - Execution
        Next: Implement Feature X
        Ref: tasks/01_research/overview.md, src/config.py
        Done: Setup Env; Research Phase 1
        Notes: User prefers concise logs. API key is in env var.
    "#]]
    .assert_eq(&desk.get(&["handoff", "validate"]));
    let shown = desk.json(&["handoff", "validate", "state/handoff.json"]);
    assert_eq!(shown, serde_json::from_str::<serde_json::Value>(EXAMPLE).unwrap());
    let bad = [
        (r#"{ "next_step": "x" }"#.to_owned(), "bad.json: `phase` is missing\n"),
        ("é".repeat(20_000), "bad.json: it is longer than the 16384 bytes a handoff may have\n"),
        ("garbage".to_owned(), "bad.json: it is not JSON"),
    ];
    for (text, said) in bad {
        desk.write("bad.json", &text);
        let refused = desk.say(&["handoff", "validate", "bad.json"]);
        assert!(refused.code == 2 && refused.err.contains(said), "{}: {}", refused.code, refused.err);
    }
    let none = desk.say(&["handoff", "validate", "none.json"]);
    assert!(none.code == 2 && none.err.contains("cannot read"), "{}", none.err);
}

/// B6.1: an agent writes it with its tool, where it works, and it is valid there.
#[test]
fn an_agent_leaves_a_valid_handoff() {
    let desk = Desk::with_script(
        r#"
conversations:
  - turns:
      - calls: [ { tool: handoff, args: { phase: one, next_step: write the parser, critical_files: [s.yaml] } } ]
      - text: done
"#,
    );
    desk.get(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    let shown = desk.json(&["handoff", "validate"]);
    assert_eq!(
        (&shown["phase"], &shown["next_step"]),
        (&serde_json::json!("one"), &serde_json::json!("write the parser"))
    );
}
