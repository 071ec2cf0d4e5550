//! A model that plays a file: for the demo, for tests, and for rehearsing a workflow without a key.
//!
//! It owns playback. It keeps no counter and looks at no clock to choose: the turn played follows from the request
//! alone, so a run that was killed and resumed hears the same answers.

mod error;
pub(crate) mod fault;
mod format;
pub(crate) mod play;
mod record;
pub(crate) mod script;
mod suggest;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use longhaul_core::conversation::{ModelFailure, ModelReply, ModelRequest};
use tokio::time::sleep;

use crate::limits;
use crate::model::{BoxFuture, Deltas, Model};
use crate::provider::Sight;
use crate::provider::convert::{self, Terms};
use crate::tokens;
use crate::wire::Api;

pub use error::ScriptError;
use play::{Line, Pieces};
pub use record::{Part, Recording, Replied};
use script::{Cost, Script, Tools};

/// A checked script, ready to be played by any number of runs at once.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Script,
}

impl Scripted {
    /// Reads a script from a file. Anything but a regular file is refused: a run that resumes must be able to read
    /// its script again, and a pipe has nothing left to say.
    pub fn load(path: &Path, known_tools: &[&str]) -> Result<Scripted, ScriptError> {
        load(path, Tools::Known(known_tools))
    }

    /// The same for a server, which does not know the tools of those who will ask it: calls may name any.
    pub fn load_for_any_tools(path: &Path) -> Result<Scripted, ScriptError> {
        load(path, Tools::Any)
    }

    /// Reads a script from text, YAML or JSON. `name` is what errors call it.
    pub fn parse(name: &str, text: &str, known_tools: &[&str]) -> Result<Scripted, ScriptError> {
        parse(name, text, Tools::Known(known_tools))
    }

    /// The same for a server.
    pub fn parse_for_any_tools(name: &str, text: &str) -> Result<Scripted, ScriptError> {
        parse(name, text, Tools::Any)
    }

    /// What the first conversation says, turn by turn.
    #[cfg(test)]
    fn turns(&self) -> Vec<(&str, &[longhaul_core::conversation::ProposedCall])> {
        let Some(conversation) = self.script.conversations.first() else { return Vec::new() };
        let turns = std::iter::once(&conversation.first).chain(&conversation.later);
        turns.map(|turn| (turn.body.text.as_str(), turn.body.calls.as_slice())).collect()
    }

    /// The script's own name, or its file's.
    pub fn name(&self) -> &str {
        &self.script.name
    }

    pub(crate) fn script(&self) -> &Script {
        &self.script
    }
}

impl Model for Scripted {
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelReply, ModelFailure>> {
        Box::pin(async move { perform(play::line(&self.script, &request)?, deltas).await })
    }

    fn context_window(&self) -> u64 {
        self.script.context_window
    }

    /// A recording of a model without a price has none either.
    fn is_priced(&self) -> bool {
        self.script.bodies().all(|body| body.tokens.cost != Some(Cost::UNKNOWN))
    }

    /// A script has no tokenizer; what it would be asked is estimated as if it went over a wire.
    fn count<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, u64> {
        let terms = Terms {
            api: Api::Chat,
            model: "",
            offers: &[],
            max_output_tokens: None,
            manners: Default::default(),
            extra: &serde_json::Map::new(),
            sight: &Sight::new(true),
        };
        let tokens = tokens::estimate(&convert::request(request, &terms));
        Box::pin(std::future::ready(tokens))
    }
}

async fn perform(line: Line<'_>, deltas: &dyn Deltas) -> Result<ModelReply, ModelFailure> {
    match line {
        Line::Say { reply, delay_ms } => {
            for (pause_ms, piece) in Pieces::of(&reply.text, delay_ms) {
                pause(pause_ms).await;
                stream(deltas, piece);
            }
            Ok(reply)
        }
        Line::Refuse(failure) => Err(failure),
        Line::Disconnect { heard, failure } => {
            stream(deltas, heard);
            Err(failure)
        }
        Line::Stall { stall_ms, failure } => {
            pause(stall_ms).await;
            Err(failure)
        }
    }
}

async fn pause(pause_ms: u64) {
    if pause_ms > 0 {
        sleep(Duration::from_millis(pause_ms)).await;
    }
}

fn stream(deltas: &dyn Deltas, piece: &str) {
    if !piece.is_empty() {
        deltas.text(piece);
    }
}

fn load(path: &Path, tools: Tools<'_>) -> Result<Scripted, ScriptError> {
    let name = path.display().to_string();
    let bytes = read(path, &name)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| ScriptError::not_utf8(&name, &error.utf8_error(), error.as_bytes()))?;
    parse(&name, &text, tools)
}

fn parse(name: &str, text: &str, tools: Tools<'_>) -> Result<Scripted, ScriptError> {
    if text.len() > limits::SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLarge { file: name.to_owned() });
    }
    let raw = format::read(name, text)?;
    Ok(Scripted { script: script::check(name, raw, tools)? })
}

fn read(path: &Path, name: &str) -> Result<Vec<u8>, ScriptError> {
    let unreadable = |source| ScriptError::Unreadable { file: name.to_owned(), source };
    // Asked before opening, because opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(ScriptError::NotAFile { file: name.to_owned() });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // One byte more than allowed tells a file that is too large from one that just fits, even while it grows.
    file.take(limits::SCRIPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limits::SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLarge { file: name.to_owned() });
    }
    Ok(bytes)
}
