//! Going through the files of a workspace, with all cores.
//!
//! Owns the order of work: a stack of directories and of handfuls of files, taken by a few threads. The answers come in no
//! order, so each tool sorts its own. Refuses to follow a link, to enter `.git`, and to go on for ever: what was left
//! out, and why, is told with the result.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use longhaul_core::tool::Outcome;
use longhaul_workspace::{Directory, Entry, EntryKind, Workspace};

use crate::limits;
use crate::patience::Patience;
use crate::rules::Rules;

/// What a walk passes over.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Enter and show what begins with a dot.
    pub(crate) hidden: bool,
    /// Enter and show what an ignore file names.
    pub(crate) ignored: bool,
}

/// A file or a link that a walk came by.
pub(crate) struct Seen<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) name: &'a OsStr,
    /// Below the workspace's root.
    pub(crate) path: &'a Path,
    pub(crate) kind: EntryKind,
}

/// What is done with each. One is made for each thread, by each tool that walks; the walk calls it.
pub(crate) trait Visitor: Send {
    /// The error ends the walk and is the call's outcome.
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome>;
}

/// What was not looked at.
#[derive(Default)]
pub(crate) struct Missed {
    unreadable: u64,
    /// The first of them, with its reason.
    example: Option<String>,
    files: usize,
}

/// Visits every file and link below `start`; answers the visitors, to be put together.
pub(crate) fn walk<V: Visitor>(
    workspace: &Workspace,
    start: Directory,
    scope: Scope,
    patience: Patience<'_>,
    make: impl Fn() -> V + Sync,
) -> Result<(Vec<V>, Missed), Outcome> {
    let rules = if scope.ignored { None } else { Rules::above(workspace, start.path()).ok() };
    let rules = rules.unwrap_or_else(Rules::none);
    let start = Arc::new(start);
    let queue = Queue::new(Job::Open { directory: Arc::clone(&start), rules });
    let round = Round { start: &start, scope, patience, queue: &queue };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(limits::WALK_THREADS_MAX);
    let visitors = thread::scope(|scope| {
        let work = || {
            let mut visitor = make();
            while let Some(job) = queue.next() {
                let _busy = Busy(&queue);
                if let Err(outcome) = round.perform(job, &mut visitor) {
                    queue.stop(outcome);
                }
            }
            visitor
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = handles.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    queue.into_missed().map(|missed| (visitors, missed))
}

/// A path in one line, whatever it is made of: a name may hold line breaks.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().replace(|letter: char| letter.is_control(), "\u{FFFD}")
}

impl Missed {
    /// One line for the end of a result; empty when nothing was missed.
    pub(crate) fn note(&self) -> String {
        let mut note = String::new();
        if let Some(example) = &self.example {
            note.push_str(&format!("[not read: {}; {example}]\n", self.unreadable));
        }
        if self.files > limits::WALK_FILES_MAX {
            note.push_str(&format!("[stopped after {} files; give a path]\n", limits::WALK_FILES_MAX));
        }
        note
    }

    pub(crate) fn add(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        self.unreadable += 1;
        let example = || format!("`{}`: {error}", shown(path)).chars().take(200).collect();
        self.example.get_or_insert_with(example);
    }

    pub(crate) fn merge(&mut self, other: Missed) {
        self.unreadable += other.unreadable;
        self.example = self.example.take().or(other.example);
        self.files += other.files;
    }
}

enum Job {
    Open { directory: Arc<Directory>, rules: Arc<Rules> },
    Enter { path: PathBuf, rules: Arc<Rules> },
    Visit { directory: Arc<Directory>, files: Vec<(PathBuf, EntryKind)> },
}

struct Round<'a> {
    start: &'a Directory,
    scope: Scope,
    patience: Patience<'a>,
    queue: &'a Queue,
}

impl Round<'_> {
    fn perform<V: Visitor>(&self, job: Job, visitor: &mut V) -> Result<(), Outcome> {
        self.patience.check()?;
        match job {
            Job::Open { directory, rules } => self.list(&directory, &rules),
            Job::Enter { path, rules } => match self.start.enter_deep(&path) {
                Ok(directory) => self.list(&Arc::new(directory), &rules),
                Err(error) => self.queue.missed(&path, &error),
            },
            Job::Visit { directory, files } => {
                for (path, kind) in files {
                    let name = path.file_name().unwrap_or_default();
                    visitor.visit(&Seen { directory: &directory, name, path: &path, kind })?;
                }
            }
        }
        Ok(())
    }

    fn list(&self, directory: &Arc<Directory>, rules: &Arc<Rules>) {
        let listed = directory.entries().and_then(|entries| {
            let rules =
                if self.scope.ignored { Arc::clone(rules) } else { rules.within(directory, &entries)? };
            Ok((entries, rules))
        });
        match listed {
            Ok((entries, rules)) => self.queue.push(self.jobs(directory, entries, &rules)),
            Err(error) => self.queue.missed(directory.path(), &error),
        }
    }

    /// The files come last, so that they are taken first and the directory is closed soon.
    fn jobs(&self, directory: &Arc<Directory>, entries: Vec<Entry>, rules: &Arc<Rules>) -> Vec<Job> {
        let (mut jobs, mut files) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = directory.path().join(&entry.name);
            let is_directory = entry.kind == EntryKind::Directory;
            if !self.scope.admits(&entry) || (!self.scope.ignored && rules.pass_over(&path, is_directory)) {
                continue;
            }
            match entry.kind {
                EntryKind::Directory => jobs.push(Job::Enter { path, rules: Arc::clone(rules) }),
                EntryKind::File | EntryKind::Link => files.push((path, entry.kind)),
                EntryKind::Special => {}
            }
        }
        while !files.is_empty() {
            let rest = files.len().saturating_sub(limits::WALK_HANDFUL);
            jobs.push(Job::Visit { directory: Arc::clone(directory), files: files.split_off(rest) });
        }
        jobs
    }
}

impl Scope {
    fn admits(self, entry: &Entry) -> bool {
        let hidden = entry.name.as_encoded_bytes().starts_with(b".");
        entry.name != ".git" && (self.hidden || !hidden)
    }
}

/// What is still to be done. Threads wait here while others may yet find more.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    jobs: Vec<Job>,
    busy: usize,
    missed: Missed,
    stopped: Option<Outcome>,
}

impl Queue {
    fn new(first: Job) -> Queue {
        let state = State { jobs: vec![first], busy: 0, missed: Missed::default(), stopped: None };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// `None` once nothing is left and nobody is busy who could add to it.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stopped.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn push(&self, jobs: Vec<Job>) {
        let mut state = self.lock();
        for job in jobs {
            let files = match &job {
                Job::Visit { files, .. } => files.len(),
                Job::Open { .. } | Job::Enter { .. } => 1,
            };
            state.missed.files = state.missed.files.saturating_add(files);
            if state.missed.files <= limits::WALK_FILES_MAX {
                state.jobs.push(job);
            }
        }
        self.changed.notify_all();
    }

    fn missed(&self, path: &Path, error: &std::io::Error) {
        self.lock().missed.add(path, error);
    }

    fn stop(&self, outcome: Outcome) {
        self.lock().stopped.get_or_insert(outcome);
        self.changed.notify_all();
    }

    fn into_missed(self) -> Result<Missed, Outcome> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.stopped.map_or(Ok(state.missed), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One job under way. Ends also when the job panics: nobody is left waiting for it.
struct Busy<'a>(&'a Queue);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}
