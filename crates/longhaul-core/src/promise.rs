//! Whether a promise was kept: said as a line of its own, or in a tag, at the end of the matter. Talking about it is not
//! keeping it.

/// Does `text` keep `promise`? The last claim counts: a line that is the promise and nothing else, or a `<promise>` tag
/// with whatever it holds. What stands between code fences, in code, in quotes or in a quoted line is not said.
pub fn is_kept(text: &str, promise: &str) -> bool {
    let promise = promise.trim();
    let said = without_quotes(&without_fences(&without_thoughts(text)), promise);
    let line = last_line_that_is(&said, promise);
    match (line, last_tag(&said)) {
        (Some(line), Some((end, content))) => line > end || content == promise,
        (None, Some((_, content))) => content == promise,
        (line, None) => line.is_some(),
    }
}

/// Where the last line begins that is the promise and nothing else.
fn last_line_that_is(said: &str, promise: &str) -> Option<usize> {
    let mut start = 0;
    let mut found = None;
    for line in said.split_inclusive('\n') {
        if line.trim() == promise {
            found = Some(start);
        }
        start += line.len();
    }
    found
}

/// Where the last closed tag that is not in quotes ends, and what it holds, with its spaces folded.
fn last_tag(said: &str) -> Option<(usize, String)> {
    const OPEN: &str = "<promise>";
    const CLOSE: &str = "</promise>";
    let mut before = said.len();
    while let Some(end) = said[..before].rfind(CLOSE) {
        let open = said[..end].rfind(OPEN)?;
        let is_quote = |letter: char| matches!(letter, '"' | '\'' | '“' | '”' | '‘' | '’' | '«' | '»');
        let quoted = said[..open].ends_with(is_quote) && said[end + CLOSE.len()..].starts_with(is_quote);
        if !quoted {
            let held = said[open + OPEN.len()..end].split_whitespace();
            return Some((end, held.collect::<Vec<_>>().join(" ")));
        }
        before = open;
    }
    None
}

/// The text without quoted lines, and with a mark where there was code: a line with code in it is not the promise alone.
fn without_quotes(text: &str, promise: &str) -> String {
    const CODE: char = '`';
    let mut said = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with('>') && !promise.starts_with('>') {
            continue;
        }
        // A code span that is not closed is none. A promise with the mark in it is looked for as it stands.
        let marks = line.matches(CODE).count();
        if marks < 2 || promise.contains(CODE) {
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

/// The text without what a model thought aloud before it spoke.
fn without_thoughts(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, thought)) = rest.split_once("<think>") {
        said.push_str(before);
        rest = thought.split_once("</think>").map_or("", |(_, after)| after);
    }
    said.push_str(rest);
    said
}

/// The text without what stands in code fences. A fence that is never closed runs to the end.
fn without_fences(text: &str) -> String {
    let mut fence: Option<(char, usize)> = None;
    let mut said = String::with_capacity(text.len());
    for line in text.lines() {
        match (fence, fence_of(line)) {
            (None, Some(opened)) => fence = Some(opened),
            (None, None) => {
                said.push_str(line);
                said.push('\n');
            }
            (Some((mark, length)), Some((other, longer))) if mark == other && longer >= length => {
                fence = None;
            }
            (Some(_), _) => {}
        }
    }
    said
}

fn fence_of(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|other| *other == mark).count();
    (length >= 3).then_some((mark, length))
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
            ("Done: <promise>TASK_COMPLETE</promise>", true),
            ("TASK_COMPLETE\nTASK_COMPLETE", true),
            ("<promise>\nTASK_COMPLETE\n</promise> and some words after", true),
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
            ("<promise>TASK_COMPLETE</promise>, not `<promise>NO</promise>`", true),
            ("<promise>TASK_COMPLETE</promise> or, if it fails, \"<promise>NO</promise>\"", true),
            ("TASK_COMPLETE `not yet`", false),
            ("`not yet` TASK_COMPLETE", false),
            ("`TASK_COMPLETE`", false),
            ("It's done.\nTASK_COMPLETE\nThe `main` function is in place.", true),
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
