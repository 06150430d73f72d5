//! Validates content blocks that a user wrote as JSON, and leaves them unchanged.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::InputError;

/// Why content blocks are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockProblem {
    /// A member is missing or has the wrong form.
    #[error("prompt[{index}]{member} must be {expected}")]
    Wrong {
        /// Index of the block, from 0.
        index: usize,
        /// Path of the member in the block.
        member: &'static str,
        /// The expected form.
        expected: &'static str,
    },
    /// The protocol does not define its type.
    #[error("prompt[{index}] has the type {kind:?}, which the protocol does not know")]
    UnknownType {
        /// Index of the block, from 0.
        index: usize,
        /// The type.
        kind: String,
    },
    /// The array is empty.
    #[error("the prompt has no content block")]
    None,
}

/// Text blocks.
pub(super) fn plain(texts: &[&str]) -> Arc<str> {
    let blocks: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    Value::Array(blocks).to_string().into()
}

/// The blocks of a text, which may itself be a JSON array of blocks, followed by words.
pub(super) fn of_text(text: &str, words: &str) -> Result<Arc<str>, InputError> {
    let array = text.trim();
    if !array.starts_with('[') {
        return Ok(both(array, words));
    }
    let Ok(raw) = serde_json::from_str::<Vec<&RawValue>>(array) else { return Ok(both(array, words)) };
    for (index, block) in raw.iter().enumerate() {
        check(index, block.get())?;
    }
    match (raw.is_empty(), words) {
        (true, "") => Err(BlockProblem::None.into()),
        (true, words) => Ok(plain(&[words])),
        (false, "") => Ok(array.into()),
        (false, words) => {
            let block = json!({"type": "text", "text": words});
            Ok(format!("{},{block}]", array.strip_suffix(']').unwrap_or(array)).into())
        }
    }
}

/// Whether a text is an array of objects that each have a type, as content blocks do.
pub(super) fn look_like_blocks(text: &str) -> bool {
    let is_block = |block: &Map<String, Value>| block.get("type").is_some_and(Value::is_string);
    let is_array = text.trim_start().starts_with('[');
    let blocks = is_array.then(|| serde_json::from_str::<Vec<Map<String, Value>>>(text).ok()).flatten();
    blocks.is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(is_block))
}

fn both(text: &str, words: &str) -> Arc<str> {
    let texts: Vec<&str> = [text, words].into_iter().filter(|text| !text.is_empty()).collect();
    plain(&texts)
}

fn check(index: usize, block: &str) -> Result<(), BlockProblem> {
    let wrong = |member, expected| BlockProblem::Wrong { index, member, expected };
    let Ok(Value::Object(block)) = serde_json::from_str(block) else { return Err(wrong("", "an object")) };
    let Some(kind) = text(&block, "type") else { return Err(wrong(".type", "a string")) };
    match kind {
        "text" => need(&block, "text", || wrong(".text", "a string")),
        "image" | "audio" => {
            let data = text(&block, "data").filter(|data| is_base64(data));
            data.ok_or_else(|| wrong(".data", "valid base64"))?;
            need_word(&block, "mimeType", || wrong(".mimeType", "a non-empty string"))
        }
        "resource_link" => {
            need_word(&block, "uri", || wrong(".uri", "a non-empty string"))?;
            need_word(&block, "name", || wrong(".name", "a non-empty string"))
        }
        "resource" => match block.get("resource") {
            Some(Value::Object(resource)) => {
                need_word(resource, "uri", || wrong(".resource.uri", "a non-empty string"))?;
                let blob = text(resource, "blob").is_some_and(is_base64);
                let has_content = text(resource, "text").is_some() || blob;
                let expected = "an object with text, or with a base64 blob";
                if has_content { Ok(()) } else { Err(wrong(".resource", expected)) }
            }
            _ => Err(wrong(".resource", "an object")),
        },
        other => Err(BlockProblem::UnknownType { index, kind: other.to_owned() }),
    }
}

fn text<'a>(block: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    block.get(key).and_then(Value::as_str)
}

fn need<E>(block: &Map<String, Value>, key: &str, wrong: impl Fn() -> E) -> Result<(), E> {
    text(block, key).map(drop).ok_or_else(wrong)
}

fn need_word<E>(block: &Map<String, Value>, key: &str, wrong: impl Fn() -> E) -> Result<(), E> {
    text(block, key).filter(|word| !word.is_empty()).map(drop).ok_or_else(wrong)
}

/// Whether a text is standard base64 with padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let padding = text.len() - digits.len();
    !digits.is_empty() && padding <= 2 && text.len().is_multiple_of(4) && digits.bytes().all(is_digit)
}
