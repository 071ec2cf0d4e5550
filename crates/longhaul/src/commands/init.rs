//! `init`: a project's settings, its workspace directory and a sample agent. Never overwrites.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::settings::template;

/// Write longhaul.yaml with the defaults, a workspace directory and a sample agent; never overwrites
#[derive(Debug, clap::Args)]
pub struct Args {}

const SAMPLE_AGENT: &str = include_str!("../sample_agent.md");

pub fn run(app: &App, _args: Args) -> Result<Exit, Failure> {
    let agents = app.project.join("agents");
    let workspace = app.state_dir.join("workspace");
    let mut made = Vec::new();
    // Through the store, so that the state directory's ignore file comes before anything else in it.
    drop(app.make_home()?);
    std::fs::create_dir_all(&workspace).map_err(|error| cannot(&workspace, &error))?;
    std::fs::create_dir_all(&agents).map_err(|error| cannot(&agents, &error))?;
    for (path, text) in
        [(app.project.join("longhaul.yaml"), template()), (agents.join("coder.md"), SAMPLE_AGENT)]
    {
        let word = if write_new(&path, text)? { "wrote" } else { "kept" };
        made.push(format!("{word} {}", path.display()));
    }
    if app.json() {
        render::json(&made);
    } else {
        for line in made {
            render::data(&line);
        }
    }
    render::hint(
        "`longhaul demo` shows what longhaul does; `longhaul run \"TASK\" --model scripted/FILE` starts for real",
    );
    Ok(Exit::Ok)
}

/// False if the file was there already.
fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).map_err(|error| cannot(path, &error))?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(cannot(path, &error)),
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", path.display()))
}
