//! What a server has: tools, and for people to see, resources and prompts.
//!
//! Owns reading lists to their end, which is ours if the server has none, and what a tool's hints mean for recovery.
//! Refuses tools that no provider would take.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_core::text::visible;
use longhaul_core::tool::EffectClass;
use longhaul_workspace::digest_of;
use rmcp::model::{PaginatedRequestParams, ServerPeerInfo, Tool, ToolAnnotations};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};

use super::limits;
use super::log::Log;
use super::names::{cut, line, plainly, tool_name};
use super::pin::{Offered, digest_of_json};

/// Everything a server has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// What the server calls itself.
    pub about: String,
    pub tools: Vec<Offered>,
    /// What is not used of it and why, in words.
    pub left_out: Vec<String>,
    pub resources: Vec<Listed>,
    pub prompts: Vec<Listed>,
}

/// A resource or a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The URI of a resource, the name of a prompt.
    pub name: String,
    pub about: String,
}

/// The server's tools, with what is left out of them.
pub(super) async fn tools(
    server: &str,
    peer: &Peer<RoleClient>,
    log: &Log,
) -> Result<(Vec<Offered>, Vec<String>), String> {
    let mut pages = Pages::default();
    let mut found: Vec<Tool> = Vec::new();
    loop {
        let page = peer.list_tools(pages.next("tools")?).await.map_err(|error| said("tools/list", &error))?;
        found.extend(page.tools);
        if found.len() > limits::TOOLS_MAX {
            return Err(format!("it offers more than {} tools", limits::TOOLS_MAX));
        }
        if !pages.go_on(page.next_cursor) {
            let struck = found.into_iter().map(|tool| struck(tool, log)).collect();
            return Ok(offered(server, struck));
        }
    }
}

/// What a server was given, and says of its tools, is nothing to pin, to show, or to tell a model. Names stay: calls go by them.
fn struck(mut tool: Tool, log: &Log) -> Tool {
    let strike = |text: Cow<'static, str>| Cow::Owned(log.struck(&text));
    tool.description = tool.description.map(strike);
    tool.title = tool.title.map(|title| log.struck(&title));
    let mut schema = (*tool.input_schema).clone();
    strike_fields(&mut schema, false, log);
    tool.input_schema = Arc::new(schema);
    tool
}

/// Strikes out what a schema says, and not what it calls things by.
fn strike_fields(schema: &mut Map<String, Value>, is_said: bool, log: &Log) {
    const SAID: [&str; 7] = ["$comment", "const", "default", "description", "enum", "examples", "title"];
    const CALLED: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];
    for (name, value) in schema {
        let name = name.as_str();
        // What these have is no words of a schema, but names of the server's choice.
        if !is_said
            && CALLED.contains(&name)
            && let Some(named) = value.as_object_mut()
        {
            named.values_mut().for_each(|value| strike_said(value, false, log));
        } else {
            strike_said(value, is_said || SAID.contains(&name), log);
        }
    }
}

fn strike_said(value: &mut Value, is_said: bool, log: &Log) {
    match value {
        Value::String(text) if is_said => *text = log.struck(text),
        Value::Array(values) => values.iter_mut().for_each(|value| strike_said(value, is_said, log)),
        Value::Object(fields) => strike_fields(fields, is_said, log),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Resources and prompts are for people to see: a server that cannot list them has none.
pub(super) async fn others(peer: &Peer<RoleClient>) -> (Vec<Listed>, Vec<Listed>) {
    let has = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    let resources = if has.resources.is_some() { resources(peer).await } else { Vec::new() };
    let prompts = if has.prompts.is_some() { prompts(peer).await } else { Vec::new() };
    (resources, prompts)
}

/// What a server calls itself, fit to be shown.
pub(super) fn about(info: &ServerPeerInfo) -> String {
    let named = info.server_info.as_ref().map(|server| line(&format!("{} {}", server.name, server.version)));
    named.unwrap_or_default()
}

async fn resources(peer: &Peer<RoleClient>) -> Vec<Listed> {
    let (mut pages, mut found) = (Pages::default(), Vec::new());
    while let Ok(cursor) = pages.next("resources")
        && let Ok(page) = peer.list_resources(cursor).await
    {
        found.extend(page.resources.into_iter().map(|resource| Listed {
            name: line(&resource.uri),
            about: line(resource.description.as_deref().unwrap_or(&resource.name)),
        }));
        if found.len() > limits::LISTED_MAX || !pages.go_on(page.next_cursor) {
            break;
        }
    }
    found.truncate(limits::LISTED_MAX);
    found
}

async fn prompts(peer: &Peer<RoleClient>) -> Vec<Listed> {
    let (mut pages, mut found) = (Pages::default(), Vec::new());
    while let Ok(cursor) = pages.next("prompts")
        && let Ok(page) = peer.list_prompts(cursor).await
    {
        found.extend(page.prompts.into_iter().map(|prompt| Listed {
            name: line(&prompt.name),
            about: line(prompt.description.as_deref().unwrap_or("")),
        }));
        if found.len() > limits::LISTED_MAX || !pages.go_on(page.next_cursor) {
            break;
        }
    }
    found.truncate(limits::LISTED_MAX);
    found
}

/// Where we are in a list that comes in pages.
#[derive(Default)]
struct Pages {
    read: usize,
    cursor: Option<String>,
}

impl Pages {
    fn next(&mut self, what: &str) -> Result<Option<PaginatedRequestParams>, String> {
        self.read += 1;
        if self.read > limits::PAGES_MAX {
            return Err(format!("its list of {what} has more than {} pages", limits::PAGES_MAX));
        }
        Ok(self.cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor))))
    }

    fn go_on(&mut self, cursor: Option<String>) -> bool {
        self.cursor = cursor;
        self.cursor.is_some()
    }
}

fn said(method: &str, error: &ServiceError) -> String {
    format!("it does not answer {method}: {}", plainly(&error.to_string()))
}

fn offered(server: &str, found: Vec<Tool>) -> (Vec<Offered>, Vec<String>) {
    let (mut tools, mut left_out) = (Vec::new(), Vec::new());
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for tool in found {
        let shown = line(&tool.name);
        if !seen.insert(tool.name.clone()) {
            // Which of the two would be called only the server knows.
            left_out.push(format!("`{shown}` is offered twice; the first is used"));
            continue;
        }
        let offered = one(server, tool, &taken);
        if offered.input.to_string().len() > limits::SCHEMA_BYTES_MAX {
            left_out.push(format!("`{shown}` has a schema of more than {} bytes", limits::SCHEMA_BYTES_MAX));
            continue;
        }
        taken.insert(offered.name.clone());
        tools.push(offered);
    }
    (tools, left_out)
}

fn one(server: &str, tool: Tool, taken: &BTreeSet<String>) -> Offered {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or("");
    let mut input = (*tool.input_schema).clone();
    // Providers refuse a schema that does not say so.
    input.entry("type").or_insert_with(|| Value::from("object"));
    input.remove("$schema");
    let input = Value::Object(input);
    let annotations = tool.annotations.unwrap_or_default();
    Offered {
        name: tool_name(server, &tool.name, taken),
        description: cut(visible(description), limits::DESCRIPTION_BYTES_MAX),
        class: class(&annotations),
        hints: hints(&annotations),
        description_digest: digest_of(description.as_bytes()),
        input_digest: digest_of_json(&input),
        input,
        tool: tool.name.into_owned(),
    }
}

/// What recovery may do with a call that was cut short. Only what changes nothing is done again. A tool that calls itself
/// idempotent is not: "the same again has no further effect" holds only if nobody else did anything in between, and a
/// recovered call may come hours later. There is nothing of ours to look up either, so nothing is checkable.
fn class(annotations: &ToolAnnotations) -> EffectClass {
    if annotations.read_only_hint == Some(true) { EffectClass::Repeatable } else { EffectClass::Once }
}

fn hints(annotations: &ToolAnnotations) -> Vec<String> {
    let said = [
        ("read-only", annotations.read_only_hint),
        ("destructive", annotations.destructive_hint),
        ("idempotent", annotations.idempotent_hint),
    ];
    said.into_iter().filter(|(_, said)| *said == Some(true)).map(|(hint, _)| hint.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(tools: Value) -> (Vec<Offered>, Vec<String>) {
        offered("srv", serde_json::from_value(tools).unwrap())
    }

    /// Only what says that it changes nothing is repeated by recovery.
    #[test]
    fn hints_decide_what_recovery_may_do() {
        let class_of = |annotations: Value| {
            let tools = check(json!([{ "name": "t", "inputSchema": {}, "annotations": annotations }])).0;
            (tools[0].class, tools[0].hints.join(" "))
        };
        use EffectClass::{Once, Repeatable};
        assert_eq!(class_of(json!({ "readOnlyHint": true })), (Repeatable, "read-only".to_owned()));
        assert_eq!(class_of(json!({ "idempotentHint": true })), (Once, "idempotent".to_owned()));
        assert_eq!(class_of(json!({ "destructiveHint": false })), (Once, String::new()));
        assert_eq!(
            class_of(json!({ "readOnlyHint": false, "destructiveHint": true })),
            (Once, "destructive".to_owned())
        );
        assert_eq!(class_of(json!({})), (Once, String::new()));
    }

    #[test]
    fn what_no_provider_takes_is_left_out_or_mended() {
        let huge = "x".repeat(limits::SCHEMA_BYTES_MAX);
        let long = "д".repeat(limits::DESCRIPTION_BYTES_MAX);
        let (tools, left_out) = check(json!([
            { "name": "a b", "description": "hid\u{200B}den", "inputSchema": { "$schema": "x", "properties": {} } },
            { "name": "a b", "description": "another", "inputSchema": {} },
            { "name": "a_b", "description": long, "inputSchema": { "type": "object" } },
            { "name": "huge", "inputSchema": { "description": huge } },
        ]));
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names[0], "srv__a_b");
        assert!(names[1].starts_with("srv__a_b_") && names.len() == 2, "{names:?}");
        assert_eq!(tools[0].description, "hid\\u{200b}den");
        assert_eq!(tools[0].input, json!({ "type": "object", "properties": {} }));
        assert!(tools[1].description.len() <= limits::DESCRIPTION_BYTES_MAX + 3);
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }
}
