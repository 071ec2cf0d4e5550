//! Which crate may depend on which. It owns the table of the architecture; what cargo can resolve may still be a
//! wrong direction.

use crate::problem::Problem;

/// Who may use which crates of ours in its product code.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("longhaul-core", &[]),
    ("longhaul-api", &[]),
    ("longhaul-store", &["longhaul-core"]),
    ("longhaul-model", &["longhaul-core"]),
    ("longhaul-workspace", &["longhaul-core"]),
    ("longhaul-agents", &["longhaul-core"]),
    ("longhaul-tools", &["longhaul-core", "longhaul-workspace"]),
    (
        "longhaul-engine",
        &[
            "longhaul-core",
            "longhaul-store",
            "longhaul-model",
            "longhaul-workspace",
            "longhaul-tools",
            "longhaul-agents",
        ],
    ),
    ("longhaul-daemon", &["longhaul-core", "longhaul-engine", "longhaul-api"]),
    (
        "longhaul",
        &[
            "longhaul-core",
            "longhaul-store",
            "longhaul-model",
            "longhaul-workspace",
            "longhaul-tools",
            "longhaul-agents",
            "longhaul-engine",
            "longhaul-daemon",
            "longhaul-api",
        ],
    ),
    (
        "longhaul-testkit",
        &[
            "longhaul-core",
            "longhaul-store",
            "longhaul-model",
            "longhaul-workspace",
            "longhaul-tools",
            "longhaul-agents",
            "longhaul-engine",
            "longhaul-api",
        ],
    ),
    ("xtask", &[]),
];

/// The only outside crates core may use: they compute and touch nothing. Each addition is a design change.
const CORE_MAY_USE: &[&str] =
    &["blake3", "minicbor", "schemars", "serde", "serde_json", "thiserror", "xxhash-rust"];

/// What a manifest says about its crate, as far as direction needs it.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    path: String,
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Dependency {
    line: usize,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Product,
    Test,
}

impl Manifest {
    /// Reads only what a manifest of this workspace looks like: one key a line.
    pub(crate) fn parse(path: &str, text: &str) -> Manifest {
        let mut manifest = Manifest { path: path.to_owned(), name: String::new(), dependencies: Vec::new() };
        let mut section = String::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']').to_owned();
                manifest.dependencies.extend(dependency_of_header(&section, index + 1));
            } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                match dependency_kind(&section) {
                    Some(kind) => manifest.dependencies.push(dependency(index + 1, key, value, kind)),
                    None if section == "package" && key.trim() == "name" => manifest.name = unquoted(value),
                    None => {}
                }
            }
        }
        manifest
    }
}

pub(crate) fn check(manifest: &Manifest) -> Vec<Problem> {
    let wrong = |line, text: String| Problem::new(&manifest.path, line, text);
    let name = &manifest.name;
    let mut problems = Vec::new();
    if manifest.path.rsplit('/').nth(1) != Some(name) {
        problems.push(wrong(1, format!("crate `{name}` is not in a folder of its name; rename one of them")));
    }
    let Some((_, may_use)) = DIRECTIONS.iter().find(|(known, _)| known == name) else {
        let text =
            format!("crate `{name}` has no row in the table of directions; add it to xtask with its reason");
        problems.push(wrong(1, text));
        return problems;
    };
    for dependency in &manifest.dependencies {
        problems.extend(objection(name, may_use, dependency).map(|text| wrong(dependency.line, text)));
    }
    problems
}

fn objection(name: &str, may_use: &[&str], dependency: &Dependency) -> Option<String> {
    let used = dependency.name.as_str();
    let is_ours = DIRECTIONS.iter().any(|(ours, _)| *ours == used) || used.starts_with("longhaul-");
    match dependency.kind {
        Kind::Test if used == "longhaul" => Some(format!(
            "`{name}` tests with `{used}`; nothing depends on the terminal, move the test there"
        )),
        Kind::Test => None,
        Kind::Product if is_ours && !may_use.contains(&used) => Some(format!(
            "`{name}` depends on `{used}`; allowed are {may_use:?}, join the two in longhaul-engine"
        )),
        Kind::Product if !is_ours && name == "longhaul-core" && !CORE_MAY_USE.contains(&used) => Some(
            format!("core depends on `{used}`; core only thinks, move the need to the crate of that world"),
        ),
        Kind::Product => None,
    }
}

fn dependency(line: usize, key: &str, value: &str, kind: Kind) -> Dependency {
    let key = key.trim().split('.').next().unwrap_or("");
    let renamed = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
    Dependency { line, name: renamed.map_or_else(|| unquoted(key), str::to_owned), kind }
}

/// `[dependencies.tokio]` names its dependency in the header.
fn dependency_of_header(section: &str, line: usize) -> Option<Dependency> {
    let (parent, name) = section.rsplit_once('.')?;
    Some(Dependency { line, name: unquoted(name), kind: dependency_kind(parent)? })
}

/// The kind of dependency a section lists; also for `target.'cfg(unix)'.dependencies`.
fn dependency_kind(section: &str) -> Option<Kind> {
    match section.rsplit('.').next().unwrap_or("") {
        "dependencies" | "build-dependencies" if !section.starts_with("workspace") => Some(Kind::Product),
        "dev-dependencies" => Some(Kind::Test),
        _ => None,
    }
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        let manifest = Manifest::parse(&format!("crates/{name}/Cargo.toml"), &text);
        check(&manifest).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn allowed_directions_pass() {
        assert_eq!(
            problems("longhaul-tools", "[dependencies]\nlonghaul-workspace.workspace = true\ntokio = \"1\""),
            [""; 0]
        );
        assert_eq!(
            problems("longhaul-store", "[dev-dependencies]\nlonghaul-testkit = { workspace = true }"),
            [""; 0]
        );
    }

    #[test]
    fn a_wrong_direction_is_named_with_its_line() {
        let expected = "crates/longhaul-store/Cargo.toml:4: `longhaul-store` depends on `longhaul-model`; allowed are \
                        [\"longhaul-core\"], join the two in longhaul-engine";
        assert_eq!(
            problems("longhaul-store", "[dependencies]\nlonghaul-model = { workspace = true }"),
            [expected]
        );
        for section in [
            "[dependencies.longhaul-daemon]\nworkspace = true",
            "[target.'cfg(unix)'.dependencies]\nlonghaul = \"1\"",
        ] {
            assert_eq!(problems("longhaul-testkit", section).len(), 1, "{section}");
        }
        assert_eq!(
            problems("longhaul-store", "[dependencies]\nm = { package = \"longhaul-model\" }").len(),
            1
        );
    }

    #[test]
    fn core_uses_nothing_that_touches_the_world() {
        for name in ["tokio", "rand", "getrandom", "rusqlite", "rustix", "reqwest"] {
            assert_eq!(
                problems("longhaul-core", &format!("[dependencies]\n{name} = \"1\"")).len(),
                1,
                "{name}"
            );
        }
        assert_eq!(
            problems("longhaul-core", "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nproptest = \"1\""),
            [""; 0]
        );
    }

    #[test]
    fn nothing_tests_with_the_terminal_and_no_crate_is_without_a_row() {
        assert_eq!(problems("longhaul-engine", "[dev-dependencies]\nlonghaul = \"1\"").len(), 1);
        assert_eq!(problems("longhaul-extra", "").len(), 1);
        let moved = Manifest::parse("crates/other/Cargo.toml", "[package]\nname = \"longhaul-core\"");
        assert_eq!(check(&moved).len(), 1);
    }
}
