//! A run as a trace: what lasted as spans, and every event in one of them.
//!
//! Owns which events begin and end what. Works on the very lines that `events` shows, so that whatever reads the trace reads the
//! same. Ids follow from the run and the order of events: the same run is the same trace, however often it is exported.

use serde_json::{Map, Value, json};

use crate::time::Timestamp;

/// A run's spans, the run itself first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Sixteen bytes in hexadecimal digits.
    pub id: String,
    pub spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Eight bytes in hexadecimal digits.
    pub id: String,
    /// Its place among the spans.
    pub parent: Option<usize>,
    pub name: String,
    pub start: Timestamp,
    /// Nothing if it has not ended, or its process died in it.
    pub end: Option<Timestamp>,
    pub attributes: Map<String, Value>,
    /// Whole lines, in their order.
    pub events: Vec<Value>,
    pub error: Option<String>,
    /// By what it is found again.
    key: String,
}

/// What an event does to spans.
enum Mark {
    Begins { key: String, name: String, below: Below },
    Ends { key: String },
    Neither,
}

/// In what a span stands.
enum Below {
    Run,
    Step,
}

impl Trace {
    /// The trace of all lines of a run, in their order.
    pub fn of(run: &str, lines: &[Value]) -> Trace {
        let mut trace = Trace { id: hex(&[run], 16), spans: Vec::new() };
        let first = lines.first().map_or(Timestamp::from_millis(0), at);
        trace.begin(run, first, "run".to_owned(), format!("run {run}"), None);
        for line in lines {
            trace.take(run, line);
        }
        trace.close_run(lines);
        trace
    }

    fn take(&mut self, run: &str, line: &Value) {
        let place = match mark(line) {
            Mark::Begins { key, name, below } => {
                // A step is begun again after a crash; the first try ended there, and nobody saw how.
                self.end(&key, at(line));
                let parent = match below {
                    Below::Run => 0,
                    Below::Step => self.open_step().unwrap_or(0),
                };
                self.begin(run, at(line), key, name, Some(parent))
            }
            Mark::Ends { key } => {
                let place = self.end(&key, at(line));
                place.or_else(|| self.open_step()).unwrap_or(0)
            }
            Mark::Neither => self.open_step().unwrap_or(0),
        };
        let span = &mut self.spans[place];
        describe(span, line);
        span.events.push(line.clone());
    }

    fn begin(
        &mut self,
        run: &str,
        start: Timestamp,
        key: String,
        name: String,
        parent: Option<usize>,
    ) -> usize {
        let id = hex(&[run, &key, &self.spans.len().to_string()], 8);
        let (attributes, events) = Default::default();
        self.spans.push(Span { id, parent, name, start, end: None, attributes, events, error: None, key });
        self.spans.len() - 1
    }

    fn end(&mut self, key: &str, at: Timestamp) -> Option<usize> {
        let place = self.spans.iter().rposition(|span| span.key == key && span.end.is_none())?;
        self.spans[place].end = Some(at);
        Some(place)
    }

    fn open_step(&self) -> Option<usize> {
        self.spans.iter().rposition(|span| span.end.is_none() && span.key.starts_with("step "))
    }

    /// A run that has ended took until its last event, and with it all that was open.
    fn close_run(&mut self, lines: &[Value]) {
        // One that was opened again after its end goes on.
        let last =
            lines.iter().rfind(|line| line["type"] == "state_transition" || line["type"] == "reopened");
        let ended = |line: &&Value| line["to"] == "completed" || line["to"] == "failed";
        let Some(end) = last.filter(ended) else { return };
        for span in self.spans.iter_mut().filter(|span| span.end.is_none()) {
            // A failed run may still be planned anew.
            span.end = Some(at(end).max(span.start));
        }
        if end["to"] == "failed" {
            let reason = end["reason"].as_str().unwrap_or("failed").to_owned();
            self.spans[0].error.get_or_insert(reason);
        }
    }

    /// The trace as OTLP takes it, in JSON. What has not ended ends with its last event.
    pub fn otlp(&self) -> Value {
        let last = self.spans.iter().flat_map(|span| &span.events).map(at).max();
        let spans: Vec<Value> = self.spans.iter().map(|span| self.otlp_span(span, last)).collect();
        let service = json!([{ "key": "service.name", "value": { "stringValue": "longhaul" } }]);
        let scope = json!({ "name": "longhaul", "version": env!("CARGO_PKG_VERSION") });
        json!({ "resourceSpans": [{
            "resource": { "attributes": service },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] })
    }

    fn otlp_span(&self, span: &Span, last: Option<Timestamp>) -> Value {
        let end = span.end.or(last).unwrap_or(span.start).max(span.start);
        let events: Vec<Value> = span
            .events
            .iter()
            .map(|line| {
                let fields = line.as_object().into_iter().flatten();
                let said = fields
                    .filter(|(name, value)| !matches!(name.as_str(), "at" | "type") && !value.is_null());
                let attributes: Vec<Value> = said.map(|(name, value)| attribute(name, value)).collect();
                json!({ "timeUnixNano": nanos(at(line)), "name": line["type"], "attributes": attributes })
            })
            .collect();
        let mut attributes: Vec<Value> =
            span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        if span.end.is_none() {
            attributes.push(attribute("longhaul.unfinished", &json!(true)));
        }
        let status = match &span.error {
            Some(error) => json!({ "code": 2, "message": error }),
            None if span.end.is_some() => json!({ "code": 1 }),
            None => json!({ "code": 0 }),
        };
        let mut shown = json!({
            "traceId": self.id, "spanId": span.id, "name": span.name, "kind": 1,
            "startTimeUnixNano": nanos(span.start), "endTimeUnixNano": nanos(end),
            "attributes": attributes, "events": events, "status": status,
        });
        if let Some(parent) = span.parent.and_then(|parent| self.spans.get(parent)) {
            shown["parentSpanId"] = json!(parent.id);
        }
        shown
    }
}

fn mark(line: &Value) -> Mark {
    let text = |name: &str| line[name].as_str().map_or_else(|| line[name].to_string(), str::to_owned);
    let begins = |kind: &str, id: String, name: String, below| Mark::Begins {
        key: format!("{kind} {id}"),
        name,
        below,
    };
    let ends = |kind: &str, id: String| Mark::Ends { key: format!("{kind} {id}") };
    let turn = || format!("{}.{}", text("turn"), text("attempt"));
    match line["type"].as_str().unwrap_or_default() {
        "step_started" => begins("step", text("stepId"), format!("step {}", text("stepId")), Below::Run),
        "step_completed" | "step_failed" => ends("step", text("stepId")),
        "turn_started" => begins("turn", turn(), format!("turn {}", text("turn")), Below::Step),
        "model_reply" | "turn_failed" => ends("turn", turn()),
        "tool_started" => begins("call", text("callId"), format!("tool {}", text("toolName")), Below::Step),
        "tool_call" | "tool_failed" | "tool_retry" => ends("call", text("callId")),
        "waiting_for_human" => begins("gate", text("gateId"), "waiting for a person".to_owned(), Below::Step),
        "human_gate" => ends("gate", text("gateId")),
        "examination_started" => begins("look", text("round"), "examination".to_owned(), Below::Step),
        "examined" => ends("look", text("round")),
        "aside_started" => begins("aside", String::new(), "aside".to_owned(), Below::Step),
        "compaction_summary" | "iteration_summary" | "judgement" => ends("aside", String::new()),
        "sub_agent" if line["event"] == "spawned" => {
            begins("child", text("subAgentId"), format!("sub-agent {}", text("subAgentId")), Below::Step)
        }
        // One that waits or is paused has not ended.
        "sub_agent" if line["event"] == "completed" || line["event"] == "failed" => {
            ends("child", text("subAgentId"))
        }
        _ => Mark::Neither,
    }
}

/// What a line says about the span it belongs to.
fn describe(span: &mut Span, line: &Value) {
    let names: &[(&str, &str)] = match line["type"].as_str().unwrap_or_default() {
        "run_created" => &[
            ("agentName", "gen_ai.agent.name"),
            ("task", "longhaul.task"),
            ("model", "gen_ai.request.model"),
        ],
        "step_started" => &[("stepId", "longhaul.step.id")],
        "model_reply" => &[("model", "gen_ai.request.model")],
        "tool_started" => &[("toolName", "gen_ai.tool.name"), ("callId", "gen_ai.tool.call.id")],
        "tool_call" => &[("success", "longhaul.tool.success")],
        "waiting_for_human" => &[("gateId", "longhaul.gate.id")],
        "human_gate" => &[("action", "longhaul.gate.action")],
        _ => &[],
    };
    let said = names.iter().filter(|(field, _)| !line[*field].is_null());
    span.attributes.extend(said.map(|(field, name)| ((*name).to_owned(), line[*field].clone())));
    if line["type"] == "model_reply" {
        for (field, name) in
            [("inputTokens", "gen_ai.usage.input_tokens"), ("outputTokens", "gen_ai.usage.output_tokens")]
        {
            span.attributes.insert(name.to_owned(), line["usage"][field].clone());
        }
    }
    let is_failure =
        matches!(line["type"].as_str(), Some("step_failed" | "turn_failed" | "tool_failed" | "tool_retry"))
            || line["success"] == false
            || line["outcome"] == "failed";
    if is_failure {
        span.error = Some(line["error"].as_str().unwrap_or("failed").to_owned());
    }
}

fn at(line: &Value) -> Timestamp {
    line["at"].as_str().and_then(Timestamp::parse).unwrap_or(Timestamp::from_millis(0))
}

fn nanos(at: Timestamp) -> String {
    i128::from(at.as_millis()).saturating_mul(1_000_000).max(0).to_string()
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            json!({ "intValue": number.to_string() })
        }
        Value::Number(number) => json!({ "doubleValue": number }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Null | Value::Array(_) | Value::Object(_) => json!({ "stringValue": value.to_string() }),
    };
    json!({ "key": name, "value": value })
}

/// So many bytes that nobody else has, in hexadecimal digits.
fn hex(parts: &[&str], bytes: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().chars().take(bytes * 2).collect()
}
