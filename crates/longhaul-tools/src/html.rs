//! Web pages as text that a model can read.
//!
//! Owns dropping what is not content and keeping what gives it shape: headings, paragraphs, list items, where links lead.
//! Refuses to understand more of HTML: a page that needs a browser needs a browser.

/// Elements whose content is not text.
const DROPPED: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "object"];

/// Elements that begin and end a line.
const BLOCKS: [&str; 29] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tbody",
    "thead",
    "title",
    "tr",
    "ul",
    "option",
    "br",
];

/// The text of a page.
pub(crate) fn readable(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        page.text(&rest[..start]);
        rest = &rest[start..];
        rest = match Tag::parse(rest) {
            Some(tag) => page.tag(&tag, &rest[tag.length..]),
            None => {
                page.text("<");
                &rest[1..]
            }
        };
    }
    page.text(rest);
    page.finish()
}

/// One tag, comment or declaration.
struct Tag<'a> {
    /// In lower case, without its slash; empty for what is not an element.
    name: String,
    closes: bool,
    attributes: &'a str,
    length: usize,
}

impl<'a> Tag<'a> {
    fn parse(text: &'a str) -> Option<Tag<'a>> {
        if text.starts_with("<!--") {
            let length = text.find("-->").map_or(text.len(), |end| end + 3);
            return Some(Tag { name: String::new(), closes: false, attributes: "", length });
        }
        let inner = text[1..].trim_start_matches('/');
        let named = inner.starts_with(|first: char| first.is_ascii_alphabetic());
        if !named && !inner.starts_with(['!', '?']) {
            return None;
        }
        let length = end_of_tag(text)?;
        let inside = &text[1..length - 1];
        let closes = inside.starts_with('/');
        let inside = inside.trim_start_matches('/');
        let end = inside.find(|letter: char| letter.is_whitespace() || letter == '/').unwrap_or(inside.len());
        let name = if named { inside[..end].to_ascii_lowercase() } else { String::new() };
        Some(Tag { name, closes, attributes: &inside[end..], length })
    }

    fn link(&self) -> Option<String> {
        let at = self.attributes.find("href=")? + 5;
        let value = &self.attributes[at..];
        let value = match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next()?,
            _ => value.split_whitespace().next()?,
        };
        let shown = value.starts_with("http") || value.starts_with('/');
        shown.then(|| unescaped(value))
    }
}

/// The length of a tag, whose attributes may hold a `>` in quotes.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '>') => return Some(at + 1),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

#[derive(Default)]
struct Page {
    text: String,
    link: Option<String>,
    preformatted: bool,
}

impl Page {
    /// Takes a tag, and answers where to go on in what follows it.
    fn tag<'a>(&mut self, tag: &Tag<'_>, rest: &'a str) -> &'a str {
        let name = tag.name.as_str();
        if DROPPED.contains(&name) && !tag.closes {
            return after_end(name, rest);
        }
        match name {
            "pre" => self.preformatted = !tag.closes,
            "a" if tag.closes => {
                if let Some(link) = self.link.take() {
                    self.text.push_str(&format!(" ({link})"));
                }
            }
            "a" => self.link = tag.link(),
            "li" if !tag.closes => {
                self.line();
                self.text.push_str("- ");
            }
            "td" | "th" if !tag.closes => self.text.push(' '),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.line();
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.text.push_str(&if tag.closes {
                    "\n".to_owned()
                } else {
                    format!("\n{} ", "#".repeat(level))
                });
            }
            _ => {}
        }
        if BLOCKS.contains(&name) {
            self.line();
        }
        rest
    }

    fn text(&mut self, text: &str) {
        let text = unescaped(text);
        if self.preformatted {
            return self.text.push_str(&text);
        }
        for (index, word) in
            text.split(|letter: char| letter.is_whitespace() && letter != '\u{a0}').enumerate()
        {
            if index > 0 && !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
                self.text.push(' ');
            }
            self.text.push_str(word);
        }
    }

    fn line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Without lines of nothing in a row.
    fn finish(self) -> String {
        let mut text = String::new();
        for line in self.text.lines().map(str::trim_end) {
            if !(line.is_empty() && (text.is_empty() || text.ends_with("\n\n"))) {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// What follows the end of an element whose content is dropped.
fn after_end<'a>(name: &str, text: &'a str) -> &'a str {
    let end = format!("</{name}");
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        if rest.get(..end.len()).is_some_and(|start| start.eq_ignore_ascii_case(&end)) {
            return rest.find('>').map_or("", |close| &rest[close + 1..]);
        }
        rest = &rest[2..];
    }
    ""
}

fn unescaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest[1..].split_once(';').filter(|(name, _)| name.len() <= 10);
        match named.and_then(|(name, after)| Some((entity(name)?, after))) {
            Some((letter, after)) => {
                result.push(letter);
                rest = after;
            }
            None => {
                result.push('&');
                rest = &rest[1..];
            }
        }
    }
    result + rest
}

fn entity(name: &str) -> Option<char> {
    let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    });
    if let Some(number) = number {
        return char::from_u32(number).filter(|letter| !letter.is_control() || *letter == '\n');
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "copy" => '©',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_page_becomes_text() {
        let html = "<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { x }</style><SCRIPT>if (a </p> b) { '<p>' }</SCRIPT></head>\
                    <body><!-- <p>no</p> --><h1>Top</h1><p>One\n  two <b>three</b> &lt;4&gt; &#x41;&#66; &unknown; a < b</p>\
                    <ul><li>first</li><li><a class='x' href=\"https://e.example/?a=1&amp;b=2\" title='>'>second</a></ul>\
                    <pre>  keep\n    this</pre><table><tr><td>a</td><td>b</td></tr></table></body></html>";
        let expected = "A & B\n\n# Top\n\nOne two three <4> AB &unknown; a < b\n- first\n- second (https://e.example/?a=1&b=2)\n  keep\n    this\n a b\n";
        assert_eq!(readable(html), expected);
    }

    #[test]
    fn what_never_ends_ends() {
        for (html, expected) in [
            ("a<script>b", "a\n"),
            ("a<!-- b", "a\n"),
            ("a<p", "a<p\n"),
            ("&#0;&#xD800;&;&", "&#0;&#xD800;&;&\n"),
            ("", ""),
            ("<", "<\n"),
            ("é<é</", "é<é</\n"),
        ] {
            assert_eq!(readable(html), expected, "{html}");
        }
        assert_eq!(readable(&"<div>".repeat(100_000)), "");
    }
}
