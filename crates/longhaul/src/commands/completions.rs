//! `completions`: what a shell needs to complete longhaul's commands.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul"
)]
pub struct Args {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

pub fn run(_app: &App, args: Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "longhaul", &mut script);
    render::bytes(&script);
    Ok(Exit::Ok)
}
