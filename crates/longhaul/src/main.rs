//! The terminal: arguments in, exit code out.

mod agents;
mod app;
mod bench;
mod choice;
mod cli;
mod commands;
mod exit;
mod failure;
mod limits;
mod render;
mod servers;
mod settings;
mod trust;

use std::process::ExitCode;

use clap::Parser;

use crate::app::App;
use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;

fn main() -> ExitCode {
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

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let app = App::new(cli.shared)?;
    match cli.command {
        Command::Init(args) => commands::init::run(&app, args),
        Command::Demo(args) => commands::demo::run(&app, args),
        Command::Run(args) => commands::run::run(&app, args),
        Command::Create(args) => commands::create::run(&app, args),
        Command::Start(args) | Command::Resume(args) => commands::start::run(&app, args),
        Command::Pause(args) => commands::ask::pause(&app, args),
        Command::Stop(args) => commands::ask::stop(&app, args),
        Command::Rm(args) => commands::rm::run(&app, args),
        Command::List(args) => commands::list::run(&app, args),
        Command::Show(args) => commands::show::run(&app, args),
        Command::Steps(args) => commands::steps::run(&app, args),
        Command::Checkpoints(args) => commands::checkpoints::run(&app, args),
        Command::Tree(args) => commands::tree::run(&app, args),
        Command::Tools(args) => commands::tools::run(&app, args),
        Command::Events(args) => commands::events::run(&app, args),
        Command::Logs(args) => commands::logs::run(&app, args),
        Command::Result(args) => commands::result::run(&app, args),
        Command::Cost(args) => commands::cost::run(&app, args),
        Command::Models(args) => commands::models::run(&app, args),
        Command::Mcp(args) => commands::mcp::run(&app, args),
        Command::Trust(args) => commands::trust::run(&app, args),
        Command::Approvals(args) => commands::approvals::run(&app, args),
        Command::Approve(args) => commands::approvals::approve(&app, args),
        Command::Reject(args) => commands::approvals::reject(&app, args),
        Command::Answer(args) => commands::approvals::answer(&app, args),
        Command::Export(args) => commands::export::run(&app, args),
        Command::Import(args) => commands::import::run(&app, args),
        Command::Replay(args) => commands::replay::run(&app, args),
        Command::Store(args) => commands::store::run(&app, args),
        Command::Db(args) => commands::db::run(&app, args),
        Command::Config(args) => commands::config::run(&app, args),
        Command::Doctor(args) => commands::doctor::run(&app, args),
        Command::Bench(args) => commands::bench::run(&app, args),
        Command::FakeModel(args) => commands::fake_model::run(&app, args),
        Command::Completions(args) => commands::completions::run(&app, args),
    }
}
