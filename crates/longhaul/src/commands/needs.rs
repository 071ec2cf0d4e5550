//! `needs`: what agents cannot go on without, and only a person can provide.

use longhaul_core::prompt::head;

use super::approvals::{self, AnswerArgs};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::NEED_LINE_BYTES_MAX;
use crate::render::{self, table};

/// List what agents need from a person to go on, and say that it is there
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// What is needed now; each is also a file in the state directory's `needs`
    List,
    /// Say that it is there; the agent goes on with your words when its run is resumed
    Resolve {
        /// The need, as `longhaul needs` lists it
        #[arg(value_name = "AID")]
        id: String,
        /// What the agent should know about it
        #[arg(default_value = "It is there now.", value_name = "TEXT")]
        text: String,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what.unwrap_or(What::List) {
        What::List => list(app),
        What::Resolve { id, text } => approvals::resolve(app, AnswerArgs { id, text }),
    }
}

fn list(app: &App) -> Result<Exit, Failure> {
    let mut needs = approvals::waiting(app)?;
    needs.retain(|gate| gate["kind"] == approvals::NEED);
    if app.json() {
        render::json(&needs);
        return Ok(Exit::Ok);
    }
    if needs.is_empty() {
        render::talk("nobody needs anything");
        return Ok(Exit::Ok);
    }
    let lines = needs.iter().map(|need| {
        let text = |name: &str| need[name].as_str().unwrap_or("").to_owned();
        let what = table::clean(head(&text("description"), NEED_LINE_BYTES_MAX)).replace('\n', " ");
        vec![text("id"), text("createdAt"), what]
    });
    render::data(&table::rows(&["NEED", "SINCE", "I NEED THIS TO CONTINUE"], lines));
    Ok(Exit::Ok)
}
