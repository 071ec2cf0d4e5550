//! The self-probe: does it hold?
//!
//! Owns the one question that counts before the first command: our own program is run as a command would be, tries to
//! read, write and connect where it must not, and says how it is held. Refuses to believe a sandbox that was only
//! configured.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::bwrap::{self, Bubblewrap};
use super::containment::{Containment, Mode, Wrapping};
use super::network::Network;
use super::orders::Limits;
use super::policy::{Host, Policy};
use super::report::{self, Questions, REPORT, Report};
use super::scratch::Scratch;
use super::{Job, More, Options, Proof, Refused, Tools, pids, wrapped};
use crate::limits;

/// Ways to hold a command, the strongest first. Only the first is enough where a sandbox is required.
const WAYS: &[Wrapping] = if cfg!(target_os = "linux") {
    &[Wrapping::Namespaces, Wrapping::Restrictions]
} else if cfg!(target_os = "macos") {
    &[Wrapping::Profile]
} else {
    &[]
};

/// What a command can do that is held by restrictions alone.
const WITHOUT_NAMESPACES: &str = "without namespaces, commands see the machine's processes and sockets, a daemon that hides \
     itself stays, and file modes, shared memory, git's hooks and a state directory inside the workspace are open to them";

const NO_SINGLE_HOSTS: &str = "without namespaces single hosts cannot be allowed, so there is no network";

pub(super) fn prove(options: &Options) -> Result<Proof, Refused> {
    if options.mode == Mode::Off {
        return Ok(Proof { containment: Containment::off(options.network.clone()), tools: nothing(options) });
    }
    let mut missing = Vec::new();
    for way in WAYS {
        match attempt(options, *way) {
            Ok(mut proof) => {
                missing.append(&mut proof.containment.missing);
                proof.containment.missing = missing;
                return Ok(proof);
            }
            Err(reason) => missing.push(reason),
        }
        if options.mode == Mode::Required {
            break;
        }
    }
    if options.mode == Mode::Required {
        if WAYS.is_empty() {
            missing.push("this system has none that longhaul knows".to_owned());
        }
        return Err(Refused { missing });
    }
    let containment =
        Containment { mode: options.mode, missing, ..Containment::off(options.network.clone()) };
    Ok(Proof { containment, tools: nothing(options) })
}

fn nothing(options: &Options) -> Tools {
    Tools {
        wrapping: Wrapping::None,
        bubblewrap: None,
        helper: options.helper.clone(),
        network: options.network.clone(),
        limits: Limits::here(),
        pids: None,
        home_files: Default::default(),
    }
}

/// Tries one way, and what it holds against.
fn attempt(options: &Options, wrapping: Wrapping) -> Result<Proof, String> {
    let tools = look_around(options, wrapping)?;
    let rig = Rig::new()?;
    let report = rig.run(options, &tools)?;
    let (landlock, mut missing) = judge(&report, wrapping, &options.network)?;
    let linux = wrapping != Wrapping::Profile;
    if linux && rustix::process::geteuid().is_root() && tools.pids.is_none() {
        missing.push("for root, the kernel does not bound the number of processes".to_owned());
    }
    let containment = Containment {
        mode: options.mode,
        wrapping,
        landlock,
        seccomp: report.seccomp,
        network: options.network.clone(),
        missing,
    };
    Ok(Proof { containment, tools })
}

/// What there is to hold with. Each of these asks other programs, so they are asked at once: a run that is resumed waits for it.
fn look_around(options: &Options, wrapping: Wrapping) -> Result<Tools, String> {
    thread::scope(|scope| {
        let identity = scope.spawn(|| identity(&options.host));
        let pids = scope.spawn(pids::place);
        let bubblewrap = match wrapping {
            Wrapping::Namespaces => Some(Bubblewrap::find()?),
            Wrapping::Restrictions | Wrapping::Profile | Wrapping::None => None,
        };
        let identity = identity.join().map_err(|_| "who commits could not be found out")?;
        let home_files = [(PathBuf::from(".gitconfig"), identity + NO_GC)].into();
        // Where it cannot be told whether groups hold, there are none.
        let pids = pids.join().ok().flatten();
        Ok(Tools { wrapping, bubblewrap, home_files, pids, ..nothing(options) })
    })
}

/// Whether it holds; if so, whether Landlock does too, and what else is not as it could be.
fn judge(report: &Report, wrapping: Wrapping, network: &Network) -> Result<(bool, Vec<String>), String> {
    let linux = wrapping != Wrapping::Profile;
    let shared = report.process_namespace == report::process_namespace();
    let broken = [
        (report.reads_secret, "read a file outside the workspace"),
        (report.writes_outside, "write outside the workspace"),
        (report.connects && *network != Network::Full, "connect to a service of this machine"),
        (report.capabilities && linux, "use capabilities"),
        (!report.no_new_privileges && linux, "gain privileges"),
        (!report.seccomp && linux, "make every system call"),
        (shared && wrapping == Wrapping::Namespaces, "see the machine's processes"),
        (report.descriptors != [0, 1, 2] && linux, "use open files of ours"),
    ];
    let broken: Vec<_> = broken.into_iter().filter(|(broken, _)| *broken).map(|(_, what)| what).collect();
    if !broken.is_empty() {
        return Err(format!("inside, the self-probe could {}", broken.join(", ")));
    }
    let landlock = linux && !report.writes_unlisted;
    let missing = [
        (linux && !landlock, "the kernel has no Landlock (Linux 5.13 or newer has it)"),
        (wrapping == Wrapping::Restrictions, WITHOUT_NAMESPACES),
        (matches!(network, Network::Hosts(_)) && wrapping != Wrapping::Namespaces, NO_SINGLE_HOSTS),
    ];
    let missing = missing.into_iter().filter(|(there, _)| *there).map(|(_, what)| what.to_owned());
    Ok((landlock, missing.collect()))
}

/// A workspace to be held in, and things outside of it.
struct Rig {
    directory: Scratch,
    listener: TcpListener,
}

impl Rig {
    fn new() -> Result<Rig, String> {
        let failed = |error: std::io::Error| format!("the self-probe could not be set up: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let rig = Rig { directory: Scratch::new()?, listener };
        fs::create_dir(rig.workspace()).map_err(failed)?;
        fs::create_dir(rig.directory.join("outside")).map_err(failed)?;
        fs::write(rig.directory.join("secret"), "secret").map_err(failed)?;
        Ok(rig)
    }

    fn workspace(&self) -> PathBuf {
        self.directory.join("workspace")
    }

    fn run(&self, options: &Options, tools: &Tools) -> Result<Report, String> {
        let namespaces = tools.wrapping == Wrapping::Namespaces;
        let outside = self.directory.join("outside");
        let questions = Questions {
            secret: self.directory.join("secret"),
            // `/dev` is a mount of the command's own; only Landlock keeps it from being written to.
            unlisted: if namespaces { "/dev".into() } else { outside.clone() },
            outside,
            port: self.listener.local_addr().map_or(0, |address| address.port()),
        };
        let questions = serde_json::to_string(&questions).map_err(|error| error.to_string())?;
        let helper = if namespaces { Path::new(bwrap::HELPER) } else { &tools.helper };
        let words = [helper.into(), REPORT.into(), questions.into()];
        let policy = Policy::new(&options.host, &self.workspace(), options.network.clone());
        let policy = policy.map_err(|error| error.to_string())?;
        let (workspace, more) = (self.workspace(), More::default());
        let job = Job { workspace: &workspace, words: &words, environment: &[], more };
        let wrapped = wrapped::wrap(tools, &policy, &job, None)?;
        let said = run(wrapped.command)?;
        serde_json::from_str(&said).map_err(|_| "the self-probe gave no answer".to_owned())
    }
}

/// What it printed, if it ended well and in time.
fn run(mut command: Command) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("the self-probe could not be run: {error}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if start.elapsed() > limits::PROBE_TIME_MAX {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            let seconds = limits::PROBE_TIME_MAX.as_secs();
            return Err(format!("the self-probe hung: it gave no answer in {seconds} s"));
        }
        thread::sleep(limits::PROBE_LOOK_PAUSE);
    };
    let (said, complaint) = printed(&mut child);
    if status.success() {
        return Ok(said);
    }
    let complaint = complaint.lines().next().unwrap_or("").to_owned();
    Err(format!("the self-probe failed: {complaint} ({status})"))
}

/// Both ends are short, so they fit into their pipes.
fn printed(child: &mut Child) -> (String, String) {
    let (mut said, mut complaint) = (String::new(), String::new());
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut said).ok();
    }
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut complaint).ok();
    }
    (said, complaint)
}

/// Who commits, as git's settings of this user say; the rest of them may name programs and hold passwords. Git is told where
/// they are, and none of our keys.
fn identity(host: &Host) -> String {
    let known = ["HOME", "XDG_CONFIG_HOME"].map(OsStr::new);
    let known = host.environment.iter().filter(|(name, _)| known.contains(&name.as_os_str()));
    let mut git = Command::new("git");
    git.args(["config", "--global", "--null", "--get-regexp", r"^user\.(name|email)$"]).stdin(Stdio::null());
    // This git is not held, so it is the one that we find, and not the agent's.
    git.env_clear().envs(known).envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let said = git.stderr(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
    settings_of(&String::from_utf8_lossy(&said))
}

/// Nobody sees to the user's repository behind his back: there are parts of it that git can only read here, and of that it would
/// leave a complaint (`gc.log`) for him.
const NO_GC: &str = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// Git's answer as a file of settings. What is set again is set last, as in the file it is from.
fn settings_of(said: &str) -> String {
    let mut text = "[user]\n".to_owned();
    for (key, value) in said.split('\0').filter_map(|entry| entry.split_once('\n')) {
        let value = value.trim().replace(['\\', '"', '\n'], "");
        if let Some(key) = key.strip_prefix("user.").filter(|_| !value.is_empty()) {
            text.push_str(&format!("\t{key} = \"{value}\"\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            reads_secret: false,
            writes_outside: false,
            writes_unlisted: false,
            connects: false,
            capabilities: false,
            no_new_privileges: true,
            seccomp: true,
            process_namespace: Some("pid:[1]".into()),
            descriptors: vec![0, 1, 2],
        }
    }

    /// The name is the user's own text: it can set nothing else.
    #[test]
    fn who_commits_is_all_that_is_taken_over() {
        let said = "user.name\nAda \\ \"L\"\n[core]\0user.email\n\0user.email\na@b\0";
        assert_eq!(settings_of(said), "[user]\n\tname = \"Ada  L[core]\"\n\temail = \"a@b\"\n");
        assert_eq!(settings_of(""), "[user]\n");
    }

    /// A32, A34, A36, A39, A41: one thing that works inside and must not is enough to refuse.
    #[test]
    fn every_hole_is_named() {
        let judged = |change: fn(&mut Report), network| {
            let mut report = report();
            change(&mut report);
            judge(&report, Wrapping::Namespaces, &network)
        };
        let (landlock, missing) = judged(|_| {}, Network::None).unwrap();
        assert!(landlock && !missing.iter().any(|what| what.contains("Landlock")));
        let (landlock, missing) = judged(|report| report.writes_unlisted = true, Network::None).unwrap();
        assert!(!landlock && missing[0].contains("no Landlock"));
        type Hole = fn(&mut Report);
        let holes: [(Hole, &str); 8] = [
            (|report| report.reads_secret = true, "read a file outside the workspace"),
            (|report| report.writes_outside = true, "write outside the workspace"),
            (|report| report.connects = true, "connect to a service of this machine"),
            (|report| report.capabilities = true, "use capabilities"),
            (|report| report.no_new_privileges = false, "gain privileges"),
            (|report| report.seccomp = false, "make every system call"),
            (|report| report.process_namespace = report::process_namespace(), "see the machine's processes"),
            (|report| report.descriptors.push(7), "use open files of ours"),
        ];
        for (hole, what) in holes {
            assert_eq!(judged(hole, Network::None), Err(format!("inside, the self-probe could {what}")));
        }
        assert!(judged(|report| report.connects = true, Network::Full).is_ok());
    }
}
