//! A model behind a network: configuration, key, price and limiter joined to the wire. It owns what one provider's model
//! is; it refuses to retry, which is the run's decision, and to keep a conversation.

mod config;
pub(crate) mod convert;
mod key;
mod limiter;
mod sight;
mod usage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelReply, ModelRequest};
use longhaul_core::time::Timestamp;
use serde_json::{Map, Value};

pub use config::{BUILTINS, Builtin, ModelConfig, PriceConfig, ProviderConfig, Speaks, official};
pub use key::{Found, KeyError, Told};
pub use limiter::Limiter;
pub(crate) use sight::Sight;

use crate::known::{self, Prices};
use crate::limits;
use crate::model::{BoxFuture, Deltas, Model};
use crate::tokens;
use crate::wire::limits::OUTPUT_TOKENS_DEFAULT;
use crate::wire::{
    Api, Client, Endpoint, Kind, Listed, Manners, Options, Reply, Request, ToolOffer, WireError,
};

/// One model of one provider, ready to be asked.
pub struct Provider {
    /// As configured, `anthropic/claude`.
    full_name: String,
    model: String,
    pub endpoint: Endpoint,
    client: Client,
    facts: Facts,
    extra: Map<String, Value>,
    offers: Arc<[ToolOffer]>,
    limiter: Arc<Limiter>,
    account: String,
    sight: Sight,
    /// Is it asked for its encrypted thoughts? Not after it has refused to be.
    thoughtless: AtomicBool,
    newer_limit: bool,
    /// The window by its provider's own list, once that was asked for.
    listed_window: OnceLock<Option<u64>>,
}

/// What is known of a model before it is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub window: Option<u64>,
    pub max_output_tokens: Option<u32>,
    /// Unknown is not free.
    pub prices: Option<Prices>,
    /// Is it shown images? Nothing if nobody said so: then it is, until it refuses them.
    pub images: Option<bool>,
    /// Has it encrypted thoughts? Nothing if nobody said so: then it is asked for them, until it refuses.
    pub reasoning: Option<bool>,
}

impl Facts {
    /// What the configuration says, model before provider, and else the table.
    pub fn of(provider: &str, model: &str, config: &ProviderConfig) -> Result<Facts, BadPrice> {
        let own = config.models.get(model).cloned().unwrap_or_default();
        let known = known::lookup(provider, model);
        let prices = own.prices.or(config.prices).map(|prices| prices.read()).transpose()?;
        Ok(Facts {
            window: own.context_window.or(config.context_window).or(known.as_ref().map(|known| known.window)),
            max_output_tokens: own
                .max_output_tokens
                .or(config.max_output_tokens)
                .or(known.as_ref().and_then(|known| known.max_output)),
            images: own.images.or(config.images),
            reasoning: known.as_ref().map(|known| known.reasoning),
            prices: prices.or(known.and_then(|known| known.prices)),
        })
    }
}

/// A price that is no amount of dollars.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not an amount of dollars")]
pub struct BadPrice(pub f64);

impl PriceConfig {
    fn read(&self) -> Result<Prices, BadPrice> {
        let usd = |dollars: f64| longhaul_core::money::Usd::from_dollars(dollars).ok_or(BadPrice(dollars));
        Ok(Prices {
            input: usd(self.input)?,
            output: usd(self.output)?,
            cache_read: usd(self.cache_read.unwrap_or(self.input))?,
            cache_write: usd(self.cache_write.unwrap_or(self.input * 1.25))?,
            long: None,
        })
    }
}

/// Everything a provider's model is made from.
pub(crate) struct Parts<'a> {
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) api: Api,
    pub(crate) config: &'a ProviderConfig,
    pub(crate) base_url: String,
    pub(crate) found: Found,
    pub(crate) facts: Facts,
    pub(crate) offers: Arc<[ToolOffer]>,
    pub(crate) limiter: Arc<Limiter>,
}

impl Provider {
    pub(crate) fn new(parts: Parts<'_>) -> Result<Provider, WireError> {
        let Parts { provider, model, api, config, base_url, found, facts, offers, limiter } = parts;
        let account = found.account(provider, &base_url, model);
        let Found { key, headers, parts } = found;
        let endpoint = Endpoint { api, base_url, key, headers, hidden: parts };
        // A wrong address, and what cannot be a header, is better said now than in the middle of the night.
        endpoint.url()?;
        endpoint.headers("application/json")?;
        let mut options = Options::usual();
        if let Some(seconds) = config.idle_timeout_s {
            options.idle_timeout = Duration::from_secs(seconds.max(1));
        }
        Ok(Provider {
            sight: Sight::new(facts.images.unwrap_or(true)),
            thoughtless: AtomicBool::new(facts.reasoning == Some(false)),
            newer_limit: official(provider) == "openai",
            listed_window: OnceLock::new(),
            full_name: format!("{provider}/{model}"),
            model: model.to_owned(),
            endpoint,
            client: Client::new(options)?,
            facts,
            extra: config.extra.clone(),
            offers,
            limiter,
            account,
        })
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Which models the provider has, by its own word.
    pub async fn list(&self, within: Duration) -> Result<Vec<Listed>, WireError> {
        self.client.list(&self.endpoint, within).await
    }

    /// The request as it goes over the wire.
    pub fn encode(&self, request: &ModelRequest) -> Request {
        let terms = convert::Terms {
            api: self.endpoint.api,
            model: &self.model,
            offers: &self.offers,
            max_output_tokens: self.output_tokens(),
            manners: Manners {
                thoughtless: self.thoughtless.load(Ordering::Relaxed),
                newer_limit: self.newer_limit,
            },
            extra: &self.extra,
            sight: &self.sight,
        };
        convert::request(request, &terms)
    }

    /// How long a reply may be, where that is said: where somebody chose it, or the protocol demands a number. Never more than half of
    /// the window, which is what is left of it for a reply at least.
    fn output_tokens(&self) -> Option<u32> {
        let demanded = (self.endpoint.api == Api::Anthropic).then_some(OUTPUT_TOKENS_DEFAULT);
        let half = u32::try_from(self.context_window() / 2).unwrap_or(u32::MAX).max(1);
        self.facts.max_output_tokens.or(demanded).map(|tokens| tokens.min(half))
    }

    async fn ask(&self, request: ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelFailure> {
        if let Some(left_ms) = self.limiter.left_ms(&self.account, now()) {
            let message = "rate limited: this key was told to wait, by this run or another";
            let limited = ModelFailure::new(ModelFailureKind::RateLimited, message);
            return Err(ModelFailure { after_ms: Some(left_ms), ..limited });
        }
        match self.send(&request, deltas).await {
            Ok((sent, reply)) => {
                self.sight.took(&request);
                self.look_for_window().await;
                let usage = usage::of(&sent, &reply, self.facts.prices.as_ref());
                convert::reply(reply, &self.full_name, usage).map_err(|mut failure| {
                    failure.message = self.endpoint.clean(&failure.message);
                    failure
                })
            }
            Err(error) => {
                let failure = convert::failure(&error);
                if let Some(after_ms) = failure.after_ms {
                    self.limiter.hold(&self.account, now(), after_ms);
                }
                Err(failure)
            }
        }
    }

    /// Asks, and once more without what the model refuses: images, or the wish for its thoughts. Comes back with what was
    /// sent in the end.
    async fn send(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<(Request, Reply), WireError> {
        let send = || async {
            let sent = self.encode(request);
            self.client.send(&self.endpoint, &sent, deltas).await.map(|reply| (sent, reply))
        };
        let refused = |error: &WireError| self.refused_thoughts(error) || self.sight.refused(request, error);
        let mut answer = send().await;
        if answer.as_ref().is_err_and(refused) {
            answer = send().await;
            // It is remembered what else was refused, for whoever asks next; asked again it is not.
            let _ = answer.as_ref().is_err_and(refused);
        }
        answer
    }

    /// Does the model refuse to be asked for its thoughts? Then it is not again.
    fn refused_thoughts(&self, error: &WireError) -> bool {
        let said = error.message.to_ascii_lowercase();
        let about = ["encrypted content", "encrypted_content", "'include'", "`include`"];
        let refused = self.endpoint.api == Api::Responses
            && error.kind == Kind::Fatal
            && error.status == Some(400)
            && about.iter().any(|words| said.contains(words));
        refused && !self.thoughtless.swap(true, Ordering::Relaxed)
    }

    /// Asks once how large the window is, if nobody has said so: servers of one's own mostly list it.
    async fn look_for_window(&self) {
        if self.facts.window.is_some() || self.listed_window.get().is_some() {
            return;
        }
        let listed = self.list(limits::WINDOW_LOOK_TIME).await.unwrap_or_default();
        let own = listed.into_iter().find(|listed| listed.id == self.model);
        // Somebody else may have looked at the same time, and saw the same.
        let _ = self.listed_window.set(own.and_then(|own| own.window).filter(|window| *window > 0));
    }
}

impl Model for Provider {
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelReply, ModelFailure>> {
        Box::pin(self.ask(request, deltas))
    }

    fn account(&self) -> Option<&str> {
        Some(&self.account)
    }

    fn reply_room(&self) -> u64 {
        self.output_tokens().map_or(0, u64::from)
    }

    fn context_window(&self) -> u64 {
        let listed = || self.listed_window.get().copied().flatten();
        self.facts.window.or_else(listed).unwrap_or(limits::CONTEXT_WINDOW_UNKNOWN)
    }

    fn count<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, u64> {
        Box::pin(async move {
            let request = self.encode(request);
            match self.client.count_tokens(&self.endpoint, &request).await {
                Ok(Some(tokens)) => tokens,
                // Whoever counts wants a number, and soon: what cannot be asked is estimated.
                Ok(None) | Err(_) => tokens::estimate(&request),
            }
        })
    }

    fn is_priced(&self) -> bool {
        self.facts.prices.is_some()
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Model, ProviderConfig};
    use crate::registry::Models;
    use crate::wire::Api;

    /// A question and its reply fit the window together: what is asked for is kept free, and never more than half.
    #[test]
    fn the_reply_has_room_in_the_window() {
        let cases = [
            (Api::Anthropic, 200_000, None, Some(16_384)),
            (Api::Anthropic, 32_000, None, Some(16_000)),
            (Api::Anthropic, 32_000, Some(4_096), Some(4_096)),
            (Api::Anthropic, 32_000, Some(64_000), Some(16_000)),
            (Api::Chat, 32_000, Some(64_000), Some(16_000)),
            (Api::Chat, 32_000, None, None),
            (Api::Responses, 32_000, None, None),
        ];
        for (api, window, configured, expected) in cases {
            let config: ProviderConfig = serde_json::from_value(serde_json::json!({
                "api": api.as_str(),
                "base_url": "http://127.0.0.1:1",
                "context_window": window,
                "max_output_tokens": configured,
            }))
            .unwrap();
            let providers = BTreeMap::from([("p".to_owned(), config)]);
            let provider = Models { providers, ..Models::default() }.provider("p/m").unwrap();
            let case = format!("{api:?} {window} {configured:?}");
            assert_eq!(provider.output_tokens(), expected, "{case}");
            assert_eq!(provider.reply_room(), expected.map_or(0, u64::from), "{case}");
            assert!(provider.reply_room() <= provider.context_window() / 2, "{case}");
        }
    }
}
