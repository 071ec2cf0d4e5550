//! Every way of telling somebody something, against a server and commands of our own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::clock::SystemClock;
use crate::limits::NOTICE_TRIES_IN_ALL_MAX;

fn notice(key: &str) -> Notice {
    Notice {
        key: key.to_owned(),
        occasion: Occasion::Waiting,
        run_id: "run_1".to_owned(),
        agent_name: "coder".to_owned(),
        task: "the task".to_owned(),
        gate_id: Some("run_1.g1".to_owned()),
        title: "cöder waits for you".to_owned(),
        text: "May it? <b> sk-very-secret-key-0001".to_owned(),
        reminder: 0,
    }
}

fn options(config: Value, dir: &TempDir) -> Options {
    let secrets = Secrets::new(vec![SecretString::from("sk-very-secret-key-0001")]);
    let config = serde_json::from_value(config).unwrap();
    let record = Some(dir.path().join("notices.jsonl"));
    Options {
        backoff: Duration::from_millis(1),
        ..Options::new(config, record, secrets, Arc::new(SystemClock))
    }
}

/// Says these, as one process would.
fn say(options: Options, keys: &[&str]) {
    let notifier = Notifier::start(options).unwrap();
    keys.iter().for_each(|key| notifier.tell(notice(key)));
    notifier.close();
}

fn outcomes(dir: &TempDir) -> Vec<(String, u32, &'static str)> {
    let lines = read_record(&dir.path().join("notices.jsonl"));
    lines.into_iter().map(|line| (line.key, line.attempt, line.outcome.as_str())).collect()
}

/// A server that answers one request after another with these words, and then tells what it was asked.
fn server(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/topic", listener.local_addr().unwrap());
    let serve = move || answers.iter().map(|answer| take(&listener.accept().unwrap().0, answer)).collect();
    (url, std::thread::spawn(serve))
}

fn take(stream: &TcpStream, answer: &str) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(&*stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// A webhook gets what its format says, and no secret.
#[test]
fn a_webhook_is_told_in_its_own_form() {
    for (format, parts) in [
        ("json", vec![r#""gateId":"run_1.g1""#, r#""occasion":"waiting""#, "May it? <b> [secret]"]),
        ("slack", vec![r#"{"text":"*cöder waits for you*\nMay it? &lt;b&gt; [secret]"}"#]),
        (
            "ntfy",
            vec![
                "title: c?der waits for you",
                "priority: high",
                "May it? <b> [secret]",
                "authorization: Bearer",
            ],
        ),
    ] {
        let (dir, (url, asked)) = (tempfile::tempdir().unwrap(), server(&["200 OK"]));
        // Any variable that every process has serves as a token here.
        let token = (format == "ntfy").then_some("PATH");
        say(
            options(json!({ "webhook": { "url": url, "format": format, "token_env": token } }), &dir),
            &["k"],
        );
        let asked = asked.join().unwrap().remove(0);
        assert!(asked.starts_with("POST /topic HTTP/1.1") && !asked.contains("very-secret"), "{asked}");
        for part in parts {
            assert!(asked.contains(part), "{format} {part}: {asked}");
        }
        let sent = [("k".to_owned(), 1, "sending"), ("k".to_owned(), 1, "delivered")];
        assert_eq!(outcomes(&dir), sent);
    }
}

/// What fails is tried again, each try is on record, and what was delivered is never said again, in this process or the next.
#[test]
fn what_failed_is_tried_again_and_what_was_said_is_not() {
    let (dir, (url, asked)) =
        (tempfile::tempdir().unwrap(), server(&["503 Busy", "429 Slowly", "204 Yes", "200 OK"]));
    let config = json!({ "webhook": { "url": url } });
    say(options(config.clone(), &dir), &["one", "one"]);
    let of_one = [
        ("one".to_owned(), 1, "sending"),
        ("one".to_owned(), 1, "failed"),
        ("one".to_owned(), 2, "sending"),
        ("one".to_owned(), 2, "failed"),
        ("one".to_owned(), 3, "sending"),
        ("one".to_owned(), 3, "delivered"),
    ];
    assert_eq!(outcomes(&dir), of_one);
    say(options(config, &dir), &["one", "two"]);
    assert_eq!(asked.join().unwrap().len(), 4, "the second process only said what was new");
    assert_eq!(outcomes(&dir)[6..], [("two".to_owned(), 1, "sending"), ("two".to_owned(), 1, "delivered")]);
}

/// A try whose end nobody knows, because the process died in it, is made once more by the next; a torn line costs only itself.
#[test]
fn a_try_that_died_with_its_process_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = SystemClock.now();
    let line = format!(r#"{{"at":"{at}","key":"one","way":"command","attempt":1,"outcome":"sending"}}"#);
    std::fs::write(dir.path().join("notices.jsonl"), format!("{line}\n{{\"at\":\"20")).unwrap();
    let said = dir.path().join("said");
    let command = format!("echo $LONGHAUL_NOTICE_TITLE >> {}", said.display());
    for _ in 0..3 {
        say(options(json!({ "command": ["sh", "-c", command] }), &dir), &["one"]);
        assert_eq!(
            std::fs::read_to_string(&said).unwrap(),
            "cöder waits for you\n",
            "once, and as the first time"
        );
    }
    let again = [
        ("one".to_owned(), 1, "sending"),
        ("one".to_owned(), 2, "sending"),
        ("one".to_owned(), 2, "delivered"),
    ];
    assert_eq!(outcomes(&dir), again);
}

/// Whoever is still at it is not overtaken; and what dies each time it is said is not said for ever.
#[test]
fn only_the_dead_are_spoken_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notices.jsonl");
    let begin = |record: &mut Record| {
        let notice = Notice { occasion: Occasion::Completed, ..notice("k") };
        record.begin(&notice, "webhook", SystemClock.now()).map(|this| (this.number, this.reminder))
    };
    let mut first = Record::open(Some(&path));
    assert_eq!(begin(&mut first), Some((1, 0)));
    let mut second = Record::open(Some(&path));
    assert_eq!(begin(&mut second), None, "the first is under way");
    drop(first);
    assert_eq!(begin(&mut Record::open(Some(&path))), None, "the second may have taken it up");
    drop(second);
    let tries = (0..100).filter_map(|_| begin(&mut Record::open(Some(&path)))).count() as u32;
    assert_eq!(tries, NOTICE_TRIES_IN_ALL_MAX - 1);
}

/// Who is waited for is reminded at growing distances, also by another process; of what is only news nobody is.
#[test]
fn who_does_not_answer_is_reminded_politely() {
    const MINUTE: i64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notices.jsonl");
    let told = |occasion: Occasion, minutes: i64| {
        // Each as a process of its own, which knows only what is on record.
        let mut record = Record::open(Some(&path));
        let notice = Notice { occasion, ..notice(occasion.as_str()) };
        let now = Timestamp::from_millis(minutes * MINUTE);
        let this = record.begin(&notice, "command", now)?;
        record.end(&notice, "command", this.number, Outcome::Delivered, None, now);
        Some(this.reminder)
    };
    let mut said = Vec::new();
    for minutes in 0..6 * 24 * 60 {
        said.extend(told(Occasion::Waiting, minutes).map(|reminder| (reminder, minutes)));
        assert_eq!(told(Occasion::Completed, minutes).is_some(), minutes == 0);
    }
    let hours = |hours: i64| hours * 60;
    let (third, fourth) = (30 + hours(2), 30 + hours(10));
    let days: Vec<(u32, i64)> = (1..=5).map(|day| (day as u32 + 3, fourth + hours(24) * day)).collect();
    assert_eq!(said[..4], [(0, 0), (1, 30), (2, third), (3, fourth)]);
    assert_eq!(said[4..], days);
}

/// Time that passes as quickly as it is waited for.
#[derive(Default)]
struct Quick(Arc<std::sync::atomic::AtomicI64>);

impl Clock for Quick {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        let now = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            now.fetch_add(duration.as_millis() as i64, std::sync::atomic::Ordering::SeqCst);
        })
    }
}

/// A process that lives while its run waits reminds by itself, until somebody has answered.
#[test]
fn a_live_process_reminds() {
    let (dir, said) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let said = said.path().join("said");
    let command = format!("echo \"$LONGHAUL_NOTICE_TITLE\" >> {}", said.display());
    std::fs::create_dir_all(said.parent().unwrap()).unwrap();
    let options = Options {
        clock: Arc::new(Quick::default()),
        ..options(json!({ "command": ["sh", "-c", command] }), &dir)
    };
    let notifier = Notifier::start(options).unwrap();
    notifier.tell(notice("k"));
    *notifier.teller.open.lock().unwrap() = vec![notice("k")];
    let lines = || std::fs::read_to_string(&said).unwrap_or_default().lines().count();
    while lines() < 3 {
        std::thread::yield_now();
    }
    notifier.teller.open.lock().unwrap().clear();
    notifier.close();
    let text = std::fs::read_to_string(&said).unwrap();
    let titles: Vec<&str> = text.lines().collect();
    assert_eq!(titles[..2], ["cöder waits for you", "Still: cöder waits for you"]);
}

/// A redirect is not followed, to no host, and not tried again.
#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let answer = format!("307 Go\r\nlocation: http://{}/", elsewhere.local_addr().unwrap());
    let (dir, (url, asked)) = (tempfile::tempdir().unwrap(), server(vec![&*answer.leak()].leak()));
    say(options(json!({ "webhook": { "url": url } }), &dir), &["k"]);
    asked.join().unwrap();
    assert!(elsewhere.accept().is_err(), "nobody came");
    assert_eq!(outcomes(&dir), [("k".to_owned(), 1, "sending"), ("k".to_owned(), 1, "failed")]);
    let line = read_record(&dir.path().join("notices.jsonl")).pop().unwrap();
    assert!(line.error.unwrap().contains("redirects are not followed"));
}

/// A command gets the notice as JSON and as variables, and none that is withheld; one that fails is tried within bounds, one
/// that is not there once.
#[test]
fn a_command_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (input, path) = (dir.path().join("input"), dir.path().join("path"));
    let script = format!(
        "cat > {}; echo \"$LONGHAUL_NOTICE_TITLE ${{CARGO_MANIFEST_DIR-none}}\" > {}",
        input.display(),
        path.display()
    );
    let told = options(json!({ "command": ["/bin/sh", "-c", script] }), &dir);
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to withhold");
    let withheld = ["CARGO_MANIFEST_DIR".to_owned()].into();
    say(Options { withheld, ..told }, &["k"]);
    let input: Value = serde_json::from_str(&std::fs::read_to_string(input).unwrap()).unwrap();
    assert_eq!((&input["runId"], &input["text"]), (&json!("run_1"), &json!("May it? <b> [secret]")));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "cöder waits for you none\n");

    let failing = tempfile::tempdir().unwrap();
    say(options(json!({ "command": ["false"] }), &failing), &["k"]);
    assert_eq!(outcomes(&failing).len() as u32, NOTICE_TRIES_MAX * 2);
    let absent = tempfile::tempdir().unwrap();
    say(options(json!({ "command": ["/no/such/program"] }), &absent), &["k"]);
    assert_eq!(outcomes(&absent), [("k".to_owned(), 1, "sending"), ("k".to_owned(), 1, "failed")]);
}

/// Only what was asked for is said; and without a way there is nobody to say it.
#[test]
fn only_what_is_wanted_is_said() {
    let dir = tempfile::tempdir().unwrap();
    say(options(json!({ "on": ["completed"], "command": ["true"] }), &dir), &["k"]);
    assert_eq!(outcomes(&dir), []);
    assert!(Notifier::start(options(json!({ "on": ["completed"] }), &dir)).is_none());
}

/// Bad input is named.
#[test]
fn wrong_settings_are_named() {
    for (config, why) in [
        (json!({ "webhook": { "url": "ftp://x" } }), "https://"),
        (json!({ "webhook": { "url": "https://" } }), "name a host"),
        (json!({ "webhook": { "url": "https://u:p@x/y" } }), "token_env"),
        (json!({ "command": [""] }), "notify.command"),
    ] {
        let config: NotifyConfig = serde_json::from_value(config).unwrap();
        assert!(config.check().unwrap_err().contains(why), "{config:?}");
    }
    assert!(serde_json::from_value::<NotifyConfig>(json!({ "desktp": true })).is_err());
    assert_eq!(read_record(Path::new("/no/such/file")), []);
}

/// A command that hangs is ended with the process that would have waited for it.
#[test]
fn a_command_that_hangs_does_not_outlive_us() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = "echo $$ > \"$0.new\" && mv \"$0.new\" \"$0\" && exec sleep 1000";
    let options = options(json!({ "command": ["sh", "-c", script, &pid] }), &dir);
    let notifier = Notifier::start(Options { closing: Duration::from_millis(200), ..options }).unwrap();
    notifier.tell(notice("k"));
    while !pid.exists() {
        std::thread::yield_now();
    }
    notifier.close();
    let pid = std::fs::read_to_string(&pid).unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let lives = |stat: String| !stat.is_empty() && !stat.contains(") Z ");
    let closed = std::time::Instant::now();
    while lives(stat()) {
        assert!(closed.elapsed() < Duration::from_secs(60), "{}", stat());
        std::thread::yield_now();
    }
}
