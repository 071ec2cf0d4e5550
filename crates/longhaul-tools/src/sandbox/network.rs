//! What a command reaches of other machines.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::hosts::{NotAHost, Rule};
use crate::limits;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Given", into = "Given")]
pub enum Network {
    /// Nothing but a loopback of its own.
    #[default]
    None,
    /// These hosts, through a proxy of ours, and a loopback of its own.
    Hosts(Arc<[Rule]>),
    /// Everything the machine reaches, the services on its own loopback included.
    Full,
}

impl Network {
    /// Is everything that this reaches also reached by the other?
    pub fn is_within(&self, other: &Network) -> bool {
        match (self, other) {
            (Network::None, _) | (_, Network::Full) => true,
            (Network::Hosts(these), Network::Hosts(those)) => these.iter().all(|rule| those.contains(rule)),
            (Network::Hosts(_), Network::None) | (Network::Full, Network::None | Network::Hosts(_)) => false,
        }
    }

    /// In few words, for a line.
    pub fn in_short(&self) -> String {
        let Network::Hosts(rules) = self else { return format!("{self} network").replace("none", "no") };
        let shown = rules.iter().take(limits::HOSTS_SHOWN_MAX).map(Rule::to_string).collect::<Vec<_>>();
        let more = match rules.len().saturating_sub(limits::HOSTS_SHOWN_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("network {}{more}", shown.join(", "))
    }

    fn of(rules: Vec<Rule>) -> Network {
        // A list without hosts allows none: it is not everything.
        if rules.is_empty() { Network::None } else { Network::Hosts(rules.into()) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::None => f.write_str("none"),
            Network::Full => f.write_str("full"),
            Network::Hosts(rules) => {
                f.write_str(&rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; a network is none, full, or a list of hosts")]
pub struct UnknownNetwork(#[from] NotAHost);

impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(text: &str) -> Result<Network, UnknownNetwork> {
        match text.trim() {
            "none" => Ok(Network::None),
            "full" => Ok(Network::Full),
            hosts => {
                Ok(Network::of(hosts.split(',').map(|host| host.trim().parse()).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// How it stands in settings: a word, or a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Given {
    Word(String),
    List(Vec<String>),
}

impl TryFrom<Given> for Network {
    type Error = UnknownNetwork;

    fn try_from(given: Given) -> Result<Network, UnknownNetwork> {
        match given {
            Given::Word(word) => word.parse(),
            Given::List(hosts) => {
                Ok(Network::of(hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>()?))
            }
        }
    }
}

impl From<Network> for Given {
    fn from(network: Network) -> Given {
        match network {
            Network::None | Network::Full => Given::Word(network.to_string()),
            Network::Hosts(rules) => Given::List(rules.iter().map(Rule::to_string).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    /// A44: a list is what is in it; less is within more, and never the other way round.
    #[test]
    fn a_network_is_a_word_or_a_list() {
        for (json, text) in [
            ("\"none\"", "none"),
            ("\"full\"", "full"),
            ("[]", "none"),
            ("[\"a.b\",\"*.c.d:8443\"]", "a.b,*.c.d:8443"),
        ] {
            let read: Network = serde_json::from_str(json).unwrap();
            assert_eq!((&read, read.to_string().as_str()), (&network(text), text));
        }
        for json in ["\"\"", "\"*\"", "[\"*\"]", "\"all\\u0000\"", "[\"10.0.0.1\"]", "true"] {
            assert!(serde_json::from_str::<Network>(json).is_err(), "{json}");
        }
        let [none, one, two, full] = ["none", "a.b", "a.b,c.d", "full"].map(network);
        for (less, more) in [(&none, &one), (&one, &two), (&two, &full), (&none, &full)] {
            assert!(less.is_within(more) && !more.is_within(less) && less.is_within(less));
        }
        assert_eq!(none.in_short(), "no network");
        assert_eq!(full.in_short(), "full network");
        assert_eq!(
            network("a.b,c.b,d.b,e.b,f.b,g.b,h.b").in_short(),
            "network a.b, c.b, d.b, e.b, f.b and 2 more"
        );
    }
}
