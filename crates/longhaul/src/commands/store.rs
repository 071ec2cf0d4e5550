//! `store`: what is kept where, whether it is sound, and how to mend or move it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use longhaul_core::codec::VERSION;
use longhaul_core::document::SCHEMA_VERSION;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::view::{EventLine, RunView};
use longhaul_engine::{Harness, exchange};
use longhaul_store::Home;
use longhaul_store::catalog::Filter;
use longhaul_store::engine::Repaired;
use serde_json::{Value, json};

use super::import::TakingIn;
use super::trust::refuse_agents;
use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Look at, check, mend and move what is kept of runs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Where runs are kept, and whether the engine can be used
    Status,
    /// All runs with their store and size, or the checkpoints of one run
    List {
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// The format, version and events of one run's journal
    Inspect {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// What one run costs on disk, for each event and over time
    Stats {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Check every byte of one run's journal, or of all; changes nothing
    Verify {
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Cut a damaged journal at its first damage, keeping a copy of the whole
    Repair {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Say that a state directory from another machine is yours; what came with a repository is not
    Adopt,
    /// Make the catalogue anew from the journals
    Rebuild,
    /// Print a run as a document (`json`) or with every event (`bin`)
    #[command(alias = "get")]
    Export {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(long, default_value = "json", value_parser = ["json", "bin"])]
        format: String,
    },
    /// Take in a binary export under another id
    #[command(alias = "put")]
    Import {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[arg(long = "as", value_name = "ID")]
        rename: String,
        #[command(flatten)]
        taking: TakingIn,
    },
    /// Print a large output that a call's record names by its hash
    Blob {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(value_name = "HASH")]
        hash: String,
    },
    /// Forget a run, as `longhaul rm` does
    Delete {
        #[arg(value_name = "ID")]
        id: String,
        /// Also a run that has begun and not ended, or cannot be read
        #[arg(long)]
        force: bool,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::Status => status(app),
        What::List { id: None } => list(app),
        What::List { id: Some(id) } => {
            super::checkpoints::run(app, super::checkpoints::Args { id, all: false })
        }
        What::Inspect { id } => inspect(app, &app.run(&id)?),
        What::Stats { id } => stats(app, &app.run(&id)?),
        What::Verify { id } => verify(app, id.as_deref()),
        What::Repair { id } => repair(app, &app.run(&id)?),
        What::Adopt => adopt(app),
        What::Rebuild => rebuild(app),
        What::Export { id, format } if format == "bin" => export(app, &app.run(&id)?),
        What::Export { id, .. } => super::export::run(app, super::export::Args { id }),
        What::Blob { id, hash } => blob(app, &app.run(&id)?, &hash),
        What::Delete { id, force } => super::rm::run(app, super::rm::Args { ids: vec![id], force }),
        What::Import { file, rename, taking } => import(app, &file, &run_id(&rename)?, &taking),
    }
}

fn adopt(app: &App) -> Result<Exit, Failure> {
    refuse_agents("adopt a state directory")?;
    let shown = app.state_dir.display();
    if !app.state_dir.is_dir() {
        return Err(Failure::usage(format!("there is no state directory {shown}")));
    }
    app.adopt_home()?;
    let runs = app.home()?.map_or(Ok(0), |home| home.readable_runs().map(|runs| runs.len()))?;
    render::talk(&format!(
        "{shown} is yours now, with {runs} runs and the MCP servers that were accepted there"
    ));
    Ok(Exit::Ok)
}

fn status(app: &App) -> Result<Exit, Failure> {
    let runs = match app.home()? {
        Some(home) => home.readable_runs()?.len(),
        None => 0,
    };
    let fallback = fallback_reason(app)?;
    let backend = if fallback.is_some() { "sqlite" } else { "engine" };
    if app.json() {
        let dir = app.state_dir.display().to_string();
        render::json(
            &json!({ "stateDir": dir, "backend": backend, "fallbackReason": fallback, "runs": runs }),
        );
    } else {
        render::data(&format!("{:<10} {}", "state", app.state_dir.display()));
        render::data(&format!("{:<10} {backend}", "backend"));
        render::data(&format!("{:<10} {runs}", "runs"));
        if let Some(reason) = fallback {
            render::warn(&format!("the engine cannot be used: {reason}"));
        }
    }
    Ok(Exit::Ok)
}

/// Why the engine cannot be used; `None` if it can, or if there is no state directory to ask.
pub fn fallback_reason(app: &App) -> Result<Option<String>, Failure> {
    match app.home()? {
        Some(home) => Ok(home.engine_trouble().map(|reason| reason.0)),
        None => Ok(None),
    }
}

fn list(app: &App) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let (rows, _) = harness.list(&Filter::default())?;
    let mut listed = Vec::new();
    for row in rows {
        match harness.store_of(&row.id).and_then(|store| Ok(store.footprint(&row.id)?)) {
            Ok(footprint) => listed.push((row.id, row.backend.as_str(), row.last_seq, footprint.disk_bytes)),
            Err(error) => render::warn(&format!("{} cannot be read: {error}", row.id)),
        }
    }
    if app.json() {
        let values: Vec<Value> = listed
            .iter()
            .map(|(id, backend, events, bytes)| json!({ "id": id, "backend": backend, "events": events, "diskBytes": bytes }))
            .collect();
        render::json(&values);
    } else {
        let lines = listed.iter().map(|(id, backend, events, size)| {
            vec![id.to_string(), (*backend).to_owned(), events.to_string(), table::bytes(*size)]
        });
        render::data(&table::rows(&["ID", "BACKEND", "EVENTS", "SIZE"], lines));
    }
    Ok(Exit::Ok)
}

fn inspect(app: &App, id: &RunId) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let store = harness.store_of(id)?;
    if !app.json() {
        return inspect_in_words(&harness, id, store.backend().as_str());
    }
    let mut reader = store.reader(id)?;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut newest = 0;
    reader.poll(&mut |record| {
        *kinds.entry(format!("kind {} version {}", record.kind, record.version)).or_default() += 1;
        newest = newest.max(record.version);
        Ok(())
    })?;
    render::json(&json!({
        "id": id, "backend": store.backend().as_str(), "schemaVersion": SCHEMA_VERSION,
        "eventVersion": newest, "eventVersionSupported": VERSION, "events": kinds,
        "readable": newest <= VERSION,
    }));
    Ok(Exit::Ok)
}

/// The same for a person: events by the names that `events` shows.
fn inspect_in_words(harness: &Harness, id: &RunId, backend: &str) -> Result<Exit, Failure> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut onlooker = harness.onlooker(id)?;
    onlooker.look(&mut |run, seq, at, event| {
        let line = json!(EventLine { run, seq, at, event });
        *counts.entry(line["type"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    })?;
    if onlooker.not_understood > 0 {
        counts.insert("(of a newer longhaul)".to_owned(), onlooker.not_understood);
    }
    render::data(&format!("{:<10} {id}", "run"));
    render::data(&format!("{:<10} {backend}", "backend"));
    render::data(&format!("{:<10} documents {SCHEMA_VERSION}, events up to {VERSION}", "versions"));
    render::data("");
    let lines = counts.into_iter().map(|(name, count)| vec![name, count.to_string()]);
    render::data(&table::rows(&["EVENT", "COUNT"], lines));
    Ok(Exit::Ok)
}

fn stats(app: &App, id: &RunId) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let store = harness.store_of(id)?;
    let footprint = store.footprint(id)?;
    let mut sizes = Vec::new();
    store.reader(id)?.poll(&mut |record| {
        sizes.push(record.payload.len() as u64);
        Ok(())
    })?;
    let mean = |part: &[u64]| if part.is_empty() { 0 } else { part.iter().sum::<u64>() / part.len() as u64 };
    let hundred = sizes.len().min(100);
    if !app.json() {
        let (first, last) = (mean(&sizes[..hundred]), mean(&sizes[sizes.len() - hundred..]));
        for (what, said) in [
            ("run", id.to_string()),
            ("events", footprint.records.to_string()),
            ("their bytes", table::bytes(footprint.payload_bytes)),
            ("journal", table::bytes(footprint.journal_bytes)),
            ("outputs", table::bytes(footprint.blob_bytes)),
            ("on disk", table::bytes(footprint.disk_bytes)),
            ("each event", format!("{first} bytes in the first {hundred}, {last} in the last")),
        ] {
            render::data(&format!("{what:<12} {said}"));
        }
        return Ok(Exit::Ok);
    }
    render::json(&json!({
        "id": id, "events": footprint.records, "payloadBytes": footprint.payload_bytes,
        "journalBytes": footprint.journal_bytes, "blobBytes": footprint.blob_bytes, "diskBytes": footprint.disk_bytes,
        "bytesPerUpdateFirst100": mean(&sizes[..hundred]), "bytesPerUpdateLast100": mean(&sizes[sizes.len() - hundred..]),
    }));
    Ok(Exit::Ok)
}

fn verify(app: &App, id: Option<&str>) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let Some(home) = harness.home() else { return Ok(Exit::Ok) };
    let mut lost = home.lost_runs()?;
    if let Some(id) = id {
        lost.retain(|run| run.as_str() == id);
    }
    let ids = match id {
        Some(_) if !lost.is_empty() => Vec::new(),
        Some(id) => vec![app.run(id)?],
        None => home.readable_runs()?,
    };
    let trouble = home.fallback_trouble().filter(|_| id.is_none());
    let mut sound = trouble.is_none() && lost.is_empty();
    for id in &lost {
        let journal = home.engine().journal_path(id).display().to_string();
        if app.json() {
            render::json_line(&json!({ "id": id, "sound": false, "error": format!("{journal} is gone") }));
        } else {
            render::data(&format!("{id} has lost its journal: {journal} is gone"));
        }
    }
    for id in ids {
        let (line, well) =
            verify_one(&harness, home, &id).unwrap_or_else(|failure| (unchecked(&id, &failure), false));
        sound &= well;
        if app.json() { render::json_line(&line) } else { render::data(&plain_verdict(&line)) }
    }
    if let Some(error) = trouble {
        let (file, why) = (home.fallback_path(), format!("{:#}", anyhow::Error::from(error)));
        if app.json() {
            render::json_line(&json!({ "file": file.display().to_string(), "sound": false, "error": why }));
        } else {
            render::data(&format!("{} is damaged: {why}", file.display()));
        }
    }
    Ok(if sound { Exit::Ok } else { Exit::Failed })
}

fn verify_one(harness: &Harness, home: &Home, id: &RunId) -> Result<(Value, bool), Failure> {
    let folds = harness.look(id);
    let lost = match &folds {
        Ok(run) => lost_outputs(harness, run)?,
        Err(_) => None,
    };
    if !home.engine().contains(id) {
        let (events, sound) = (folds?.seq, lost.is_none());
        let line = json!({ "id": id, "sound": sound, "records": events, "backend": "sqlite", "error": lost });
        return Ok((line, sound));
    }
    let report = home.engine().verify(id)?;
    let damage = report.damage.as_ref().map(|damage| json!({ "offset": damage.offset, "what": damage.what }));
    let error = folds.err().map(|error| format!("{:#}", anyhow::Error::from(error))).or(lost);
    let sound = damage.is_none() && error.is_none();
    let line = json!({
        "id": id, "sound": sound, "records": report.records, "bytes": report.bytes, "tornTailBytes": report.torn_bytes,
        "damage": damage, "error": error,
    });
    Ok((line, sound))
}

/// What is wrong with the large outputs that its calls name: a document, for one, brings none with it.
fn lost_outputs(harness: &Harness, run: &Run) -> Result<Option<String>, Failure> {
    let store = harness.store_of(&run.spec.id)?;
    let broken = |hash: &str| store.blob(&run.spec.id, hash).err().map(|error| error.to_string());
    let broken: Vec<String> = run.blobs().filter_map(broken).collect();
    let first = broken.first().map(|first| format!("in {} of its large outputs: {first}", broken.len()));
    Ok(first)
}

/// What cannot be checked is damaged, or of a longhaul that knows more than this one.
fn unchecked(id: &RunId, failure: &Failure) -> Value {
    use longhaul_engine::Error::Store;
    let newer = matches!(failure.error.downcast_ref(), Some(Store(longhaul_store::Error::TooNew { .. })))
        .then_some(true);
    json!({ "id": id, "sound": false, "newer": newer, "error": format!("{:#}", failure.error) })
}

fn plain_verdict(line: &Value) -> String {
    let id = line["id"].as_str().unwrap_or("");
    if line["sound"] == json!(true) {
        let torn = match line["tornTailBytes"].as_u64() {
            None | Some(0) => String::new(),
            Some(bytes) => format!(", and {bytes} bytes of a write that was never finished"),
        };
        return format!("{id} is sound: {} events{torn}", line["records"]);
    }
    let what = match line["damage"].as_object() {
        Some(damage) => format!("at byte {}: {}", damage["offset"], damage["what"].as_str().unwrap_or("")),
        None => line["error"].as_str().unwrap_or("").to_owned(),
    };
    if line["newer"] == json!(true) {
        return format!("{id} cannot be checked: {what}; use a newer longhaul");
    }
    format!("{id} is damaged {what}")
}

fn repair(app: &App, id: &RunId) -> Result<Exit, Failure> {
    let Some(mended) = app.reading()?.repair(id)? else { return Ok(Exit::Ok) };
    let (repaired, calls) = (&mended.repaired, &mended.calls);
    if repaired.bytes_cut > 0 && repaired.kept_as.is_some() {
        let (kept, lost) = (repaired.records_kept, mended.events_lost);
        let more = if mended.more { " and all that could not be read" } else { "" };
        render::warn(&format!("{id} goes back to event {kept}: {lost} events{more} are lost"));
        // What the agent did after the damage has happened all the same.
        let which = match (calls.len(), mended.more) {
            (0, true) => Some("calls did that can no longer be read".to_owned()),
            (0, false) => None,
            (count, _) => Some(format!("{count} calls since did")),
        };
        if let Some(which) = which {
            let named = if calls.is_empty() { String::new() } else { format!(": {}", calls.join(", ")) };
            let others = if mended.more && !calls.is_empty() { ", and perhaps others" } else { "" };
            render::warn(&format!(
                "what {which} to files and elsewhere is NOT undone, and the agent does not know of it{named}{others}"
            ));
            render::hint(&format!(
                "look at where {id} works before `longhaul resume {id}`, which may do the same again"
            ));
        }
    }
    if app.json() {
        render::json(&json!({
            "id": id, "cutAt": repaired.cut_at, "cutBytes": repaired.bytes_cut, "records": repaired.records_kept,
            "copy": repaired.kept_as.as_ref().map(|path| path.display().to_string()),
            "lostRecords": mended.events_lost, "lostCalls": calls, "lostMore": mended.more,
        }));
    } else {
        render::talk(&in_words(id, repaired));
    }
    Ok(Exit::Ok)
}

fn in_words(id: &RunId, repaired: &Repaired) -> String {
    let (kept, cut) = (format!("{id} has {} sound events", repaired.records_kept), repaired.bytes_cut);
    match &repaired.kept_as {
        Some(path) => format!(
            "{kept}; {cut} bytes from byte {} on were cut off, and all of it is kept in {}",
            repaired.cut_at,
            path.display()
        ),
        None if cut > 0 => format!("{kept}; {cut} bytes of a write that was never finished were cut off"),
        None => format!("{kept}; nothing was cut off"),
    }
}

fn rebuild(app: &App) -> Result<Exit, Failure> {
    let (count, unreadable) = app.reading()?.rebuild()?;
    for (id, error) in &unreadable {
        render::warn(&format!("{id} cannot be read: {error}"));
    }
    if app.json() {
        render::json(&json!({ "runs": count, "unreadable": unreadable.len() }));
    } else {
        render::talk(&format!("the catalogue was made anew from {count} runs"));
    }
    Ok(if unreadable.is_empty() { Exit::Ok } else { Exit::Failed })
}

fn export(app: &App, id: &RunId) -> Result<Exit, Failure> {
    render::bytes(&exchange::write(&app.reading()?.export(id)?));
    Ok(Exit::Ok)
}

fn blob(app: &App, id: &RunId, hash: &str) -> Result<Exit, Failure> {
    render::bytes(&app.reading()?.store_of(id)?.blob(id, hash)?);
    Ok(Exit::Ok)
}

fn import(app: &App, file: &PathBuf, id: &RunId, taking: &TakingIn) -> Result<Exit, Failure> {
    let shown = file.display().to_string();
    let bytes =
        std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let mut export = exchange::read(&shown, &bytes)?;
    let harness = app.harness()?;
    taking.refuse_commands(app, &shown, &harness.renamed(id, &mut export)?.commands())?;
    let run = harness.take_in(id, export, taking.own(app, id, None)?)?;
    taking.make_place(&run)?;
    render::json(&RunView::of(&run));
    Ok(Exit::Ok)
}
