//! A model whose price nobody knows costs an unknown amount, which is not nothing.

use serde_json::Value;

use super::rig::{APIS, PRICES, Rig, provider, serve};

const ANSWER: &str =
    "conversations: [ { turns: [ { text: Done., usage: { input: 1000, output: 100, cache_read: 10 } } ] } ]";

/// B8.4: nowhere is an unknown cost shown as no cost.
#[test]
fn an_unknown_price_is_said() {
    let fake = serve(ANSWER);
    let rig = Rig::with(&APIS.map(|api| provider(api, api, &fake.url(), "context_window: 8000")));
    for api in APIS {
        let said = rig.say(&["run", "x", "--model", &format!("{api}/m")]);
        assert!(
            said.code == 0 && said.err.contains("unknown") && !said.err.contains("$0"),
            "{api}: {said:?}"
        );
    }
    for id in rig.runs() {
        for args in [&["show", &id][..], &["cost", &id]] {
            let said = rig.say(args);
            assert!(said.out.contains("unknown") && !said.out.contains("$0"), "{args:?}: {said:?}");
        }
        let shown = rig.show(&id);
        assert_eq!(shown["usage"]["unpricedTokens"], 1110);
        assert_eq!((&shown["usage"]["costUsd"], &shown["totalCost"]), (&Value::Null, &Value::Null));
        let cost = rig.json(&["cost", &id]);
        assert_eq!(cost["total"]["unpricedTokens"], 1110);
        for usage in [&cost["total"], &cost["spending"][0]["usage"], &shown["costByIteration"][0]] {
            assert_eq!(
                (&usage["costUsd"], usage["inputTokens"].as_u64()),
                (&Value::Null, Some(1000)),
                "{usage}"
            );
        }
    }
    for args in [&["cost"][..], &["models", "list"], &["list"]] {
        let said = rig.say(args);
        assert!(said.code == 0 && !said.out.contains("$0.00"), "{args:?}: {said:?}");
    }
    assert_eq!(rig.json(&["cost"])["total"]["costUsd"], Value::Null);
    let said = rig.say(&["cost"]);
    assert!(said.err.contains("the price of 3330 tokens is unknown"), "{said:?}");
}

/// What is known is shown with what is not: a run of which one model has a price.
#[test]
fn a_partly_known_cost_is_both() {
    let first = serve(
        "conversations: [ { turns: [ { text: a, calls: [ { tool: read, args: { path: x } } ], \
         usage: { input: 1000 } }, { text: b, fail: [ { fault: quota, times: 9 } ] } ] } ]",
    );
    let second = serve(ANSWER);
    let rig = Rig::with(&[
        provider("one", "chat", &first.url(), PRICES),
        provider("other", "chat", &second.url(), "context_window: 8000"),
    ]);
    let id = rig.run("one/m", &["--model", "other/m"]).id();
    let table = rig.get(&["cost", &id]);
    let row = |name: &str| table.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row("one/m").ends_with("$0.0030"), "{table}");
    assert!(row("other/m").ends_with("unknown") && !row("other/m").contains('$'), "{table}");
    assert!(row("total").ends_with("$0.0030 + unknown"), "{table}");
}

/// B8.4: what nobody knew when it was recorded, nobody knows when it is played: the price, and the tokens that were guessed.
#[test]
fn a_recording_keeps_what_is_unknown() {
    let fake = serve(ANSWER);
    let rig = Rig::with(&[provider("mine", "chat", &fake.url(), "context_window: 8000")]);
    let first = rig.run("mine/m", &["--record", "night.yaml"]);
    let replayed = rig.run("scripted/night.yaml", &[]);
    assert_eq!((first.code, replayed.code), (0, 0), "{first:?} {replayed:?}");
    let usage = first.json()["usage"].clone();
    assert_eq!((&usage["unpricedTokens"], &usage["costUsd"]), (&1110.into(), &Value::Null));
    assert_eq!(replayed.json()["usage"], usage);
    assert!(!replayed.err.contains("$0") && replayed.err.contains("unknown"), "{replayed:?}");
    let limited = rig.run("scripted/night.yaml", &["--max-cost", "1"]);
    assert_eq!(limited.code, rig.run("mine/m", &["--max-cost", "1"]).code, "{limited:?}");
    assert!(limited.code != 0 && limited.err.contains("--max-tokens"), "{limited:?}");

    let uncounted = serve("conversations: [ { turns: [ { text: Done., fail: [ { fault: no_usage } ] } ] } ]");
    let rig = Rig::with(&[provider("mine", "chat", &uncounted.url(), PRICES)]);
    let first = rig.run("mine/m", &["--record", "night.yaml"]).json()["usage"].clone();
    assert!(first["estimatedTokens"].as_u64().unwrap() > 0, "{first}");
    assert_eq!(rig.run("scripted/night.yaml", &[]).json()["usage"], first);
}
