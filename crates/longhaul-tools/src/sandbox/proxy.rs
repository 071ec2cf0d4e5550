//! The way out for commands that may talk to some hosts.
//!
//! Owns a socket that is shown to the command in place of a network, and what is done for whoever connects to it: a tunnel to a
//! host that the rules name, at a public address that we resolved ourselves. Refuses every other request by saying why. What
//! goes through a tunnel is not looked into.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::hosts::{self, HostName, Rule};
use super::scratch::Scratch;
use crate::limits;

/// How names become addresses and which of those are gone to. Tests have one of their own.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub(super) resolve: fn(&HostName, u16) -> io::Result<Vec<SocketAddr>>,
    pub(super) is_open: fn(IpAddr) -> bool,
}

impl World {
    pub(super) const REAL: World = World {
        resolve: |host, port| Ok((host.to_string().as_str(), port).to_socket_addrs()?.collect()),
        is_open: hosts::is_public,
    };
}

/// A proxy that listens as long as it is kept.
#[derive(Debug)]
pub(super) struct Proxy {
    directory: Scratch,
    stopped: Arc<AtomicBool>,
}

struct Gate {
    rules: Vec<Rule>,
    world: World,
    tunnels: AtomicUsize,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the one who waits for the next.
        UnixStream::connect(self.socket()).ok();
    }
}

impl Proxy {
    pub(super) fn start(rules: Vec<Rule>, world: World) -> Result<Proxy, String> {
        let directory = Scratch::new()?;
        let proxy = Proxy { directory, stopped: Arc::default() };
        let listening = UnixListener::bind(proxy.socket()).and_then(|listener| {
            let (stopped, gate) =
                (Arc::clone(&proxy.stopped), Gate { rules, world, tunnels: AtomicUsize::new(0) });
            thread::Builder::new()
                .name("egress".to_owned())
                .spawn(move || listen(&listener, &stopped, Arc::new(gate)))
        });
        listening.map_err(|error| format!("the proxy for allowed hosts cannot be started: {error}"))?;
        Ok(proxy)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("egress")
    }
}

fn listen(listener: &UnixListener, stopped: &AtomicBool, gate: Arc<Gate>) {
    for stream in listener.incoming() {
        if stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if gate.tunnels.fetch_add(1, Ordering::SeqCst) >= limits::TUNNELS_MAX {
            gate.tunnels.fetch_sub(1, Ordering::SeqCst);
            refuse(&stream, "503 Service Unavailable", "too many connections at once").ok();
            continue;
        }
        let served = Arc::clone(&gate);
        let spawned = thread::Builder::new().name("tunnel".to_owned()).spawn(move || {
            serve(&served, &stream).ok();
            served.tunnels.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            gate.tunnels.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(gate: &Gate, client: &UnixStream) -> io::Result<()> {
    client.set_read_timeout(Some(limits::PROXY_HEAD_TIME_MAX))?;
    // A refusal, too, may be read by nobody.
    client.set_write_timeout(Some(limits::PROXY_HEAD_TIME_MAX))?;
    let Some((head, rest)) = read_head(client)? else {
        return refuse(client, "431 Request Header Fields Too Large", "the request is too long");
    };
    let Some(target) = connect_target(&head) else {
        return refuse(
            client,
            "405 Method Not Allowed",
            "only CONNECT is understood, which programs use for https",
        );
    };
    let shown: String = String::from_utf8_lossy(target).escape_debug().take(limits::HOST_BYTES_MAX).collect();
    let (host, port) = match hosts::admitted(&gate.rules, target) {
        Ok(admitted) => admitted,
        Err(why) => return refuse(client, "403 Forbidden", &format!("{shown}: {why}")),
    };
    let addresses = match (gate.world.resolve)(&host, port) {
        Ok(addresses) => addresses,
        Err(error) => return refuse(client, "502 Bad Gateway", &format!("{shown}: {error}")),
    };
    // What was resolved is what is connected to: a second answer would not have been looked at.
    let mut open = addresses.into_iter().filter(|address| (gate.world.is_open)(address.ip())).peekable();
    if open.peek().is_none() {
        return refuse(client, "403 Forbidden", &format!("{shown}: leads to no public address"));
    }
    let connect = |address| TcpStream::connect_timeout(&address, limits::PROXY_CONNECT_TIME_MAX).ok();
    match open.take(limits::PROXY_ADDRESSES_MAX).find_map(connect) {
        Some(upstream) => tunnel(client, upstream, &rest),
        None => refuse(client, "502 Bad Gateway", &format!("{shown}: cannot be reached")),
    }
}

/// The request up to its blank line, and what came behind it; `None` if that does not come.
fn read_head(mut client: &UnixStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while head.len() < limits::PROXY_HEAD_BYTES_MAX {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            return Ok(Some((head, rest)));
        }
    }
    Ok(None)
}

/// What follows `CONNECT` in the first line.
fn connect_target(head: &[u8]) -> Option<&[u8]> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    (method == b"CONNECT" && version.starts_with(b"HTTP/1.") && words.next().is_none()).then_some(target)
}

fn refuse(mut client: &UnixStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("longhaul: {why}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    client.write_all(format!("{head}{body}").as_bytes())
}

fn tunnel(mut client: &UnixStream, mut upstream: TcpStream, rest: &[u8]) -> io::Result<()> {
    // A side that is silent for so long is gone; without an end to it, threads would pile up.
    let patience = Some(limits::TUNNEL_SILENCE_MAX);
    client.set_read_timeout(patience)?;
    client.set_write_timeout(patience)?;
    upstream.set_read_timeout(patience)?;
    upstream.set_write_timeout(patience)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    upstream.write_all(rest)?;
    thread::scope(|scope| {
        let (mut from_client, mut to_server) = (client.try_clone()?, upstream.try_clone()?);
        scope.spawn(move || {
            io::copy(&mut from_client, &mut to_server).ok();
            to_server.shutdown(Shutdown::Write).ok();
        });
        io::copy(&mut upstream, &mut client).ok();
        client.shutdown(Shutdown::Both).ok();
        // The other direction may hang in a host that does not read.
        upstream.shutdown(Shutdown::Both).ok();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    /// Names lead where their first label says; loopback stands for the public network, but for one address of it.
    const TEST: World = World {
        resolve: |host, port| match host.to_string().split('.').next() {
            Some("private") => Ok(vec![SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), port))]),
            Some("nowhere") => Err(io::Error::other("no such name")),
            Some(_) | None => Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]),
        },
        is_open: |address| address == IpAddr::V4(Ipv4Addr::LOCALHOST),
    };

    fn ask(proxy: &Proxy, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(proxy.socket()).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A41, A42, A43: one tunnel to one host that is named; the rest is refused with the reason.
    #[test]
    fn a_tunnel_leads_to_what_is_named_and_public() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let rules = ["good.test", "private.test", "nowhere.test"]
            .map(|name| format!("{name}:{port}").parse().unwrap());
        let proxy = Proxy::start(rules.to_vec(), TEST).unwrap();
        let answering = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(b"world").unwrap();
            heard
        });
        let said =
            ask(&proxy, format!("CONNECT good.test:{port} HTTP/1.1\r\nHost: x\r\n\r\nhello").as_bytes());
        assert_eq!(said, "HTTP/1.1 200 Connection established\r\n\r\nworld");
        assert_eq!(&answering.join().unwrap(), b"hello");
        for (request, status, why) in [
            (
                format!("CONNECT evil.test:{port} HTTP/1.1\r\n\r\n"),
                "403",
                "not allowed by permissions.network",
            ),
            (format!("CONNECT good.test.evil:{port} HTTP/1.1\r\n\r\n"), "403", "not allowed"),
            (format!("CONNECT good.test:{port}\0 HTTP/1.1\r\n\r\n"), "403", "not a port"),
            (format!("CONNECT private.test:{port} HTTP/1.1\r\n\r\n"), "403", "leads to no public address"),
            (format!("CONNECT nowhere.test:{port} HTTP/1.1\r\n\r\n"), "502", "no such name"),
            ("CONNECT good.test:1 HTTP/1.1\r\n\r\n".to_owned(), "403", "not allowed"),
            ("GET http://good.test/ HTTP/1.1\r\n\r\n".to_owned(), "405", "only CONNECT"),
            ("CONNECT  good.test HTTP/1.1\r\n\r\n".to_owned(), "405", "only CONNECT"),
            ("x".repeat(limits::PROXY_HEAD_BYTES_MAX), "431", "too long"),
        ] {
            let said = ask(&proxy, request.as_bytes());
            assert!(
                said.starts_with(&format!("HTTP/1.1 {status}")) && said.contains(why),
                "{request:?}: {said}"
            );
        }
        let socket = proxy.socket();
        drop(proxy);
        assert!(!socket.exists());
    }

    /// A43: whoever neither reads nor writes does not keep a tunnel for ever, on either side and in either direction.
    #[test]
    fn a_tunnel_waits_for_nobody_without_end() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let upstream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        // The same socket, to be looked at when the tunnel is gone.
        let watched = upstream.try_clone().unwrap();
        let (client, other) = UnixStream::pair().unwrap();
        drop((server.accept().unwrap(), other.shutdown(Shutdown::Write)));
        tunnel(&client, upstream, b"").unwrap();
        let patience = Some(limits::TUNNEL_SILENCE_MAX);
        let times = (client.read_timeout().unwrap(), client.write_timeout().unwrap());
        assert_eq!(times, (patience, patience));
        let times = (watched.read_timeout().unwrap(), watched.write_timeout().unwrap());
        assert_eq!(times, (patience, patience));
        let (client, other) = UnixStream::pair().unwrap();
        (&other).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let gate = Gate { rules: Vec::new(), world: TEST, tunnels: Default::default() };
        serve(&gate, &client).unwrap();
        assert_eq!(client.write_timeout().unwrap(), Some(limits::PROXY_HEAD_TIME_MAX));
    }
}
