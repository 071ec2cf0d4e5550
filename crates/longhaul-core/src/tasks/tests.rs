//! Lists as people write them, and every order in which they can be worked on.

use std::collections::HashSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::paper::{self, read};
use super::{Measure, Task, TaskList, TaskStatus, Way};

fn said(list: &Value, expected: Expect) {
    let error = read(&list.to_string()).expect_err("a list that is wrong");
    expected.assert_eq(&error.to_string());
}

fn list_of(tasks: Value) -> Value {
    json!({ "tasks": tasks })
}

/// Bad input: every defect names its field.
#[test]
fn what_is_wrong_is_said_with_its_field() {
    let task = |more: Value| {
        let mut task = json!({ "id": "a", "title": "A" });
        for (name, value) in more.as_object().unwrap() {
            task[name] = value.clone();
        }
        list_of(json!([task]))
    };
    said(&json!([]), expect![[r#"a task list is an object, {"tasks": [...]}"#]]);
    said(&json!("x"), expect![[r#"a task list is an object, {"tasks": [...]}"#]]);
    said(&json!({}), expect![[r#"tasks: is missing; a task list is {"tasks": [...]}"#]]);
    said(&json!({ "tasks": {} }), expect!["tasks: must be a list"]);
    said(&list_of(json!([7])), expect!["tasks[0]: must be an object"]);
    said(&list_of(json!([{ "title": "x" }])), expect!["tasks[0].id: is missing; every task has an id"]);
    said(&task(json!({ "phase": "x" })), expect![[r#"tasks[0].phase: must be a whole number, not "x""#]]);
    said(
        &task(json!({ "attempts": -1 })),
        expect!["tasks[0].attempts: must be a whole number from 0 on, not -1"],
    );
    said(
        &task(json!({ "status": "don" })),
        expect![
            "tasks[0].status: `don` is not a status (did you mean `done`?); there are pending, ready, running, done, failed, blocked"
        ],
    );
    said(
        &task(json!({ "longRunning": "yes" })),
        expect![[r#"tasks[0].longRunning: must be true or false, not "yes""#]],
    );
    said(
        &task(json!({ "estimatedMinutes": -2 })),
        expect!["tasks[0].estimatedMinutes: -2 is not a number of minutes"],
    );
    said(&task(json!({ "dependencies": ["a"] })), expect!["tasks[0].dependencies[0]: `a` depends on itself"]);
    let two = |first: Value, second: Value| {
        list_of(json!([{ "id": "one", "dependencies": first }, { "id": "two", "dependencies": second }]))
    };
    said(
        &two(json!(["twoo"]), json!([])),
        expect!["tasks[0].dependencies[0]: there is no task `twoo`; did you mean `two`?"],
    );
    said(
        &two(json!(["two"]), json!(["one"])),
        expect!["tasks: these depend on each other in a circle: one → two → one"],
    );
    said(
        &list_of(json!([{ "id": "x" }, { "id": "x" }])),
        expect!["tasks[1].id: `x` is that of tasks[0] too"],
    );
    let twice = read(r#"{"tasks": [{"id": "a", "status": "done", "status": "ready"}]}"#).unwrap_err();
    assert_eq!(twice.to_string(), "tasks[0].status: is there twice");
}

/// A7.2: a result is written into the list as it was: unknown fields, their order and the spaces stay.
#[test]
fn a_list_is_changed_in_place() {
    let text = r#"{
  "meta": { "name": "p", "z": 1.50, "a": [1,2] },
  "tasks": [
    {
      "id": "a",   "extra": {"b":1,"a":2},
      "status": "pending"
    },
    { "id": "b", "dependencies": ["a"], "attempts": 0 }
  ]
}
"#;
    let changed = paper::with(
        text,
        "a",
        &[("status", json!("done")), ("output", json!("o/a.md")), ("error", Value::Null)],
    );
    let changed =
        paper::with(&changed.unwrap(), "b", &[("attempts", json!(1)), ("status", json!("running"))]);
    expect![[r#"
        {
          "meta": { "name": "p", "z": 1.50, "a": [1,2] },
          "tasks": [
            {
              "id": "a",   "extra": {"b":1,"a":2},
              "status": "done",
              "output": "o/a.md"
            },
            { "id": "b", "dependencies": ["a"], "attempts": 1, "status": "running" }
          ]
        }
    "#]]
    .assert_eq(changed.as_ref().unwrap());
    assert!(paper::with(text, "c", &[("status", json!("done"))]).is_err());
}

/// A task is told its own words, what it depends on left, and what went wrong before; never more than fits.
#[test]
fn a_prompt_is_bounded() {
    let task =
        Task { title: "T".into(), description: "D".into(), todos: vec!["one".into()], ..Task::default() };
    expect![[r#"
        T

        D

        ## To do

        - one

        ## What earlier tasks left

        ### a

        left"#]]
    .assert_eq(&task.prompt(&[("a".to_owned(), "left".to_owned())]));
    let many: Vec<_> = (0..20).map(|index| (index.to_string(), "é".repeat(20_000))).collect();
    let failed = Task { attempts: 1, error: Some("x".repeat(20_000)), ..task };
    assert!(failed.prompt(&many).len() < 64 * 1024, "{}", failed.prompt(&many).len());
}

fn any_task() -> impl Strategy<Value = Task> {
    let estimate = prop_oneof![Just(None), (0u32..200).prop_map(|tenths| Some(f64::from(tenths) / 10.0))];
    (any::<bool>(), estimate, 0i64..4, 0u32..3).prop_map(
        |(long_running, estimated_minutes, phase, attempts)| Task {
            long_running,
            estimated_minutes,
            phase,
            attempts,
            ..Task::default()
        },
    )
}

/// Any list in which tasks depend on earlier ones, mixed up, and what each of them will come to.
fn any_list() -> impl Strategy<Value = (TaskList, HashSet<String>)> {
    let tasks = prop::collection::vec((any_task(), any::<u64>(), prop::bool::weighted(0.25)), 1..12);
    tasks.prop_flat_map(|drawn| {
        let mut failing = HashSet::new();
        let mut tasks = Vec::new();
        for (index, (task, edges, fails)) in drawn.into_iter().enumerate() {
            let id = format!("t{index}");
            let on = (0..index).filter(|other| edges >> (other * 2) & 3 == 0);
            let dependencies = on.map(|other| format!("t{other}")).collect();
            if fails {
                failing.insert(id.clone());
            }
            tasks.push(Task { id, dependencies, ..task });
        }
        (Just(tasks).prop_shuffle(), Just(failing)).prop_map(|(tasks, failing)| (TaskList { tasks }, failing))
    })
}

/// All that the task depends on, directly or by way of others.
fn below(list: &TaskList, id: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut open = list.get(id).unwrap().dependencies.clone();
    while let Some(id) = open.pop() {
        open.extend(list.get(&id).unwrap().dependencies.clone());
        found.insert(id);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Feature: agent-harnesses, Property 20: Ralph Loop integration — long-running task wrapping
    ///
    /// AP20: a task is wrapped if and only if it is marked long-running or estimated
    /// over the threshold, whatever else stands in it; without durable runs none is.
    #[test]
    fn long_running_and_only_long_running_is_wrapped((list, _) in any_list(), threshold in 0.0f64..20.0) {
        for task in &list.tasks {
            let way = task.way(Measure { threshold_minutes: threshold, durable: true, counted: false });
            let long = task.long_running || task.estimated_minutes.is_some_and(|minutes| minutes > threshold);
            prop_assert_eq!(way.is_wrapped(), long);
            prop_assert_eq!(matches!(way, Way::Direct(_)), !long);
            for counted in [false, true] {
                let without = task.way(Measure { threshold_minutes: threshold, durable: false, counted });
                prop_assert!(!without.is_wrapped());
            }
            let counted = task.way(Measure { threshold_minutes: threshold, durable: true, counted: true });
            prop_assert!(counted.is_wrapped());
        }
    }

    /// AP20, AF3: whatever fails, each task is worked on once and after all it depends on; nothing is done that depends on a
    /// failure, everything else is, and in the end nothing is left over.
    #[test]
    fn a_list_comes_to_an_end((mut list, failing) in any_list()) {
        let mut done: Vec<String> = Vec::new();
        while let Some(task) = list.next(&HashSet::new()) {
            let (id, rank) = (task.id.clone(), (task.phase, task.attempts));
            for (other, status) in list.tasks.iter().zip(list.settled()) {
                prop_assert!(status != TaskStatus::Ready || (other.phase, other.attempts) >= rank);
            }
            prop_assert!(!done.contains(&id));
            prop_assert!(below(&list, &id).iter().all(|id| done.contains(id) && !failing.contains(id)));
            let status = if failing.contains(&id) { TaskStatus::Failed } else { TaskStatus::Done };
            list.tasks.iter_mut().find(|task| task.id == id).unwrap().status = status;
            done.push(id);
        }
        for (task, status) in list.tasks.iter().zip(list.settled()) {
            let blocked = below(&list, &task.id).iter().any(|id| failing.contains(id));
            let expected = match (blocked, failing.contains(&task.id)) {
                (true, _) => TaskStatus::Blocked,
                (false, true) => TaskStatus::Failed,
                (false, false) => TaskStatus::Done,
            };
            prop_assert_eq!(status, expected, "{}", task.id);
        }
    }

    /// A7.2: whatever is changed, the list says that, and everything else as before.
    #[test]
    fn a_change_is_only_that_change((list, _) in any_list(), pick in any::<prop::sample::Index>(), text in ".{0,20}", pretty in any::<bool>()) {
        let tasks: Vec<Value> = list.tasks.iter().map(|task| json!({
            "id": task.id, "x": text, "dependencies": task.dependencies, "phase": task.phase,
        })).collect();
        let value = json!({ "tasks": tasks, "meta": text });
        let written = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let index = pick.index(list.tasks.len());
        let id = &list.tasks[index].id;
        let changed = paper::with(&written, id, &[("x", json!("new")), ("error", json!(text))]).unwrap();
        let mut expected = value.clone();
        expected["tasks"][index]["x"] = json!("new");
        expected["tasks"][index]["error"] = json!(text);
        prop_assert_eq!(serde_json::from_str::<Value>(&changed).unwrap(), expected);
        prop_assert_eq!(read(&changed).unwrap().tasks.len(), list.tasks.len());
    }

    /// Nothing that can be in a file makes us panic.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        drop(read(&text));
        drop(read(&format!("{{\"tasks\": [{text}]}}")));
    }
}
