//! A provider as it is configured: where it is, what it speaks, how its key is found, what it charges. It owns the list of
//! providers that need no configuration; it refuses to hold a key, only the name of where one is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use longhaul_core::money::Usd;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::BadPrice;
use crate::wire::Api;

/// One provider. Every field may be left out where the provider's name is known.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// What it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Speaks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A command that prints the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<String>,
    /// Where the settings are that name the command: it is run there.
    #[serde(skip)]
    pub base_dir: Option<PathBuf>,
    /// Sent with every request; `${NAME}` stands for an environment variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What is charged, unless `models` says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_tokens")]
    pub max_output_tokens: Option<u32>,
    /// Are its models shown images? Without a word they are, and one that refuses them is asked again without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Used when only the provider is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Fields of the request's body. Objects are merged, anything else replaces what would be sent, `null` removes it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Without anything that moves a reply forward for this long, the reply is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    /// What differs from model to model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_tokens")]
    pub max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PriceConfig {
    #[serde(deserialize_with = "dollars")]
    pub input: f64,
    #[serde(deserialize_with = "dollars")]
    pub output: f64,
    /// Without a word, what was read from the cache is charged like any other input.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_read: Option<f64>,
    /// Without a word, a quarter more than input: what the dearest of the usual terms charge.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_write: Option<f64>,
}

/// An amount is refused where it is read, because only there it is known on which line it stands.
fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    Usd::from_dollars(dollars).map(|_| dollars).ok_or_else(|| D::Error::custom(BadPrice(dollars)))
}

fn some_dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let dollars = Option::<f64>::deserialize(deserializer)?;
    match dollars.filter(|dollars| Usd::from_dollars(*dollars).is_none()) {
        Some(wrong) => Err(D::Error::custom(BadPrice(wrong))),
        None => Ok(dollars),
    }
}

/// A reply of nothing is none.
fn some_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(0) => Err(D::Error::custom("`max_output_tokens` is zero, and no reply fits into that")),
        tokens => Ok(tokens),
    }
}

/// What stands at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaks {
    Anthropic,
    Responses,
    Chat,
    /// Nothing: a file is played.
    Scripted,
}

impl Speaks {
    /// The protocol, unless there is none.
    pub fn api(self) -> Option<Api> {
        match self {
            Speaks::Anthropic => Some(Api::Anthropic),
            Speaks::Responses => Some(Api::Responses),
            Speaks::Chat => Some(Api::Chat),
            Speaks::Scripted => None,
        }
    }
}

impl ProviderConfig {
    /// These settings with `over` laid over them, field by field.
    #[must_use]
    pub fn under(mut self, over: ProviderConfig) -> ProviderConfig {
        self.headers.extend(over.headers);
        self.extra.extend(over.extra);
        self.models.extend(over.models);
        ProviderConfig {
            api: over.api.or(self.api),
            base_url: over.base_url.or(self.base_url),
            api_key_env: over.api_key_env.or(self.api_key_env),
            base_dir: if over.api_key_command.is_some() { over.base_dir } else { self.base_dir },
            api_key_command: over.api_key_command.or(self.api_key_command),
            prices: over.prices.or(self.prices),
            context_window: over.context_window.or(self.context_window),
            max_output_tokens: over.max_output_tokens.or(self.max_output_tokens),
            images: over.images.or(self.images),
            default_model: over.default_model.or(self.default_model),
            idle_timeout_s: over.idle_timeout_s.or(self.idle_timeout_s),
            ..self
        }
    }
}

/// A provider that is known without configuration.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    pub name: &'static str,
    pub api: Speaks,
    pub base_url: &'static str,
    pub key_env: Option<&'static str>,
    pub base_url_env: Option<&'static str>,
    /// Does it run on this machine, if it runs at all?
    pub local: bool,
}

/// In the order in which they are looked for when no model is named: a key says most about what its owner wants.
pub const BUILTINS: [Builtin; 7] = [
    Builtin {
        name: "anthropic",
        api: Speaks::Anthropic,
        base_url: "https://api.anthropic.com",
        key_env: Some("ANTHROPIC_API_KEY"),
        base_url_env: Some("ANTHROPIC_BASE_URL"),
        local: false,
    },
    Builtin {
        name: "openai",
        api: Speaks::Responses,
        base_url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        base_url_env: Some("OPENAI_BASE_URL"),
        local: false,
    },
    Builtin::local("ollama", "http://127.0.0.1:11434/v1"),
    Builtin::local("llamacpp", "http://127.0.0.1:8080/v1"),
    Builtin::local("lmstudio", "http://127.0.0.1:1234/v1"),
    Builtin::local("vllm", "http://127.0.0.1:8000/v1"),
    Builtin {
        name: "scripted",
        api: Speaks::Scripted,
        base_url: "",
        key_env: None,
        base_url_env: None,
        local: true,
    },
];

/// Other names under which the first two are known.
const ALIASES: [(&str, &str); 2] = [("claude", "anthropic"), ("codex", "openai")];

/// The name under which the table of models knows a provider.
pub fn official(provider: &str) -> &str {
    Builtin::find(provider).map_or(provider, |known| known.name)
}

impl Builtin {
    const fn local(name: &'static str, base_url: &'static str) -> Builtin {
        Builtin { name, api: Speaks::Chat, base_url, key_env: None, base_url_env: None, local: true }
    }

    pub fn find(name: &str) -> Option<&'static Builtin> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        BUILTINS.iter().find(|known| known.name == name)
    }

    pub fn config(&self) -> ProviderConfig {
        ProviderConfig {
            api: Some(self.api),
            base_url: (!self.base_url.is_empty()).then(|| self.base_url.to_owned()),
            ..ProviderConfig::default()
        }
    }
}
