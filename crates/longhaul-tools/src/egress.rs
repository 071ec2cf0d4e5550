//! Which places on the network may be reached.
//!
//! Owns the user's list of hosts and what it means: a name is matched label by label, a port is 80 or 443 unless the rule says
//! otherwise, and an address that is not of the open internet must be on the list itself, whichever name led there. Whoever
//! connects asks twice, for the name and for the address, and connects to that address. Refuses to resolve or connect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::limits;

/// Ports of a rule that names none.
const PORTS: [u16; 2] = [80, 443];

/// The hosts that may be reached. Empty, as by default, it permits none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<HostRule>);

/// `example.com`, `*.example.com`, `192.168.1.7`, `[::1]`; each may end in `:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(String),
    /// All names below this one, not itself.
    Below(String),
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error(
        "`{rule}` is not a host; write `example.com`, `*.example.com` or an address, each with `:PORT` if wished"
    )]
    NotHost { rule: String },
    #[error("there are {count} hosts, at most {}", limits::HOST_RULES_MAX)]
    TooMany { count: usize },
}

impl Hosts {
    pub fn new<S: AsRef<str>>(rules: &[S]) -> Result<Hosts, RuleError> {
        if rules.len() > limits::HOST_RULES_MAX {
            return Err(RuleError::TooMany { count: rules.len() });
        }
        rules.iter().map(|rule| rule.as_ref().parse()).collect::<Result<_, _>>().map(Hosts)
    }

    /// May this name, or this address written as one, be asked for at this port?
    pub fn permit_name(&self, name: &str, port: u16) -> bool {
        let asked = Host::parse(name);
        asked.is_some_and(|asked| self.0.iter().any(|rule| rule.has_port(port) && rule.host.covers(&asked)))
    }

    /// May this address be connected to, once a permitted name led to it?
    pub fn permit_address(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let listed = |rule: &HostRule| rule.host == Host::Address(ip) && rule.has_port(address.port());
        is_open(ip) || self.0.iter().any(listed)
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> = self.0.iter().map(HostRule::to_string).collect();
        f.write_str(&rules.join(", "))
    }
}

impl HostRule {
    fn has_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| PORTS.contains(&port), |only| only == port)
    }
}

impl FromStr for HostRule {
    type Err = RuleError;

    fn from_str(rule: &str) -> Result<HostRule, RuleError> {
        let wrong = || RuleError::NotHost { rule: rule.chars().take(80).collect() };
        // The last colon of an address in brackets, or the only one of anything else.
        let (host, port) = match rule.rsplit_once(':') {
            Some((host, port)) if host.ends_with(']') || !host.contains(':') => {
                (host, Some(port.parse().map_err(|_| wrong())?))
            }
            Some(_) | None => (rule, None),
        };
        let below = host.strip_prefix("*.").map(|name| match Host::parse(name) {
            Some(Host::Name(name)) => Ok(Host::Below(name)),
            Some(Host::Below(_) | Host::Address(_)) | None => Err(wrong()),
        });
        let host = below.transpose()?.or_else(|| Host::parse(host)).ok_or_else(wrong)?;
        Ok(HostRule { host, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Below(name) => write!(f, "*.{name}")?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Host {
    /// A name in the letters that DNS has, or an address. What is neither permits nothing and is permitted nothing.
    fn parse(text: &str) -> Option<Host> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Host::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
        // A last label of digits is an address in one of its stranger spellings.
        let numeric = name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()));
        (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(Host::Name(name))
    }

    fn covers(&self, asked: &Host) -> bool {
        match (self, asked) {
            (Host::Below(top), Host::Name(name)) => {
                name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'))
            }
            (rule, asked) => rule == asked,
        }
    }
}

/// Is this an address of the open internet, and not of this machine, its neighbours, or nobody?
fn is_open(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_open_v4(ip),
        IpAddr::V6(ip) => is_open_v6(ip),
    }
}

fn is_open_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let reserved = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b));
    !(reserved
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation())
}

/// Only the addresses given out to the world, less those that lead elsewhere by another address inside them.
fn is_open_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let given_out = first & 0xe000 == 0x2000;
    let tunnel = first == 0x2002 || (first == 0x2001 && second < 0x0200);
    let documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    given_out && !tunnel && !documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A42: names are compared whole, label by label, whatever their letters look like.
    #[test]
    fn names_are_exact() {
        let hosts = Hosts::new(&["api.good", "*.wide.example"]).unwrap();
        for name in ["api.good", "API.GOOD", "api.good.", "a.wide.example", "a.b.wide.example"] {
            assert!(hosts.permit_name(name, 443), "{name}");
        }
        for name in [
            "api.good.evil",
            "evil-api.good",
            "evilapi.good",
            "good",
            "wide.example",
            "evilwide.example",
            "api.good\0",
            "api.good\0.evil",
            "api.good@evil",
            "evil#api.good",
            "аpi.good",
            "",
            ".",
            "api..good",
        ] {
            assert!(!hosts.permit_name(name, 443), "{name:?}");
        }
        assert!(hosts.permit_name("api.good", 80) && !hosts.permit_name("api.good", 8080));
    }

    /// A44: nothing is permitted by an empty list, and no rule permits everything.
    #[test]
    fn there_is_no_rule_for_everything() {
        assert!(!Hosts::default().permit_name("example.com", 443));
        for rule in [
            "*",
            "*.",
            "",
            "**",
            "a*.example",
            "*.*.example",
            "http://example.com",
            "example.com/x",
            "a b",
            "*.127.0.0.1",
            "x:99999",
            "0x7f.1",
            "127.1",
        ] {
            assert!(Hosts::new(&[rule]).is_err(), "{rule:?}");
        }
    }

    /// A43: what is not of the open internet has to be listed, with its port, whoever led there.
    #[test]
    fn addresses_that_are_not_open_must_be_listed() {
        let none = Hosts::default();
        for closed in [
            "127.0.0.1:80",
            "10.1.2.3:80",
            "172.16.0.1:80",
            "192.168.0.1:80",
            "169.254.169.254:80",
            "0.0.0.0:80",
            "100.64.0.1:80",
            "198.18.0.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[fc00::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::127.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            "[2002:7f00:1::]:80",
            "[2001:0:1::]:80",
            "[ff02::1]:80",
        ] {
            assert!(!none.permit_address(closed.parse().unwrap()), "{closed}");
        }
        for open in ["93.184.216.34:443", "[2606:2800:220:1::1]:443", "8.8.8.8:1"] {
            assert!(none.permit_address(open.parse().unwrap()), "{open}");
        }
        let listed = Hosts::new(&["127.0.0.1:8080", "[::1]", "192.168.0.1"]).unwrap();
        assert!(listed.permit_address("127.0.0.1:8080".parse().unwrap()));
        assert!(listed.permit_address("[::ffff:127.0.0.1]:8080".parse().unwrap()));
        assert!(!listed.permit_address("127.0.0.1:80".parse().unwrap()));
        assert!(listed.permit_name("[::1]", 80) && listed.permit_name("127.0.0.1", 8080));
        assert_eq!(listed.to_string(), "127.0.0.1:8080, [::1], 192.168.0.1");
    }
}
