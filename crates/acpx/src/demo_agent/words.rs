//! Parses a prompt into the steps of the demo agent's turn. Pure: the same words always give the same steps.

use std::time::Duration;

use serde_json::{Map, Value};

/// Maximum number of chunks, in case of a mistyped number.
const MOST_CHUNKS: u32 = 1_000_000;

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DemoStep {
    Echo,
    Chunks(u32),
    Think,
    Plan,
    Tool,
    Permission,
    Mode(String),
    WaitUntilCancelled,
    Wait(Duration),
    Recall,
    /// List the MCP servers and their tools.
    McpServers,
    /// List the tools of an MCP server.
    McpTools(String),
    McpCall(McpCall),
    Refuse,
    Fail,
    Crash,
}

/// A call to an MCP server's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct McpCall {
    pub(super) server: String,
    pub(super) tool: String,
    /// The arguments, or why they are invalid.
    pub(super) arguments: Result<Map<String, Value>, String>,
}

/// The steps of a prompt, in the order of its words. A prompt without an answering step is echoed at the end.
pub(super) fn steps(text: &str) -> Vec<DemoStep> {
    let plain = |word: &str| word.trim_matches(|sign: char| !sign.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    let mut steps: Vec<DemoStep> = Vec::new();
    let (mut index, mut rest) = (0, text.trim_start());
    while index < words.len() {
        let behind = rest.find(char::is_whitespace).map_or("", |end| &rest[end..]);
        rest = behind.trim_start();
        if words[index] == "mcp" {
            let (step, behind) = mcp(rest);
            steps.push(step);
            rest = behind.trim_start();
            index = words.len() - rest.split_whitespace().count();
        } else {
            steps.extend(step(&words[index..]));
            index += 1;
        }
    }
    if !steps.iter().any(DemoStep::is_an_answer) {
        steps.push(DemoStep::Echo);
    }
    steps
}

/// The step that starts at the first of these words.
fn step(words: &[String]) -> Option<DemoStep> {
    let next = words.get(1).map(String::as_str);
    match words.first()?.as_str() {
        "chunks" => next?.parse().ok().map(|count: u32| DemoStep::Chunks(count.min(MOST_CHUNKS))),
        "think" => Some(DemoStep::Think),
        "plan" => Some(DemoStep::Plan),
        "tool" => Some(DemoStep::Tool),
        "permission" => Some(DemoStep::Permission),
        "mode" => next.map(|mode| DemoStep::Mode(mode.into())),
        "wait" => Some(match next.and_then(|millis| millis.parse().ok()) {
            Some(millis) => DemoStep::Wait(Duration::from_millis(millis)),
            None => DemoStep::WaitUntilCancelled,
        }),
        "recall" => Some(DemoStep::Recall),
        "refuse" => Some(DemoStep::Refuse),
        "fail" => Some(DemoStep::Fail),
        "crash" => Some(DemoStep::Crash),
        _ => None,
    }
}

/// The step for the text after `mcp`, and the remaining text. Names and arguments keep their spelling.
fn mcp(text: &str) -> (DemoStep, &str) {
    let Some((server, rest)) = name(text) else { return (DemoStep::McpServers, "") };
    let Some((tool, rest)) = name(rest) else { return (DemoStep::McpTools(server), "") };
    let rest = rest.trim_start();
    let (arguments, rest) = if rest.starts_with('{') {
        match first(rest) {
            Ok(read) => (Ok(read.0), read.1),
            Err(problem) => (Err(problem), ""),
        }
    } else {
        (Ok(Map::new()), rest)
    };
    (DemoStep::McpCall(McpCall { server, tool, arguments }), rest)
}

/// A name and the remaining text. A name with spaces is a JSON string.
fn name(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Ok(read) = first(text) {
        return Some(read);
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

/// The JSON value at the start of a text, and the remaining text.
fn first<T: serde::de::DeserializeOwned>(text: &str) -> Result<(T, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(Ok(value)) => {
            let end = values.byte_offset();
            Ok((value, &text[end..]))
        }
        Some(Err(error)) => Err(error.to_string()),
        None => Err("nothing is there".to_owned()),
    }
}

impl DemoStep {
    fn is_an_answer(&self) -> bool {
        !matches!(
            self,
            Self::Echo
                | Self::Think
                | Self::Plan
                | Self::Tool
                | Self::Permission
                | Self::Mode(_)
                | Self::WaitUntilCancelled
                | Self::Wait(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_become_steps_in_their_order_and_the_rest_is_echoed() {
        let table = [
            ("hello", vec![DemoStep::Echo]),
            ("", vec![DemoStep::Echo]),
            ("Think, then plan!", vec![DemoStep::Think, DemoStep::Plan, DemoStep::Echo]),
            ("chunks 3", vec![DemoStep::Chunks(3)]),
            ("chunks of wood", vec![DemoStep::Echo]),
            ("chunks 4000000000", vec![DemoStep::Chunks(MOST_CHUNKS)]),
            ("wait", vec![DemoStep::WaitUntilCancelled, DemoStep::Echo]),
            ("wait 20 and recall", vec![DemoStep::Wait(Duration::from_millis(20)), DemoStep::Recall]),
            ("mode code", vec![DemoStep::Mode("code".into()), DemoStep::Echo]),
            ("mode", vec![DemoStep::Echo]),
            ("permission tool", vec![DemoStep::Permission, DemoStep::Tool, DemoStep::Echo]),
            ("refuse", vec![DemoStep::Refuse]),
            ("fail", vec![DemoStep::Fail]),
            ("crash", vec![DemoStep::Crash]),
        ];
        for (text, expected) in table {
            assert_eq!(steps(text), expected, "{text}");
        }
    }

    #[test]
    fn an_mcp_tool_call_keeps_the_spelling_of_names_and_arguments() {
        let call = |server: &str, tool: &str, arguments: Value| {
            let arguments = Ok(arguments.as_object().unwrap().clone());
            DemoStep::McpCall(McpCall { server: server.into(), tool: tool.into(), arguments })
        };
        let table = [
            ("mcp", vec![DemoStep::McpServers]),
            ("think MCP!", vec![DemoStep::Think, DemoStep::McpServers]),
            ("mcp Files", vec![DemoStep::McpTools("Files".into())]),
            ("mcp Files get-Env", vec![call("Files", "get-Env", json!({}))]),
            (
                "mcp \"My Files\" read_file  {\"path\": \"wait fail {\", \"n\": [1]} think",
                vec![
                    call("My Files", "read_file", json!({ "path": "wait fail {", "n": [1] })),
                    DemoStep::Think,
                ],
            ),
            ("mcp a b{} plan", vec![call("a", "b{}", json!({})), DemoStep::Plan]),
            ("mcp a b {}mcp", vec![call("a", "b", json!({})), DemoStep::McpServers]),
        ];
        for (text, expected) in table {
            assert_eq!(steps(text), expected, "{text}");
        }
        for wrong in ["mcp a b {\"a\": ", "mcp a b {a}", "mcp a b {1: 2} fail"] {
            let read = steps(wrong);
            assert!(matches!(&read[..], [DemoStep::McpCall(call)] if call.arguments.is_err()), "{read:?}");
        }
    }
}
