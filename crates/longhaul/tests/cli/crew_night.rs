//! A night with a crew, from one command: twelve steps, a rejection and another plan, sub-agents, a rate limit, three kills.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::Desk;

/// The planner cuts the task into twelve; PLUTO and VENUS do theirs as sub-agents, everything else is MARS's own.
fn script() -> String {
    let step = |number: usize| {
        let agent = match number {
            4 => "PLUTO",
            8 => "VENUS",
            _ => "MARS",
        };
        let after = if number == 1 { json!([]) } else { json!([format!("s{}", number - 1)]) };
        json!({
            "id": format!("s{number}"), "description": format!("part {number}"), "assignedAgent": agent,
            "dependencies": after, "critical": number == 6,
        })
    };
    let plan = json!({ "steps": (1..=12).map(step).collect::<Vec<_>>() }).to_string();
    format!(
        r#"
name: night
prices: {{ input: 3.00, output: 15.00 }}
conversations:
  - match: {{ agent: planner }}
    turns: [ {{ text: '{plan}', usage: {{ input: 100, output: 10 }} }} ]
  - match: {{ agent: VENUS }}
    turns:
      - text: "VENUS writes."
        fail: [ {{ status: 429, retry_after: "1" }} ]
        calls: [ {{ tool: bash, args: {{ command: "echo venus >> log.txt" }} }} ]
        usage: {{ input: 100, output: 10 }}
      - {{ text: "VENUS is done.", usage: {{ input: 100, output: 10 }} }}
  - match: {{ agent: PLUTO }}
    turns:
      - text: "PLUTO writes."
        delay_ms: 400
        calls: [ {{ tool: bash, args: {{ command: "echo pluto >> log.txt" }} }} ]
        usage: {{ input: 100, output: 10 }}
      - {{ text: "PLUTO is done.", usage: {{ input: 100, output: 10 }} }}
  - match: {{ agent: MARS }}
    turns:
      - {{ text: "MARS is done.", delay_ms: 100, usage: {{ input: 100, output: 10 }} }}
"#
    )
}

struct Night {
    desk: Desk,
    id: String,
}

impl Night {
    fn go_on(&self) -> Child {
        let mut command = self.desk.command(&["resume", &self.id]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Drives the run until that many steps are completed, then kills it.
    fn kill_after(&self, steps: u64) {
        let mut process = self.go_on();
        self.until(|shown| shown["stepsCompleted"].as_u64() >= Some(steps));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn drive(&self) -> i32 {
        self.go_on().wait().unwrap().code().unwrap()
    }

    fn until(&self, is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let said = self.desk.say(&["show", &self.id, "--json"]);
            let shown: Value = serde_json::from_str(&said.out).unwrap_or_default();
            if is_so(&shown) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "it never came: {shown}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// A5.5, A6.2, F25: planned, gated, rejected, planned anew, killed three times and limited once, the run ends by itself, each part was
/// done once, and the result says what happened.
#[test]
fn a_crew_works_through_the_night() {
    let desk = Desk::with_script(&script());
    std::fs::create_dir(desk.path("agents")).unwrap();
    for name in ["MARS", "PLUTO", "VENUS"] {
        desk.write(
            &format!("agents/{name}.md"),
            &format!("---\ndescription: {name}\n---\nYou are {name}.\n"),
        );
    }
    let args = [
        "create",
        "--task",
        "twelve parts",
        "--agent",
        "MARS",
        "--plan",
        "auto",
        "--autonomy",
        "3",
        "--model",
        "scripted/s.yaml",
    ];
    let id = desk.get(&args).trim().to_owned();
    assert_eq!(desk.json(&["steps", &id]).as_array().unwrap().len(), 12);
    let night = Night { desk, id };
    night.kill_after(2);
    night.kill_after(4);
    assert_eq!(night.drive(), 3, "it waits before the critical step");
    let desk = &night.desk;
    let gate = desk.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["reject", &gate, "--reason", "part 6 is not needed"]);
    let rest: Vec<Value> = (7..=12)
        .map(|number| {
            let agent = if number == 8 { "VENUS" } else { "MARS" };
            let after = if number == 7 { "s5".to_owned() } else { format!("s{}", number - 1) };
            json!({ "id": format!("s{number}"), "description": format!("part {number}"), "agent": agent, "dependencies": [after] })
        })
        .collect();
    desk.write("rest.json", &json!({ "steps": rest }).to_string());
    desk.get(&["replan", &night.id, "--plan", "rest.json"]);
    night.kill_after(6);
    assert_eq!(night.drive(), 0);
    let shown = desk.json(&["show", &night.id]);
    assert_eq!((&shown["status"], &shown["stepsCompleted"]), (&json!("completed"), &json!(11)));
    let log = std::fs::read_to_string(format!("{}/log.txt", shown["workspace"].as_str().unwrap())).unwrap();
    // What a kill cut short is not repeated by itself: it is there once, or the agent was told that it may not be.
    for name in ["pluto", "venus"] {
        assert!(log.matches(name).count() <= 1, "{log}");
    }
    assert_eq!(shown["subAgentCount"], 2);
    let answered: Vec<Value> =
        desk.events(&night.id).into_iter().filter(|event| event["type"] == "human_gate").collect();
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0]["reason"], "part 6 is not needed");
    let result = desk.get(&["result", &night.id]);
    for said in ["twelve parts", "part 6 is not needed", "PLUTO", "VENUS"] {
        assert!(result.contains(said), "`{said}` is not in:\n{result}");
    }
}
