//! From a port inside to the proxy outside.
//!
//! Programs speak to a proxy at an address, and the way out of a world without a network is a socket in a file. Owns the small
//! process that stands between them, inside, held like everything there. Refuses nothing: what is allowed is decided outside.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;

use super::bwrap::{HELPER, PROXY};

/// The word by which our program is told to be the one in between.
pub const RELAY: &str = "__sandbox-relay";

/// Where programs find it.
pub(super) const PORT: u16 = 3128;

/// What tells programs of it: some read one case of a name, some the other.
pub(super) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let address = format!("http://{}:{PORT}", Ipv4Addr::LOCALHOST);
    let to = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let past = ["NO_PROXY", "no_proxy"].map(|name| (name.into(), "localhost,127.0.0.1,::1".into()));
    to.map(|name| (name.into(), address.clone().into())).into_iter().chain(past)
}

/// Starts it. Whoever connects from now on is heard.
pub(super) fn start() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let mut relay = Command::new(HELPER);
    relay.arg(RELAY).env_clear().current_dir("/").stdin(OwnedFd::from(listener));
    // It ends with the world it is in.
    relay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// Is it, with the port as its input.
pub fn relay() -> io::Result<Infallible> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let (inside, _) = listener.accept()?;
        // More threads than there may be, and this one has no way out.
        thread::Builder::new().spawn(move || pass(inside)).ok();
    }
}

fn pass(inside: TcpStream) -> io::Result<()> {
    let outside = UnixStream::connect(PROXY)?;
    let (mut from_inside, mut to_outside) = (inside.try_clone()?, outside.try_clone()?);
    let outwards = thread::Builder::new().spawn(move || {
        io::copy(&mut from_inside, &mut to_outside).ok();
        to_outside.shutdown(Shutdown::Write).ok();
    })?;
    io::copy(&mut &outside, &mut &inside).ok();
    inside.shutdown(Shutdown::Both).ok();
    outwards.join().ok();
    Ok(())
}
