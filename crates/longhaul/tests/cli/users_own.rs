//! What the user's own settings search, tell and find keys with is beside them, never what a repository brings under that name.
//! An MCP server works on the project, and is pinned instead.

use super::desk::Desk;

const SETTINGS: &str = r#"
search: { command: sh search.sh }
notify: { command: [sh, tell.sh], on: [completed] }
providers: { house: { api: chat, base_url: "http://127.0.0.1:9", api_key_command: sh key.sh } }
"#;

const SCRIPT: &str = r#"
conversations: [ { turns: [ { calls: [ { tool: search, args: { query: parsers } } ] }, { text: found } ] } ]
"#;

/// Each with what it answers.
const PROGRAMS: [(&str, &str); 3] =
    [("search.sh", r#"[{"url":"https://x.example","title":"x"}]"#), ("tell.sh", ""), ("key.sh", "sk-house")];

/// A repository that has files of the same names stands in for none of them, wherever the user is.
#[test]
fn a_repository_does_not_stand_in_for_the_users_programs() {
    let desk = Desk::with_script(SCRIPT);
    let config = desk.elsewhere("config");
    let own = config.join("longhaul");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("longhaul.yaml"), SETTINGS).unwrap();
    for (name, answer) in PROGRAMS {
        let program =
            |word: &str| format!("echo {name} >> '{}'\necho '{answer}'\n", desk.path(word).display());
        std::fs::write(own.join(name), program("own")).unwrap();
        desk.write(name, &program("stood-in"));
    }
    let run = ["run", "x", "--model", "scripted/s.yaml", "--in-place"];
    let output = desk.command(&run).env("XDG_CONFIG_HOME", &config).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Nobody answers there, but the key is asked for first.
    let check = ["models", "check", "house/any"];
    desk.command(&check).env("XDG_CONFIG_HOME", &config).output().unwrap();
    let ran = std::fs::read_to_string(desk.path("own")).unwrap();
    assert!(!desk.path("stood-in").exists(), "{:?}", std::fs::read_to_string(desk.path("stood-in")));
    assert_eq!(ran.lines().collect::<Vec<_>>(), PROGRAMS.map(|(name, _)| name));
}
