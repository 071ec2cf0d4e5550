//! What core knows of a tool: whether it may be called, what recovery may do with it, and how a call ended.
//! Descriptions, schemas and the doing itself live in `longhaul-tools`.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits::{IMAGE_PIXELS_PER_TOKEN, IMAGE_TOKENS_MAX, IMAGE_TOKENS_MIN, OUTPUT_INLINE_BYTES_MAX};
use crate::prompt::head;
use crate::text::Text;

/// The tool by which an agent asks a person. It does nothing itself: the run waits, and the answer is its result.
pub const ASK_HUMAN: &str = "ask_human";

/// The tool that gives an errand to another agent.
pub const SPAWN: &str = "spawn";

/// The tool by which an agent keeps its list of what is to be done.
pub const TODO: &str = "todo";

/// The tool that shows what a command in the background has printed.
pub const BASH_OUTPUT: &str = "bash_output";

/// How that tool says of a command that it has not ended; looking again is waiting then, and no circle.
pub const STILL_RUNNING: &str = "[still running]";

/// How the outcome of a call begins that ran when longhaul itself was stopped.
pub const CUT_SHORT: &str = "longhaul was stopped while this call ran";

/// The one tool whose effect can be looked for and is not in the workspace.
pub const PUSH: &str = "git_push";

/// What recovery may do with an effect whose outcome never reached the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum EffectClass {
    /// Changes nothing: simply done again.
    #[n(0)]
    Repeatable,
    /// Leaves a trace that can be looked for: looked up, then marked done or done again.
    #[n(1)]
    Checkable,
    /// Neither: never repeated without being asked; the agent is told that the outcome is unknown.
    #[n(2)]
    Once,
}

/// One tool an agent may call, as fixed when the run was created.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolGrant {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub class: EffectClass,
    /// Must a person give leave for every call?
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<bool>,
}

/// How tool calls are tried: seed defaults are 3 retries, 1 s base delay, 30 s timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetryPolicy {
    #[n(0)]
    pub max_retries: u32,
    #[n(1)]
    pub base_backoff_ms: u64,
    #[n(2)]
    pub timeout_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { max_retries: 3, base_backoff_ms: 1000, timeout_ms: 30_000 }
    }
}

impl RetryPolicy {
    /// The wait before retry number `retry` (1, 2, …). Each is exactly twice the one before; there is no cap and
    /// no jitter, since either could break the doubling. `limits` bounds retries and base, so this cannot overflow.
    pub fn delay_ms(&self, retry: u32) -> u64 {
        self.base_backoff_ms.saturating_mul(1u64 << retry.saturating_sub(1).min(40))
    }
}

/// How a tool call ended, as the journal keeps it and the model reads it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The tool did what was asked.
    #[n(0)]
    Done {
        #[n(0)]
        output: Output,
    },
    /// The tool says that it did not do what was asked. A command that was stopped or timed out may have done part of it,
    /// and its message says so.
    #[n(1)]
    Failed {
        #[n(0)]
        failure: Failure,
        #[n(1)]
        message: String,
        #[n(2)]
        output: Output,
    },
    /// The call was cut short; it may have had its effect, in part or whole.
    #[n(2)]
    Unknown {
        #[n(0)]
        message: String,
    },
}

/// Why a call failed. The kind decides about retries; the message is for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    #[n(0)]
    NotPermitted,
    #[n(1)]
    BudgetExceeded,
    #[n(2)]
    InvalidArguments,
    #[n(3)]
    Timeout,
    /// A network did not answer in time or a connection broke.
    #[n(4)]
    Network,
    #[n(5)]
    RateLimit,
    /// The machine is short of something (processes, file handles) that may come back.
    #[n(6)]
    Busy,
    /// The tool ran and reports that it did not succeed (a command's exit code, a file not found).
    #[n(7)]
    Tool,
    /// Stopped because the run was paused or stopped.
    #[n(8)]
    Cancelled,
    /// A hook that was to look at the call broke or said nothing in time. What it guards stays shut.
    #[n(9)]
    Hook,
    /// The same was tried again and again; it was not tried once more.
    #[n(10)]
    DoomLoop,
}

impl Failure {
    /// Transient failures are worth trying again after a while; all others would fail the same way.
    pub fn is_transient(self) -> bool {
        match self {
            Failure::Network | Failure::RateLimit | Failure::Busy => true,
            Failure::NotPermitted
            | Failure::BudgetExceeded
            | Failure::InvalidArguments
            | Failure::Timeout
            | Failure::Tool
            | Failure::Cancelled
            | Failure::Hook
            | Failure::DoomLoop => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Failure::NotPermitted => "not_permitted",
            Failure::BudgetExceeded => "budget_exceeded",
            Failure::InvalidArguments => "invalid_arguments",
            Failure::Timeout => "timeout",
            Failure::Network => "network",
            Failure::RateLimit => "rate_limit",
            Failure::Busy => "busy",
            Failure::Tool => "tool",
            Failure::Cancelled => "cancelled",
            Failure::Hook => "hook",
            Failure::DoomLoop => "doom_loop",
        }
    }
}

/// What a tool printed: a bounded text, and where the whole of it is if it was longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    #[n(0)]
    pub text: Text,
    /// The blob that holds the whole output, by hash.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Length of the whole output, also when `text` is shorter.
    #[n(2)]
    pub bytes: u64,
    /// Where in the workspace the call left the shell, if it moved it. The next command of the conversation begins there.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What there is to see beside the text.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Box<[Image]>>,
}

impl Output {
    pub fn text(text: impl Into<Text>) -> Output {
        let text = text.into();
        Output { bytes: text.len() as u64, text, ..Output::default() }
    }

    /// The same with something to see. `None` of nothing, so that journals are no longer for it.
    #[must_use]
    pub fn showing(self, images: Vec<Image>) -> Output {
        Output { images: (!images.is_empty()).then(|| images.into()), ..self }
    }
}

/// An image in a result. Its bytes are a blob of the run; the journal and every view only name it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The blob that holds it.
    #[n(0)]
    pub blob: String,
    #[n(1)]
    pub media_type: String,
    #[n(2)]
    pub width: u32,
    #[n(3)]
    pub height: u32,
    #[n(4)]
    pub bytes: u64,
}

impl Image {
    /// An estimate, rather too high: a token for every 750 pixels is what the services say, and beyond a bound they make an
    /// image smaller before the model sees it.
    pub fn tokens(&self) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height);
        pixels.div_ceil(IMAGE_PIXELS_PER_TOKEN).clamp(IMAGE_TOKENS_MIN, IMAGE_TOKENS_MAX)
    }

    /// What stands in its place wherever it is not shown.
    pub fn reference(&self) -> String {
        format!("[{self}; read blob:{} shows it]", self.blob)
    }
}

/// `image/png, 640×480, 12 kB`
impl fmt::Display for Image {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}×{}, ", self.media_type, self.width, self.height)?;
        match self.bytes {
            bytes @ 0..1_000 => write!(out, "{bytes} bytes"),
            bytes @ 1_000..1_000_000 => write!(out, "{} kB", bytes.div_ceil(1_000)),
            bytes => write!(out, "{} MB", bytes.div_ceil(1_000_000)),
        }
    }
}

impl Output {
    fn bounded(self) -> Output {
        if self.text.len() <= OUTPUT_INLINE_BYTES_MAX {
            return self;
        }
        Output { text: bounded(self.text.as_str().to_owned()).into(), ..self }
    }
}

fn bounded(text: String) -> String {
    if text.len() <= OUTPUT_INLINE_BYTES_MAX {
        return text;
    }
    format!("{}\n[cut here: {} bytes in all]", head(&text, OUTPUT_INLINE_BYTES_MAX), text.len())
}

impl Outcome {
    /// What was printed, if that is known.
    pub fn output(&self) -> Option<&Output> {
        match self {
            Outcome::Done { output } | Outcome::Failed { output, .. } => Some(output),
            Outcome::Unknown { .. } => None,
        }
    }

    /// What there is to see in it.
    pub fn images(&self) -> &[Image] {
        self.output().and_then(|output| output.images.as_deref()).unwrap_or_default()
    }

    pub fn done(text: impl Into<Text>) -> Outcome {
        Outcome::Done { output: Output::text(text) }
    }

    pub fn failed(failure: Failure, message: impl Into<String>) -> Outcome {
        Outcome::Failed { failure, message: message.into(), output: Output::default() }
    }

    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Done { .. })
    }

    /// Did longhaul itself stop while the call ran? That says nothing of the call.
    pub fn was_cut_short(&self) -> bool {
        matches!(self, Outcome::Unknown { message } if message.starts_with(CUT_SHORT))
    }

    /// The same with texts of bounded length, whatever the tool did: the journal takes what it is given.
    #[must_use]
    pub fn bounded(self) -> Outcome {
        match self {
            Outcome::Done { output } => Outcome::Done { output: output.bounded() },
            Outcome::Failed { failure, message, output } => {
                Outcome::Failed { failure, message: bounded(message), output: output.bounded() }
            }
            Outcome::Unknown { message } => Outcome::Unknown { message: bounded(message) },
        }
    }

    /// What went wrong, in one line; `None` when nothing did.
    pub fn error(&self) -> Option<&str> {
        match self {
            Outcome::Done { .. } => None,
            Outcome::Failed { message, .. } | Outcome::Unknown { message } => Some(message),
        }
    }

    /// The text the model reads.
    pub fn for_model(&self) -> Text {
        match self {
            Outcome::Done { output } => output.text.clone(),
            Outcome::Failed { failure, message, output } if output.text.is_empty() => {
                format!("error ({}): {message}", failure.as_str()).into()
            }
            Outcome::Failed { failure, message, output } => {
                format!("error ({}): {message}\n{}", failure.as_str(), output.text).into()
            }
            Outcome::Unknown { message } => format!("interrupted, outcome unknown: {message}").into(),
        }
    }
}

/// The state of a checkable effect's destination, before and after: digests of the bytes there.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// What the effect changes, in words a person can find (`src/lib.rs`).
    #[n(0)]
    pub target: String,
    #[n(1)]
    pub before: String,
    #[n(2)]
    pub after: String,
}

/// What looking at the destination of a checkable effect showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Done,
    NotDone,
    Unknown,
}
