//! What a search found, in whatever form its provider says it.
//!
//! Owns the guess which parts of a JSON text are sources: an object with an address and a title or a text. Providers differ in
//! names and nesting only. Refuses to look inside a source for more of them: those are pictures and links of its page.

use serde_json::{Map, Value};

use crate::html;
use crate::limits;

/// The sources of one search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) query: Option<String>,
    pub(super) sources: Vec<Source>,
    /// Sources beyond the most that are kept of one search.
    pub(super) surplus: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) date: Option<String>,
    /// A few lines, as the provider chose them.
    pub(super) snippet: String,
    /// The longest text there is; the snippet if there is no other.
    pub(super) text: String,
}

const URLS: [&str; 4] = ["url", "link", "href", "source_url"];
const TITLES: [&str; 3] = ["title", "name", "headline"];
const SNIPPETS: [&str; 6] = ["snippet", "description", "summary", "abstract", "excerpt", "body"];
const TEXTS: [&str; 6] = ["raw_content", "content", "markdown", "text", "page_content", "extract"];
const DATES: [&str; 6] = ["date", "published_date", "publishedDate", "published", "page_age", "age"];

impl Results {
    /// The error says what the text is instead of results.
    pub(super) fn parse(text: &str) -> Result<Results, String> {
        let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("it is not JSON: {error}"))?;
        if !value.is_object() && !value.is_array() {
            return Err("it holds neither an object nor a list".to_owned());
        }
        let query = value.get("query").and_then(Value::as_str).map(str::to_owned);
        let mut results = Results { query, ..Results::default() };
        results.walk(&value);
        // A list of nothing is a search that found nothing; no list at all is a provider that says something else.
        if results.sources.is_empty() && !has_list(&value) {
            return Err("it holds no list of results".to_owned());
        }
        Ok(results)
    }

    fn walk(&mut self, value: &Value) {
        match value {
            Value::Array(entries) => entries.iter().for_each(|entry| self.walk(entry)),
            Value::Object(fields) => match Source::of(fields) {
                Some(_) if self.sources.len() == limits::SEARCH_SOURCES_MAX => self.surplus += 1,
                Some(source) => self.sources.push(source),
                None => fields.values().for_each(|value| self.walk(value)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Source {
    fn of(fields: &Map<String, Value>) -> Option<Source> {
        let said = |names: &[&str]| {
            let texts = names.iter().filter_map(|name| fields.get(*name)?.as_str());
            texts.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
        };
        let url = said(&URLS).filter(|url| url.starts_with("https://") || url.starts_with("http://"))?;
        let (title, snippet, text) = (said(&TITLES), said(&SNIPPETS), said(&TEXTS));
        if title.is_none() && snippet.is_none() && text.is_none() {
            return None;
        }
        let (snippet, text) = (snippet.map(plain), text.map(plain));
        let longest = [&text, &snippet].into_iter().flatten().max_by_key(|text| text.len());
        Some(Source {
            title: title.unwrap_or_else(|| url.clone()),
            date: said(&DATES),
            text: cut(longest.map_or("", String::as_str)),
            snippet: snippet.or(text).unwrap_or_default(),
            url,
        })
    }
}

/// A text without the marks of a web page, if it has them.
fn plain(text: String) -> String {
    let is_page = ["<p", "<div", "<html", "<strong>", "<b>", "<br"].iter().any(|mark| text.contains(mark));
    if is_page { html::readable(&text).trim().to_owned() } else { text }
}

fn cut(text: &str) -> String {
    let head = longhaul_core::prompt::head(text, limits::SOURCE_TEXT_BYTES_MAX);
    if head.len() == text.len() {
        return text.to_owned();
    }
    format!("{head}\n\n[cut here: {} bytes in all]", text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(value: Value) -> Vec<(String, String, String)> {
        let results = Results::parse(&value.to_string()).unwrap();
        results.sources.into_iter().map(|source| (source.url, source.title, source.text)).collect()
    }

    fn row(url: &str, title: &str, text: &str) -> (String, String, String) {
        (url.to_owned(), title.to_owned(), text.to_owned())
    }

    /// B4.3: sources are found however a provider nests and names them, and only sources.
    #[test]
    fn providers_may_say_it_in_their_own_way() {
        let brave = json!({ "query": { "original": "x" }, "web": { "results": [
            { "title": "A", "url": "https://a", "description": "<strong>about</strong> a", "thumbnail": { "url": "https://a/p", "title": "p" } },
        ] } });
        assert_eq!(found(brave), [row("https://a", "A", "about a")]);
        let tavily = json!({ "query": "x", "results": [
            { "title": "B", "url": "https://b", "content": "short", "raw_content": "the whole page" },
            { "url": "https://c", "content": "no title" },
            { "url": "https://d" },
            { "title": "not of the web", "url": "file:///etc/passwd", "content": "root" },
        ] });
        assert_eq!(
            found(tavily),
            [row("https://b", "B", "the whole page"), row("https://c", "https://c", "no title")]
        );
        assert_eq!(
            found(json!([{ "link": "http://e", "title": "E", "snippet": "s" }, 3, null, "x"])),
            [row("http://e", "E", "s")]
        );
    }

    /// B4.2: what is no result is told from what is one, and all of it is bounded.
    #[test]
    fn what_is_no_result_is_said() {
        assert!(Results::parse("{").unwrap_err().starts_with("it is not JSON: "));
        assert_eq!(Results::parse("3").unwrap_err(), "it holds neither an object nor a list");
        assert_eq!(Results::parse(r#"{"results": []}"#), Ok(Results::default()));
        for other in ["{}", r#"{"error": "rate limit"}"#] {
            assert_eq!(Results::parse(other).unwrap_err(), "it holds no list of results");
        }
        assert!(Results::parse(&"[".repeat(100_000)).is_err());
        let many: Vec<Value> = (0..limits::SEARCH_SOURCES_MAX + 2)
            .map(|at| json!({ "url": format!("https://x/{at}"), "title": "t" }))
            .collect();
        let results = Results::parse(&json!(many).to_string()).unwrap();
        assert_eq!((results.sources.len(), results.surplus), (limits::SEARCH_SOURCES_MAX, 2));
        let long = json!({ "url": "https://x", "text": "é".repeat(limits::SOURCE_TEXT_BYTES_MAX) });
        let text = &found(long)[0].2;
        assert!(text.ends_with("bytes in all]") && text.len() < limits::SOURCE_TEXT_BYTES_MAX + 100);
    }
}
