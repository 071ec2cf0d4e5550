//! What a script means, after everything typed in it has been checked. A value of these types can be played without
//! a further error.

use longhaul_core::conversation::ProposedCall;
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::{Place, ScriptError};
use super::format::{RawBody, RawCall, RawConversation, RawFail, RawPrices, RawScript, RawTurn};
use super::suggest;
use crate::limits;

#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) context_window: u64,
    pub(super) prices: Prices,
    pub(super) conversations: Vec<Conversation>,
}

/// Dollars for a million tokens of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    pub(super) input: Usd,
    pub(super) output: Usd,
    pub(super) cache_read: Usd,
    pub(super) cache_write: Usd,
}

/// A conversation has a first turn by its type, so that playing never runs out of turns.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) fits: Match,
    pub(super) first: Turn,
    pub(super) later: Vec<Turn>,
}

/// What a request must have; `None` accepts everything.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Match {
    pub(super) agent: Option<String>,
    pub(super) step: Option<String>,
    pub(super) iteration: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) prompt_contains: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The n-th attempt fails like the n-th entry; the attempts after them succeed.
    pub(super) fail: Vec<Fail>,
    pub(super) branches: Vec<Branch>,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) needle: String,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) text: String,
    pub(super) calls: Vec<ProposedCall>,
    pub(super) tokens: Tokens,
    pub(super) delay_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Fail {
    Status { status: u16, retry_after_ms: Option<u64> },
    Disconnect { after_bytes: usize },
    Stall { stall_ms: u64 },
    Fatal { message: String },
}

pub(super) fn check(file: &str, raw: RawScript, known_tools: &[&str]) -> Result<Script, ScriptError> {
    let check = Check { file, known_tools };
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

const FAIL_HINT: &str = "one of `status` (with `retry_after_ms` if you like), `disconnect_after_bytes`, `stall_ms`, \
                         `fatal`";

/// What every check needs: where errors happen, and which tools there are.
struct Check<'a> {
    file: &'a str,
    known_tools: &'a [&'a str],
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
        let body = RawBody { text: raw.text, calls: raw.calls, usage: raw.usage, delay_ms: raw.delay_ms };
        Ok(Turn { fail: all(raw.fail, |fail| self.fail(fail))?, branches, body: self.body(body)? })
    }

    fn body(&self, raw: RawBody) -> Result<Body, ScriptError> {
        let delay_ms = raw.delay_ms.map(|delay| self.wait_ms("delay_ms", &delay)).transpose()?;
        Ok(Body {
            text: raw.text,
            calls: all(raw.calls, |call| self.call(call))?,
            tokens: raw.usage,
            delay_ms: delay_ms.unwrap_or(0),
        })
    }

    fn call(&self, raw: RawCall) -> Result<ProposedCall, ScriptError> {
        let tool = &raw.tool.value;
        if !self.known_tools.contains(&tool.as_str()) {
            let hint = suggest::names("tools", tool, self.known_tools);
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
        Ok(ProposedCall::new(raw.tool.value, args))
    }

    fn fail(&self, raw: Spanned<RawFail>) -> Result<Fail, ScriptError> {
        let place = self.place(&raw);
        let RawFail { status, retry_after_ms, disconnect_after_bytes, stall_ms, fatal } = raw.value;
        let stray_retry_after = status.is_none() && retry_after_ms.is_some();
        let kinds = [
            status.map(|status| self.status(&status, retry_after_ms)),
            disconnect_after_bytes.map(|after_bytes| Ok(Fail::Disconnect { after_bytes })),
            stall_ms.map(|stall| self.stall(&stall)),
            fatal.map(|message| Ok(Fail::Fatal { message })),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(only), None) if !stray_retry_after => only,
            _ => Err(place.error_with_hint("a failure is exactly one thing", FAIL_HINT)),
        }
    }

    fn stall(&self, stall: &Spanned<u64>) -> Result<Fail, ScriptError> {
        Ok(Fail::Stall { stall_ms: self.wait_ms("stall_ms", stall)? })
    }

    fn status(&self, status: &Spanned<u16>, retry_after: Option<Spanned<u64>>) -> Result<Fail, ScriptError> {
        if !(400..=599).contains(&status.value) {
            let problem = format!("status {} is not a failure", status.value);
            return Err(self.place(status).error_with_hint(problem, "error statuses are 400 to 599"));
        }
        let retry_after_ms = retry_after.map(|wait| self.wait_ms("retry_after_ms", &wait)).transpose()?;
        Ok(Fail::Status { status: status.value, retry_after_ms })
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
