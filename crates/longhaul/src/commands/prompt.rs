//! `prompt`: exactly what the model saw.

use longhaul_core::conversation::{Message, ModelRequest};
use longhaul_core::event::Event;
use longhaul_core::prompt;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Show exactly what the model was sent: instructions and conversation, as they were at any turn
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Of this iteration [default: the last]
    #[arg(long, value_name = "N")]
    pub iteration: Option<u32>,
    /// At this turn of it [default: the first if an iteration is named, else the last]
    #[arg(long, value_name = "N")]
    pub turn: Option<u32>,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let mut onlooker = app.reading()?.onlooker(&id)?;
    let turn = args.turn.or(args.iteration.map(|_| 1));
    let mut found: Option<ModelRequest> = None;
    onlooker.look(&mut |run, _, _, event| {
        let Event::TurnStarted { turn: started, attempt } = event else { return };
        let is_meant = args.iteration.is_none_or(|iteration| iteration == run.iteration)
            && turn.is_none_or(|turn| turn == *started);
        if is_meant {
            found = Some(prompt::request(run, *started, *attempt));
        }
    })?;
    let request = found.ok_or_else(|| {
        Failure::usage(format!("{id} has no such turn"))
            .hint(format!("`longhaul logs {id}` shows what there is"))
    })?;
    if app.json() {
        render::json(&json!({
            "model": request.model,
            "iteration": request.scene.iteration,
            "turn": request.scene.turn,
            "step": request.scene.step,
            "system": request.system,
            "messages": request.messages,
            "tools": request.tools,
        }));
    } else {
        render::words(&shown(&request));
    }
    Ok(Exit::Ok)
}

fn shown(request: &ModelRequest) -> String {
    let scene = &request.scene;
    let mut text = format!(
        "[{}, {}, iteration {}, turn {}]\n\n[system]\n{}\n\n[tools] {}\n",
        request.model,
        scene.step,
        scene.iteration,
        scene.turn,
        request.system,
        request.tools.join(", ")
    );
    for message in request.messages.iter() {
        text.push_str(&match message {
            Message::User { text } => format!("\n[user]\n{text}\n"),
            Message::Assistant { text, calls, .. } => {
                let calls: String =
                    calls.iter().map(|call| format!("[{} {} {}]\n", call.id, call.tool, call.args)).collect();
                format!("\n[assistant]\n{text}\n{calls}")
            }
            Message::Tool { call, failed, text } => {
                let failed = if *failed { " failed" } else { "" };
                format!("\n[result of {call}{failed}]\n{text}\n")
            }
        });
    }
    text
}
