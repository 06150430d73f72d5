//! Content blocks. Both versions have the same five kinds with the same members; in version 2 the set is open.

use std::borrow::Cow;

use crate::model::ProtocolVersion;

use super::error::TranslationError;
use crate::wire::json::{RawObject, array, items};

/// The block kinds that version 1 can read.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

/// The blocks of a prompt for an agent of another version.
pub(crate) fn prompt_blocks(blocks: &str, to: ProtocolVersion) -> Result<Box<str>, TranslationError> {
    let wrong = || TranslationError::shape("prompt");
    for (index, block) in items(blocks).ok_or_else(wrong)?.into_iter().enumerate() {
        let kind = RawObject::parse(block).and_then(|block| block.text("type")).ok_or_else(wrong)?;
        if to == ProtocolVersion::V1 && !KINDS.contains(&&*kind) {
            return Err(TranslationError::Block { index, kind: (&*kind).into() });
        }
    }
    Ok(blocks.into())
}

/// A block for version 1. An unknown kind becomes a text that names it.
pub(in crate::acp) fn to_v1(block: &str) -> Cow<'_, str> {
    let kind = RawObject::parse(block).and_then(|block| block.text("type"));
    match kind {
        Some(kind) if !KINDS.contains(&&*kind) => {
            let mut named = text_block(&format!("[content of the kind {kind}]"));
            named.set_path(&["_meta", "acpx", "content"], block);
            Cow::Owned(named.to_string())
        }
        _ => Cow::Borrowed(block),
    }
}

/// The text of a block that contains only text.
pub(super) fn plain_text(block: &str) -> Option<Box<str>> {
    let block = RawObject::parse(block)?;
    if block.len() == 2 && block.get("type") == Some(r#""text""#) { block.text("text") } else { None }
}

/// A block of text.
pub(super) fn text_block(text: &str) -> RawObject<'static> {
    let mut block = RawObject::new();
    block.set_text("type", "text");
    block.set_text("text", text);
    block
}

/// A list of blocks for version 1; anything else stays unchanged.
pub(super) fn list_to_v1(blocks: &str) -> Cow<'_, str> {
    match items(blocks) {
        Some(blocks) => Cow::Owned(array(blocks.into_iter().map(to_v1))),
        None => Cow::Borrowed(blocks),
    }
}
