//! `cargo bench`: what `longhaul bench durable` measures, by the program itself; what follows `--` goes to it.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked_by_bench = arguments.iter().any(|argument| argument == "--bench");
    arguments.retain(|argument| argument != "--bench");
    if !asked_by_bench {
        // `cargo test --all-targets` only wants to know that this builds.
        return ExitCode::SUCCESS;
    }
    let ended =
        Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["bench", "durable"]).args(arguments).status();
    match ended {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}
