//! What no setting allows: the loss of everything, the machine's own accounts and keys, and answering one's own gates.

use super::call::{Call, Term};
use super::paths::straight;
use crate::limits::PATH_BYTES_MAX;

/// Directories that hold keys.
const KEY_DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube"];
const KEY_FILES: &[&str] = &["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"];
const ACCOUNT_FILES: &[&str] = &["/etc/passwd", "/etc/shadow", "/etc/sudoers", "/etc/gshadow"];

/// Our own commands that a person types: answers, consents, and what takes up a run.
const GATES: &[&str] = &[
    "approve",
    "reject",
    "answer",
    "approvals",
    "trust",
    "accept",
    "steer",
    "resume",
    "start",
    "import",
    "store",
];

/// The names of these rules, for people.
pub const ALWAYS: &[&str] = &[
    "rm of everything",
    "mkfs",
    "dd to a device",
    "a device",
    "fork bomb",
    "accounts",
    "keys",
    "export of a search path",
    "own gates",
];

/// The rule that refuses this command, and a sentence.
pub(super) fn refuses(call: &Call, sets: &[String]) -> Option<(&'static str, String)> {
    let name = call.name().unwrap_or("");
    let arguments = call.arguments();
    if name == "rm" && is_recursive(arguments) && arguments.iter().any(is_everything) {
        return Some(("rm of everything", "it removes /, the home directory or what is above".to_owned()));
    }
    if name.starts_with("mkfs") || name == "wipefs" {
        return Some(("mkfs", format!("`{name}` erases a disk")));
    }
    let device = |term: &Term| term.texts().any(|text| text.strip_prefix("of=").is_some_and(is_disk));
    if name == "dd" && arguments.iter().any(device) {
        return Some(("dd to a device", "it overwrites a device".to_owned()));
    }
    if name == "longhaul" && arguments.iter().filter_map(Term::fixed).any(|word| GATES.contains(&word)) {
        return Some(("own gates", "an agent does not answer its own gates".to_owned()));
    }
    let exports = matches!(name, "export" | "declare" | "typeset" | "readonly");
    if let Some(variable) = sets.iter().find(|variable| exports && is_search_path(variable)) {
        return Some(("export of a search path", format!("`{variable}` decides which programs run")));
    }
    if matches!(name, "echo" | "printf" | "git") {
        return None;
    }
    let texts = call.terms.iter().flat_map(Term::texts);
    texts.filter_map(secret).next()
}

/// A path that no setting opens.
pub(super) fn secret(path: &str) -> Option<(&'static str, String)> {
    // A sentence may speak of them; a path does not begin like one.
    let is_sentence = path.contains(char::is_whitespace) && !path.starts_with(['/', '~', '.']);
    if path.len() > PATH_BYTES_MAX || is_sentence {
        return None;
    }
    let whole = straight(path);
    if ACCOUNT_FILES.iter().any(|file| path.ends_with(file) || whole.ends_with(file)) {
        return Some(("accounts", format!("`{path}` holds the machine's accounts")));
    }
    let file = whole.rsplit('/').next().unwrap_or_default();
    let is_key = KEY_FILES.contains(&file) || path.split('/').any(|part| KEY_DIRECTORIES.contains(&part));
    is_key.then(|| ("keys", format!("`{path}` is where keys are")))
}

pub(super) fn is_disk(path: &str) -> bool {
    let disks = ["sd", "hd", "vd", "nvme", "mmcblk", "disk", "mem", "kmem", "mapper", "loop", "dm-", "xvd"];
    straight(path)
        .strip_prefix("/dev/")
        .is_some_and(|device| disks.iter().any(|disk| device.starts_with(disk)))
}

fn is_search_path(variable: &str) -> bool {
    variable == "PATH" || variable.starts_with("LD_") || variable.starts_with("DYLD_")
}

fn is_recursive(arguments: &[Term]) -> bool {
    arguments.iter().flat_map(Term::texts).any(|text| match text.strip_prefix("--") {
        Some(long) => long.len() > 2 && "recursive".starts_with(long),
        None => text.starts_with('-') && text.contains(['r', 'R']),
    })
}

fn is_everything(term: &Term) -> bool {
    let everything = |text: &str| {
        let text = text.trim_end_matches(['*', '/', '.']);
        text.is_empty() || text == "~" || text == "$HOME"
    };
    match term {
        Term::Fixed(text) => text.starts_with(['/', '.', '~', '*']) && everything(text) && text != ".",
        Term::Open { raw, .. } => {
            let raw: String = raw.chars().filter(|letter| !matches!(letter, '"' | '{' | '}')).collect();
            everything(&raw)
        }
    }
}
