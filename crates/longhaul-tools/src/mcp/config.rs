//! A server as it is configured: how it is reached, what it is given, how long it may take.
//!
//! Owns the shape of `mcp.servers.NAME` and putting variables in place of `${NAME}`. Refuses to give a provider's key to
//! a server, also when it is asked for by name: a server that needs one gets a variable of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits;
use crate::sandbox::Network;

/// One server. It has a command or a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The program and its arguments; a program without a slash is looked for in `PATH`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Given to the program; `${NAME}` stands for an environment variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where the program is started, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address of a server that speaks streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Sent with every request; `${NAME}` stands for an environment variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long a call may take, instead of `harness.retries.timeout_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the server may take to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The only tools that are used, by the server's own names for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Is the server told where the run works? Some then keep to that directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<bool>,
    /// Is the program held by the sandbox?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<bool>,
    /// What the program reaches, instead of `permissions.network`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    Stdio { program: &'a str, arguments: &'a [String] },
    Http { url: &'a str },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("mcp.servers.{name}: a name has 1 to {max} letters, digits, `-` and single `_`", max = limits::SERVER_NAME_BYTES_MAX)]
    Name { name: String },
    #[error("mcp.servers.{name} has neither `command` nor `url`")]
    NoWay { name: String },
    #[error("mcp.servers.{name} has both `command` and `url`; it can have one")]
    TwoWays { name: String },
    #[error("mcp.servers.{name}: `{field}` is only for servers with a `{way}`")]
    WrongField { name: String, field: &'static str, way: &'static str },
    #[error("mcp.servers.{name}.url is not an address that starts with http:// or https://")]
    Url { name: String },
    #[error("mcp.servers.{name}.{field} must be from 1 to {max} ms", max = limits::TIME_MAX.as_millis())]
    Time { name: String, field: &'static str },
    #[error("mcp.servers.{name}: {whose} names ${{{variable}}}, which is not set")]
    Unset { name: String, whose: String, variable: String },
    #[error("mcp.servers.{name}: {whose} names ${{{variable}}}, which holds a model provider's key")]
    Withheld { name: String, whose: String, variable: String },
    #[error("mcp.servers has {count} servers, at most {max}", max = limits::SERVERS_MAX)]
    TooMany { count: usize },
}

impl ServerConfig {
    /// Looks for what is wrong with it, without starting anything.
    pub fn check(&self, name: &str) -> Result<(), ConfigError> {
        check_name(name)?;
        let wrong = |field, way| Err(ConfigError::WrongField { name: name.to_owned(), field, way });
        match self.way(name)? {
            Way::Stdio { .. } if !self.headers.is_empty() => return wrong("headers", "url"),
            Way::Http { .. } if !self.env.is_empty() => return wrong("env", "command"),
            Way::Http { .. } if self.cwd.is_some() => return wrong("cwd", "command"),
            Way::Http { .. } if self.sandbox.is_some() => return wrong("sandbox", "command"),
            Way::Http { .. } if self.network.is_some() => return wrong("network", "command"),
            Way::Http { url } if !(url.starts_with("http://") || url.starts_with("https://")) => {
                return Err(ConfigError::Url { name: name.to_owned() });
            }
            Way::Stdio { .. } | Way::Http { .. } => {}
        }
        let times = [("timeout_ms", self.timeout_ms), ("start_timeout_ms", self.start_timeout_ms)];
        let max = limits::TIME_MAX.as_millis() as u64;
        match times.into_iter().find(|(_, time)| time.is_some_and(|time| time == 0 || time > max)) {
            Some((field, _)) => Err(ConfigError::Time { name: name.to_owned(), field }),
            None => Ok(()),
        }
    }

    pub fn way(&self, name: &str) -> Result<Way<'_>, ConfigError> {
        match (self.command.split_first(), &self.url) {
            (Some(_), Some(_)) => Err(ConfigError::TwoWays { name: name.to_owned() }),
            (Some((program, arguments)), None) => Ok(Way::Stdio { program, arguments }),
            (None, Some(url)) => Ok(Way::Http { url: url.trim() }),
            (None, None) => Err(ConfigError::NoWay { name: name.to_owned() }),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// May this tool, by the server's own name for it, be used?
    pub fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|allowed| allowed == tool))
    }

    pub fn start_time(&self) -> Duration {
        self.start_timeout_ms.map_or(limits::START_TIME, Duration::from_millis)
    }

    /// How long a call may take that has `usual` unless the settings say otherwise.
    pub fn call_time(&self, usual: Duration) -> Duration {
        self.timeout_ms.map_or(usual, Duration::from_millis)
    }
}

/// Two underscores divide the server's name from the tool's, so there is no doubt where one ends.
pub fn check_name(name: &str) -> Result<(), ConfigError> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let fits = (1..=limits::SERVER_NAME_BYTES_MAX).contains(&name.len());
    let ends = name.starts_with('_') || name.ends_with('_');
    if fits && name.chars().all(plain) && !name.contains("__") && !ends {
        return Ok(());
    }
    Err(ConfigError::Name { name: name.chars().take(limits::TOOL_NAME_BYTES_MAX).collect() })
}

/// Where variables are looked up, and which are not given away.
pub(super) struct Variables<'a> {
    pub(super) server: &'a str,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) withheld: &'a BTreeSet<String>,
}

impl Variables<'_> {
    /// Puts environment variables in the place of `${NAME}`; `whose` says what the text is.
    pub(super) fn expand(&self, whose: &str, text: &str) -> Result<String, ConfigError> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((variable, behind)) = after.split_once('}') else { break };
            expanded.push_str(before);
            expanded.push_str(self.value(whose, variable)?);
            rest = behind;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    fn value(&self, whose: &str, variable: &str) -> Result<&str, ConfigError> {
        let (name, whose, variable) = (self.server.to_owned(), whose.to_owned(), variable.to_owned());
        if self.withheld.contains(&variable) {
            return Err(ConfigError::Withheld { name, whose, variable });
        }
        let found = self.environment.get(&variable).map(String::as_str);
        found.ok_or(ConfigError::Unset { name, whose, variable })
    }
}

/// The variables a text names as `${NAME}`, for people to see before anything is given away.
pub fn variables_in(text: &str) -> Vec<&str> {
    let named = text.split("${").skip(1).filter_map(|part| part.split_once('}'));
    named.map(|(variable, _)| variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: serde_json::Value) -> ServerConfig {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_is_wrong_with_a_server_is_said() {
        use serde_json::json;
        let said = |name: &str, value| config(value).check(name).err().map(|error| error.to_string());
        assert_eq!(said("files", json!({ "command": ["x"], "env": { "A": "b" } })), None);
        assert_eq!(said("web", json!({ "url": "https://x/mcp", "headers": { "a": "b" } })), None);
        let wrong = [
            ("a", json!({}), "neither"),
            ("a", json!({ "command": ["x"], "url": "http://x" }), "both"),
            ("a", json!({ "url": "file:///etc" }), "http://"),
            ("a", json!({ "url": "http://x", "env": { "A": "b" } }), "`env`"),
            ("a", json!({ "command": ["x"], "headers": { "A": "b" } }), "`headers`"),
            ("a", json!({ "command": ["x"], "timeout_ms": 0 }), "timeout_ms"),
            ("a__b", json!({ "command": ["x"] }), "letters"),
            ("a b", json!({ "command": ["x"] }), "letters"),
            ("", json!({ "command": ["x"] }), "letters"),
            ("_a", json!({ "command": ["x"] }), "letters"),
        ];
        for (name, value, word) in wrong {
            let said = said(name, value.clone()).unwrap_or_default();
            assert!(said.contains(word), "{name} {value}: {said}");
        }
    }

    #[test]
    fn variables_are_put_in_but_never_a_providers_key() {
        let environment = BTreeMap::from([("A".into(), "one".into()), ("KEY".into(), "sk".into())]);
        let withheld = BTreeSet::from(["KEY".to_owned()]);
        let variables = Variables { server: "s", environment: &environment, withheld: &withheld };
        assert_eq!(variables.expand("env A", "x ${A}-${A} $A ${"), Ok("x one-one $A ${".to_owned()));
        let refused = variables.expand("env A", "${KEY}").unwrap_err().to_string();
        assert_eq!(refused, "mcp.servers.s: env A names ${KEY}, which holds a model provider's key");
        assert!(variables.expand("env A", "${B}").unwrap_err().to_string().contains("not set"));
        assert_eq!(variables_in("Bearer ${A}${B} ${"), ["A", "B"]);
    }
}
