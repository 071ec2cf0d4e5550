//! How an agent is kept on course, from what was typed, its file and the settings.

use longhaul_agents::{Agent, Engine};
use longhaul_core::conduct::{Compaction, Conduct, Judge, Looping, Protect, ProtectPolicy, Surroundings};

use super::create::settled_model;
use crate::app::App;
use crate::failure::Failure;
use crate::settings::Settings;

/// What must hold before the work counts as done.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConductArgs {
    /// A command that must succeed before an end counts; longhaul runs it itself, in the sandbox. May be given several times
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// Files the agent is not to change, as globs; changes to them are in the result
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub protect: Vec<String>,
    /// What happens to changes of protected files: `report` names them, `refuse` undoes them and tells the agent
    #[arg(long, value_name = "report|refuse")]
    pub protect_policy: Option<ProtectArg>,
    /// A model that must agree that the work is done; it is shown the task and the evidence, and changes nothing
    #[arg(long, value_name = "P/M")]
    pub judge: Option<String>,
    /// Something that must be true of the work, for the judge. May be given several times
    #[arg(long, value_name = "TEXT", requires = "judge")]
    pub accept: Vec<String>,
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
    let typed = args.judge.as_ref().map(|name| settled_model(name, &app.cwd));
    let of_file = || agent.judge.as_ref().map(|name| settled_model(name, &app.project));
    let judge = typed.or_else(of_file).map(|model| Judge { model, acceptance: args.accept.clone() });
    let verify = [agent.verify.as_deref().unwrap_or(&[]), &args.verify].concat();
    let globs = [agent.protect.as_deref().unwrap_or(&[]), &args.protect].concat();
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
    longhaul_tools::check_globs(&globs, &app.project)
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
