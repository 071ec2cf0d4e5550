//! `fetch` over a real server on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{Fixture, done, failure};
use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Outcome};
use longhaul_tools::sandbox::Network;
use longhaul_tools::{Fetch, Resolve, Tool};
use serde_json::json;

/// Answers each path as it is told, and remembers what it was sent.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &answer, &seen);
            }
        });
        Server { address, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

fn serve(stream: TcpStream, answer: &impl Fn(&str) -> Vec<u8>, seen: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let head: Vec<String> =
        lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let Some(first) = head.first() else { return };
    let path = first.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push(head.join("\n"));
    // Who has read enough goes away.
    (&stream).write_all(&answer(&path)).ok();
}

fn page(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
        .into()
}

fn html(body: &str) -> Vec<u8> {
    page("200 OK", "content-type: text/html; charset=utf-8\r\nset-cookie: a=b\r\n", body)
}

fn leading_to(url: &str) -> Vec<u8> {
    page("302 Found", &format!("location: {url}\r\n"), "")
}

async fn fetched(network: Network, url: &str) -> Outcome {
    run(&Fetch::new(network), url).await
}

async fn run(tool: &Fetch, url: &str) -> Outcome {
    tool.run(&Fixture::new().context, &Json::of(&json!({ "url": url })), &[]).await
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

/// Every name is this machine, which counts as public.
fn here(network: Network) -> Fetch {
    Fetch::resolving(network, Arc::new(|_, port| Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])), |_| {
        true
    })
}

/// A42: a page is shown as text; nothing is sent but the address.
#[tokio::test]
async fn a_page_is_read_as_text() {
    let server = Server::start(|_| html("<h1>Title</h1><script>x</script><p>Some &amp; text"));
    let outcome = fetched(Network::Full, &server.url("/a?b=c")).await;
    let expected = format!("{} (200, text/html, 50 bytes)\n\n# Title\n\nSome & text\n", server.url("/a?b=c"));
    assert_eq!(done(&outcome), expected);
    let head = server.heads.lock().unwrap().concat().to_ascii_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1"), "{head}");
    for sent in ["cookie", "authorization", "x-api-key", "referer", "content-length"] {
        assert!(!head.contains(sent), "{head}");
    }
}

/// A42: a page is read in the letters its server says; of those that are not known here the first line tells.
#[tokio::test]
async fn a_page_is_read_in_its_own_letters() {
    let server = Server::start(|path| {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/plain; charset=";
        let mut answer = format!("{head}{}\r\n\r\n", &path[1..]).into_bytes();
        answer.extend(b"caf\xe9 \x80");
        answer
    });
    let get = async |charset: &str| {
        let url = server.url(&format!("/{charset}"));
        done(&fetched(Network::Full, &url).await).replace(&url, "URL")
    };
    for known in ["iso-8859-1", "Windows-1252", "us-ascii"] {
        assert_eq!(get(known).await, "URL (200, text/plain, 6 bytes)\n\ncafé €", "{known}");
    }
    assert_eq!(get("utf-8").await, "URL (200, text/plain, 6 bytes)\n\ncaf\u{fffd} \u{fffd}");
    assert_eq!(
        get("koi8-r").await,
        "URL (200, text/plain, 6 bytes; read as UTF-8, for its charset koi8-r is not known here)\n\n\
         caf\u{fffd} \u{fffd}"
    );
}

/// A44: with nothing listed nothing is reached, and the message names the setting.
#[tokio::test]
async fn nothing_is_reached_by_default() {
    let server = Server::start(|_| html("x"));
    let outcome = fetched(Network::default(), &server.url("/")).await;
    let (kind, message, _) = failure(&outcome);
    assert_eq!(kind, Failure::NotPermitted);
    assert!(message.contains("no host is allowed"), "{message}");
    // Listing this machine would not help; listing a host elsewhere would.
    assert!(message.contains("`permissions.network: full`") && !message.contains("list it"), "{message}");
    assert_eq!(server.requests(), 0);
    let elsewhere = fetched(Network::default(), "https://docs.example/").await;
    let message = failure(&elsewhere).1;
    assert!(message.contains("a person can list it in `permissions.network`"), "{message}");
}

/// A42, A43: strange spellings of a host, other schemes and credentials are refused before anything is sent.
#[tokio::test]
async fn strange_addresses_are_refused() {
    let server = Server::start(|_| html("x"));
    let port = server.address.port();
    let tool = here(network(&format!("good.example,good.example:{port}")));
    for url in [
        format!("http://good.example@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}#good.example"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://good.example.evil:{port}/"),
        format!("http://evil-good.example:{port}/"),
        format!("http://user:pass@good.example:{port}/"),
        "http://good.example:22/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "ftp://good.example/".to_owned(),
    ] {
        assert_eq!(failure(&run(&tool, &url).await).0, Failure::NotPermitted, "{url}");
    }
    assert_eq!(failure(&run(&tool, "no address").await).0, Failure::InvalidArguments);
    assert_eq!(server.requests(), 0);
    assert!(run(&tool, &format!("http://GOOD.example:{port}/")).await.is_done());
}

/// A43: a name that is listed but leads to this machine is not gone to.
#[tokio::test]
async fn a_name_does_not_lead_inside() {
    let server = Server::start(|_| html("inside"));
    let name = format!("localhost:{}", server.address.port());
    let outcome = fetched(network(&name), &format!("http://{name}/")).await;
    let said = failure(&outcome).1;
    assert!(said.starts_with("localhost leads to no public address, and is not gone to"), "{said}");
    assert!(said.contains("`permissions.network: full`"), "{said}");
    assert_eq!(server.requests(), 0);
}

/// A43: what was checked is what is connected to; a name is resolved once.
#[tokio::test]
async fn a_name_is_resolved_once() {
    let server = Server::start(|_| html("pinned"));
    let (address, count) = (server.address, Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&count);
    // The second answer would be another machine: nobody listens there.
    let resolve: Resolve = Arc::new(move |_, port| {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![if first { address } else { SocketAddr::from(([127, 0, 0, 2], port)) }])
    });
    let port = address.port();
    let tool = Fetch::resolving(network(&format!("*.rebinding.test:{port}")), resolve, |_| true);
    let outcome = run(&tool, &format!("http://a.rebinding.test:{port}/")).await;
    assert!(done(&outcome).contains("pinned"), "{outcome:?}");
    assert_eq!((count.load(Ordering::SeqCst), server.requests()), (1, 1));
    let head = server.heads.lock().unwrap().concat();
    assert!(head.contains(&format!("host: a.rebinding.test:{port}")), "{head}");
}

/// A43: each redirect is asked about anew, and they are counted.
#[tokio::test]
async fn redirects_are_checked_and_bounded() {
    let other = Server::start(|_| html("other"));
    let to_other = format!("http://good.test:{}/x", other.address.port());
    let server = Server::start(move |path| match path {
        "/out" => leading_to(&to_other),
        "/file" => leading_to("file:///etc/passwd"),
        "/here" => leading_to("/there"),
        "/there" => html("arrived"),
        _ => leading_to("/loop"),
    });
    let port = server.address.port();
    let tool = here(network(&format!("good.test:{port}")));
    let get = async |path: &str| run(&tool, &format!("http://good.test:{port}{path}")).await;
    assert_eq!(failure(&get("/out").await).0, Failure::NotPermitted);
    assert_eq!(other.requests(), 0);
    assert_eq!(failure(&get("/file").await).0, Failure::NotPermitted);
    assert!(done(&get("/here").await).contains("/there (200"));
    let before = server.requests();
    assert_eq!(failure(&get("/loop").await).1, "more than 5 redirects");
    assert_eq!(server.requests() - before, 6);
}

/// A08, A52: a page without end is cut, one that is not text is named, and failures are told apart.
#[tokio::test]
async fn answers_are_bounded_and_judged() {
    let server = Server::start(|path| match path {
        "/long" => {
            let mut answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
            answer.extend(b"0123456789".repeat(1024 * 1024));
            answer
        }
        "/picture" => page("200 OK", "content-type: image/png\r\n", "\u{1}\0"),
        "/gone" => page("404 Not Found", "content-type: text/plain\r\n", "no such page"),
        "/busy" => page("429 Too Many Requests", "", ""),
        "/broken" => page("503 Service Unavailable", "", ""),
        _ => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec(),
    });
    let get = async |path: &str| fetched(Network::Full, &server.url(path)).await;
    let long = get("/long").await;
    assert!(done(&long).ends_with("[cut after 5242880 bytes]"), "{long:?}");
    assert!(done(&long).len() < 20_000);
    assert!(failure(&get("/picture").await).1.ends_with("answers image/png, which is not text"));
    let gone = get("/gone").await;
    let (kind, message, text) = failure(&gone);
    assert_eq!((kind, message), (Failure::Tool, "the server answers 404 Not Found"));
    assert!(text.ends_with("no such page"));
    assert_eq!(failure(&get("/busy").await).0, Failure::RateLimit);
    assert_eq!(failure(&get("/broken").await).0, Failure::Network);
    assert_eq!(failure(&get("/half").await).0, Failure::Network);
}

/// A server that says nothing is waited for as long as the call may take, or until the run is paused.
#[tokio::test]
async fn a_silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tool = Fetch::new(Network::Full);
    let args = Json::of(&json!({ "url": format!("http://{address}/") }));
    let mut fixture = Fixture::new();
    fixture.context.timeout = Duration::from_millis(50);
    assert_eq!(failure(&tool.run(&fixture.context, &args, &[]).await).0, Failure::Timeout);
    fixture.context.timeout = Duration::from_secs(120);
    fixture.switch.cancel();
    assert_eq!(failure(&tool.run(&fixture.context, &args, &[]).await).0, Failure::Cancelled);
}
