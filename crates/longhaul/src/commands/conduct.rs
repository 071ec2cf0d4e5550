//! How an agent is kept on course, from what was typed, its file and the settings.

use longhaul_agents::{Agent, Engine};
use longhaul_core::conduct::{
    Checks, Compaction, Conduct, Judge, Looping, Protect, ProtectPolicy, Surroundings,
};
use longhaul_core::ids::RunId;
use longhaul_engine::Harness;

use super::create::{check_model, settled_model};
use crate::app::App;
use crate::failure::Failure;
use crate::settings::Settings;

/// What must hold before the work counts as done.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConductArgs {
    #[command(flatten)]
    pub checks: CheckArgs,
    /// Files the agent is not to change, as globs; changes to them are in the result
    #[arg(long, value_name = "GLOBS")]
    pub protect: Vec<String>,
    /// What happens to changes of protected files: `report` names them, `refuse` undoes them and tells the agent
    #[arg(long, value_name = "report|refuse")]
    pub protect_policy: Option<ProtectArg>,
}

/// What of it can be changed when a run is resumed; commands replace those there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct CheckArgs {
    /// A command that must succeed before an end counts; longhaul runs it itself, in the sandbox. May be given several times
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// A model that must agree that the work is done; it is shown the task and the evidence, and changes nothing
    #[arg(long, value_name = "P/M")]
    pub judge: Option<String>,
    /// Something that must be true of the work, for the judge. May be given several times
    #[arg(long, value_name = "TEXT", requires = "judge")]
    pub accept: Vec<String>,
}

impl CheckArgs {
    /// What a run that is taken up is to be told; nothing if nothing was given.
    pub fn change(&self, app: &App, harness: &Harness, id: &RunId) -> Result<Option<Checks>, Failure> {
        if *self == CheckArgs::default() {
            return Ok(None);
        }
        let run = harness.look(id)?;
        let judge = self.judge.as_ref().map(|name| settled_model(name, &app.cwd));
        if let Some(name) = &judge {
            check_model(&harness.models, name, &run.spec.limits)?;
        }
        // Another judge of the same work, unless it is said what else it goes by.
        let before = run.spec.conduct().judge.as_ref().map(|judge| judge.acceptance.clone());
        let acceptance = match self.accept.is_empty() {
            true => before.unwrap_or_default(),
            false => self.accept.clone(),
        };
        let judge = judge.map(|model| Judge { model, acceptance });
        let checks = Checks { verify: Some(self.verify.clone()).filter(|verify| !verify.is_empty()), judge };
        let conduct = run.spec.conduct().clone().checked_by(checks.clone());
        conduct.check().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Some(checks))
    }

    /// The same as it would be typed, for another process.
    pub fn typed(&self, app: &App) -> Vec<String> {
        let verify = self.verify.iter().map(|command| format!("--verify={command}"));
        let judge = self.judge.iter().map(|name| format!("--judge={}", settled_model(name, &app.cwd)));
        let accept = self.accept.iter().map(|text| format!("--accept={text}"));
        verify.chain(judge).chain(accept).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProtectArg {
    Report,
    Refuse,
}

impl ProtectArg {
    fn policy(self) -> ProtectPolicy {
        match self {
            ProtectArg::Report => ProtectPolicy::Report,
            ProtectArg::Refuse => ProtectPolicy::Refuse,
        }
    }
}

/// Globs between commas; a comma in braces is the glob's own.
fn apart(globs: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0usize, vec![String::new()]);
    for letter in globs.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if letter != ',' || depth > 0 => part.push(letter),
            Some(_) | None => parts.push(String::new()),
        }
    }
    parts
}

/// Everything about a run's conduct: what was typed goes beside what the agent's file asks for, and over it where only one can
/// be.
pub fn settled(
    app: &App,
    settings: &Settings,
    args: &ConductArgs,
    agent: &Agent,
    looping: Option<Looping>,
    surroundings: Surroundings,
) -> Result<Conduct, Failure> {
    let checks = &args.checks;
    let typed = checks.judge.as_ref().map(|name| settled_model(name, &app.cwd));
    let of_file = || agent.judge.as_ref().map(|name| settled_model(name, &app.project));
    let acceptance = [agent.accept.as_deref().unwrap_or(&[]), &checks.accept].concat();
    let judge = typed.or_else(of_file).map(|model| Judge { model, acceptance });
    let verify = [agent.verify.as_deref().unwrap_or(&[]), &checks.verify].concat();
    let typed: Vec<String> = args.protect.iter().flat_map(|globs| apart(globs)).collect();
    let globs = [agent.protect.as_deref().unwrap_or(&[]), &typed].concat();
    let of_file = agent.protect_policy.map(|policy| match policy {
        longhaul_agents::ProtectPolicy::Report => ProtectPolicy::Report,
        longhaul_agents::ProtectPolicy::Refuse => ProtectPolicy::Refuse,
    });
    if args.protect_policy.is_some() && globs.is_empty() {
        return Err(Failure::usage(
            "--protect-policy says what happens to protected files, and there are none",
        )
        .hint("name them with `--protect GLOBS`"));
    }
    longhaul_tools::check_globs(&typed, &app.project)
        .map_err(|why| Failure::usage(format!("--protect: {why}")))?;
    let policy = args.protect_policy.map(ProtectArg::policy).or(of_file).unwrap_or_default();
    let protect = (!globs.is_empty()).then_some(Protect { globs, policy });
    let compaction =
        Some(settings.compaction.clone()).filter(|compaction| *compaction != Compaction::default());
    let conduct = Conduct {
        looping,
        verify,
        protect,
        compaction,
        judge,
        repeats_max: agent.harness_config.doom_loop_threshold,
        plain: (agent.engine == Some(Engine::Plain)).then_some(true),
        surroundings: Some(surroundings),
    };
    conduct.check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(conduct)
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn globs_are_parted_at_commas_that_are_not_in_braces() {
        for (typed, globs) in [
            ("tests/**", vec!["tests/**"]),
            ("a,b/*.rs", vec!["a", "b/*.rs"]),
            ("tests/{a,b}.txt", vec!["tests/{a,b}.txt"]),
            ("x/{a,{b,c}}/y,z", vec!["x/{a,{b,c}}/y", "z"]),
            ("", vec![""]),
        ] {
            assert_eq!(apart(typed), globs, "{typed}");
        }
    }
}
