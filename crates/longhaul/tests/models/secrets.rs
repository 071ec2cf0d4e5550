//! Canaries: keys that are unlike anything else, in every place a key can be. Wherever the program, its agent or its provider
//! repeats one, nothing that is stored or said has it, not even most of it.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::rig::{
    APIS, Dead, PRICES, Rig, Said, asked, files_below, provider, serve, take_request, text, until,
};

/// How much of a key may be left where a long text was cut.
const PIECE: usize = 20;

/// One key for each way in: a variable, a variable inside a header, a command, the address.
struct Canaries {
    key: String,
    header: String,
    command: String,
    address: String,
}

impl Canaries {
    fn new() -> Canaries {
        let fresh = |name: &str| {
            let bits = || RandomState::new().build_hasher().finish();
            format!("sk-{name}-{:016x}{:016x}{:016x}", bits(), bits(), bits())
        };
        Canaries { key: fresh("env"), header: fresh("hdr"), command: fresh("cmd"), address: fresh("url") }
    }

    fn all(&self) -> [&str; 4] {
        [&self.key, &self.header, &self.command, &self.address]
    }

    /// A rig whose provider `mine` has its key in the environment and in a header, and `asking` by a command.
    fn rig(&self, api: &str, url: &str) -> Rig {
        let rig = Rig::new().env("TEST_API_KEY", &self.key).env("SECRET_HDR", &self.header);
        let header = format!("{PRICES}\n    headers: {{ x-extra: 'Token ${{SECRET_HDR}}' }}");
        let by_command = provider("asking", api, url, PRICES)
            .replace("api_key_env: TEST_API_KEY", "api_key_command: cat vault/key");
        rig.settings(&[provider("mine", api, url, &header), by_command]);
        rig.write("vault/key", &format!("{}\n", self.command));
        // In files, because as commands the rules would not let them through.
        rig.write("own.sh", "env; cat /proc/self/environ; ps auxww");
        rig.write("ours.sh", "tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/cmdline");
        rig
    }

    /// No canary, and no large piece of one, is in the bytes.
    fn check(&self, what: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for canary in self.all() {
            for piece in [&canary[..PIECE], &canary[canary.len() - PIECE..]] {
                let before = text.split(piece).next().unwrap_or_default();
                let shown: Vec<char> = before.chars().rev().take(80).collect();
                let shown: String = shown.into_iter().rev().collect();
                assert!(before.len() == text.len(), "{what} has a canary, after this: {shown}");
            }
        }
    }

    fn check_said(&self, what: &str, said: &Said) {
        self.check(&format!("stdout of {what}"), said.out.as_bytes());
        self.check(&format!("stderr of {what}"), said.err.as_bytes());
    }

    /// Everything that is kept: journals, events, blobs, catalogue, limits, logs.
    fn check_kept(&self, rig: &Rig) {
        let files = files_below(&rig.path(".longhaul"));
        for (path, bytes) in &files {
            self.check(&path.display().to_string(), bytes);
        }
        let has = |name: &str| files.iter().any(|(path, _)| path.ends_with(name));
        assert!(has("journal") && has("events.jsonl") && has("catalog.db"), "{:?}", rig.runs());
    }

    /// Everything that is shown of what is kept.
    fn check_shown(&self, rig: &Rig) {
        for id in rig.runs() {
            for args in
                [&["show", &id][..], &["events", &id], &["tools", &id], &["logs", &id], &["export", &id]]
            {
                self.check_said(&args.join(" "), &rig.say(args));
                self.check_said(&args.join(" "), &rig.say(&[args, &["--json"]].concat()));
            }
        }
    }
}

/// An agent that prints whatever it can get hold of: its own environment, ours, all processes, files with keys, in parts, and so
/// much of it that most goes into a blob and some is not kept.
const CURIOUS: &str = r#"
conversations:
  - turns:
      - text: "I look around."
        calls:
          - { tool: bash, args: { command: "exec sh own.sh" } }
          - { tool: bash, args: { command: "exec sh ours.sh" } }
          - { tool: bash, args: { command: "cat notes; cat notes >&2; exit 3" } }
          - { tool: read, args: { path: notes } }
          - { tool: bash, args: { command: "cut -c1-40 notes; cut -c20-60 notes" } }
          - { tool: bash, args: { command: "yes $(cat notes) | tr -d '\\n ' | head -c 100000" } }
          - { tool: bash, args: { command: "yes $(cat notes) | tr -d '\\n ' | head -c 3000017" } }
          - { tool: edit, args: { path: notes, old: "no such text", new: "x" } }
      - text: "I have seen it."
"#;

/// A key from the environment, a header or a command that the run was started with is in nothing that is kept or said, whatever the agent prints: not in
/// journal, events, blobs, catalogue, recording, the log of a detached run, or what the model is told.
#[test]
fn an_agent_cannot_leak_a_key() {
    for (api, model) in [("anthropic", "mine/m"), ("chat", "asking/m"), ("responses", "mine/m")] {
        let canaries = Canaries::new();
        let fake = serve(CURIOUS);
        let rig = canaries.rig(api, &fake.url());
        let keys = if model == "mine/m" {
            vec![&canaries.key, &canaries.header]
        } else {
            vec![&canaries.key, &canaries.header, &canaries.command]
        };
        rig.write("notes", &keys.iter().map(|key| format!("KEY={key}\n")).collect::<String>());
        let said = rig.run(model, &["--record", "night.yaml"]);
        assert_eq!(said.code, 0, "{said:?}");
        canaries.check_said("run", &said);
        let told = rig.calls(&said.id());
        for (number, times) in [(1, 2), (2, keys.len()), (3, keys.len())] {
            let struck = told[number]["result"].to_string().matches("[secret]").count();
            assert!(struck >= times, "call {number} came to see keys: {}", told[number]);
        }
        canaries.check("the recording", rig.read("night.yaml").as_bytes());
        let blobs = files_below(&rig.path(&format!(".longhaul/runs/{}/blobs", said.id())));
        assert!(blobs.iter().any(|(_, bytes)| bytes.len() > 50_000), "{}", blobs.len());

        let detached = rig.say(&["run", "again", "--in-place", "--model", model, "--detach", "--json"]);
        assert_eq!(detached.code, 0, "{detached:?}");
        rig.shown(&detached.id(), "status", "completed");
        assert!(rig.path(&format!(".longhaul/daemon/{}.log", detached.id())).exists());
        canaries.check_kept(&rig);
        canaries.check_shown(&rig);

        let requests = asked(&fake);
        assert_eq!(requests.len(), 4);
        for request in &requests {
            canaries.check("what the model is told", request.body.to_string().as_bytes());
            let sent: String =
                request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            let key = if model == "mine/m" { &canaries.key } else { &canaries.command };
            assert!(sent.contains(key), "the key was sent at all");
        }
    }
}

/// The key of a fallback is a secret from the start, also in a process that did not create the run and never needs it.
#[test]
fn the_key_of_a_fallback_is_a_secret() {
    let canaries = Canaries::new();
    let fake = serve(CURIOUS);
    let rig = canaries.rig("responses", &fake.url());
    rig.write("notes", &format!("KEY={}\n", canaries.command));
    let models = ["--model", "mine/m", "--model", "asking/m"];
    let id = rig.get(&[&["create", "--task", "x", "--in-place"], &models[..]].concat());
    let id = id.trim();
    canaries.check_said("start", &rig.say(&["start", id]));
    assert_eq!(rig.show(id)["model"], "mine/m");
    assert!(rig.calls(id)[3]["result"].to_string().contains("[secret]"));
    canaries.check_kept(&rig);
}

/// A key that was renewed in the middle of a run is a secret from then on, the old one stays one, and so is one that the model
/// itself says.
#[test]
fn a_renewed_key_is_a_secret() {
    let canaries = Canaries::new();
    let (old, new) = (&canaries.command, &canaries.address);
    let fake = serve(&format!(
        r#"
conversations:
  - turns:
      - text: "I look."
        fail: [ {{ fault: credentials }} ]
        calls: [ {{ tool: read, args: {{ path: notes }} }}, {{ tool: bash, args: {{ command: "echo {new}" }} }} ]
      - text: "They are {old} and {new}."
"#
    ));
    let rig = canaries.rig("chat", &fake.url());
    let asking = provider("asking", "chat", &fake.url(), PRICES)
        .replace("api_key_env: TEST_API_KEY", "api_key_command: sh vault/next");
    rig.settings(&[asking]);
    rig.write("vault/next", &format!("if mkdir vault/asked 2>&-; then echo {old}; else echo {new}; fi"));
    rig.write("notes", &format!("{old}\n{new}\n"));
    let said = rig.run("asking/m", &[]);
    assert_eq!(said.code, 0, "{said:?}");
    canaries.check_said("run", &said);
    let sent: String = asked(&fake).iter().map(|request| format!("{:?}", request.headers)).collect();
    assert!(sent.contains(new) && sent.contains(old), "both were sent");
    let told = rig.calls(&said.id());
    assert_eq!(told[0]["result"].to_string().matches("[secret]").count(), 2, "{}", told[0]);
    assert!(told[1]["arguments"].to_string().contains("echo [secret]"), "{}", told[1]);
    canaries.check_kept(&rig);
    canaries.check_shown(&rig);
}

/// A key in the name of a call's tool, its arguments' names and its malformed arguments is struck out before anything is kept
/// or said. (That of a call's id is shown where replies are struck out.)
#[test]
fn a_key_in_a_call_is_struck_out() {
    for api in APIS {
        let canaries = Canaries::new();
        let key = &canaries.key;
        let fake = serve(&format!(
            r#"
conversations:
  - turns:
      - text: "I call {key}."
        calls: [ {{ tool: "ask_{key}", args: {{ "{key}": "{key}" }} }}, {{ tool: "{key}", args: {{ a: 1 }} }} ]
      - text: "Done."
"#
        ));
        let rig = canaries.rig(api, &fake.url());
        let said = rig.run("mine/m", &["--record", "night.yaml"]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        canaries.check_said("run", &said);
        let names: Vec<String> = rig.calls(&said.id()).iter().map(|call| text(&call["callName"])).collect();
        assert_eq!(names, ["ask_[secret]", "[secret]"], "{api}");
        canaries.check_kept(&rig);
        canaries.check_shown(&rig);
        canaries.check("the recording", rig.read("night.yaml").as_bytes());
        for request in asked(&fake) {
            canaries.check("what the model is told", request.body.to_string().as_bytes());
        }
    }
}

/// A100: a key that an agent puts into the names of its branch, a file and a directory is in nothing that is said of the run, while it
/// works and afterwards.
#[test]
fn a_key_in_a_name_is_struck_out() {
    let canaries = Canaries::new();
    let fake = serve(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"sh names.sh; cd d-*\" } } ] }, { text: Done. } ] } ]",
    );
    let rig = canaries.rig("responses", &fake.url());
    let key = &canaries.key;
    rig.write("names.sh", &format!("git checkout -q -b k-{key}; mkdir d-{key}; echo x > d-{key}/f-{key}"));
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let done = Command::new("git").args(who).args(words).current_dir(rig.path("")).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "names.sh"]);
    git(&["commit", "-q", "-m", "first"]);
    let said = rig.say(&["run", "x", "--model", "mine/m"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("on branch k-[secret], having begun on "), "{}", said.err);
    assert!(git(&["branch"]).contains(&format!("k-{key}")), "void: there is no such branch");
    canaries.check_said("run", &said);
    canaries.check_shown(&rig);
    let id = rig.only_run();
    for args in [&["result", &id][..], &["result", &id, "--json"]] {
        let said = rig.say(args);
        assert!(said.out.contains("[secret]"), "{}", said.out);
        canaries.check_said(&args.join(" "), &said);
    }
}

/// A key in what a person says to a run is struck out before it is left with it.
#[test]
fn a_key_in_a_persons_words_is_struck_out() {
    let canaries = Canaries::new();
    let fake = serve(
        "conversations: [ { turns: [ { calls: [ { tool: ask_human, args: { question: which key? } } ] }, { text: Done. } ] } ]",
    );
    let rig = canaries.rig("responses", &fake.url());
    let task = format!("use {}", canaries.key);
    let ran = rig.say(&["run", &task, "--in-place", "--model", "mine/m"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let id = rig.only_run();
    rig.get(&["answer", &format!("{id}.g1"), &format!("take {} then", canaries.key)]);
    canaries.check_kept(&rig);
    rig.get(&["resume", &id]);
    assert_eq!(rig.show(&id)["task"], "use [secret]");
    assert!(rig.calls(&id)[0]["result"].to_string().contains("take [secret] then"));
    canaries.check_kept(&rig);
    for request in asked(&fake) {
        canaries.check("what the model is told", request.body.to_string().as_bytes());
    }
}

/// A provider that repeats everything it was sent, in an answer with this status and type.
fn echo(status: &str, kind: &str, wrap: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (status, kind) = (status.to_owned(), kind.to_owned());
    // Ends with the test's process; it holds nothing else.
    std::thread::spawn(move || {
        for line in listener.incoming() {
            let Ok(line) = line else { return };
            answer(line, &status, &kind, &wrap).ok();
        }
    });
    url
}

fn answer(
    mut line: TcpStream,
    status: &str,
    kind: &str,
    wrap: &dyn Fn(&str) -> String,
) -> std::io::Result<()> {
    let head = take_request(&mut line)?;
    let keys: Vec<&str> = head.split([' ', '\r', '\n']).filter(|word| word.starts_with("sk-")).collect();
    let body = wrap(&keys.join(" and "));
    let id = keys.first().copied().unwrap_or("none");
    write!(
        line,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nx-request-id: {id}\r\nrequest-id: {id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// F35: a provider that puts the key into its errors does not get it into ours: in an error's message, type and id, in a page, in
/// an event of a stream, in a list of models.
#[test]
fn a_provider_cannot_leak_a_key() {
    type Wrap = fn(&str) -> String;
    let as_json: Wrap = |keys| {
        format!(
            r#"{{"type":"error","error":{{"type":"{keys}","code":"{keys}","message":"bad key {keys}"}},"request_id":"{keys}"}}"#
        )
    };
    let as_page: Wrap = |keys| format!("no such key: {keys}");
    let as_event: Wrap = |keys| {
        format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"authentication_error\",\"message\":\"bad key {keys}\"}}}}\n\n"
        )
    };
    for (status, kind, wrap, code) in [
        ("401 Unauthorized", "application/json", as_json, 3),
        ("403 Forbidden", "text/plain", as_page, 3),
        ("400 Bad Request", "application/json", as_json, 3),
        ("200 OK", "text/event-stream", as_event, 3),
    ] {
        let url = echo(status, kind, wrap);
        for api in APIS {
            let canaries = Canaries::new();
            let rig = canaries.rig(api, &url);
            for model in ["mine/m", "asking/m"] {
                let said = rig.run(model, &[]);
                assert_eq!(said.code, code, "{status} {api}: {said:?}");
                let reason = text(&said.json()["reason"]);
                assert!(reason.contains("[secret]"), "{status} {api}: the key was repeated: {reason}");
                canaries.check_said("run", &said);
            }
            let checked = rig.say(&["models", "check", "mine/m"]);
            assert!(checked.err.contains("[secret]"), "{status} {api}: {checked:?}");
            canaries.check_said("models check", &checked);
            canaries.check_kept(&rig);
            if api != "chat" {
                continue;
            }
            for args in
                [&["models", "list"][..], &["models", "list", "--json"], &["config", "show", "--json"]]
            {
                canaries.check_said(&args.join(" "), &rig.say(args));
            }
        }
    }
}

/// A model that says the key, or is called by it, does not get it onto a terminal.
#[test]
fn a_model_cannot_say_a_key() {
    let canaries = Canaries::new();
    for (model, key) in [("mine/m", &canaries.key), ("asking/m", &canaries.command)] {
        let script = format!("name: {key}\nconversations: [ {{ turns: [ {{ text: 'It is {key}.' }} ] }} ]");
        let fake = serve(&script);
        for api in APIS {
            let rig = canaries.rig(api, &fake.url());
            for args in [&["models", "check", model][..], &["models", "list"]] {
                for more in [&[][..], &["--json"]] {
                    let said = rig.say(&[args, more].concat());
                    assert!(said.out.contains("[secret]"), "{api} {args:?}: the key was said: {said:?}");
                    canaries.check_said(&args.join(" "), &said);
                }
            }
        }
    }
}

/// An address may have a key in it; errors about it, and what shows the settings, do not.
#[test]
fn an_address_does_not_leak_its_key() {
    let dead = Dead::new();
    let address = dead.address();
    let canaries = Canaries::new();
    for url in [
        format!("http://user:{}@{address}/v1", canaries.address),
        format!("http://{address}/v1?key={}", canaries.address),
        format!("http://{address}/{}/v1", canaries.address),
    ] {
        let rig = canaries.rig("chat", &url);
        let said = rig.run("mine/m", &[]);
        assert_eq!(said.code, 5, "{said:?}");
        canaries.check_said("run", &said);
        canaries.check_kept(&rig);
        canaries.check_said("models check", &rig.say(&["models", "check", "mine/m"]));
        canaries.check_said("models list", &rig.say(&["models", "list"]));
        let shown = rig.say(&["config", "show", "--origin"]);
        canaries.check_said("config show", &shown);
        assert!(shown.out.contains(&address), "{shown:?}");
    }
    let rig = canaries.rig("chat", &format!("ftp://{}", canaries.address));
    let said = rig.run("mine/m", &[]);
    assert_eq!(said.code, 2, "{said:?}");
    canaries.check_said("run", &said);
}

/// The processes of a run show no key: not its own command line, also when it is detached, and not the environment of the git it
/// starts.
#[test]
fn a_process_does_not_show_a_key() {
    let canaries = Canaries::new();
    let fake = serve("conversations: [ { turns: [ { text: Done., fail: [ { stall_ms: 600000 } ] } ] } ]");
    let rig = canaries.rig("anthropic", &fake.url());
    let real = String::from_utf8(Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout);
    let (real, dump) = (real.unwrap(), rig.path("vault/dump"));
    let real = real.trim();
    let wrapper = format!("#!/bin/sh\nenv >> {}\nexec {real} \"$@\"\n", dump.display());
    let bin = tempfile::tempdir().unwrap();
    fs::write(bin.path().join("git"), &wrapper).unwrap();
    fs::set_permissions(bin.path().join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        assert!(Command::new(real).args(args).current_dir(rig.path("")).status().unwrap().success());
    }
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let rig = rig.env("PATH", &path);
    let driver = rig.start(&["run", "x", "--model", "mine/m"]);
    until("a question", || asked(&fake).first().cloned());
    let line = fs::read(format!("/proc/{}/cmdline", driver.pid())).unwrap_or_default();
    canaries.check("the command line", &line);
    let environments = fs::read(&dump).unwrap();
    let times =
        String::from_utf8_lossy(&environments).lines().filter(|line| line.starts_with("PATH=")).count();
    assert!(times >= 2, "git was asked {times} times");
    canaries.check("the environment of git", &environments);
}
