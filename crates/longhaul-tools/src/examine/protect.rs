//! Files that are not the agent's to change: how they were when the run began, kept where the agent cannot reach, and what
//! became of them.

use std::collections::BTreeMap;
use std::path::Path;

use longhaul_core::conduct::{Protect, ProtectPolicy};
use longhaul_core::evidence::ProtectedChange;
use longhaul_core::tool::Outcome;
use longhaul_workspace::EntryKind;
use serde::{Deserialize, Serialize};

use crate::limits::{PROTECTED_BYTES_MAX, PROTECTED_FILES_MAX};
use crate::patience::Patience;
use crate::pattern::Pattern;
use crate::tool::Context;
use crate::walk::{Scope, Seen, Visitor, walk};

/// How protected files were when the run began: the blob of each.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Baseline {
    files: BTreeMap<String, String>,
}

impl Baseline {
    pub(super) fn read(hash: &str, context: &Context) -> Option<Baseline> {
        let bytes = context.blobs.fetch(hash).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Keeps what the globs name. The error says why that cannot be, and then nothing is protected.
pub(super) fn keep(protect: Option<&Protect>, context: &Context) -> Result<Option<String>, String> {
    let Some(protect) = protect.filter(|protect| !protect.globs.is_empty()) else { return Ok(None) };
    let mut baseline = Baseline::default();
    let mut room = PROTECTED_BYTES_MAX;
    for path in matching(protect, context)? {
        // A link that is there from the start is left alone: what it leads to has a name of its own.
        if context.workspace.refuse_link(&path).is_err() {
            continue;
        }
        let bytes = context.workspace.read(&path).map_err(|error| error.to_string())?;
        room = room
            .checked_sub(bytes.len())
            .ok_or_else(|| format!("the protected files have more than {PROTECTED_BYTES_MAX} bytes"))?;
        let blob = context.blobs.keep(&bytes)?;
        // Keys are struck out of everything that is kept; what was changed by that cannot be put back.
        if context.blobs.fetch(&blob)? != bytes {
            return Err(format!("{path} cannot be protected: it holds a key, which is not kept"));
        }
        baseline.files.insert(path, blob);
    }
    let text = serde_json::to_vec(&baseline).map_err(|error| error.to_string())?;
    context.blobs.keep(&text).map(Some)
}

/// What differs from the baseline, put back if that is the policy.
pub(super) struct Compared {
    pub(super) changes: Vec<ProtectedChange>,
    /// Why it cannot be said that all is as it was.
    pub(super) doubts: Vec<String>,
}

pub(super) fn compare(protect: &Protect, baseline: Option<&Baseline>, context: &Context) -> Compared {
    let mut compared = Compared { changes: Vec::new(), doubts: Vec::new() };
    let Some(baseline) = baseline else {
        compared.doubts.push("how protected files were when the run began is not known".to_owned());
        return compared;
    };
    let mut note = |path: &str, what: &str, undo: &dyn Fn() -> Result<(), String>| {
        // Somebody else may have written it: what is taken away is kept.
        let now = context.workspace.read(path).ok().filter(|_| protect.policy == ProtectPolicy::Refuse);
        let kept = now.and_then(|bytes| context.blobs.keep(&bytes).ok());
        let undone = match protect.policy {
            ProtectPolicy::Report => false,
            ProtectPolicy::Refuse => undo()
                .map_err(|why| compared.doubts.push(format!("{path} could not be put back: {why}")))
                .is_ok(),
        };
        let kept = kept.filter(|_| undone);
        compared.changes.push(ProtectedChange { path: path.to_owned(), what: what.to_owned(), undone, kept });
    };
    for (path, blob) in &baseline.files {
        let now = context.workspace.read(path);
        let then = context.blobs.fetch(blob);
        let restore = || {
            let bytes = then.as_ref().map_err(Clone::clone)?;
            // What a link leads to is not the file.
            context.workspace.refuse_link(path).map_err(|error| error.to_string())?;
            let key = format!("{}.protect", context.key);
            context.workspace.replace(path, bytes, &key).map_err(|error| error.to_string())
        };
        let is_link = context.workspace.refuse_link(path).is_err();
        match (&now, &then) {
            (Ok(now), Ok(then)) if now == then && !is_link => {}
            (Ok(_), _) => note(path, "changed", &restore),
            (Err(_), _) => note(path, "removed", &restore),
        }
    }
    match matching(protect, context) {
        Ok(now) => {
            for path in now.iter().filter(|path| !baseline.files.contains_key(*path)) {
                let remove = || context.workspace.remove(path).map_err(|error| error.to_string());
                note(path, "added", &remove);
            }
        }
        Err(why) => compared.doubts.push(format!("the protected files could not be listed: {why}")),
    }
    compared
}

/// The globs as patterns; one that names a directory is about everything below it as well.
pub(super) fn patterns(globs: &[String], root: &Path) -> Result<Vec<Pattern>, Outcome> {
    let both = globs.iter().flat_map(|glob| {
        let glob = glob.trim_end_matches('/');
        [glob.to_owned(), format!("{glob}/**")]
    });
    both.map(|glob| Pattern::parse("protect", &glob, root)).collect()
}

struct Matching<'a> {
    patterns: &'a [Pattern],
    found: Vec<String>,
}

impl Visitor for Matching<'_> {
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome> {
        let is_meant = |path: &Path| self.patterns.iter().any(|pattern| pattern.matches(path));
        // A link in a protected place is as good as a file there.
        if matches!(seen.kind, EntryKind::File | EntryKind::Link)
            && is_meant(seen.path)
            && let Some(path) = seen.path.to_str()
        {
            self.found.push(path.to_owned());
        }
        Ok(())
    }
}

/// The files there are now that the globs name, sorted.
fn matching(protect: &Protect, context: &Context) -> Result<Vec<String>, String> {
    let said = |outcome: Outcome| outcome.error().unwrap_or_default().to_owned();
    let root = context.workspace.root();
    let patterns = patterns(&protect.globs, root).map_err(said)?;
    let start = context.workspace.open_directory(".").map_err(|error| error.to_string())?;
    // Ignored files too: what is protected is protected.
    let scope = Scope { hidden: true, ignored: true };
    let make = || Matching { patterns: &patterns, found: Vec::new() };
    let (visitors, missed) =
        walk(&context.workspace, start, scope, Patience::new(context), make).map_err(said)?;
    if !missed.note().is_empty() {
        return Err(missed.note().trim().to_owned());
    }
    let mut found: Vec<String> = visitors.into_iter().flat_map(|visitor| visitor.found).collect();
    found.sort();
    if found.len() > PROTECTED_FILES_MAX {
        return Err(format!("the globs of `protect` name more than {PROTECTED_FILES_MAX} files"));
    }
    Ok(found)
}
