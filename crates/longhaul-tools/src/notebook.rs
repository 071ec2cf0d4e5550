//! A Jupyter notebook as text.
//!
//! Owns turning its cells into something to read: a heading for each, its source, and what it printed. Refuses pictures and
//! rich output, which are only counted.

use serde_json::Value;

/// The cells one after another; `None` if this is no notebook.
pub(crate) fn text(content: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(content).ok()?;
    let cells = notebook.get("cells")?.as_array()?;
    let mut text = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("unknown");
        text.push_str(&format!("--- cell {} ({kind})\n", index + 1));
        push_lines(&mut text, &joined(cell.get("source")));
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            text.push_str("--- output\n");
            push_lines(&mut text, &output_text(output));
        }
    }
    Some(text)
}

fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

/// A text in a notebook is one string or a list of lines.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

fn output_text(output: &Value) -> String {
    if output.get("text").is_some() {
        return joined(output.get("text"));
    }
    if let Some(name) = output.get("ename") {
        let value = output.get("evalue").and_then(Value::as_str).unwrap_or_default();
        return format!("{}: {value}", name.as_str().unwrap_or_default());
    }
    let data = output.get("data").and_then(Value::as_object);
    match data.and_then(|data| data.get("text/plain")) {
        Some(plain) => joined(Some(plain)),
        None => {
            let kinds: Vec<&str> = data.into_iter().flatten().map(|(kind, _)| kind.as_str()).collect();
            format!("({})", kinds.join(", "))
        }
    }
}
