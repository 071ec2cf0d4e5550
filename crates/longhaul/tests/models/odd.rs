//! Replies that are well-formed and nasty: each call gets exactly one result, and the run ends in a state that has a name.

use serde_json::json;

use super::rig::{APIS, Exchanged, Rig, asked, serve};

/// The reply is replaced by an odd one made of its calls; what follows is told how they ended.
fn odd(fault: &str) -> String {
    format!(
        r#"
conversations:
  - turns:
      - text: "I call."
        calls: [ {{ tool: bash, args: {{ command: "echo once >> calls.txt" }} }} ]
        fail: [ {{ fault: {fault} }} ]
        usage: {{ input: 100, output: 10 }}
      - text: "Done."
        usage: {{ input: 100, output: 10 }}
"#
    )
}

/// The name of a tool is the model's to say and does nothing to a terminal.
#[test]
fn a_tools_name_moves_no_cursor() {
    let fake = serve(
        r#"conversations: [ { turns: [ { calls: [ { tool: "evil\e[2Jtool", args: {} } ] }, { text: "Done." } ] } ]"#,
    );
    let rig = Rig::with_all(&fake);
    let said = rig.run("chat/m", &[]);
    assert!(said.code == 0 && said.err.contains("evil") && !said.err.contains('\u{1b}'), "{said:?}");
    for args in [&["tools", &said.id()][..], &["logs", &said.id()], &["show", &said.id()]] {
        let shown = rig.say(args);
        assert!(!shown.out.contains('\u{1b}') && !shown.err.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}

/// F34: calls under one name, a tool nobody has, arguments that are a list or no JSON, five hundred calls at once.
#[test]
fn every_call_has_one_result() {
    for api in APIS {
        for (fault, calls, ran) in [
            ("duplicate_ids", 2, 2),
            ("unknown_tool", 1, 0),
            ("args_not_object", 1, 0),
            ("malformed_args", 1, 0),
            // What is asked for again and again in one breath is made twice.
            ("many_calls", 500, 2),
        ] {
            let fake = serve(&odd(fault));
            let rig = Rig::with_all(&fake);
            let said = rig.run(&format!("{api}/m"), &[]);
            assert_eq!(said.code, 0, "{api} {fault}: {said:?}");
            let id = said.id();
            let requests = asked(&fake);
            assert_eq!(requests.len(), 2, "{api} {fault}");
            let told = Exchanged::of(&requests[1]);
            told.check();
            assert_eq!(told.results.len(), calls, "{api} {fault}");
            assert!(told.results.iter().all(|(_, text)| !text.is_empty()), "{api} {fault}: {told:?}");
            let recorded = rig.calls(&id);
            assert_eq!(recorded.len(), calls, "{api} {fault}");
            assert!(recorded.iter().all(|call| !call["result"].is_null()), "{api} {fault}");
            assert_eq!(rig.read("calls.txt").lines().count(), ran, "{api} {fault}");
            let shown = rig.show(&id);
            assert_eq!(
                (&shown["status"], &shown["turnCount"]),
                (&json!("completed"), &json!(2)),
                "{api} {fault}"
            );
            assert_eq!(shown["usage"]["inputTokens"], 200, "{api} {fault}");
            rig.get(&["store", "verify", &id]);
        }
    }
}

/// F34, B7.2: a reply without text and calls is no answer: the model is told, a few times, and then a person is asked.
#[test]
fn a_reply_of_nothing_is_no_answer() {
    for api in APIS {
        let fake = serve(&odd("null_content"));
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!((said.code, &said.json()["finishReason"]), (3, &json!("empty_output")), "{api}: {said:?}");
        assert_eq!((asked(&fake).len(), rig.calls(&said.id()).len()), (3, 0), "{api}");
        rig.get(&["store", "verify", &said.id()]);
    }
}

/// F34: what the model is told about a call that could not be read says what was wrong with it.
#[test]
fn a_call_that_cannot_be_read_is_explained() {
    for api in APIS {
        for (fault, words) in
            [("unknown_tool", "no_such_tool"), ("args_not_object", "object"), ("malformed_args", "JSON")]
        {
            let fake = serve(&odd(fault));
            let rig = Rig::with_all(&fake);
            assert_eq!(rig.run(&format!("{api}/m"), &[]).code, 0, "{api} {fault}");
            let told = Exchanged::of(&asked(&fake)[1]);
            assert!(told.results[0].1.contains(words), "{api} {fault}: {told:?}");
        }
    }
}
