//! Which model to use when nobody named one: the one whose key is there, else one that runs on this machine.

use std::time::Duration;

use longhaul_model::provider::{BUILTINS, Builtin};
use longhaul_model::wire::Listed;
use longhaul_model::{Models, ResolveError};

use crate::commands::drive::runtime;
use crate::failure::Failure;
use crate::limits::LOCAL_PROBE_MS;
use crate::render::{self, table};
use crate::settings::Settings;

/// Chooses, and says what was chosen and why.
pub fn of_model(settings: &Settings, models: &Models) -> Result<String, Failure> {
    let (model, why) = silently(settings, models)?;
    render::talk(&format!("no model was named: using {}, {why}", table::clean(&model)));
    Ok(model)
}

/// The choice and the reason for it.
pub fn silently(settings: &Settings, models: &Models) -> Result<(String, String), Failure> {
    match &settings.provider {
        Some(provider) => Ok((of_provider(provider, models)?, format!("the default of {provider}"))),
        None => by_key(models)
            .or_else(|| by_configuration(models))
            .or_else(|| by_looking(models))
            .ok_or_else(nothing),
    }
}

fn of_provider(provider: &str, models: &Models) -> Result<String, Failure> {
    let wrong = |source: ResolveError| {
        Failure::from(longhaul_engine::Error::Model { name: provider.to_owned(), source })
    };
    if let Some(model) = models.default_model(provider).map_err(wrong)? {
        return Ok(model);
    }
    let listed = reachable(models, provider).unwrap_or_default();
    let first = listed.first().map(|model| format!("{provider}/{}", model.id));
    first.ok_or_else(|| {
        Failure::usage(format!("provider {provider} has no default model and lists none")).hint(format!(
            "name one with `--model {provider}/MODEL`, or set `providers.{provider}.default_model`"
        ))
    })
}

/// The first service whose key or address is in the environment.
fn by_key(models: &Models) -> Option<(String, String)> {
    BUILTINS.iter().filter(|known| !known.local).find_map(|known| {
        let set = |name: Option<&str>| {
            name.filter(|name| models.environment.get(*name).is_some_and(|value| !value.trim().is_empty()))
                .map(str::to_owned)
        };
        let variable = set(known.key_env).or_else(|| set(known.base_url_env))?;
        let model = models.default_model(known.name).ok()??;
        Some((model, format!("because {variable} is set")))
    })
}

/// The first configured provider that says what its default is.
fn by_configuration(models: &Models) -> Option<(String, String)> {
    models.providers.iter().find_map(|(name, config)| {
        let model = config.default_model.as_ref()?;
        Some((format!("{name}/{model}"), format!("the default of {name}")))
    })
}

/// The first server that answers on one of the usual ports of this machine.
fn by_looking(models: &Models) -> Option<(String, String)> {
    BUILTINS.iter().filter(|known| known.local).find_map(|known| {
        let first = reachable(models, known.name)?.into_iter().next()?;
        Some((format!("{}/{}", known.name, first.id), format!("which {} offers here", known.name)))
    })
}

/// What a provider lists, if it answers soon.
pub fn reachable(models: &Models, provider: &str) -> Option<Vec<Listed>> {
    let provider = models.provider(&format!("{provider}/any")).ok()?;
    let runtime = runtime().ok()?;
    runtime.block_on(provider.list(Duration::from_millis(LOCAL_PROBE_MS))).ok()
}

fn nothing() -> Failure {
    let local: Vec<&str> = BUILTINS
        .iter()
        .filter(|known| known.local && !known.base_url.is_empty())
        .map(|known| known.name)
        .collect();
    Failure::usage("no model is configured").hint(format!(
        "export ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server ({}), or give one with `--model P/M`; \
         `longhaul demo` needs none",
        local.join(", ")
    ))
}

/// The built-in providers that run on this machine.
pub fn is_local(provider: &str) -> bool {
    Builtin::find(provider).is_some_and(|known| known.local)
}
