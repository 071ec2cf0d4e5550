//! Settings and arguments that cannot work: one clear error with what to do, exit 2, and no run.

use super::rig::{PRICES, Rig, asked, provider, serve};

const ANSWER: &str = "conversations: [ { turns: [ { text: Done. } ] } ]";

/// Nothing that is wrong is found out twice, or after something was stored.
fn check(rig: &Rig, args: &[&str], told: &[&str]) {
    for verb in [&["run", "x"][..], &["create", "--task", "x"]] {
        let said = rig.say(&[verb, args].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
        for words in told {
            assert!(said.err.contains(words), "{args:?} lacks {words:?}: {said:?}");
        }
        let lines: Vec<&str> = said.err.lines().collect();
        assert_eq!(lines.iter().filter(|line| line.starts_with("error:")).count(), 1, "{said:?}");
        assert!(lines.iter().filter(|line| line.starts_with("hint:")).count() == 1, "{args:?}: {said:?}");
        assert_eq!(rig.runs(), [""; 0], "{args:?}");
    }
}

/// C15.3: a provider nobody knows is refused by name, with those there are.
#[test]
fn an_unknown_provider() {
    let rig = Rig::new();
    check(
        &rig,
        &["--model", "gemini/pro"],
        &["unknown provider `gemini`", "anthropic", "ollama", "scripted"],
    );
    check(&rig, &["--model", "nonsense"], &["`nonsense` is not of the form `provider/model`"]);
}

/// C15.3, C3.12: a protocol nobody speaks is refused by the settings, with field and file.
#[test]
fn an_unknown_protocol() {
    let rig = Rig::with(&[provider("mine", "grpc", "http://127.0.0.1:1", PRICES)]);
    check(&rig, &["--model", "mine/m"], &["longhaul.yaml", "api", "grpc", "anthropic"]);
}

#[test]
fn a_field_nobody_knows() {
    let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", "base_ulr: x")]);
    check(&rig, &["--model", "mine/m"], &["longhaul.yaml", "base_ulr", "base_url"]);
}

/// A key that is not there is named, also when it is there and empty.
#[test]
fn a_missing_key() {
    let entry = [provider("mine", "chat", "http://127.0.0.1:1", PRICES)];
    for rig in [Rig::new(), Rig::new().env("TEST_API_KEY", " ")] {
        rig.settings(&entry);
        check(&rig, &["--model", "mine/m"], &["provider `mine` needs a key", "TEST_API_KEY", "export"]);
    }
    let told = ["provider `anthropic` needs a key", "export ANTHROPIC_API_KEY"];
    check(&Rig::new(), &["--model", "anthropic/claude-opus-5-5"], &told);
    let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", "headers: { x-a: '${NOT_SET}' }")]);
    check(&rig, &["--model", "mine/m"], &["header `x-a`", "NOT_SET"]);
}

#[test]
fn an_address_that_is_none() {
    for url in ["localhost-8080", "ftp://there/v1", "'http://'", "''"] {
        let rig = Rig::with(&[provider("mine", "chat", url, PRICES)]);
        check(&rig, &["--model", "mine/m"], &["mine", "base_url", "http://"]);
    }
    let rig = Rig::new();
    rig.settings(&["  mine: { api: chat }\n".to_owned()]);
    check(&rig, &["--model", "mine/m"], &["providers.mine.base_url is missing"]);
}

/// What cannot be a header is said before a run is made: a name with a space in it, a key of two lines.
#[test]
fn what_cannot_be_a_header() {
    let entry = [provider("mine", "chat", "http://127.0.0.1:1", PRICES)];
    let rig = Rig::new().env("TEST_API_KEY", "sk-one\nsk-two");
    rig.settings(&entry);
    check(
        &rig,
        &["--model", "mine/m"],
        &["provider `mine`", "the key has characters that no header may have"],
    );
    let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", "headers: { 'bad name': x }")]);
    check(&rig, &["--model", "mine/m"], &["provider `mine`", "`bad name` is not a header's name"]);
}

#[test]
fn a_price_below_nothing() {
    for prices in ["prices: { input: -3, output: 15 }", "prices: { input: 3, output: 15, cache_read: -1 }"] {
        let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", prices)]);
        check(&rig, &["--model", "mine/m"], &["providers.mine.prices", "not an amount of dollars"]);
    }
    for prices in ["prices: { input: .nan, output: 15 }", "prices: { input: 3, output: .inf }"] {
        let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", prices)]);
        check(&rig, &["--model", "mine/m"], &["longhaul.yaml, line ", "not an amount of dollars"]);
    }
}

/// A window or a reply of no tokens is refused, of a provider as of a model.
#[test]
fn no_tokens_at_all() {
    for (field, told) in [
        ("context_window: 0", "a context window of 0 tokens"),
        ("max_output_tokens: 0", "`max_output_tokens` is zero"),
        ("models: { m: { max_output_tokens: 0 } }", "`max_output_tokens` is zero"),
    ] {
        let rig = Rig::with(&[provider("mine", "chat", "http://127.0.0.1:1", field)]);
        check(&rig, &["--model", "mine/m"], &[told]);
    }
}

/// A budget of money needs prices, also those of the fallbacks.
#[test]
fn a_budget_that_could_not_be_kept() {
    let fake = serve(ANSWER);
    let rig = Rig::with(&[
        provider("priced", "chat", &fake.url(), PRICES),
        provider("mine", "chat", &fake.url(), "context_window: 8000"),
    ]);
    let told = ["a limit on cost cannot be kept", "mine/m", "prices", "--max-tokens"];
    check(&rig, &["--max-cost", "1", "--model", "mine/m"], &told);
    check(&rig, &["--max-cost", "1", "--model", "priced/m", "--model", "mine/m"], &told);
    assert_eq!(asked(&fake).len(), 0);
    let said = rig.say(&["run", "x", "--max-cost", "1", "--model", "priced/m"]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// A command for the key that fails or says nothing.
#[test]
fn a_command_without_a_key() {
    for (command, told) in [("exit 3", "exit status: 3"), ("true", "printed nothing"), ("echo", "nothing")] {
        let rig = Rig::with(&[provider(
            "mine",
            "chat",
            "http://127.0.0.1:1",
            &format!("api_key_command: '{command}'"),
        )]);
        check(&rig, &["--model", "mine/m"], &["provider `mine`: the command for its key", told]);
    }
}

/// A run that waits for its start has the same checked when somebody starts it: nothing is changed by a start that cannot be.
#[test]
fn a_start_without_a_key_changes_nothing() {
    let fake = serve(ANSWER);
    let rig = Rig::with_all(&fake);
    let id = rig.get(&["create", "--task", "x", "--model", "chat/m"]).trim().to_owned();
    let mut command = rig.command(&["start", &id]);
    let output = command.env_remove("TEST_API_KEY").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("TEST_API_KEY") && err.contains("hint: export"), "{err}");
    let mut command = rig.command(&["start", &id, "--detach"]);
    assert_eq!(
        command.env_remove("TEST_API_KEY").status().unwrap().code(),
        Some(2),
        "nobody would hear it later"
    );
    assert_eq!((rig.show(&id)["status"].clone(), asked(&fake).len()), ("created".into(), 0));
    assert_eq!(rig.get(&["start", &id]), "Done.\n");
}

/// A budget of money holds for whatever the run goes on with: a model without a price is refused, and so is a budget for one.
#[test]
fn a_budget_is_kept_on_resume() {
    let work = "conversations: [ { turns: [ { text: a, calls: [ { tool: read, args: { path: x } } ], usage: { input: 9 } }, \
                { text: Done., usage: { input: 9 } } ] } ]";
    let fake = serve(work);
    let rig = Rig::with(&[
        provider("priced", "chat", &fake.url(), PRICES),
        provider("mine", "chat", &fake.url(), "context_window: 8000"),
    ]);
    let told = |args: &[&str]| {
        let said = rig.say(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(
            said.err.contains("a limit on cost cannot be kept") && said.err.contains("hint:"),
            "{said:?}"
        );
    };
    let paused = rig.run("priced/m", &["--max-cost", "1", "--max-steps", "1"]);
    assert_eq!(paused.code, 4, "{paused:?}");
    let before = rig.show(&paused.id());
    told(&["resume", &paused.id(), "--model", "mine/m", "--max-steps", "9"]);
    told(&["resume", &paused.id(), "--model", "mine/m", "--max-steps", "9", "--detach"]);
    assert_eq!((rig.show(&paused.id()), asked(&fake).len()), (before, 1));
    assert_eq!(rig.get(&["resume", &paused.id(), "--max-steps", "9"]), "Done.\n");

    let paused = rig.run("mine/m", &["--max-steps", "1"]);
    told(&["resume", &paused.id(), "--max-cost", "1", "--max-steps", "9"]);
    assert_eq!(rig.get(&["resume", &paused.id(), "--max-steps", "9"]), "Done.\n");
}
