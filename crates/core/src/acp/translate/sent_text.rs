//! How much of a version 2 message a version 1 client has received.
//!
//! Version 2 may send a message whole, repeatedly; version 1 can only append. So the length and a digest of the sent
//! content are kept for each message, at constant size. If the message only grew, the rest is sent; if it changed, it
//! is sent again as a new message.

use sha2::{Digest, Sha256};

use super::blocks::plain_text;

/// How much of a message was sent.
#[derive(Debug, Default)]
pub(super) struct MessageProgress {
    /// How often it was sent as a new message.
    revision: u32,
    digest: Sha256,
    length: usize,
}

/// A part of a message that is still to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageRemainder<'a> {
    /// A block, as received.
    Block(&'a str),
    /// The rest of a text.
    Text(Box<str>),
}

impl MessageProgress {
    /// The message id that a version 1 client sees. It uses another separator than the ids that distinguish several
    /// ACP sessions, so the two never collide.
    pub(super) fn id(&self, id: &str) -> String {
        match self.revision {
            0 => id.to_owned(),
            revision => format!("{id}#{}", revision.saturating_add(1)),
        }
    }

    /// Records that a block was sent.
    pub(super) fn append(&mut self, block: &str) {
        let piece = BlockBytes::of(block);
        self.digest.update(&piece.bytes);
        self.length += piece.bytes.len();
    }

    /// Takes the whole message, and returns the parts that are to be sent.
    pub(super) fn replace<'a>(&mut self, blocks: &[&'a str]) -> Vec<MessageRemainder<'a>> {
        let rest = self.rest(blocks).unwrap_or_else(|| {
            *self = Self { revision: self.revision.saturating_add(1), ..Self::default() };
            blocks.iter().copied().map(MessageRemainder::Block).collect()
        });
        let revision = self.revision;
        *self = Self { revision, ..Self::default() };
        for block in blocks {
            self.append(block);
        }
        rest
    }

    /// The parts after what was sent; `None` if the message does not begin with that.
    fn rest<'a>(&self, blocks: &[&'a str]) -> Option<Vec<MessageRemainder<'a>>> {
        let mut digest = Sha256::new();
        let mut rest = Vec::new();
        let mut left = self.length;
        for &block in blocks {
            let piece = BlockBytes::of(block);
            if piece.bytes.len() <= left {
                digest.update(&piece.bytes);
                left -= piece.bytes.len();
            } else if left == 0 {
                rest.push(MessageRemainder::Block(block));
            } else {
                let text = piece.text?;
                digest.update(text.get(..left)?);
                rest.push(MessageRemainder::Text(text.get(left..)?.into()));
                left = 0;
            }
        }
        let is_same = left == 0 && digest.finalize() == self.digest.clone().finalize();
        is_same.then_some(rest)
    }
}

/// A block as the bytes that are compared: texts are concatenated, and any other block is enclosed in bytes that
/// cannot occur in text.
struct BlockBytes {
    bytes: Vec<u8>,
    text: Option<Box<str>>,
}

impl BlockBytes {
    fn of(block: &str) -> Self {
        match plain_text(block) {
            Some(text) => Self { bytes: text.as_bytes().to_vec(), text: Some(text) },
            None => Self { bytes: [&[0xff], block.as_bytes(), &[0xff]].concat(), text: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = r#"{"type":"image","data":""}"#;

    fn text(text: &str) -> String {
        format!(r#"{{"type":"text","text":"{text}"}}"#)
    }

    #[test]
    fn grown_message_sends_only_the_new_text() {
        let mut progress = MessageProgress::default();
        progress.append(&text("a"));
        progress.append(&text("b"));
        let whole = text("abc");
        assert_eq!(
            progress.replace(&[&whole, IMAGE]),
            [MessageRemainder::Text("c".into()), MessageRemainder::Block(IMAGE)]
        );
        assert_eq!(progress.replace(&[&whole, IMAGE]), []);
        let more = text("d");
        assert_eq!(progress.replace(&[&whole, IMAGE, &more]), [MessageRemainder::Block(&more)]);
        assert_eq!(progress.id("m"), "m");
    }

    #[test]
    fn changed_message_is_sent_again_under_another_id() {
        let mut progress = MessageProgress::default();
        let (old, new) = (text("ab"), text("ax"));
        assert_eq!(progress.replace(&[&old]), [MessageRemainder::Block(&old)]);
        assert_eq!(progress.replace(&[&new]), [MessageRemainder::Block(&new)]);
        assert_eq!(progress.id("m"), "m#2");
        assert_eq!(progress.replace(&[]), []);
        assert_eq!(progress.id("m"), "m#3");
        assert_eq!(progress.replace(&[&new]), [MessageRemainder::Block(&new)]);
        assert_eq!(progress.id("m"), "m#3");
    }
}
