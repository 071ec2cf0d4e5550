//! Nights in every state they can be in, and every way to split what they may use.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::ideas::{self, Idea, Kind};
use super::means::{Means, Spent};
use super::ranking::Verdict;
use super::*;
use crate::money::Usd;

fn idea(title: &str) -> Idea {
    Idea { title: title.to_owned(), kind: Kind::Other, description: "Try it.".to_owned() }
}

fn check(passed: bool) -> Check {
    let ended = if passed { "exit code 0" } else { "exit code 1" };
    Check {
        command: "./test".to_owned(),
        passed,
        ended: ended.to_owned(),
        output: "1 of 2 failed".to_owned().into(),
        blob: None,
        duration_us: 1,
    }
}

fn measured(passed: bool, metric: &str) -> Measured {
    Measured { checks: vec![check(passed)], metric: Some(metric.to_owned()), metric_trouble: None }
}

fn spent(cents: u64) -> Spent {
    Spent { cost: Usd::from_nanos(cents * 10_000_000), worked_ms: cents * 60_000, unpriced_tokens: 0 }
}

fn finished(cents: u64) -> Option<Outcome> {
    let changes = Some(" a.txt | 1 +".to_owned());
    Some(Outcome::Finished { said: "Done.".to_owned(), spent: spent(cents), changes })
}

fn night(experiments: u32) -> Night {
    Night {
        id: "night_x".to_owned(),
        created_at: Timestamp::default(),
        order: Order {
            objective: "Make it faster".to_owned(),
            experiments,
            verify: vec!["./test".to_owned()],
            metric: Some("./measure".to_owned()),
            minimize: false,
            protect: Vec::new(),
            means: Means { max_cost: Usd::from_dollars(1.0), timeout_ms: 3_600_000 },
            agent: "coder".to_owned(),
            models: Vec::new(),
            autonomy: None,
            repository: "/r".to_owned(),
            commit: "abc".to_owned(),
        },
        misfits: Vec::new(),
        preparing: None,
        base: None,
        experiments: Vec::new(),
        end: None,
    }
}

/// A night whose base printed 10, with these experiments.
fn with(experiments: Vec<Experiment>) -> Night {
    let base = Some(measured(true, "10"));
    Night { preparing: Some(spent(10)), base, experiments, ..night(5) }
}

fn made(title: &str, outcome: Option<Outcome>, measured: Option<Measured>) -> Experiment {
    Experiment { idea: idea(title), outcome, measured }
}

/// A7.4: one piece after the other, each known from what is written down.
#[test]
fn every_piece_follows_from_what_is_known() {
    let mut night = night(2);
    assert_eq!((night.next(&[]), night.phase()), (Next::Prepare { attempt: 1 }, Phase::Prepare));
    night.misfits.push("it is not JSON".to_owned());
    assert_eq!(night.next(&[]), Next::Prepare { attempt: 2 }, "one repair");
    night.misfits.push("it is not JSON".to_owned());
    assert_eq!(night.next(&[]), Next::GiveUp);
    night.preparing = Some(spent(1));
    night.experiments = vec![made("a", None, None), made("b", None, None)];
    assert_eq!(night.next(&[]), Next::MeasureBase);
    night.base = Some(measured(true, "1"));
    assert_eq!((night.next(&[]), night.phase()), (Next::Experiment(0), Phase::Experiments));
    assert_eq!((night.next(&[0]), night.next(&[0, 1])), (Next::Experiment(1), Next::Wait));
    night.experiments[0].outcome = Some(Outcome::Skipped { why: "x".to_owned() });
    night.experiments[1].outcome = finished(1);
    assert_eq!(
        (night.next(&[]), night.phase()),
        (Next::Measure(1), Phase::Evaluate),
        "what never was is not measured"
    );
    night.experiments[1].measured = Some(measured(true, "2"));
    assert_eq!((night.next(&[]), night.phase()), (Next::Report, Phase::Report));
    night.end = Some(End { at: Timestamp::default(), gave_up: None });
    assert_eq!((night.next(&[]), night.phase()), (Next::Nothing, Phase::Over));
    let read: Night = serde_json::from_str(&serde_json::to_string(&night).unwrap()).unwrap();
    assert_eq!(read, night, "it is the same after it was written");
}

#[test]
fn runs_have_names_of_their_own() {
    let night = night(2);
    let name = |id: Result<RunId, BadId>| id.unwrap().to_string();
    assert_eq!(name(night.preparing_run(1)), "night_x-p1");
    assert_eq!(
        (name(night.run_of(0)), name(night.run_of(11))),
        ("night_x-1".to_owned(), "night_x-12".to_owned())
    );
}

#[test]
fn ideas_are_read_and_what_is_wrong_is_named() {
    let order = night(2).order;
    let read = |answer: &str| ideas::read(answer, &order);
    let list = |experiments: serde_json::Value| json!({ "experiments": experiments }).to_string();
    let one = json!({ "title": "A  b", "kind": "test-gap-fill", "description": "d" });
    let fenced = format!("Here:\n```json\n{}\n```", list(json!([one])));
    let expected = Idea { title: "A b".to_owned(), kind: Kind::TestGapFill, description: "d".to_owned() };
    assert_eq!(read(&fenced), Ok(vec![expected]));
    let many: Vec<_> = (0..5).map(|n| json!({ "title": format!("t{n}"), "description": "d" })).collect();
    assert_eq!(read(&list(json!(many))).unwrap().len(), 2, "no more than were asked for");
    let said = |answer: &str, expected: expect_test::Expect| expected.assert_eq(&read(answer).unwrap_err());
    said("I have none.", expect!["there is no JSON object in it"]);
    said("} {", expect!["there is no JSON object in it"]);
    said("{}", expect!["missing field `experiments` at line 1 column 2"]);
    said(&list(json!([])), expect!["experiments: is empty"]);
    said(&list(json!([{ "title": " ", "description": "d" }])), expect!["experiments[0].title: is empty"]);
    said(
        &list(json!([{ "title": "t", "description": "" }])),
        expect!["experiments[0].description: is empty"],
    );
    said(&list(json!([one, one])), expect!["experiments[1].title: there is another experiment `A b`"]);
    said(
        &list(json!([{ "title": "x".repeat(121), "description": "d" }])),
        expect!["experiments[0].title: is longer than 120 letters"],
    );
    said(
        &list(json!([{ "title": "t", "description": "d".repeat(8193) }])),
        expect!["experiments[0].description: is longer than 8192 bytes"],
    );
}

#[test]
fn a_metric_is_the_last_line() {
    let of = |output: &str, passed: bool| {
        let metric =
            Check { command: "./measure".to_owned(), output: output.to_owned().into(), ..check(passed) };
        let measured = Measured::of(vec![check(true), metric], Some("./measure"));
        assert_eq!(measured.checks.len(), 1, "it is no check");
        measured.metric.ok_or_else(|| measured.metric_trouble.unwrap())
    };
    assert_eq!(of("warming up\n 12.50 \n\n", true), Ok("12.50".to_owned()));
    let no_number = Err("the last line that the metric command printed is no number".to_owned());
    for output in ["", "12 ms", "NaN", "inf", "12\ndone"] {
        assert_eq!(of(output, true), no_number, "{output}");
    }
    assert_eq!(of("12", false), Err("the metric command ended with exit code 1".to_owned()));
    assert!(Measured::of(Vec::new(), Some("./measure")).metric_trouble.is_some());
    assert_eq!(Measured::of(Vec::new(), None), Measured::default());
}

#[test]
fn an_unknown_cost_is_not_nothing() {
    let unpriced = Spent { unpriced_tokens: 7, ..Spent::default() };
    assert_eq!(spent(2).shown(), "$0.0200");
    assert_eq!(unpriced.shown(), "an unknown amount");
    assert_eq!([unpriced, spent(2)].into_iter().sum::<Spent>().shown(), "$0.0200 and an unknown amount");
}

fn ranked() -> Night {
    with(vec![
        made("skipped", Some(Outcome::Skipped { why: "no money".to_owned() }), None),
        made("broken", finished(1), Some(measured(false, "99"))),
        made("worse", finished(1), Some(measured(true, "9"))),
        made("better", finished(2), Some(measured(true, "12"))),
        made("cheaper", finished(1), Some(measured(true, "12"))),
        made("best", finished(9), Some(measured(true, "15.5"))),
        made("failed", Some(Outcome::Unfinished { why: "it failed: x".to_owned(), spent: spent(1) }), None),
        made(
            "idle",
            Some(Outcome::Finished { said: String::new(), spent: spent(1), changes: None }),
            Some(measured(true, "99")),
        ),
    ])
}

fn order_of(night: &Night) -> Vec<(&str, &'static str)> {
    let ranked = night.ranked();
    ranked
        .iter()
        .map(|(at, verdict)| (night.experiments[*at].idea.title.as_str(), verdict.as_str()))
        .collect()
}

#[test]
fn the_best_that_passes_comes_first() {
    let mut night = ranked();
    assert_eq!(
        order_of(&night),
        [
            ("best", "better"),
            ("cheaper", "better"),
            ("better", "better"),
            ("worse", "no better"),
            ("idle", "unchanged"),
            ("broken", "broken"),
            ("failed", "unfinished"),
            ("skipped", "skipped"),
        ]
    );
    night.order.minimize = true;
    assert_eq!(order_of(&night)[0], ("worse", "better"), "less can be better");
    night.order.metric = None;
    assert_eq!(order_of(&night)[0], ("worse", "holds"), "without a number the cheaper, then the earlier");
    night.base = Some(measured(false, "10"));
    assert_eq!(order_of(&night)[0].1, "mended");
}

#[test]
fn a_morning_report_says_what_to_type() {
    let mut night = ranked();
    night.experiments.truncate(4);
    night.end = Some(End { at: Timestamp::default(), gave_up: None });
    expect![[r#"
        # Make it faster

        **1 of 4 experiments improved something.** Agents worked for 14 min and cost $0.1400. Night night_x.

        ## What improved

        ### 4. better

        **Better**: the metric went from 10 to 12, and all checks pass.

        - `./test`: exit code 0
        - Changes:

               a.txt | 1 +

        - How to have it: `longhaul diff night_x-4` shows it, `longhaul apply night_x-4` brings the files into your checkout, `longhaul merge night_x-4` merges its branch
        - Cost: $0.0200, 2 min

        Try it.

        The agent said:

        > Done.

        ## What did not work

        ### 3. worse

        All checks pass, but the metric went from 10 to 9, which is no better.

        - `./test`: exit code 0
        - Changes:

               a.txt | 1 +

        - More of it: `longhaul result night_x-3`, `longhaul diff night_x-3`
        - Cost: $0.0100, 1 min

        Try it.

        The agent said:

        > Done.

        ### 2. broken

        It does not hold: `./test` ended with exit code 1.

        - `./test`: exit code 1

              1 of 2 failed

        - Changes:

               a.txt | 1 +

        - More of it: `longhaul result night_x-2`, `longhaul diff night_x-2`
        - Cost: $0.0100, 1 min

        Try it.

        The agent said:

        > Done.

        ### 1. skipped

        It was not begun: no money.

        ## How it was measured

        - Every experiment began with commit abc.
        - longhaul ran these commands itself, on that commit and on each experiment's files. On the commit:
          - `./test`: exit code 0
        - `./measure`, of which more is better; on the commit: 10
    "#]].assert_eq(&night.markdown());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// A7.4: whatever each run uses of its share, all of them together use no more than the night has; and what is not used
    /// is there for the rest.
    #[test]
    fn shares_never_exceed_the_whole(
        max in 1u64..10_000_000_000,
        time in 1u64..100_000_000,
        used in proptest::collection::vec((0u32..=100, 0u32..=100), 1..20),
    ) {
        let mut night = night(used.len() as u32);
        night.order.means = Means { max_cost: Some(Usd::from_nanos(max)), timeout_ms: time };
        let take = |means: Means, (money, time): (u32, u32)| Spent {
            cost: Usd::from_nanos(means.max_cost.unwrap().as_nanos() * u64::from(money) / 100),
            worked_ms: means.timeout_ms * u64::from(time) / 100,
            unpriced_tokens: 0,
        };
        let first = night.share(Spent::default(), 0);
        night.preparing = Some(first.map_or(Spent::default(), |means| take(means, used[0])));
        night.experiments = used.iter().map(|_| made("x", None, None)).collect();
        for (index, part) in used.iter().enumerate() {
            let outcome = match night.share(Spent::default(), index) {
                Ok(means) => {
                    let left = max - night.spent().cost.as_nanos();
                    let parts = (used.len() - index) as u64;
                    prop_assert_eq!(means.max_cost.unwrap().as_nanos(), left / parts);
                    Outcome::Unfinished { why: String::new(), spent: take(means, *part) }
                }
                Err(why) => Outcome::Skipped { why: why.to_owned() },
            };
            night.experiments[index].outcome = Some(outcome);
        }
        prop_assert!(night.spent().cost.as_nanos() <= max && night.spent().worked_ms <= time);
    }

    /// What waits keeps what it was given.
    #[test]
    fn what_is_held_is_not_given_away(max in 2u64..1_000_000, held in 0u64..1_000_000) {
        let means = Means { max_cost: Some(Usd::from_nanos(max)), timeout_ms: 1000 };
        let held = Spent { cost: Usd::from_nanos(held), ..Spent::default() };
        match means.share(held, 1) {
            Ok(share) => prop_assert_eq!(share.max_cost.unwrap().as_nanos() + held.cost.as_nanos(), max),
            Err(why) => prop_assert!(held.cost.as_nanos() >= max && why.contains("money")),
        }
    }

    /// Nothing that does not pass is ever an improvement, whatever its number.
    #[test]
    fn what_does_not_pass_is_out(before in -1e9f64..1e9, after in -1e9f64..1e9, passes: bool, minimize: bool) {
        let mut night = with(vec![made("x", finished(1), Some(measured(passes, &after.to_string())))]);
        night.base = Some(measured(true, &before.to_string()));
        night.order.minimize = minimize;
        let verdict = night.verdict(&night.experiments[0]);
        let improved = if minimize { after < before } else { after > before };
        prop_assert_eq!(verdict.is_improvement(), passes && improved);
        prop_assert_eq!(matches!(verdict, Verdict::Broken { .. }), !passes);
    }
}
