//! House work: `cargo xtask tidy` checks what the compiler cannot, `cargo xtask coverage` lists the requirements that
//! tests show. It owns rules about the tree and refuses to change anything in it.

mod coverage;
mod problem;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let root = root()?;
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(&root),
        Some("coverage") => {
            say(&coverage::report(&source::rust_files(&root)?));
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => bail!("unknown task `{other}`; the tasks are `tidy` and `coverage`"),
        None => bail!("name a task: `tidy` or `coverage`"),
    }
}

fn tidy(root: &Path) -> Result<ExitCode> {
    let house = tidy::House::open(root)?;
    say(&house.longest());
    let problems = house.problems();
    for problem in &problems {
        complain(&problem.to_string());
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("xtask stands in no workspace")?.to_owned())
}

#[expect(clippy::print_stdout, reason = "what a task found is its data")]
fn say(text: &str) {
    println!("{}", text.trim_end());
}

#[expect(clippy::print_stderr, reason = "what is wrong is talk")]
fn complain(text: &str) {
    eprintln!("{text}");
}
