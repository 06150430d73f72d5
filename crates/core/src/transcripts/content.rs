//! The contents of items in the form of ACP: content blocks, contents of tool calls, and diffs.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The most text of a tool result that is kept.
const OUTPUT_LIMIT: usize = 1024 * 1024;

/// A content block of text.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A content block of an image in base 64.
pub(super) fn image_block(mime_type: &str, data: &str) -> Value {
    json!({"type": "image", "mimeType": mime_type, "data": data})
}

/// A content block of what a URL refers to: an image for a `data:` URL with one, or else a link.
pub(super) fn url_block(url: &str, name: Option<&str>) -> Value {
    let image = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    match image {
        Some((mime_type, data)) if mime_type.starts_with("image/") => image_block(mime_type, data),
        Some((mime_type, _)) => text_block(&format!("({} of {mime_type})", name.unwrap_or("a file"))),
        None => {
            let name = name.unwrap_or_else(|| url.rsplit('/').next().unwrap_or(url));
            json!({"type": "resource_link", "uri": url, "name": name})
        }
    }
}

/// A content block of the file at a path.
pub(super) fn file_block(path: &str) -> Value {
    url_block(&format!("file://{path}"), None)
}

/// The text of a tool result as its only content; none if it is empty. Long text is cut.
pub(super) fn output(text: &str) -> Vec<Value> {
    if text.is_empty() { Vec::new() } else { vec![in_tool_call(text_block(&cut(text)))] }
}

/// A content block as the content of a tool call.
pub(super) fn in_tool_call(block: Value) -> Value {
    let mut content = json!({"type": "content"});
    content["content"] = block;
    content
}

/// The change of a file, from nothing if it is new.
pub(super) fn diff(path: &str, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old.map(cut), "newText": cut(new)})
}

/// The change that the lines of a hunk describe: each begins with a space, `-` or `+`.
pub(super) fn hunk_diff<'a>(path: &str, lines: impl Iterator<Item = &'a str>) -> Value {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for line in lines {
        match (line.get(..1), line.get(1..).unwrap_or_default()) {
            (Some("-"), text) => old.push(text),
            (Some("+"), text) => new.push(text),
            // "\ No newline at end of file"
            (Some("\\"), _) => {}
            (_, text) => {
                old.push(text);
                new.push(text);
            }
        }
    }
    diff(path, Some(&old.join("\n")), &new.join("\n"))
}

/// The changes that a unified diff describes, one for each hunk.
pub(super) fn unified_diffs(path: &str, text: &str) -> Vec<Value> {
    let lines: Vec<&str> = text.lines().collect();
    let begins: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].starts_with("@@")).collect();
    let ends = begins.iter().skip(1).copied().chain([lines.len()]);
    begins
        .iter()
        .zip(ends)
        .map(|(begin, end)| hunk_diff(path, lines[begin + 1..end].iter().copied()))
        .collect()
}

/// A text without what exceeds the limit.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= OUTPUT_LIMIT {
        return text.into();
    }
    let kept = &text[..text.floor_char_boundary(OUTPUT_LIMIT)];
    format!("{kept}\n({} bytes left out)", text.len() - kept.len()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_at_a_character() {
        let text = "ä".repeat(OUTPUT_LIMIT);
        let expected = format!("{}\n({OUTPUT_LIMIT} bytes left out)", "ä".repeat(OUTPUT_LIMIT / 2));
        assert_eq!(
            output(&text),
            [json!({"type": "content", "content": {"type": "text", "text": expected}})]
        );
        assert_eq!(output(""), Vec::<Value>::new());
    }

    #[test]
    fn unified_diff_gives_one_diff_for_each_hunk() {
        let patch = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9 +9 @@\n-nine\n+9\n\\ No newline at end of file";
        assert_eq!(
            unified_diffs("/p/a", patch),
            [
                json!({"type": "diff", "path": "/p/a", "oldText": "one\ntwo", "newText": "one\n2"}),
                json!({"type": "diff", "path": "/p/a", "oldText": "nine", "newText": "9"}),
            ]
        );
        assert_eq!(unified_diffs("/p/a", "no hunk"), Vec::<Value>::new());
    }

    #[test]
    fn url_becomes_an_image_or_a_link() {
        assert_eq!(
            url_block("data:image/png;base64,QQ==", None),
            json!({"type": "image", "mimeType": "image/png", "data": "QQ=="})
        );
        assert_eq!(
            file_block("/p/a.rs"),
            json!({"type": "resource_link", "uri": "file:///p/a.rs", "name": "a.rs"})
        );
    }
}
