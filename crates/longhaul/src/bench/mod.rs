//! What durability costs here: real runs through the real harness, beside a bare loop that writes the same bytes to the
//! same disk in the same minute; and what our way to a model costs, beside bare work on the same bytes. Owns the
//! measuring; prints nothing and fails nothing. A figure without its probe would be a figure about the machine, so times
//! are given as ratios.

pub mod approvals;
pub mod crew;
mod disk;
mod first_token;
mod gate;
mod ground;
mod machine;
mod many;
mod memory;
mod probe;
mod process;
mod reading;
mod recovery;
mod report;
mod rig;
pub mod sandbox;
mod sizes;
mod stats;
mod steps;
mod stream;
mod tools;
pub mod turns;
pub mod workspace;

pub use ground::Ground;
pub use memory::open;
pub use report::{Row, Verdict};
pub use sizes::{ModelSizes, Sizes};
pub use tools::{ToolSizes, measure as tools};

use longhaul_model::wire::Api;

use crate::failure::Failure;

/// Every figure of the benchmark. `said` hears what is being measured, for those who wait.
pub fn durable(ground: &Ground, sizes: &Sizes, said: &dyn Fn(&str)) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    // First, while nothing has been freed yet that could hide what they cost.
    said("suspended runs");
    rows.extend(memory::suspended(ground, sizes)?);
    said("steps beside the probe");
    rows.extend(steps::measure(ground, sizes)?);
    said("many runs at once");
    rows.extend(many::measure(ground, sizes)?);
    said("kill -9 and resume");
    rows.extend(recovery::measure(ground, sizes)?);
    said("thinking without a disk");
    rows.extend(overhead(sizes.overhead_steps)?);
    said("opening a long journal");
    rows.extend(memory::opening(ground, sizes)?);
    said("processes");
    rows.extend(process::idle(ground)?);
    rows.push(process::start(ground, sizes)?);
    rows.push(process::list(ground, sizes)?);
    rows.push(process::forgetful(ground)?);
    Ok(rows)
}

/// What deciding, encoding and applying cost without any IO.
pub fn overhead(steps: usize) -> Result<Vec<Row>, Failure> {
    Ok(machine::rows(&machine::times(steps)?))
}

/// What reading replies costs, and what our client adds to the wait for their first word. Touches no disk.
pub fn models(sizes: &ModelSizes, said: &dyn Fn(&str)) -> Result<Vec<Row>, Failure> {
    said("memory of a long stream");
    let mut rows = Vec::from(reading::memory(sizes)?);
    said("streams beside a bare scan");
    for api in Api::ALL {
        rows.extend(reading::measure(api, sizes)?);
    }
    said("the first word beside a bare socket");
    rows.extend(first_token::measure(sizes)?);
    Ok(rows)
}
