//! The terminal: arguments in, exit code out.

mod agents;
mod app;
mod autonomy;
mod bench;
mod branch;
mod choice;
mod cli;
mod commands;
mod crew;
mod duration;
mod exit;
mod failure;
mod insider;
mod limits;
mod misread;
mod owner;
mod programs;
mod render;
mod rules;
mod schema;
mod servers;
mod settings;
mod size;
mod trust;

use std::process::ExitCode;

use clap::Parser;
use longhaul_tools::sandbox;

use crate::app::App;
use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;

/// What shells answer for a program that is there and cannot be run.
const NOT_ENTERED: u8 = 126;

fn main() -> ExitCode {
    if let Some(exit) = inner_stage() {
        return exit;
    }
    keep_to_ourselves();
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(Exit::Ok) if !render::all_data_printed() => {
            render::failure(&Failure::from(anyhow::anyhow!("standard output could not be written")));
            Exit::Failed.into()
        }
        Ok(exit) => exit.into(),
        Err(failure) => {
            render::failure(&failure);
            failure.exit.into()
        }
    }
}

/// Keys are in our memory and our environment: they go into no core dump, and other processes of this user do not read them
/// there. What we start is as it would be otherwise.
fn keep_to_ourselves() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Neither can fail for what is only made less; if it did, that would be no reason not to work.
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    setrlimit(Resource::Core, none).ok();
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok();
}

/// What we are when we started ourselves inside a sandbox. Looked at before anything else: it is done for every command.
fn inner_stage() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first == sandbox::ENTER {
        let Err(error) = sandbox::enter(arguments);
        render::failure(&Failure::from(anyhow::Error::from(error)));
        return Some(ExitCode::from(NOT_ENTERED));
    }
    if first == sandbox::RELAY {
        return sandbox::relay().is_err().then_some(ExitCode::FAILURE);
    }
    if first == sandbox::REPORT {
        let report = sandbox::answer(&arguments.next()?.into_string().ok()?)?;
        render::data(&report);
        return Some(ExitCode::SUCCESS);
    }
    None
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let app = App::new(cli.shared)?;
    programs::beyond(&[&app.cwd, &app.project])?;
    match cli.command {
        Command::Init(args) => commands::init::run(&app, args),
        Command::Demo(args) => commands::demo::run(&app, args),
        Command::Run(args) => commands::run::run(&app, args),
        Command::Repl(args) => commands::repl::run(&app, args, dispatch),
        Command::Loop(args) => commands::looping::run(&app, args),
        Command::Create(args) => commands::create::run(&app, args),
        Command::Start(args) => commands::start::run(&app, args),
        Command::Resume(args) => commands::start::resume(&app, args),
        Command::Pause(args) => commands::ask::pause(&app, args),
        Command::Stop(args) => commands::ask::stop(&app, args),
        Command::Rm(args) => commands::rm::run(&app, args),
        Command::List(args) => commands::list::run(&app, args),
        Command::Show(args) => commands::show::run(&app, args),
        Command::Needs(args) => commands::needs::run(&app, args),
        Command::Replan(args) => commands::replan::run(&app, args),
        Command::Tasks(args) => commands::tasks::run(&app, args),
        Command::Overnight(args) => commands::overnight::run(&app, args),
        Command::Steps(args) => commands::steps::run(&app, args),
        Command::Checkpoint(args) => commands::checkpoint::run(&app, args),
        Command::Rewind(args) => commands::rewind::rewind(&app, args),
        Command::Fork(args) => commands::rewind::fork(&app, args),
        Command::Checkpoints(args) => commands::checkpoints::run(&app, args),
        Command::Tree(args) => commands::tree::run(&app, args),
        Command::Tools(args) => commands::tools::run(&app, args),
        Command::Events(args) => commands::events::run(&app, args),
        Command::Trace(args) => commands::trace::run(&app, args),
        Command::Logs(args) => commands::logs::run(&app, args),
        Command::Diff(args) => commands::diff::run(&app, args),
        Command::Apply(args) => commands::landing::apply(&app, args),
        Command::Merge(args) => commands::landing::merge(&app, args),
        Command::Prompt(args) => commands::prompt::run(&app, args),
        Command::Result(args) => commands::result::run(&app, args),
        Command::Cost(args) => commands::cost::run(&app, args),
        Command::Models(args) => commands::models::run(&app, args),
        Command::Mcp(args) => commands::mcp::run(&app, args),
        Command::Trust(args) => commands::trust::run(&app, args),
        Command::Approvals(args) => commands::approvals::run(&app, args),
        Command::Approve(args) => commands::approvals::approve(&app, args),
        Command::Reject(args) => commands::approvals::reject(&app, args),
        Command::Answer(args) => commands::approvals::answer(&app, args),
        Command::Notify(args) => commands::notify::run(&app, args),
        Command::Export(args) => commands::export::run(&app, args),
        Command::Import(args) => commands::import::run(&app, args),
        Command::Replay(args) => commands::replay::run(&app, args),
        Command::Session(args) => commands::session::run(&app, args),
        Command::Workspace(args) => commands::workspace::run(&app, args),
        Command::Store(args) => commands::store::run(&app, args),
        Command::Db(args) => commands::db::run(&app, args),
        Command::Agents(args) => commands::agents::run(&app, args),
        Command::Handoff(args) => commands::handoff::run(&app, args),
        Command::Research(args) => commands::research::run(&app, args),
        Command::Permissions(args) => commands::permissions::run(&app, args),
        Command::Config(args) => commands::config::run(&app, args),
        Command::Doctor(args) => commands::doctor::run(&app, args),
        Command::Bench(args) => commands::bench::run(&app, args),
        Command::FakeModel(args) => commands::fake_model::run(&app, args),
        Command::Completions(args) => commands::completions::run(&app, args),
    }
}
