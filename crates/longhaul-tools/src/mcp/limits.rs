//! Every bound on what a server may ask of us, each with its reason.

use std::time::Duration;

/// Servers that may be configured. Each is a process; more is a mistake in a file.
pub const SERVERS_MAX: usize = 64;

/// Bytes of a server's name. With the tool's name it must fit what providers take as a name.
pub const SERVER_NAME_BYTES_MAX: usize = 24;

/// Bytes of a tool's whole name, `server__tool`: the least that any of the providers takes.
pub const TOOL_NAME_BYTES_MAX: usize = 64;

/// Letters of short options that stand together before code, as in `bash -lc`. A longer word is one option with its value.
pub const SHORT_OPTIONS_MAX: usize = 3;

/// Pages read of one list. Real servers have one; an endless list ends here.
pub const PAGES_MAX: usize = 50;

/// Tools of one server. Every one of them costs the model context in every turn.
pub const TOOLS_MAX: usize = 256;

/// Resources and prompts shown of one server; they are for people to read.
pub const LISTED_MAX: usize = 1000;

/// Bytes of a description a model is told. Longer ones are manuals, or an attempt to talk it into something.
pub const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;

/// Bytes of a tool's schema. Providers refuse larger ones, and with them the whole request.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one message from a server: a screenshot in base64 fits, a film does not.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes a server may print on its standard output that are no messages. Banners fit; a server that logs there does not.
pub const GARBAGE_BYTES_MAX: usize = 1024 * 1024;

/// Time a server has to start, unless its settings say otherwise: `npx` may have to fetch it first.
pub const START_TIME: Duration = Duration::from_secs(60);

/// How long a start may take before it is said that it is waited for. Most take less, and nobody wonders so soon.
pub const START_QUIET_TIME: Duration = Duration::from_secs(2);

/// The longest time one call or one start may be given by the settings. Longer work is not a call.
pub const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Time after the first list in which a server may say that it has changed: some add tools once they know their client.
pub const SETTLE_TIME: Duration = Duration::from_millis(150);

/// How often a list that keeps changing while it is read is read again.
pub const SETTLE_ROUNDS_MAX: usize = 3;

/// Time a server that let a call time out has to answer a ping before it is started anew.
pub const PING_TIME: Duration = Duration::from_secs(5);

/// Time for telling a server that a call is cancelled; one that does not read is not waited for.
pub const CANCEL_TIME: Duration = Duration::from_millis(500);

/// Time a server has to end by itself once its input is closed.
pub const CLOSE_TIME: Duration = Duration::from_millis(1500);

/// The wait before a server that ended is started again; it doubles each time.
pub const BACKOFF_BASE: Duration = Duration::from_millis(500);

/// The longest such wait: a server that comes back is used again within a minute.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Time a connection to a server elsewhere may take.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How often a broken stream of a server elsewhere is taken up again, within the time of the call.
pub const STREAM_RETRIES_MAX: usize = 5;

/// Lines of progress shown for one call. A server that reports every byte is not listened to further.
pub const PROGRESS_LINES_MAX: u32 = 50;

/// Bytes of one line of progress or of what a server said last.
pub const LINE_BYTES_MAX: usize = 300;

/// Lines that are quoted of what a server said last: a stack trace's end, which may be all that is ever seen of it.
pub const LAST_LINES_MAX: usize = 8;

/// Bytes of all those lines. They stand in one sentence, which a model reads as well.
pub const LAST_WORDS_BYTES_MAX: usize = 1024;

/// Bytes of a server's log; the one before it is kept as well. Some servers log every message.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes of a program that are hashed. The largest interpreters have a tenth of it.
pub const PROGRAM_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of a file of pins. As many tools as are allowed, with the longest descriptions and schemas, have less.
pub const PIN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes below which a header's value is not struck out of results: it would be a word, not a secret.
pub const SECRET_BYTES_MIN: usize = 8;
