//! Every bound the tools enforce, each with its reason.

use std::time::Duration;

/// Lines `read` shows when it is not told how many. A long source file; the bytes of a result bound it further.
pub const READ_LINES_DEFAULT: u64 = 2000;

/// Bytes shown of one line. Longer lines are minified code or data, which a model cannot use line by line.
pub const LINE_BYTES_MAX: usize = 2000;

/// Bytes at the start of a file in which a NUL means that it is not text. Git looks at as many.
pub const BINARY_PROBE_BYTES: usize = 8000;

/// Bytes read at once from a file or a pipe. The size of a Linux pipe.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// Lines of a file that are compared to explain why an edit found nothing. A second of work at most.
pub const CLOSEST_LINES_SEARCHED_MAX: usize = 100_000;

/// Close lines, or places of an ambiguous edit, that are named. More would bury the message.
pub const PLACES_NAMED_MAX: usize = 10;

/// Bytes of one shell command. Linux refuses a single argument of 128 KiB; a longer command belongs in a file.
pub const COMMAND_BYTES_MAX: usize = 120 * 1024;

/// The longest time a model may ask for one command. Longer work is to be split or run by the harness.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(600);

/// Bytes kept from the start of a command's output, for the blob.
pub const OUTPUT_HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Bytes kept from the end of a command's output, for the blob. Errors stand at the end.
pub const OUTPUT_TAIL_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of an inline result set aside for what we say about it (truncation, leftovers).
pub const NOTE_BYTES_MAX: usize = 512;

/// Time a command gets between being asked to end and being killed: enough for git to remove its lock file.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(500);

/// Time the output may stay open after the command ended: enough for `tee` to finish, short against a daemon.
pub const OUTPUT_GRACE: Duration = Duration::from_millis(250);

/// Rounds of looking for a call's processes and killing them. With the pause below, two seconds.
pub const KILL_ROUNDS_MAX: usize = 200;

/// Pause between two such rounds: a killed process is gone within it unless it hangs in the kernel.
pub const KILL_ROUND_PAUSE: Duration = Duration::from_millis(10);

/// Bytes read of a process's environment. A process that exports more hides its marker, at its own cost of memory.
pub const ENVIRON_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Generations of our own ancestors that are never killed. Real process trees are a few dozen deep.
pub const ANCESTORS_MAX: usize = 1000;

/// Bytes of memory that a command's private directories (`/tmp`, home) may take, each. Larger things belong in the
/// workspace, which is on disk.
pub const SCRATCH_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes of memory one process of a command may always have, however small the machine: linkers need that. Otherwise it
/// is half of what the machine has, so that the harness and other runs keep the rest.
pub const COMMAND_MEMORY_BYTES_MIN: u64 = 2 * 1024 * 1024 * 1024;

/// Processes and threads of one command. Parallel builds and test suites use hundreds.
pub const COMMAND_PROCESSES_MAX: u64 = 4096;

/// Bytes of one file a command may write. The largest build artefacts are smaller; a runaway log is not.
pub const COMMAND_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Open files of one process of a command. Bundlers and language servers open tens of thousands.
pub const COMMAND_OPEN_FILES_MAX: u64 = 65_536;

/// Time the self-probe may take. It takes tens of milliseconds; a machine under load, some more.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(20);

/// Pause between two looks whether it has ended: short against its own time.
pub const PROBE_LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Time the self-probe waits for a connection that should not come about. On a loopback the answer is immediate.
pub const PROBE_CONNECT_TIME_MAX: Duration = Duration::from_millis(500);

/// Time one attack of the attack suite may take. The slowest make thousands of processes on a busy machine.
pub const ATTACK_TIME_MAX: Duration = Duration::from_secs(60);

/// Pause between two looks whether an attack left something running.
pub const ATTACK_LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Looks whether an attack left something running: with the pause, the two seconds after which nothing may.
pub const ATTACK_LOOKS_MAX: usize = 40;

/// Characters shown of what an attack printed.
pub const ATTACK_DETAIL_CHARS_MAX: usize = 160;
