//! A list of models: the next one takes over where the first cannot go on, and each is paid for what it said.

use serde_json::{Value, json};

use super::rig::{Exchanged, PRICES, Rig, asked, provider, serve};

/// Answers one turn, and then fails like this.
fn first(fail: &str) -> String {
    format!(
        r#"
conversations:
  - turns:
      - text: "I begin."
        calls: [ {{ tool: write, args: {{ path: a.txt, content: "one\n" }} }} ]
        usage: {{ input: 1000, output: 10 }}
      - text: "Never said."
        fail: [ {fail} ]
"#
    )
}

const SECOND: &str = r#"
conversations:
  - turns:
      - text: "Never asked."
      - text: "I end it."
        usage: { input: 2000, output: 20 }
"#;

/// C13.1: whatever keeps the first model from going on, the second one does, on another protocol, with the whole conversation;
/// an event says so, and each model's part is counted under its name.
#[test]
fn the_second_model_takes_over() {
    for (fail, tries, words) in [
        ("{ fault: credentials, times: 9 }", 1, "refuses its key"),
        ("{ fault: quota, times: 9 }", 1, "has nothing left to spend"),
        ("{ fault: model_removed, times: 9 }", 1, "does not exist for us"),
        ("{ status: 529, times: 9 }", 3, "is out of order"),
        ("{ fault: html, times: 9 }", 3, "cannot be reached"),
        ("{ status: 429, retry_after: '3600', times: 9 }", 1, "is rate-limited"),
    ] {
        let (one, other) = (serve(&first(fail)), serve(SECOND));
        let rig = Rig::with(&[
            provider("one", "anthropic", &one.url(), PRICES),
            provider("other", "chat", &other.url(), "prices: { input: 1, output: 1 }"),
        ]);
        let said = rig.run("one/x", &["--model", "other/y"]);
        assert_eq!(said.code, 0, "{fail}: {said:?}");
        assert_eq!((asked(&one).len(), asked(&other).len()), (1 + tries, 1), "{fail}");
        let id = said.id();
        let shown = rig.show(&id);
        assert_eq!((&shown["model"], &shown["models"]), (&json!("other/y"), &json!(["one/x", "other/y"])));
        let changes = rig.events_of(&id, "model_changed");
        assert_eq!(changes.len(), 1, "{fail}: {changes:?}");
        assert_eq!(
            (&changes[0]["model"], &changes[0]["reason"]),
            (&json!("other/y"), &json!(format!("one/x {words}")))
        );
        let told = Exchanged::of(&asked(&other)[0]);
        told.check();
        assert!(told.calls[0].starts_with("toolu_"), "{fail}: the call keeps its name: {told:?}");

        let cost = rig.json(&["cost", &id]);
        let rows: Vec<(&Value, &Value)> = cost["spending"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (&row["model"], &row["usage"]["costUsd"]))
            .collect();
        assert_eq!(
            rows,
            [(&json!("one/x"), &json!(0.00315)), (&json!("other/y"), &json!(0.00202))],
            "{fail}"
        );
        assert_eq!(cost["total"]["costUsd"], 0.00517, "{fail}");
        assert_eq!(shown["totalCost"], 0.00517, "{fail}");
    }
}

/// An agent's file names its models.
#[test]
fn an_agent_has_its_models() {
    let (one, other) = (serve(&first("{ fault: forbidden, times: 9 }")), serve(SECOND));
    let rig = Rig::with(&[
        provider("one", "responses", &one.url(), PRICES),
        provider("other", "anthropic", &other.url(), PRICES),
    ]);
    rig.write("agents/coder.md", "---\nmodels: [ one/x, other/y ]\n---\nYou write code.\n");
    let said = rig.say(&["run", "the task", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["models"], json!(["one/x", "other/y"]));
    assert_eq!(rig.events_of(&said.id(), "model_changed").len(), 1);
    assert!(asked(&other)[0].body.to_string().contains("You write code."));
}

/// When no model of the list can go on, a person is asked, and the first question of a resumed run may go to another one.
#[test]
fn a_list_has_an_end() {
    let (one, other) =
        (serve(&first("{ fault: quota, times: 9 }")), serve(&first("{ fault: credentials, times: 9 }")));
    let third = serve(SECOND);
    let rig = Rig::with(&[
        provider("one", "chat", &one.url(), PRICES),
        provider("other", "chat", &other.url(), PRICES),
        provider("third", "responses", &third.url(), PRICES),
    ]);
    let said = rig.run("one/x", &["--model", "other/y"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.json()["reason"].as_str().unwrap().starts_with("credentials:"), "{said:?}");
    assert_eq!((asked(&one).len(), asked(&other).len()), (2, 1));
    assert_eq!(rig.get(&["resume", &said.id(), "--model", "third/z"]), "I end it.\n");
    assert_eq!(rig.show(&said.id())["model"], "third/z");
}
