//! Images of content blocks, as `data:` addresses. No other image is shown: an export loads nothing.

use serde_json::Value;

/// The types that are embedded.
const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// An image that can be embedded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    mime_type: &'static str,
    data: String,
}

impl Image {
    /// The image of a content block, if it is one of a known type with valid base64.
    pub(super) fn of_block(block: &Value) -> Option<Self> {
        let text = |name: &str| block.get(name).and_then(Value::as_str);
        if text("type") != Some("image") {
            return None;
        }
        let mime_type = TYPES.into_iter().find(|known| Some(*known) == text("mimeType"))?;
        let data = text("data")?;
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        (!data.is_empty() && data.bytes().all(is_base64)).then(|| Self { mime_type, data: data.to_owned() })
    }

    /// Its address.
    pub(super) fn address(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data)
    }
}
