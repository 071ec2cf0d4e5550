//! What is known about the models people use: their windows and their prices, as data in `models.yaml`.
//!
//! It owns the reading of that table and the rule by which a model's name finds its row. It refuses to guess: a model
//! that is not in the table has no price, which is a different thing from a price of nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use longhaul_core::conversation::Usage;
use longhaul_core::money::Usd;
use serde::Deserialize;

/// What is known about one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Tokens of the prompt and the reply together.
    pub window: u64,
    pub max_output: Option<u32>,
    /// Does it reason before it answers, and hand out what it thought?
    pub reasoning: bool,
    /// None if nobody has looked it up: unknown, not free.
    pub prices: Option<Prices>,
}

/// Dollars for a million tokens of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: Usd,
    pub output: Usd,
    pub cache_read: Usd,
    pub cache_write: Usd,
    /// What a long prompt costs instead. None if length makes no difference.
    #[serde(default)]
    pub long: Option<Long>,
}

/// The prices of a request whose prompt has more than `above` tokens. They hold for all of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Long {
    pub above: u64,
    pub input: Usd,
    pub output: Usd,
    pub cache_read: Usd,
    pub cache_write: Usd,
}

impl Prices {
    /// What one reply cost, rounded up to a billionth of a dollar: a budget must not be passed by rounding.
    pub fn cost(&self, usage: &Usage) -> Usd {
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let prompt = usage.input_tokens.saturating_add(cached);
        let (input, output, cache_read, cache_write) = match self.long {
            Some(long) if prompt > long.above => (long.input, long.output, long.cache_read, long.cache_write),
            Some(_) | None => (self.input, self.output, self.cache_read, self.cache_write),
        };
        let parts = [
            (input, usage.input_tokens),
            (output, usage.output_tokens),
            (cache_read, usage.cache_read_tokens),
            (cache_write, usage.cache_write_tokens),
        ];
        // Rounded once for the sum, not for each part.
        let nanos = parts.into_iter().fold(0u128, |sum, (price, tokens)| {
            sum.saturating_add(u128::from(price.as_nanos()) * u128::from(tokens))
        });
        Usd::from_nanos(u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// What is known about a provider's model. A dated snapshot is the model it is a snapshot of.
pub fn lookup(provider: &str, model: &str) -> Option<Known> {
    let rows = &TABLE.get(provider)?.models;
    let row = rows.iter().find(|(id, row)| row.is_called(id, model)).map(|(_, row)| row)?;
    let Row { window, max_output, reasoning, prices, .. } = *row;
    Some(Known { window, max_output, reasoning, prices })
}

/// The names of a provider's models, as the table has them.
pub fn models(provider: &str) -> Vec<String> {
    TABLE.get(provider).map(|provider| provider.models.keys().cloned().collect()).unwrap_or_default()
}

/// The model to use if nobody named one: a current one that is good at writing code.
pub fn default_model(provider: &str) -> Option<&'static str> {
    TABLE.get(provider)?.default.as_deref()
}

/// Part of the program, so read once and never again. A table that cannot be read knows no model; the tests see to it
/// that this one can.
static TABLE: LazyLock<BTreeMap<String, Provider>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("models.yaml")).unwrap_or_default());

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    default: Option<String>,
    models: BTreeMap<String, Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    aliases: Vec<String>,
    window: u64,
    max_output: Option<u32>,
    #[serde(default = "usual")]
    reasoning: bool,
    prices: Option<Prices>,
}

/// Most models of today do.
fn usual() -> bool {
    true
}

impl Row {
    fn is_called(&self, id: &str, name: &str) -> bool {
        let mut names = std::iter::once(id).chain(self.aliases.iter().map(String::as_str));
        names.any(|known| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || is_date(rest)))
    }
}

/// The tail of a snapshot's name: `-20250929` or `-2025-08-07`. Anything else is another model, with prices of its own.
fn is_date(tail: &str) -> bool {
    let shape: String = tail.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    matches!(shape.as_str(), "-00000000" | "-0000-00-00")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(dollars: f64) -> Usd {
        Usd::from_dollars(dollars).unwrap()
    }

    fn prices(model: &str) -> Prices {
        lookup("openai", model).or(lookup("anthropic", model)).unwrap().prices.unwrap()
    }

    #[test]
    fn the_table_can_be_read() {
        let table: BTreeMap<String, Provider> = serde_saphyr::from_str(include_str!("models.yaml")).unwrap();
        assert_eq!(table.keys().collect::<Vec<_>>(), ["anthropic", "openai"]);
    }

    #[test]
    fn every_row_is_sane() {
        for (id, row) in TABLE.values().flat_map(|provider| &provider.models) {
            assert!(row.window > u64::from(row.max_output.unwrap()), "{id}");
            let prices = row.prices.unwrap();
            let usual = (prices.input, prices.output, prices.cache_read, prices.cache_write);
            let long = prices.long.map_or(usual, |l| (l.input, l.output, l.cache_read, l.cache_write));
            for (input, output, cache_read, cache_write) in [usual, long] {
                assert!(output >= input && cache_read <= input && cache_write >= input, "{id}");
                assert!(cache_read > Usd::ZERO, "{id}");
            }
            assert!(long.0 >= usual.0 && long.1 >= usual.1 && long.2 >= usual.2 && long.3 >= usual.3, "{id}");
            assert!(prices.long.is_none_or(|long| long.above <= row.window), "{id}");
        }
    }

    #[test]
    fn every_provider_has_a_default_that_is_known() {
        for provider in ["anthropic", "openai"] {
            assert!(lookup(provider, default_model(provider).unwrap()).is_some());
        }
        assert_eq!(default_model("elsewhere"), None);
    }

    #[test]
    fn names_find_their_row() {
        let mini = lookup("openai", "gpt-5-mini").unwrap();
        assert_eq!((mini.window, mini.max_output), (400_000, Some(128_000)));
        assert_eq!(mini.prices.unwrap().input, usd(0.25));
        let same = [
            ("openai", "gpt-5-mini", "gpt-5-mini-2025-08-07"),
            ("openai", "gpt-5", "gpt-5-2025-08-07"),
            ("openai", "gpt-5.6-sol", "gpt-5.6"),
            ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
        ];
        for (provider, model, other) in same {
            assert_eq!(lookup(provider, model).unwrap(), lookup(provider, other).unwrap(), "{other}");
        }
    }

    /// OpenAI refuses to be asked for the thoughts of a model that has none.
    #[test]
    fn models_that_do_not_reason_are_known() {
        let silent = models("openai").into_iter().filter(|model| !lookup("openai", model).unwrap().reasoning);
        assert_eq!(silent.collect::<Vec<_>>(), ["gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano"]);
    }

    /// Never guessed low: what is not in the table has no price.
    #[test]
    fn unknown_models_are_unknown() {
        let strangers = [
            ("openai", "gpt-5-minimal-x"),
            ("openai", "gpt-5-mini-"),
            ("openai", "gpt-5-mini-2025"),
            ("openai", "gpt-5-mini-2025-08-07-x"),
            ("openai", "gpt-5-pro"),
            ("openai", "gpt-6.1-sol-ultrafast"),
            ("openai", "claude-opus-5"),
            ("anthropic", "claude-opus-9"),
            ("anthropic", ""),
            ("elsewhere", "gpt-5"),
        ];
        for (provider, model) in strangers {
            assert_eq!(lookup(provider, model), None, "{model}");
        }
    }

    fn usage([input_tokens, output_tokens, cache_read_tokens, cache_write_tokens]: [u64; 4]) -> Usage {
        Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, ..Usage::default() }
    }

    #[test]
    fn costs_are_exact_and_never_low() {
        let reply = usage([1000, 500, 20_000, 3000]);
        let expected = 1000.0 * 4.0 + 500.0 * 20.0 + 20_000.0 * 0.2 + 3000.0 * 5.0;
        assert_eq!(prices("claude-opus-5-5").cost(&reply), usd(expected / 1e6));
        assert_eq!(prices("gpt-5").cost(&Usage::default()), Usd::ZERO);
        let tiny = Prices { input: Usd::from_nanos(1), ..prices("gpt-5") };
        assert_eq!(tiny.cost(&usage([1, 0, 0, 0])), Usd::from_nanos(1));
        assert_eq!(prices("gpt-5").cost(&usage([u64::MAX; 4])), Usd::from_nanos(u64::MAX));
    }

    /// The length of the prompt counts, whether it was cached or not, and the dearer price holds for every token.
    #[test]
    fn long_prompts_cost_more() {
        let (short, long) = (usage([1, 1000, 99_999, 0]), usage([1, 1000, 99_999, 1]));
        let haiku = prices("claude-haiku-5-5");
        assert_eq!(haiku.cost(&short), usd((0.1 + 500.0 + 999.99) / 1e6));
        assert_eq!(haiku.cost(&long), usd((0.5 + 2500.0 + 4999.95 + 0.625) / 1e6));
    }
}
