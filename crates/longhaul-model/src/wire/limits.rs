//! Every bound of the wire protocols, each with its reason.

use std::time::Duration;

/// One line of a stream. Equal to the event's bound: a provider sends an event's data as one line.
pub const LINE_BYTES_MAX: usize = EVENT_BYTES_MAX;

/// One event. The largest honest one repeats a whole reply of 128 thousand tokens with the tools and instructions
/// beside it, which is a few megabytes.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One stream, after decompression. A reply of 128 thousand tokens at 300 bytes of event for each token is 40 MB.
pub const STREAM_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Events of one stream. The longest reply of today has one for each of its 128 thousand tokens; this leaves room for
/// seven times as many and stops an endless stream of tiny ones.
pub const STREAM_EVENTS_MAX: u64 = 900_000;

/// A body that is not a stream, after decompression. It holds one reply, without the events around it.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The answer to how many tokens a prompt has: a number and a few words around it.
pub const COUNT_BODY_BYTES_MAX: usize = 64 * 1024;

/// How much of an error's body is read. Their texts are short; the rest is a web page.
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;

/// How much of a provider's text is shown in an error: a screen, not a page.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Arguments of one call. A written file fits several times over; more would not be accepted back as history.
pub const ARGS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Blocks, items or calls of one reply. Hundreds of parallel calls are odd but real; thousands are an attack on the
/// journal.
pub const PARTS_MAX: usize = 2_000;

/// How much of malformed arguments is kept to show the model what it wrote.
pub const MALFORMED_ARGS_BYTES_MAX: usize = 16 * 1024;

/// The shortest wait taken from a provider. Zero, negative and past moments become this, so that no header can make a
/// loop without a pause.
pub const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// The longest wait taken from a provider: a day. A false header costs at most that, and a plan that is empty for a
/// week is simply asked again the next day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Output tokens asked for where the protocol demands a number and the configuration has none. Every current model
/// allows it, and a whole source file fits.
pub const OUTPUT_TOKENS_DEFAULT: u32 = 16_384;

/// Cache markers in one request, set by Anthropic.
pub const CACHE_MARKERS_MAX: usize = 4;

/// Time to reach the provider, name lookup and TLS included. Beyond it the network is gone, and the caller's backoff
/// is a better way to wait.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time without an event that moves the reply forward; pings do not count. A slow local model reads a long prompt for
/// minutes before its first token.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Time for a whole reply. The longest reasoning of today's models takes under half of it.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Time for the count of a prompt's tokens. It is asked for a better number than our own estimate, which is not worth a
/// long wait.
pub const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest secret that is searched for in errors. Shorter ones are placeholders (`none`, `dummy`), and replacing
/// them would garble the text without protecting anything.
pub const SECRET_BYTES_MIN: usize = 8;

/// Models of one provider that are listed. The largest resellers have some hundreds.
pub const LISTED_MODELS_MAX: usize = 2_000;

/// An event that crosses the edge of a chunk is waited for by its shape up to this; a longer one is read the long way.
pub const BEGUN_BYTES_MAX: usize = 4 * 1024;
