//! Parts of messages in the form of the Gemini API, which Gemini CLI and Qwen Code store.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_str};

use super::content::{diff, image_block, output, text_block, url_block};
use super::tool_call::arguments;

/// A part of a message.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart<'a> {
    pub(super) text: Option<String>,
    pub(super) thought: Option<bool>,
    inline_data: Option<GeminiInlineData>,
    file_data: Option<GeminiFileData>,
    pub(super) function_call: Option<GeminiCall>,
    #[serde(borrow)]
    pub(super) function_response: Option<GeminiResponse<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiInlineData {
    mime_type: String,
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFileData {
    file_uri: String,
}

#[derive(Deserialize)]
pub(super) struct GeminiCall {
    id: Option<String>,
    pub(super) name: String,
    #[serde(default, deserialize_with = "arguments")]
    pub(super) args: Value,
}

#[derive(Deserialize)]
pub(super) struct GeminiResponse<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct GeminiOutcome {
    output: Option<String>,
    error: Option<String>,
}

/// A change of a file as the screen has shown it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFileDiff {
    file_name: String,
    file_path: Option<String>,
    original_content: Option<String>,
    new_content: String,
}

/// The parts of a message, which is a list of them, one, or a text.
pub(super) fn parts(message: &RawValue) -> Result<Vec<GeminiPart<'_>>, serde_json::Error> {
    match message.get().as_bytes().first() {
        Some(b'"') => Ok(vec![GeminiPart { text: Some(from_str(message.get())?), ..GeminiPart::default() }]),
        Some(b'{') => Ok(vec![from_str(message.get())?]),
        Some(b'n') => Ok(Vec::new()),
        _ => from_str(message.get()),
    }
}

impl GeminiPart<'_> {
    /// The content block of a part of a prompt.
    pub(super) fn prompt_block(&self) -> Option<Value> {
        match self {
            Self { text: Some(text), .. } => (!text.is_empty()).then(|| text_block(text)),
            Self { inline_data: Some(image), .. } if image.mime_type.starts_with("image/") => {
                Some(image_block(&image.mime_type, &image.data))
            }
            Self { file_data: Some(file), .. } => Some(url_block(&file.file_uri, None)),
            _ => None,
        }
    }
}

impl GeminiCall {
    /// The id of the call. Some models give none; then it is the tool's name.
    pub(super) fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| self.name.clone())
    }
}

impl GeminiResponse<'_> {
    /// The id of the call that it is the result of.
    pub(super) fn id(&self) -> String {
        self.id.clone().or_else(|| self.name.clone()).unwrap_or_default()
    }

    /// Whether it is an error, and its content.
    pub(super) fn content(&self) -> (bool, Vec<Value>) {
        let Some(response) = self.response else { return (false, Vec::new()) };
        match from_str(response.get()) {
            Ok(GeminiOutcome { output: Some(text), .. }) => (false, output(&text)),
            Ok(GeminiOutcome { error: Some(text), .. }) => (true, output(&text)),
            Ok(_) | Err(_) => (false, output(response.get())),
        }
    }
}

/// The change that the screen has shown as the result of a tool call, if it was one.
pub(super) fn shown_diff(shown: Option<&RawValue>) -> Option<Value> {
    let shown: GeminiFileDiff = from_str(shown?.get()).ok()?;
    let path = shown.file_path.unwrap_or(shown.file_name);
    Some(diff(&path, shown.original_content.as_deref(), &shown.new_content))
}
