//! `steps`: a run's plan, how far each step is, and who waits for whom.

use std::collections::HashMap;
use std::io::IsTerminal;

use longhaul_core::plan::{Step, StepStatus};
use longhaul_core::run::Run;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, graph, table};

/// Show a run's steps, and draw who waits for whom
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lines lead down from a step to those that wait for it.
  ● completed   ◐ running   ○ ready or pending   ◇ waiting for a person   ✗ failed   ⊘ blocked")]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// As a graph for Graphviz: `longhaul steps ID --dot | dot -Tsvg`
    #[arg(long, conflicts_with = "mermaid")]
    pub dot: bool,
    /// As a Mermaid flowchart, for Markdown
    #[arg(long)]
    pub mermaid: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    if app.json() && (args.dot || args.mermaid) {
        let drawing = if args.dot { "--dot" } else { "--mermaid" };
        return Err(Failure::usage(format!(
            "{drawing} and --json are two forms of the same; give one of them"
        )));
    }
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    match (args.dot, args.mermaid, app.json()) {
        (true, ..) => render::data(&dot(&run)),
        (false, true, _) => render::data(&mermaid(&run)),
        (false, false, true) => render::json(&run.plan.steps),
        (false, false, false) => render::data(&drawn(&run, width())),
    }
    Ok(Exit::Ok)
}

/// How wide the drawing may be; a file or a pipe has room.
fn width() -> Option<usize> {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
        Some(usize::from(size.ws_col))
    };
    typed.or_else(terminal).filter(|columns| *columns > 0)
}

/// Narrower terminals than this are shown less of each step.
const WIDE: usize = 100;

/// The list of steps with the drawing at its left. If that cannot be drawn, the list alone says the same.
fn drawn(run: &Run, width: Option<usize>) -> String {
    let steps = &run.plan.steps;
    let is_wide = width.is_none_or(|width| width >= WIDE);
    let marks: Vec<(char, &str)> =
        steps.iter().enumerate().map(|(index, step)| state(run, index, step)).collect();
    let alone =
        || (0..steps.len()).map(|node| graph::Row { drawn: marks[node].0.to_string(), node: Some(node) });
    let rows = graph::drawn(&waits_for(steps), |node| marks[node].0);
    let can_be_read = |rows: &Vec<graph::Row>| {
        let widest = rows.iter().map(|row| row.drawn.chars().count()).max().unwrap_or(0);
        width.is_none_or(|width| widest <= width / 3)
    };
    let (rows, is_drawn) = match rows.filter(can_be_read) {
        Some(rows) => (rows, true),
        None => (alone().collect(), false),
    };
    let lines = rows.into_iter().map(|row| {
        let Some((node, step)) = row.node.and_then(|node| Some((node, steps.get(node)?))) else {
            return vec![row.drawn];
        };
        let said = step.error.as_deref().unwrap_or(&step.description);
        let mut line = vec![row.drawn, table::clean(&step.id), marks[node].1.to_owned()];
        if is_wide {
            line.extend([step.agent.clone(), if step.critical { "yes" } else { "" }.to_owned()]);
        }
        if is_wide || !is_drawn {
            line.push(table::clean(&step.dependencies.join(", ")));
        }
        line.push(table::fit(said, if width.is_some() { 60 } else { usize::MAX }));
        line
    });
    let mut header = vec!["", "STEP", "STATUS"];
    if is_wide {
        header.extend(["AGENT", "CRITICAL"]);
    }
    if is_wide || !is_drawn {
        header.push("AFTER");
    }
    header.push("DESCRIPTION");
    let text = table::rows(&header, lines);
    match width {
        Some(width) => {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.iter_mut().for_each(|line| table::cut(line, width));
            lines.join("\n")
        }
        None => text,
    }
}

/// How a step is drawn and called.
fn state(run: &Run, index: usize, step: &Step) -> (char, &'static str) {
    if run.asks_at(index) {
        return ('◇', run.step_called(index));
    }
    let mark = match step.status {
        StepStatus::Pending | StepStatus::Ready => '○',
        StepStatus::Running => '◐',
        StepStatus::Completed => '●',
        StepStatus::Failed => '✗',
        StepStatus::Blocked => '⊘',
    };
    (mark, run.step_called(index))
}

fn waits_for(steps: &[Step]) -> Vec<Vec<usize>> {
    let at: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(index, step)| (step.id.as_str(), index)).collect();
    let indexes =
        |step: &Step| step.dependencies.iter().filter_map(|id| at.get(id.as_str()).copied()).collect();
    steps.iter().map(indexes).collect()
}

/// Names in graphs are ours, because ids are anybody's: `s0`, `s1`.
fn edges(run: &Run, arrow: &str) -> Vec<String> {
    let waits_for = waits_for(&run.plan.steps);
    let lines = waits_for
        .iter()
        .enumerate()
        .flat_map(|(step, others)| others.iter().map(move |other| format!("  s{other} {arrow} s{step}")));
    lines.collect()
}

/// What stands in a step's box: its id and status, and its description on a second line.
fn label(run: &Run, index: usize, step: &Step, newline: &str, escape: impl Fn(&str) -> String) -> String {
    let (_, status) = state(run, index, step);
    let agent = &step.agent;
    format!(
        "{}{newline}{}",
        escape(&format!("{} · {status} · {agent}", step.id)),
        escape(&table::short(&step.description, 60))
    )
}

fn colour(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending | StepStatus::Ready => "white",
        StepStatus::Running => "lightblue",
        StepStatus::Completed => "palegreen",
        StepStatus::Failed => "lightcoral",
        StepStatus::Blocked => "lightgrey",
    }
}

fn dot(run: &Run) -> String {
    let escape = |text: &str| table::short(text, 200).replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines = vec![
        format!("digraph \"{}\" {{", escape(run.spec.id.as_str())),
        "  node [shape=box, style=filled, fillcolor=white];".to_owned(),
    ];
    for (index, step) in run.plan.steps.iter().enumerate() {
        let (label, colour) = (label(run, index, step, "\\n", escape), colour(step.status));
        let critical = if step.critical { ", penwidth=2" } else { "" };
        lines.push(format!("  s{index} [label=\"{label}\", fillcolor={colour}{critical}];"));
    }
    lines.extend(edges(run, "->").into_iter().map(|edge| format!("{edge};")));
    lines.push("}".to_owned());
    lines.join("\n")
}

fn mermaid(run: &Run) -> String {
    let escape = |text: &str| {
        let text = table::short(text, 200);
        let letters = text.chars().map(|letter| match letter {
            '"' | '<' | '>' | '&' | '#' | '`' => format!("#{};", u32::from(letter)),
            plain => plain.to_string(),
        });
        letters.collect::<String>()
    };
    let mut lines = vec!["flowchart TD".to_owned()];
    for (index, step) in run.plan.steps.iter().enumerate() {
        lines.push(format!("  s{index}[\"{}\"]", label(run, index, step, "<br/>", escape)));
    }
    lines.extend(edges(run, "-->"));
    for (index, step) in run.plan.steps.iter().enumerate() {
        lines.push(format!("  style s{index} fill:{}", colour(step.status)));
    }
    lines.join("\n")
}
