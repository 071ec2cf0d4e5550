//! Every bound this crate enforces, each with its reason.

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

/// How many attempts in a row one entry of `fail` may stand for. One a second for a whole day fits.
pub const FAIL_TIMES_MAX: u32 = 100_000;

/// A raw `retry_after`. The longest form in use is a date; this leaves room for garbage.
pub const HEADER_TEXT_BYTES_MAX: usize = 256;

/// Calls of the fault `many_calls`: far more than any model makes at once, fewer than the wire refuses.
pub const MANY_CALLS: usize = 500;

/// The wait of the fault `rate_limited`, in seconds: above the wire's least, so that it can be told from it.
pub const RATE_LIMITED_S: u64 = 2;
