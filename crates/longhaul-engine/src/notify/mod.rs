//! Telling people that a run waits for them, has paused or has ended.
//!
//! Owns when something is said, in which ways, and what became of it. It watches a run like any other onlooker: it cannot fail,
//! and nothing it does holds the run up. Every try is on record beside the run before it is made, so that two processes do not say
//! the same; only what died with its process is said again, and who is waited for is reminded, at growing distances.

mod notice;
mod record;
mod way;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::time::Duration;

use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use self::notice::Notice;
use self::record::Record;
pub use self::record::{Line, Outcome, read as read_record};
use self::way::Way;
use crate::clock::Clock;
use crate::limits::{
    NOTICE_BACKOFF_MS, NOTICE_CLOSE_TIME, NOTICE_END_TIME, NOTICE_TRIES_MAX, NOTICES_WAITING_MAX,
    REMINDER_LOOK,
};
use crate::secrets::Secrets;
use crate::watch::Watcher;

/// The settings' `notify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifyConfig {
    /// When; always, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<Occasion>>,
    /// By the desktop's own means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desktop: Option<bool>,
    /// A program and its arguments; it gets the notice as JSON.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where the settings are that name the command: it is run there.
    #[serde(skip)]
    pub base_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    #[serde(default)]
    pub format: Format,
    /// The variable that holds a token, sent as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// All there is to say, as an object.
    #[default]
    Json,
    /// `{"text": …}`, as Slack and those like it take it.
    Slack,
    /// The text as the body and the title as a header, as ntfy takes it.
    Ntfy,
}

/// What may be worth saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    /// A person is asked something.
    Waiting,
    /// It does not go on by itself, and nobody asked for that.
    Paused,
    Completed,
    Failed,
}

impl Occasion {
    pub fn as_str(self) -> &'static str {
        match self {
            Occasion::Waiting => "waiting",
            Occasion::Paused => "paused",
            Occasion::Completed => "completed",
            Occasion::Failed => "failed",
        }
    }
}

impl NotifyConfig {
    pub fn is_empty(&self) -> bool {
        self.desktop != Some(true) && self.command.is_empty() && self.webhook.is_none()
    }

    /// This with what another says going before it.
    #[must_use]
    pub fn under(self, over: NotifyConfig) -> NotifyConfig {
        NotifyConfig {
            on: over.on.or(self.on),
            desktop: over.desktop.or(self.desktop),
            base_dir: if over.command.is_empty() { self.base_dir } else { over.base_dir },
            command: if over.command.is_empty() { self.command } else { over.command },
            webhook: over.webhook.or(self.webhook),
        }
    }

    fn wants(&self, occasion: Occasion) -> bool {
        self.on.as_ref().is_none_or(|on| on.contains(&occasion))
    }

    /// What is wrong with it, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.command.first().is_some_and(|program| program.trim().is_empty()) {
            return Err("notify.command begins with nothing; it is a program and its arguments".to_owned());
        }
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let rest = webhook.url.strip_prefix("https://").or_else(|| webhook.url.strip_prefix("http://"));
        let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        match host {
            None | Some("") => {
                Err("notify.webhook.url must begin with https:// or http:// and name a host".to_owned())
            }
            Some(host) if host.contains('@') => {
                Err("notify.webhook.url holds a password; name a variable with `token_env` instead"
                    .to_owned())
            }
            Some(_) => Ok(()),
        }
    }
}

/// What telling needs.
#[derive(Clone)]
pub struct Options {
    pub config: NotifyConfig,
    /// Where it is written down what was said; nowhere, and then only this process remembers.
    pub record: Option<PathBuf>,
    pub secrets: Secrets,
    /// Variables that no command is given.
    pub withheld: BTreeSet<String>,
    pub clock: Arc<dyn Clock>,
    /// The wait before the second try.
    pub backoff: Duration,
    /// How long what is under way may take once the process would end.
    pub closing: Duration,
    /// How the run of a sub-agent is found, which has what it asks.
    pub below: Below,
}

/// The run of that name as it is now, if it can be read.
pub type Below = Arc<dyn Fn(&RunId) -> Option<Run> + Send + Sync>;

impl Options {
    pub fn new(
        config: NotifyConfig,
        record: Option<PathBuf>,
        secrets: Secrets,
        clock: Arc<dyn Clock>,
    ) -> Options {
        let backoff = Duration::from_millis(NOTICE_BACKOFF_MS);
        Options {
            config,
            record,
            secrets,
            withheld: BTreeSet::new(),
            clock,
            backoff,
            closing: NOTICE_CLOSE_TIME,
            below: Arc::new(|_| None),
        }
    }
}

/// Says things on a thread of its own.
pub struct Notifier {
    teller: Teller,
    ended: blocking::Receiver<()>,
    closing: Duration,
}

enum Word {
    Tell(Notice),
    Close,
}

/// Hands notices on. Cheap to clone.
#[derive(Clone)]
struct Teller {
    words: mpsc::Sender<Word>,
    config: Arc<NotifyConfig>,
    /// Keys that were handed on already.
    told: Arc<Mutex<HashSet<String>>>,
    /// What the run waits for now: who does not answer is reminded of it.
    open: Arc<Mutex<Vec<Notice>>>,
    below: Below,
    /// What each sub-agent asks that rests. It is read once for each rest.
    asked_below: Arc<Mutex<HashMap<RunId, Vec<Notice>>>>,
}

impl Notifier {
    /// `None` if there is nobody to tell, or no thread to be had for it.
    pub fn start(options: Options) -> Option<Notifier> {
        if options.config.is_empty() {
            return None;
        }
        let (words, inbox) = mpsc::channel(NOTICES_WAITING_MAX);
        let (ending, ended) = blocking::channel();
        let config = Arc::new(options.config.clone());
        let (below, closing) = (Arc::clone(&options.below), options.closing);
        let open: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let waited_for = Arc::clone(&open);
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(deliver_all(options, inbox, &waited_for));
            }
            ending.send(()).ok();
        };
        std::thread::Builder::new().name("notifier".to_owned()).spawn(work).ok()?;
        let teller = Teller { words, config, told: Arc::default(), open, below, asked_below: Arc::default() };
        Some(Notifier { teller, ended, closing })
    }

    /// Sees all that happens to a run, and says what is worth saying.
    pub fn watcher(&self) -> Box<dyn Watcher> {
        Box::new(self.teller.clone())
    }

    /// Says what a run waits for now. A process that died may not have come to it.
    pub fn look(&self, run: &Run) {
        self.teller.look(run);
    }

    pub fn tell(&self, notice: Notice) {
        self.teller.tell(notice);
    }

    /// Waits for what is under way, within bounds, and ends what is not done by then.
    pub fn close(self) {
        if self.teller.words.try_send(Word::Close).is_ok() {
            self.ended.recv_timeout(self.closing.saturating_add(NOTICE_END_TIME)).ok();
        }
    }
}

impl Teller {
    fn tell(&self, notice: Notice) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.config.wants(notice.occasion) && told.insert(notice.key.clone()) {
            // A queue that is full is full of the same run's notices; the newest is not worth more than those.
            self.words.try_send(Word::Tell(notice)).ok();
        }
    }

    fn look(&self, run: &Run) {
        let mut open = notice::of_gates(run);
        let mut asked = self.asked_below.lock().unwrap_or_else(PoisonError::into_inner);
        for child in notice::asking(run) {
            let asks = asked
                .entry(child.errand.id.clone())
                .or_insert_with(|| notice::of_child(run, child, &self.below));
            open.extend(asks.iter().cloned());
        }
        open.retain(|notice| self.config.wants(notice.occasion));
        open.iter().cloned().for_each(|notice| self.tell(notice));
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
    }
}

impl Watcher for Teller {
    fn event(&mut self, run: &Run, seq: u64, _at: Timestamp, event: &Event) {
        if let Event::ChildRested { number, .. } = event
            && let Some(child) = run.children.iter().find(|child| child.errand.number == *number)
        {
            self.asked_below.lock().unwrap_or_else(PoisonError::into_inner).remove(&child.errand.id);
        }
        if let Event::StatusChanged { to, cause, .. } = event
            && let Some(notice) = notice::of_status(run, seq, *to, *cause)
        {
            self.tell(notice);
        }
        if let Event::SetUpEnded { error: Some(error), .. } = event
            && let Some(notice) = notice::of_set_up(run, seq, error)
        {
            self.tell(notice);
        }
    }

    fn batch_ended(&mut self, run: &Run) {
        self.look(run);
    }
}

async fn deliver_all(options: Options, mut inbox: mpsc::Receiver<Word>, open: &Mutex<Vec<Notice>>) {
    let ways = way::all(&options);
    let record = Arc::new(Mutex::new(Record::open(options.record.as_deref())));
    let mut under_way = JoinSet::new();
    loop {
        let due = tokio::select! {
            word = inbox.recv() => match word {
                Some(Word::Tell(notice)) => vec![notice],
                Some(Word::Close) | None => break,
            },
            () = options.clock.sleep(REMINDER_LOOK) => open.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        for notice in due {
            let notice = notice.struck(&options.secrets);
            for way in &ways {
                under_way.spawn(deliver(
                    Arc::clone(way),
                    notice.clone(),
                    Arc::clone(&record),
                    options.clone(),
                ));
            }
        }
        while under_way.try_join_next().is_some() {}
    }
    let all = async { while under_way.join_next().await.is_some() {} };
    // A command that hangs would outlive the process.
    if tokio::time::timeout(options.closing, all).await.is_err() {
        under_way.shutdown().await;
    }
}

/// Tries one way until it works, it cannot, or it was tried often enough.
async fn deliver(way: Arc<Way>, notice: Notice, record: Arc<Mutex<Record>>, options: Options) {
    let begin = || {
        record.lock().unwrap_or_else(PoisonError::into_inner).begin(&notice, way.name(), options.clock.now())
    };
    let mut wait = options.backoff;
    for number in 1..=NOTICE_TRIES_MAX {
        let Some(this) = begin() else { return };
        let tried = way.send(&notice.again(this.reminder)).await;
        let (outcome, error, again) = match tried {
            Ok(()) => (Outcome::Delivered, None, false),
            Err(failure) => (Outcome::Failed, Some(failure.why), failure.again),
        };
        let error = error.map(|error| options.secrets.strike(&error).into_owned());
        let at = options.clock.now();
        record.lock().unwrap_or_else(PoisonError::into_inner).end(
            &notice,
            way.name(),
            this.number,
            outcome,
            error,
            at,
        );
        if !again || number == NOTICE_TRIES_MAX {
            return;
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests;
