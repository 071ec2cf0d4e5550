//! Clocks that lie.

use crate::rig::{Rig, has, skip};

/// F22: a run that was killed is resumed by a process whose clock is an hour behind, ten years ahead, or in 1970, and
/// completes: order comes from sequence numbers, and no wait is negative or endless.
#[test]
fn resumed_under_another_clock() {
    if !has("faketime") {
        return skip("faketime is not installed");
    }
    for clock in ["-1h", "+10y", "@1970-01-02 00:00:00"] {
        let rig = Rig::new();
        rig.script(
            "conversations:\n  - turns:\n      - fail: [ { status: 529 } ]\n        text: On it.\n        calls: \
             [ { tool: write, args: { path: out.txt, content: done } } ]\n      - text: All is done.\n",
        );
        let id = rig.create();
        let mut live = rig.start(&["resume", &id]);
        crate::rig::until("the model failed", || {
            rig.says(&["events", &id, "--json"]).contains("turn_failed")
        });
        live.kill();
        let before = last_time(&rig, &id);
        let wrapper = ["faketime".to_owned(), "-f".to_owned(), clock.to_owned()];
        let mut resume = rig.command_under(&wrapper, &["resume", &id]);
        // The wall clock lies; the monotonic one, which waits go by, cannot be set on a real machine either.
        let output = resume.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").output().unwrap();
        assert!(output.status.success(), "{clock}: {}", crate::rig::told(&output));
        assert_eq!(rig.status(&id), "completed", "{clock}");
        rig.says(&["store", "verify", &id]);
        let after = last_time(&rig, &id);
        let year = |time: &str| time[..4].parse::<i32>().unwrap();
        let lied = match clock {
            "-1h" => after < before,
            "+10y" => year(&after) >= year(&before) + 9,
            _ => after.starts_with("1970-01-0"),
        };
        assert!(lied, "{clock}: {before}, then {after}");
    }
}

/// When the last event was written, by the clock of whoever wrote it.
fn last_time(rig: &Rig, id: &str) -> String {
    let events = rig.events(id);
    events.last().unwrap()["at"].as_str().unwrap().to_owned()
}
