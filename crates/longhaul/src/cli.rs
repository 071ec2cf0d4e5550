//! What may be typed. One struct for each command beside its doing; here only the names and what all share.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, Subcommand};

use crate::commands;

/// Keeps agents working for hours, unattended, and can prove what happened.
///
/// A run is a journal: kill it at any moment and `longhaul resume` goes on where it stood. Start with `longhaul demo`,
/// which needs no key and no network.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Exit codes: 0 completed · 1 failed · 2 usage or configuration · 3 waiting for a person or paused · \
4 a limit was reached · 5 rate-limited · 6 frozen · 7 held by another writer · 130 interrupted, paused safely")]
pub struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Shared {
    /// Where runs are kept [default: .longhaul beside the nearest git root, else here]
    #[arg(long, global = true, env = "LONGHAUL_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Trust this repository's settings and state directory for this one command, for machines without a user
    #[arg(long, global = true, env = "LONGHAUL_TRUST", value_parser = BoolishValueParser::new(), action = ArgAction::SetTrue)]
    pub trust: bool,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Init(commands::init::Args),
    Demo(commands::demo::Args),
    Run(commands::run::Args),
    Loop(commands::looping::Args),
    Repl(commands::repl::Args),
    Create(commands::create::Args),
    Start(commands::start::Args),
    Resume(commands::start::Args),
    Replan(commands::replan::Args),
    Needs(commands::needs::Args),
    Pause(commands::ask::PauseArgs),
    Stop(commands::ask::StopArgs),
    Rm(commands::rm::Args),
    List(commands::list::Args),
    Show(commands::show::Args),
    Tasks(commands::tasks::Args),
    Overnight(commands::overnight::Args),
    Steps(commands::steps::Args),
    Checkpoint(commands::checkpoint::Args),
    Checkpoints(commands::checkpoints::Args),
    Rewind(commands::rewind::RewindArgs),
    Fork(commands::rewind::ForkArgs),
    Tree(commands::tree::Args),
    Tools(commands::tools::Args),
    Events(commands::events::Args),
    Trace(commands::trace::Args),
    Logs(commands::logs::Args),
    Result(commands::result::Args),
    Diff(commands::diff::Args),
    Apply(commands::landing::ApplyArgs),
    Merge(commands::landing::MergeArgs),
    Prompt(commands::prompt::Args),
    Cost(commands::cost::Args),
    Models(commands::models::Args),
    Mcp(commands::mcp::Args),
    Trust(commands::trust::Args),
    Approvals(commands::approvals::Args),
    Approve(commands::approvals::ApproveArgs),
    Reject(commands::approvals::RejectArgs),
    Answer(commands::approvals::AnswerArgs),
    Notify(commands::notify::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    Replay(commands::replay::Args),
    Session(commands::session::Args),
    Workspace(commands::workspace::Args),
    Store(commands::store::Args),
    Db(commands::db::Args),
    Agents(commands::agents::Args),
    Handoff(commands::handoff::Args),
    Research(commands::research::Args),
    Permissions(commands::permissions::Args),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Bench(commands::bench::Args),
    FakeModel(commands::fake_model::Args),
    Completions(commands::completions::Args),
}
