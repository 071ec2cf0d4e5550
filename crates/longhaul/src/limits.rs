//! Every bound the terminal enforces, each with its reason.

/// Settings, and agent files, are read whole; a real one is a page, and a megabyte of either is a mistake.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How often a follower looks for more; a journal has no bell to ring.
pub const FOLLOW_LOOK_MS: u64 = 100;

/// How long a follower waits for the last events of a run that has ended while its process lives on.
pub const LAST_WORDS_MS_MAX: u64 = 30_000;

/// How long nobody may drive a run before its follower gives up: a background process needs a moment to take it up.
pub const UNDRIVEN_MS_MAX: u64 = 3000;

/// How long a live driver may take to obey before we say that it has not. It looks five times a second.
pub const OBEY_MS_MAX: u64 = 5000;

/// The pause between two looks whether a command was obeyed.
pub const OBEY_LOOK_MS: u64 = 50;

/// How deep a tree of runs is shown: deeper than any limit on sub-agents. A catalogue that claims more is wrong.
pub const TREE_DEPTH_MAX: usize = 32;

/// How long any one moment of the demo may take to come. Far more than it needs on a slow machine.
pub const DEMO_MOMENT_MS_MAX: u64 = 60_000;

/// How long a server of this machine may take to say which models it has. One that is there answers in a few milliseconds.
pub const LOCAL_PROBE_MS: u64 = 500;

/// How long a service elsewhere may take to say which models it has, before the table of known ones is shown instead.
pub const SERVICE_PROBE_MS: u64 = 5_000;

/// Repositories a user may trust at a time. A list nobody can read any more protects nobody.
pub const TRUSTED_REPOSITORIES_MAX: usize = 1000;

/// Lines of the prompt's history that are kept.
pub const HISTORY_LINES_MAX: usize = 1000;

/// A mark of ownership, and the secret it is made from, are one line of hexadecimal digits.
pub const MARK_BYTES_MAX: u64 = 256;

/// How many of the ways in which an answer does not fit its schema are said. More would hide the first.
pub const SCHEMA_PROBLEMS_MAX: usize = 3;

/// A duration that is typed may be a year at most: more is a mistake.
pub const DURATION_MS_MAX: u64 = 365 * 86_400_000;

/// Characters of what is said about an agent to those who may give it errands.
pub const ROLE_CHARS_MAX: usize = 160;

/// Bytes of a need that are shown in a line.
pub const NEED_LINE_BYTES_MAX: usize = 300;
/// How often one task of a list may be begun in one go. What fails ten times fails.
pub const TASK_ATTEMPTS_MAX: u32 = 10;

/// Lines side by side that a drawing of steps may have; with more nobody can follow one, and the list says the same.
pub const GRAPH_LANES_MAX: usize = 16;
/// Letters of a task in the name of a branch: a few words, so that it can be read and typed.
pub const BRANCH_TASK_LETTERS_MAX: usize = 40;

/// Tokens of the smallest window that a run is created for: less does not hold the instructions, and was typed in thousands.
pub const CONTEXT_WINDOW_MIN: u64 = 512;

/// A session that nobody has used for so long is marked in the list: it may have been forgotten.
pub const SESSION_UNUSED_MAX: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 60 * 60);

/// Of sessions that nobody has used for long, so many are named.
pub const SESSIONS_NAMED_MAX: usize = 5;

/// Bytes of a night's file. It is read whole; fifty experiments with all that was seen of them are far less.
pub const NIGHT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of what an agent said last that a night keeps; all of it is in the run.
pub const NIGHT_SAID_BYTES_MAX: usize = 4 * 1024;

/// Files that a rewind names one by one. More are counted.
pub const FILES_SHOWN_MAX: usize = 40;

/// Bytes of what a check printed on merged files that are shown: its end says what is wrong.
pub const MERGE_OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// Runs of a session that are looked at for one that is paused there. Older ones were passed over before.
pub const SESSION_RUNS_LOOKED_AT_MAX: usize = 20;
/// An answer typed at the terminal. More than a terminal gives in one line.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// How often it is looked whether somebody answered elsewhere what is asked at the terminal.
pub const ELSEWHERE_LOOK_MS: u64 = 500;

/// Bytes of stored files below which `workspace cleanup` leaves them as they are: it would free little, and the next checkpoint of
/// every workspace would have to read all of it again.
pub const CHECKPOINTS_PRUNED_FROM: u64 = 64 * 1024 * 1024;

/// How long stored files are kept that no run names any more: what stood there before a rewind, and removed runs. Long enough to
/// notice a mistake.
pub const UNNAMED_KEPT: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);

/// The same when there are more than `checkpoints.quota`. Long enough that nobody is still at it.
pub const UNNAMED_KEPT_OVER_QUOTA: std::time::Duration = std::time::Duration::from_secs(3600);

/// Characters of one cell of a table that goes to a file or a pipe; a terminal gets fewer, and `--json` all of them.
pub const CELL_CHARS_MAX: usize = 1000;

/// Characters of a command in the list of what waits for a person; `approvals show` has all of it.
pub const ACTION_CHARS_MAX: usize = 120;

/// What is longer than this is not approved at a glance: whoever does names what was read.
pub const GLANCE_BYTES_MAX: usize = 4096;

/// How much of a digest is enough to name it.
pub const DIGEST_CHARS_MIN: usize = 8;

/// Lines of what would be done, where a person is asked at the terminal: what is asked should not be pushed off it.
pub const EFFECT_LINES_MAX: usize = 200;

/// How long `result` looks whether the files are still those that were verified. A tree of a million files takes less.
pub const TREE_LOOK_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Bytes of a night's objective in the notice that it is over; a telephone shows no more.
pub const NIGHT_NOTICE_BYTES_MAX: usize = 800;

/// Runs that `doctor` names in one line; the directory it names with them has all.
pub const LOST_RUNS_NAMED_MAX: usize = 5;

/// Lines of an agent's own list that whoever watches is shown at once; all of it is in `longhaul logs`.
pub const LIST_LINES_MAX: usize = 20;
