//! What a prompt asks the demo agent to do. Pure: the same words always give the same steps.

use std::time::Duration;

use serde_json::{Map, Value};

/// More chunks than this are not streamed, so that a mistyped number does no harm.
const MOST_CHUNKS: u32 = 1_000_000;

/// One thing a turn does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
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

/// A call of a tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct McpCall {
    pub(super) server: String,
    pub(super) tool: String,
    /// The arguments, or why they are none.
    pub(super) arguments: Result<Map<String, Value>, String>,
}

/// The steps of a prompt, in the order of its words. What has no answer of its own is echoed at the end.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let plain = |word: &str| word.trim_matches(|sign: char| !sign.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    let mut steps: Vec<Step> = Vec::new();
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
    if !steps.iter().any(Step::is_an_answer) {
        steps.push(Step::Echo);
    }
    steps
}

/// The step that begins with the first of these words.
fn step(words: &[String]) -> Option<Step> {
    let next = words.get(1).map(String::as_str);
    match words.first()?.as_str() {
        "chunks" => next?.parse().ok().map(|count: u32| Step::Chunks(count.min(MOST_CHUNKS))),
        "think" => Some(Step::Think),
        "plan" => Some(Step::Plan),
        "tool" => Some(Step::Tool),
        "permission" => Some(Step::Permission),
        "mode" => next.map(|mode| Step::Mode(mode.into())),
        "wait" => Some(match next.and_then(|millis| millis.parse().ok()) {
            Some(millis) => Step::Wait(Duration::from_millis(millis)),
            None => Step::WaitUntilCancelled,
        }),
        "recall" => Some(Step::Recall),
        "refuse" => Some(Step::Refuse),
        "fail" => Some(Step::Fail),
        "crash" => Some(Step::Crash),
        _ => None,
    }
}

/// What the words behind `mcp` ask for, and the text behind those. Names and arguments keep their spelling.
fn mcp(text: &str) -> (Step, &str) {
    let Some((server, rest)) = name(text) else { return (Step::McpServers, "") };
    let Some((tool, rest)) = name(rest) else { return (Step::McpTools(server), "") };
    let rest = rest.trim_start();
    let (arguments, rest) = if rest.starts_with('{') {
        match first(rest) {
            Ok(read) => (Ok(read.0), read.1),
            Err(problem) => (Err(problem), ""),
        }
    } else {
        (Ok(Map::new()), rest)
    };
    (Step::McpCall(McpCall { server, tool, arguments }), rest)
}

/// A name and the text behind it. One with spaces is in quotes, as in JSON.
fn name(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Ok(read) = first(text) {
        return Some(read);
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

/// The value of JSON that a text begins with, and the text behind it.
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

impl Step {
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
            ("hello", vec![Step::Echo]),
            ("", vec![Step::Echo]),
            ("Think, then plan!", vec![Step::Think, Step::Plan, Step::Echo]),
            ("chunks 3", vec![Step::Chunks(3)]),
            ("chunks of wood", vec![Step::Echo]),
            ("chunks 4000000000", vec![Step::Chunks(MOST_CHUNKS)]),
            ("wait", vec![Step::WaitUntilCancelled, Step::Echo]),
            ("wait 20 and recall", vec![Step::Wait(Duration::from_millis(20)), Step::Recall]),
            ("mode code", vec![Step::Mode("code".into()), Step::Echo]),
            ("mode", vec![Step::Echo]),
            ("permission tool", vec![Step::Permission, Step::Tool, Step::Echo]),
            ("refuse", vec![Step::Refuse]),
            ("fail", vec![Step::Fail]),
            ("crash", vec![Step::Crash]),
        ];
        for (text, expected) in table {
            assert_eq!(steps(text), expected, "{text}");
        }
    }

    #[test]
    fn an_mcp_tool_call_keeps_the_spelling_of_names_and_arguments() {
        let call = |server: &str, tool: &str, arguments: Value| {
            let arguments = Ok(arguments.as_object().unwrap().clone());
            Step::McpCall(McpCall { server: server.into(), tool: tool.into(), arguments })
        };
        let table = [
            ("mcp", vec![Step::McpServers]),
            ("think MCP!", vec![Step::Think, Step::McpServers]),
            ("mcp Files", vec![Step::McpTools("Files".into())]),
            ("mcp Files get-Env", vec![call("Files", "get-Env", json!({}))]),
            (
                "mcp \"My Files\" read_file  {\"path\": \"wait fail {\", \"n\": [1]} think",
                vec![call("My Files", "read_file", json!({ "path": "wait fail {", "n": [1] })), Step::Think],
            ),
            ("mcp a b{} plan", vec![call("a", "b{}", json!({})), Step::Plan]),
            ("mcp a b {}mcp", vec![call("a", "b", json!({})), Step::McpServers]),
        ];
        for (text, expected) in table {
            assert_eq!(steps(text), expected, "{text}");
        }
        for wrong in ["mcp a b {\"a\": ", "mcp a b {a}", "mcp a b {1: 2} fail"] {
            let read = steps(wrong);
            assert!(matches!(&read[..], [Step::McpCall(call)] if call.arguments.is_err()), "{read:?}");
        }
    }
}
