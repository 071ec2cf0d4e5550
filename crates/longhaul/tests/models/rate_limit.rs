//! A provider that wants to be left alone for an hour: the wait is on record, outlives the process, and is shared by all who
//! use the key.

use serde_json::Value;

use super::rig::{APIS, PRICES, Rig, asked, provider, serve, until};

const LIMITED: &str = r#"
conversations:
  - match: { prompt_contains: limited }
    turns:
      - text: "Never said."
        fail: [ { status: 429, retry_after: "3600", times: 99 } ]
  - turns: [ { text: "Done." } ]
"#;

const ANSWER: &str = "conversations: [ { turns: [ { text: Done. } ] } ]";

/// The moment the last failed turn waits for.
fn until_when(rig: &Rig, id: &str) -> Value {
    rig.events_of(id, "turn_failed").last().unwrap()["retry"]["until"].clone()
}

/// F27, C3.8: another process sees that the run waits and for how long; killed and resumed it waits on for the same moment and asks
/// nothing; with another model it goes on at once.
#[test]
fn a_long_wait_outlives_its_process() {
    for api in APIS {
        let (fake, other) = (serve(LIMITED), serve(ANSWER));
        let rig = Rig::with(&[
            provider("mine", api, &fake.url(), PRICES),
            provider("other", api, &other.url(), PRICES),
        ]);
        let mut driver = rig.start(&["run", "limited", "--model", "mine/m"]);
        let id = rig.only_run();
        let shown = rig.shown(&id, "wait", "rate_limit");
        assert_eq!(shown["status"], "running", "{api}");
        let moment = until_when(&rig, &id);
        let failed = rig.events_of(&id, "turn_failed");
        assert_eq!((failed.len(), &failed[0]["kind"]), (1, &"rate_limited".into()), "{api}");
        assert!(failed[0]["retry"]["delayMs"].as_u64().unwrap() >= 3_600_000, "{api}: {failed:?}");
        assert!(moment.is_string(), "{api}: {failed:?}");

        driver.kill();
        let mut again = rig.start(&["resume", &id]);
        until("recovery", || (!rig.events_of(&id, "checkpoint_restored").is_empty()).then_some(()));
        assert_eq!(rig.show(&id)["wait"], "rate_limit", "{api}");
        again.kill();
        assert_eq!(until_when(&rig, &id), moment, "{api}");
        assert_eq!(asked(&fake).len(), 1, "{api}: asked again");

        assert_eq!(rig.get(&["resume", &id, "--model", "other/m"]), "Done.\n", "{api}");
        assert_eq!((asked(&fake).len(), asked(&other).len()), (1, 1), "{api}");
        rig.get(&["store", "verify", &id]);
    }
}

/// A paused run that is resumed waits for the rest of the same hour too.
#[test]
fn a_pause_does_not_shorten_the_wait() {
    let fake = serve(LIMITED);
    let rig = Rig::with_all(&fake);
    let driver = rig.start(&["run", "limited", "--model", "chat/m"]);
    let id = rig.only_run();
    rig.shown(&id, "wait", "rate_limit");
    let moment = until_when(&rig, &id);
    rig.get(&["pause", &id]);
    assert_eq!(driver.ended().code, 3);
    let _again = rig.start(&["resume", &id]);
    rig.shown(&id, "wait", "rate_limit");
    assert_eq!((until_when(&rig, &id), asked(&fake).len()), (moment, 1));
}

/// Two runs of one key share its limit: the second one waits without having asked. A run with another key is not held back.
#[test]
fn runs_of_one_key_share_its_limit() {
    let fake = serve(LIMITED);
    let other_key =
        provider("other", "anthropic", &fake.url(), PRICES).replace("TEST_API_KEY", "OTHER_API_KEY");
    let rig = Rig::with(&[provider("mine", "anthropic", &fake.url(), PRICES), other_key])
        .env("OTHER_API_KEY", "sk-other-0123456789");
    let _first = rig.start(&["run", "limited", "--model", "mine/m"]);
    let id = rig.only_run();
    rig.shown(&id, "wait", "rate_limit");
    assert_eq!(asked(&fake).len(), 1);

    let second = rig.get(&["create", "--task", "free", "--model", "mine/m"]).trim().to_owned();
    let _second = rig.start(&["start", &second]);
    rig.shown(&second, "wait", "rate_limit");
    let told = rig.events_of(&second, "turn_failed");
    assert!(told[0]["error"].as_str().unwrap().contains("by this run or another"), "{told:?}");
    assert_eq!(asked(&fake).len(), 1, "the second run has not asked");

    assert_eq!(rig.get(&["run", "free", "--model", "other/m"]), "Done.\n");
    assert_eq!(asked(&fake).len(), 2);
}

/// F27: headers that make no sense neither hold a run for ever nor let it ask without a pause.
#[test]
fn a_senseless_wait_is_bounded() {
    for (header, least_ms, most_ms) in [
        ("1000000000000", 86_400_000, 90_000_000),
        ("-1", 1, 3_000),
        ("0", 1, 3_000),
        ("soon", 1, 3_000),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1, 3_000),
    ] {
        let fake = serve(&LIMITED.replace("\"3600\"", &format!("\"{header}\"")));
        let rig = Rig::with_all(&fake);
        let mut driver = rig.start(&["run", "limited", "--model", "responses/m"]);
        let id = rig.only_run();
        let failed = until("a failed turn", || rig.events_of(&id, "turn_failed").into_iter().next());
        driver.kill();
        let delay_ms = failed["retry"]["delayMs"].as_u64().unwrap();
        assert!((least_ms..=most_ms).contains(&delay_ms), "{header}: {failed}");
    }
}
