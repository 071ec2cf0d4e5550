//! How full the model's window is, and what of a conversation can be left out of it.
//!
//! The count is the provider's own of the last request, plus an estimate of what was said since; nothing is counted twice and
//! no turn looks at the whole history. What is left out goes by explicit places in the list of messages, so that the fold
//! does exactly what was decided.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::conversation::{Message, Usage};
use crate::evidence::tail;
use crate::ids::CallId;
use crate::json::Json;
use crate::limits::{LEFT_OUT_BYTES_MIN, SUMMARY_BYTES_MAX, SUMMARY_LINE_BYTES_MAX, SUMMARY_LINES_MAX};
use crate::prompt::head;
use crate::run::{Call, Run};
use crate::text::Text;
use crate::tool::{Image, Outcome, TODO};

/// What a summary begins with, by which it is known again.
pub const SUMMARY_HEADING: &str = "[Summary of";

/// How full the window is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fill {
    /// Tokens a request and its reply may have, as the model in use says.
    pub window: Option<u64>,
    /// Bytes of the conversation as it stands.
    pub bytes: u64,
    /// What the provider counted last, and how long the conversation was then.
    pub counted: Option<Counted>,
    /// Tokens of a request that are not the conversation: instructions and tools.
    pub overhead: u64,
    /// Compactions in a row that did not free enough.
    pub futile: u32,
    /// How often the provider said that the conversation does not fit, since it last did.
    pub overflows: u32,
    /// Compactions over the whole run.
    pub compactions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub tokens: u64,
    pub bytes: u64,
}

impl Fill {
    /// Tokens that the next request has if `bytes` more are said before it.
    pub fn tokens_with(&self, bytes: u64) -> u64 {
        match self.counted {
            Some(counted) => counted.tokens + tokens((self.bytes + bytes).saturating_sub(counted.bytes)),
            None => self.overhead + tokens(self.bytes + bytes),
        }
    }

    /// The provider has counted a request and its reply. `sent` is how long the conversation was when it was sent.
    pub fn count(&mut self, sent: u64, usage: &Usage) {
        let input = usage.tokens().saturating_sub(usage.output_tokens);
        // What is booked for a provider that did not count errs high: it guards a budget, and would waste the window.
        if input == 0 || usage.estimated_tokens > 0 {
            self.counted = None;
            return;
        }
        if self.overhead == 0 {
            self.overhead = input.saturating_sub(tokens(sent));
        }
        self.counted = Some(Counted { tokens: usage.tokens(), bytes: self.bytes });
        self.overflows = 0;
    }

    /// The conversation is another one: what is sent beside it is counted anew as well.
    pub fn recount(&mut self, messages: &[Message]) {
        self.bytes = messages.iter().map(bytes).sum();
        self.counted = None;
        self.overhead = 0;
        self.futile = 0;
    }

    /// The conversation was made shorter, and is thought to have so many tokens now.
    pub fn shrink(&mut self, messages: &[Message], tokens: u64) {
        self.bytes = messages.iter().map(bytes).sum();
        self.counted = Some(Counted { tokens, bytes: self.bytes });
    }

    /// Tokens that the next request has once the conversation is only that long. What was estimated is taken away as it was
    /// estimated; of what the provider counted rather too little is. `newest` if it is the end that becomes shorter.
    pub fn tokens_after(&self, shorter: u64, newest: bool) -> u64 {
        let freed = self.bytes.saturating_sub(shorter);
        let estimated = match self.counted {
            Some(counted) if newest => self.bytes.saturating_sub(counted.bytes).min(freed),
            Some(_) => 0,
            None => freed,
        };
        let counted = (freed - estimated).saturating_mul(10) / 45;
        self.tokens_with(0).saturating_sub(tokens(estimated)).saturating_sub(counted)
    }
}

/// Rather too many than too few: code and JSON have some 3.2 bytes a token, prose more.
pub fn tokens(bytes: u64) -> u64 {
    bytes.saturating_mul(10).div_ceil(32)
}

/// What a message weighs in a request, with what every protocol wraps around it.
pub fn bytes(message: &Message) -> u64 {
    const WRAPPING: usize = 16;
    let said = match message {
        Message::User { text } => text.len(),
        Message::Tool { text, images, .. } => text.len() + WRAPPING + seen(images),
        // Thoughts that go back as they came weigh what they weigh; text and calls are in them.
        Message::Assistant { raw: Some(raw), .. } => raw.content.as_str().len(),
        Message::Assistant { text, calls, raw: None } => {
            text.len()
                + calls
                    .iter()
                    .map(|call| call.tool.len() + call.args.as_str().len() + WRAPPING)
                    .sum::<usize>()
        }
    };
    (said + WRAPPING) as u64
}

/// What images weigh: as many bytes as a text of so many tokens has. Their own bytes say nothing about that.
fn seen(images: &[Image]) -> usize {
    images.iter().map(|image| image.tokens() * 32 / 10).sum::<u64>() as usize
}

/// What is done to a conversation to make it shorter.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Shortening {
    /// Long results and arguments before this place are left out.
    #[n(0)]
    Outputs {
        #[n(0)]
        before: u32,
    },
    /// Everything between the first message and this place becomes one summary.
    #[n(1)]
    Summary {
        #[n(0)]
        before: u32,
        #[n(1)]
        text: String,
    },
    /// Results from this place on are cut to that many bytes each: nobody has read them yet, so something of each stays.
    #[n(2)]
    Fit {
        #[n(0)]
        from: u32,
        #[n(1)]
        bytes: u32,
    },
}

/// Where the end begins that stays word for word: at most `protect` tokens, at least the last exchange, and never between a
/// call and its result.
pub fn protected_from(messages: &[Message], protect: u64) -> usize {
    let mut kept = 0;
    let mut from = messages.len();
    for (index, message) in messages.iter().enumerate().skip(1).rev() {
        kept += tokens(bytes(message));
        if kept > protect && from < messages.len() {
            break;
        }
        if !matches!(message, Message::Tool { .. }) {
            from = index;
        }
    }
    from
}

/// The conversation after a shortening.
pub fn shortened(messages: &[Message], shortening: &Shortening, calls: &[Call]) -> Vec<Message> {
    match shortening {
        Shortening::Outputs { before } => {
            let old = |(index, message): (usize, &Message)| {
                if (1..*before as usize).contains(&index) {
                    left_out(message, calls)
                } else {
                    message.clone()
                }
            };
            messages.iter().enumerate().map(old).collect()
        }
        Shortening::Fit { from, bytes } => {
            let fit = |(index, message): (usize, &Message)| {
                if index >= (*from as usize).max(1) { cut(message, *bytes as usize) } else { message.clone() }
            };
            messages.iter().enumerate().map(fit).collect()
        }
        Shortening::Summary { before, text } => {
            let first = messages.first().cloned();
            let summary = Message::User { text: text.clone() };
            let rest = messages.iter().skip((*before as usize).max(1)).cloned();
            first.into_iter().chain([summary]).chain(rest).collect()
        }
    }
}

/// The message without what is long in it. What was left out says so, and where the whole of it is.
fn left_out(message: &Message, calls: &[Call]) -> Message {
    match message {
        Message::User { .. } => message.clone(),
        // An image weighs most, and what it was is soon said: the text stays.
        Message::Tool { call, failed, text, images } if text.len() < LEFT_OUT_BYTES_MIN => {
            let text = referred(text.clone(), images);
            Message::Tool { call: *call, failed: *failed, text, images: Vec::new() }
        }
        Message::Tool { call, failed, text, .. } => {
            let known = calls.get((call.0 as usize).wrapping_sub(1));
            let images = known.and_then(Call::outcome).map_or(&[][..], Outcome::images);
            // Never "call it again": what it did may not bear to be done twice.
            let blob = known.and_then(|call| call.outcome()?.output()?.blob.clone());
            let whole = blob.unwrap_or_else(|| call.to_string());
            let begin = head(text.lines().next().unwrap_or(""), SUMMARY_LINE_BYTES_MAX);
            let text = format!(
                "{begin}\n[{} bytes of this old result left out; read blob:{whole} if you need it]",
                text.len()
            );
            let text = referred(text.into(), images);
            Message::Tool { call: *call, failed: *failed, text, images: Vec::new() }
        }
        Message::Assistant { text, calls, .. } => {
            let is_long = |args: &Json| args.as_str().len() >= LEFT_OUT_BYTES_MIN;
            if !calls.iter().any(|call| is_long(&call.args)) {
                return message.clone();
            }
            let mut calls = calls.clone();
            for call in calls.iter_mut().filter(|call| is_long(&call.args)) {
                call.args = short_arguments(&call.args);
            }
            // Its protocol's own words have the long arguments in them; it goes back rebuilt.
            Message::Assistant { text: text.clone(), calls, raw: None }
        }
    }
}

/// A result whose images are only named.
fn referred(text: Text, images: &[Image]) -> Text {
    if images.is_empty() {
        return text;
    }
    let names: Vec<String> = images.iter().map(Image::reference).collect();
    format!("{text}\n{}", names.join("\n")).into()
}

/// The message with its result cut to start and end, and its arguments shortened.
fn cut(message: &Message, bytes: usize) -> Message {
    match message {
        Message::Tool { call, failed, text, images } if text.len() + seen(images) > bytes => {
            // What does not fit is not shown at all: half an image is none.
            let (images, unseen) =
                if seen(images) > bytes / 2 { (&[][..], &images[..]) } else { (&images[..], &[][..]) };
            let text = referred(cut_text(*call, text, bytes.saturating_sub(seen(images))), unseen);
            Message::Tool { call: *call, failed: *failed, text, images: images.to_vec() }
        }
        Message::Assistant { .. } => left_out(message, &[]),
        Message::Tool { .. } | Message::User { .. } => message.clone(),
    }
}

fn cut_text(call: CallId, text: &Text, bytes: usize) -> Text {
    if text.len() <= bytes {
        return text.clone();
    }
    let (start, end) = (head(text, bytes / 2), tail(text, bytes / 2));
    let note =
        format!("[cut to fit the window: {} bytes in all; read blob:{call} in smaller parts]", text.len());
    format!("{start}\n{note}\n{end}").into()
}

/// The same arguments with long texts cut: the names stay, so that the call still reads as what it was.
fn short_arguments(args: &Json) -> Json {
    let mut value = args.value();
    let Some(fields) = value.as_object_mut() else { return Json::empty_object() };
    for field in fields.values_mut() {
        let long = match field.as_str() {
            Some(text) => text.len(),
            None => field.to_string().len(),
        };
        if long > SUMMARY_LINE_BYTES_MAX {
            let begin = field.as_str().map_or(String::new(), |text| head(text, 80).to_owned());
            *field = format!("{begin}… [{long} bytes left out]").into();
        }
    }
    Json::of(&value)
}

/// A summary that needs no model: what was called how often, what failed and why, and what was said.
pub fn mechanical_summary(messages: &[Message], calls: &[Call]) -> String {
    let mut tools: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let (mut said, mut errors) = (Vec::new(), Vec::new());
    let mut earlier: Option<&String> = None;
    for message in messages.iter().skip(1) {
        match message {
            // What was summed up before stays summed up.
            Message::User { text } if text.starts_with(SUMMARY_HEADING) => earlier = Some(text),
            Message::User { .. } => {}
            Message::Assistant { text, .. } => {
                let line = text.lines().find(|line| !line.trim().is_empty());
                said.extend(line.map(|line| format!("- {}", head(line, SUMMARY_LINE_BYTES_MAX))));
            }
            Message::Tool { call, failed, text, .. } => {
                let tool =
                    calls.get((call.0 as usize).wrapping_sub(1)).map_or("?", |call| call.tool.as_str());
                let count = tools.entry(tool).or_default();
                count.0 += 1;
                count.1 += u32::from(*failed);
                if *failed {
                    let line = text.lines().next().unwrap_or("");
                    errors.push(format!("- {tool}: {}", head(line, SUMMARY_LINE_BYTES_MAX)));
                }
            }
        }
    }
    let counts: Vec<String> =
        tools.iter().map(|(tool, (count, failed))| format!("{tool} {count}× ({failed} failed)")).collect();
    let last = |lines: Vec<String>| lines[lines.len().saturating_sub(SUMMARY_LINES_MAX)..].join("\n");
    let earlier = earlier.map_or(String::new(), |text| format!("{}\n\n", head(text, SUMMARY_BYTES_MAX / 2)));
    format!(
        "{earlier}Tools called: {}.\n\nWhat you said, latest last:\n{}\n\nWhat failed, latest last:\n{}",
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") },
        last(said),
        last(errors),
    )
}

/// What replaces the middle of a conversation: the summary, and what is known without any model.
pub fn summary_text(run: &Run, summary: &str, left_out: usize) -> String {
    let mut text = format!(
        "{SUMMARY_HEADING} {left_out} earlier messages, which are no longer shown. Go on from here; do not start over.]\n\n{}",
        summary.trim()
    );
    if !run.changed_files.is_empty() {
        text.push_str(&format!("\n\nFiles you have changed: {}.", changed_list(run)));
    }
    if let Some(todo) = todo(&run.calls) {
        text.push_str(&format!("\n\nYour list of things to do:\n{todo}"));
    }
    text
}

/// The files that calls changed last.
pub fn changed_list(run: &Run) -> String {
    let latest = run.changed_files.len().saturating_sub(SUMMARY_LINES_MAX);
    run.changed_files[latest..].join(", ")
}

/// The agent's list of what is to be done, as it last wrote it down.
pub fn todo(calls: &[Call]) -> Option<&str> {
    let written = calls.iter().rev().filter(|call| call.tool == TODO);
    written
        .filter_map(Call::outcome)
        .find(|outcome| outcome.is_done())?
        .output()
        .map(|output| output.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::{Counted, Fill, Usage};

    /// What was booked for a provider that does not count errs high, and is not taken for its count.
    #[test]
    fn an_estimate_is_no_count() {
        let counted = Usage { input_tokens: 900, output_tokens: 10, ..Usage::default() };
        let estimated = Usage { estimated_tokens: 910, ..counted };
        let after = |usage: &Usage| {
            let mut fill = Fill { bytes: 320, ..Fill::default() };
            fill.count(320, usage);
            (fill.counted, fill.tokens_with(0))
        };
        assert_eq!(after(&counted), (Some(Counted { tokens: 910, bytes: 320 }), 910));
        assert_eq!(after(&estimated), (None, 100));
    }
}
