//! `bench`: what durability and models cost here and how fast the tools are, to be read by people or by a script.

use std::path::{Path, PathBuf};

use longhaul_store::Engine;
use serde_json::json;

use crate::app::{App, run_id};
use crate::bench::workspace::WorkspaceSizes;
use crate::bench::{self, Ground, ModelSizes, Row, Sizes, ToolSizes, Verdict};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Measure durability, models and tools here, as ratios to a bare loop or a known program in the same minute
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Steps, recovery, memory: everything, beside a probe in the same minute
    Durable {
        /// Fewer of everything: the same rows with more noise
        #[arg(long)]
        quick: bool,
        /// The disk to measure [default: that of the state directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// What a step costs without any disk: decide, encode, apply
    Overhead {
        #[arg(long, default_value_t = 1000, value_name = "N")]
        steps: usize,
    },
    /// What a turn of a long conversation costs without model, tools and disk
    Turns {
        #[arg(long, default_value_t = 1000, value_name = "N")]
        turns: usize,
    },
    /// Listing and answering approvals when very many wait
    Approvals {
        #[arg(long, default_value_t = 1000, value_name = "N")]
        runs: usize,
        /// Approvals of each run
        #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        gates: u32,
        #[arg(long, default_value_t = 100, value_name = "N")]
        samples: usize,
        /// The disk to measure [default: that of the state directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Runs that another run starts, beside as many by themselves
    Crew {
        #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        children: u32,
        #[arg(long, default_value_t = 3, value_name = "N")]
        rounds: usize,
        /// The disk to measure [default: that of the state directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// The built-in tools, beside ripgrep and fd where they are installed
    Tools {
        /// A small tree: the same rows with more noise
        #[arg(long)]
        quick: bool,
        /// Where to put the tree [default: the disk of the state directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Checkpoints, the way back and second workspaces, beside git itself
    Workspace {
        /// Files of the repository that checkpoints are made of
        #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        files: u32,
        /// Files that a rewind brings back
        #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        changed: u32,
        /// History of the repository that workspaces are made of
        #[arg(long, default_value_t = 1024, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
        megabytes: u32,
        #[arg(long, default_value_t = 5, value_name = "N")]
        rounds: usize,
        /// The disk to measure [default: that of the state directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// What the sandbox adds to a command
    Sandbox {
        #[arg(long, default_value_t = 101, value_name = "N")]
        calls: usize,
    },
    /// Reading streamed replies, and the wait for their first word, beside bare work on the same bytes
    Models {
        /// Fewer of everything: the same rows with more noise
        #[arg(long)]
        quick: bool,
    },
    /// Open the journal of a run and say what that took; asked by `durable` of a fresh process
    #[command(hide = true)]
    Open {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let say = |what: &str| render::talk(&format!("measuring {what}"));
    match args.what {
        What::Durable { quick, dir } => {
            let sizes = if quick { Sizes::QUICK } else { Sizes::FULL };
            report(app, &bench::durable(&ground(app, dir)?, &sizes, &say)?);
        }
        What::Tools { quick, dir } => {
            let sizes = if quick { ToolSizes::QUICK } else { ToolSizes::FULL };
            report(app, &bench::tools(&ground(app, dir)?, &sizes, &say)?);
        }
        What::Approvals { runs, gates, samples, dir } => {
            say("approvals; making them takes a while");
            let ground = ground(app, dir)?;
            report(app, &bench::approvals::measure(&ground, runs.max(1), gates as usize, samples.max(1))?);
        }
        What::Crew { children, rounds, dir } => {
            say("runs by themselves, and as children of one");
            report(app, &bench::crew::measure(&ground(app, dir)?, children as usize, rounds.max(1))?);
        }
        What::Workspace { files, changed, megabytes, rounds, dir } => {
            let [files, changed, megabytes] = [files, changed, megabytes].map(|count| count as usize);
            let sizes = WorkspaceSizes { files, changed, megabytes, rounds: rounds.max(1) };
            report(app, &bench::workspace::measure(&ground(app, dir)?, &sizes, &say)?);
        }
        What::Turns { turns } => report(app, &bench::turns::rows(turns.max(1))?),
        What::Overhead { steps } => report(app, &bench::overhead(steps)?),
        What::Sandbox { calls } => {
            let ground = Ground::new(&existing(&app.state_dir))?;
            report(app, &bench::sandbox::measure(&ground, std::env::current_exe()?, calls)?);
        }
        What::Models { quick } => {
            let sizes = if quick { ModelSizes::QUICK } else { ModelSizes::FULL };
            report(app, &bench::models(&sizes, &say)?);
        }
        What::Open { id } => render::json(&bench::open(&Engine::new(&app.state_dir), &run_id(&id)?)?),
    }
    Ok(Exit::Ok)
}

fn ground(app: &App, dir: Option<PathBuf>) -> Result<Ground, Failure> {
    Ground::new(&dir.map_or_else(|| existing(&app.state_dir), |dir| app.cwd.join(dir)))
}

/// The nearest directory that is there.
fn existing(dir: &Path) -> PathBuf {
    dir.ancestors().skip(1).find(|dir| dir.is_dir()).unwrap_or(Path::new(".")).to_owned()
}

fn report(app: &App, rows: &[Row]) {
    if app.json() {
        return render::json(&json!({ "rows": rows }));
    }
    let header = ["NAME", "VALUE", "RATIO", "TARGET", "VERDICT", "WHAT"];
    render::data(&table::rows(&header, rows.iter().map(cells)));
    let missed = rows.iter().filter(|row| row.verdict() == Verdict::Misses).count();
    if missed > 0 {
        render::hint(&format!("{missed} missed; on a shared machine, measure again before believing it"));
    }
}

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.name.to_owned(),
        format!("{:.1} {}", row.value, row.unit).trim_end().to_owned(),
        row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}×")),
        row.wanted(),
        row.verdict().as_str().to_owned(),
        row.about.clone(),
    ]
}
