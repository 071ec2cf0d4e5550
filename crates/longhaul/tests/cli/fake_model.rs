//! The script as a provider: its address, its lines, its end, and what it says if it cannot begin.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::desk::Desk;

fn start(desk: &Desk, args: &[&str]) -> (Child, String) {
    let mut command = desk.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    (child, first.trim_end().to_owned())
}

/// Ends the server as Ctrl-C does, and gives its exit code and what it said.
fn interrupt(mut child: Child) -> (Option<i32>, String) {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

fn get(address: &str, path: &str) -> String {
    let mut line = TcpStream::connect(address).unwrap();
    write!(line, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    line.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_script_is_served_until_it_is_interrupted() {
    let desk = Desk::new();
    let (child, url) = start(&desk, &["fake-model", "s.yaml"]);
    let address = url.strip_prefix("http://").unwrap();
    assert!(get(address, "/v1/models").contains(r#""id":"cli""#));
    let (code, said) = interrupt(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("ANTHROPIC_BASE_URL={url}")), "{said}");
    assert!(said.contains(&format!("OPENAI_BASE_URL={url}/v1")), "{said}");
    assert!(said.ends_with("GET /v1/models · models\n"), "{said}");
}

#[test]
fn the_address_is_data() {
    let desk = Desk::new();
    let (child, line) = start(&desk, &["fake-model", "s.yaml", "--api", "chat", "--key", "sk-1", "--json"]);
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["url"], format!("http://127.0.0.1:{}", told["port"]));
    assert_eq!((&told["apis"], &told["script"]), (&serde_json::json!(["chat"]), &Value::from("cli")));
    let (code, said) = interrupt(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("ANTHROPIC") && !said.contains("sk-1"), "{said}");
}

/// A script that is wrong, a port that is taken, a tool that only the asking agent knows.
#[test]
fn what_cannot_begin_says_why() {
    let desk = Desk::new();
    desk.write("bad.yaml", "conversations:\n  - turns:\n      - fail: [ { fault: silense } ]\n");
    let said = desk.say(&["fake-model", "bad.yaml"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    assert!(said.err.contains("bad.yaml:3:26: unknown fault `silense`"), "{}", said.err);
    assert!(said.err.contains("hint: did you mean `silence`?"), "{}", said.err);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = desk.say(&["fake-model", "s.yaml", "--port", &port]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    assert!(said.err.starts_with(&format!("error: cannot listen on port {port}\n")), "{}", said.err);
    assert!(said.err.contains("hint: something else listens there"), "{}", said.err);

    desk.write("foreign.yaml", "conversations: [ { turns: [ { calls: [ { tool: TodoWrite } ] } ] } ]");
    let (child, url) = start(&desk, &["fake-model", "foreign.yaml"]);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(interrupt(child).0, Some(0));
}
