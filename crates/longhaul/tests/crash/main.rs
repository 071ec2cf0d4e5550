//! The built program, killed, starved and crossed. Each module is one way to treat it badly; whatever lacks a facility
//! of this machine says SKIP and names it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod first_command;
mod full_disk;
mod nights;
mod places;
mod power_cut;
mod rig;
mod sigkill;
mod signals;
mod start_up;
mod strace;
mod two_processes;
mod wrong_clock;
