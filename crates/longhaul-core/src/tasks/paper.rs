//! A task list as it is written: JSON that belongs to somebody else.
//!
//! Owns reading it, with every complaint naming its field, and changing single fields in place. Refuses to write a list anew:
//! fields nobody here knows, their order and the spaces between them stay as they are.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{Task, TaskList, TaskStatus};
use crate::limits::{TASK_LIST_BYTES_MAX, TASKS_MAX};
use crate::suggest::closest;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    #[error("{bytes} bytes are more than {TASK_LIST_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("not JSON: {0}")]
    Json(String),
    #[error("a task list is an object, {{\"tasks\": [...]}}")]
    NoObject,
    /// The field at fault, as `tasks[2].dependencies[0]`.
    #[error("{path}: {why}")]
    Field { path: String, why: String },
}

fn field(path: impl Into<String>, why: impl Into<String>) -> BadList {
    BadList::Field { path: path.into(), why: why.into() }
}

/// Reads a list and checks it.
pub fn read(text: &str) -> Result<TaskList, BadList> {
    let tasks = objects(text)?.into_iter().enumerate().map(|(index, fields)| task(index, &fields));
    let list = TaskList { tasks: tasks.collect::<Result<_, _>>()? };
    check(&list)?;
    Ok(list)
}

/// The same text with fields of one task changed; a field that is not there yet is added at its end. `Null` is only written over
/// what is there.
pub fn with(text: &str, id: &str, changes: &[(&str, Value)]) -> Result<String, BadList> {
    let objects = objects(text)?;
    let is_meant =
        |fields: &&Fields<'_>| fields.get("id").is_some_and(|raw| raw_text(raw).as_deref() == Some(id));
    let Some(fields) = objects.iter().find(is_meant) else {
        return Err(field("tasks", format!("there is no task {id} any more")));
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    for (name, value) in changes {
        match fields.get(name) {
            Some(raw) => edits.push((span(text, raw), value.to_string())),
            None if value.is_null() => {}
            None => added.push_str(&format!(",{}{}: {value}", gap(text, fields), Value::from(*name))),
        }
    }
    if let Some((_, last)) = fields.0.last() {
        let end = span(text, last).end;
        edits.push((end..end, added));
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut text = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        text.replace_range(range, &new);
    }
    Ok(text)
}

/// Where a value stands in the text it was borrowed from.
fn span(text: &str, raw: &RawValue) -> Range<usize> {
    let start = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + raw.get().len()
}

/// What stands between two fields of this task: a new line as deep as the others, or a blank.
fn gap(text: &str, fields: &Fields<'_>) -> String {
    let Some((_, first)) = fields.0.first() else { return String::new() };
    let before = &text[..span(text, first).start];
    // The brace before the first field's name; a name is a string, and may hold one itself.
    let open =
        before.rfind('"').and_then(|end| before[..end].rfind('"')).map_or(before, |quote| &before[..quote]);
    let white = &open[open.trim_end().len()..];
    if white.contains('\n') { white.to_owned() } else { " ".to_owned() }
}

/// An object's fields in the order they were written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, raw)| *raw)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'a>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((Cow::Owned(name), raw));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder).map(Fields)
    }
}

/// The tasks as they are written.
fn objects(text: &str) -> Result<Vec<Fields<'_>>, BadList> {
    if text.len() > TASK_LIST_BYTES_MAX {
        return Err(BadList::TooLarge { bytes: text.len() });
    }
    let all: Fields<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => BadList::NoObject,
        Category::Io | Category::Syntax | Category::Eof => BadList::Json(error.to_string()),
    })?;
    let tasks =
        all.get("tasks").ok_or_else(|| field("tasks", "is missing; a task list is {\"tasks\": [...]}"))?;
    let tasks: Vec<&RawValue> =
        serde_json::from_str(tasks.get()).map_err(|_| field("tasks", "must be a list"))?;
    if tasks.len() > TASKS_MAX {
        return Err(field("tasks", format!("{} are more than {TASKS_MAX}", tasks.len())));
    }
    tasks.into_iter().enumerate().map(|(index, raw)| object(index, raw)).collect()
}

fn object(index: usize, raw: &RawValue) -> Result<Fields<'_>, BadList> {
    let path = format!("tasks[{index}]");
    let fields: Fields<'_> =
        serde_json::from_str(raw.get()).map_err(|_| field(&path, "must be an object"))?;
    let mut seen = HashSet::new();
    match fields.0.iter().find(|(name, _)| !seen.insert(name.as_ref())) {
        Some((name, _)) => Err(field(format!("{path}.{name}"), "is there twice")),
        None => Ok(fields),
    }
}

fn raw_text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn task(index: usize, fields: &Fields<'_>) -> Result<Task, BadList> {
    let read = Reading { index, fields };
    let status: Option<String> = read.value("status", "a status")?;
    let id: Option<String> = read.value("id", "a text")?;
    let id = id.filter(|id| !id.trim().is_empty());
    Ok(Task {
        id: id.ok_or_else(|| field(read.path("id"), "is missing; every task has an id"))?,
        title: read.value("title", "a text")?.unwrap_or_default(),
        description: read.value("description", "a text")?.unwrap_or_default(),
        agent: read.value("agent", "the name of an agent")?,
        status: status.map(|word| status_of(&read.path("status"), &word)).transpose()?.unwrap_or_default(),
        dependencies: read.value("dependencies", "a list of ids")?.unwrap_or_default(),
        phase: read.value("phase", "a whole number")?.unwrap_or_default(),
        attempts: read.value("attempts", "a whole number from 0 on")?.unwrap_or_default(),
        output: read.value("output", "a path")?,
        error: read.value("error", "a text")?,
        context: read.context()?,
        todos: read.todos()?,
        long_running: read.value("longRunning", "true or false")?.unwrap_or(false),
        estimated_minutes: read.minutes()?,
        run_id: read.value("runId", "the id of a run")?,
    })
}

fn status_of(path: &str, word: &str) -> Result<TaskStatus, BadList> {
    let names = TaskStatus::ALL.map(TaskStatus::as_str);
    TaskStatus::ALL.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
        let meant =
            closest(word, &names).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        let word: String = word.chars().take(40).collect();
        field(path, format!("`{word}` is not a status{meant}; there are {}", names.join(", ")))
    })
}

struct Reading<'a> {
    index: usize,
    fields: &'a Fields<'a>,
}

impl Reading<'_> {
    fn path(&self, name: &str) -> String {
        format!("tasks[{}].{name}", self.index)
    }

    /// A field's value; nothing if it is absent or null.
    fn value<T: DeserializeOwned>(&self, name: &str, wanted: &str) -> Result<Option<T>, BadList> {
        let Some(raw) = self.fields.get(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|_| {
            let shown: String = raw.get().chars().take(40).collect();
            field(self.path(name), format!("must be {wanted}, not {shown}"))
        })
    }

    /// An estimate that is no length of time helps nobody to decide.
    fn minutes(&self) -> Result<Option<f64>, BadList> {
        let minutes: Option<f64> = self.value("estimatedMinutes", "a number of minutes")?;
        match minutes {
            Some(minutes) if !(minutes.is_finite() && minutes >= 0.0) => {
                Err(field(self.path("estimatedMinutes"), format!("{minutes} is not a number of minutes")))
            }
            minutes => Ok(minutes),
        }
    }

    /// Text as it is, anything else as JSON.
    fn context(&self) -> Result<Option<String>, BadList> {
        let value: Option<Value> = self.value("context", "a value")?;
        Ok(value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    }

    /// Texts, or objects that have one called title, description, text or content.
    fn todos(&self) -> Result<Vec<String>, BadList> {
        let entries: Option<Vec<Value>> = self.value("todos", "a list")?;
        let text = |entry: &Value| {
            let names = ["title", "description", "text", "content"];
            let named = names.iter().find_map(|name| entry.get(name).and_then(Value::as_str));
            entry.as_str().or(named).map_or_else(|| entry.to_string(), str::to_owned)
        };
        Ok(entries.unwrap_or_default().iter().map(text).collect())
    }
}

/// What holds between tasks.
fn check(list: &TaskList) -> Result<(), BadList> {
    let mut at: HashMap<&str, usize> = HashMap::new();
    for (index, task) in list.tasks.iter().enumerate() {
        if let Some(other) = at.insert(&task.id, index) {
            return Err(field(
                format!("tasks[{index}].id"),
                format!("`{}` is that of tasks[{other}] too", task.id),
            ));
        }
    }
    for (index, task) in list.tasks.iter().enumerate() {
        for (place, id) in task.dependencies.iter().enumerate() {
            let path = format!("tasks[{index}].dependencies[{place}]");
            if *id == task.id {
                return Err(field(path, format!("`{id}` depends on itself")));
            }
            if !at.contains_key(id.as_str()) {
                let ids: Vec<&str> = list.tasks.iter().map(|task| task.id.as_str()).collect();
                let meant = closest(id, &ids).map(|id| format!("; did you mean `{id}`?")).unwrap_or_default();
                return Err(field(path, format!("there is no task `{id}`{meant}")));
            }
        }
    }
    match circle(list, &at) {
        Some(ids) => {
            Err(field("tasks", format!("these depend on each other in a circle: {}", ids.join(" → "))))
        }
        None => Ok(()),
    }
}

/// Ids that lead back to the first of them, if there are such.
fn circle<'a>(list: &'a TaskList, at: &HashMap<&str, usize>) -> Option<Vec<&'a str>> {
    let mut waiting: Vec<usize> = list.tasks.iter().map(|task| task.dependencies.len()).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); list.tasks.len()];
    for (index, task) in list.tasks.iter().enumerate() {
        for id in &task.dependencies {
            dependents[at[id.as_str()]].push(index);
        }
    }
    let mut free: Vec<usize> = (0..waiting.len()).filter(|index| waiting[*index] == 0).collect();
    while let Some(index) = free.pop() {
        for dependent in &dependents[index] {
            waiting[*dependent] -= 1;
            if waiting[*dependent] == 0 {
                free.push(*dependent);
            }
        }
    }
    // Whoever still waits depends on somebody who does: following that comes back to where it was.
    let mut index = waiting.iter().position(|count| *count > 0)?;
    let mut path: Vec<usize> = Vec::new();
    while !path.contains(&index) {
        path.push(index);
        let still = |id: &&String| waiting[at[id.as_str()]] > 0;
        index = at[list.tasks[index].dependencies.iter().find(still)?.as_str()];
    }
    let start = path.iter().position(|seen| *seen == index)?;
    let ids = path[start..].iter().chain([&index]).map(|index| list.tasks[*index].id.as_str());
    Some(ids.collect())
}
