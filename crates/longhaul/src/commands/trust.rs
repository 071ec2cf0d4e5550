//! `trust`: what this repository's settings would do, and the user's word on it.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::insider;
use crate::render;
use crate::trust::{Item, digest};

/// See what this repository's longhaul.yaml would run or send, and trust exactly that
#[derive(Debug, clap::Args)]
#[command(after_help = "\
MCP servers, hooks, the search provider and model providers in a repository's longhaul.yaml, and a switched off journal, do \
nothing until you trust them. Trust is for exactly what is shown: any change of it needs your word again. `--trust` or \
LONGHAUL_TRUST=1 trusts for one command, also the state directory that came with the repository.")]
pub struct Args {
    /// Do not ask
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub yes: bool,
    /// List the repositories you trust
    #[arg(long, conflicts_with = "revoke")]
    pub list: bool,
    /// Trust this repository, or the one at PATH, no longer
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub revoke: Option<Option<PathBuf>>,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    if args.list {
        return list(app);
    }
    if let Some(path) = args.revoke {
        return revoke(app, path);
    }
    refuse_agents("trust a repository")?;
    let items = app.settings_quietly()?.items;
    if items.is_empty() {
        render::talk("this repository's longhaul.yaml has nothing that needs trust");
        return Ok(Exit::Ok);
    }
    let trusted = app.book().trust(&app.project).covers(&items);
    show(app, &items, trusted);
    if trusted {
        render::talk("you trust this already");
        return Ok(Exit::Ok);
    }
    if !args.yes && !agreed("Trust exactly this? It runs with your rights and your keys. [y/N]")? {
        return Err(
            Failure::usage("nothing is trusted").hint("`longhaul trust --yes` trusts it without asking")
        );
    }
    app.book().agree(&app.project, &items)?;
    render::talk(&format!("trusted, until any of it changes: {}", app.project.display()));
    Ok(Exit::Ok)
}

/// What only a person may do is not done from inside a run. Who wants to get around this can; the sandbox is what keeps an
/// agent from it.
pub fn refuse_agents(what: &str) -> Result<(), Failure> {
    if insider::is_agents() {
        return Err(Failure::usage(format!(
            "an agent cannot {what}: this was started by one of its commands"
        )));
    }
    Ok(())
}

fn show(app: &App, items: &[Item], trusted: bool) {
    if app.json() {
        let shown: Vec<Value> =
            items.iter().map(|item| json!({ "key": item.key, "does": item.does })).collect();
        render::json(&json!({ "trusted": trusted, "digest": digest(items), "items": shown }));
        return;
    }
    for item in items {
        render::data(&item.key);
        for line in &item.does {
            render::data(&format!("    {line}"));
        }
    }
}

/// Puts a question to whoever sits at the terminal. Where nobody does, nobody agrees.
pub fn agreed(question: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(false);
    }
    render::talk(question);
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn list(app: &App) -> Result<Exit, Failure> {
    let all = app.book().all()?;
    if app.json() {
        render::json(&all);
        return Ok(Exit::Ok);
    }
    for (path, entry) in all {
        render::data(&format!("{}: {}", path.display(), entry.items.join(", ")));
    }
    Ok(Exit::Ok)
}

fn revoke(app: &App, path: Option<PathBuf>) -> Result<Exit, Failure> {
    let project = path.map_or_else(|| app.project.clone(), |path| app.cwd.join(path));
    let was = app.book().revoke(&project)?;
    let word = if was { "no longer trusted" } else { "was not trusted" };
    render::talk(&format!("{word}: {}", project.display()));
    Ok(Exit::Ok)
}
