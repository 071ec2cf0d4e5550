//! Whether a promise was kept: said as a line of its own, or in a tag on a line of its own, as the last thing of the text.
//! Talking about it is not keeping it.

/// What stands in the place of something that was not said, so that it is known that there was something.
const CODE: char = '`';
const OPEN: &str = "<promise>";
const CLOSE: &str = "</promise>";

/// Does `text` keep `promise`? It is asked for as the end of the reply, so only the end counts: a last line that is the promise and
/// nothing else, or a `<promise>` tag that holds it. What stands between code fences, in code, in a comment or in a quoted line is
/// not said, but it is something that follows.
pub fn is_kept(text: &str, promise: &str) -> bool {
    let promise = promise.trim();
    let said = without_comments(&without_quotes(&without_fences(&without_thoughts(text)), promise));
    let said = said.trim_end();
    let last_line = said.rsplit('\n').next().unwrap_or_default();
    last_line.trim() == promise || last_tag(said).is_some_and(|held| held == folded(promise))
}

/// What the tag holds that ends the text, if nothing but tags stands on the line where it begins.
fn last_tag(said: &str) -> Option<String> {
    let (before, held) = said.strip_suffix(CLOSE)?.rsplit_once(OPEN)?;
    let beside = before.rsplit('\n').next().unwrap_or_default().trim();
    let is_alone = beside.is_empty() || beside.starts_with(OPEN) && beside.ends_with(CLOSE);
    is_alone.then(|| folded(held))
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text with a mark where there were quoted lines and code: a line with code in it is not the promise alone.
fn without_quotes(text: &str, promise: &str) -> String {
    let mut said = String::with_capacity(text.len());
    for line in text.lines() {
        // A code span that is not closed is none. A promise with the mark in it is looked for as it stands.
        let marks = line.matches(CODE).count();
        if line.trim_start().starts_with('>') && !promise.starts_with('>') {
            said.push(CODE);
        } else if marks < 2 || promise.contains(CODE) {
            said.push_str(line);
        } else {
            let parts: Vec<&str> = line.split(CODE).collect();
            let spoken = parts.iter().enumerate().filter(|(index, _)| index % 2 == 0 || *index == marks);
            let spoken: Vec<&str> = spoken.map(|(_, part)| *part).collect();
            said.push_str(&spoken.join("`"));
        }
        said.push('\n');
    }
    said
}

/// The text without comments, which nobody is shown. One that is not closed runs to the end if it begins a line; otherwise somebody
/// talks about it.
fn without_comments(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        said.push_str(before);
        let begins_line = said.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
        match comment.split_once("-->") {
            Some((_, after)) => rest = after,
            None if begins_line => return said,
            None => {
                said.push_str("<!--");
                rest = comment;
            }
        }
    }
    said.push_str(rest);
    said
}

/// The text without what a model thought aloud before it spoke. A thought that does not end is one only if it opens the text;
/// otherwise somebody talks about the tag.
fn without_thoughts(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, thought)) = rest.split_once("<think>") {
        said.push_str(before);
        match thought.split_once("</think>") {
            Some((_, after)) => rest = after,
            None if said.trim().is_empty() => return String::new(),
            None => {
                said.push_str("<think>");
                rest = thought;
            }
        }
    }
    said.push_str(rest);
    said
}

/// The text with a mark where something stands in code fences. A fence that is never closed runs to the end.
fn without_fences(text: &str) -> String {
    let mut fence: Option<Fence> = None;
    let mut said = String::with_capacity(text.len());
    for line in text.lines() {
        match (&fence, Fence::of(line)) {
            (None, Some(opened)) => fence = Some(opened),
            (None, None) => {
                said.push_str(line);
                said.push('\n');
            }
            (Some(open), Some(other)) if open.is_closed_by(&other) => fence = None,
            (Some(_), _) if line.trim().is_empty() => {}
            (Some(_), _) => said.extend([CODE, '\n']),
        }
    }
    said
}

struct Fence {
    mark: char,
    length: usize,
    /// Does it say what follows? Then it opens a fence, and closes none.
    has_words: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Fence> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|other| *other == mark).count();
        let words = &line[length..];
        // Backticks later on the line make it a line with code in it.
        let is_span = mark == '`' && words.contains('`');
        (length >= 3 && !is_span).then_some(Fence { mark, length, has_words: !words.is_empty() })
    }

    fn is_closed_by(&self, other: &Fence) -> bool {
        self.mark == other.mark && other.length >= self.length && !other.has_words
    }
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    /// B7.3, B7.4: the ways to say it, and whether they keep it.
    #[test]
    fn a_promise_is_kept_by_saying_it_and_nothing_else() {
        let table = [
            ("TASK_COMPLETE", true),
            ("All tests pass.\nTASK_COMPLETE", true),
            ("TASK_COMPLETE  \n", true),
            ("  TASK_COMPLETE", true),
            ("Done.\n<promise>TASK_COMPLETE</promise>", true),
            ("Done: <promise>TASK_COMPLETE</promise>", false),
            ("TASK_COMPLETE\nTASK_COMPLETE", true),
            ("<promise>\nTASK_COMPLETE\n</promise>\n\n", true),
            ("<promise>\nTASK_COMPLETE\n</promise> and some words after", false),
            ("I will print TASK_COMPLETE later", false),
            ("```\nTASK_COMPLETE\n```", false),
            ("```text\nTASK_COMPLETE", false),
            ("> TASK_COMPLETE", false),
            ("\"TASK_COMPLETE\"", false),
            ("task_complete", false),
            ("TASK_COMPLETED", false),
            ("The promise is `TASK_COMPLETE`.", false),
            ("TASK_COMPLETE\nNo: <promise>NOT_YET</promise>", false),
            ("<promise>TASK_COMPLETE", false),
            ("<promise>NO</promise> TASK_COMPLETE", false),
            ("<promise>NO</promise>\nTASK_COMPLETE", true),
            ("NOT TASK_COMPLETE", false),
            ("<think>\nTASK_COMPLETE\n</think>\nNot yet.", false),
            ("<think>Am I done?</think>\nTASK_COMPLETE", true),
            ("", false),
            ("```\n<promise>TASK_COMPLETE</promise>\n```", false),
            ("```\n<promise>TASK_COMPLETE</promise>\n```\nTASK_COMPLETE", true),
            ("> <promise>TASK_COMPLETE</promise>\nthat is what you want, and it is not so", false),
            ("I end with `<promise>TASK_COMPLETE</promise>` when it is done", false),
            ("You asked for \"<promise>TASK_COMPLETE</promise>\". Not yet.", false),
            ("You asked for “<promise>TASK_COMPLETE</promise>”. Not yet.", false),
            ("<promise>TASK_COMPLETE</promise>, not `<promise>NO</promise>`", false),
            ("<promise>TASK_COMPLETE</promise> or, if it fails, \"<promise>NO</promise>\"", false),
            ("TASK_COMPLETE `not yet`", false),
            ("`not yet` TASK_COMPLETE", false),
            ("`TASK_COMPLETE`", false),
            ("It's done.\nTASK_COMPLETE\nThe `main` function is in place.", false),
            ("An odd ` mark.\nTASK_COMPLETE", true),
            ("- TASK_COMPLETE", false),
            ("**TASK_COMPLETE**", false),
            ("TASK_COMPLETE.", false),
            ("TASK_COMPLETE: no", false),
            ("TASK COMPLETE", false),
            ("<!-- TASK_COMPLETE -->", false),
            ("<promise>TASK_COMPLETE</promise>\n<promise>NOT_YET</promise>", false),
            ("<promise>task_complete</promise>", false),
            ("<promise></promise>", false),
            ("</promise>TASK_COMPLETE<promise>", false),
            ("TASK_COMPLETE\r\n", true),
            ("<promise>TASK_COMPLETE</promise><promise>TASK_COMPLETE</promise>", true),
            (
                "The prompt says to print <promise>TASK_COMPLETE</promise> only when done; I am not done.",
                false,
            ),
            ("When it is done I will print <promise>TASK_COMPLETE</promise>", false),
            ("When I am done I will say:\n\nTASK_COMPLETE\n\nbut three tests still fail.", false),
            ("TASK_COMPLETE\n\n> but three tests still fail", false),
            ("TASK_COMPLETE\n```\ntest c ... FAILED\n```", false),
            ("TASK_COMPLETE\n```\n", true),
            ("```markdown\nExample:\n```text\nTASK_COMPLETE\n```\n```\nNot done yet.", false),
            ("```markdown\n```text\n```\nTASK_COMPLETE", true),
            ("```cargo test``` passes now.\nTASK_COMPLETE", true),
            ("~~~ a `word`\nx\n~~~\nTASK_COMPLETE", true),
            ("I removed the <think> tag from the parser.\nTASK_COMPLETE", true),
            ("I removed <think>, not </think>, as you see.\nTASK_COMPLETE", true),
            ("<think>\nam I done?\nTASK_COMPLETE", false),
            ("\n<think>TASK_COMPLETE", false),
            ("<!--\nTASK_COMPLETE\n-->", false),
            ("<!--\nTASK_COMPLETE", false),
            ("TASK_COMPLETE\n<!-- that was all -->", true),
            ("The parser knows `<!--` now.\nTASK_COMPLETE", true),
            ("The parser knows <!-- now.\nTASK_COMPLETE", true),
            ("```html\n<!--\n```\nTASK_COMPLETE", true),
        ];
        for (text, kept) in table {
            assert_eq!(is_kept(text, "TASK_COMPLETE"), kept, "{text:?}");
        }
        assert!(
            is_kept("`done`", "`done`") && is_kept("> done", "> done"),
            "a promise may look like a quote"
        );
    }

    #[test]
    fn a_promise_may_have_several_words() {
        assert!(is_kept("well\nALL  DONE\n<promise>ALL\n DONE</promise>", "ALL DONE"));
        assert!(!is_kept("ALL  DONE", "ALL DONE"));
    }

    #[test]
    fn a_tilde_fence_is_not_closed_by_backticks() {
        assert!(!is_kept("~~~\n```\nDONE\n```\nDONE", "DONE"));
        assert!(is_kept("~~~\n```\n~~~\nDONE", "DONE"));
    }
}
