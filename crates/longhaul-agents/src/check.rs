//! From what a file says to an agent, or to the first thing that is wrong with it.
//!
//! Owns every rule about values: ranges, forms, lists. Refuses to know which tools, models and servers there are; whoever
//! does gives their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_core::limits::{ITERATIONS_MAX, PROTECT_GLOBS_MAX, REPEATS_MAX_MAX, VERIFY_COMMANDS_MAX};
use longhaul_core::money::Usd;
use longhaul_core::policy::{BadPolicy, Policies};
use longhaul_core::spec::Autonomy;
use longhaul_core::suggest::closest;

use crate::agent::{Agent, AgentLimits, Compaction, Engine, HarnessConfig, Origin};
use crate::limits::{
    COUNT_MAX, DESCRIPTION_BYTES_MAX, DOLLARS_MAX, DOOM_LOOP_MIN, LIST_ENTRIES_MAX, LIST_ENTRY_BYTES_MAX,
    MODELS_MAX, ROLE_BYTES_MAX, TIMEOUT_MS_MAX, TOKENS_MAX,
};
use crate::matter::{self, Lines, Matter, Parts, unknown};

/// What is wrong with an agent file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAgent {
    #[error("`{name}` is not an agent's name: letters, digits, `-`, `_` and `.` only")]
    Name { name: String },
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    #[error("{}:{line}: {why}", file.display())]
    Line { file: PathBuf, line: usize, why: String },
}

/// A wrong value: its field, and why.
type Wrong = (&'static str, String);

/// The same, with the entry of a list that it is about.
struct WrongEntry {
    field: &'static str,
    entry: Option<usize>,
    why: String,
}

impl From<Wrong> for WrongEntry {
    fn from((field, why): Wrong) -> WrongEntry {
        WrongEntry { field, entry: None, why }
    }
}

/// Reads the text of an agent file. `file` is what complaints are about.
pub(crate) fn read(
    name: &str,
    origin: Origin,
    file: &Path,
    text: &str,
    prompt: &str,
) -> Result<Agent, BadAgent> {
    let bad = |line, why| BadAgent::Line { file: file.to_owned(), line, why };
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(BadAgent::File { file: file.to_owned(), why: "is empty".to_owned() });
    }
    let Parts { matter, first_line, body } =
        matter::split(text).map_err(|complaint| bad(complaint.line, complaint.why))?;
    let lines = first_line.map(|first| Lines::of(matter, first)).unwrap_or_default();
    let matter = Matter::parse(matter, first_line.unwrap_or(1))
        .map_err(|complaint| bad(complaint.line, complaint.why))?;
    let agent = agent(name, matter).map_err(|WrongEntry { field, entry, why }| {
        let line = entry.map_or_else(|| lines.line(field), |entry| lines.line_of_entry(field, entry));
        bad(line, format!("`{field}` {why}"))
    })?;
    let prompt = if body.trim().is_empty() { prompt } else { body.trim() };
    Ok(Agent { origin, file: Some(file.to_owned()), prompt: prompt.to_owned(), lines, ..agent })
}

impl Agent {
    /// An agent that says nothing but its prompt.
    pub(crate) fn silent(name: &str, prompt: &str) -> Agent {
        Agent {
            name: name.to_owned(),
            origin: Origin::Default,
            file: None,
            role: None,
            description: None,
            models: Vec::new(),
            tools: None,
            engine: None,
            harness_config: HarnessConfig::default(),
            autonomy: None,
            limits: AgentLimits::default(),
            verify: None,
            protect: None,
            protect_policy: None,
            permissions: None,
            mcp: None,
            summarizer: None,
            judge: None,
            accept: None,
            compaction: Compaction::default(),
            prompt: prompt.to_owned(),
            lines: Lines::default(),
        }
    }

    /// Does its file say nothing but a prompt? Then it has every tool, and no rule or limit of its own.
    pub fn has_only_a_prompt(&self) -> bool {
        self.file.is_some() && !self.lines.are_there()
    }

    /// Are all its tools known? `is_known` answers for names and their aliases; `names` are suggested.
    pub fn check_tools(&self, names: &[&str], is_known: impl Fn(&str) -> bool) -> Result<(), BadAgent> {
        let strange = |tool: &String| !tool.contains("__") && !is_known(tool);
        if let Some(place) = self.tools.iter().flatten().position(strange) {
            let tool = self.tools.iter().flatten().nth(place).map_or("", String::as_str);
            return Err(self.bad_entry("tools", place, unknown("tool", tool, names)));
        }
        let rules = self.permissions.iter().flat_map(|rules| rules.0.keys());
        let strange_rule = rules.into_iter().find(|section| {
            !matches!(section.as_str(), "*" | "external_directory")
                && !section.contains("__")
                && !is_known(section)
        });
        match strange_rule {
            Some(section) => Err(self.bad("permissions", unknown("tool", section, names))),
            None => Ok(()),
        }
    }

    /// Are all the MCP servers it names configured, and those of tools it names?
    pub fn check_servers(&self, names: &[&str]) -> Result<(), BadAgent> {
        let named = self.mcp.iter().flatten().map(String::as_str).enumerate();
        let of_tools = self.tools.iter().flatten().enumerate();
        let of_tools = of_tools.filter_map(|(place, tool)| Some((place, tool.split_once("__")?.0)));
        let all = named.map(|entry| ("mcp", entry)).chain(of_tools.map(|entry| ("tools", entry)));
        let strange = all.into_iter().find(|(_, (_, server))| !names.contains(server));
        let Some((field, (place, server))) = strange else { return Ok(()) };
        let why = if names.is_empty() {
            format!("`{}` is not a configured MCP server; none is configured", shown(server))
        } else {
            unknown("configured MCP server", server, names)
        };
        Err(self.bad_entry(field, place, why))
    }

    /// Are the providers of all its models known? `names` are suggested.
    pub fn check_models(&self, names: &[&str], is_known: impl Fn(&str) -> bool) -> Result<(), BadAgent> {
        let field = if self.lines.has("models") { "models" } else { "model" };
        let main = self.models.iter().map(|name| (field, name));
        let others = [("summarizer", &self.summarizer), ("judge", &self.judge)];
        let others = others.into_iter().filter_map(|(field, name)| Some((field, name.as_ref()?)));
        for (field, name) in main.chain(others) {
            let provider = name.split('/').next().unwrap_or_default();
            if !is_known(provider) {
                return Err(self.bad(field, unknown("provider", provider, names)));
            }
        }
        Ok(())
    }

    /// A complaint about one of its fields, for those who know more than this crate does.
    pub fn bad(&self, field: &str, why: String) -> BadAgent {
        let file = self.file.clone().unwrap_or_else(|| PathBuf::from(format!("{}.md", self.name)));
        BadAgent::Line { file, line: self.lines.line(field), why: format!("`{field}`: {why}") }
    }

    /// The same about one entry of a list, counted from nothing.
    pub fn bad_entry(&self, field: &str, entry: usize, why: String) -> BadAgent {
        match self.bad(field, why) {
            BadAgent::Line { file, why, .. } => {
                BadAgent::Line { file, line: self.lines.line_of_entry(field, entry), why }
            }
            bad @ (BadAgent::File { .. } | BadAgent::Name { .. }) => bad,
        }
    }
}

fn agent(name: &str, matter: Matter) -> Result<Agent, WrongEntry> {
    if let Some(other) = matter.name.as_deref().filter(|other| *other != name) {
        return Err((
            "name",
            format!("is `{}`, but an agent is called after its file: {name}", shown(other)),
        )
            .into());
    }
    let config = matter.harness_config.unwrap_or_default();
    let (of_file, of_compaction) = (matter.limits.unwrap_or_default(), matter.compaction.unwrap_or_default());
    if matter.protect_policy.is_some() && matter.protect.is_none() {
        return Err((
            "protect_policy",
            "says what becomes of changes to paths that `protect` does not name".to_owned(),
        )
            .into());
    }
    if matter.accept.is_some() && matter.judge.is_none() {
        let why = "says what must be true of the work for a judge, and `judge` names none".to_owned();
        return Err(("accept", why).into());
    }
    if let Some(error) = matter.permissions.as_ref().and_then(|rules| rules.check().err()) {
        return Err(("permissions", format!("cannot hold: {error}")).into());
    }
    Ok(Agent {
        role: matter.role.map(role).transpose()?,
        description: matter.description.map(description).transpose()?,
        models: models(matter.model, matter.models)?,
        tools: matter.tools.map(|tools| list("tools", LIST_ENTRIES_MAX, tools)).transpose()?,
        engine: matter.harness.as_deref().map(engine).transpose()?,
        harness_config: HarnessConfig {
            max_steps: small("harness_config.max_steps", config.max_steps, 1, COUNT_MAX)?,
            doom_loop_threshold: small(
                "harness_config.doom_loop_threshold",
                config.doom_loop_threshold,
                DOOM_LOOP_MIN,
                REPEATS_MAX_MAX.into(),
            )?,
            timeout_ms: config.timeout.as_deref().map(timeout).transpose()?,
        },
        autonomy: matter.autonomy.map(autonomy).transpose()?,
        limits: AgentLimits {
            max_tool_calls: small("limits.max_tool_calls", of_file.max_tool_calls, 0, COUNT_MAX)?,
            max_tokens: number("limits.max_tokens", of_file.max_tokens, 1, TOKENS_MAX)?,
            max_cost: of_file.max_cost.map(|dollars| cost("limits.max_cost", dollars)).transpose()?,
            max_iterations: small("limits.max_iterations", of_file.max_iterations, 1, ITERATIONS_MAX.into())?,
            max_iteration_steps: small(
                "limits.max_iteration_steps",
                of_file.max_iteration_steps,
                1,
                COUNT_MAX,
            )?,
            max_iteration_tokens: number(
                "limits.max_iteration_tokens",
                of_file.max_iteration_tokens,
                1,
                TOKENS_MAX,
            )?,
            max_iteration_cost: of_file
                .max_iteration_cost
                .map(|dollars| cost("limits.max_iteration_cost", dollars))
                .transpose()?,
            policies: of_file.policies.as_ref().map(policies).transpose()?,
        },
        verify: matter.verify.map(|commands| list("verify", VERIFY_COMMANDS_MAX, commands)).transpose()?,
        protect: matter.protect.map(|globs| list("protect", PROTECT_GLOBS_MAX, globs)).transpose()?,
        protect_policy: matter.protect_policy,
        permissions: matter.permissions,
        mcp: matter.mcp.map(|servers| list("mcp", LIST_ENTRIES_MAX, servers)).transpose()?,
        summarizer: matter.summarizer.map(|name| model("summarizer", name)).transpose()?,
        judge: matter.judge.map(|name| model("judge", name)).transpose()?,
        accept: matter.accept.map(|texts| list("accept", LIST_ENTRIES_MAX, texts)).transpose()?,
        compaction: Compaction {
            enabled: of_compaction.enabled,
            threshold: of_compaction.threshold.map(threshold).transpose()?,
            protect_tokens: number("compaction.protect_tokens", of_compaction.protect_tokens, 0, TOKENS_MAX)?,
        },
        ..Agent::silent(name, "")
    })
}

fn role(text: String) -> Result<String, Wrong> {
    if text.trim().is_empty() || text.len() > ROLE_BYTES_MAX {
        let bytes = text.len();
        return Err((
            "role",
            format!("has {bytes} bytes; it is a word or two, at most {ROLE_BYTES_MAX} bytes"),
        ));
    }
    Ok(text)
}

fn description(text: String) -> Result<String, Wrong> {
    if text.len() > DESCRIPTION_BYTES_MAX {
        let bytes = text.len();
        return Err(("description", format!("has {bytes} bytes; at most {DESCRIPTION_BYTES_MAX}")));
    }
    Ok(text)
}

fn models(one: Option<String>, many: Option<Vec<String>>) -> Result<Vec<String>, Wrong> {
    match (one, many) {
        (Some(_), Some(_)) => Err(("models", "and `model` are both there; give one of them".to_owned())),
        (Some(name), None) => Ok(vec![model("model", name)?]),
        (None, Some(names)) if names.is_empty() => Err(("models", "is empty; leave it out".to_owned())),
        (None, Some(names)) if names.len() > MODELS_MAX => {
            Err(("models", format!("has {} entries; at most {MODELS_MAX}", names.len())))
        }
        (None, Some(names)) => names.into_iter().map(|name| model("models", name)).collect(),
        (None, None) => Ok(Vec::new()),
    }
}

/// A model's name has the form `provider/model`. Which there are is known where runs are created.
fn model(field: &'static str, name: String) -> Result<String, Wrong> {
    let formed =
        name.split_once('/').is_some_and(|(provider, rest)| !provider.is_empty() && !rest.is_empty());
    if formed && !name.contains(char::is_whitespace) && name.len() <= LIST_ENTRY_BYTES_MAX {
        return Ok(name);
    }
    let meant = meant(&name).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    Err((field, format!("is `{}`, which is not of the form provider/model{meant}", shown(&name))))
}

fn meant(name: &str) -> Option<String> {
    let (name, known) = (name.trim(), [("claude", "anthropic"), ("gpt", "openai")]);
    if name.is_empty() || name.contains(char::is_whitespace) || name.len() > 100 {
        return None;
    }
    if name.contains('/') {
        return (name.starts_with(char::is_alphanumeric) && !name.ends_with('/')).then(|| name.to_owned());
    }
    if let Some((provider, rest)) =
        name.split_once(':').filter(|(provider, rest)| !provider.is_empty() && !rest.is_empty())
    {
        return Some(format!("{provider}/{rest}"));
    }
    let provider = known.iter().find(|(start, _)| name.starts_with(start)).map(|(_, provider)| provider);
    provider.map(|provider| format!("{provider}/{name}"))
}

fn engine(word: &str) -> Result<Engine, Wrong> {
    match word.trim() {
        "agentic" => Ok(Engine::Agentic),
        "" => Ok(Engine::Plain),
        other => {
            let meant = closest(other, &["agentic"]).map_or("", |_| "; did you mean `agentic`?");
            let word = shown(other);
            Err(("harness", format!("is `{word}`; it is `agentic`, or empty for plain execution{meant}")))
        }
    }
}

fn autonomy(level: i128) -> Result<Autonomy, Wrong> {
    let level_of = u8::try_from(level).ok().and_then(Autonomy::new);
    level_of.ok_or_else(|| ("autonomy", format!("is 1 to 5, not {level}")))
}

fn number(field: &'static str, value: Option<i128>, min: u64, max: u64) -> Result<Option<u64>, Wrong> {
    let Some(value) = value else { return Ok(None) };
    let fits = u64::try_from(value).ok().filter(|value| (min..=max).contains(value));
    fits.map(Some).ok_or_else(|| (field, format!("is {value}; it is from {min} to {max}")))
}

fn small(field: &'static str, value: Option<i128>, min: u64, max: u64) -> Result<Option<u32>, Wrong> {
    Ok(number(field, value, min, max)?.and_then(|value| u32::try_from(value).ok()))
}

fn policies(written: &BTreeMap<String, String>) -> Result<Policies, Wrong> {
    let with = |policies: Policies, (limit, policy): (&String, &String)| {
        policies.with(limit.parse()?, policy.parse()?)
    };
    let wrong = |error: BadPolicy| ("limits.policies", error.to_string());
    written.iter().try_fold(Policies::default(), with).map_err(wrong)
}

fn cost(field: &'static str, dollars: f64) -> Result<Usd, Wrong> {
    let fits = (0.0..=DOLLARS_MAX).contains(&dollars).then(|| Usd::from_dollars(dollars)).flatten();
    // In full, an absurd one has hundreds of digits.
    let written = if dollars.abs() > 1e15 { format!("{dollars:e}") } else { dollars.to_string() };
    fits.ok_or_else(|| (field, format!("is {written}; it is from 0 to {DOLLARS_MAX} dollars")))
}

fn threshold(share: f64) -> Result<f64, Wrong> {
    if (0.1..=0.95).contains(&share) {
        return Ok(share);
    }
    Err((
        "compaction.threshold",
        format!("is {share}; it is a share of the context window, from 0.1 to 0.95"),
    ))
}

/// `90s`, `10m`, `1h30m`: whole numbers with a unit each.
fn timeout(text: &str) -> Result<u64, Wrong> {
    let wrong = || {
        let text = shown(text);
        (
            "harness_config.timeout",
            format!("is `{text}`; write it like 90s, 10m, 2h or 1h30m, from 1s to 30d"),
        )
    };
    let (mut total, mut rest) = (0u64, text.trim());
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit_ms = match unit.trim() {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number.checked_mul(unit_ms).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = after;
    }
    if (1000..=TIMEOUT_MS_MAX).contains(&total) { Ok(total) } else { Err(wrong()) }
}

fn list(field: &'static str, most: usize, entries: Vec<String>) -> Result<Vec<String>, WrongEntry> {
    let wrong = |entry, why| Err(WrongEntry { field, entry: Some(entry), why });
    if entries.len() > most {
        return wrong(most, format!("has {} entries; at most {most}", entries.len()));
    }
    for (place, entry) in entries.iter().enumerate() {
        if entry.trim().is_empty() {
            return wrong(place, "has an empty entry".to_owned());
        }
        if entry.len() > LIST_ENTRY_BYTES_MAX {
            let bytes = entry.len();
            return wrong(place, format!("has an entry of {bytes} bytes; at most {LIST_ENTRY_BYTES_MAX}"));
        }
    }
    Ok(entries)
}

fn shown(text: &str) -> String {
    let plain: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let short: String = plain.chars().take(60).collect();
    if short.len() < plain.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D1.3: a timeout is written as people write it.
    #[test]
    fn timeouts_are_read() {
        for (text, ms) in
            [("1s", 1000), ("10m", 600_000), ("1h30m", 5_400_000), ("1500ms", 1500), ("30d", TIMEOUT_MS_MAX)]
        {
            assert_eq!(timeout(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "10",
            "m",
            "-5m",
            "1x",
            "0s",
            "31d",
            "99999999999999999999s",
            "18446744073709551615d",
            "1.5h",
        ] {
            assert!(timeout(text).is_err(), "{text}");
        }
    }
}
