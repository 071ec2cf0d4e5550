//! Research by files: what was found lands in an inbox, is put in order once, and is read from there by whoever comes later.
//!
//! Owns the way from a search to an overview: `search` writes raw JSON to `search_results/`, and `finalize_research` makes of it
//! `tasks/ID/research_overview.md` and a file for each source, then moves it to `search_results/processed_json/`. What is to
//! be written is worked out in `results` and `overview`, which touch nothing; `inbox` does it. Refuses to go and read the
//! sources themselves: that is the agent's choice, with `fetch`.

mod finalize;
mod inbox;
mod overview;
mod results;
mod search;

pub use finalize::FinalizeResearch;
pub use inbox::{Error, Finalized, Left, finalize};
pub use search::{Provider, Search, SearchConfig};

/// Where raw results land.
pub(crate) const INBOX: &str = "search_results";

/// Where they are once they were put in order.
pub(crate) const PROCESSED: &str = "search_results/processed_json";

/// A text of the web as part of a line: no line break, no control character, nothing that begins a comment.
pub(crate) fn one_line(text: &str, letters_max: usize) -> String {
    let plain: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ").replace("<!--", "< !--");
    if words.chars().count() <= letters_max {
        return words;
    }
    words.chars().take(letters_max).collect::<String>() + "…"
}

/// `1 source`, `2 sources`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
