//! `approvals`, `approve`, `reject`: waits for a person, and their answers.

use longhaul_core::command::Wish;
use longhaul_core::ids::RunId;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::view::{GateView, gate_id};
use longhaul_engine::{Claim, Given, Harness};
use serde_json::Value;

use super::ask::refuse_early;
use super::drive;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::insider;
use crate::limits::{ACTION_CHARS_MAX, DIGEST_CHARS_MIN, GLANCE_BYTES_MAX};
use crate::render::{self, table};

/// How a need is called among what waits for a person.
pub const NEED: &str = "unblock";

/// List what waits for a person
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// What waits now
    List,
    /// One approval, answered or not
    Show {
        #[arg(value_name = "AID")]
        id: String,
    },
    Approve(ApproveArgs),
    Reject(RejectArgs),
    Answer(AnswerArgs),
}

/// Let a gated step begin, or a call be made that needs leave
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// The approval, as `longhaul approvals` lists it
    #[arg(value_name = "AID")]
    pub id: String,
    /// What is approved, as `longhaul approvals show AID` calls it, or the beginning of that; needed for what is too long to be read at
    /// a glance
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
}

/// Refuse: a gated step pauses the run with the reason, a call is refused and the agent told why
#[derive(Debug, clap::Args)]
pub struct RejectArgs {
    /// The approval, as `longhaul approvals` lists it
    #[arg(value_name = "AID")]
    pub id: String,
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Answer a question of the agent; it goes on with the answer
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// The approval, as `longhaul approvals` lists it
    #[arg(value_name = "AID")]
    pub id: String,
    #[arg(value_name = "TEXT")]
    pub text: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what.unwrap_or(What::List) {
        What::List => list(app),
        What::Show { id } => show(app, &id),
        What::Approve(args) => approve(app, args),
        What::Reject(args) => reject(app, args),
        What::Answer(args) => answer(app, args),
    }
}

pub fn approve(app: &App, args: ApproveArgs) -> Result<Exit, Failure> {
    refuse_agents()?;
    let (run, gate) = known(app, &args.id)?;
    // What is approved is what stands there now, and nothing that may stand there later under the same number.
    let now = app.reading()?.look(&run)?;
    let digest = now.gate(gate).and_then(|gate| gate.digest()).map(str::to_owned);
    match &args.digest {
        Some(read) => refuse_other(&args.id, read, digest.as_deref())?,
        None => {
            if let Some(open) = now.gate(gate).filter(|gate| gate.answer.is_none()) {
                refuse_at_a_glance(&GateView::of(&now, open))?;
            }
        }
    }
    settle(app, &run, Wish::Approve { gate, digest })
}

/// Whoever names what they have read means that and nothing else.
fn refuse_other(id: &str, read: &str, digest: Option<&str>) -> Result<(), Failure> {
    let is_it = |digest: &str| read.len() >= DIGEST_CHARS_MIN && digest.starts_with(read);
    if digest.is_some_and(is_it) {
        return Ok(());
    }
    Err(Failure::usage(format!("{id} is not for `{read}`"))
        .hint(format!("`longhaul approvals show {id}` shows what it is for, and its digest")))
}

/// What a list cannot show, nobody has read there. Nothing is approved that is longer than a glance takes in.
fn refuse_at_a_glance(gate: &GateView) -> Result<(), Failure> {
    let Some(why) = too_long(gate) else { return Ok(()) };
    Err(Failure::usage(format!("{} was not approved: {why}", gate.id)).hint(after_reading(gate)))
}

/// Why something is not approved at a glance.
pub fn too_long(gate: &GateView) -> Option<String> {
    let bytes = effect(&serde_json::json!(gate)).len();
    (bytes > GLANCE_BYTES_MAX)
        .then(|| format!("what would be done takes {bytes} bytes to say, more than one sees at a glance"))
}

/// How it is approved all the same.
pub fn after_reading(gate: &GateView) -> String {
    let (id, digest) = (&gate.id, gate.digest.as_deref().unwrap_or_default());
    let digest: String = digest.chars().take(2 * DIGEST_CHARS_MIN).collect();
    format!("`longhaul approvals show {id}` shows all of it; then `longhaul approve {id} --digest {digest}`")
}

pub fn reject(app: &App, args: RejectArgs) -> Result<Exit, Failure> {
    refuse_agents()?;
    if args.reason.trim().is_empty() {
        return Err(Failure::usage("a rejection needs a reason: it is what the run is replanned by"));
    }
    let (run, gate) = known(app, &args.id)?;
    settle(app, &run, Wish::Reject { gate, reason: args.reason })
}

/// The same of what an agent needs to go on: a question is not answered with "it is there".
pub fn resolve(app: &App, args: AnswerArgs) -> Result<Exit, Failure> {
    refuse_agents()?;
    let (run, number) = known(app, &args.id)?;
    let run = app.reading()?.look(&run)?;
    let kind = run.gate(number).map(|gate| GateView::of(&run, gate).kind);
    if let Some(kind) = kind.filter(|kind| kind != NEED) {
        let id = &args.id;
        return Err(Failure::usage(format!("{id} is no need but a {kind}"))
            .hint(format!("`longhaul approvals show {id}` shows what is asked")));
    }
    answer(app, args)
}

pub fn answer(app: &App, args: AnswerArgs) -> Result<Exit, Failure> {
    refuse_agents()?;
    if args.text.trim().is_empty() {
        return Err(Failure::usage("an answer cannot be empty"));
    }
    let (run, gate) = known(app, &args.id)?;
    settle(app, &run, Wish::Answer { gate, text: args.text })
}

/// Asked before anything is looked at: an agent need not even learn whether there is such a gate.
fn refuse_agents() -> Result<(), Failure> {
    if insider::is_agents() {
        return Err(Failure::usage(
            "this is a command of an agent, and an agent does not answer for a person",
        ));
    }
    Ok(())
}

/// An answer that starts work is left in the inbox for whoever drives the run; the rejection of a step can be applied here.
fn settle(app: &App, id: &RunId, wish: Wish) -> Result<Exit, Failure> {
    let harness = app.telling()?;
    let gate = wish.gate().unwrap_or_default();
    if let Err(refused) = refuse_early(&harness, id, &wish) {
        // Whoever comes second is told who was first, also when the run has heard that one already.
        return Err(harness.given(id, gate)?.map_or(refused, |earlier| late(&harness, id, gate, &earlier)));
    }
    let verb = wish.verb();
    let driven = harness.store_of(id)?.holder(id)?.is_some();
    let of_call = |gate: u32| {
        harness.look(id).ok().is_some_and(|run| run.gate(gate).is_some_and(|gate| gate.ask.is_some()))
    };
    let starts_work = match &wish {
        Wish::Reject { gate, .. } => of_call(*gate),
        Wish::Start { .. }
        | Wish::Pause { .. }
        | Wish::Stop { .. }
        | Wish::Approve { .. }
        | Wish::Answer { .. }
        | Wish::Plan
        | Wish::Replan { .. }
        | Wish::Checkpoint { .. } => wish.is_answer(),
    };
    let command = harness.command(wish)?;
    if let Claim::Late(earlier) = harness.claim(id, gate, &whoever(), &command)? {
        return Err(late(&harness, id, gate, &earlier));
    }
    if driven || starts_work {
        harness.post(id, &command)?;
        render::talk(&format!("{verb} is on record"));
        if !driven {
            let root = root(&harness, id);
            render::hint(&format!("go on with `longhaul resume {root}`"));
        }
    } else {
        let run = harness.apply(id, command)?;
        render::talk(&format!("{id} is {}", run.called()));
        render::hint(&drive::after_rejection(id));
    }
    if app.json() {
        render::json(&Asking::of(&harness, id, gate)?.as_json());
    }
    Ok(Exit::Ok)
}

/// Who answers, as others are told.
pub fn whoever() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let listed = || {
        let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
        account(&accounts, rustix::process::getuid().as_raw())
    };
    let user = named.filter(|user| !user.is_empty()).or_else(listed);
    format!("{}@{}", user.as_deref().unwrap_or("somebody"), longhaul_store::host())
}

/// The name of an account, as `/etc/passwd` lists them.
fn account(accounts: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    let mut lines = accounts.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

fn late(harness: &Harness, id: &RunId, gate: u32, earlier: &Given) -> Failure {
    let failure = Failure::from(anyhow::anyhow!("{}: {}", gate_id(id, gate), given(earlier)));
    let is_heard = harness.look(id).is_ok_and(|run| run.gate(gate).is_some_and(|gate| gate.answer.is_some()));
    if is_heard {
        return failure;
    }
    failure.hint(format!("it counts as soon as the run goes on: `longhaul resume {}`", root(harness, id)))
}

/// An answer that was there first, in words.
pub fn given(Given { by, at, command }: &Given) -> String {
    format!("it has an answer on record: {}, by {by} at {at}", command.wish.verb())
}

/// The run at the top: whoever takes that up takes up all below it.
pub fn root(harness: &Harness, id: &RunId) -> RunId {
    let mut root = id.clone();
    while let Some(parent) = harness.look(&root).ok().and_then(|run| run.spec.parent) {
        root = parent;
    }
    root
}

fn list(app: &App) -> Result<Exit, Failure> {
    let waiting = waiting(app)?;
    if app.json() {
        render::json(&waiting);
    } else if waiting.is_empty() {
        render::talk("nothing waits for a person");
    } else {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or("").to_owned();
        let lines = waiting.iter().map(|gate| {
            vec![
                text(gate, "id"),
                text(gate, "kind"),
                text(gate, "stepId"),
                text(gate, "createdAt"),
                brief(gate),
                table::fit(&text(gate, "description"), 60),
            ]
        });
        render::data(&table::rows(&["APPROVAL", "KIND", "STEP", "SINCE", "ACTION", "DESCRIPTION"], lines));
        if let Some(gate) = waiting.iter().find(|gate| brief(gate) != effect(gate)) {
            render::hint(&format!("`longhaul approvals show {}` shows all of it", text(gate, "id")));
        }
    }
    Ok(Exit::Ok)
}

/// Everything that waits for a person and has no answer on record.
pub fn waiting(app: &App) -> Result<Vec<Value>, Failure> {
    // No state directory is simply no runs.
    if app.home()?.is_none() {
        return Ok(Vec::new());
    }
    let waiting = app.reading()?.waiting()?;
    Ok(waiting.iter().map(|gate| serde_json::json!(gate)).collect())
}

fn show(app: &App, id: &str) -> Result<Exit, Failure> {
    let (run, number) = known(app, id)?;
    let harness = app.reading()?;
    let asking = Asking::of(&harness, &run, number)?;
    if app.json() {
        render::json(&asking.as_json());
        return Ok(Exit::Ok);
    }
    let Asking { mut gate, run_status, by, unheard } = asking;
    let whole = effect(&serde_json::json!(gate));
    let time = |at: Timestamp| at.to_string();
    let status = match &unheard {
        Some(given) => on_record(&harness, given, &mut gate),
        None if gate.resolved_at.is_none() && run_status.is_terminal() => {
            format!("never answered; the run is {run_status}, and waits for nothing any more")
        }
        None => gate.status,
    };
    let lines = [
        ("approval", gate.id),
        ("kind", gate.kind),
        ("status", status),
        ("agent", gate.agent_name),
        ("step", gate.step_id.unwrap_or_default()),
        ("description", gate.description.unwrap_or_default()),
        ("action", whole),
        ("digest", gate.digest.unwrap_or_default()),
        ("since", time(gate.created_at)),
        ("answered", gate.resolved_at.map(time).unwrap_or_default()),
        ("by", by.unwrap_or_default()),
        ("answer", gate.answer.unwrap_or_default()),
        ("reason", gate.reason.unwrap_or_default()),
    ];
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        // Only what longhaul says of it begins a line.
        let value = table::clean(value).replace('\n', &format!("\n{:13}", ""));
        render::data(&format!("{name:<12} {value}"));
    }
    Ok(Exit::Ok)
}

/// An approval with all that is known of its answer.
struct Asking {
    gate: GateView,
    run_status: Status,
    by: Option<String>,
    /// The answer that is on record and that the run has not heard yet.
    unheard: Option<Given>,
}

impl Asking {
    fn of(harness: &Harness, run: &RunId, number: u32) -> Result<Asking, Failure> {
        let given = harness.given(run, number)?;
        let by = given.as_ref().map(|given| given.by.clone());
        // What the run has heard and could not use is no answer any more.
        let waits = harness.still_waits(run, number)?;
        let run = harness.look(run)?;
        let gate = run.gate(number).ok_or_else(|| unknown(&gate_id(&run.spec.id, number)))?;
        let is_unheard = !waits && gate.answer.is_none() && !run.status.is_terminal();
        let gate = GateView::of(&run, gate);
        Ok(Asking { gate, run_status: run.status, by, unheard: given.filter(|_| is_unheard) })
    }

    fn as_json(&self) -> Value {
        let mut shown = serde_json::json!(self.gate);
        shown["answeredBy"] = self.by.clone().into();
        shown["onRecord"] = self.unheard.as_ref().map(|given| serde_json::json!(given.command.wish)).into();
        shown
    }
}

/// What was answered and the run has not heard yet, and when it will.
fn on_record(harness: &Harness, given: &Given, gate: &mut GateView) -> String {
    gate.resolved_at = Some(given.at);
    let answered = match &given.command.wish {
        Wish::Approve { .. } => "approved",
        Wish::Reject { reason, .. } => {
            gate.reason = Some(reason.clone());
            "rejected"
        }
        Wish::Answer { text, .. } => {
            gate.answer = Some(text.clone());
            "answered"
        }
        Wish::Start { .. }
        | Wish::Pause { .. }
        | Wish::Stop { .. }
        | Wish::Plan
        | Wish::Replan { .. }
        | Wish::Checkpoint { .. } => return gate.status.clone(),
    };
    let is_driven =
        harness.store_of(&gate.run_id).is_ok_and(|store| matches!(store.holder(&gate.run_id), Ok(Some(_))));
    match is_driven {
        true => format!("{answered}; the run is about to hear it"),
        false => format!("{answered}, waits for `longhaul resume {}`", root(harness, &gate.run_id)),
    }
}

/// What would be done, in a line of a list: without the blanks that would push its end off the screen, and with how much of it is
/// not there.
fn brief(gate: &Value) -> String {
    let whole = action(gate).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words = whole.clone();
    table::cut(&mut words, ACTION_CHARS_MAX);
    let shown = words.len() - if words == whole { 0 } else { '…'.len_utf8() };
    match whole.len() - shown {
        0 => words,
        hidden => format!("{words} ({hidden} bytes hidden)"),
    }
}

/// What would be done, and to what, in a line; `effect` is all of it.
fn action(gate: &Value) -> String {
    let Some(tool) = asked_for(gate) else { return String::new() };
    let arguments = &gate["arguments"];
    let what = main(arguments).map_or_else(|| arguments.to_string(), |(_, text)| text.to_owned());
    format!("{tool} {}", table::clean(&what).replace('\n', " ⏎ "))
}

/// What would be done, whole: whoever approves should have read it.
pub fn effect(gate: &Value) -> String {
    let Some(tool) = asked_for(gate) else { return String::new() };
    let arguments = &gate["arguments"];
    let (main, first) = match main(arguments) {
        Some((name, _)) => (name, action(gate)),
        None => ("", tool.to_owned()),
    };
    let mut lines = vec![first];
    for (name, value) in arguments.as_object().into_iter().flatten().filter(|(name, _)| *name != main) {
        push_lines(&mut lines, name, value);
    }
    lines.join("\n")
}

fn asked_for(gate: &Value) -> Option<&str> {
    gate["toolName"].as_str().filter(|_| gate["kind"] == "permission")
}

/// The argument that says what is done, or to what.
fn main(arguments: &Value) -> Option<(&'static str, &str)> {
    ["command", "path", "url", "message"].into_iter().find_map(|name| Some((name, arguments[name].as_str()?)))
}

/// Text of several lines has a mark before each: none of them is to pass for something that longhaul says.
fn push_lines(lines: &mut Vec<String>, name: &str, value: &Value) {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            parts.iter().for_each(|(part, value)| push_lines(lines, &format!("{name}.{part}"), value));
        }
        Value::Array(parts) if !parts.is_empty() => {
            let numbered = (1..).zip(parts);
            numbered.for_each(|(number, value)| push_lines(lines, &format!("{name}.{number}"), value));
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(named(name, ""));
            lines.extend(table::clean(text).split('\n').map(|line| format!("| {line}")));
        }
        Value::String(text) => lines.push(named(name, &table::clean(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            lines.push(named(name, &value.to_string()));
        }
    }
}

/// A name may be a model's own as well.
fn named(name: &str, text: &str) -> String {
    format!("{}: {text}", table::clean(name).replace('\n', " ⏎ ")).trim_end().to_owned()
}

/// The run and the number of an approval that there is; it is named as it was typed if there is none.
fn known(app: &App, id: &str) -> Result<(RunId, u32), Failure> {
    let (run, number) = parse(app, id)?;
    app.reading()?.look(&run)?.gate(number).ok_or_else(|| unknown(id))?;
    Ok((run, number))
}

fn unknown(id: &str) -> Failure {
    Failure::usage(format!("there is no approval {id}")).hint("list them with `longhaul approvals`")
}

fn parse(app: &App, text: &str) -> Result<(RunId, u32), Failure> {
    let parts = text.rsplit_once(".g").and_then(|(run, gate)| Some((run, gate.parse::<u32>().ok()?)));
    let (run, gate) = parts.ok_or_else(|| {
        Failure::usage(format!("`{text}` is not an approval")).hint("list them with `longhaul approvals`")
    })?;
    Ok((app.run(run)?, gate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_number() {
        let accounts =
            "root:x:0:0:root:/root:/bin/sh\n# none\n:x:7::\n\nann:x:1000:1000::/home/ann:/bin/sh\n";
        let found = |uid| account(accounts, uid);
        assert_eq!(found(0).as_deref(), Some("root"));
        assert_eq!(found(1000).as_deref(), Some("ann"));
        assert_eq!((found(100), found(7)), (None, None));
    }
}
