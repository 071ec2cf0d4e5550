//! Finding a provider's key: in an environment variable, or by asking a command. It owns the one moment at which a secret
//! enters the process, and wraps it there; nothing here prints or stores one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};

use longhaul_core::secret::is_secret;
use secrecy::{ExposeSecret, SecretString};

use super::config::{Builtin, ProviderConfig};
use crate::limits::{KEY_BYTES_MAX, KEY_COMMAND_TIME};

/// The secrets of one provider.
#[derive(Clone, Default)]
pub struct Found {
    pub key: Option<SecretString>,
    pub headers: Vec<(String, SecretString)>,
    /// The secrets inside headers, as in `Bearer ${TOKEN}`: they may be met without the words around them.
    pub parts: Vec<SecretString>,
}

/// What commands have told: each is asked once, and its key is known from then on as something that must not be written.
#[derive(Debug, Default)]
pub struct Told(Mutex<BTreeMap<Asked, SecretString>>);

/// A command and where it is run: the same words elsewhere may be another script.
type Asked = (Option<PathBuf>, String);

impl Told {
    /// Forgets everything, so that commands are asked again: keys expire.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn known(&self, asked: &Asked) -> Option<SecretString> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(asked).cloned()
    }

    fn ask(&self, provider: &str, asked: Asked) -> Result<SecretString, KeyError> {
        if let Some(key) = self.known(&asked) {
            return Ok(key);
        }
        let key = SecretString::from(ask(provider, &asked)?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(asked, key.clone());
        Ok(key)
    }
}

fn command(config: &ProviderConfig) -> Option<Asked> {
    config.api_key_command.clone().map(|command| (config.base_dir.clone(), command))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("provider `{provider}` needs a key, and ${variable} is not set")]
    Missing { provider: String, variable: String },
    #[error("provider `{provider}`: header `{header}` names ${variable}, which is not set")]
    Header { provider: String, header: String, variable: String },
    #[error("provider `{provider}`: the command for its key {why}")]
    Command { provider: String, why: String },
}

impl Found {
    /// Looks for everything the configuration names.
    pub fn look(
        provider: &str,
        config: &ProviderConfig,
        environment: &BTreeMap<String, String>,
        told: &Told,
    ) -> Result<Found, KeyError> {
        let mut found = Found::default();
        for (name, value) in &config.headers {
            let value = expand(provider, name, value, environment, &mut found.parts)?;
            found.headers.push((name.clone(), value.into()));
        }
        found.key = key(provider, config, environment, told)?;
        Ok(found)
    }

    /// Every secret that is there, also of a provider that could not be used for want of another one. No command is asked
    /// for it.
    pub(crate) fn secrets(
        provider: &str,
        config: &ProviderConfig,
        environment: &BTreeMap<String, String>,
        told: &Told,
    ) -> Vec<SecretString> {
        let mut secrets = Vec::new();
        for (name, value) in &config.headers {
            let whole = expand(provider, name, value, environment, &mut secrets);
            secrets.extend(whole.ok().filter(|whole| is_secret(name, whole)).map(SecretString::from));
        }
        secrets.extend(match command(config) {
            Some(asked) => told.known(&asked),
            None => in_environment(variable(provider, config), environment),
        });
        secrets
    }

    /// What a rate limit is shared by: the place and the key, in a form that gives neither away.
    pub(super) fn account(&self, provider: &str, base_url: &str, model: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (base_url, model).hash(&mut hasher);
        for (name, value) in &self.headers {
            (name, value.expose_secret()).hash(&mut hasher);
        }
        self.key.as_ref().map(ExposeSecret::expose_secret).hash(&mut hasher);
        let plain: String = provider.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{plain}-{:016x}", hasher.finish())
    }
}

fn key(
    provider: &str,
    config: &ProviderConfig,
    environment: &BTreeMap<String, String>,
    told: &Told,
) -> Result<Option<SecretString>, KeyError> {
    if let Some(asked) = command(config) {
        return told.ask(provider, asked).map(Some);
    }
    let Some(variable) = variable(provider, config) else { return Ok(None) };
    if let Some(key) = in_environment(Some(variable), environment) {
        return Ok(Some(key));
    }
    // A server of one's own at another address may want no key; the service itself always does.
    let elsewhere =
        Builtin::find(provider).is_some_and(|known| config.base_url.as_deref() != Some(known.base_url));
    if elsewhere && config.api_key_env.is_none() {
        return Ok(None);
    }
    Err(KeyError::Missing { provider: provider.to_owned(), variable: variable.to_owned() })
}

/// The variable that should hold the key.
fn variable<'a>(provider: &str, config: &'a ProviderConfig) -> Option<&'a str> {
    config.api_key_env.as_deref().or(Builtin::find(provider).and_then(|known| known.key_env))
}

fn in_environment(variable: Option<&str>, environment: &BTreeMap<String, String>) -> Option<SecretString> {
    environment.get(variable?).map(|key| key.trim()).filter(|key| !key.is_empty()).map(SecretString::from)
}

/// Puts environment variables in the place of `${NAME}`, and those of their values that are secrets among `parts`.
fn expand(
    provider: &str,
    header: &str,
    value: &str,
    environment: &BTreeMap<String, String>,
    parts: &mut Vec<SecretString>,
) -> Result<String, KeyError> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, behind)) = after.split_once('}') else { break };
        let found = environment.get(variable).ok_or_else(|| KeyError::Header {
            provider: provider.to_owned(),
            header: header.to_owned(),
            variable: variable.to_owned(),
        })?;
        expanded.push_str(before);
        expanded.push_str(found);
        let found = found.trim();
        if is_secret(header, found) || is_secret(variable, found) {
            parts.push(found.into());
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Runs the command and takes its first line. What it says on standard error goes to the user's terminal, where a
/// password manager may have something to ask. It is given no key: it is to find one. It is run where its settings are: what
/// a repository brings must not stand in for a script of the user's.
fn ask(provider: &str, (base_dir, command): &Asked) -> Result<String, KeyError> {
    let failed = |why: String| KeyError::Command { provider: provider.to_owned(), why };
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    if let Some(base_dir) = base_dir {
        shell.current_dir(base_dir);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().ends_with("_API_KEY")) {
        shell.env_remove(name);
    }
    let mut child = shell.spawn().map_err(|error| failed(format!("could not be started: {error}")))?;
    let group = format!("-{}", child.id());
    let stdout = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // One byte more than allowed tells a key that just fits from one that does not end.
        let read = stdout.map(|out| out.take(KEY_BYTES_MAX as u64 + 1).read_to_end(&mut said));
        drop(sender.send((read.transpose().map(|_| said), child.wait())));
    });
    let (said, status) = receiver.recv_timeout(KEY_COMMAND_TIME).map_err(|_| {
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
        failed(format!("said nothing within {KEY_COMMAND_TIME:?}"))
    })?;
    let said = said.map_err(|error| failed(format!("could not be heard: {error}")))?;
    let status = status.map_err(|error| failed(format!("could not be waited for: {error}")))?;
    let text = String::from_utf8_lossy(&said);
    let key = text.lines().next().unwrap_or("").trim();
    match key.len() {
        _ if said.len() > KEY_BYTES_MAX => Err(failed(format!("printed more than {KEY_BYTES_MAX} bytes"))),
        _ if !status.success() => Err(failed(format!("failed: {status}"))),
        0 => Err(failed("printed nothing".to_owned())),
        _ => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is called a key or looks like one is struck out of what tools print; a team's name is not.
    #[test]
    fn headers_that_are_no_secrets_are_left_alone() {
        let headers = [
            ("x-team", "platform"),
            ("x-stage", "${STAGE}"),
            ("x-trace", "0123456789abcdef0123456789abcdef"),
            ("authorization", "Bearer ${ENTRY}"),
            ("x-plain", "${HOUSE_TOKEN}"),
        ];
        let config = ProviderConfig {
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..ProviderConfig::default()
        };
        let environment = [("STAGE", "production"), ("ENTRY", "open sesame"), ("HOUSE_TOKEN", "swordfish")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = Found::secrets("house", &config, &environment, &Told::default());
        let mut found: Vec<&str> = found.iter().map(|secret| secret.expose_secret()).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            ["0123456789abcdef0123456789abcdef", "Bearer open sesame", "open sesame", "swordfish"]
        );
    }
}
