//! What a process inside says about itself, and what is made of it.
//!
//! Owns the questions of the self-probe and their answers. The one who answers is our own program, run as any command is
//! run; it tries what must not work. Refuses to take a layer's word for it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits;

/// The word by which our program is told to answer.
pub const REPORT: &str = "__sandbox-report";

/// What is tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Questions {
    /// A file outside the workspace.
    pub(super) secret: PathBuf,
    /// A directory outside the workspace.
    pub(super) outside: PathBuf,
    /// A directory that mounts leave writable and Landlock does not.
    pub(super) unlisted: PathBuf,
    /// Where somebody listens on the machine's loopback.
    pub(super) port: u16,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) reads_secret: bool,
    pub(super) writes_outside: bool,
    pub(super) writes_unlisted: bool,
    pub(super) connects: bool,
    pub(super) capabilities: bool,
    pub(super) no_new_privileges: bool,
    pub(super) seccomp: bool,
    pub(super) process_namespace: Option<PathBuf>,
    pub(super) descriptors: Vec<u32>,
}

/// Answers the questions given as JSON, in JSON.
pub fn answer(questions: &str) -> Option<String> {
    let questions: Questions = serde_json::from_str(questions).ok()?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, questions.port));
    // Before anything is tried: a connection that succeeds would be counted as a file of ours.
    let descriptors = descriptors();
    let report = Report {
        reads_secret: fs::read(&questions.secret).is_ok(),
        writes_outside: fs::write(questions.outside.join("written"), "x").is_ok(),
        writes_unlisted: fs::write(questions.unlisted.join("written"), "x").is_ok(),
        connects: TcpStream::connect_timeout(&address, limits::PROBE_CONNECT_TIME_MAX).is_ok(),
        capabilities: field(&status, "CapEff:") != "0000000000000000",
        no_new_privileges: field(&status, "NoNewPrivs:") == "1",
        seccomp: field(&status, "Seccomp:") == "2",
        process_namespace: process_namespace(),
        descriptors,
    };
    serde_json::to_string(&report).ok()
}

/// The namespace whose processes we see.
pub(super) fn process_namespace() -> Option<PathBuf> {
    fs::read_link("/proc/self/ns/pid").ok()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim()
}

/// Those open, but for the one that is used to look.
fn descriptors() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let own = Path::new("/proc/self/fd");
    let looking = |number: &u32| {
        fs::read_link(own.join(number.to_string()))
            .is_ok_and(|path| path.starts_with("/proc") && path.ends_with("fd"))
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.filter(|number| !looking(number)).collect();
    numbers.sort_unstable();
    numbers
}
