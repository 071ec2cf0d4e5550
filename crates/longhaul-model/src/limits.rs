//! Every bound this crate enforces, each with its reason.

use std::time::Duration;

/// Bytes of one script. A night of recorded turns with whole files in the arguments fits; a wrong path does not
/// fill the memory.
pub const SCRIPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Depth of a script. Its own structure takes ten levels and arguments of tools a few more; deeper is an attack on
/// the parser's stack.
pub const SCRIPT_DEPTH_MAX: usize = 64;

/// Nodes of a script after aliases are expanded, so that a small file cannot unfold into a large one.
pub const SCRIPT_NODES_MAX: usize = 500_000;

/// The longest `delay_ms`, `stall_ms` or `retry_after_ms`: a day. A rehearsal that waits longer has a typing error.
pub const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Pieces a delayed text is streamed in. Enough to see it arrive, few enough to cost nothing.
pub const STREAM_PIECES_MAX: usize = 8;

/// Context window of a script that names none, in tokens: what the large models of today offer.
pub const CONTEXT_WINDOW_DEFAULT: u64 = 200_000;

/// Context window of a model of which nothing is known, in tokens: what small local servers are started with at least.
pub const CONTEXT_WINDOW_UNKNOWN: u64 = 32_000;

/// How long a model's window is looked for in its provider's list, once, after its first reply. A server that has just
/// answered answers this at once.
pub const WINDOW_LOOK_TIME: Duration = Duration::from_secs(5);

/// Images of which it is remembered whether a model took them. Some hundred bytes each; a run of days shows fewer.
pub const IMAGES_REMEMBERED_MAX: usize = 10_000;

/// How long the command that prints a key may take. A person may have to unlock something first.
pub const KEY_COMMAND_TIME: Duration = Duration::from_secs(30);

/// Bytes of a key. Tokens of identity services have a few thousand.
pub const KEY_BYTES_MAX: usize = 16 * 1024;

/// How many attempts in a row one entry of `fail` may stand for. One a second for a whole day fits.
pub const FAIL_TIMES_MAX: u32 = 100_000;

/// A raw `retry_after`. The longest form in use is a date; this leaves room for garbage.
pub const HEADER_TEXT_BYTES_MAX: usize = 256;

/// Calls of the fault `many_calls`: far more than any model makes at once, fewer than the wire refuses.
pub const MANY_CALLS: usize = 500;

/// The wait of the fault `rate_limited`, in seconds: above the wire's least, so that it can be told from it.
pub const RATE_LIMITED_S: u64 = 2;

/// Head of a request to the fake provider. Ours is under a kilobyte; agents with many headers stay below eight.
pub const FAKE_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Body of a request to the fake provider. A full window of a million tokens is 4 MB, and images come on top.
pub const FAKE_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Connections the fake provider serves at once; more wait. A run and its sub-agents have a few each.
pub const FAKE_CONNECTIONS_MAX: usize = 256;

/// The pause after a connection that could not be taken: without one, a machine out of descriptors would spin.
pub const FAKE_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the fake provider waits for the next bytes of a request, and for the next request of a kept connection.
/// Clients drop an idle connection sooner by themselves.
pub const FAKE_REQUEST_WAIT: Duration = Duration::from_secs(10 * 60);

/// How long a fault without an end of its own goes on if the client stays: longer than any client's patience.
pub const FAKE_FAULT_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes of requests the fake provider remembers for `requests`; the oldest are forgotten first, so that a server that
/// runs for a night keeps its size.
pub const FAKE_RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a remembered request counts for beside its body: its headers, and that even empty ones are not without end.
pub const FAKE_REQUEST_BYTES_LEAST: usize = 1024;

/// Different bodies whose attempts the fake provider counts. Beyond, it begins to count anew; no rehearsal has as many.
pub const FAKE_BODIES_MAX: usize = 100_000;

/// Requests a watcher of the fake provider may lag behind before it misses some.
pub const FAKE_WATCH_MAX: usize = 1024;

/// The pause between two pings of `pings_only`, in milliseconds. Short, so that even a patience of a second sees some.
pub const FAKE_PING_MS: u64 = 50;

/// The pause after each byte of `drip`, in milliseconds.
pub const FAKE_DRIP_MS: u64 = 1000;

/// The event of `huge_event`: six times what a client should take.
pub const FAKE_HUGE_BYTES: usize = 100 * 1024 * 1024;

/// The events of `endless_events`.
pub const FAKE_ENDLESS_EVENTS: usize = 1_000_000;

/// What `gzip_bomb` unpacks to: twice what a client should take of a stream. Packed it is a thousandth of that.
pub const FAKE_BOMB_BYTES: usize = 256 * 1024 * 1024;

/// Bytes written at once where a fault repeats itself: large enough to be quick, small enough to stop soon.
pub const FAKE_BLOCK_BYTES: usize = 64 * 1024;
