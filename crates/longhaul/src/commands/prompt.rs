//! `prompt`: exactly what the model saw.

use longhaul_core::conversation::{Message, ModelRequest};
use longhaul_core::event::Event;
use longhaul_core::ids::Attempt;
use longhaul_core::prompt;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_model::wire::ToolOffer;
use longhaul_tools::sandbox::Sandbox;
use serde_json::json;

use super::create::{self, Options};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::settings::Settings;

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
    /// Instead, the Nth question beside the conversation: what a judge, a summariser or a planner was shown
    #[arg(long, value_name = "N", conflicts_with_all = ["iteration", "turn"])]
    pub aside: Option<u32>,
    /// Also what the model is told of each tool: its description and the schema of its arguments (not of MCP servers' tools)
    #[arg(long)]
    pub tools: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let mut onlooker = harness.onlooker(&id)?;
    let turn = args.turn.or(args.iteration.map(|_| 1));
    let mut found: Option<ModelRequest> = None;
    let mut asides = 0;
    onlooker.look(&mut |run, _, _, event| {
        if let Event::AsideStarted { aside, attempt, .. } = event {
            // One that is asked again is the same question.
            asides += u32::from(*attempt == Attempt::FIRST);
            if args.aside == Some(asides) {
                found = Some(prompt::aside(run, *aside, *attempt));
            }
        }
        if args.aside.is_some() {
            return;
        }
        let Event::TurnStarted { turn: started, attempt } = event else { return };
        let is_meant = args.iteration.is_none_or(|iteration| iteration == run.iteration)
            && turn.is_none_or(|turn| turn == *started);
        if is_meant {
            found = Some(prompt::request(run, *started, *attempt));
        }
    })?;
    let request = found.ok_or_else(|| {
        let what = if args.aside.is_some() { "question beside the conversation" } else { "turn" };
        Failure::usage(format!("{id} has no such {what}"))
            .hint(format!("`longhaul logs {id}` shows what there is"))
    })?;
    let offers = args.tools.then(|| harness.offers(&request.tools));
    print(app, &request, offers.as_deref());
    Ok(Exit::Ok)
}

/// What the model would be sent first, were the run created.
pub fn show_first(app: &App, settings: &Settings, task: &str, options: &Options) -> Result<Exit, Failure> {
    let harness = app.forgetful(settings, Sandbox::off())?;
    // Carrying changes in would write to the repository, and fetching one would make a store.
    let options = Options { with_changes: false, repo: None, ..options.clone() };
    let spec = create::spec(app, &harness, settings, task, &options, harness.new_run_id()?)?;
    spec.check().map_err(anyhow::Error::from)?;
    let at = Timestamp::default();
    let created = Event::RunCreated(Box::new(spec));
    let mut run = Run::first(1, at, &created).map_err(anyhow::Error::from)?;
    run.apply(2, at, &Event::GateChecked { step: 0, required: false }).map_err(anyhow::Error::from)?;
    run.apply(3, at, &Event::StepStarted { step: 0 }).map_err(anyhow::Error::from)?;
    print(app, &prompt::request(&run, 1, Attempt::FIRST), None);
    Ok(Exit::Ok)
}

fn print(app: &App, request: &ModelRequest, offers: Option<&[ToolOffer]>) {
    if app.json() {
        let described = |offer: &ToolOffer| json!({ "name": offer.name, "description": offer.description, "schema": offer.schema });
        let mut shown = json!({
            "model": request.model,
            "iteration": request.scene.iteration,
            "turn": request.scene.turn,
            "step": request.scene.step,
            "system": request.system,
            "messages": request.messages,
            "tools": request.tools,
        });
        if let Some(offers) = offers {
            shown["toolOffers"] = offers.iter().map(described).collect();
        }
        render::json(&shown);
    } else {
        render::words(&shown(request, offers.unwrap_or_default()));
    }
}

fn shown(request: &ModelRequest, offers: &[ToolOffer]) -> String {
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
    for offer in offers {
        text.push_str(&format!(
            "\n[tool {}]\n{}\n{:#}\n",
            offer.name,
            offer.description.trim_end(),
            offer.schema
        ));
    }
    for message in request.messages.iter() {
        text.push_str(&match message {
            Message::User { text } => format!("\n[user]\n{text}\n"),
            Message::Assistant { text, calls, .. } => {
                let calls: String =
                    calls.iter().map(|call| format!("[{} {} {}]\n", call.id, call.tool, call.args)).collect();
                format!("\n[assistant]\n{text}\n{calls}")
            }
            Message::Tool { call, failed, text, images } => {
                let failed = if *failed { " failed" } else { "" };
                let images: String = images.iter().map(|image| format!("{}\n", image.reference())).collect();
                format!("\n[result of {call}{failed}]\n{text}\n{images}")
            }
        });
    }
    text
}
