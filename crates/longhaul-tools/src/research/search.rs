//! `search`: asks the search provider that the user has configured.
//!
//! Owns the question and where the answer lands: a file of the inbox that is named after the call, so that after a crash its
//! being there is the answer whether it was done. The conversation gets addresses and titles, not the pages. Refuses to know
//! any provider: it is a command that prints JSON, or an address that answers with it.

use std::path::{Path, PathBuf};

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::ABSENT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::results::Results;
use super::{INBOX, counted, one_line};
use crate::arguments::{invalid, parse, schema};
use crate::bash::not_started;
use crate::child::{Child, End};
use crate::fetch::Fetch;
use crate::limits;
use crate::output;
use crate::sandbox::{More, Sandbox};
use crate::shell::{Shell, agents_environment, named_beside};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

/// The provider, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Run by the shell where the settings are; the query is its last argument and its input, or `$1` if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Or an address with `{query}` in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Variables of our environment that the command gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Where the settings are that name it.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

impl SearchConfig {
    /// What is wrong with it, if anything is.
    pub fn check(&self) -> Result<(), String> {
        let is_name = |name: &String| {
            name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') && !name.is_empty()
        };
        match (self.command.as_deref().map(str::trim), &self.url) {
            (Some(_), Some(_)) => Err("search: give `command` or `url`, not both".to_owned()),
            (None, None) => Err("search: give a `command` or a `url`".to_owned()),
            (Some(""), None) => Err("search.command is empty".to_owned()),
            (Some(_), None) => match self.env.iter().find(|name| !is_name(name)) {
                Some(name) => Err(format!("search.env: `{name}` is not the name of a variable")),
                None => Ok(()),
            },
            (None, Some(_)) if !self.env.is_empty() => Err("search.env is for a `command`".to_owned()),
            (None, Some(url)) if !(url.starts_with("https://") || url.starts_with("http://")) => {
                Err("search.url must begin with https:// or http://".to_owned())
            }
            (None, Some(url)) if !url.contains(QUERY) => {
                Err(format!("search.url has no {QUERY}, where the query is to stand"))
            }
            (None, Some(_)) => Ok(()),
        }
    }
}

/// What stands for the query in an address.
const QUERY: &str = "{query}";

/// How the provider is asked.
pub enum Provider {
    Command {
        text: String,
        /// Where the settings are.
        base_dir: PathBuf,
        /// What it gets beside the usual environment.
        environment: Vec<(String, String)>,
    },
    Url(String),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to search for.
    query: String,
}

pub struct Search {
    spec: ToolSpec,
    provider: Provider,
    shell: Shell,
    fetch: Fetch,
}

impl Search {
    pub fn new(provider: Provider, sandbox: Sandbox) -> Search {
        let fetch = Fetch::new(sandbox.network().clone());
        Search::fetching(provider, sandbox, fetch)
    }

    /// The same with its own way to the web.
    pub fn fetching(provider: Provider, sandbox: Sandbox, fetch: Fetch) -> Search {
        let spec = ToolSpec {
            name: "search".to_owned(),
            description: "Searches the web. The raw results land as JSON in search_results/; shown are titles and addresses. When \
                          you have searched enough, call finalize_research."
                .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        };
        Search { spec, provider, shell: Shell::new(agents_environment(), sandbox), fetch }
    }

    fn query(&self, args: &Json) -> Result<String, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let query = args.query.split_whitespace().collect::<Vec<_>>().join(" ");
        if query.is_empty() || query.contains('\0') {
            return Err(invalid("`query` is empty"));
        }
        if query.len() > limits::SEARCH_QUERY_BYTES_MAX {
            return Err(invalid(format!("`query` has more than {} bytes", limits::SEARCH_QUERY_BYTES_MAX)));
        }
        // To a command it would be an option.
        if query.starts_with('-') {
            return Err(invalid("`query` begins with `-`; begin with a word"));
        }
        Ok(query)
    }

    async fn look(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let query = self.query(args)?;
        let answer = match &self.provider {
            Provider::Command { text, base_dir, environment } => {
                // Before the query is in it, which must not choose what is shown.
                let shown = named_beside(base_dir, text, self.shell.sandbox.hides(base_dir));
                let more = More { cwd: Some(base_dir.clone()), shown, ..More::default() };
                self.run_command(context, &script(text, &query), more, environment, &query).await?
            }
            Provider::Url(template) => {
                self.fetch.whole(context, &template.replace(QUERY, &encoded(&query))).await?
            }
        };
        let failed =
            |why: String| Outcome::failed(Failure::Tool, format!("the search provider's answer: {why}"));
        let raw: Value = serde_json::from_str(answer.trim())
            .map_err(|error| failed(format!("it is not JSON: {error}")))?;
        let results = Results::parse(&raw.to_string()).map_err(failed)?;
        let text = format!("{:#}\n", json!({ "query": query, "results": raw }));
        let path = place(context);
        let (workspace, to, key) = (context.workspace.clone(), path.clone(), context.key.clone());
        blocking(move || workspace.replace(&to, text.as_bytes(), &key).map_err(|error| refused(&error)))
            .await??;
        let report = report(&path, &results);
        Ok(Outcome::Done { output: output::bounded_text(context, &report, "").await })
    }

    async fn run_command(
        &self,
        context: &Context,
        text: &str,
        more: More,
        environment: &[(String, String)],
        query: &str,
    ) -> Result<String, Outcome> {
        if context.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "not started because the run was paused"));
        }
        let named: Vec<(&str, &Path)> =
            environment.iter().map(|(name, value)| (name.as_str(), Path::new(value))).collect();
        let wrapped = self
            .shell
            .wrapped(context, text, &named, more)
            .map_err(|why| Outcome::failed(Failure::NotPermitted, format!("not run: {why}")))?;
        let (reach, input) = (wrapped.reach(), Some(query.as_bytes().to_vec()));
        let child = Child::start_apart(wrapped.command, &context.key, reach, input).map_err(not_started)?;
        let finished = child.finish(context.timeout, &context.cancel).await;
        drop(wrapped.kept);
        let failed =
            |failure, why: String| Err(Outcome::failed(failure, format!("the search command {why}")));
        match finished.end {
            End::Exited(status) if status.success() && finished.capture.lost() == 0 => {
                Ok(String::from_utf8_lossy(&finished.capture.kept()).into_owned())
            }
            End::Exited(status) if status.success() => {
                failed(Failure::Tool, format!("printed {} bytes, too many to read", finished.capture.total()))
            }
            End::Exited(status) => {
                let said = finished.errors.clipped(limits::SEARCH_COMPLAINT_BYTES_MAX, "\n[…]\n");
                failed(Failure::Tool, format!("failed ({status}): {}", said.trim()))
            }
            End::TimedOut => {
                failed(Failure::Timeout, format!("did not end within {} ms", context.timeout.as_millis()))
            }
            End::Cancelled => failed(Failure::Cancelled, "was stopped because the run was paused".to_owned()),
            End::Lost(error) => failed(Failure::Tool, format!("ended nobody knows how: {error}")),
        }
    }
}

/// The file the call's answer lands in.
fn place(context: &Context) -> String {
    format!("{INBOX}/{}.json", context.key)
}

/// The command with the query where it wants it.
fn script(command: &str, query: &str) -> String {
    let quoted = format!("'{}'", query.replace('\'', r"'\''"));
    let names_it = ["$1", "${1", "$@", "$*"].iter().any(|name| command.contains(name));
    if names_it { format!("set -- {quoted}\n{command}") } else { format!("{command} {quoted}") }
}

fn encoded(query: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    query
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn report(path: &str, results: &Results) -> String {
    let mut report = format!("{}, in {path}\n", counted(results.sources.len() + results.surplus, "source"));
    for (at, source) in results.sources.iter().take(limits::SEARCH_SHOWN_MAX).enumerate() {
        let title = one_line(&source.title, limits::SOURCE_TITLE_LETTERS_MAX);
        let url = one_line(&source.url, limits::SOURCE_URL_LETTERS_MAX);
        report.push_str(&format!("{}. {title}\n   {url}\n", at + 1));
    }
    report
}

impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Where the answer will land. What it will be nobody knows before asking, so there is no digest of it.
    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move {
            self.query(args)?;
            let (before, after) = (ABSENT.to_owned(), "results".to_owned());
            Ok(vec![Trace { target: place(context), before, after }])
        })
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.look(context, args).await.unwrap_or_else(|outcome| outcome) })
    }

    /// The file is put in place whole, and no other call has its name.
    fn check<'a>(&'a self, context: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let (workspace, path, key) = (context.workspace.clone(), place(context), context.key.clone());
            let looked = blocking(move || {
                workspace.sweep(&path, &key)?;
                workspace.settle(&path)?;
                workspace.digest(&path)
            });
            match looked.await {
                Ok(Ok(digest)) if digest == ABSENT => Found::NotDone,
                Ok(Ok(_)) => Found::Done,
                Ok(Err(_)) | Err(_) => Found::Unknown,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4.1: a query is one argument, whatever is in it.
    #[test]
    fn a_query_is_quoted() {
        assert_eq!(script("find", "it's $(x)"), r"find 'it'\''s $(x)'");
        assert_eq!(script("find \"$1\" | jq .", "a"), "set -- 'a'\nfind \"$1\" | jq .");
        assert_eq!(encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }

    /// B4.1: a provider is one thing or the other.
    #[test]
    fn a_wrong_provider_is_said() {
        let check = |value: Value| serde_json::from_value::<SearchConfig>(value).unwrap().check();
        assert_eq!(check(json!({ "command": "x", "env": ["KEY"] })), Ok(()));
        assert_eq!(check(json!({ "url": "https://x?q={query}" })), Ok(()));
        for (value, said) in [
            (json!({}), "give a `command` or a `url`"),
            (json!({ "command": "x", "url": "https://x?q={query}" }), "not both"),
            (json!({ "command": " " }), "search.command is empty"),
            (json!({ "command": "x", "env": ["A=b"] }), "`A=b`"),
            (json!({ "url": "https://x" }), "has no {query}"),
            (json!({ "url": "file:///x/{query}" }), "https://"),
            (json!({ "url": "https://x?q={query}", "env": ["A"] }), "search.env"),
        ] {
            assert!(check(value.clone()).unwrap_err().contains(said), "{value}");
        }
    }
}
