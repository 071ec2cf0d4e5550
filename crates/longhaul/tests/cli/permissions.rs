//! `permissions show` and `permissions check`: wiring, wording and exit codes.

use expect_test::expect;
use serde_json::json;

use crate::desk::Desk;

/// D7.5, D2.6: the defaults are listed with their origin, and a rule of one's own takes the place of one of them.
#[test]
fn rules_are_shown_with_their_origin() {
    let desk = Desk::new();
    let find = |pattern: &str| {
        let shown = desk.json(&["permissions", "show"]);
        let rule = shown.as_array().unwrap().iter().find(|rule| rule["pattern"] == pattern).cloned();
        rule.unwrap_or_default()
    };
    let rule = |action: &str, origin: &str| json!({ "section": "bash", "pattern": "git push *", "action": action, "origin": origin });
    assert_eq!(find("git push *"), rule("ask", "default"));
    desk.write("longhaul.yaml", "permissions: { bash: { 'git push *': allow }, write: ask }\n");
    assert_eq!(find("git push *"), rule("allow", "project"));
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "permissions: { bash: { 'git push *': deny } }\n");
    assert_eq!(find("git push *"), rule("deny", "user"), "a project does not loosen what the user wrote");
    desk.write("longhaul.yaml", "permissions: { bash: { 'ls *': maybe } }\n");
    let said = desk.say(&["permissions", "show"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("longhaul.yaml") && said.err.contains("allow, ask or deny"), "{}", said.err);
}

/// D7.5: a check says what decides, and a script learns it from the exit code.
#[test]
fn a_check_explains_itself() {
    let desk = Desk::new();
    let said = desk.say(&["permissions", "check", "true && sudo rm -rf x"]);
    expect![[r#"
        deny: `sudo rm -rf x` matches
        rule bash "rm -rf *" (default)

        COMMAND        ALONE  WHY
        true           allow  `true` matches
        sudo rm -rf x  deny   `sudo rm -rf x` matches
        rm -rf x       deny   `rm -rf x` matches
    "#]]
    .assert_eq(&said.out);
    assert_eq!(said.code, 1);
    assert_eq!(desk.say(&["permissions", "check", "git push origin"]).code, 3);
    assert_eq!(desk.say(&["permissions", "check", "ls"]).code, 0);
    assert_eq!(desk.say(&["permissions", "check", "../x", "--tool", "read"]).code, 1);
    let checked = desk.say(&["permissions", "check", "ls \"$X\" 'a", "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!((&checked["action"], &checked["rule"]), (&json!("ask"), &json!(null)));
}
