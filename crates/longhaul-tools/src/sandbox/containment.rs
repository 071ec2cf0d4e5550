//! What holds a command, as it was found to be.
//!
//! Owns the words for it: the level that was asked for, the layers that are in force, and what is missing. Refuses to
//! claim a layer that the self-probe did not see.

use std::fmt;
use std::str::FromStr;

use super::network::Network;

/// How much is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// No containment: commands have the rights of whoever started us.
    Off,
    /// As much as the machine gives; what is missing is said.
    BestEffort,
    /// All of it, or nothing runs.
    #[default]
    Required,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Required, Mode::BestEffort, Mode::Off];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::BestEffort => "best_effort",
            Mode::Required => "required",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sandbox mode; there are: required, best_effort, off")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// How commands are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Bubblewrap around our own helper.
    Namespaces,
    /// Our own helper alone: the same processes, files and network, with less rights to them.
    Restrictions,
    /// A profile of macOS.
    Profile,
    None,
}

/// What is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    pub mode: Mode,
    pub wrapping: Wrapping,
    pub landlock: bool,
    pub seccomp: bool,
    pub network: Network,
    /// What was asked for and is not there, each as a sentence.
    pub missing: Vec<String>,
}

impl Containment {
    pub fn off(network: Network) -> Containment {
        let (landlock, seccomp) = (false, false);
        Containment {
            mode: Mode::Off,
            wrapping: Wrapping::None,
            landlock,
            seccomp,
            network,
            missing: Vec::new(),
        }
    }

    /// The layers by name.
    pub fn layers(&self) -> Vec<&'static str> {
        let wrapping: &[_] = match self.wrapping {
            Wrapping::Namespaces => &["namespaces", "limits"],
            Wrapping::Restrictions => &["limits"],
            Wrapping::Profile => &["profile"],
            Wrapping::None => &[],
        };
        let more = [("Landlock", self.landlock), ("seccomp", self.seccomp)];
        let more = more.into_iter().filter(|(_, there)| *there).map(|(name, _)| name);
        wrapping.iter().copied().chain(more).collect()
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mode == Mode::Off {
            return f.write_str("off: the agent's commands run with your rights");
        }
        let layers = self.layers();
        let layers = if layers.is_empty() { "nothing".to_owned() } else { layers.join(", ") };
        let network = match (&self.network, self.wrapping) {
            (Network::Full, _) | (_, Wrapping::None) => Network::Full.in_short(),
            (Network::Hosts(_), Wrapping::Restrictions | Wrapping::Profile) => Network::None.in_short(),
            (network, Wrapping::Namespaces | Wrapping::Restrictions | Wrapping::Profile) => {
                network.in_short()
            }
        };
        write!(f, "{} ({layers}; {network})", self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_said() {
        let full = Containment {
            mode: Mode::Required,
            wrapping: Wrapping::Namespaces,
            landlock: true,
            seccomp: true,
            network: Network::None,
            missing: Vec::new(),
        };
        assert_eq!(full.to_string(), "required (namespaces, limits, Landlock, seccomp; no network)");
        let open = Containment { network: Network::Full, landlock: false, ..full.clone() };
        assert_eq!(open.to_string(), "required (namespaces, limits, seccomp; full network)");
        let weak = Containment { mode: Mode::BestEffort, wrapping: Wrapping::Restrictions, ..full };
        assert_eq!(weak.to_string(), "best_effort (limits, Landlock, seccomp; no network)");
        let none = Containment { mode: Mode::BestEffort, ..Containment::off(Network::None) };
        assert_eq!(none.to_string(), "best_effort (nothing; full network)");
        assert_eq!("best_effort".parse(), Ok(Mode::BestEffort));
        assert_eq!("none".parse::<Mode>(), Err(UnknownMode("none".to_owned())));
    }
}
