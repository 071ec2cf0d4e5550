//! How a model's name becomes a model. It owns the list of providers and refuses names it does not know; it keeps no
//! model alive and reads nothing until a name is resolved.

use std::path::PathBuf;
use std::sync::Arc;

use crate::model::Model;
use crate::scripted::{ScriptError, Scripted};

/// Everything a model's name is resolved against.
#[derive(Clone, Debug)]
pub struct Models {
    /// Relative script paths start here.
    pub base_dir: PathBuf,
    /// Names of the tools a script may call.
    pub known_tools: Vec<String>,
}

impl Models {
    /// Finds `provider/rest`, for example `scripted/demo.yaml`. Each call reads afresh; keep the result for a run.
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let (provider, rest) = split(name)?;
        match provider {
            Provider::Scripted => Ok(Arc::new(self.scripted(rest)?)),
        }
    }

    fn scripted(&self, path: &str) -> Result<Scripted, ScriptError> {
        let known_tools: Vec<&str> = self.known_tools.iter().map(String::as_str).collect();
        Scripted::load(&self.base_dir.join(path), &known_tools)
    }
}

/// Who answers. A new provider is a variant here, a folder beside `scripted`, and an arm in `Models::resolve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Plays a file; the rest of the name is its path.
    Scripted,
}

impl Provider {
    pub const ALL: [Provider; 1] = [Provider::Scripted];

    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Scripted => "scripted",
        }
    }
}

/// Why a name is no model.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("model name `{name}` is not of the form `provider/model`")]
    BadName { name: String },
    #[error("unknown provider `{provider}`")]
    UnknownProvider { provider: String },
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl ResolveError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ResolveError::BadName { .. } | ResolveError::UnknownProvider { .. } => {
                let known = Provider::ALL.map(|provider| format!("`{}`", provider.as_str()));
                Some(format!("known providers: {}; for example `scripted/demo.yaml`", known.join(", ")))
            }
            ResolveError::Script(error) => error.hint().map(str::to_owned),
        }
    }
}

fn split(name: &str) -> Result<(Provider, &str), ResolveError> {
    let bad_name = || ResolveError::BadName { name: name.to_owned() };
    let (provider, rest) = name.split_once('/').ok_or_else(bad_name)?;
    if provider.is_empty() || rest.is_empty() {
        return Err(bad_name());
    }
    let known = Provider::ALL.into_iter().find(|known| known.as_str() == provider);
    let unknown = || ResolveError::UnknownProvider { provider: provider.to_owned() };
    Ok((known.ok_or_else(unknown)?, rest))
}
