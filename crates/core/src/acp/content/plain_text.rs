//! Content blocks as plain text, for a person who reads a conversation or an agent that receives it as history.
//! Content that is not text becomes a placeholder, so that the reader sees that something is missing.

use serde_json::Value;

use super::{is_carried, prompt_text};

/// How many characters of a content address are shown. A `data:` address may be the content itself.
const PLACE_CHARS: usize = 200;

/// A content block as text: its text, or its kind and address.
pub fn block_words(block: &Value) -> String {
    match (text(block, "type"), text(block, "text")) {
        (Some("text"), Some(text)) => text.to_owned(),
        (Some(kind), _) => match place(block) {
            Some(place) => format!("[{kind} {place}]"),
            None => format!("[{kind}]"),
        },
        (None, _) => String::new(),
    }
}

/// Each block that is not text, as a placeholder.
pub fn blocks_words<B: AsRef<str>>(blocks: &[B]) -> impl Iterator<Item = String> {
    let read = |block: &B| block_words(&serde_json::from_str(block.as_ref()).unwrap_or_default());
    blocks.iter().map(read).filter(|words| !words.is_empty())
}

/// A prompt as text: the user's text, then each attachment on its own line.
pub fn prompt_words(blocks: &str) -> String {
    let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(blocks).unwrap_or_default();
    let list = list.into_iter().map(serde_json::value::RawValue::get).filter(|block| !is_carried(block));
    let along: Vec<&str> = list.filter(|block| !is_text(block)).collect();
    let text = Some(prompt_text(blocks)).filter(|text| !text.is_empty());
    text.into_iter().chain(blocks_words(&along)).collect::<Vec<_>>().join("\n")
}

/// A block as text for the history of a fresh session: an attached file's text, or a note that the content is left
/// out.
pub(crate) fn carried_words(block: &str) -> Option<String> {
    let block: Value = serde_json::from_str(block).ok()?;
    let words = Some(block_words(&block)).filter(|words| !words.is_empty())?;
    match text(&block["resource"], "text") {
        Some(text) => Some(format!("{words}\n{text}")),
        // A link has nothing but its address.
        None if text(&block, "type") == Some("resource_link") => Some(words),
        None => Some(format!("{words} (left out)")),
    }
}

fn is_text(block: &str) -> bool {
    serde_json::from_str::<super::ContentBlockView<'_>>(block).is_ok_and(|block| block.kind == "text")
}

/// Where a block's content is; otherwise its name or MIME type.
fn place(block: &Value) -> Option<String> {
    let inner = &block["resource"];
    let place = text(block, "uri").or_else(|| text(inner, "uri"));
    let place = place.or_else(|| text(block, "name")).or_else(|| text(block, "mimeType"))?;
    let mut label: String = place.chars().take(PLACE_CHARS).collect();
    if label.len() < place.len() {
        label.push('…');
    }
    Some(label)
}

fn text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::carried_block;
    use super::*;

    #[test]
    fn prompt_attachments_are_named_after_its_text() {
        let along = [
            (
                json!({ "type": "image", "mimeType": "image/png", "data": "x", "uri": "file:///a.png" }),
                "image file:///a.png",
            ),
            (json!({ "type": "audio", "mimeType": "audio/wav", "data": "x" }), "audio audio/wav"),
            (
                json!({ "type": "resource", "resource": { "uri": "file:///b", "text": "inside" } }),
                "resource file:///b",
            ),
            (json!({ "type": "resource_link", "uri": "file:///c", "name": "c" }), "resource_link file:///c"),
            (json!({ "type": "new" }), "new"),
        ];
        for (block, words) in &along {
            assert_eq!(prompt_words(&json!([block]).to_string()), format!("[{words}]"));
        }
        let carried: Value = serde_json::from_str(&carried_block("old")).unwrap();
        let all = json!([carried, { "type": "text", "text": "look" }, along[0].0, { "type": "text", "text": " here" }]);
        assert_eq!(prompt_words(&all.to_string()), "look here\n[image file:///a.png]");
        assert_eq!(prompt_words("not json"), "");
        let long = json!([{ "type": "image", "uri": "d".repeat(300) }]);
        assert_eq!(prompt_words(&long.to_string()), format!("[image {}…]", "d".repeat(200)));
    }

    #[test]
    fn carried_history_contains_file_text_and_names_omissions() {
        let label = |block: Value| carried_words(&block.to_string());
        let file = json!({ "type": "resource", "resource": { "uri": "file:///b", "text": "inside" } });
        assert_eq!(label(file).as_deref(), Some("[resource file:///b]\ninside"));
        let link = json!({ "type": "resource_link", "uri": "file:///c", "name": "c" });
        assert_eq!(label(link).as_deref(), Some("[resource_link file:///c]"));
        let image = json!({ "type": "image", "mimeType": "image/png", "data": "x" });
        assert_eq!(label(image).as_deref(), Some("[image image/png] (left out)"));
        assert_eq!(label(json!(7)), None);
    }
}
