//! A script as it is typed: YAML, of which JSON is a part. It owns the keys and their shapes; what the values mean
//! is `script`'s matter.

use std::fmt;

use longhaul_core::conversation::Stop;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use super::error::ScriptError;
use super::script::{Match, Tokens};
use crate::limits;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScript {
    pub(super) name: Option<String>,
    pub(super) context_window: Option<Spanned<u64>>,
    pub(super) prices: Option<RawPrices>,
    pub(super) conversations: Spanned<Vec<RawConversation>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrices {
    pub(super) input: Spanned<f64>,
    pub(super) output: Spanned<f64>,
    pub(super) cache_read: Option<Spanned<f64>>,
    pub(super) cache_write: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConversation {
    #[serde(rename = "match", default)]
    pub(super) fits: Match,
    pub(super) turns: Spanned<Vec<RawTurn>>,
}

/// A body with its failures and branches. The body's keys are repeated because `flatten` would lose every place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTurn {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) calls: Vec<RawCall>,
    #[serde(default)]
    pub(super) usage: Tokens,
    #[serde(default)]
    pub(super) stop: Stop,
    pub(super) delay_ms: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) fail: Vec<Spanned<RawFail>>,
    #[serde(default)]
    pub(super) when_result_contains: RawBranches,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBody {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) calls: Vec<RawCall>,
    #[serde(default)]
    pub(super) usage: Tokens,
    #[serde(default)]
    pub(super) stop: Stop,
    pub(super) delay_ms: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) tool: Spanned<String>,
    pub(super) args: Option<Spanned<Value>>,
    /// Why the arguments cannot be read, for a call that is to be refused for that.
    pub(super) malformed: Option<String>,
    /// The tool is not there, on purpose.
    #[serde(default)]
    pub(super) unknown: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFail {
    pub(super) status: Option<Spanned<u16>>,
    pub(super) retry_after_ms: Option<Spanned<u64>>,
    pub(super) retry_after: Option<Spanned<String>>,
    pub(super) disconnect_after_bytes: Option<usize>,
    pub(super) stall_ms: Option<Spanned<u64>>,
    pub(super) fatal: Option<String>,
    pub(super) fault: Option<Spanned<String>>,
    pub(super) times: Option<Spanned<u32>>,
}

/// A mapping in the order of the file, because its first fitting entry wins.
#[derive(Default)]
pub(super) struct RawBranches(pub(super) Vec<(String, RawBody)>);

impl<'de> Deserialize<'de> for RawBranches {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawBranches, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = RawBranches;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping from a text to look for to a turn")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawBranches, A::Error> {
        let mut branches = Vec::new();
        while let Some(branch) = map.next_entry()? {
            branches.push(branch);
        }
        Ok(RawBranches(branches))
    }
}

pub(super) fn read(file: &str, text: &str) -> Result<RawScript, ScriptError> {
    if says_nothing(text) {
        return Err(ScriptError::empty(file));
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| ScriptError::from_yaml(file, &error))
}

fn says_nothing(text: &str) -> bool {
    text.trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---" || line == "...")
}

fn options() -> Options {
    serde_saphyr::options! {
        // Arguments of tools are free values, and there `no` must stay a word.
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: limits::SCRIPT_DEPTH_MAX,
            max_nodes: limits::SCRIPT_NODES_MAX,
            max_total_scalar_bytes: limits::SCRIPT_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limits::SCRIPT_NODES_MAX,
        },
    }
}
