//! Which values are secrets, going by what they are called and how they look. Nothing here holds one.

use crate::limits::RANDOM_BYTES_MIN;

/// Is this value a secret? Headers and variables also say `x-team: platform`, and a word like that must not be struck out of
/// every file it stands in.
pub fn is_secret(name: &str, value: &str) -> bool {
    const TELLING: [&str; 9] =
        ["auth", "cookie", "credential", "key", "pass", "secret", "session", "signature", "token"];
    let name = name.to_lowercase();
    let is_place = value.starts_with('/') || value.contains("://");
    let is_mixed = !is_place
        && value.chars().any(|letter| letter.is_ascii_digit())
        && value.chars().any(|letter| letter.is_ascii_alphabetic())
        && !value.contains(char::is_whitespace);
    TELLING.iter().any(|word| name.contains(word)) || (is_mixed && value.len() >= RANDOM_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    /// A name that tells, or a look of chance; neither a word nor a place.
    #[test]
    fn secrets_are_known_by_name_or_look() {
        assert!(is_secret("GITHUB_TOKEN", "x") && is_secret("x-team", "r4nd0mr4nd0mr4nd0mr4nd0m"));
        for (name, value) in [
            ("x-team", "platform"),
            ("ROOT", "/home/user/projects/number1"),
            ("URL", "https://service.example/v2/things"),
            ("WORDS", "the year 2001 and what came"),
        ] {
            assert!(!is_secret(name, value), "{name} {value}");
        }
    }
}
