//! `todo`: the model's own list of what is to be done.
//!
//! Owns how it is drawn. The list is the call's arguments, whole each time, and its result: so it is in the journal and in
//! the conversation, and nowhere else. Refuses to keep anything between calls.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The whole list, in order; it takes the place of the one before.
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// What is to be done, in one line.
    text: String,
    /// `pending`, `active` or `done`.
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Pending,
    #[serde(alias = "in_progress")]
    Active,
    #[serde(alias = "completed")]
    Done,
}

pub struct Todo(ToolSpec);

impl Todo {
    pub fn new() -> Todo {
        Todo(ToolSpec {
            name: "todo".to_owned(),
            description: "Writes down the list of what is to be done, whole each time, and shows it. Use it for work of \
                          several steps: have one item active, and mark each done as soon as it is."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        })
    }

    fn draw(&self, args: &Json) -> Result<Outcome, Outcome> {
        let Args { items } = parse(args, &self.0.schema)?;
        if items.len() > limits::TODO_ITEMS_MAX {
            return Err(invalid(format!(
                "`items` has {} entries; at most {}",
                items.len(),
                limits::TODO_ITEMS_MAX
            )));
        }
        if items.iter().any(|item| item.text.trim().is_empty()) {
            return Err(invalid("an item has no `text`"));
        }
        if items.is_empty() {
            return Ok(Outcome::done("the list is empty\n"));
        }
        let done = items.iter().filter(|item| item.status == Status::Done).count();
        let lines = items.iter().map(Item::drawn).collect::<String>();
        Ok(Outcome::done(format!("{lines}[{done} of {} done]\n", items.len())))
    }
}

impl Item {
    fn drawn(&self) -> String {
        let mark = match self.status {
            Status::Pending => "[ ]",
            Status::Active => "[>]",
            Status::Done => "[x]",
        };
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let line: String = words.join(" ").chars().take(limits::TODO_TEXT_LETTERS_MAX).collect();
        format!("{mark} {line}\n")
    }
}

impl Default for Todo {
    fn default() -> Todo {
        Todo::new()
    }
}

impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        _context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.draw(args).unwrap_or_else(|outcome| outcome) })
    }
}
