//! `cost`: what runs used and what that cost, each reply counted once.

use std::sync::Arc;

use longhaul_core::budget::{Allowance, Scope};
use longhaul_core::child::Child;
use longhaul_core::conversation::Usage;
use longhaul_core::prompt::own_step;
use longhaul_core::run::{NO_STEP, Run, Spending};
use longhaul_core::view;
use longhaul_engine::accounts::Accounts;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_store::catalog::Filter;
use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show what a run used and cost, by step, iteration and model; without an id, the newest runs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// How many of the newest runs to show
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
}

const COUNTS: [&str; 5] = ["REPLIES", "INPUT", "CACHED", "OUTPUT", "COST"];

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match &args.id {
        Some(id) => {
            let harness = app.reading()?;
            of_run(app, &harness.counted(harness.look(&app.run(id)?)?));
        }
        None => of_all(app, args.limit)?,
    }
    Ok(Exit::Ok)
}

fn of_run(app: &App, run: &Run) {
    if app.json() {
        let spending: Vec<Value> = run.spending.iter().map(|spent| as_json(run, spent)).collect();
        let below: Vec<Value> = run.children.iter().map(of_child).collect();
        let total = view::usage(&run.ledger().usage);
        render::json(&json!({ "id": run.spec.id, "spending": spending, "subAgents": below, "total": total }));
        return;
    }
    let lines = run.spending.iter().map(|spent| {
        let step = if spent.step == NO_STEP { "(planning)" } else { step(run, spent) };
        let mut line = vec![step.to_owned(), spent.iteration.to_string(), spent.model.clone()];
        line.extend(counts(spent.replies, &spent.usage));
        line
    });
    let below = run.children.iter().map(|child| {
        let mut line =
            vec![format!("sub-agent {}", child.errand.agent), String::new(), child.errand.id.to_string()];
        line.extend(counts(child.ledger.turns, &child.ledger.usage));
        line
    });
    let mut total = vec!["total".to_owned(), String::new(), String::new()];
    let used = run.ledger();
    let replies = run.spending.iter().map(|spent| spent.replies);
    let replies = replies.chain(run.children.iter().map(|child| child.ledger.turns)).sum();
    total.extend(counts(replies, &used.usage));
    let header: Vec<&str> = ["STEP", "ITERATION", "MODEL"].into_iter().chain(COUNTS).collect();
    render::data(&table::rows(&header, lines.chain(below).chain([total])));
    tell_unpriced(&used.usage);
    tell_estimated(&used.usage);
}

fn of_child(child: &Child) -> Value {
    json!({ "id": child.errand.id, "agentName": child.errand.agent, "turns": child.ledger.turns, "usage": view::usage(&child.ledger.usage) })
}

fn of_all(app: &App, limit: usize) -> Result<(), Failure> {
    let rows = match app.home()? {
        Some(_) => app.reading()?.list(&Filter::default())?.0,
        None => Vec::new(),
    };
    let harness = if rows.is_empty() { None } else { Some(app.reading()?) };
    let mut runs = Vec::new();
    for row in rows.iter().take(limit) {
        // A run that was removed in the meantime, or cannot be read, costs nothing here; `list` tells of it.
        let looked = harness.as_ref().map(|harness| harness.look(&row.id).map(|run| harness.counted(run)));
        runs.extend(looked.and_then(Result::ok));
    }
    let mut total = Usage::default();
    runs.iter().for_each(|run| total.add(&run.usage));
    let budgets = budgets(app)?;
    if app.json() {
        let each: Vec<Value> = runs
            .iter()
            .map(
                |run| json!({ "id": run.spec.id, "model": run.spec.model, "usage": view::usage(&run.usage) }),
            )
            .collect();
        let left = rows.len().saturating_sub(limit);
        let budgets: Vec<Value> = budgets.iter().map(Spent::as_json).collect();
        render::json(
            &json!({ "runs": each, "total": view::usage(&total), "left": left, "budgets": budgets }),
        );
        return Ok(());
    }
    let replies = |run: &Run| run.spending.iter().map(|spent| spent.replies).sum();
    let lines = runs.iter().map(|run| {
        let mut line = vec![run.spec.id.to_string(), table::fit(own_step(&run.spec.task), 40)];
        line.extend(counts(replies(run), &run.usage));
        line
    });
    let mut last = vec!["total".to_owned(), String::new()];
    last.extend(counts(runs.iter().map(replies).sum(), &total));
    let header: Vec<&str> = ["RUN", "TASK"].into_iter().chain(COUNTS).collect();
    render::data(&table::rows(&header, lines.chain([last])));
    if rows.len() > limit {
        render::talk(&format!("{} older runs are not shown; `--limit N` shows more", rows.len() - limit));
    }
    for spent in budgets {
        render::data(&spent.line());
    }
    tell_unpriced(&total);
    tell_estimated(&total);
    Ok(())
}

/// A budget of all runs, and what is used of it.
struct Spent {
    scope: Scope,
    allowance: Allowance,
    usage: Usage,
}

/// Those that are limited.
fn budgets(app: &App) -> Result<Vec<Spent>, Failure> {
    let budget = app.settings()?.budget;
    let Some(home) = app.home()?.filter(|_| !budget.is_unlimited()) else { return Ok(Vec::new()) };
    let accounts = Accounts::new(Arc::new(home), budget, Arc::new(SystemClock));
    let account = accounts.account(SystemClock.now())?;
    let all = [(Scope::Day, budget.day, account.day), (Scope::Repo, budget.repo, account.repo)];
    let spent = |(scope, allowance, usage)| Spent { scope, allowance, usage };
    let is_limited = |spent: &Spent| spent.allowance != Allowance::default();
    Ok(all.into_iter().map(spent).filter(is_limited).collect())
}

impl Spent {
    fn line(&self) -> String {
        let Spent { scope, allowance, usage } = self;
        let when = match scope {
            Scope::Day => "today (UTC)",
            Scope::Repo => "ever",
        };
        let money = allowance.max_cost.map(|max| format!("{} of {max}", cost(usage)));
        let tokens = allowance.max_tokens.map(|max| format!("{} of {max} tokens", usage.tokens()));
        let used: Vec<String> = money.into_iter().chain(tokens).collect();
        format!("all runs, {when}: {}", used.join(", "))
    }

    fn as_json(&self) -> Value {
        let Spent { scope, allowance, usage } = self;
        let (max_cost, max_tokens) = (allowance.max_cost, allowance.max_tokens);
        json!({ "scope": scope.as_str(), "maxCost": max_cost, "maxTokens": max_tokens, "usage": view::usage(usage) })
    }
}

/// Replies, input with what came from a cache, output, and money; `?` where money is not all of it.
fn counts(replies: u32, usage: &Usage) -> Vec<String> {
    let input =
        usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens);
    let cached = usage.cache_read_tokens.saturating_mul(100).checked_div(input).unwrap_or(0);
    vec![
        replies.to_string(),
        input.to_string(),
        format!("{cached} %"),
        usage.output_tokens.to_string(),
        cost(usage),
    ]
}

/// Money as it is shown: what is not known is never shown as nothing.
pub fn cost(usage: &Usage) -> String {
    match (usage.unpriced_tokens, usage.cost.as_nanos()) {
        (0, _) => usage.cost.to_string(),
        (_, 0) => "unknown".to_owned(),
        (_, _) => format!("{} + unknown", usage.cost),
    }
}

fn tell_unpriced(usage: &Usage) {
    if usage.unpriced_tokens > 0 {
        render::talk(&format!(
            "the price of {} tokens is unknown; set `providers.NAME.prices` in longhaul.yaml",
            usage.unpriced_tokens
        ));
    }
}

/// Numbers that are partly guessed are never shown as if they were counted.
pub fn tell_estimated(usage: &Usage) {
    if usage.estimated_tokens > 0 {
        render::warn(&format!(
            "the model's provider did not count {} tokens; they are estimated, rather high, and so is what they cost",
            usage.estimated_tokens
        ));
    }
}

fn step<'a>(run: &'a Run, spent: &Spending) -> &'a str {
    run.step_at(spent.step).map_or("", |step| &step.id)
}

fn as_json(run: &Run, spent: &Spending) -> Value {
    json!({
        "stepId": step(run, spent), "iteration": spent.iteration, "model": spent.model, "replies": spent.replies,
        "usage": view::usage(&spent.usage),
    })
}
