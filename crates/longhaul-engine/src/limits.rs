//! Every bound the engine enforces, each with its reason.

use std::time::Duration;

/// How often a driver looks into its run's inbox. A command takes effect within a second with room to spare, and five
/// looks a second at a directory cost nothing.
pub const INBOX_POLL_MS: u64 = 200;

/// Checkpoints by the clock are no closer than this, whatever was asked: each is an append.
pub const CHECKPOINT_INTERVAL_MS_MIN: u64 = 100;

/// How long cancelled effects may take to say how they ended. A tool kills its processes within this; whoever does not
/// is reported as unknown on resume.
pub const WIND_DOWN_MS_MAX: u64 = 10_000;

/// The catalogue is written at most this often; it is derived, and people do not read faster.
pub const CATALOGUE_WRITE_MS: u64 = 100;

/// How long a run that is let go waits for its last row to be written. It takes a millisecond; a catalogue that takes
/// longer than this is left stale.
pub const CATALOGUE_WAIT_MS_MAX: u64 = 10_000;

/// What is read of an event log to find its last line; a line with the longest text fits several times.
pub const LOG_TAIL_BYTES: u64 = 64 * 1024;

/// Commands a handle may have waiting. More would be the same wish again.
pub const HANDLE_COMMANDS_MAX: usize = 16;

/// The shortest secret that is struck out of what tools print. Shorter ones are placeholders (`none`, `dummy`), and striking
/// them out would garble the text without protecting anything.
pub const SECRET_BYTES_MIN: usize = 8;

/// The shortest beginning of a secret, at the end of what a command in the background has printed so far, that is held back until
/// more comes, if what is left of it is long enough to be known as its end: half of the shortest secret.
pub const SECRET_BEGUN_BYTES_MIN: usize = 4;

/// The shortest beginning or end of a secret that is struck out like the whole. What is shorter says what kind of key it is
/// (`sk-ant-api03-`) and little else.
pub const SECRET_PIECE_BYTES_MIN: usize = 16;

/// The longest stretch of a wait between two looks at the clock: a machine that was asleep is at most this late.
pub const SLEEP_SLICE_MS: u64 = 60_000;

/// Hashing a workspace may take this long; verify commands have limits of their own.
pub const LOOK_TIME_MAX: Duration = Duration::from_secs(600);

/// Of a silence that is allowed, one part in so many is left to a child that is taken up after its process died: a machine that was
/// off over night should not end all that worked on it.
pub const CHILD_HEARING_PART: u32 = 4;

/// How often a parent looks whether a child that somebody else drives has come to rest.
pub const CHILD_POLL_MS: u64 = 1000;

/// How often a child is asked to stop before its parent's end no longer waits for it.
pub const CHILD_STOP_TRIES_MAX: u32 = 25;

/// Files of what agents need; older ones stay until a person removes them.
pub const NEEDS_MAX: u32 = 9999;
/// How often one notice is tried on one way while its process lives, and in all. Each try waits twice as long as the one before.
pub const NOTICE_TRIES_MAX: u32 = 4;
pub const NOTICE_TRIES_IN_ALL_MAX: u32 = 20;

/// The wait before a notice is tried again.
pub const NOTICE_BACKOFF_MS: u64 = 1000;

/// When somebody who was told that a run waits is told again: each time four times as late, and at most once a day. With the
/// tries in all that ends after two weeks.
pub const REMINDER_MS_FIRST: i64 = 30 * 60 * 1000;
pub const REMINDER_MS_MAX: i64 = 24 * 60 * 60 * 1000;

/// How often it is looked whether a reminder is due.
pub const REMINDER_LOOK: Duration = Duration::from_secs(60);

/// How long one try may take.
pub const NOTICE_TRY_TIME: Duration = Duration::from_secs(10);

/// How long a process that would end waits for its notices. What is not sent by then is sent when the run is next driven.
pub const NOTICE_CLOSE_TIME: Duration = Duration::from_secs(15);

/// How long it then waits for those to end that were not done. They are killed, so that is short.
pub const NOTICE_END_TIME: Duration = Duration::from_secs(2);

/// Notices that may wait to be sent. A run asks one thing after another; more is a loop.
pub const NOTICES_WAITING_MAX: usize = 256;

/// Bytes of a notice's text: it is read on a telephone.
pub const NOTICE_BYTES_MAX: usize = 1500;

/// What is read of a run's record of notices.
pub const NOTICE_RECORD_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A day, in the unit in which files say when they changed.
pub const DAY_NS: i64 = 86_400_000_000_000;

/// How often, and at what intervals, a run looks whether another has found out what a reply takes: for a minute. A model that
/// takes longer for its first reply is not waited for.
pub const FIRST_REPLY_LOOKS_MAX: usize = 600;
pub const FIRST_REPLY_LOOK_MS: u64 = 100;

/// Every how many looks into the inbox of a child that waits, those below it are looked at as well.
pub const DEEP_LOOKS_EVERY: u32 = 10;

/// Bytes of a task that a notice names it by.
pub const NOTICE_TASK_BYTES_MAX: usize = 200;

/// Bytes of what is asked or was said that a notice has of it; a telephone shows no more.
pub const NOTICE_SAID_BYTES_MAX: usize = 800;

/// Tries at merging what a sub-agent made, each of which only another merge or commit in the same place makes void.
pub const CHILD_MERGE_TRIES_MAX: u32 = 20;

/// Letters of a task in the first line of the commit that merges it.
pub const MERGE_TITLE_LETTERS_MAX: usize = 64;

/// From how many stored files on it is looked only every so often whether they are too much, and how often.
pub const QUOTA_FILES_MANY: u64 = 5_000;
pub const QUOTA_LOOK_EVERY: Duration = Duration::from_secs(60);

/// Images of one request. With more, the strictest of the services takes only small ones.
pub const IMAGES_SHOWN_MAX: usize = 20;

/// Bytes of these. Requests may have some thirty megabytes, and an image is a third longer in one.
pub const IMAGES_SHOWN_BYTES_MAX: u64 = 20_000_000;

/// How many are left out at once when there are too many. So many of the largest fit.
pub const IMAGES_SHOWN_STEP: usize = 5;

/// How many letters of a command are in the notice of somebody who asks for leave to run it.
pub const NOTICE_COMMAND_LETTERS_MAX: usize = 120;

/// How many letters of a command are shown of one that cannot be taken back.
pub const COMMAND_SHOWN_MAX: usize = 80;
