//! What a night's agents are asked: for ideas, and for one experiment each; and how the list of ideas is read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Night, Order};
use crate::limits::{IDEA_BYTES_MAX, IDEA_TITLE_LETTERS_MAX};
use crate::prompt::head;

/// One experiment, as it was thought of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idea {
    pub title: String,
    #[serde(default)]
    pub kind: Kind,
    pub description: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What was learned elsewhere in this repository, used where it is not yet.
    WisdomPattern,
    AlternativeImpl,
    DependencyUpgrade,
    RefactorSuggestion,
    TestGapFill,
    #[default]
    Other,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::WisdomPattern,
        Kind::AlternativeImpl,
        Kind::DependencyUpgrade,
        Kind::RefactorSuggestion,
        Kind::TestGapFill,
        Kind::Other,
    ];
}

/// Who thinks of experiments, whatever it is called otherwise.
pub const PROMPT: &str = "\
You think of experiments that would make a repository better, each to be tried by somebody else overnight, alone, in a copy of its own. \
You change nothing.

Look before you think: what the project is for, how it is built and tested, where it is slow, unclear, untested or out of date. An idea \
that could have been had without looking is worthless.

Each experiment stands alone: none needs another to be done first, and each can be taken or left by itself in the morning. It is small \
enough for one sitting, and it can be seen from the outside whether it succeeded. Choose different kinds of experiments rather than \
variants of one. The most promising comes first.

Answer with one JSON object and nothing else:

    {\"experiments\": [{\"title\": \"a few words\", \"kind\": \"test-gap-fill\", \"description\": \"what to do, in which files, \
why it is better, and how one sees that it worked\"}]}

Kinds are wisdom-pattern (something done well in one place of this repository, brought to another), alternative-impl, \
dependency-upgrade, refactor-suggestion, test-gap-fill and other. The description is all that the one who tries it is told.";

/// The form of the answer, for providers that can promise it.
pub fn schema(experiments: u32) -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["experiments"],
        "properties": { "experiments": {
            "type": "array", "minItems": 1, "maxItems": experiments,
            "items": {
                "type": "object", "additionalProperties": false, "required": ["title", "kind", "description"],
                "properties": {
                    "title": { "type": "string" }, "kind": { "enum": Kind::ALL }, "description": { "type": "string" },
                },
            },
        } },
    })
}

/// What is asked of whoever thinks of experiments; the second time with what was wrong with the first answer.
pub fn asked(night: &Night) -> String {
    let Order { objective, experiments, .. } = &night.order;
    let mut text = format!("{objective}\n\nThink of {experiments} experiments that may lead there.");
    text.push_str(&measured_by(&night.order));
    if let Some(misfit) = night.misfits.last() {
        text.push_str(&format!(
            "\n\nAn earlier answer could not be used: {misfit}. Answer with the JSON object and nothing around it."
        ));
    }
    text
}

/// What whoever tries an experiment is told.
pub fn task(night: &Night, idea: &Idea) -> String {
    let Idea { title, description, .. } = idea;
    let objective = &night.order.objective;
    let mut text = format!(
        "{title}\n\n{description}\n\nThis is one of several experiments towards: {objective}\n\nDo this one and nothing else. Leave the \
         files as they are to be taken over, and say at the end what you changed and why it is better; if it turns out that it is not, \
         say so."
    );
    text.push_str(&measured_by(&night.order));
    if let Some(number) = night.base.as_ref().and_then(|base| base.metric.as_ref()) {
        text.push_str(&format!(" Before any change it printed {number}."));
    }
    text
}

fn measured_by(order: &Order) -> String {
    let mut text = String::new();
    if !order.verify.is_empty() {
        text.push_str("\n\nAfterwards these commands must succeed:\n");
        order.verify.iter().for_each(|command| text.push_str(&format!("\n    {command}")));
    }
    if let Some(metric) = &order.metric {
        let better = if order.minimize { "less" } else { "more" };
        text.push_str(&format!(
            "\n\nThis command prints a number, of which {better} is better:\n\n    {metric}\n"
        ));
    }
    text
}

/// The ideas in an answer, at most as many as were asked for; the error says what is wrong with it.
pub fn read(answer: &str, order: &Order) -> Result<Vec<Idea>, String> {
    #[derive(Deserialize)]
    struct Answer {
        experiments: Vec<Idea>,
    }
    // Some models cannot help putting words or a fence around it.
    let object = answer.find('{').zip(answer.rfind('}')).and_then(|(first, last)| answer.get(first..=last));
    let object = object.ok_or("there is no JSON object in it")?;
    let Answer { mut experiments } = serde_json::from_str(object).map_err(|error| error.to_string())?;
    if experiments.is_empty() {
        return Err("experiments: is empty".to_owned());
    }
    experiments.truncate(order.experiments as usize);
    for index in 0..experiments.len() {
        let (before, rest) = experiments.split_at_mut(index);
        let idea = &mut rest[0];
        idea.title = one_line(&idea.title);
        let Idea { title, description, .. } = &*idea;
        let trouble = match () {
            () if title.is_empty() => "title: is empty".to_owned(),
            () if title.chars().count() > IDEA_TITLE_LETTERS_MAX => {
                format!("title: is longer than {IDEA_TITLE_LETTERS_MAX} letters")
            }
            () if description.trim().is_empty() => "description: is empty".to_owned(),
            () if description.len() > IDEA_BYTES_MAX => {
                format!("description: is longer than {IDEA_BYTES_MAX} bytes")
            }
            () if before.iter().any(|other| other.title == *title) => {
                format!("title: there is another experiment `{}`", head(title, IDEA_TITLE_LETTERS_MAX))
            }
            () => continue,
        };
        return Err(format!("experiments[{index}].{trouble}"));
    }
    Ok(experiments)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
