//! `search` and `finalize_research`: what lands, what is made of it, and what a crash leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use fixture::{Fixture, done, failure};
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome};
use longhaul_tools::research::{Left, Provider, Search, finalize};
use longhaul_tools::sandbox::Network;
use longhaul_tools::{Fetch, Sandbox, Tool};
use serde_json::{Value, json};

fn files_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn results(url: &str) -> String {
    json!({ "query": "q", "results": [{ "title": "T", "url": url, "content": "some text" }] }).to_string()
}

fn with_inbox(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("search_results")).unwrap();
    for (name, text) in files {
        fs::write(fixture.path("search_results").join(name), text).unwrap();
    }
    fixture
}

fn searching(fixture: &Fixture, command: &str) -> Search {
    let provider = Provider::Command {
        text: command.to_owned(),
        base_dir: fixture.path(""),
        environment: vec![("SEARCH_KEY".to_owned(), "abc".to_owned())],
    };
    Search::new(provider, Sandbox::off())
}

async fn search(fixture: &Fixture, tool: &Search, query: &str) -> Outcome {
    tool.run(&fixture.context, &Json::of(&json!({ "query": query })), &[]).await
}

/// B4.1: a search runs the provider with the query and lands what it printed in the inbox, under the call's name.
#[tokio::test]
async fn a_search_lands_in_the_inbox() {
    let fixture = Fixture::new();
    let script = r#"printf '{"results":[{"title":"%s and %s","url":"https://x.example/%s","content":"c"}]}' "$1" "$(cat)" "$SEARCH_KEY""#;
    let found = search(&fixture, &searching(&fixture, script), "it's here").await;
    let path = format!("search_results/{}.json", fixture.context.key);
    assert_eq!(
        done(&found),
        format!("1 source, in {path}\n1. it's here and it's here\n   https://x.example/abc\n")
    );
    let landed: Value = serde_json::from_slice(&fs::read(fixture.path(&path)).unwrap()).unwrap();
    assert_eq!(landed["query"], "it's here");
    assert_eq!(landed["results"]["results"][0]["url"], "https://x.example/abc");
    let last_argument = searching(&fixture, "printf '[{\"url\":\"https://y\",\"title\":\"%s\"}]'");
    assert!(done(&search(&fixture, &last_argument, "a  b").await).contains("1. a b\n"));
}

/// B4.1: a provider that fails, prints no JSON or a query that is none changes nothing.
#[tokio::test]
async fn a_failed_search_lands_nothing() {
    let fixture = Fixture::new();
    for (command, query, kind, said) in [
        ("echo no >&2; false", "x", Failure::Tool, "the search command failed (exit status: 1): no"),
        ("echo nothing", "x", Failure::Tool, "it is not JSON"),
        ("echo 3; true", "x", Failure::Tool, "neither an object nor a list"),
        ("head -c 5000000 /dev/zero; true", "x", Failure::Tool, "printed 5000000 bytes, too many to read"),
        ("true", " ", Failure::InvalidArguments, "`query` is empty"),
        ("true", "-rf", Failure::InvalidArguments, "begins with `-`"),
    ] {
        let failed = search(&fixture, &searching(&fixture, command), query).await;
        let (failure, message, _) = failure(&failed);
        assert!(failure == kind && message.contains(said), "{command}: {message}");
    }
    assert_eq!(files_in(&fixture.path("")), [""; 0]);
}

/// B4.1: an address is asked through the rules of `fetch`.
#[tokio::test]
async fn a_search_by_address_keeps_to_the_network_rules() {
    let fixture = Fixture::new();
    let provider = || Provider::Url("https://search.example/?q={query}".to_owned());
    let closed = Search::new(provider(), Sandbox::off());
    let none = Fetch::new(Network::None);
    let closed_too = Search::fetching(provider(), Sandbox::off(), none);
    assert_eq!(closed.spec().class, EffectClass::Checkable);
    let refused = search(&fixture, &closed_too, "x").await;
    assert_eq!(failure(&refused).0, Failure::NotPermitted);
    let resolve = Arc::new(|_: &str, _| Ok(vec!["127.0.0.1:9".parse().unwrap()]));
    let network = serde_json::from_value(json!(["search.example"])).unwrap();
    let private = Search::fetching(provider(), Sandbox::off(), Fetch::resolving(network, resolve, |_| false));
    assert!(failure(&search(&fixture, &private, "x").await).1.contains("no public address"));
}

/// B4.1: after a crash the file's being there tells whether the search was done.
#[tokio::test]
async fn a_search_is_looked_for_after_a_crash() {
    let fixture = Fixture::new();
    let tool = searching(&fixture, "echo '[]'; true");
    let args = Json::of(&json!({ "query": "x" }));
    let traces = tool.prepare(&fixture.context, &args).await.unwrap();
    assert_eq!(traces[0].target, format!("search_results/{}.json", fixture.context.key));
    assert_eq!(tool.check(&fixture.context, &args, &traces).await, Found::NotDone);
    done(&tool.run(&fixture.context, &args, &traces).await);
    assert_eq!(tool.check(&fixture.context, &args, &traces).await, Found::Done);
}

/// B4.2, B4.3, B4.4: the inbox is emptied, and its sources are in the task's directory; what is broken stays and is named.
#[tokio::test]
async fn an_inbox_is_put_in_order() {
    let fixture = with_inbox(&[
        ("a.json", &results("https://a.example")),
        ("b.json", &results("https://b.example")),
        ("broken.json", "{"),
        ("notes.txt", "not mine"),
    ]);
    symlink("a.json", fixture.path("search_results/link.json")).unwrap();
    let report = fixture.run("finalize_research", &json!({ "task_id": "01" })).await;
    assert_eq!(
        done(&report),
        "2 new files, 2 new sources; see tasks/01/research_overview.md\n\
         broken.json stays in search_results: it is not JSON: EOF while parsing an object at line 1 column 1\n\
         link.json stays in search_results: it is a link\n"
    );
    let inbox = files_in(&fixture.path("search_results"));
    assert_eq!(inbox, ["broken.json", "link.json", "notes.txt", "processed_json"]);
    assert_eq!(files_in(&fixture.path("search_results/processed_json")), ["a.json", "b.json"]);
    let overview = fs::read_to_string(fixture.path("tasks/01/research_overview.md")).unwrap();
    assert!(overview.contains("https://a.example") && overview.contains("https://b.example"), "{overview}");
    let files = files_in(&fixture.path("tasks/01"));
    assert_eq!(files.len(), 3, "{files:?}");
    for name in files.iter().filter(|name| *name != "research_overview.md") {
        assert!(overview.contains(&format!("`tasks/01/{name}`")), "{name}: {overview}");
        assert!(fs::read_to_string(fixture.path("tasks/01").join(name)).unwrap().contains("some text"));
    }
}

/// B4.4: a call that was prepared names what stays in the inbox too: what is broken, what has no room, not what only came later.
#[tokio::test]
async fn a_prepared_call_names_what_stays() {
    let fixture = with_inbox(&[("b.json", &results("https://b.example")), ("junk.json", "no json")]);
    fs::create_dir_all(fixture.path("tasks/01")).unwrap();
    // Room for one section that names one source, and for no long one.
    let room = 1024 * 1024 - 2000;
    fs::write(fixture.path("tasks/01/research_overview.md"), "x".repeat(room)).unwrap();
    let long: Vec<Value> =
        (0..100).map(|at| json!({ "url": format!("https://long.example/{at}"), "title": "T" })).collect();
    fs::write(fixture.path("search_results/a.json"), json!(long).to_string()).unwrap();
    let args = Json::of(&json!({ "task_id": "01" }));
    let tool = fixture.tool("finalize_research");
    let traces = tool.prepare(&fixture.context, &args).await.unwrap();
    assert_eq!(traces.len(), 2);
    fs::write(fixture.path("search_results/later.json"), results("https://c.example")).unwrap();
    assert_eq!(
        done(&tool.run(&fixture.context, &args, &traces).await),
        "1 new file, 1 new source; see tasks/01/research_overview.md\n\
         a.json stays in search_results: tasks/01/research_overview.md has no room for it; finalize it for another task\n\
         junk.json stays in search_results: it is not JSON: expected ident at line 1 column 2\n"
    );
    let inbox = files_in(&fixture.path("search_results"));
    assert_eq!(inbox, ["a.json", "junk.json", "later.json", "processed_json"]);
}

/// B4.6: a second time handles only what is new; a file of the same name and other content is kept beside the first.
#[tokio::test]
async fn only_what_is_new_is_handled() {
    let fixture = with_inbox(&[("a.json", &results("https://a.example"))]);
    let again = || finalize(&fixture.context.workspace, "01", "key").unwrap();
    assert_eq!((again().moved, again().moved), (vec!["a.json".to_owned()], Vec::<String>::new()));
    let overview = || fs::read_to_string(fixture.path("tasks/01/research_overview.md")).unwrap();
    let first = overview();
    assert_eq!(again().report(), "0 new files, 0 new sources\n");
    assert_eq!(overview(), first);
    fs::write(fixture.path("search_results/a.json"), results("https://c.example")).unwrap();
    assert_eq!(again().sources, 1);
    assert!(overview().starts_with(&first) && overview().contains("https://c.example"));
    assert_eq!(files_in(&fixture.path("search_results/processed_json")).len(), 2);
}

/// B4.2: killed between any two deeds, nothing is lost, and doing it again ends as if nothing had happened.
#[tokio::test]
async fn a_crash_between_two_deeds_loses_nothing() {
    let files = [("a.json", results("https://a.example")), ("b.json", results("https://b.example"))];
    let fresh = || with_inbox(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let whole = fresh();
    finalize(&whole.context.workspace, "01", "key").unwrap();
    let state = |fixture: &Fixture| {
        let dirs = ["search_results", "search_results/processed_json", "tasks/01"];
        let listed = dirs.map(|dir| files_in(&fixture.path(dir)));
        (listed, fs::read_to_string(fixture.path("tasks/01/research_overview.md")).unwrap())
    };
    let args = json!({ "task_id": "01" });
    // What a crash can leave: contents only, the overview too, a file in both places, one file moved.
    for deeds in 0..4 {
        let fixture = fresh();
        let traces =
            fixture.tool("finalize_research").prepare(&fixture.context, &Json::of(&args)).await.unwrap();
        assert_eq!(traces.len(), 3);
        let copy = |path: &str| {
            fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
            fs::copy(whole.path(path), fixture.path(path)).unwrap();
        };
        for name in files_in(&whole.path("tasks/01")) {
            if name != "research_overview.md" || deeds > 0 {
                copy(&format!("tasks/01/{name}"));
            }
        }
        if deeds > 1 {
            copy("search_results/processed_json/a.json");
        }
        if deeds > 2 {
            fs::remove_file(fixture.path("search_results/a.json")).unwrap();
        }
        let tool = fixture.tool("finalize_research");
        assert_eq!(tool.check(&fixture.context, &Json::of(&args), &traces).await, Found::NotDone, "{deeds}");
        done(&tool.run(&fixture.context, &Json::of(&args), &traces).await);
        assert_eq!(state(&fixture), state(&whole), "{deeds}");
        assert_eq!(tool.check(&fixture.context, &Json::of(&args), &traces).await, Found::Done, "{deeds}");
    }
}

/// B4.4: a task's id cannot lead elsewhere, and an overview that somebody changed after the look is not overwritten.
#[tokio::test]
async fn what_is_not_sure_is_refused() {
    let fixture = with_inbox(&[("a.json", &results("https://a.example"))]);
    for task in ["../x", "", ".git", "a/b", "a b"] {
        let refused = fixture.run("finalize_research", &json!({ "task_id": task })).await;
        assert_eq!(failure(&refused).0, Failure::InvalidArguments, "{task}");
    }
    let args = Json::of(&json!({ "task_id": "01" }));
    let tool = fixture.tool("finalize_research");
    let traces = tool.prepare(&fixture.context, &args).await.unwrap();
    fs::create_dir_all(fixture.path("tasks/01")).unwrap();
    fs::write(fixture.path("tasks/01/research_overview.md"), "mine").unwrap();
    assert!(
        failure(&tool.run(&fixture.context, &args, &traces).await).1.contains("changed by somebody else")
    );
    assert_eq!(fs::read_to_string(fixture.path("tasks/01/research_overview.md")).unwrap(), "mine");
    fs::write(fixture.path("search_results/a.json"), vec![b'['; 9 * 1024 * 1024]).unwrap();
    let left = finalize(&fixture.context.workspace, "02", "key").unwrap().left;
    let why = "it has 9437184 bytes; at most 8388608 are read".to_owned();
    assert_eq!(left, [Left { file: "a.json".to_owned(), why }]);
}
