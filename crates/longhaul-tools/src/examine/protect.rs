//! Files that are not the agent's to change: how they were when the run began, kept where the agent cannot reach, and what
//! became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use longhaul_core::conduct::{Protect, ProtectPolicy};
use longhaul_core::evidence::ProtectedChange;
use longhaul_core::prompt::head;
use longhaul_core::tool::Outcome;
use longhaul_workspace::EntryKind;
use serde::{Deserialize, Serialize};

use crate::limits::{GLOB_SHOWN_BYTES_MAX, PROTECTED_BYTES_MAX, PROTECTED_FILES_MAX};
use crate::patience::Patience;
use crate::pattern::Pattern;
use crate::tool::Context;
use crate::walk::{Scope, Seen, Visitor, walk};

/// How protected files were when the run began: the blob of each. What came later is nothing in the baselines of older runs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Baseline {
    files: BTreeMap<String, String>,
    /// Those that may be run.
    executable: Option<BTreeSet<String>>,
    /// Links in protected places, and where they lead. What they lead to has a name of its own.
    links: Option<BTreeMap<String, PathBuf>>,
}

impl Baseline {
    pub(super) fn read(hash: &str, context: &Context) -> Option<Baseline> {
        let bytes = context.blobs.fetch(hash).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Keeps what the globs name. The error says why that cannot be, and then nothing is protected.
pub(super) fn keep(
    protect: Option<&Protect>,
    context: &Context,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, String> {
    let Some(protect) = protect.filter(|protect| !protect.globs.is_empty()) else { return Ok(None) };
    let (mut files, mut executable, mut links) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let mut room = PROTECTED_BYTES_MAX;
    let workspace = &context.workspace;
    let found = matching(protect, context)?;
    warnings.extend(unmatched(protect, &found, workspace.root()));
    for path in found {
        if let Some((_, target)) = workspace.link_on_the_way(&path).map_err(|error| error.to_string())? {
            links.insert(path, target);
            continue;
        }
        if workspace.is_executable(&path).map_err(|error| error.to_string())? {
            executable.insert(path.clone());
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
        files.insert(path, blob);
    }
    let baseline = Baseline { files, executable: Some(executable), links: Some(links) };
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
    let workspace = &context.workspace;
    let said = |error: longhaul_workspace::Error| error.to_string();
    for (path, blob) in &baseline.files {
        let then = context.blobs.fetch(blob);
        let runs_then = baseline.executable.as_ref().map(|those| those.contains(path));
        let restore = || {
            let bytes = then.as_ref().map_err(Clone::clone)?;
            // What a link leads to is not the file, whichever part of the path it stands for.
            while let Some((link, _)) = workspace.link_on_the_way(path).map_err(said)? {
                workspace.remove_link(&link.to_string_lossy()).map_err(said)?;
            }
            workspace.replace(path, bytes, &format!("{}.protect", context.key)).map_err(said)?;
            runs_then.map_or(Ok(()), |runs| workspace.set_executable(path, runs).map_err(said))
        };
        let leads_elsewhere = !matches!(workspace.link_on_the_way(path), Ok(None));
        match (workspace.read(path), &then) {
            (Ok(now), Ok(then)) if now == *then && !leads_elsewhere => {
                let runs = workspace.is_executable(path).ok();
                if runs_then.is_some_and(|then| runs != Some(then)) {
                    note(path, "mode changed", &restore);
                }
            }
            (Ok(_), _) => note(path, "changed", &restore),
            (Err(_), _) => note(path, "removed", &restore),
        }
    }
    for (path, target) in baseline.links.iter().flatten() {
        let found = workspace.link_on_the_way(path);
        let is_same = matches!(&found, Ok(Some((at, to))) if at == Path::new(path) && to == target);
        if !is_same {
            let what = if matches!(found, Ok(Some(_))) { "changed" } else { "removed" };
            note(path, what, &|| workspace.put_link(path, target).map_err(said));
        }
    }
    match matching(protect, context) {
        Ok(now) => {
            let is_known = |path: &String| {
                baseline.files.contains_key(path)
                    || baseline.links.iter().flatten().any(|(link, _)| link == path)
            };
            for path in now.iter().filter(|path| !is_known(path)) {
                let is_link = matches!(workspace.link_on_the_way(path), Ok(Some(_)));
                if is_link && baseline.links.is_none() {
                    continue;
                }
                let remove = || match is_link {
                    true => workspace.remove_link(path).map_err(said),
                    false => workspace.remove(path).map_err(said),
                };
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
        // Whoever gave several is told which of them is meant.
        let shown = head(glob, GLOB_SHOWN_BYTES_MAX);
        [glob.to_owned(), format!("{glob}/**")].map(|both| Pattern::parse(shown, &both, root))
    });
    both.collect()
}

/// A directory that leads to what a glob names, and how deep it lies: `a` and `a/*` of `a/*/b/**`. A link there would put something
/// else in the place of all that is protected.
struct Way {
    pattern: Pattern,
    depth: usize,
}

/// Below `**` there is no telling what leads where, and a glob without a slash names what it means itself.
fn ways(globs: &[String], root: &Path) -> Vec<Way> {
    let mut ways = Vec::new();
    for glob in globs.iter().map(|glob| glob.trim_start_matches("./")).filter(|glob| glob.contains('/')) {
        let parts: Vec<&str> = glob.split('/').take_while(|part| *part != "**").collect();
        for depth in 1..=parts.len() {
            // Half of a pair of braces is no pattern.
            let pattern = Pattern::parse("protect", &parts[..depth].join("/"), root).ok();
            ways.extend(pattern.map(|pattern| Way { pattern, depth }));
        }
    }
    ways
}

/// What is to be said of globs that name nothing: whoever mistyped one believes that something is protected.
fn unmatched(protect: &Protect, found: &[String], root: &Path) -> Vec<String> {
    let names_one = |glob: &String| {
        let patterns = patterns(std::slice::from_ref(glob), root).unwrap_or_default();
        found.iter().any(|path| patterns.iter().any(|pattern| pattern.matches(Path::new(path))))
    };
    let idle = protect.globs.iter().filter(|glob| !names_one(glob));
    idle.map(|glob| {
        format!("no file matches `{}`, so nothing is protected by it", head(glob, GLOB_SHOWN_BYTES_MAX))
    })
    .collect()
}

struct Matching<'a> {
    patterns: &'a [Pattern],
    ways: &'a [Way],
    found: Vec<String>,
}

impl Visitor for Matching<'_> {
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome> {
        let is_named = || self.patterns.iter().any(|pattern| pattern.matches(seen.path));
        let is_way =
            |way: &Way| way.depth == seen.path.components().count() && way.pattern.matches(seen.path);
        // A link in a protected place is as good as a file there.
        let is_meant = match seen.kind {
            EntryKind::File => is_named(),
            EntryKind::Link => is_named() || self.ways.iter().any(is_way),
            EntryKind::Directory | EntryKind::Special => false,
        };
        if is_meant && let Some(path) = seen.path.to_str() {
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
    let ways = ways(&protect.globs, root);
    let make = || Matching { patterns: &patterns, ways: &ways, found: Vec::new() };
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
