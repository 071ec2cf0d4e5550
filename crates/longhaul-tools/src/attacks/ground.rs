//! Where attacks are tried: a home with secrets, a state directory, repositories, a process and services, all made for
//! one attempt and taken away after it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use longhaul_workspace::place;
use rustix::process::{Pid, Signal, kill_process};

use super::cases::{Place, Proof};
use crate::limits;
use crate::sandbox::Scratch;

/// What no command may get to see.
const CANARY: &str = "CANARY-4f9c2e";

pub(super) struct Ground {
    base: Scratch,
    place: Place,
    /// Unlike anything else on the machine.
    word: String,
    /// A process of ours, with a secret in its environment.
    victim: Child,
    listener: TcpListener,
    datagrams: UdpSocket,
    /// Open here, and inherited by whatever does not take care.
    open: fs::File,
    /// Services that listen by name.
    sockets: Vec<UnixListener>,
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.victim.kill().and_then(|()| self.victim.wait()).ok();
        for pid in self.left_running() {
            // Ours: its command line holds the word that was made for this attempt.
            Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        for place in ["/tmp", "/dev/shm"] {
            fs::remove_file(Path::new(place).join(format!("{}-made", self.word))).ok();
        }
    }
}

impl Ground {
    pub(super) fn new(place: Place) -> io::Result<Ground> {
        let base = Scratch::new().map_err(io::Error::other)?;
        let word = base.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let open_path = base.join("open-file");
        fs::write(&open_path, CANARY)?;
        let open = fs::File::open(&open_path)?;
        rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty())?;
        let victim = Command::new("sleep")
            .arg("600")
            .env("SECRET", CANARY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        datagrams.set_read_timeout(Some(limits::ATTACK_LOOK_PAUSE))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut ground = Ground { base, place, word, victim, listener, datagrams, open, sockets: Vec::new() };
        ground.furnish()?;
        ground.sockets.push(UnixListener::bind(ground.base.join("out/service"))?);
        ground.sockets.push(ground.abstract_socket()?);
        Ok(ground)
    }

    fn furnish(&self) -> io::Result<()> {
        for directory in ["out", "home/.ssh", "home/.aws", "home/.config/longhaul"] {
            fs::create_dir_all(self.base.join(directory))?;
        }
        for file in [
            "out/file",
            "home/.ssh/id_ed25519",
            "home/.aws/credentials",
            "home/.config/longhaul/longhaul.yaml",
        ] {
            fs::write(self.base.join(file), CANARY)?;
        }
        self.repository()?;
        fs::create_dir_all(self.state().join("runs/run_x/inbox"))?;
        let below = self.base.join("repo/sub/.longhaul");
        fs::create_dir_all(below.join("runs/run_y/inbox"))?;
        fs::write(below.join("owner"), CANARY)?;
        fs::write(self.state().join("runs/run_x/journal"), CANARY)
    }

    fn repository(&self) -> io::Result<()> {
        let repo = self.base.join("repo");
        fs::create_dir(&repo)?;
        let git = |directory: &Path, words: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
            let done = Command::new("git").args(who).args(words).current_dir(directory).output()?;
            if done.status.success() {
                Ok(())
            } else {
                Err(io::Error::other(format!("git {words:?} failed")))
            }
        };
        git(&repo, &["init", "--quiet", "--template=", "--initial-branch=main"])?;
        git(&repo, &["commit", "--quiet", "--allow-empty", "-m", "first"])?;
        match self.place {
            Place::InPlace => Ok(()),
            Place::Worktree => {
                let (path, branch) = (self.workspace(), "work".to_owned());
                place::ensure(&place::Place::Worktree { repo, path, branch, start: None })
                    .map_err(io::Error::other)
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn abstract_socket(&self) -> io::Result<UnixListener> {
        use std::os::linux::net::SocketAddrExt;
        UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(&self.word)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn abstract_socket(&self) -> io::Result<UnixListener> {
        UnixListener::bind(self.base.join("out/other"))
    }

    pub(super) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub(super) fn word(&self) -> &str {
        &self.word
    }

    pub(super) fn state(&self) -> PathBuf {
        match self.place {
            Place::InPlace => self.base.join("repo/.longhaul"),
            Place::Worktree => self.base.join("state"),
        }
    }

    pub(super) fn workspace(&self) -> PathBuf {
        match self.place {
            Place::InPlace => self.base.join("repo"),
            Place::Worktree => self.state().join("workspace/run/run_x"),
        }
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.base.join("repo/longhaul.yaml")
    }

    /// A command or a path with what is only known here.
    pub(super) fn spelled(&self, text: &str) -> String {
        let port = |address: io::Result<std::net::SocketAddr>| {
            address.map_or(0, |address| address.port()).to_string()
        };
        let words = [
            ("{OUT}", self.base.join("out").display().to_string()),
            ("{HOME}", self.home().display().to_string()),
            ("{REPO}", self.base.join("repo").display().to_string()),
            ("{STATE}", self.state().display().to_string()),
            ("{BASE}", self.base.display().to_string()),
            ("{WORD}", self.word.clone()),
            ("{VICTIM}", self.victim.id().to_string()),
            ("{TCP}", port(self.listener.local_addr())),
            ("{UDP}", port(self.datagrams.local_addr())),
            ("{FD}", self.open.as_raw_fd().to_string()),
            ("{CANARY}", CANARY.to_owned()),
        ];
        words.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Did the attack succeed?
    pub(super) fn shows(&self, proof: &Proof, said: &str) -> bool {
        match proof {
            Proof::Said(word) => said.contains(&self.spelled(word)),
            Proof::Made(path) => fs::symlink_metadata(self.spelled(path)).is_ok(),
            Proof::Holds(path, word) => {
                fs::read_to_string(self.spelled(path)).is_ok_and(|text| text.contains(&self.spelled(word)))
            }
            Proof::VictimDied => self.victim_dies(),
            Proof::Received => self.datagrams.recv(&mut [0; 16]).is_ok(),
            Proof::LeftRunning => self.still_running(),
        }
    }

    /// A process that was killed is gone when it next would have run, which on a busy machine is not at once.
    fn victim_dies(&self) -> bool {
        (0..limits::ATTACK_LOOKS_MAX).any(|_| {
            let dead = !victim_lives(&self.victim);
            if !dead {
                thread::sleep(limits::ATTACK_LOOK_PAUSE);
            }
            dead
        })
    }

    /// What is left after the time within which everything must be over.
    fn still_running(&self) -> bool {
        for _ in 0..limits::ATTACK_LOOKS_MAX {
            if self.left_running().is_empty() {
                return false;
            }
            thread::sleep(limits::ATTACK_LOOK_PAUSE);
        }
        true
    }

    /// Processes whose command line holds our word.
    fn left_running(&self) -> Vec<i32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let own = std::process::id().cast_signed();
        let ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(self.word.len()).any(|window| window == self.word.as_bytes())
        };
        pids.filter(|pid| *pid != own).filter(ours).collect()
    }
}

/// Nobody waits for it, so a dead one is still in the table.
fn victim_lives(victim: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X']))
}
