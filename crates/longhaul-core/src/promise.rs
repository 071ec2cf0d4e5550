//! Whether a promise was kept: said as a line of its own, or in a tag, at the end of the matter. Talking about it is not
//! keeping it.

/// Does `text` keep `promise`? The last claim counts: a line that is the promise and nothing else, or a `<promise>` tag
/// with whatever it holds. What stands between code fences is quoted, not said.
pub fn is_kept(text: &str, promise: &str) -> bool {
    let promise = promise.trim();
    let said = without_fences(&without_thoughts(text));
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

/// Where the last closed tag ends, and what it holds, with its spaces folded.
fn last_tag(said: &str) -> Option<(usize, String)> {
    const OPEN: &str = "<promise>";
    let end = said.rfind("</promise>")?;
    let start = said[..end].rfind(OPEN)? + OPEN.len();
    Some((end, said[start..end].split_whitespace().collect::<Vec<_>>().join(" ")))
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

    /// B7.3, B7.4: sixteen ways to say it, and whether they keep it.
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
        ];
        for (text, kept) in table {
            assert_eq!(is_kept(text, "TASK_COMPLETE"), kept, "{text:?}");
        }
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
