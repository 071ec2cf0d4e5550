//! `cargo bench`: what `longhaul bench` measures, by the program itself. What follows `--` goes to it, and may begin with
//! the name of the one benchmark that is wanted.

use std::process::{Command, ExitCode};

const BENCHMARKS: [&str; 2] = ["durable", "models"];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked_by_bench = arguments.iter().any(|argument| argument == "--bench");
    arguments.retain(|argument| argument != "--bench");
    if !asked_by_bench {
        // `cargo test --all-targets` only wants to know that this builds.
        return ExitCode::SUCCESS;
    }
    let is_named = |name: &&str| arguments.first().is_some_and(|argument| argument == name);
    let all_well = match BENCHMARKS.into_iter().find(is_named) {
        Some(name) => is_well(name, &arguments[1..]),
        None => BENCHMARKS.iter().all(|name| is_well(name, &arguments)),
    };
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_well(name: &str, arguments: &[String]) -> bool {
    let ended = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["bench", name]).args(arguments).status();
    ended.is_ok_and(|status| status.success())
}
