//! How a model's name becomes a model. It owns the joining of what is built in, what is configured and what the environment
//! says, and refuses names it does not know; it keeps no model alive and opens no connection.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretString;

use crate::known;
use crate::model::Model;
use crate::provider::{
    BUILTINS, BadPrice, Builtin, Facts, Found, KeyError, Limiter, Parts, Provider, ProviderConfig, Speaks,
    Told, official,
};
use crate::scripted::{ScriptError, Scripted};
use crate::wire::{ToolOffer, WireError};

/// Everything a model's name is resolved against.
#[derive(Clone, Default)]
pub struct Models {
    /// Relative script paths start here.
    pub base_dir: PathBuf,
    /// The tools there are, as a model is told of them.
    pub offers: Arc<[ToolOffer]>,
    /// What is configured, by the provider's name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Where keys and addresses are looked for.
    pub environment: BTreeMap<String, String>,
    pub limiter: Arc<Limiter>,
    pub told: Arc<Told>,
    /// Providers that were configured by somebody the user has not trusted. What they would be without that is not what
    /// was meant, so they are refused.
    pub untrusted: BTreeSet<String>,
}

impl Models {
    /// Finds `provider/model`, for example `scripted/demo.yaml`. Each call reads afresh; keep the result for a run.
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let (provider, rest) = split(name)?;
        self.check_trusted(provider)?;
        let config = self.config(provider)?;
        match self.speaks(provider, &config)? {
            Speaks::Scripted => Ok(Arc::new(self.scripted(rest)?)),
            Speaks::Anthropic | Speaks::Responses | Speaks::Chat => Ok(Arc::new(self.provider(name)?)),
        }
    }

    /// Finds a model behind a network, as itself.
    pub fn provider(&self, name: &str) -> Result<Provider, ResolveError> {
        let (provider, model) = split(name)?;
        self.check_trusted(provider)?;
        let config = self.config(provider)?;
        let api = self.speaks(provider, &config)?.api();
        let api = api.ok_or_else(|| ResolveError::NoNetwork { provider: provider.to_owned() })?;
        let missing = || ResolveError::NoBaseUrl { provider: provider.to_owned() };
        let facts = Facts::of(official(provider), model, &config)
            .map_err(|why| ResolveError::Price { provider: provider.to_owned(), why })?;
        let parts = Parts {
            provider,
            model,
            api,
            config: &config,
            base_url: config.base_url.clone().ok_or_else(missing)?,
            found: Found::look(provider, &config, &self.environment, &self.told)?,
            facts,
            offers: Arc::clone(&self.offers),
            limiter: Arc::clone(&self.limiter),
        };
        Provider::new(parts)
            .map_err(|why| ResolveError::Wire { provider: provider.to_owned(), why: Box::new(why) })
    }

    /// A provider's whole configuration: what is built in, under what is configured, under the environment's address.
    pub fn config(&self, provider: &str) -> Result<ProviderConfig, ResolveError> {
        let builtin = Builtin::find(provider);
        let configured = self.providers.get(provider).or_else(|| self.providers.get(official(provider)));
        if builtin.is_none() && configured.is_none() {
            self.check_trusted(provider)?;
            return Err(ResolveError::UnknownProvider { provider: provider.to_owned(), known: self.names() });
        }
        let base = builtin.map(Builtin::config).unwrap_or_default();
        let from_environment = ProviderConfig {
            base_url: builtin
                .and_then(|known| self.environment.get(known.base_url_env?))
                .filter(|url| !url.trim().is_empty())
                .map(|url| url.trim().to_owned()),
            ..ProviderConfig::default()
        };
        Ok(base.under(configured.cloned().unwrap_or_default()).under(from_environment))
    }

    /// The names a model may begin with.
    pub fn names(&self) -> Vec<String> {
        let builtin = BUILTINS.iter().map(|known| known.name.to_owned());
        let mut names: Vec<String> = builtin.chain(self.providers.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The model to use when only its provider is named.
    pub fn default_model(&self, provider: &str) -> Result<Option<String>, ResolveError> {
        let known = || known::default_model(official(provider)).map(str::to_owned);
        let model = self.config(provider)?.default_model.or_else(known);
        Ok(model.map(|model| format!("{provider}/{model}")))
    }

    /// Every key there is, of all providers: what must not be written anywhere. Of a command it is known once its provider
    /// was found.
    pub fn secrets(&self) -> Vec<SecretString> {
        let of = |name: &String| {
            let config = self.config(name).ok()?;
            Some(Found::secrets(name, &config, &self.environment, &self.told))
        };
        self.names().iter().filter_map(of).flatten().collect()
    }

    /// Forgets the keys that commands told, so that they are asked again.
    pub fn forget_keys(&self) {
        self.told.forget();
    }

    fn check_trusted(&self, provider: &str) -> Result<(), ResolveError> {
        let known = |name: &str| self.untrusted.contains(name);
        if known(provider) || known(official(provider)) {
            return Err(ResolveError::Untrusted { provider: provider.to_owned() });
        }
        Ok(())
    }

    fn speaks(&self, provider: &str, config: &ProviderConfig) -> Result<Speaks, ResolveError> {
        config.api.ok_or_else(|| ResolveError::NoApi { provider: provider.to_owned() })
    }

    fn scripted(&self, path: &str) -> Result<Scripted, ScriptError> {
        let known_tools: Vec<&str> = self.offers.iter().map(|offer| offer.name.as_str()).collect();
        Scripted::load(&self.base_dir.join(path), &known_tools)
    }
}

/// Why a name is no model.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("model name `{name}` is not of the form `provider/model`")]
    BadName { name: String },
    #[error("unknown provider `{provider}`")]
    UnknownProvider { provider: String, known: Vec<String> },
    #[error("provider `{provider}` is configured by this repository, which you have not trusted")]
    Untrusted { provider: String },
    #[error("providers.{provider}.api is missing")]
    NoApi { provider: String },
    #[error("providers.{provider}.base_url is missing")]
    NoBaseUrl { provider: String },
    #[error("providers.{provider}.prices: {why}")]
    Price { provider: String, why: BadPrice },
    #[error("provider `{provider}` plays files and has no network")]
    NoNetwork { provider: String },
    #[error("provider `{provider}`: {why}")]
    Wire { provider: String, why: Box<WireError> },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl ResolveError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ResolveError::BadName { .. } => Some(
                "for example `anthropic/claude-…` or `scripted/demo.yaml`; see `longhaul models list`"
                    .to_owned(),
            ),
            ResolveError::UnknownProvider { known, .. } => Some(format!(
                "known providers: {}; others are configured under `providers` in longhaul.yaml",
                known.join(", ")
            )),
            ResolveError::Untrusted { .. } => {
                Some("`longhaul trust` shows what it would do, and asks".to_owned())
            }
            ResolveError::NoApi { .. } => Some("one of anthropic, responses, chat, scripted".to_owned()),
            ResolveError::NoBaseUrl { .. } => Some("for example `http://127.0.0.1:8080/v1`".to_owned()),
            ResolveError::Key(KeyError::Missing { variable, .. }) => Some(format!(
                "export {variable}=…, or name another variable (`api_key_env`) or a command (`api_key_command`) in longhaul.yaml"
            )),
            ResolveError::Key(KeyError::Header { variable, .. }) => {
                Some(format!("export {variable}=…, or take the header out of longhaul.yaml"))
            }
            ResolveError::Key(KeyError::Command { provider, .. }) => Some(format!(
                "try by hand what `providers.{provider}.api_key_command` says; it has to print the key and nothing else"
            )),
            ResolveError::Price { .. } => {
                Some("US dollars for a million tokens, for example `{ input: 3, output: 15 }`".to_owned())
            }
            ResolveError::Wire { why, .. } => why.hint().map(str::to_owned),
            ResolveError::Script(error) => error.hint().map(str::to_owned),
            ResolveError::NoNetwork { .. } => None,
        }
    }
}

fn split(name: &str) -> Result<(&str, &str), ResolveError> {
    match name.split_once('/') {
        Some((provider, rest)) if !provider.is_empty() && !rest.is_empty() => Ok((provider, rest)),
        Some(_) | None => Err(ResolveError::BadName { name: name.to_owned() }),
    }
}
