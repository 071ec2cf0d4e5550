//! Providers that do not answer, or not with an answer: what time can mend is waited out within bounds, what it cannot is
//! brought to a person at once.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::rig::{APIS, Dead, PRICES, Rig, asked, provider, serve, take_request};

fn failing(fail: &str) -> String {
    format!(
        "conversations: [ {{ turns: [ {{ text: Done., usage: {{ input: 1000, output: 10 }}, fail: [ {fail} ] }} ] }} ]"
    )
}

/// F35: what waiting cannot mend pauses the run with exit 3 after one question, says what it is, and goes on once it is
/// mended.
#[test]
fn what_time_cannot_mend_is_not_tried_again() {
    for api in APIS {
        for (fault, kind) in [
            ("credentials", "credentials: credentials refused"),
            ("forbidden", "credentials: credentials refused"),
            ("quota", "quota: quota used up"),
            ("model_removed", "model_unknown: unknown model"),
            ("overflow", "overflow: context window exceeded"),
            ("refused_content", "refuse"),
        ] {
            let fake = serve(&failing(&format!("{{ fault: {fault} }}")));
            let rig = Rig::with_all(&fake);
            let said = rig.run(&format!("{api}/m"), &[]);
            assert_eq!(said.code, 3, "{api} {fault}: {said:?}");
            let shown = said.json();
            assert_eq!(
                (&shown["status"], &shown["wait"]),
                (&json!("paused"), &json!("none")),
                "{api} {fault}"
            );
            let reason = shown["reason"].as_str().unwrap();
            assert!(reason.contains(kind), "{api} {fault}: {reason}");
            assert!(said.err.contains(&format!("longhaul resume {}", said.id())), "{api} {fault}: {said:?}");
            assert_eq!(asked(&fake).len(), 1, "{api} {fault}: asked again");

            let resumed = rig.say(&["resume", &said.id()]);
            assert_eq!((resumed.code, resumed.out.as_str()), (0, "Done.\n"), "{api} {fault}: {resumed:?}");
            assert_eq!(asked(&fake).len(), 2, "{api} {fault}");
            let shown = rig.show(&said.id());
            assert_eq!(shown["status"], "completed", "{api} {fault}");
            rig.get(&["store", "verify", &said.id()]);
        }
    }
}

/// F33: something that is no model is tried a bounded number of times, then the run pauses with exit 5 and says where to look.
#[test]
fn a_web_page_is_not_asked_for_ever() {
    let fake = serve(&failing("{ fault: html, times: 99 }"));
    let rig = Rig::with_all(&fake);
    let said = rig.run("chat/m", &[]);
    assert_eq!(said.code, 5, "{said:?}");
    let shown = said.json();
    assert_eq!(shown["status"], "paused");
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.starts_with("the model was never reached in 8 tries: no model there"), "{reason}");
    assert!(reason.contains("check the provider's `base_url` and `api`"), "{reason}");
    assert_eq!(shown["usage"]["inputTokens"], 0, "nothing was counted");
    let tries = rig.events_of(&said.id(), "turn_failed");
    assert_eq!((tries.len(), asked(&fake).len()), (8, 8));
    assert!(tries.iter().all(|event| event["kind"] == "unreachable"), "{tries:?}");

    let mended = serve(&failing(""));
    rig.settings(&[provider("chat", "chat", &mended.url(), PRICES)]);
    assert_eq!(rig.get(&["resume", &said.id()]), "Done.\n");
}

/// F32, F33: whatever is sent in place of a reply, the run tries again, counts nothing of it and gets there.
#[test]
fn broken_replies_are_tried_again() {
    let small = ["truncated_json", "empty", "invalid_utf8", "garbage_tls", "html", "wrong_type"];
    let large = ["endless_events", "huge_event", "gzip_bomb"];
    for (api, faults) in
        [("anthropic", &small[..]), ("responses", &small), ("chat", &small), ("chat", &large)]
    {
        let fails: Vec<String> = faults.iter().map(|fault| format!("{{ fault: {fault} }}")).collect();
        let fake = serve(&failing(&fails.join(", ")));
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!(said.code, 0, "{api} {faults:?}: {said:?}");
        let usage = &said.json()["usage"];
        assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(1000), &json!(10)), "{api}");
        let tries = rig.events_of(&said.id(), "turn_failed").len();
        assert_eq!(tries + 1, asked(&fake).len(), "{api} {faults:?}");
        let completed = rig.events_of(&said.id(), "step_completed");
        assert_eq!(completed[0]["output"], "Done.", "{api} {faults:?}");
    }
}

/// F26: a provider that was never reached is given up after a bounded number of tries, and the address is what to look at.
#[test]
fn a_dead_address_is_named() {
    let dead = Dead::new();
    let url = format!("http://{}", dead.address());
    for api in APIS {
        let rig = Rig::with(&[provider("mine", api, &url, PRICES)]);
        let said = rig.run("mine/m", &[]);
        assert_eq!(said.code, 5, "{api}: {said:?}");
        let reason = said.json()["reason"].as_str().unwrap().to_owned();
        assert!(
            reason.contains("never reached in 8 tries")
                && reason.contains("base_url")
                && reason.contains(&url),
            "{api}: {reason}"
        );
        let tries = rig.events_of(&said.id(), "turn_failed");
        assert_eq!(tries.len(), 8, "{api}");
        assert!(tries.iter().all(|event| event["kind"] == "unreachable"), "{api}: {tries:?}");
        assert!(said.err.contains("longhaul models check mine/m"), "{api}: {said:?}");
        let checked = rig.say(&["models", "check", "mine/m"]);
        assert!(checked.code != 0 && checked.err.contains(&url), "{api}: {checked:?}");

        let fake = serve(&failing(""));
        rig.settings(&[provider("mine", api, &fake.url(), PRICES)]);
        assert_eq!(rig.get(&["resume", &said.id()]), "Done.\n", "{api}");
    }
}

/// F26: where something answers that speaks no HTTP, or that only takes lines and lets go of them, the address is as wrong as
/// where nobody is: a bounded number of tries, and the hint.
#[test]
fn what_speaks_no_http_is_not_asked_for_ever() {
    let no_http: [&[u8]; 3] = [b"SSH-2.0-OpenSSH_9.6\r\n", &[21, 3, 1, 0, 2, 2, 70], b""];
    for (api, says) in APIS.into_iter().zip(no_http) {
        let (url, met) = saying(says);
        let rig = Rig::with(&[provider("mine", api, &url, PRICES)]);
        let said = rig.run("mine/m", &[]);
        assert_eq!((said.code, met.load(Ordering::Relaxed)), (5, 8), "{api}: {said:?}");
        let reason = said.json()["reason"].as_str().unwrap().to_owned();
        assert!(
            reason.contains("never reached in 8 tries")
                && reason.contains("base_url")
                && reason.contains(&url),
            "{api}: {reason}"
        );
        let checked = rig.say(&["models", "check", "mine/m"]);
        assert!(checked.code == 2 && checked.err.contains("`base_url`"), "{api}: {checked:?}");
    }
}

/// A server that says this and no more to whoever comes, and how often somebody came.
fn saying(bytes: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let met = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&met);
    // Ends with the test's process; it holds nothing else.
    std::thread::spawn(move || {
        for line in listener.incoming() {
            let Ok(mut line) = line else { return };
            count.fetch_add(1, Ordering::Relaxed);
            // Who is there may have gone already, which is as good.
            line.read(&mut [0; 65536]).and_then(|_| line.write_all(bytes)).ok();
        }
    });
    (url, met)
}

/// An outage of a provider that was reached is waited out.
#[test]
fn an_outage_passes() {
    for api in APIS {
        let fake =
            serve(&failing("{ status: 503, times: 3 }, { status: 529, times: 3 }, { fault: overloaded }"));
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        assert_eq!((asked(&fake).len(), &said.json()["usage"]["inputTokens"]), (8, &json!(1000)), "{api}");
        assert_eq!(said.json()["turnCount"], 1, "{api}");
    }
}

/// Once it was reached, something else may stand in its place for more tries than a first contact has.
#[test]
fn what_stands_in_the_way_passes() {
    let fake = serve(&failing("{ status: 503 }, { fault: garbage_tls, times: 9 }"));
    let rig = Rig::with_all(&fake);
    let said = rig.run("chat/m", &[]);
    assert_eq!((said.code, asked(&fake).len()), (0, 11), "{said:?}");
}

/// A gateway that answers in a provider's place, with a page or a redirection whatever its status, is waited out like an outage;
/// the run is not brought to a person for it.
#[test]
fn a_gateways_page_passes() {
    let pages = ["404 Not Found", "302 Found", "400 Bad Request"];
    let next = AtomicUsize::new(0);
    let reply = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}"#;
    let call = reply.replace(
        r#""content":"Done.""#,
        r#""tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"true\"}"}}]"#,
    );
    let url = answering(move || match next.fetch_add(1, Ordering::Relaxed) {
        0 => ("200 OK", "application/json", call.clone()),
        turn => match pages.get(turn - 1) {
            Some(status) => (*status, "text/html", "<html>gone for a moment</html>".to_owned()),
            None => ("200 OK", "application/json", reply.to_owned()),
        },
    });
    let rig = Rig::with(&[provider("mine", "chat", &url, "context_window: 200000")]);
    let said = rig.run("mine/m", &[]);
    assert_eq!(said.code, 0, "{said:?}");
    let tries = rig.events_of(&said.id(), "turn_failed");
    assert_eq!(tries.len(), 3, "{tries:?}");
    assert!(tries.iter().all(|event| event["kind"] == "unreachable"), "{tries:?}");
}

/// A server that answers each question with what this says.
fn answering(says: impl Fn() -> (&'static str, &'static str, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Ends with the test's process; it holds nothing else.
    std::thread::spawn(move || {
        for line in listener.incoming() {
            let Ok(mut line) = line else { return };
            let (status, kind, body) = says();
            take_request(&mut line).ok();
            // Who is there may have gone already, which is as good.
            write!(
                line,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
            .ok();
        }
    });
    url
}
