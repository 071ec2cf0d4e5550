//! Which hosts commands and `fetch` may talk to.
//!
//! Owns the rules, and reading a host from what a program asks for. Everything is compared label by label after parsing;
//! what cannot be read as a plain name is no host. Refuses addresses in place of names: where a name leads is looked at when
//! it is resolved, and only public addresses are gone to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits;

/// A name in lower case, as its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(Vec<String>);

impl HostName {
    pub(super) fn parse(text: &str) -> Option<HostName> {
        if text.len() > limits::HOST_BYTES_MAX {
            return None;
        }
        let labels: Vec<String> = text.split('.').map(str::to_ascii_lowercase).collect();
        // A name whose last label is a number is an address to many resolvers, in one spelling or another.
        let is_address = labels.last().is_none_or(|last| is_number(last));
        (labels.iter().all(|label| is_label(label)) && !is_address).then_some(HostName(labels))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

fn is_label(label: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    (1..=63).contains(&label.len()) && label.chars().all(plain) && !label.starts_with('-')
}

fn is_number(label: &str) -> bool {
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix));
    digits(label, 10) || label.strip_prefix("0x").is_some_and(|rest| rest.is_empty() || digits(rest, 16))
}

/// One host that may be talked to: `example.com`, `*.example.com` for all below it, with `:PORT` for another than 443.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    /// Every name below, and not the name itself.
    below: bool,
    labels: Vec<String>,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host: give a name like `example.com`, `*.example.com` or `example.com:8443`")]
pub struct NotAHost(pub String);

impl FromStr for Rule {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Rule, NotAHost> {
        let wrong = || NotAHost(text.chars().take(limits::HOST_BYTES_MAX).collect());
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port_of(port).ok_or_else(wrong)?),
            None => (text, 443),
        };
        let (below, name) = match name.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let HostName(labels) = HostName::parse(name).ok_or_else(wrong)?;
        // `*.com` is no host of anybody's.
        if below && labels.len() < 2 {
            return Err(wrong());
        }
        Ok(Rule { below, labels, port })
    }
}

impl Rule {
    fn allows(&self, host: &HostName, port: u16) -> bool {
        let HostName(labels) = host;
        let named = match self.below {
            true => labels.len() > self.labels.len() && labels.ends_with(&self.labels),
            false => *labels == self.labels,
        };
        named && port == self.port
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.labels.join("."))?;
        if self.port == 443 { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl TryFrom<String> for Rule {
    type Error = NotAHost;

    fn try_from(text: String) -> Result<Rule, NotAHost> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> String {
        rule.to_string()
    }
}

/// What a program asks to be connected to, if that can be read and one of the rules allows it.
pub(crate) fn admitted(rules: &[Rule], target: &[u8]) -> Result<(HostName, u16), &'static str> {
    let target = std::str::from_utf8(target).map_err(|_| "not a host")?;
    let (name, port) = target.rsplit_once(':').ok_or("no port")?;
    let port = port_of(port).ok_or("not a port")?;
    let host = HostName::parse(name).ok_or("not a host name")?;
    match rules.iter().any(|rule| rule.allows(&host, port)) {
        true => Ok((host, port)),
        false => Err("not allowed by permissions.network"),
    }
}

fn port_of(text: &str) -> Option<u16> {
    // Parsing alone would take a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// Is this an address of the public network? Everything else is this machine, its neighbours, or a way to them.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Of what is assigned, the global unicast range; in it, the ways back to IPv4 and what is for documents.
    (0x2000..=0x3fff).contains(&a)
        && a != 0x2002
        && !(a == 0x2001 && (b < 0x200 || b == 0xdb8))
        && !(a == 0x3fff && b < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// A42: whole labels of a parsed name, and nothing that only looks like it.
    #[test]
    fn hosts_are_compared_label_by_label() {
        let rules = rules(&["api.good", "*.wide.example", "other.good:8443"]);
        for target in
            ["api.good:443", "API.Good:443", "a.wide.example:443", "a.b.wide.example:443", "other.good:8443"]
        {
            assert!(admitted(&rules, target.as_bytes()).is_ok(), "{target}");
        }
        let refused: &[&[u8]] = &[
            b"api.good.evil:443",
            b"evil-api.good:443",
            b"evil.api.good:443",
            b"api.good@evil:443",
            b"evil#api.good:443",
            b"evil\0.wide.example:443",
            b"api.good\0:443",
            b"api.good.:443",
            b".wide.example:443",
            b"wide.example:443",
            b"evilwide.example:443",
            b"api.good:80",
            b"other.good:443",
            b"api.good",
            b"api.good:",
            b"api.good:+443",
            b"api.good:00443x",
            b"api.good:443:443",
            b"[::ffff:127.0.0.1]:443",
            b"127.0.0.1:443",
            b"2130706433:443",
            b"0x7f000001:443",
            b"0177.0.0.1:443",
            b"%61pi.good:443",
            "аpi.good:443".as_bytes(),
            b"\xff.wide.example:443",
            b" api.good:443",
            b"",
        ];
        for target in refused {
            assert!(admitted(&rules, target).is_err(), "{}", String::from_utf8_lossy(target));
        }
    }

    /// A44: no rule allows nothing, and a rule is a host.
    #[test]
    fn a_rule_is_a_host() {
        assert!(admitted(&[], b"api.good:443").is_err());
        for text in [
            "",
            "*",
            "*.",
            "*.com",
            "a.*.b",
            "10.0.0.1",
            "0x7f.1",
            "good:0",
            "good:x",
            "http://good",
            "a b",
            "a..b",
            "ж.рф",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
        for text in ["api.good", "*.wide.example", "other.good:8443", "localhost"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
    }

    /// A43: what a name leads to is gone to only if it is public.
    #[test]
    fn only_public_addresses_are_gone_to() {
        let refused = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
        ];
        for text in refused {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.169.0.1", "2606:4700::1111", "2a00:1450::1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
