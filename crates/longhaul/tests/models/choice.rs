//! Which model is used when nobody configured one, and what `models` says about those there are.

use longhaul_model::fake::FakeProvider;
use serde_json::Value;

use super::rig::{Rig, asked, serve, text};

const ANSWER: &str =
    "name: local-one\nconversations: [ { turns: [ { text: Done., usage: { input: 1 } } ] } ]";

/// A model that passes `models check`.
const CHECK: &str = r#"
conversations:
  - turns:
      - calls: [ { tool: get_word, args: { language: English } } ]
        usage: { input: 10, output: 5 }
      - text: "It returned quernstone."
        usage: { input: 20, output: 5 }
"#;

/// The local servers that are looked for, at an address where nothing is: what runs on this machine is no part of a test.
fn nothing_local(rig: &Rig, ollama: &str) {
    let dead = "http://127.0.0.1:1/v1";
    let entry = |name: &str, url: &str| format!("  {name}: {{ base_url: '{url}' }}\n");
    let mut providers = ["llamacpp", "lmstudio", "vllm"].map(|name| entry(name, dead)).to_vec();
    providers.push(entry("ollama", if ollama.is_empty() { dead } else { ollama }));
    rig.settings(&providers);
}

fn anthropic(rig: Rig, fake: &FakeProvider) -> Rig {
    rig.env("ANTHROPIC_API_KEY", "sk-ant-test").env("ANTHROPIC_BASE_URL", &fake.url())
}

fn openai(rig: Rig, fake: &FakeProvider) -> Rig {
    rig.env("OPENAI_API_KEY", "sk-oai-test").env("OPENAI_BASE_URL", &format!("{}/v1", fake.url()))
}

/// Runs without naming a model: the model that was chosen and the path of the question. It is said which one, and why.
fn chosen(rig: &Rig, fake: &FakeProvider, because: &str) -> (String, String) {
    let before = asked(fake).len();
    let said = rig.say(&["run", "x", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let model = text(&said.json()["model"]);
    assert!(said.err.contains(&format!("no model was named: using {model}, {because}")), "{said:?}");
    let requests = asked(fake);
    assert_eq!(requests.len(), before + 1);
    (model, requests[before].path.clone())
}

/// One key in the environment is all that is needed; of two keys the first service's counts.
#[test]
fn a_key_is_enough() {
    let fake = serve(ANSWER);
    let claude = anthropic(Rig::new(), &fake);
    let (model, path) = chosen(&claude, &fake, "because ANTHROPIC_API_KEY is set");
    assert!(model.starts_with("anthropic/claude-") && path == "/v1/messages", "{model} {path}");
    let codex = openai(Rig::new(), &fake);
    let (model, path) = chosen(&codex, &fake, "because OPENAI_API_KEY is set");
    assert!(model.starts_with("openai/gpt-") && path == "/v1/responses", "{model} {path}");
    let both = openai(anthropic(Rig::new(), &fake), &fake);
    let (model, _) = chosen(&both, &fake, "because ANTHROPIC_API_KEY is set");
    assert!(model.starts_with("anthropic/"), "{model}");
    assert_eq!(both.runs().len(), 1);
}

/// C3.4: one flag switches the provider, under either of its names, and nothing else changes.
#[test]
fn one_flag_switches_the_provider() {
    let fake = serve(ANSWER);
    for (name, path) in [
        ("claude", "/v1/messages"),
        ("anthropic", "/v1/messages"),
        ("codex", "/v1/responses"),
        ("openai", "/v1/responses"),
    ] {
        let rig = openai(anthropic(Rig::new(), &fake), &fake).env("LONGHAUL_AGENT_PROVIDER", name);
        let (model, asked_at) = chosen(&rig, &fake, &format!("the default of {name}"));
        assert_eq!((model.split('/').next(), asked_at.as_str()), (Some(name), path));
        let cost = rig.show(&rig.only_run())["usage"]["unpricedTokens"].clone();
        assert_eq!(cost, 0, "{name}: the table of prices knows it under this name as well");
    }
    let rig = anthropic(Rig::new(), &fake).env("LONGHAUL_AGENT_PROVIDER", "gemini");
    let said = rig.say(&["run", "x"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("unknown provider `gemini`") && said.err.contains("hint: known"), "{said:?}");
}

/// Without a key a server on this machine is taken; without that the user is told what there is, and nothing is stored.
#[test]
fn a_local_server_is_found() {
    let fake = serve(ANSWER);
    let rig = Rig::new();
    nothing_local(&rig, &format!("{}/v1", fake.url()));
    let (model, path) = chosen(&rig, &fake, "which ollama offers here");
    assert_eq!((model.as_str(), path.as_str()), ("ollama/local-one", "/v1/chat/completions"));

    let rig = Rig::new();
    nothing_local(&rig, "");
    let said = rig.say(&["run", "x"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_eq!(said.err.lines().next(), Some("error: no model is configured"), "{said:?}");
    assert!(said.err.contains("hint: export ANTHROPIC_API_KEY or OPENAI_API_KEY"), "{said:?}");
    assert!(said.err.contains("longhaul demo"), "{said:?}");
    assert_eq!((said.err.lines().count(), rig.runs().len()), (2, 0), "{said:?}");
}

/// `models list` has what a provider says it has, what it costs, and what is wrong with those that cannot be used.
#[test]
fn the_models_are_listed() {
    let fake = serve(ANSWER);
    let rig = openai(Rig::new(), &fake);
    nothing_local(&rig, "");
    let listed = rig.json(&["models", "list"]);
    let of = |provider: &str| -> Vec<Value> {
        let all = listed.as_array().unwrap().iter();
        all.filter(|line| text(&line["model"]).starts_with(&format!("{provider}/"))).cloned().collect()
    };
    let openai = of("openai");
    assert_eq!(openai.len(), 1, "{listed}");
    assert_eq!((&openai[0]["model"], &openai[0]["reachable"]), (&"openai/local-one".into(), &true.into()));
    assert_eq!((&openai[0]["contextWindow"], &openai[0]["prices"]), (&200_000.into(), &Value::Null));
    for (provider, why) in [("anthropic", "ANTHROPIC_API_KEY"), ("ollama", "nothing answers there")] {
        let lines = of(provider);
        assert!(!lines.is_empty() && lines.iter().all(|line| line["reachable"] == false), "{listed}");
        assert!(text(&lines[0]["error"]).contains(why), "{listed}");
    }
    let table = rig.get(&["models", "list"]);
    assert!(table.contains("openai/local-one") && table.contains("ready"), "{table}");
    assert!(!table.contains("$0.00"), "{table}");
}

/// `models check` has a real exchange: 0 if the model calls tools, 1 if it does not, 2 if something is to be mended first, 5 if
/// it is worth another try later.
#[test]
fn a_model_is_checked() {
    for (script, code, told) in [
        (CHECK.to_owned(), 0, "answers and calls tools: It returned quernstone."),
        (ANSWER.to_owned(), 1, "made NO tool call"),
        (CHECK.replace("quernstone", "apple"), 1, "does NOT use what they return"),
        (failing("{ fault: credentials }"), 2, "error: anthropic/claude-opus-5-5: credentials refused"),
        (failing("{ fault: html }"), 2, "check the provider's `base_url` and `api`"),
        (failing("{ status: 529 }"), 5, "provider unavailable"),
        (failing("{ fault: rate_limited }"), 5, "rate limited"),
    ] {
        let fake = serve(&script);
        let rig = anthropic(Rig::new(), &fake);
        let said = rig.say(&["models", "check", "anthropic/claude-opus-5-5"]);
        assert_eq!(said.code, code, "{told}: {said:?}");
        assert!(said.out.contains(told) || said.err.contains(told), "{told}: {said:?}");
        assert!(rig.runs().is_empty());
        assert!(asked(&fake).len() <= 2, "{told}");
    }
    let fake = serve(CHECK);
    let rig = anthropic(Rig::new(), &fake);
    let said = rig.say(&["models", "check", "--json"]);
    assert!(said.code == 0 && said.err.contains("because ANTHROPIC_API_KEY is set"), "{said:?}");
    let checked = said.json();
    assert_eq!((&checked["toolCall"], &checked["usage"]["inputTokens"]), (&true.into(), &30.into()));
    assert!(checked["usage"]["costUsd"].as_f64().unwrap() > 0.0, "{checked}");
}

fn failing(fail: &str) -> String {
    format!("conversations: [ {{ turns: [ {{ text: x, fail: [ {fail} ] }} ] }} ]")
}

/// The user's own way to a rehearsal: `fake-model` in one terminal, its address in the other's environment.
#[test]
fn the_fake_model_serves_a_run() {
    let rig = Rig::new();
    rig.write("s.yaml", ANSWER);
    let mut served = rig.start(&["fake-model", "s.yaml"]);
    let url = served.first_line();
    let user = Rig::new().env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", &url);
    assert_eq!(user.get(&["run", "x"]), "Done.\n");
}
