//! What holds an agent's commands: the attack suite, and that honest work goes on inside. A machine without bubblewrap
//! says SKIP, which is not a pass.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stderr, reason = "a test that cannot be made here says SKIP")]

mod attacks;
mod egress;
mod every_tool;
mod held;
mod hooks;
mod levels;
mod memory;
mod processes;
mod rig;
mod servers;
