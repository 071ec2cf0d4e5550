//! What a script means, after everything typed in it has been checked. A value of these types can be played without
//! a further error.

use longhaul_core::conversation::{ProposedCall, Stop};
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::{Place, ScriptError};
use super::fault::Fault;
use super::format::{RawBody, RawCall, RawConversation, RawFail, RawPrices, RawScript, RawTurn};
use super::suggest;
use crate::limits;

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) context_window: u64,
    pub(crate) prices: Prices,
    pub(crate) conversations: Vec<Conversation>,
}

impl Script {
    /// Everything that may be said.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        let turns =
            self.conversations.iter().flat_map(|said| std::iter::once(&said.first).chain(&said.later));
        turns.flat_map(|turn| {
            std::iter::once(&turn.body).chain(turn.branches.iter().map(|branch| &branch.body))
        })
    }
}

/// Dollars for a million tokens of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prices {
    pub(crate) input: Usd,
    pub(crate) output: Usd,
    pub(crate) cache_read: Usd,
    pub(crate) cache_write: Usd,
}

/// A conversation has a first turn by its type, so that playing never runs out of turns.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) fits: Match,
    pub(crate) first: Turn,
    pub(crate) later: Vec<Turn>,
}

/// What a request must have; `None` accepts everything.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Match {
    pub(crate) agent: Option<String>,
    pub(crate) step: Option<String>,
    pub(crate) iteration: Option<u32>,
    pub(crate) depth: Option<u32>,
    pub(crate) prompt_contains: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The first attempts fail like the first entry, as often as it says; those after all entries succeed.
    pub(crate) fail: Vec<Failing>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) needle: String,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) calls: Vec<ProposedCall>,
    pub(crate) tokens: Tokens,
    pub(crate) stop: Stop,
    pub(crate) delay_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// What it cost, instead of what the prices would make of it.
    pub(crate) cost: Option<Cost>,
    /// How many of them nobody counted.
    pub(crate) estimated: u64,
}

/// What one turn cost, as it is typed: US dollars, or the word `unknown`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged, expecting = "a cost is an amount of dollars or `unknown`")]
pub(crate) enum Cost {
    Dollars(f64),
    Word(NoCost),
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NoCost {
    Unknown,
}

impl Cost {
    pub(crate) const UNKNOWN: Cost = Cost::Word(NoCost::Unknown);
}

/// One failure, and how many attempts in a row have it.
#[derive(Clone, Debug)]
pub(crate) struct Failing {
    pub(crate) fail: Fail,
    pub(crate) times: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Fail {
    Status { status: u16, wait: Wait },
    Disconnect { after_bytes: usize },
    Stall { stall_ms: u64 },
    Fatal { message: String },
    Fault(Fault),
}

/// How long a failing provider asks to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Unsaid,
    Ms(u64),
    /// The header's text as it is sent, sensible or not.
    Text(String),
}

/// Which tools a script's calls may name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tools<'a> {
    Known(&'a [&'a str]),
    /// Whoever asks brings tools of its own, which nobody knows here.
    Any,
}

pub(super) fn check(file: &str, raw: RawScript, tools: Tools<'_>) -> Result<Script, ScriptError> {
    let check = Check { file, tools };
    let place = check.place(&raw.conversations);
    if raw.conversations.value.is_empty() {
        return Err(place.error("the script has no conversations"));
    }
    Ok(Script {
        name: raw.name.unwrap_or_else(|| file.to_owned()),
        context_window: check.context_window(raw.context_window)?,
        prices: raw.prices.map_or_else(|| Ok(Prices::default()), |prices| check.prices(&prices))?,
        conversations: all(raw.conversations.value, |conversation| check.conversation(conversation))?,
    })
}

const FAIL_HINT: &str = "one of `status` (with `retry_after_ms` or `retry_after` if you like), \
                         `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them";

/// What every check needs: where errors happen, and which tools there are.
struct Check<'a> {
    file: &'a str,
    tools: Tools<'a>,
}

impl Check<'_> {
    fn conversation(&self, raw: RawConversation) -> Result<Conversation, ScriptError> {
        let place = self.place(&raw.turns);
        let mut turns = all(raw.turns.value, |turn| self.turn(turn))?.into_iter();
        let first = turns.next().ok_or_else(|| place.error("the conversation has no turns"))?;
        Ok(Conversation { fits: raw.fits, first, later: turns.collect() })
    }

    fn turn(&self, raw: RawTurn) -> Result<Turn, ScriptError> {
        let branches =
            all(raw.when_result_contains.0, |(needle, body)| Ok(Branch { needle, body: self.body(body)? }))?;
        let RawTurn { text, calls, usage, stop, delay_ms, .. } = raw;
        let body = RawBody { text, calls, usage, stop, delay_ms };
        Ok(Turn { fail: all(raw.fail, |fail| self.failing(fail))?, branches, body: self.body(body)? })
    }

    fn body(&self, raw: RawBody) -> Result<Body, ScriptError> {
        let delay_ms = raw.delay_ms.map(|delay| self.wait_ms("delay_ms", &delay)).transpose()?;
        Ok(Body {
            text: raw.text,
            calls: all(raw.calls, |call| self.call(call))?,
            tokens: raw.usage,
            stop: raw.stop,
            delay_ms: delay_ms.unwrap_or(0),
        })
    }

    fn call(&self, raw: RawCall) -> Result<ProposedCall, ScriptError> {
        let tool = &raw.tool.value;
        if let Tools::Known(known) = self.tools
            && !known.contains(&tool.as_str())
            && !raw.unknown
        {
            let hint = suggest::names("tools", tool, known);
            return Err(self.place(&raw.tool).error_with_hint(format!("unknown tool `{tool}`"), hint));
        }
        let args = match raw.args {
            None => Json::empty_object(),
            Some(Spanned { value: value @ Value::Object(_), .. }) => Json::of(&value),
            Some(other) => {
                let hint = "write `args: { name: value }`";
                return Err(self.place(&other).error_with_hint("`args` is not a mapping", hint));
            }
        };
        Ok(ProposedCall { malformed: raw.malformed, ..ProposedCall::new(raw.tool.value, args) })
    }

    fn failing(&self, raw: Spanned<RawFail>) -> Result<Failing, ScriptError> {
        let times = match &raw.value.times {
            None => 1,
            Some(times) => self.times(times)?,
        };
        Ok(Failing { fail: self.fail(raw)?, times })
    }

    fn fail(&self, raw: Spanned<RawFail>) -> Result<Fail, ScriptError> {
        let place = self.place(&raw);
        let RawFail { status, retry_after_ms, retry_after, .. } = raw.value;
        let RawFail { disconnect_after_bytes, stall_ms, fatal, fault, .. } = raw.value;
        let waits = usize::from(retry_after_ms.is_some()) + usize::from(retry_after.is_some());
        let stray_wait = waits > usize::from(status.is_some());
        let kinds = [
            status.map(|status| self.status(&status, retry_after_ms, retry_after)),
            disconnect_after_bytes.map(|after_bytes| Ok(Fail::Disconnect { after_bytes })),
            stall_ms.map(|stall| self.stall(&stall)),
            fatal.map(|message| Ok(Fail::Fatal { message })),
            fault.map(|name| self.fault(&name)),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(only), None) if !stray_wait => only,
            _ => Err(place.error_with_hint("a failure is exactly one thing", FAIL_HINT)),
        }
    }

    fn times(&self, times: &Spanned<u32>) -> Result<u32, ScriptError> {
        if !(1..=limits::FAIL_TIMES_MAX).contains(&times.value) {
            let limit = limits::FAIL_TIMES_MAX;
            return Err(self.place(times).error(format!("`times` is not within 1 and {limit}")));
        }
        Ok(times.value)
    }

    fn fault(&self, name: &Spanned<String>) -> Result<Fail, ScriptError> {
        let unknown = || {
            let hint = suggest::names("faults", &name.value, &Fault::names());
            self.place(name).error_with_hint(format!("unknown fault `{}`", name.value), hint)
        };
        Fault::named(&name.value).map(Fail::Fault).ok_or_else(unknown)
    }

    fn stall(&self, stall: &Spanned<u64>) -> Result<Fail, ScriptError> {
        Ok(Fail::Stall { stall_ms: self.wait_ms("stall_ms", stall)? })
    }

    fn status(
        &self,
        status: &Spanned<u16>,
        after_ms: Option<Spanned<u64>>,
        after: Option<Spanned<String>>,
    ) -> Result<Fail, ScriptError> {
        if !(400..=599).contains(&status.value) {
            let problem = format!("status {} is not a failure", status.value);
            return Err(self.place(status).error_with_hint(problem, "error statuses are 400 to 599"));
        }
        let wait = match (after_ms, after) {
            (Some(wait), _) => Wait::Ms(self.wait_ms("retry_after_ms", &wait)?),
            (None, Some(text)) => Wait::Text(self.header_text(text)?),
            (None, None) => Wait::Unsaid,
        };
        Ok(Fail::Status { status: status.value, wait })
    }

    /// A header's value must not end the header.
    fn header_text(&self, text: Spanned<String>) -> Result<String, ScriptError> {
        let fits = text.value.len() <= limits::HEADER_TEXT_BYTES_MAX;
        if !fits || text.value.chars().any(char::is_control) {
            let problem = "`retry_after` is not a short text without control characters";
            return Err(self.place(&text).error(problem));
        }
        Ok(text.value)
    }

    fn prices(&self, raw: &RawPrices) -> Result<Prices, ScriptError> {
        let input = self.price(&raw.input)?;
        // Cached tokens without a price of their own cost what input costs: a budget may be too careful, never too low.
        let cached =
            |price: &Option<Spanned<f64>>| price.as_ref().map_or(Ok(input), |price| self.price(price));
        Ok(Prices {
            input,
            output: self.price(&raw.output)?,
            cache_read: cached(&raw.cache_read)?,
            cache_write: cached(&raw.cache_write)?,
        })
    }

    fn price(&self, dollars: &Spanned<f64>) -> Result<Usd, ScriptError> {
        Usd::from_dollars(dollars.value)
            .ok_or_else(|| self.place(dollars).error("a price is an amount of dollars, zero or more"))
    }

    fn context_window(&self, raw: Option<Spanned<u64>>) -> Result<u64, ScriptError> {
        match raw {
            None => Ok(limits::CONTEXT_WINDOW_DEFAULT),
            Some(tokens) if tokens.value == 0 => Err(self.place(&tokens).error("`context_window` is zero")),
            Some(tokens) => Ok(tokens.value),
        }
    }

    fn wait_ms(&self, key: &str, wait: &Spanned<u64>) -> Result<u64, ScriptError> {
        if wait.value > limits::WAIT_MS_MAX {
            let limit = limits::WAIT_MS_MAX;
            return Err(self.place(wait).error(format!("`{key}` is longer than a day ({limit} ms)")));
        }
        Ok(wait.value)
    }

    fn place<T>(&self, value: &Spanned<T>) -> Place {
        Place::new(self.file, value.referenced)
    }
}

fn all<T, U>(items: Vec<T>, check: impl FnMut(T) -> Result<U, ScriptError>) -> Result<Vec<U>, ScriptError> {
    items.into_iter().map(check).collect()
}
