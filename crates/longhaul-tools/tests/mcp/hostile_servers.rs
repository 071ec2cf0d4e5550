//! Servers that do what no server should: each is met with an error that says so, and with nothing left running.

use std::fs;
use std::time::{Duration, Instant};

use longhaul_core::json::Json;
use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::{EffectClass, Failure, Outcome};
use longhaul_tools::mcp::{Error, Why};
use serde_json::json;

use crate::fixture::{done, failure};
use crate::rig::{Rig, hostile};

async fn refused(mode: &str, words: &[&str]) {
    let fixture = crate::fixture::Fixture::new();
    let mut server = hostile(&fixture, mode);
    server["start_timeout_ms"] = json!(3000);
    let rig = Rig::over(fixture, server);
    let error = rig.servers.meet("srv").await.unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{mode}: {error}");
    }
    assert_eq!(rig.alive(), Vec::<i32>::new(), "{mode}");
    assert_eq!(rig.names(), Vec::<String>::new());
}

/// A server that cannot be used says why, in time, and nothing of it is left.
#[tokio::test]
async fn a_server_that_cannot_be_met_is_refused() {
    refused("exits", &["exit status: 3", "cannot find my settings"]).await;
    refused("breaks", &["exit status: 1); it said: Error [E_SETTINGS]: key [secret] is refused ⏎ at load { ⏎ code: 'E' ⏎ Node.js v20"])
        .await;
    refused("silent", &["did not start within 3000 ms"]).await;
    refused("chatter", &["1048576 bytes that are no messages"]).await;
    refused("endless", &["more than 50 pages"]).await;
    refused("many", &["more than 256 tools"]).await;
    refused("malformed", &["tools/list"]).await;
}

/// One that is too slow is quoted.
#[tokio::test]
async fn a_server_that_is_too_slow_says_what_it_does() {
    let waits = "echo waiting for the registry >&2; exec sleep 600";
    let rig = Rig::new(json!({ "command": ["sh", "-c", waits], "start_timeout_ms": 3000 }));
    let error = rig.servers.meet("srv").await.unwrap_err().to_string();
    assert!(error.ends_with("did not start within 3000 ms; it said: waiting for the registry"), "{error}");
}

/// Whoever waits for a server that says nothing is told for which, and how long that may take.
#[tokio::test]
async fn a_start_that_takes_long_is_said_to_be_waited_for() {
    let fixture = crate::fixture::Fixture::new();
    let mut server = hostile(&fixture, "silent");
    server["start_timeout_ms"] = json!(2500);
    let rig = Rig::over(fixture, server);
    assert!(rig.servers.meet("srv").await.is_err());
    let line = "waiting for MCP server `srv` to start, 2.5s at most (`start_timeout_ms`)";
    assert_eq!(*rig.heard.lock().unwrap(), [line]);
    let rig = Rig::hostile("slow").met().await;
    assert_eq!(*rig.heard.lock().unwrap(), Vec::<String>::new(), "a second is nothing");
}

/// A server elsewhere that answers without end is not listened to without end, whether it says how much will come or not.
#[tokio::test]
async fn an_answer_over_http_without_end_is_not_kept() {
    use std::io::{Read, Write};
    for head in ["transfer-encoding: chunked\r\n", "content-length: 99999999999\r\n", ""] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut written = 0usize;
            for mut caller in listener.incoming().take(1).flatten() {
                assert!(caller.read(&mut [0; 64 * 1024]).unwrap() > 0);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}\r\n");
                caller.write_all(head.as_bytes()).unwrap();
                let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
                while caller.write_all(chunk.as_bytes()).is_ok() {
                    written += chunk.len();
                }
            }
            written
        });
        let rig = Rig::new(json!({ "url": url, "start_timeout_ms": 60_000 }));
        let error = rig.servers.meet("srv").await.unwrap_err().to_string();
        assert!(error.contains("larger than 16777216 bytes"), "{head}: {error}");
        // Beside what was read, only what fits between two sockets.
        assert!(server.join().unwrap() < 64 * 1024 * 1024, "{head}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let rig = Rig::new(json!({ "command": ["no-such-program"] }));
    let error = rig.servers.meet("srv").await.unwrap_err().to_string();
    assert_eq!(error, "MCP server `srv`: there is no program `no-such-program`");
    let rig = Rig::new(json!({ "command": ["python3"], "env": { "KEY": "${LONGHAUL_TEST_KEY}" } }));
    let error = rig.servers.meet("srv").await.unwrap_err().to_string();
    assert!(error.contains("holds a model provider's key"), "{error}");
}

#[tokio::test]
async fn banners_and_a_slow_start_are_borne() {
    for mode in ["garbage", "slow"] {
        let rig = Rig::hostile(mode).met().await;
        assert_eq!(done(&rig.call("say", json!({ "text": "hello" })).await), "hello", "{mode}");
        rig.rest().await;
        assert_eq!(rig.alive(), Vec::<i32>::new());
    }
}

/// D6.8, A59: a server cannot shadow a built-in tool, nor hide one behind another.
#[tokio::test]
async fn odd_names_are_made_plain_and_shadow_nothing() {
    let rig = Rig::hostile("names").met().await;
    let names = rig.names();
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("srv__") && name.len() <= 64), "{names:?}");
    let mut all: Vec<&str> = rig.fixture.toolbox.names();
    all.extend(names.iter().map(String::as_str));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    assert_eq!(rig.tool("hidden").spec().description, "harm\\u{200b}less\\u{e0041}");
    assert_eq!(
        rig.servers.look("srv").await.unwrap().listing.left_out,
        ["`read` is offered twice; the first is used"]
    );
    assert_eq!(done(&rig.call("read", json!({ "text": "x" })).await), "x");
    rig.rest().await;
}

/// A59: a server whose tools changed after they were accepted is refused until a person accepts it again.
#[tokio::test]
async fn a_description_that_changes_is_refused_until_accepted() {
    let rig = Rig::hostile("changing").met().await;
    assert_eq!(rig.tool("say").spec().description, "version 1");
    let outcome = rig.call("say", json!({})).await;
    let (kind, message, _) = failure(&outcome);
    assert_eq!(kind, Failure::NotPermitted);
    assert!(
        message.contains("the description of `say`") && message.contains("`longhaul mcp accept srv`"),
        "{message}"
    );
    assert_eq!(rig.alive(), Vec::<i32>::new());
    assert_eq!(rig.names(), Vec::<String>::new(), "a model is not told of it any more");
    let (_, not_offered) = rig.servers.tools();
    assert!(matches!(&not_offered[0].why, Why::Error(Error::Changed { .. })));
    let look = rig.servers.look("srv").await.unwrap();
    assert_eq!(look.difference.unwrap().changed, ["the description of `say`"]);
    let (look, before) = rig.servers.look_anew("srv").await.unwrap();
    assert_eq!(rig.names(), Vec::<String>::new(), "it was looked at, not accepted");
    rig.servers.accept("srv", &look).unwrap();
    assert_eq!(before.unwrap().tools[0].description, "version 1");
    assert_eq!(rig.tool("say").spec().description, "version 4");
}

/// A tool that came later is not offered, and does not keep the others from being used.
#[tokio::test]
async fn tools_that_come_later_wait_for_acceptance() {
    let rig = Rig::hostile("growing").met().await;
    assert_eq!(done(&rig.call("say", json!({ "text": "x" })).await), "x");
    assert_eq!(rig.names(), ["srv__say"]);
    rig.rest().await;
    let (look, _) = rig.servers.look_anew("srv").await.unwrap();
    rig.servers.accept("srv", &look).unwrap();
    assert_eq!(rig.names(), ["srv__say", "srv__more1", "srv__more2"]);
}

/// A59, A108: a program whose bytes changed is not started, and neither is another command.
#[tokio::test]
async fn a_changed_program_is_not_started() {
    let fixture = crate::fixture::Fixture::new();
    let script = fixture.outer.path().join("server.py");
    let original = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/hostile.py")).unwrap();
    fs::write(&script, &original).unwrap();
    let mut server = hostile(&fixture, "honest");
    server["command"][1] = json!(script.display().to_string());
    let rig = Rig::over(fixture, server.clone()).met().await;
    assert_eq!(rig.starts(), 1);
    fs::write(&script, format!("{original}\n# and more\n")).unwrap();
    // However often it is called; a wait that grew with each would outgrow the patience of the calls after a few.
    let say = rig.tool("say");
    for _ in 0..20 {
        let outcome = say.run(&rig.fixture.context, &Json::of(&json!({})), &[]).await;
        let (kind, message, _) = failure(&outcome);
        assert_eq!(kind, Failure::NotPermitted, "{message}");
        assert!(message.contains(&format!("the program {}", script.display())), "{message}");
        assert!(message.contains("`longhaul mcp accept srv`") && !message.contains("mcp tools"), "{message}");
    }
    assert!(rig.servers.look("srv").await.is_err());
    assert_eq!(rig.starts(), 1, "not even to look at it");
    fs::write(&script, &original).unwrap();
    server["command"][2] = json!("large");
    let rig = rig.again(server);
    let (tools, not_offered) = rig.servers.tools();
    assert!(tools.is_empty());
    let Why::Error(error) = &not_offered[0].why else { panic!("it was accepted before") };
    assert!(error.to_string().contains("honest"), "{error}");
}

/// A59, A108: every script on an interpreter's command line is pinned, also behind `env`; data is not, for it changes.
#[tokio::test]
async fn a_changed_helper_is_not_started() {
    for front in [&["python3"][..], &["env", "LANG=C", "python3"]] {
        let fixture = crate::fixture::Fixture::new();
        let (helper, notes) =
            (fixture.outer.path().join("helper.py"), fixture.outer.path().join("notes.txt"));
        fs::write(&helper, "helps = True\n").unwrap();
        fs::write(&notes, "one").unwrap();
        let mut server = hostile(&fixture, "honest");
        let mut command = json!(front).as_array().unwrap().clone();
        command.extend(server["command"].as_array().unwrap()[1..].to_vec());
        command.extend([json!(helper), json!(notes)]);
        server["command"] = command.into();
        let rig = Rig::over(fixture, server).met().await;
        fs::write(&notes, "two").unwrap();
        assert_eq!(done(&rig.call("say", json!({ "text": "x" })).await), "x", "{front:?}");
        rig.rest().await;
        let starts = rig.starts();
        fs::write(&helper, "helps = False\n").unwrap();
        let outcome = rig.call("say", json!({})).await;
        let (kind, message, _) = failure(&outcome);
        assert_eq!(kind, Failure::NotPermitted, "{front:?}: {message}");
        assert!(message.contains(&format!("the program {} changed", helper.display())), "{message}");
        assert_eq!(rig.starts(), starts, "{front:?}");
    }
}

/// A59: a variable that came, went or changed in the settings may make another program of it (`NODE_OPTIONS`, `PYTHONPATH`).
#[tokio::test]
async fn a_changed_variable_is_refused_until_accepted() {
    let fixture = crate::fixture::Fixture::new();
    let with = |env: serde_json::Value| {
        let mut server = hostile(&fixture, "honest");
        server["env"] = env;
        server
    };
    let accepted = with(json!({ "PYTHONPATH": "lib", "KEPT": "${HOME}", "GONE": "canary-of-a-variable" }));
    let changed = with(json!({ "PYTHONPATH": "evil", "KEPT": "${HOME}", "NEW": "x" }));
    let rig = Rig::over(fixture, accepted.clone()).met().await;
    let pin = fs::read_to_string(rig.fixture.outer.path().join("state/mcp/srv.json")).unwrap();
    assert!(pin.contains("PYTHONPATH") && !pin.contains("canary-of-a-variable"), "{pin}");
    assert_eq!(rig.starts(), 1);
    let rig = rig.again(changed);
    assert_eq!(rig.names(), Vec::<String>::new(), "a model is not told of it");
    let error = rig.servers.look("srv").await.unwrap_err().to_string();
    let named = "the variable GONE, the variable NEW, the variable PYTHONPATH changed";
    assert!(error.contains(named) && error.contains("`longhaul mcp accept srv`"), "{error}");
    assert_eq!(rig.starts(), 1, "not even to look at it");
    let rig = rig.again(accepted);
    rig.servers.look("srv").await.unwrap();
    assert_eq!(done(&rig.call("say", json!({ "text": "x" })).await), "x");
    rig.rest().await;
}

/// A server that ends in a call: what it was doing is not known, and it is started again for the next.
#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let rig = Rig::hostile("honest").met().await;
    let outcome = rig.call("die", json!({})).await;
    let Outcome::Unknown { message } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(
        message,
        "MCP server `srv` broke off: the server ended (exit status: 7); it said: I am going; the next call starts afresh"
    );
    let began = Instant::now();
    assert_eq!(done(&rig.call("count", json!({})).await), "3", "met, died, started again");
    assert!(began.elapsed() > Duration::from_millis(400), "not at once");
    // What only looks may be asked again by the run.
    let outcome = rig.call("look", json!({ "die": true })).await;
    assert_eq!(failure(&outcome).0, Failure::Network);
    assert_eq!(rig.tool("look").spec().class, EffectClass::Repeatable);
    assert_eq!(rig.tool("die").spec().class, EffectClass::Once);
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

/// A call nobody waits for is cancelled at the server, which is used again if it still answers.
#[tokio::test]
async fn a_call_is_cancelled_and_timed_out() {
    let mut rig = Rig::hostile("honest").met().await;
    let cancelled = async {
        rig.file("hangs").await;
        rig.fixture.switch.cancel();
    };
    let (outcome, ()) = tokio::join!(rig.call("hang", json!({})), cancelled);
    assert_eq!(failure(&outcome).0, Failure::Cancelled);
    assert_eq!(rig.file("cancelled").await, "the run was paused");
    let (_switch, cancel) = longhaul_tools::Cancel::new();
    rig.fixture.context.cancel = cancel;
    rig.fixture.context.timeout = Duration::from_millis(300);
    let outcome = rig.call("hang", json!({})).await;
    assert_eq!(failure(&outcome).0, Failure::Timeout);
    assert_eq!(
        done(&rig.call("count", json!({})).await),
        "2",
        "it still answers, so it was not started again"
    );
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_server_that_hangs_is_started_again() {
    let mut rig = Rig::hostile("deaf").met().await;
    rig.fixture.context.timeout = Duration::from_millis(300);
    let outcome = rig.call("hang", json!({})).await;
    assert_eq!(failure(&outcome).0, Failure::Timeout);
    rig.fixture.context.timeout = Duration::from_secs(60);
    assert_eq!(done(&rig.call("count", json!({})).await), "3");
    rig.rest().await;
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_message_without_end_is_not_kept() {
    let rig = Rig::hostile("huge").met().await;
    let outcome = rig.call("say", json!({})).await;
    let Outcome::Unknown { message } = &outcome else { panic!("{outcome:?}") };
    assert!(message.contains("a message of more than 16777216 bytes"), "{message}");
    assert_eq!(rig.alive(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_large_result_is_cut_and_kept() {
    let rig = Rig::hostile("large").met().await;
    let outcome = rig.call("say", json!({})).await;
    let Outcome::Done { output } = &outcome else { panic!("{outcome:?}") };
    assert!(output.text.len() <= OUTPUT_INLINE_BYTES_MAX);
    assert!(output.text.as_str().starts_with("startx") && output.text.as_str().ends_with("xend"));
    let whole = rig.fixture.context.blobs.fetch(output.blob.as_deref().unwrap()).unwrap();
    assert_eq!((whole.len() as u64, output.bytes), (1_000_008, 1_000_008));
    rig.rest().await;
}

/// A100: progress is shown, without keys and what would play tricks on a terminal, and not without end.
#[tokio::test]
async fn progress_is_shown_and_bounded() {
    let rig = Rig::hostile("chatty").met().await;
    rig.call("say", json!({})).await;
    rig.rest().await;
    let heard = rig.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 50);
    assert_eq!(heard[0], "srv: 0 of 200, at [31m [secret]");
    assert_eq!(heard[49], "srv: 49 of 200, at [31m [secret] (further progress is not shown)");
    assert!(rig.log().contains("-- srv: 3 of 200"));
}

/// A100: what a server was given, and says of its tools, is neither pinned nor shown nor told to a model.
#[tokio::test]
async fn a_key_in_what_is_said_of_tools_is_struck_out() {
    let rig = Rig::hostile("telling").met().await;
    let spec = rig.tool("say").spec().clone();
    assert_eq!(spec.description, "with [secret]");
    assert_eq!(spec.schema["properties"]["key"]["default"], "[secret]");
    assert_eq!(spec.schema["examples"], json!([{ "key": "[secret]" }]));
    let other = json!({ "enum": ["[secret]"], "format": "sk-canary-of-a-provider" });
    assert_eq!(spec.schema["properties"]["default"], other, "a property of that name says nothing");
    // Calls go by names, whatever they are.
    assert_eq!(spec.schema["required"], json!(["sk-canary-of-a-provider"]));
    let pin = std::fs::read_to_string(rig.fixture.outer.path().join("state/mcp/srv.json")).unwrap();
    assert!(pin.contains("with [secret]") && !pin.contains("with sk-canary"), "{pin}");
    rig.rest().await;
}

/// A server gets no key of ours, and what it was configured to get.
#[tokio::test]
async fn the_environment_has_no_key_in_it() {
    let fixture = crate::fixture::Fixture::new();
    let mut server = hostile(&fixture, "environment");
    server["env"] = json!({ "GIVEN": "home is ${HOME}" });
    let rig = Rig::over(fixture, server).met().await;
    let outcome = rig.call("say", json!({})).await;
    let text = done(&outcome);
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH") && names.contains(&"LONGHAUL_RUN"), "{text}");
    assert!(text.contains("GIVEN=home is /"), "{text}");
    assert!(!text.contains("canary") && !names.contains(&"CARGO_MANIFEST_DIR"), "{text}");
    rig.rest().await;
}

/// What a server was given and repeats is struck out: of variables those that are secrets, by their name or their look.
#[tokio::test]
async fn a_token_that_a_server_repeats_is_struck_out() {
    let fixture = crate::fixture::Fixture::new();
    let mut server = hostile(&fixture, "honest");
    server["env"] =
        json!({ "SERVICE_TOKEN": "canary one", "PLAIN": "visible words", "ODD": "r4nd0mr4nd0mr4nd0mr4nd0m" });
    let rig = Rig::over(fixture, server).met().await;
    let text = "canary one, visible words, r4nd0mr4nd0mr4nd0mr4nd0m";
    let outcome = rig.call("say", json!({ "text": text })).await;
    assert_eq!(done(&outcome), "[secret], visible words, [secret]");
    let mut secrets = rig.servers.secrets();
    secrets.sort();
    assert_eq!(secrets, ["canary one", "r4nd0mr4nd0mr4nd0mr4nd0m"]);
    rig.rest().await;
}

/// D6.8: of a header the token is struck out and nothing else: neither the scheme before it nor the blank between them.
#[tokio::test]
async fn a_header_is_struck_out_without_its_scheme() {
    let rig = Rig::new(json!({
        "url": "http://127.0.0.1:9/mcp",
        "headers": { "authorization": "Bearer ${LONGHAUL_TEST_TOKEN}", "x-key": "Bearer abc", "x-words": "two words",
            "x-other": "Bearer 0123456789abcdef0123456789abcdef" },
    }));
    let mut secrets = rig.servers.secrets();
    secrets.sort();
    assert_eq!(secrets, ["0123456789abcdef0123456789abcdef", "Bearer abc", "canary-of-a-token"]);
}

/// A server is accepted for good once there is something it was met for.
#[tokio::test]
async fn what_was_met_for_nothing_is_not_kept() {
    let rig = Rig::hostile("honest");
    rig.servers.meet("srv").await.unwrap();
    assert!(!rig.names().is_empty());
    let pin = rig.fixture.outer.path().join("state/mcp/srv.json");
    assert!(!pin.exists());
    rig.servers.keep_met().unwrap();
    assert!(pin.exists() && !rig.names().is_empty());
}

/// Only the tools that the settings name are offered.
#[tokio::test]
async fn the_settings_choose_tools() {
    let fixture = crate::fixture::Fixture::new();
    let mut server = hostile(&fixture, "honest");
    server["tools"] = json!(["say", "none"]);
    let rig = Rig::over(fixture, server.clone()).met().await;
    assert_eq!(rig.names(), ["srv__say"]);
    server["enabled"] = json!(false);
    let rig = rig.again(server);
    assert_eq!(rig.names(), Vec::<String>::new());
}
