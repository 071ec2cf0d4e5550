//! What holds the commands of a run, as it is typed, settled, proved and said.

use std::path::Path;

use longhaul_tools::sandbox::{Mode, Network, Refused, Sandbox};

use crate::app::App;
use crate::failure::Failure;
use crate::render;
use crate::settings::{Permissions, Settings};

/// How the agent's commands are held while this process drives the run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct HoldingArgs {
    /// What holds the agent's commands: required (or nothing runs), best_effort, off [default: permissions.sandbox]
    #[arg(long, value_name = "MODE")]
    pub sandbox: Option<Mode>,
    /// What they reach: none, hosts (example.com,*.example.org), or full, which is everything this machine does [default:
    /// permissions.network]
    #[arg(long, value_name = "none|full|HOSTS")]
    pub network: Option<Network>,
}

impl HoldingArgs {
    /// The same as it would be typed, for another process.
    pub fn typed(&self) -> Vec<String> {
        let sandbox = self.sandbox.map(|mode| format!("--sandbox={mode}"));
        let network = self.network.as_ref().map(|network| format!("--network={network}"));
        sandbox.into_iter().chain(network).collect()
    }

    /// What the settings say, with what was typed.
    pub fn over(&self, settings: &Settings) -> Permissions {
        let Permissions { sandbox, network } = settings.permissions.clone();
        let network = self.network.clone().unwrap_or(network);
        Permissions { sandbox: self.sandbox.unwrap_or(sandbox), network }
    }
}

/// The sandbox to drive with, proved.
pub fn hold(app: &App, settings: &Settings, args: &HoldingArgs) -> Result<Sandbox, Failure> {
    let sandbox = app.sandbox(args.over(settings))?;
    sandbox.prove().map_err(refused)?;
    Ok(sandbox)
}

/// Refuses a place to work in that cannot be held, before anything is paid for there.
pub fn check_place(sandbox: &Sandbox, place: &Path) -> Result<(), Failure> {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    sandbox.fits(&place).map_err(|error| {
        Failure::usage(error.to_string()).hint("work in a directory of its own, or without `--in-place`")
    })
}

/// Says what holds the commands of a run, and what is missing.
pub fn tell(sandbox: &Sandbox) -> Result<(), Failure> {
    let containment = sandbox.prove().map_err(refused)?;
    if sandbox.mode() == Mode::Off {
        render::warn(&format!("sandbox {containment}"));
    } else {
        render::talk(&format!("sandbox {containment}"));
    }
    for missing in &containment.missing {
        render::warn(&format!("sandbox: {missing}"));
    }
    Ok(())
}

/// What to do about a sandbox that cannot be had.
pub fn refused(refused: Refused) -> Failure {
    let hint = if refused.lacks_bubblewrap() {
        "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`), look closer with `longhaul doctor`, or \
         accept less with `--sandbox best_effort`"
    } else {
        "try again if the machine is busy, look closer with `longhaul doctor`, or accept less with `--sandbox best_effort`"
    };
    Failure::usage(refused.to_string()).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is told to install what is there.
    #[test]
    fn only_who_lacks_bubblewrap_is_told_to_install_it() {
        let hint = |why: &str| refused(Refused { missing: vec![why.to_owned()] }).hint.unwrap();
        assert!(hint("bubblewrap (bwrap) is not installed").starts_with("install bubblewrap"));
        let hung = hint("the self-probe hung: it gave no answer in 10 s");
        assert!(hung.starts_with("try again") && !hung.contains("install"), "{hung}");
    }
}
