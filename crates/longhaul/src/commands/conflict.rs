//! A conflict as it is given to an agent, and what the agent says of it.
//!
//! Where no mark can show a conflict, each side is named with its commit and what it has. That what stands there is right is said
//! by staging it by its name: doing nothing says nothing.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use longhaul_core::run::{Call, CallState, Run};
use longhaul_core::tool::Outcome;
use longhaul_workspace::joining::{Conflict, Contested};

/// The tool that says so.
const STAGES: &str = "git_add";

/// What the agent is to do.
pub fn task(conflict: &Conflict) -> String {
    let before =
        if conflict.before.is_empty() { "its target".to_owned() } else { conflict.before.join(", ") };
    let mut task = format!(
        "Resolve a merge conflict. Branch {} was merged with {before}, and both changed the same places in: {}. These places are marked \
         with <<<<<<<, ======= and >>>>>>> in the files here. Make each file what both sides meant, leave no mark, and change nothing \
         else. Do not merge, rebase or switch branches.",
        conflict.branch,
        names(conflict.paths.iter())
    );
    if !conflict.unmarked.is_empty() {
        task.push_str(&format!(
            "\n\nNo mark can show what follows. One side is {before} (commit {}), the other is {} (commit {}); `git show COMMIT:PATH` \
             prints what a side has.",
            conflict.ours,
            conflict.branch,
            conflict.sides.last().map_or("", String::as_str)
        ));
    }
    for contested in &conflict.unmarked {
        let each: Vec<String> = contested.iter().map(|one| said(one, &before, &conflict.branch)).collect();
        task.push_str(&format!("\n- {}", each.join(" ")));
    }
    if !conflict.unmarked.is_empty() {
        task.push_str(&format!(
            "\nEach of these counts as resolved only when you have changed, moved or removed something of it, or, if it is right as it \
             stands here, staged it by its own name with `{STAGES}`."
        ));
    }
    if !conflict.made_up.is_empty() {
        task.push_str(&format!(
            "\n\nGit has made up these names, and none of them may stay: {}.",
            names(conflict.made_up.iter())
        ));
    }
    task
}

/// What each side has at a path, and whose stands there.
fn said(contested: &Contested, before: &str, branch: &str) -> String {
    let Contested { path, ours, theirs, here } = contested;
    let sides = match (ours, theirs) {
        (Some(_), Some(_)) => "both sides have it, and not the same".to_owned(),
        (Some(_), None) => format!("{before} has it, {branch} does not"),
        (None, Some(_)) => format!("{branch} has it, {before} does not"),
        (None, None) => "neither side has it any more".to_owned(),
    };
    let stands = match here {
        None => "nothing stands here".to_owned(),
        Some(_) if here == ours => format!("here stands what {before} has"),
        Some(_) if here == theirs => format!("here stands what {branch} has"),
        Some(_) => "what stands here is neither's".to_owned(),
    };
    format!("{}: {sides}; {stands}.", path.display())
}

/// The paths that an agent has staged by their own names.
pub fn said_right(run: &Run) -> BTreeSet<PathBuf> {
    let is_done = |call: &&Call| {
        call.tool == STAGES && matches!(&call.state, CallState::Ended { outcome: Outcome::Done { .. }, .. })
    };
    let paths = |call: &Call| call.args.value().get("paths")?.as_array().cloned();
    let named = run.calls.iter().filter(is_done).filter_map(paths).flatten();
    named.filter_map(|path| path.as_str().map(plain)).collect()
}

fn plain(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| *part != Component::CurDir).collect()
}

fn names<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> String {
    paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
