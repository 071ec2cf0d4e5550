//! A page leads only to what is there: links of the tree's own pages to other files of it. Links to elsewhere are
//! nobody's business here.

use crate::problem::Problem;

/// Looks at one page; `exists` is asked with paths from the workspace's root.
pub(crate) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for target in targets(line) {
            let broken = match target.split_once('#') {
                Some(("", heading)) => !headings(text).any(|known| known == heading),
                Some((file, _)) => !exists(&resolved(folder, file)),
                None => !exists(&resolved(folder, target)),
            };
            if broken {
                problems.push(Problem::new(path, index + 1, format!("`{target}` leads nowhere")));
            }
        }
    }
    problems
}

/// What the links of a line lead to, but for other people's addresses.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The headings of a page, as links name them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_refused() {
        let exists = |path: &str| matches!(path, "README.md" | "docs/tools.md");
        let broken = |path, text| check(path, text, exists).len();
        assert_eq!(broken("README.md", "[a](docs/tools.md) and [b](docs/gone.md), [c](gone.md#x)"), 2);
        assert_eq!(broken("docs/a.md", "[a](tools.md) [b](../README.md) [c](docs/tools.md)"), 1);
        assert_eq!(broken("docs/a.md", "# What it `is`\n[a](#what-it-is) [b](#what-else)"), 1);
        assert_eq!(broken("README.md", "[a](https://example.com/b) [b](mailto:c@example.com)"), 0);
    }
}
