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

/// How long the command that prints a key may take. A person may have to unlock something first.
pub const KEY_COMMAND_TIME: Duration = Duration::from_secs(30);

/// Bytes of a key. Tokens of identity services have a few thousand.
pub const KEY_BYTES_MAX: usize = 16 * 1024;
