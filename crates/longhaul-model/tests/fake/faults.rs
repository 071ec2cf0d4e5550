//! Every fault, on every protocol, streamed and at once. Clocks are short; what is asserted is the kind of the error,
//! never the time.

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use longhaul_model::wire::{Api, Kind, Options, Stop};

use crate::ask::{SHORT, WAYS, ask, failing, patient};

const RETRYABLE: Kind = Kind::Retryable { after: None };

/// A stream that broke is cut off if anything of the reply had come, and else as good as never answered. Where its first
/// event ends differs from protocol to protocol.
async fn check_broken(fail: &str, options: Options) {
    for way in WAYS {
        let error = ask(&failing(fail).await, way, options.clone()).await.unwrap_err();
        assert!([Kind::Truncated, RETRYABLE].contains(&error.kind), "{fail} {way:?}: {error}");
    }
}

/// Asks once in every way, of a server of its own; all at once, because some wait for a clock.
async fn check(fail: &str, options: Options, expected: impl Fn(Api, bool) -> Kind) {
    let ways = WAYS.map(|way| {
        let options = options.clone();
        async move { (way, ask(&failing(fail).await, way, options).await) }
    });
    for ((api, stream), answer) in join_all(ways).await {
        let error = answer.unwrap_err();
        assert_eq!(error.kind, expected(api, stream), "{fail} {api:?} {stream}: {error}");
    }
}

/// F27: whatever Retry-After says, the wait is within bounds, and never none at all.
#[tokio::test]
async fn retry_after_is_bounded() {
    let limited = |after: Option<u64>| Kind::RateLimited { after: after.map(Duration::from_secs) };
    for (text, after) in [("0", 1), ("-1", 1), ("7", 7), ("1000000000000", 86_400), ("1m30s", 90)] {
        check(&format!("{{ status: 429, retry_after: '{text}' }}"), patient(), |_, _| limited(Some(after)))
            .await;
    }
    for text in ["garbage", "", "NaN"] {
        check(&format!("{{ status: 429, retry_after: '{text}' }}"), patient(), |_, _| limited(None)).await;
    }
    let past = "Thu, 01 Jan 1970 00:00:00 GMT";
    check(&format!("{{ status: 429, retry_after: '{past}' }}"), patient(), |_, _| limited(Some(1))).await;
    let future = httpdate(SystemTime::now() + Duration::from_secs(30 * 86_400));
    check(&format!("{{ status: 429, retry_after: '{future}' }}"), patient(), |_, _| limited(Some(86_400)))
        .await;
    check("{ status: 529, retry_after_ms: 1500 }", patient(), |_, _| Kind::Retryable {
        after: Some(Duration::from_millis(1500)),
    })
    .await;
}

fn httpdate(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)
}

/// F28: an outage passes: so many attempts fail, the next one is answered.
#[tokio::test]
async fn an_outage_lasts_as_long_as_it_says() {
    for (api, stream) in WAYS {
        let server = failing(
            "{ status: 529, times: 40 }, { status: 500 }, { status: 502, times: 2 }, { status: 503 }",
        )
        .await;
        for attempt in 1..=44 {
            let error = ask(&server, (api, stream), patient()).await.unwrap_err();
            assert_eq!(error.kind, RETRYABLE, "{api:?} {attempt}");
        }
        assert_eq!(ask(&server, (api, stream), patient()).await.unwrap().text, "OK then");
        assert_eq!(server.requests().len(), 45);
    }
}

/// F30, F31: bytes flow and events do not, or nothing comes at all; the idle clock ends the turn.
#[tokio::test]
async fn stalls_are_noticed() {
    let impatient = Options { idle_timeout: SHORT, total_timeout: SHORT * 4, ..patient() };
    check("{ fault: silence }", impatient.clone(), |_, _| RETRYABLE).await;
    for fail in ["{ fault: pings_only }", "{ stall_ms: 60000 }"] {
        check_broken(fail, impatient.clone()).await;
    }
    let server = failing("{ fault: pings_only }").await;
    let error = ask(&server, (Api::Anthropic, true), impatient).await.unwrap_err();
    assert!(error.message.contains("did not move forward"), "{error}");
}

/// F32: one byte a second meets the deadline.
#[tokio::test]
async fn a_drip_meets_the_deadline() {
    let impatient = Options { total_timeout: SHORT, ..patient() };
    check("{ fault: drip }", impatient, |_, _| RETRYABLE).await;
}

/// F32, F33: too much is a typed error, and most of it is never taken off the wire.
#[tokio::test]
async fn too_much_is_not_taken() {
    for (api, stream) in WAYS {
        let server = failing("{ fault: huge_event }").await;
        let error = ask(&server, (api, stream), patient()).await.unwrap_err();
        assert_eq!(error.kind, Kind::TooLarge, "{api:?} {stream}: {error}");
        assert!(server.sent_bytes() < 40 * 1024 * 1024, "{} bytes were taken", server.sent_bytes());

        let server = failing("{ fault: endless_events }").await;
        let few = Options { stream_events_max: 10_000, ..patient() };
        let error = ask(&server, (api, stream), few).await.unwrap_err();
        assert_eq!(error.kind, Kind::TooLarge, "{api:?} {stream}: {error}");
        assert!(server.sent_bytes() < 20 * 1024 * 1024, "{} bytes were taken", server.sent_bytes());
    }
    check("{ fault: gzip_bomb }", patient(), |_, _| Kind::TooLarge).await;
}

/// F32: a million events against the usual limit, once.
#[tokio::test]
async fn the_usual_limit_of_events_holds() {
    let server = failing("{ fault: endless_events }").await;
    let error = ask(&server, (Api::Chat, true), patient()).await.unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge, "{error}");
}

/// F33: what is no reply is an error of its kind.
#[tokio::test]
async fn what_is_no_reply_is_not_taken_for_one() {
    check("{ fault: html }", patient(), |_, _| Kind::Foreign).await;
    check("{ fault: empty }", patient(), |_, _| Kind::Truncated).await;
    check("{ fault: wrong_type }", patient(), |_, _| Kind::Foreign).await;
    check("{ fault: invalid_utf8 }", patient(), |_, _| Kind::Malformed).await;
    let cut = |_, stream: bool| if stream { Kind::Malformed } else { Kind::Truncated };
    check("{ fault: truncated_json }", patient(), cut).await;
    check("{ fault: garbage_tls }", patient(), |_, _| Kind::Unreachable).await;
}

/// A line that breaks is never a reply, wherever it breaks.
#[tokio::test]
async fn a_lost_connection_is_truncated_everywhere() {
    let nothing = |_, stream: bool| if stream { RETRYABLE } else { Kind::Truncated };
    check("{ disconnect_after_bytes: 0 }", patient(), nothing).await;
    for bytes in [1, 40, 300, 700] {
        check_broken(&format!("{{ disconnect_after_bytes: {bytes} }}"), patient()).await;
    }
    check("{ disconnect_after_bytes: 1000000 }", patient(), |_, _| Kind::Truncated).await;
}

/// F35: credentials, permission, quota and a removed model: never worth another try.
#[tokio::test]
async fn what_needs_a_person_is_said_so() {
    check("{ fault: credentials }", patient(), |_, _| Kind::Credentials).await;
    check("{ fault: forbidden }", patient(), |_, _| Kind::Credentials).await;
    check("{ fault: quota }", patient(), |_, _| Kind::Quota).await;
    check("{ fault: model_removed }", patient(), |_, _| Kind::ModelUnknown).await;
    check("{ fatal: 'this is not right' }", patient(), |_, _| Kind::Fatal).await;
}

/// F28, F36: overload, limits and overflow in each protocol's own form.
#[tokio::test]
async fn refusals_are_told_apart() {
    check("{ fault: overloaded }", patient(), |_, _| RETRYABLE).await;
    let limited = Kind::RateLimited { after: Some(Duration::from_secs(2)) };
    check("{ fault: rate_limited }", patient(), |_, _| limited).await;
    check("{ fault: overflow }", patient(), |_, _| Kind::Overflow).await;
}

/// A refusal over the content: Anthropic says it in a reply, the others in an error.
#[tokio::test]
async fn refused_content_is_no_text() {
    for (api, stream) in WAYS {
        let server = failing("{ fault: refused_content }").await;
        let answer = ask(&server, (api, stream), patient()).await;
        match api {
            Api::Anthropic => {
                let reply = answer.unwrap();
                assert!(matches!(&reply.stop, Stop::Refusal(why) if why.contains("policy")), "{reply:?}");
            }
            Api::Responses | Api::Chat => assert_eq!(answer.unwrap_err().kind, Kind::Refused, "{api:?}"),
        }
    }
}

/// F34: replies that are well-formed and nasty are read, with an id for each call and an error for each that is none.
#[tokio::test]
async fn nasty_replies_are_read() {
    for way in WAYS {
        let said = async |fault: &str| {
            let server = failing(&format!("{{ fault: {fault} }}")).await;
            ask(&server, way, patient()).await.unwrap()
        };
        let reply = said("duplicate_ids").await;
        assert_eq!((reply.calls.len(), reply.stop), (2, Stop::ToolCalls), "{way:?}");
        assert_ne!(reply.calls[0].provider_id, reply.calls[1].provider_id, "{way:?}");
        let reply = said("unknown_tool").await;
        assert_eq!(reply.calls[0].name, "no_such_tool", "{way:?}");
        let reply = said("args_not_object").await;
        assert_eq!(reply.calls[0].args.as_ref().unwrap_err().reason, "not an object but an array", "{way:?}");
        let reply = said("malformed_args").await;
        assert!(reply.calls[0].args.is_err(), "{way:?}");
        let reply = said("null_content").await;
        assert_eq!((reply.text.as_str(), reply.calls.len(), reply.stop), ("", 0, Stop::End), "{way:?}");
    }
}

/// F34: 500 calls at once all arrive, each under an id of its own.
#[tokio::test]
async fn many_calls_all_arrive() {
    for way in WAYS {
        let server = failing("{ fault: many_calls }").await;
        let reply = ask(&server, way, patient()).await.unwrap();
        let ids: std::collections::HashSet<&str> =
            reply.calls.iter().map(|call| call.provider_id.as_str()).collect();
        assert_eq!((reply.calls.len(), ids.len()), (500, 500), "{way:?}");
    }
}
