//! `list`: shows what is in a directory, or in a tree of them.
//!
//! Owns the picture: one entry for each line, directories with a slash, files with their size, links with what they say.
//! Hidden and ignored entries are named, since a directory is asked for as it is, but not entered. Refuses to follow links.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use longhaul_workspace::{Directory, Entry, EntryKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::output;
use crate::patience::Patience;
use crate::rules::Rules;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};
use crate::walk::{Missed, shown};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The directory, relative to the workspace. Default: the workspace itself.
    path: Option<String>,
    /// How many levels to show, at most 20. Default: 1, the directory alone.
    depth: Option<u64>,
    /// How many entries to show, at most 10000. Default: 500.
    limit: Option<usize>,
}

pub struct List(ToolSpec);

impl List {
    pub fn new() -> List {
        List(ToolSpec {
            name: "list".to_owned(),
            description:
                "Shows what is in a directory, with sizes in bytes; with depth, as a tree. Directories that \
                          begin with a dot or are named in .gitignore are shown but not entered."
                    .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        })
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let depth = args.depth.unwrap_or(1);
        if !(1..=limits::LIST_DEPTH_MAX).contains(&depth) {
            return Err(invalid(format!("`depth` must be from 1 to {}", limits::LIST_DEPTH_MAX)));
        }
        let room = args.limit.unwrap_or(limits::LIST_ENTRIES_DEFAULT);
        if !(1..=limits::RESULTS_MAX).contains(&room) {
            return Err(invalid(format!("`limit` must be from 1 to {}", limits::RESULTS_MAX)));
        }
        let (caller, path) = (context.clone(), args.path.unwrap_or_else(|| ".".to_owned()));
        let (text, note) = blocking(move || show(&caller, &path, depth, room)).await??;
        Ok(Outcome::Done { output: output::bounded_text(context, &text, &note).await })
    }
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

/// What is in one directory, for whoever asked for a file there.
pub(crate) fn one_level(context: &Context, path: &str) -> Result<(String, String), Outcome> {
    show(context, path, 1, limits::LIST_ENTRIES_DEFAULT)
}

fn show(context: &Context, path: &str, depth: u64, room: usize) -> Result<(String, String), Outcome> {
    let directory = context.workspace.open_directory(path).map_err(|error| refused(&error))?;
    let rules = Rules::above(&context.workspace, directory.path()).unwrap_or_else(|_| Rules::none());
    let mut picture = Picture {
        patience: Patience::new(context),
        text: String::new(),
        room,
        shown: 0,
        total: 0,
        missed: Missed::default(),
    };
    picture.draw(&directory, &rules, depth)?;
    Ok(picture.finish())
}

struct Picture<'a> {
    patience: Patience<'a>,
    text: String,
    room: usize,
    shown: usize,
    total: usize,
    missed: Missed,
}

impl Picture<'_> {
    /// Depth first, without recursion: the stack holds what is still to be drawn, in order.
    fn draw(&mut self, top: &Directory, rules: &Arc<Rules>, depth: u64) -> Result<(), Outcome> {
        let mut pending = self.below(top, rules, 1);
        while let Some(item) = pending.pop() {
            self.patience.check()?;
            self.total += 1;
            if self.total > limits::WALK_FILES_MAX {
                break;
            }
            if self.shown < self.room {
                self.shown += 1;
                self.text.push_str(&item.line);
            }
            let Some((path, rules)) = item.enter.filter(|_| item.level < depth) else { continue };
            match top.enter_deep(&path) {
                Ok(directory) => pending.append(&mut self.below(&directory, &rules, item.level + 1)),
                Err(error) => self.missed.add(&path, &error),
            }
        }
        Ok(())
    }

    /// What is in a directory, the last first.
    fn below(&mut self, directory: &Directory, rules: &Arc<Rules>, level: u64) -> Vec<Item> {
        let listed = directory.entries().and_then(|entries| {
            let rules = rules.within(directory, &entries)?;
            Ok((entries, rules))
        });
        let (mut entries, rules) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.missed.add(directory.path(), &error);
                return Vec::new();
            }
        };
        entries.sort_by(|left, right| right.name.cmp(&left.name));
        entries.iter().map(|entry| Item::new(directory, entry, &rules, level)).collect()
    }

    fn finish(self) -> (String, String) {
        let text = if self.total == 0 { "(the directory is empty)\n".to_owned() } else { self.text };
        let rest = self.total - self.shown;
        let more = if rest > 0 {
            format!("[{rest} more entries; raise limit or list a part]\n")
        } else {
            String::new()
        };
        (text, more + &self.missed.note())
    }
}

/// One entry as it will be shown, and where to go on below it.
struct Item {
    line: String,
    level: u64,
    enter: Option<(PathBuf, Arc<Rules>)>,
}

impl Item {
    fn new(directory: &Directory, entry: &Entry, rules: &Arc<Rules>, level: u64) -> Item {
        let path = directory.path().join(&entry.name);
        let indent = "  ".repeat(usize::try_from(level - 1).unwrap_or(0));
        let name = shown(Path::new(&entry.name));
        let is_directory = entry.kind == EntryKind::Directory;
        let ignored = rules.pass_over(&path, is_directory);
        let what = match entry.kind {
            EntryKind::Directory => "/".to_owned(),
            EntryKind::File => format!("  {}", directory.facts(&entry.name).map_or(0, |facts| facts.bytes)),
            EntryKind::Link => {
                let target = directory.link_target(&entry.name).ok().flatten().unwrap_or_default();
                format!(" -> {}", shown(&target))
            }
            EntryKind::Special => "  (a FIFO, a socket or a device)".to_owned(),
        };
        let mark = if ignored { "  (ignored)" } else { "" };
        let closed = !is_directory || ignored || entry.name.as_encoded_bytes().starts_with(b".");
        let enter = (!closed).then(|| (path, Arc::clone(rules)));
        Item { line: format!("{indent}{name}{what}{mark}\n"), level, enter }
    }
}
