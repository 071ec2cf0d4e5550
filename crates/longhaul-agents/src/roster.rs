//! Where agents are found: the project's directories, then the user's, then those that come with longhaul.
//!
//! Owns the precedence. The first file of a name counts, and only it: two files are never laid over each other, so that
//! what an agent may do can be read in one place. Refuses to follow a link of a repository out of its directory: what
//! stands in an agent file goes to a model.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::agent::{Agent, Origin};
use crate::check::{self, BadAgent};
use crate::limits::{FILE_BYTES_MAX, NAME_BYTES_MAX, ROSTER_FILES_MAX};

/// The twenty-one agents with names of their own, each for one kind of work: name and file. Their limits of calls are in the
/// proportions of the document they come from, ten times as high: a run here is a whole job and not one answer.
pub const NAMED: &[(&str, &str)] = &[
    ("SUN", include_str!("builtin/SUN.md")),
    ("EARTH", include_str!("builtin/EARTH.md")),
    ("PLUTO", include_str!("builtin/PLUTO.md")),
    ("MARS", include_str!("builtin/MARS.md")),
    ("VENUS", include_str!("builtin/VENUS.md")),
    ("MERCURY", include_str!("builtin/MERCURY.md")),
    ("JUPITER", include_str!("builtin/JUPITER.md")),
    ("SATURN", include_str!("builtin/SATURN.md")),
    ("URANUS", include_str!("builtin/URANUS.md")),
    ("NEPTUNE", include_str!("builtin/NEPTUNE.md")),
    ("TITAN", include_str!("builtin/TITAN.md")),
    ("IO", include_str!("builtin/IO.md")),
    ("EUROPA", include_str!("builtin/EUROPA.md")),
    ("GANYMEDE", include_str!("builtin/GANYMEDE.md")),
    ("CALLISTO", include_str!("builtin/CALLISTO.md")),
    ("CHARON", include_str!("builtin/CHARON.md")),
    ("TRITON", include_str!("builtin/TRITON.md")),
    ("MIMAS", include_str!("builtin/MIMAS.md")),
    ("ENCELADUS", include_str!("builtin/ENCELADUS.md")),
    ("ATLAS", include_str!("builtin/ATLAS.md")),
    ("ANDROMEDA", include_str!("builtin/ANDROMEDA.md")),
];

/// The roles that are used where nobody names an agent.
pub const GENERIC: &[(&str, &str)] = &[
    ("coder", include_str!("builtin/coder.md")),
    ("judge", include_str!("builtin/judge.md")),
    ("planner", include_str!("builtin/planner.md")),
    ("researcher", include_str!("builtin/researcher.md")),
    ("reviewer", include_str!("builtin/reviewer.md")),
    ("summarizer", include_str!("builtin/summarizer.md")),
];

/// What kind of agent a name stands for. A file of the user's or the project's takes a built-in agent's place, not its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Named,
    Generic,
    /// Somebody's own.
    Own,
}

impl Group {
    pub fn of(name: &str) -> Group {
        let has = |list: &[(&str, &str)]| list.iter().any(|(own, _)| *own == name);
        match (has(NAMED), has(GENERIC)) {
            (true, _) => Group::Named,
            (false, true) => Group::Generic,
            (false, false) => Group::Own,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Group::Named => "named",
            Group::Generic => "generic",
            Group::Own => "own",
        }
    }
}

fn built_ins() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    NAMED.iter().chain(GENERIC)
}

/// The prompt of an agent that has none of its own.
const DEFAULT_PROMPT: &str = include_str!("builtin/coder_prompt.md");

/// A directory of agent files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub origin: Origin,
    pub dir: PathBuf,
    /// Where its files must really be, whatever links say; `None` for anywhere.
    pub within: Option<PathBuf>,
}

/// All places, the first one going first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(Vec<Place>);

/// One agent of a roster.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub name: String,
    pub origin: Origin,
    pub agent: Result<Agent, BadAgent>,
}

impl Roster {
    pub fn new(places: Vec<Place>) -> Roster {
        Roster(places)
    }

    pub fn places(&self) -> &[Place] {
        &self.0
    }

    /// The agent of this name; one without a file gets the prompt of the built-in coder and all tools.
    pub fn find(&self, name: &str) -> Result<Agent, BadAgent> {
        if !is_name(name) {
            return Err(BadAgent::Name { name: name.chars().take(NAME_BYTES_MAX).collect() });
        }
        for place in &self.0 {
            let path = place.dir.join(format!("{name}.md"));
            // Whatever is there under that name was meant as the agent, also if it cannot be one.
            if path.symlink_metadata().is_ok() {
                return read(name, place, &path);
            }
        }
        match built_ins().find(|(own, _)| *own == name) {
            Some((_, text)) => built_in(name, text),
            None => Ok(Agent::silent(name, DEFAULT_PROMPT.trim())),
        }
    }

    /// Every agent there is a file of, by name; one that is broken with what is wrong.
    pub fn all(&self) -> Result<Vec<Listed>, BadAgent> {
        let mut all: BTreeMap<String, Listed> = BTreeMap::new();
        for place in &self.0 {
            for name in names(&place.dir)? {
                let path = place.dir.join(format!("{name}.md"));
                all.entry(name.clone()).or_insert_with(|| Listed {
                    agent: read(&name, place, &path),
                    name,
                    origin: place.origin,
                });
            }
        }
        for (name, text) in built_ins() {
            all.entry((*name).to_owned()).or_insert_with(|| Listed {
                name: (*name).to_owned(),
                origin: Origin::BuiltIn,
                agent: built_in(name, text),
            });
        }
        Ok(all.into_values().collect())
    }

    /// One file, wherever it is, as it would be read from a directory of the user's.
    pub fn read_file(path: &Path) -> Result<Agent, BadAgent> {
        let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
        let bad = || {
            let why = "an agent file is called NAME.md: letters, digits, `-`, `_` and `.`".to_owned();
            BadAgent::File { file: path.to_owned(), why }
        };
        let name = name.ok_or_else(bad)?;
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        read(name, &Place { origin: Origin::User, dir, within: None }, path)
    }
}

/// The names an agent may have.
fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.')
}

fn built_in(name: &str, text: &str) -> Result<Agent, BadAgent> {
    let agent =
        check::read(name, Origin::BuiltIn, Path::new(&format!("{name}.md")), text, DEFAULT_PROMPT.trim())?;
    Ok(Agent { file: None, ..agent })
}

fn read(name: &str, place: &Place, path: &Path) -> Result<Agent, BadAgent> {
    let bad = |why: String| BadAgent::File { file: path.to_owned(), why };
    let failed = |error: std::io::Error| bad(format!("cannot be read: {error}"));
    if let Some(within) = &place.within {
        let (real, root) = (path.canonicalize().map_err(failed)?, within.canonicalize().map_err(failed)?);
        if !real.starts_with(&root) {
            return Err(bad(format!("is reached by a link that leads out of {}", within.display())));
        }
    }
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(bad("is no regular file".to_owned()));
    }
    let bytes = metadata.len();
    if bytes > FILE_BYTES_MAX {
        return Err(bad(format!("has {bytes} bytes; an agent file has at most {FILE_BYTES_MAX}")));
    }
    let mut text = Vec::new();
    // It may have grown since.
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(bad(format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(text).map_err(|_| bad("is not UTF-8".to_owned()))?;
    check::read(name, place.origin, path, &text, DEFAULT_PROMPT.trim())
}

/// The names of the agent files in a directory; none if it is not there.
fn names(dir: &Path) -> Result<Vec<String>, BadAgent> {
    let bad = |why: String| BadAgent::File { file: dir.to_owned(), why };
    let failed = |error: std::io::Error| bad(format!("cannot be read: {error}"));
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
        let is_agent = path.extension().is_some_and(|extension| extension == "md");
        let Some(name) = stem.filter(|_| is_agent) else { continue };
        if names.len() == ROSTER_FILES_MAX {
            return Err(bad(format!("has more than {ROSTER_FILES_MAX} agent files")));
        }
        names.push(name.to_owned());
    }
    names.sort();
    Ok(names)
}
