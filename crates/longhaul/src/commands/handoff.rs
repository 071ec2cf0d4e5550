//! `handoff`: what an agent left for its next iteration, looked at by a person.

use std::io::Read;
use std::path::{Path, PathBuf};

use longhaul_core::handoff::{Handoff, PATH};
use longhaul_core::limits::HANDOFF_BYTES_MAX;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Look at what an agent leaves for its next iteration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Check a handoff file and show what the next iteration reads of it
    Validate {
        /// The file [default: state/handoff.json]
        file: Option<PathBuf>,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Validate { file } = args.what;
    let path = app.cwd.join(file.unwrap_or_else(|| PATH.into()));
    let handoff = Handoff::parse(&text(&path)?).map_err(|bad| {
        Failure::usage(format!("{}: {bad}", path.display()))
            .hint("phase and next_step are texts; completed, critical_files and memory_notes may be left out")
    })?;
    if app.json() {
        render::json(&handoff);
    } else {
        render::data(handoff.render().trim_end());
    }
    Ok(Exit::Ok)
}

/// The file, or as much of it as shows that it is too long.
fn text(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    // Opening a FIFO would wait for somebody to write.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Failure::usage(format!("{} is no regular file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(HANDOFF_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > HANDOFF_BYTES_MAX {
        // Perhaps cut within a letter, and in any case not read any further.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{}: it is not UTF-8", path.display())))
}
