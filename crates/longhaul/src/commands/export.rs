//! `export`: a run as a state document.

use longhaul_core::limits::DOCUMENT_BYTES_MAX;
use longhaul_core::run::Run;
use longhaul_core::{document, json::Json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Print a run as a JSON state document (schema version 1)
///
/// Large outputs of its calls are not part of it; `longhaul store export ID --format bin` takes them along.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    let document = laid_out(&run, &document::write(&run))?;
    warn_of_outputs(&run);
    render::data(&document);
    Ok(Exit::Ok)
}

/// Nothing is given away that nobody could take in again. Laid out in lines it is larger, which is for people only.
fn laid_out(run: &Run, document: &Json) -> Result<String, Failure> {
    let (id, bytes) = (&run.spec.id, document.as_str().len());
    if bytes > DOCUMENT_BYTES_MAX {
        let why = format!("{id} is {bytes} bytes as a document; at most {DOCUMENT_BYTES_MAX} are read again");
        let hint = format!(
            "`longhaul store export {id} --format bin` has no such limit, and `longhaul store import` reads it"
        );
        return Err(Failure::usage(why).hint(hint));
    }
    let pretty = document.pretty();
    Ok(if pretty.len() <= DOCUMENT_BYTES_MAX { pretty } else { document.to_string() })
}

/// Says what of a run is not in its document.
pub fn warn_of_outputs(run: &Run) {
    let outputs = run.blobs().count();
    if outputs > 0 {
        render::warn(&format!(
            "a document does not hold the large outputs of calls, of which {} has {outputs}; `longhaul store export ID --format bin` \
             takes them along",
            run.spec.id
        ));
    }
}
