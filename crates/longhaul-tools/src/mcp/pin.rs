//! What was accepted of a server, and what has changed since.
//!
//! Owns the file in the state directory that holds a server's program by its hash and each of its tools with what a model
//! is told about it. It is also how tools are known before their server is started. Refuses to judge a change: whoever
//! starts the server refuses it, and a person accepts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use longhaul_core::tool::EffectClass;
use longhaul_workspace::digest_of;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits;
use super::log::make_dir;

/// Version of the file. A file of another version is not read, so the server has to be accepted again.
const SCHEMA: u32 = 1;

/// A server as it was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    schema: u32,
    pub identity: Identity,
    pub tools: Vec<Offered>,
}

/// What is started, or where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The command line, or the address.
    pub way: String,
    /// The files that are executed, by path, with the hash of their bytes.
    #[serde(default)]
    pub programs: BTreeMap<String, String>,
    /// The variables it is given, by name, with the digest of what the settings say: that may be a key, or change what a program
    /// runs. What a `${NAME}` in it stands for is not pinned: tokens are renewed.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// One tool as its server offers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The name a model uses, `server__tool`.
    pub name: String,
    /// The server's own name for it.
    pub tool: String,
    /// Shown to the model: bounded, with nothing invisible in it.
    pub description: String,
    /// JSON schema of the arguments.
    pub input: Value,
    pub class: EffectClass,
    /// What the server says about it: `read-only`, `idempotent`, `destructive`.
    pub hints: Vec<String>,
    /// Of the whole description, also of what is not shown.
    pub description_digest: String,
    pub input_digest: String,
}

/// How a server differs from what was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// In words: what no longer is as it was accepted. With any of these the server is refused.
    pub changed: Vec<String>,
    /// Tools that came later; they are not offered until the server is accepted again.
    pub added: Vec<String>,
    /// Tools that are gone. Nothing was slipped in, so this alone refuses nothing.
    pub gone: Vec<String>,
}

impl Pin {
    pub fn new(identity: Identity, tools: Vec<Offered>) -> Pin {
        Pin { schema: SCHEMA, identity, tools }
    }

    pub fn difference(&self, tools: &[Offered]) -> Difference {
        let mut difference = Difference::default();
        for now in tools {
            match self.tools.iter().find(|then| then.tool == now.tool) {
                Some(then) => difference.changed.extend(then.changes(now)),
                None => difference.added.push(now.tool.clone()),
            }
        }
        let gone = self.tools.iter().filter(|then| tools.iter().all(|now| now.tool != then.tool));
        difference.gone = gone.map(|then| then.tool.clone()).collect();
        difference
    }
}

impl Identity {
    /// What is different about what would be started now.
    pub fn changes(&self, now: &Identity) -> Vec<String> {
        if self.way != now.way {
            return vec![format!("it was `{}` and is `{}`", self.way, now.way)];
        }
        let differs = |path: &&String| self.programs.get(*path) != now.programs.get(*path);
        let programs = now.programs.keys().filter(differs).map(|path| format!("the program {path}"));
        let named: BTreeSet<&String> = self.variables.keys().chain(now.variables.keys()).collect();
        let variables =
            named.into_iter().filter(|name| self.variables.get(*name) != now.variables.get(*name));
        programs.chain(variables.map(|name| format!("the variable {}", super::names::line(name)))).collect()
    }
}

impl Offered {
    pub fn is_same(&self, now: &Offered) -> bool {
        self.changes(now).is_empty()
    }

    fn changes(&self, now: &Offered) -> Vec<String> {
        let parts = [
            ("description", self.description_digest != now.description_digest),
            ("schema", self.input_digest != now.input_digest),
            ("hints", self.hints != now.hints || self.class != now.class),
        ];
        let changed = parts.into_iter().filter(|(_, changed)| *changed);
        changed.map(|(part, _)| format!("the {part} of `{}`", super::names::line(&self.tool))).collect()
    }
}

/// The digest of a JSON value that does not depend on the order of its fields.
pub(super) fn digest_of_json(value: &Value) -> String {
    let mut text = String::new();
    write_sorted(value, &mut text);
    digest_of(text.as_bytes())
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (name, value) in sorted {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write_sorted(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string())
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PinError {
    #[error("what was accepted of it cannot be read from {path}: {why}")]
    Read { path: String, why: String },
    #[error("what was accepted of it cannot be written to {path}")]
    Write { path: String, source: io::Error },
}

/// The pins of all servers: in a directory, or only in this process, where nothing may be written or not yet.
pub(super) struct Pins {
    dir: Option<PathBuf>,
    held: Mutex<BTreeMap<String, Pin>>,
    /// What was found to have changed, where there is no directory to note it in.
    changed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Pins {
    pub(super) fn new(dir: Option<PathBuf>) -> Pins {
        Pins { dir, held: Mutex::default(), changed: Mutex::default() }
    }

    /// Notes what a look at the server found to differ from what was accepted; nothing, if all is as it was. That is advice, so
    /// that its tools are not offered in vain: whoever starts the server looks for himself.
    pub(super) fn note_changed(&self, server: &str, changed: &[String]) {
        let Some(path) = self.changed_path(server) else {
            let mut noted = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            noted.insert(server.to_owned(), changed.to_vec());
            return;
        };
        drop(match changed {
            [] => fs::remove_file(&path),
            changed => write_whole(&path, &serde_json::to_vec(changed).unwrap_or_default()),
        });
    }

    /// What was noted so. A note that cannot be read says nothing.
    pub(super) fn noted_changed(&self, server: &str) -> Vec<String> {
        let Some(path) = self.changed_path(server) else {
            let noted = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            return noted.get(server).cloned().unwrap_or_default();
        };
        let Ok(file) = fs::File::open(path) else { return Vec::new() };
        serde_json::from_reader(file.take(limits::PIN_BYTES_MAX)).unwrap_or_default()
    }

    fn changed_path(&self, server: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(format!("{server}.changed")))
    }

    pub(super) fn get(&self, server: &str) -> Result<Option<Pin>, PinError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        let path = match (held, self.path(server)) {
            (None, Some(path)) => path,
            (held, _) => return Ok(held),
        };
        let failed = |why: String| PinError::Read { path: path.display().to_string(), why };
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let mut text = String::new();
        let mut bounded = file.take(limits::PIN_BYTES_MAX);
        bounded.read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
        let pin: Pin = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if pin.schema != SCHEMA {
            return Err(failed(format!("it has version {}, this longhaul writes {SCHEMA}", pin.schema)));
        }
        Ok(Some(pin))
    }

    /// Accepts in this process only.
    pub(super) fn hold(&self, server: &str, pin: Pin) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), pin);
    }

    /// What is held and can be written now; nothing where there is no place for it.
    pub(super) fn take_held(&self) -> BTreeMap<String, Pin> {
        if self.dir.is_none() {
            return BTreeMap::new();
        }
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaced whole or not at all, so that a reader never sees half of it.
    pub(super) fn put(&self, server: &str, pin: &Pin) -> Result<(), PinError> {
        let Some(path) = self.path(server) else {
            self.hold(server, pin.clone());
            return Ok(());
        };
        let text = serde_json::to_vec_pretty(pin).unwrap_or_default();
        write_whole(&path, &text)
            .map_err(|source| PinError::Write { path: path.display().to_string(), source })
    }

    fn path(&self, server: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(format!("{server}.json")))
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_dir(path.parent().unwrap_or(Path::new(".")))?;
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut open = fs::OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes).and_then(|()| file.sync_all())?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn offered(tool: &str, description: &str, input: Value) -> Offered {
        Offered {
            name: format!("s__{tool}"),
            tool: tool.to_owned(),
            description: description.to_owned(),
            class: EffectClass::Once,
            hints: Vec::new(),
            description_digest: digest_of(description.as_bytes()),
            input_digest: digest_of_json(&input),
            input,
        }
    }

    fn identity(way: &str, hash: &str) -> Identity {
        let programs = [("/bin/s".to_owned(), hash.to_owned())].into();
        Identity { way: way.into(), programs, variables: BTreeMap::new() }
    }

    /// A59: whatever changed after it was accepted is named.
    #[test]
    fn each_change_is_named() {
        let pin = Pin::new(
            identity("s a", "1"),
            vec![offered("one", "adds", json!({ "a": 1, "b": 2 })), offered("two", "", json!({}))],
        );
        assert_eq!(pin.identity.changes(&identity("s a", "1")), Vec::<String>::new());
        assert_eq!(pin.identity.changes(&identity("s a", "2")), ["the program /bin/s"]);
        assert_eq!(pin.identity.changes(&identity("s b", "1")), ["it was `s a` and is `s b`"]);
        let same_but_sorted = offered("one", "adds", json!({ "b": 2, "a": 1 }));
        assert_eq!(pin.difference(&[same_but_sorted, pin.tools[1].clone()]), Difference::default());
        let mut hinted = offered("two", "", json!({ "x": 1 }));
        hinted.hints = vec!["read-only".to_owned()];
        let now = [
            offered("one", "adds, and sends", json!({ "a": 1, "b": 2 })),
            hinted,
            offered("new", "", json!({})),
        ];
        let difference = pin.difference(&now);
        assert_eq!(
            difference.changed,
            ["the description of `one`", "the schema of `two`", "the hints of `two`"]
        );
        assert_eq!((difference.added, difference.gone), (vec!["new".to_owned()], Vec::new()));
    }

    #[test]
    fn pins_are_kept_and_a_damaged_one_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let pins = Pins::new(Some(dir.path().join("mcp")));
        assert!(matches!(pins.get("s"), Ok(None)));
        let pin = Pin::new(identity("s", "1"), vec![offered("one", "adds", json!({}))]);
        pins.put("s", &pin).unwrap();
        assert_eq!(pins.get("s").unwrap(), Some(pin.clone()));
        let mode = fs::metadata(dir.path().join("mcp/s.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(dir.path().join("mcp/s.json"), "{").unwrap();
        assert!(matches!(pins.get("s"), Err(PinError::Read { .. })));
        let held = Pins::new(None);
        held.put("s", &pin).unwrap();
        assert_eq!(held.get("s").unwrap(), Some(pin));
    }
}
