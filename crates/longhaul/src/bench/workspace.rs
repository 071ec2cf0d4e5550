//! Checkpoints, the way back and second workspaces, beside what git itself needs for the same in the same minute.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::git::{self, Listens};
use longhaul_workspace::place::{self, Place};
use longhaul_workspace::source::{Address, Store};
use longhaul_workspace::staged::{self, By};

use super::ground::Ground;
use super::report::{Row, Target};
use super::stats::{median, millis};
use crate::failure::Failure;

/// How much is made and changed, and how often.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceSizes {
    /// Files of the repository that checkpoints are made of.
    pub files: usize,
    /// Files that a rewind brings back.
    pub changed: usize,
    /// Megabytes of history of the repository that workspaces are made of.
    pub megabytes: usize,
    pub rounds: usize,
}

const CHECKPOINT_RATIO_MAX: f64 = 1.5;
const REWIND_RATIO_MAX: f64 = 2.0;
const WORKSPACE_RATIO_MAX: f64 = 2.0;

/// Files of one directory, as in a large repository.
const DIRECTORY_FILES: usize = 100;

/// Files whose history the large repository is made of; each is a megabyte.
const LARGE_FILES: usize = 16;

/// What git wrote in the same second as its index it reads again each time, and so would we.
const SETTLED: Duration = Duration::from_millis(1100);

pub fn measure(ground: &Ground, sizes: &WorkspaceSizes, said: &dyn Fn(&str)) -> Result<Vec<Row>, Failure> {
    said(&format!("a repository of {} files", sizes.files));
    let wide = Wide::new(ground, sizes)?;
    said("checkpoints beside git status");
    let mut rows = wide.checkpoints(sizes)?;
    said("the way back beside git checkout");
    rows.extend(wide.rewinds(sizes)?);
    said(&format!("a repository of {} MB", sizes.megabytes));
    let deep = Deep::new(ground, sizes)?;
    said("second workspaces beside git worktree add");
    rows.extend(deep.seconds(sizes)?);
    Ok(rows)
}

/// A repository of many small files, with two commits: `before`, and `after` with some of them changed.
struct Wide {
    repo: PathBuf,
    state: PathBuf,
}

impl Wide {
    fn new(ground: &Ground, sizes: &WorkspaceSizes) -> Result<Wide, Failure> {
        let wide = Wide { repo: ground.place("wide")?, state: ground.place("wide-state")? };
        for number in 0..sizes.files {
            wide.write(number, "as it was")?;
        }
        run(&wide.repo, &["init", "--quiet", "--initial-branch=main"])?;
        wide.commit("before")?;
        wide.tree()?;
        for number in wide.changed(sizes) {
            wide.write(number, "changed")?;
        }
        wide.commit("after")?;
        run(&wide.repo, &["checkout", "--quiet", "before"])?;
        settle(|| {
            run(&wide.repo, &["status"])?;
            wide.tree()
        })?;
        Ok(wide)
    }

    fn path(&self, number: usize) -> PathBuf {
        let directory = number / DIRECTORY_FILES;
        self.repo.join(format!("part-{}/room-{directory}/file-{number}.txt", directory / 10))
    }

    fn write(&self, number: usize, text: &str) -> Result<(), Failure> {
        let path = self.path(number);
        fs::create_dir_all(path.parent().unwrap_or(&self.repo))?;
        Ok(fs::write(path, format!("file {number}, {text}\n"))?)
    }

    /// Spread over all directories.
    fn changed(&self, sizes: &WorkspaceSizes) -> impl Iterator<Item = usize> + use<> {
        let step = (sizes.files / sizes.changed.max(1)).max(1);
        (0..sizes.files).step_by(step).take(sizes.changed)
    }

    fn commit(&self, name: &str) -> Result<(), Failure> {
        run(&self.repo, &["add", "--all"])?;
        let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        run(&self.repo, &[&who[..], &["commit", "--quiet", "-m", name]].concat())?;
        run(&self.repo, &["tag", name])
    }

    /// A checkpoint, as the engine makes one.
    fn tree(&self) -> Result<String, Failure> {
        let stored = Vault::open(&self.repo, &self.state).and_then(|vault| vault.store());
        Ok(stored.map_err(anyhow::Error::from)?.tree)
    }

    /// What a rewind does to files, as the engine asks for it.
    fn bring(&self, tree: &str) -> Result<usize, Failure> {
        let bring = || {
            let vault = Vault::open(&self.repo, &self.state)?;
            let now = vault.store()?.tree;
            let changes = vault.way(&now, tree)?;
            vault.write(&now, tree)?;
            Ok::<_, longhaul_workspace::checkpoints::Error>(changes.len())
        };
        let changes = bring().map_err(anyhow::Error::from)?;
        let checkout = Checkout::open(&self.repo, &self.state.join("scratch"), Filters::Absent);
        staged::settle(&checkout.map_err(anyhow::Error::from)?, By::Agent).map_err(anyhow::Error::from)?;
        Ok(changes)
    }

    fn checkpoints(&self, sizes: &WorkspaceSizes) -> Result<Vec<Row>, Failure> {
        let mut pairs = Pairs::default();
        for round in 0..sizes.rounds {
            self.write(sizes.files / 2, &format!("round {round}"))?;
            let theirs = timed(|| run(&self.repo, &["status"]))?;
            let ours = timed(|| self.tree())?;
            pairs.push(theirs, ours);
        }
        run(&self.repo, &["checkout", "--quiet", "--force", "before"])?;
        let files = sizes.files;
        Ok(vec![
            pairs.reference("git_status", format!("git status of {files} files, one changed")),
            pairs.row("checkpoint", "a checkpoint of the same", CHECKPOINT_RATIO_MAX),
        ])
    }

    fn rewinds(&self, sizes: &WorkspaceSizes) -> Result<Vec<Row>, Failure> {
        let mut pairs = Pairs::default();
        let before = settle(|| self.tree())?;
        for _ in 0..sizes.rounds {
            run(&self.repo, &["checkout", "--quiet", "after"])?;
            let theirs = settle(|| {
                run(&self.repo, &["status"])?;
                timed(|| run(&self.repo, &["checkout", "--quiet", "before"]))
            })?;
            run(&self.repo, &["checkout", "--quiet", "after"])?;
            let (ours, written) = settle(|| {
                self.tree()?;
                let started = Instant::now();
                let written = self.bring(&before)?;
                Ok((started.elapsed(), written))
            })?;
            if written != self.changed(sizes).count() {
                return Err(anyhow::anyhow!("{written} files were brought back").into());
            }
            // Git does not know that its files are back where its next checkout wants them.
            run(&self.repo, &["reset", "--quiet", "--hard", "before"])?;
            pairs.push(theirs, ours);
        }
        let count = self.changed(sizes).count();
        Ok(vec![
            pairs.reference("git_checkout", format!("git checkout that changes {count} files")),
            pairs.row("rewind", "the way back that changes the same", REWIND_RATIO_MAX),
        ])
    }
}

/// A repository with a long history of large files, and a tenth as many small ones as the wide one has.
struct Deep {
    repo: PathBuf,
    places: PathBuf,
}

impl Deep {
    fn new(ground: &Ground, sizes: &WorkspaceSizes) -> Result<Deep, Failure> {
        let deep = Deep { repo: ground.place("deep")?, places: ground.place("deep-places")? };
        run(&deep.repo, &["init", "--quiet", "--initial-branch=main"])?;
        deep.grow(sizes.megabytes, sizes.files / 10)?;
        run(&deep.repo, &["reset", "--quiet", "--hard", "main"])?;
        Ok(deep)
    }

    /// One commit for each megabyte of noise, which neither compresses nor resembles another.
    fn grow(&self, megabytes: usize, files: usize) -> Result<(), Failure> {
        let settings = [("core.compression".into(), "0".to_owned())];
        let mut command = git::command(&self.repo, Listens::ToUser, &settings);
        let mut child = command.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        if let Some(mut pipe) = child.stdin.take() {
            for number in 0..megabytes {
                let file = number % LARGE_FILES;
                write!(
                    pipe,
                    "commit refs/heads/main\ncommitter bench <bench@localhost> {number} +0000\ndata 0\n"
                )?;
                let bytes = noise.megabyte();
                write!(pipe, "M 100644 inline large-{file}.bin\ndata {}\n", bytes.len())?;
                pipe.write_all(&bytes)?;
                pipe.write_all(b"\n")?;
            }
            for number in 0..files {
                let (directory, text) = (number / DIRECTORY_FILES, format!("file {number}\n"));
                write!(pipe, "M 100644 inline room-{directory}/{number}.txt\ndata {}\n{text}\n", text.len())?;
            }
        }
        if child.wait()?.success() {
            return Ok(());
        }
        Err(anyhow::anyhow!("git fast-import failed").into())
    }

    fn seconds(&self, sizes: &WorkspaceSizes) -> Result<Vec<Row>, Failure> {
        let (mut worktrees, mut clones) = (Pairs::default(), Pairs::default());
        self.clone(0)?;
        for round in 1..=sizes.rounds {
            let theirs = self.places.join(format!("git-{round}"));
            let path = theirs.display().to_string();
            let branch = format!("git-{round}");
            let add = ["worktree", "add", "--quiet", "-b", &branch, &path];
            let theirs_took = written(|| run(&self.repo, &add))?;
            worktrees.push(theirs_took, written(|| self.worktree(round))?);
            clones.push(theirs_took, written(|| self.clone(round))?);
            for place in fs::read_dir(&self.places)?.flatten().filter(|place| place.file_name() != "stores") {
                let is_directory = place.file_type()?.is_dir();
                if is_directory { fs::remove_dir_all(place.path()) } else { fs::remove_file(place.path()) }?;
            }
            run(&self.repo, &["worktree", "prune"])?;
        }
        let size = sizes.megabytes;
        Ok(vec![
            worktrees.reference("git_worktree_add", format!("git worktree add of {size} MB of history")),
            worktrees.row("second_worktree", "a run's worktree of the same", WORKSPACE_RATIO_MAX),
            clones.row("second_clone", "a second clone of it, by --repo", WORKSPACE_RATIO_MAX),
        ])
    }

    fn worktree(&self, round: usize) -> Result<(), Failure> {
        let path = self.places.join(format!("worktree-{round}"));
        let branch = format!("longhaul/{round}");
        let place = Place::Worktree { repo: self.repo.clone(), path, branch, start: None };
        Ok(place::ensure(&place).map_err(anyhow::Error::from)?)
    }

    /// With the look for what is new there, as each `--repo` has it.
    fn clone(&self, round: usize) -> Result<(), Failure> {
        let url = self.repo.display().to_string();
        let address = Address::parse(&url, &self.repo).map_err(anyhow::Error::from)?;
        let store = Store::at(&self.places.join("stores"), address, None);
        let start = store.fetch(None).map_err(anyhow::Error::from)?;
        let place = Place::Clone {
            store: store.directory().to_owned(),
            url,
            path: self.places.join(format!("clone-{round}")),
            branch: format!("longhaul/{round}"),
            start,
        };
        Ok(place::ensure(&place).map_err(anyhow::Error::from)?)
    }
}

/// Times of the same work, theirs and ours in turns.
#[derive(Default)]
struct Pairs {
    theirs: Vec<f64>,
    ours: Vec<f64>,
}

impl Pairs {
    fn push(&mut self, theirs: Duration, ours: Duration) {
        self.theirs.push(millis(theirs));
        self.ours.push(millis(ours));
    }

    fn reference(&self, name: &'static str, about: String) -> Row {
        Row::new(name, about, median(&self.theirs), "ms")
    }

    fn row(&self, name: &'static str, about: &str, ratio_max: f64) -> Row {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        Row::new(name, about, median(&self.ours), "ms")
            .ratio(median(&ratios))
            .target(Target::RatioAtMost(ratio_max))
    }
}

/// Bytes that follow no rule a packer could find.
struct Noise(u64);

impl Noise {
    fn megabyte(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 << 20);
        while bytes.len() < 1 << 20 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend(self.0.to_le_bytes());
        }
        bytes
    }
}

fn settle<T>(then: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    std::thread::sleep(SETTLED);
    then()
}

fn timed<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

/// Timed with nothing left to write from before: the kernel holds up whoever writes next, whatever it is that waits for the disk.
fn written<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<Duration, Failure> {
    rustix::fs::sync();
    timed(work)
}

/// Git as its user has it.
fn run(directory: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = git::command(directory, Listens::ToUser, &[]);
    let output = command.args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(anyhow::anyhow!("git {}: {}", arguments.join(" "), said.trim()).into())
}
