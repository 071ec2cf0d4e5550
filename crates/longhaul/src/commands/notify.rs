//! `notify`: who is told when a run waits for a person, pauses or ends, and what became of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::overnight::Night;
use longhaul_core::prompt::head;
use longhaul_engine::Harness;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_engine::notify::{
    Line, Notice, Notifier, NotifyConfig, Occasion, Options, Outcome, read_record,
};
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::NIGHT_NOTICE_BYTES_MAX;
use crate::render::{self, table};
use crate::servers;
use crate::settings::Settings;

/// Try how people are told, and see what a run has told them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The ways are set in longhaul.yaml, in your own directory or the project's:

  notify:
    on: [waiting, paused, completed, failed]
    desktop: true
    command: [./tell.sh]
    webhook: { url: \"https://ntfy.sh/my-topic\", format: ntfy }    # or slack, or json

Nothing is said twice, also if the process dies; what fails is tried again, a few times now and again when the run is next driven.
While a run waits for an answer you are reminded: after half an hour, two hours, eight, and then once a day.
Nobody is told that a run was paused or stopped by a person.")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Say something in every way that is set, and show what became of it; exits with 1 if one failed
    Test,
    /// What was said about a run, and whether it arrived
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::Test => test(app),
        What::Show { id } => show(app, &app.run(&id)?),
    }
}

/// Whose end a run's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Its own.
    Run,
    /// It is one of a night's, whose end is told instead.
    Night,
}

/// Tells people about a run that is driven here. `None` if nobody is to be told, or nothing is kept of the run.
pub fn notifier(app: &App, harness: &Harness, id: &RunId, whole: Whole) -> Option<Notifier> {
    let settings = app.settings_quietly().ok()?;
    let dir = harness.home()?.run_dir(id);
    let mut options = options(app, &settings, dir.is_dir().then(|| dir.join(RECORD)));
    let reader = harness.clone();
    options.below = Arc::new(move |id| reader.look(id).ok());
    if whole == Whole::Night {
        let asks = |occasion: &Occasion| matches!(occasion, Occasion::Waiting | Occasion::Paused);
        let on = options.config.on.get_or_insert_with(|| vec![Occasion::Waiting, Occasion::Paused]);
        on.retain(asks);
    }
    Notifier::start(options)
}

/// Tells people once that a night is over, and where its report is.
pub fn night_is_over(app: &App, night: &Night, dir: &Path) {
    let Ok(settings) = app.settings_quietly() else { return };
    let Some(notifier) = Notifier::start(options(app, &settings, Some(dir.join(RECORD)))) else { return };
    notifier.tell(Notice {
        key: "over".to_owned(),
        occasion: Occasion::Completed,
        run_id: night.id.clone(),
        agent_name: night.order.agent.clone(),
        task: night.order.objective.clone(),
        gate_id: None,
        title: "The night is over".to_owned(),
        text: format!(
            "{}\nRead: longhaul overnight report {}",
            head(&night.order.objective, NIGHT_NOTICE_BYTES_MAX),
            night.id
        ),
        reminder: 0,
    });
    notifier.close();
}

/// The file beside a run's journal.
const RECORD: &str = "notices.jsonl";

fn options(app: &App, settings: &Settings, record: Option<PathBuf>) -> Options {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let withheld = servers::withheld(settings);
    Options { withheld, ..Options::new(settings.notify.clone(), record, app.secrets.clone(), clock) }
}

fn test(app: &App) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    if settings.notify.is_empty() {
        return Err(Failure::usage("nobody is told anything: `notify` is not set")
            .hint("`longhaul notify --help` shows how"));
    }
    let dir = std::env::temp_dir().join(format!("longhaul-notify-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let record = dir.join(RECORD);
    let options = options(app, &settings, Some(record.clone()));
    let config = NotifyConfig { on: None, ..options.config.clone() };
    // Somebody sits there and waits.
    let options = Options { config, backoff: Duration::from_millis(100), ..options };
    if let Some(notifier) = Notifier::start(options) {
        notifier.tell(example());
        notifier.close();
    }
    let lines = read_record(&record);
    std::fs::remove_dir_all(&dir).ok();
    print(app, &lines);
    let delivered = lines.iter().filter(|line| line.outcome == Outcome::Delivered).count();
    let ways = [
        settings.notify.desktop == Some(true),
        !settings.notify.command.is_empty(),
        settings.notify.webhook.is_some(),
    ];
    Ok(if delivered == ways.into_iter().filter(|is_set| *is_set).count() { Exit::Ok } else { Exit::Failed })
}

fn example() -> Notice {
    Notice {
        key: "test".to_owned(),
        occasion: Occasion::Waiting,
        run_id: "run_test".to_owned(),
        agent_name: "coder".to_owned(),
        task: "none; this is a test".to_owned(),
        gate_id: None,
        title: "longhaul can reach you".to_owned(),
        text: "This is how you are told that a run waits for you.".to_owned(),
        reminder: 0,
    }
}

fn show(app: &App, id: &RunId) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    // One that is not there is said to be so.
    harness.store_of(id)?;
    let lines = harness.home().map_or(Vec::new(), |home| read_record(&home.run_dir(id).join(RECORD)));
    print(app, &lines);
    Ok(Exit::Ok)
}

fn print(app: &App, lines: &[Line]) {
    if app.json() {
        return render::json(&json!(lines));
    }
    if lines.is_empty() {
        return render::talk("nobody was told anything");
    }
    let rows = lines.iter().map(|line| {
        vec![
            line.at.to_string(),
            line.key.clone(),
            line.way.clone(),
            line.attempt.to_string(),
            line.outcome.as_str().to_owned(),
            table::fit(line.error.as_deref().unwrap_or_default(), 80),
        ]
    });
    render::data(&table::rows(&["AT", "WHAT", "WAY", "TRY", "OUTCOME", "ERROR"], rows));
}
