//! Renders a permission request for a terminal or a list: what the agent wants to do, before the question. All views
//! share this code, so a person who answers from another command sees what the terminal shows.
//!
//! Everything the agent sends is sanitized here before it reaches the terminal: no control characters, no marks that
//! change the direction of text, and a bounded length. Omissions are named, so that a person does not approve the rest
//! unseen.

use acpx_core::acp::ToolCallSnapshot;
use acpx_core::model::{is_secret_name, narrowest, unmistakable};
use acpx_core::protocol::{OptionMeta, PendingRequestMeta};
use serde_json::{Map, Value, json};

use super::diff::{Detail, unified};
use super::sanitize::{BRIEF, WORDS, agent_text, one_line, shorten, visible};
use super::turn::{command_line, first_named};

/// How many variables of a command are shown.
const VARIABLES: usize = 32;
/// A permission request to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TerminalQuestion {
    tool: Map<String, Value>,
    options: Vec<OptionMeta>,
    /// What it would do, in lines.
    details: String,
}

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalPermissionReply {
    /// The result of the request.
    Answer(Value),
    /// Invalid input; the text to show.
    Again(&'static str),
}

impl TerminalQuestion {
    /// Reads the params of a `session/request_permission`, with the known members of its tool call.
    pub(crate) fn read(params: &str, known: impl Fn(&str) -> Option<ToolCallSnapshot>) -> Self {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let call = params.get("toolCall").and_then(Value::as_object).cloned().unwrap_or_default();
        let known = call.get("toolCallId").and_then(Value::as_str).and_then(known).unwrap_or_default();
        let ToolCallSnapshot { members: mut tool, mut left_out } = known;
        tool.extend(call.into_iter().filter(|(_, value)| !value.is_null()));
        left_out.retain(|name| !tool.contains_key(*name));
        let details = visible(&(details(&tool, Detail::Short) + &too_long(&left_out.join(", "))));
        Self { tool, options: OptionMeta::of_request(&params), details }
    }

    /// What the agent wants to do and its options, in lines; empty if the request line has all of it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = self.details.clone();
        if self.has_choice() {
            for (number, option) in (1..).zip(&self.options) {
                shown.extend([&format!("  {number}  "), &agent_text(option.label()), "\n"]);
            }
        }
        visible(&shown)
    }

    /// The line that asks.
    pub(crate) fn prompt_line(&self) -> String {
        let answers = if self.has_choice() { "y/N, or a number" } else { "y/N" };
        // A command that is its own title is shown above, at greater length.
        if self.is_titled_by_command() {
            return format!("Allow this command? ({answers}) ");
        }
        visible(&format!("Allow {}? ({answers}) ", self.subject(WORDS)))
    }

    fn is_titled_by_command(&self) -> bool {
        let title =
            self.tool.get("title").and_then(Value::as_str).map(|title| title.trim().trim_matches('`'));
        title.is_some() && title == self.tool.get("rawInput").and_then(command_line).as_deref()
    }

    /// Interprets a typed line.
    pub(crate) fn reply(&self, typed: &str) -> TerminalPermissionReply {
        let typed = typed.trim();
        let numbered = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let chosen = match typed.to_lowercase().as_str() {
            "y" | "yes" => match narrowest(&self.options, "allow") {
                Some(option) => option,
                None => {
                    return TerminalPermissionReply::Again(
                        "the agent offers no plain yes; type the number of an option",
                    );
                }
            },
            "" | "n" | "no" => return TerminalPermissionReply::Answer(self.refusal()),
            _ => match numbered.and_then(|index| self.options.get(index)) {
                Some(option) => option,
                None if self.has_choice() => {
                    return TerminalPermissionReply::Again("type y or n, or the number of an option");
                }
                None => return TerminalPermissionReply::Again("type y or n"),
            },
        };
        // The host, or the agent, could mistake it for the other one.
        if !unmistakable(&self.options).any(|one| one.option_id == chosen.option_id) {
            return TerminalPermissionReply::Again(
                "another option has the same id, so that it cannot be chosen",
            );
        }
        TerminalPermissionReply::Answer(selected(&chosen.option_id))
    }

    /// The result that denies.
    pub(crate) fn refusal(&self) -> Value {
        match narrowest(&self.options, "reject") {
            Some(option) => selected(&option.option_id),
            None => json!({ "outcome": { "outcome": "cancelled" } }),
        }
    }

    /// Whether there are more choices than yes and no.
    fn has_choice(&self) -> bool {
        let yes = narrowest(&self.options, "allow");
        let plain = [yes, narrowest(&self.options, "reject")].into_iter().flatten().count();
        self.options.len() > plain || yes.is_none()
    }

    fn subject(&self, length: usize) -> String {
        let text = |name: &str| self.tool.get(name).and_then(Value::as_str);
        let title = one_line(text("title").or_else(|| text("toolCallId")).unwrap_or("a tool call"), length);
        text("kind").map_or_else(|| title.clone(), |kind| format!("{title} [{}]", one_line(kind, length)))
    }
}

/// What a listed request would do, in lines.
pub(crate) fn details_of(question: &PendingRequestMeta, detail: Detail) -> String {
    let shown = question.tool_call.as_ref().map(|tool| details(tool, detail)).unwrap_or_default();
    visible(&(shown + &too_long(&question.left_out.join(", "))))
}

/// The line that names members omitted for their length, if any.
fn too_long(names: &str) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("  (too long to show: {})\n", agent_text(names))
}

/// What a tool call would do, in lines: its command or other input, and its diffs.
fn details(tool: &Map<String, Value>, detail: Detail) -> String {
    let files = detail.limit(8, 1000);
    let content = tool.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_diff = |item: &&Value| item.get("type").is_some_and(|kind| kind == "diff");
    let diffs: Vec<&Value> = content.iter().filter(is_diff).collect();
    let shown_diffs = diffs.get(..files).unwrap_or(&diffs);
    let mut shown = input(tool, shown_diffs, detail);
    for diff in shown_diffs {
        let text = |name: &str| diff.get(name).and_then(Value::as_str);
        let path = agent_text(text("path").unwrap_or("-"));
        let new = text("newText").unwrap_or_default();
        shown.push_str(&indented(&unified(&path, text("oldText"), new, detail)));
    }
    if diffs.len() > files {
        shown.extend(["  ... (", &(diffs.len() - files).to_string(), " more files)\n"]);
    }
    shown
}

/// The command or other input of a call. For a command, everything that determines its effect is shown; for any other
/// input, all that the diffs do not show.
fn input(tool: &Map<String, Value>, diffs: &[&Value], detail: Detail) -> String {
    let longest = detail.limit(4000, 200_000);
    let Some(input) = tool.get("rawInput").filter(|input| !input.is_null()) else { return String::new() };
    if let Some(command) = command_line(input) {
        // The directory and the environment determine the effect.
        let cwd_line =
            input.get("cwd").and_then(Value::as_str).map(|cwd| format!("in {}\n", agent_text(cwd)));
        let with = variables(input).map(|variables| format!("with {variables}\n"));
        let line = format!("$ {}\n", shorten(&command, longest));
        return indented(&[line, cwd_line.unwrap_or_default(), with.unwrap_or_default()].concat());
    }
    let unshown = match input {
        Value::Object(members) => Value::Object(unshown(members, diffs)),
        other => other.clone(),
    };
    let members = unshown.as_object().map(Map::len);
    let named = first_named(&unshown);
    let line = named.as_ref().map(|named| format!("  {}\n", agent_text(named))).unwrap_or_default();
    let is_complete = members == Some(0) || (members == Some(1) && named.is_some());
    if is_complete {
        return line;
    }
    // Many agents repeat the change in the input.
    let length = if diffs.is_empty() { longest } else { WORDS };
    line + &indented(&format!("{}\n", shorten(&unshown.to_string(), length)))
}

/// The members of an input that the diff of their file does not contain.
fn unshown(input: &Map<String, Value>, diffs: &[&Value]) -> Map<String, Value> {
    let is_text = |diff: &Value, name: &str, value: &Value| {
        value.is_string() && diff.get(name).is_some_and(|text| text == value)
    };
    let names = |diff: &&&Value| input.values().any(|value| is_text(diff, "path", value));
    let Some(diff) = diffs.iter().find(names) else { return input.clone() };
    // With an old text the diff shows only the changes, so the whole text may differ from it.
    let shows_all = diff.get("oldText").is_none_or(|old| old.is_null() || old == "");
    let is_shown = |name: &str, value: &Value| match name {
        "content" => shows_all && is_text(diff, "newText", value),
        _ if name.starts_with("old") => is_text(diff, "oldText", value),
        _ => is_text(diff, "path", value) || is_text(diff, "newText", value),
    };
    let members = input.iter().filter(|(name, value)| !is_shown(name, value));
    members.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The variables of a command, with their values if these are known and not secret. Each is cut separately, so that no
/// value hides the variables after it.
fn variables(input: &Value) -> Option<String> {
    let shown = |name: &str, value: Option<&Value>| {
        let value = value.and_then(Value::as_str).filter(|_| !is_secret_name(name));
        let value = value.map(|value| format!("={}", one_line(value, BRIEF))).unwrap_or_default();
        one_line(name, BRIEF) + &value
    };
    let mut variables: Vec<String> = match input.get("env")? {
        Value::Object(members) => members.iter().map(|(name, value)| shown(name, Some(value))).collect(),
        Value::Array(items) => {
            let named = |item: &Value| {
                let name = item.as_str().or_else(|| item.get("name")?.as_str())?;
                // Some agents write `NAME=value`.
                let (name, value) = match name.split_once('=') {
                    Some((name, value)) => (name, Some(&Value::from(value))),
                    None => (name, item.get("value")),
                };
                Some(shown(name, value))
            };
            items.iter().filter_map(named).collect()
        }
        _ => return None,
    };
    let more = variables.len().saturating_sub(VARIABLES);
    variables.truncate(VARIABLES);
    let rest = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    (!variables.is_empty()).then(|| variables.join(", ") + &rest)
}

fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests;
