//! Every bound the store enforces, each with its reason.

use std::time::Duration;

/// One batch as it lies in the journal. A call's arguments may hold 4 MiB and a turn a few of them; a reader keeps
/// one batch in memory, so this is also what reading costs.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The first zero fill of a journal: most runs end within it.
pub const FILL_BYTES_MIN: u64 = 64 * 1024;

/// Later fills double up to this, so that a long run pays for growing the file about once in a thousand events.
pub const FILL_BYTES_MAX: u64 = 1024 * 1024;

/// Written space always kept ahead of the journal's end, so that a run on a full disk can still write down that it
/// pauses, and a person can still cancel or approve.
pub const RESERVE_BYTES: u64 = 16 * 1024;

/// What a scan reads at once. Larger reads do not make a scan faster.
pub const READ_BYTES: usize = 256 * 1024;

/// Interruptions of one read or write that are taken for chance; more would be a loop that makes no progress.
pub const INTERRUPTS_MAX: u32 = 1000;

/// How long opening waits for a lock: a probe by `holder` has it for an instant, a writer for ever.
pub const LOCK_WAIT: Duration = Duration::from_millis(100);

/// The same if its holder is dead: a process that was being forked off holds it until it has become another program, which
/// takes long on a busy machine.
pub const LOCK_WAIT_DEAD: Duration = Duration::from_secs(2);

/// The pause between two tries at a lock.
pub const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Looks a reader takes at bytes that make no sense before it calls them damage, because a writer may be in the
/// middle of putting them there.
pub const READ_LOOKS_MAX: u32 = 20;

/// The pause between two such looks; all of them together outlast the slowest write of one batch.
pub const READ_PAUSE: Duration = Duration::from_millis(5);

/// A host name as a lock shows it; DNS allows 253.
pub const HOST_CHARS_MAX: usize = 253;

/// The line in a lock file: a host name, at most six bytes for each character in JSON, and three numbers.
pub const LOCK_LINE_BYTES_MAX: usize = 2048;

/// Things half made are swept once they are this old: making them takes milliseconds, so nobody is at it any more.
pub const LEFTOVER_AGE_MIN: Duration = Duration::from_secs(3600);

/// One command in an inbox: an answer or a message a person typed, with room to paste a file.
pub const COMMAND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Commands waiting in one inbox. Nobody types so many; a script that does must hear of it.
pub const COMMANDS_PENDING_MAX: usize = 10_000;

/// Commands for which there is room in a run's inbox when the disk is full: a pause, an answer and a stop, and one to spare.
pub const COMMANDS_RESERVED: usize = 4;

/// The largest of those: more than anybody types as a reason, and a block of any usual file system.
pub const COMMAND_RESERVE_BYTES: usize = 4096;

/// One blob. A tool's output is cut before it is this large.
pub const BLOB_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Looks for a probe file that is there and gone again: each takes another process that probes in this very moment.
pub const PROBE_TRIES_MAX: u32 = 100;

/// Damaged journals and catalogues put aside; past this many somebody should look.
pub const ASIDE_MAX: u32 = 1000;

/// How long SQLite waits for another process's transaction; ours last milliseconds.
pub const SQLITE_WAIT: Duration = Duration::from_secs(10);

/// How long a query that a person typed may take. All runs of years are read in a fraction of it; an endless one must end.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// Steps of SQLite's machine between two looks at the clock: a millisecond at most.
pub const QUERY_STEPS_UNWATCHED: i32 = 10_000;

/// Rows of one answer. Nobody reads more, and a program that wants more asks in parts.
pub const QUERY_ROWS_MAX: usize = 100_000;

/// Bytes of one answer, which is in memory whole.
pub const QUERY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One value in it: nothing the catalogue keeps is near.
pub const QUERY_VALUE_BYTES_MAX: i32 = 16 * 1024 * 1024;

/// Records of the fallback that one batch of the engine takes when a run is brought home.
pub const MOVE_BYTES: usize = 1024 * 1024;
