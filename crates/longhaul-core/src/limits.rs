//! Every bound core enforces, each with its reason.

/// A run id is a directory name; 64 bytes fit every file system with room for a suffix.
pub const ID_BYTES_MAX: usize = 64;

/// Text of one tool result that a conversation keeps; the rest is in a blob. Four pages of code.
pub const OUTPUT_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of arguments one reply may bring in all. With the text twice (as reply and as a step's output) and every call
/// refused, the batch that remembers a reply stays within what the store takes at once.
pub const REPLY_ARGUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Calls of one reply that are kept. What comes after them is not even refused one by one.
pub const REPLY_CALLS_MAX: usize = 1000;

/// Bytes of a tool's name as a model gave it; ours are shorter.
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// Bytes of a plan's texts in all: it is remembered in one batch with its run.
pub const PLAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Calls one turn may ask for. A model that asks for more is looping; the rest are refused one by one.
pub const CALLS_PER_TURN_MAX: usize = 128;

/// Arguments of one call. Whole files are written through arguments, so this is also the largest such file.
pub const ARGUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Steps of one plan.
pub const STEPS_MAX: usize = 1000;

/// Commands remembered by id, so that one delivered twice is applied once. Only commands whose file outlived a
/// crash can come again, and an inbox holds far fewer.
pub const COMMANDS_REMEMBERED_MAX: usize = 256;

/// Bytes of a task, a step description, an agent's prompt or a model's answer.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Retries of one call or turn. With doubling delays more would wait for years.
pub const RETRIES_MAX: u32 = 16;

/// How often a silent model is asked again before the run pauses for a person: about four minutes of waiting.
pub const MODEL_RETRIES_MAX: u32 = 8;

/// The first retry delay may not be longer than an hour, so that doubling it never overflows.
pub const BACKOFF_BASE_MS_MAX: u64 = 3_600_000;

/// Bytes of a state document that is imported: it is remembered in one batch.
pub const DOCUMENT_BYTES_MAX: usize = 12 * 1024 * 1024;

/// A tool call may take a day at most; what takes longer is a process of its own, not a call.
pub const TOOL_TIMEOUT_MS_MAX: u64 = 86_400_000;

/// Bytes of free text that an event line carries: enough to recognise it by; the whole is in the journal.
pub const EVENT_TEXT_BYTES_MAX: usize = 2048;

/// Bytes of each dependency's output that a step is shown: a page, since a step may build on many.
pub const DEPENDENCY_BYTES_MAX: usize = 4096;
