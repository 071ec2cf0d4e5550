//! What all runs of one state directory have used, read from their journals, and a performer that asks no model before it
//! has looked. Counts; whether it is enough is core's to say.
//!
//! A question is on record before it is asked, so of two runs that ask at the same moment each sees the other: they may both
//! hold back, but never both overspend. There is no file of its own to be lost or to be wrong after a crash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use longhaul_core::budget::{Account, Budget, Exhausted, day_of};
use longhaul_core::codec;
use longhaul_core::conversation::Usage;
use longhaul_core::event::{Aside, Event};
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::AsideReserve;
use longhaul_core::time::Timestamp;
use longhaul_store::{Home, Reader, Record};
use longhaul_tools::Cancel;

use crate::clock::Clock;
use crate::error::Error;
use crate::limits::{DAY_NS, FIRST_REPLY_LOOK_MS, FIRST_REPLY_LOOKS_MAX};
use crate::perform::{Performer, Work};
use crate::spent::Noted;

pub struct Accounts {
    home: Arc<Home>,
    budget: Budget,
    clock: Arc<dyn Clock>,
    books: Mutex<HashMap<RunId, Book>>,
}

impl Accounts {
    pub fn new(home: Arc<Home>, budget: Budget, clock: Arc<dyn Clock>) -> Accounts {
        Accounts { home, budget, clock, books: Mutex::default() }
    }

    /// Is there enough for the questions that are on record as being asked, that of `run` among them?
    pub fn look(&self, run: &RunId) -> Found {
        let exhausted = match self.account(self.clock.now()) {
            Ok(account) => self.budget.exhausted(&account),
            Err(error) => self.budget.uncounted(&error.to_string()),
        };
        match exhausted {
            Some(exhausted) => Found::Exhausted(exhausted),
            None if self.others_find_out(run) => Found::Unknown,
            None => Found::Enough,
        }
    }

    /// As long as nobody has heard a reply, nobody knows what one takes: the run with the first name asks alone.
    fn others_find_out(&self, run: &RunId) -> bool {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let asks = |(other, book): (&RunId, &Book)| other < run && book.is_asking && book.is_held;
        books.values().all(|book| book.last.is_none()) && books.iter().any(asks)
    }

    /// What was used on the day of `now` and ever, and what is being asked.
    pub fn account(&self, now: Timestamp) -> Result<Account, Error> {
        let today = day_of(now);
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let journals = self.home.all_journals()?;
        // They come in the order of their names.
        books.retain(|run, _| journals.binary_search_by(|(there, _)| there.cmp(run)).is_ok());
        for (run, changed_ns) in &journals {
            // A journal in the fallback says nothing of when it changed.
            let before_today = *changed_ns != 0 && *changed_ns < today.saturating_mul(DAY_NS);
            if !before_today || self.budget.looks_back() {
                self.bring_up_to_date(run, *changed_ns, today, books.entry(run.clone()).or_default());
            }
        }
        let dearest =
            books.values().map(|book| book.dearest).max_by_key(|usage| (usage.cost, usage.tokens()));
        let mut account = Account::default();
        for (run, book) in books.iter() {
            account.repo.add(&book.ever);
            if let Some(noted) = &book.noted {
                let lost = noted.usage.without(&used_by_all(&books, run));
                account.repo.add(&lost);
                let day =
                    noted.at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64 / DAY_NS);
                account.day.add(&if day == today { lost } else { Usage::default() });
            }
            if book.day == today {
                account.day.add(&book.of_day);
            }
            if book.is_asking && book.is_held {
                // Of a run that has heard no reply yet the dearest reply of all is expected.
                account.under_way.add(&book.expected().or(dearest).unwrap_or_default());
            }
        }
        Ok(account)
    }

    /// A journal that cannot be read to its end counts as far as it can be: it hides no other.
    fn bring_up_to_date(&self, run: &RunId, changed_ns: i64, today: i64, book: &mut Book) {
        if book.has_ended && book.changed_ns == changed_ns && changed_ns != 0 {
            return;
        }
        let Ok(store) = self.home.store_of(run) else { return };
        book.is_held = store.holder(run).is_ok_and(|holder| holder.is_some());
        let unchanged = book.changed_ns == changed_ns && changed_ns != 0 && !book.is_held;
        if unchanged && book.reader.is_none() {
            return;
        }
        book.changed_ns = changed_ns;
        if book.reader.is_none() || !book.read(today) {
            // Read anew: nobody had it open, or it was taken back to an earlier state meanwhile.
            *book =
                Book { is_held: book.is_held, changed_ns, reader: store.reader(run).ok(), ..Book::default() };
            book.read(today);
        }
        if !book.is_held {
            book.reader = None;
        }
        book.noted = Noted::of(&self.home, run);
    }
}

/// What a run has used with all below it, whose names begin with its own.
fn used_by_all(books: &HashMap<RunId, Book>, run: &RunId) -> Usage {
    let is_below =
        |other: &RunId| other.as_str().strip_prefix(run.as_str()).is_some_and(|rest| rest.starts_with('.'));
    let mut used = Usage::default();
    books
        .iter()
        .filter(|(other, _)| *other == run || is_below(other))
        .for_each(|(_, book)| used.add(&book.ever));
    used
}

/// What a look at the accounts says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Enough,
    Exhausted(Exhausted),
    /// Another run is about to find out what a reply takes.
    Unknown,
}

/// What one run has used.
#[derive(Default)]
struct Book {
    /// Kept while somebody writes the journal, so that only what is new is read.
    reader: Option<Box<dyn Reader>>,
    changed_ns: i64,
    /// The last day on which it used anything, and what it used then.
    day: i64,
    of_day: Usage,
    ever: Usage,
    /// What it had used before it was taken back to an earlier point, until that is on its record.
    noted: Option<Noted>,
    /// The last reply: the next is expected to take as much.
    last: Option<Usage>,
    /// The same for what is asked beside the conversation, perhaps of another model, and which of it is being asked.
    asides: AsideReserve,
    aside: Option<Aside>,
    dearest: Usage,
    is_asking: bool,
    is_held: bool,
    has_ended: bool,
}

impl Book {
    /// Reads on. False if the journal is not the one that was begun.
    fn read(&mut self, today: i64) -> bool {
        let Some(mut reader) = self.reader.take() else { return false };
        let read = reader.poll(&mut |record| {
            self.take(record, today);
            Ok(())
        });
        self.reader = Some(reader);
        read.is_ok()
    }

    fn take(&mut self, record: Record<'_>, today: i64) {
        // What a newer longhaul wrote is stepped over.
        let Ok(event) = codec::decode(record.seq, record.kind, record.version, record.payload) else {
            return;
        };
        if let Event::TurnStarted { .. } = &event {
            (self.is_asking, self.aside) = (true, None);
        }
        if let Event::AsideStarted { aside, .. } = &event {
            (self.is_asking, self.aside) = (true, Some(*aside));
        }
        if let Event::AsideEnded { aside, usage: Some(usage), .. } = &event {
            self.asides.heard(*aside, *usage);
        }
        if let Event::ModelReplied { usage, .. } = &event {
            self.last = Some(*usage);
            self.spend(record.at, today, usage);
        }
        if let Event::TurnFailed { usage: Some(usage), .. } | Event::AsideEnded { usage: Some(usage), .. } =
            &event
        {
            self.spend(record.at, today, usage);
        }
        if let Event::SpentBefore { usage } = &event {
            self.count(record.at, today, usage);
        }
        if let Event::TurnFailed { .. } | Event::AsideEnded { .. } | Event::ModelReplied { .. } = &event {
            self.is_asking = false;
        }
        if let Event::StatusChanged { to, .. } = &event {
            self.is_asking = false;
            self.has_ended = to.is_terminal();
        }
    }

    /// What is being asked is expected to take what it took the last time.
    fn expected(&self) -> Option<Usage> {
        self.aside.and_then(|aside| self.asides.of(aside)).or(self.last)
    }

    fn spend(&mut self, at: Timestamp, today: i64, usage: &Usage) {
        self.count(at, today, usage);
        if (usage.cost, usage.tokens()) > (self.dearest.cost, self.dearest.tokens()) {
            self.dearest = *usage;
        }
    }

    fn count(&mut self, at: Timestamp, today: i64, usage: &Usage) {
        let day = day_of(at);
        // A clock that was set back does not take what was spent out of today.
        if day != self.day && (day == today || self.day != today) {
            (self.day, self.of_day) = (day, Usage::default());
        }
        if day == self.day {
            self.of_day.add(usage);
        }
        self.ever.add(usage);
    }
}

/// Performs nothing that costs money before it has looked whether there is any left.
pub struct Frugal {
    pub performer: Arc<dyn Performer>,
    pub accounts: Arc<Accounts>,
    pub run: RunId,
}

impl Performer for Frugal {
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>> {
        if !matches!(work, Work::CallModel { .. } | Work::AskAside { .. }) {
            return self.performer.perform(work, cancel);
        }
        let (accounts, performer) = (Arc::clone(&self.accounts), Arc::clone(&self.performer));
        let run = self.run.clone();
        Box::pin(async move {
            for _ in 0..FIRST_REPLY_LOOKS_MAX {
                let (accounts, run) = (Arc::clone(&accounts), run.clone());
                match tokio::task::spawn_blocking(move || accounts.look(&run)).await {
                    Ok(Found::Exhausted(exhausted)) => return Some(Input::OutOfBudget(exhausted)),
                    Ok(Found::Enough) | Err(_) => break,
                    Ok(Found::Unknown) => tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(FIRST_REPLY_LOOK_MS)) => {}
                        () = cancel.cancelled() => return None,
                    },
                }
            }
            performer.perform(work, cancel).await
        })
    }
}
