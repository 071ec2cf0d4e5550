//! Keys that the settings of a repository hold: in addresses, and in what is sent along.
//!
//! Owns finding them, so that they are handed on to nobody and struck out of what is kept. Refuses to take everything before a host
//! for one: `git@` is said everywhere, and what is struck out is gone from every text that has it.

use std::path::Path;

use crate::checkout::split;
use crate::git::Git;
use crate::limits;

/// Those in the settings of the repository at `top`, or around it; none if git cannot tell.
pub fn of(top: &Path) -> Vec<String> {
    let listed = Git::at(top).printing_much().bytes(&["config", "--list", "--null"]).unwrap_or_default();
    let pairs = split(&listed).map(|pair| match pair.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&pair[..end], &pair[end + 1..]),
        None => (pair, &[][..]),
    });
    let keys = pairs.flat_map(|(name, value)| {
        [name, value].into_iter().flat_map(in_address).chain([sent_along(name, value)])
    });
    keys.flatten().filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect()
}

/// A token in a header, as `AUTHORIZATION: basic …`.
fn sent_along<'a>(name: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let is_header = name.starts_with(b"http.") && name.ends_with(b".extraheader");
    value.rsplit(|byte| *byte == b' ').next().filter(|_| is_header)
}

/// The password in an address, and a name that is as long as a token.
fn in_address(value: &[u8]) -> [Option<&[u8]>; 2] {
    let Some((start, end)) = before_host(value) else { return [None, None] };
    let mut who = value[start..end].splitn(2, |byte| *byte == b':');
    let name = who.next().filter(|name| name.len() >= limits::TOKEN_BYTES_MIN);
    [name, who.next()]
}

/// Where it is said who asks, in `https://user:password@host/`.
fn before_host(value: &[u8]) -> Option<(usize, usize)> {
    let start = value.windows(3).position(|word| word == b"://")? + 3;
    let end = value[start..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let end = end.map_or(value.len(), |end| start + end);
    let host = value[start..end].iter().rposition(|byte| *byte == b'@')?;
    Some((start, start + host))
}

/// An address without what is said before its host, if that may be a password or a token.
pub(crate) fn without_key(value: &[u8]) -> Vec<u8> {
    let Some((start, host)) = before_host(value) else { return value.to_vec() };
    let is_web = value[..start].ends_with(b"http://") || value[..start].ends_with(b"https://");
    let who = &value[start..host];
    let kept = match who.iter().position(|byte| *byte == b':') {
        _ if is_web => return [&value[..start], &value[host + 1..]].concat(),
        Some(name) => &who[..name],
        None => who,
    };
    [&value[..start], kept, &value[host..]].concat()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn keys_are_found_and_names_are_not() {
        let place = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            assert!(git.args(words).current_dir(place.path()).status().unwrap().success());
        };
        git(&["init", "--quiet"]);
        for (name, value) in [
            ("remote.a.url", "https://user:hunter2hunter@example.com/a.git"),
            ("remote.b.url", "https://ghp_0123456789abcdef0123@example.com/a.git"),
            ("remote.e.url", "https://ghp_fedcba9876543210fedc:x-oauth-basic@example.com/a.git"),
            ("remote.c.url", "ssh://git@example.com/a.git"),
            ("remote.d.url", "https://user@example.com/a@b:c"),
            ("http.https://example.com/.extraheader", "AUTHORIZATION: basic dXNlcjpwYXNz"),
            ("url.https://x:second-key@example.com/.insteadOf", "gh:"),
        ] {
            git(&["config", "--local", name, value]);
        }
        let mut found = of(place.path());
        found.sort();
        assert_eq!(
            found,
            [
                "dXNlcjpwYXNz",
                "ghp_0123456789abcdef0123",
                "ghp_fedcba9876543210fedc",
                "hunter2hunter",
                "second-key",
                "x-oauth-basic",
            ]
        );
    }
}
