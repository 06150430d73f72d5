//! Parses a stored `session/update` line: its parts and its kind.
//!
//! Every part borrows the text of the line, so forwarded parts keep their exact bytes.

use crate::model::{Event, MessageKind, ProtocolVersion};
use crate::wire::json::{self, MemberScan};

/// A line and its parts.
#[derive(Debug)]
pub(super) struct UpdateLine<'a> {
    pub(super) body: &'a str,
    pub(super) params: Params<'a>,
    /// The update object, as written in the line.
    pub(super) update: &'a str,
    pub(super) head: UpdateHeader<'a>,
}

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum UpdateKind {
    /// A chunk of a message.
    Chunk(MessageKind),
    /// A whole message.
    Message(MessageKind),
    /// A tool call, new or changed.
    Tool,
    /// More content of a tool call.
    ToolContent,
    /// A terminal of a version 2 agent, or its output.
    Terminal,
    /// Session state: the last update replaces earlier ones.
    State(SessionStateKind),
    /// A notice to the user. It is never replayed.
    Notice,
    /// The agent compacted its context.
    Compaction,
    /// Whether the agent works.
    RunState,
    /// An unknown update.
    Other,
}

/// State that each update sends whole, so that only the last update counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SessionStateKind {
    /// A plan: the last update of each plan in each turn counts.
    Plan,
    Commands,
    Mode,
    Options,
    /// Session info: an update changes only the fields that it contains.
    Info,
    Usage,
}

/// The members of an update's params.
#[derive(Debug)]
pub(super) struct Params<'a> {
    pub(super) text: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) meta: Option<&'a str>,
    update: Option<&'a str>,
    has_others: bool,
}

/// The members of an update that identify it.
#[derive(Debug)]
pub(super) struct UpdateHeader<'a> {
    pub(super) kind: UpdateKind,
    pub(super) message_id: Option<&'a str>,
    pub(super) tool_call: Option<&'a str>,
    pub(super) content: Option<&'a str>,
    pub(super) terminal: Option<&'a str>,
    /// The plan id, if plans have one.
    pub(super) plan: Option<&'a str>,
    /// Whether it announces a new tool call, as version 1 does.
    pub(super) is_new_call: bool,
    /// Whether it has a title, as the first update of a tool call does.
    pub(super) has_title: bool,
    /// Whether the update has further members.
    has_others: bool,
}

impl<'a> UpdateLine<'a> {
    /// Parses a line; `None` if it has no session id or no update, or if a name that we read or replace is duplicated.
    pub(super) fn read(body: &'a str) -> Option<Self> {
        let params = usual_params(body).or_else(|| Params::read(json::get(body, &["params"])?))?;
        params.session?;
        let update = params.update?;
        Some(Self { body, params, update, head: UpdateHeader::read(update) })
    }

    /// Parses an event's line. Update kinds of version 2 count as unknown if the agent uses version 1.
    pub(super) fn of(event: &'a Event) -> Option<Self> {
        let mut line = Self::read(&event.body)?;
        let is_second = ProtocolVersion::from_number(event.protocol) == Some(ProtocolVersion::V2);
        if !is_second && line.head.kind.is_of_version_2() {
            line.head.kind = UpdateKind::Other;
        }
        Some(line)
    }

    /// The text of a chunk that contains only text, as written between its quotes. `None` if the message id is not a
    /// string.
    pub(super) fn plain_text(&self) -> Option<&'a str> {
        let has_meta = self.params.meta.is_some_and(|meta| !is_ours_alone(meta));
        let has_others = self.params.has_others || has_meta || self.head.has_others;
        let has_bad_id = self.head.message_id.is_some_and(|id| inside_quotes(id).is_none());
        if !has_others && !has_bad_id { plain_text(self.head.content?) } else { None }
    }
}

/// Whether `_meta` contains only `acpx`, which is not forwarded.
fn is_ours_alone(meta: &str) -> bool {
    json::scan(meta, &["acpx"]).and_then(MemberScan::only).is_some_and(|[acpx]| acpx.is_some())
}

impl UpdateKind {
    /// Whether only version 2 has this kind.
    fn is_of_version_2(self) -> bool {
        matches!(self, Self::Message(_) | Self::ToolContent | Self::Terminal | Self::RunState)
    }
}

impl<'a> UpdateHeader<'a> {
    /// Parses an update object. An unreadable one is of unknown kind.
    pub(super) fn read(update: &'a str) -> Self {
        const NAMES: [&str; 8] =
            ["sessionUpdate", "messageId", "toolCallId", "content", "title", "terminalId", "plan", "planId"];
        let scan = json::scan(update, &NAMES).filter(MemberScan::is_plain);
        let has_unknown = scan.as_ref().is_none_or(|scan| scan.has_others);
        let values = scan.map_or([None; 8], |scan| scan.values);
        let [what, message_id, tool_call, content, title, terminal, plan, plan_id] = values;
        let what = what.and_then(json::string);
        Self {
            kind: what.as_deref().map_or(UpdateKind::Other, kind_of),
            message_id: message_id.filter(|id| *id != "null"),
            tool_call,
            content,
            terminal,
            plan: plan_id.or_else(|| json::get(plan?, &["planId"])),
            is_new_call: what.as_deref() == Some("tool_call"),
            has_title: title.is_some(),
            has_others: has_unknown || [title, terminal, plan, plan_id].iter().any(Option::is_some),
        }
    }
}

impl<'a> Params<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let scan = json::scan(text, &["sessionId", "update", "_meta"]).filter(MemberScan::is_plain)?;
        let [session, update, meta] = scan.values;
        if meta.is_some_and(|meta| json::is_duplicated(meta, &["acpx"])) {
            return None;
        }
        Some(Self { text, session, meta, update, has_others: scan.has_others })
    }
}

/// Fast path: the params of a line in the usual form, without parsing the envelope. It fails if anything but the end
/// of the line follows the params.
fn usual_params(body: &str) -> Option<Params<'_>> {
    let params = body.strip_prefix(r#"{"jsonrpc":"2.0","method":"session/update","params":"#)?;
    let params = params.strip_suffix('}')?;
    // Surrounding whitespace is not part of a value.
    let is_bare = params.starts_with('{') && params.ends_with('}');
    if is_bare { Params::read(params) } else { None }
}

/// A JSON string without its quotes; `None` for anything else.
pub(super) fn inside_quotes(json: &str) -> Option<&str> {
    json.strip_prefix('"')?.strip_suffix('"')
}

fn plain_text(content: &str) -> Option<&str> {
    match json::scan(content, &["type", "text"])?.only()? {
        [Some(r#""text""#), Some(text)] => inside_quotes(text),
        _ => None,
    }
}

fn kind_of(what: &str) -> UpdateKind {
    match what {
        "user_message_chunk" => UpdateKind::Chunk(MessageKind::User),
        "agent_message_chunk" => UpdateKind::Chunk(MessageKind::Agent),
        "agent_thought_chunk" => UpdateKind::Chunk(MessageKind::Thought),
        "user_message" => UpdateKind::Message(MessageKind::User),
        "agent_message" => UpdateKind::Message(MessageKind::Agent),
        "agent_thought" => UpdateKind::Message(MessageKind::Thought),
        "tool_call" | "tool_call_update" => UpdateKind::Tool,
        "tool_call_content_chunk" => UpdateKind::ToolContent,
        "terminal_update" | "terminal_output_chunk" => UpdateKind::Terminal,
        "plan" | "plan_update" | "plan_removed" => UpdateKind::State(SessionStateKind::Plan),
        "available_commands_update" => UpdateKind::State(SessionStateKind::Commands),
        "current_mode_update" => UpdateKind::State(SessionStateKind::Mode),
        "config_option_update" => UpdateKind::State(SessionStateKind::Options),
        "session_info_update" => UpdateKind::State(SessionStateKind::Info),
        "usage_update" => UpdateKind::State(SessionStateKind::Usage),
        "notice" => UpdateKind::Notice,
        "compaction_update" | "compaction_summary_chunk" => UpdateKind::Compaction,
        "state_update" => UpdateKind::RunState,
        _ => UpdateKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_alike_however_its_envelope_is_written() {
        let params = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}"#;
        let envelopes = [
            ("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":", "}"),
            ("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\": ", " }"),
            ("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":", ",\"extra\":{}}"),
            ("{\"method\":\"session/update\",\"params\":", ",\"jsonrpc\":\"2.0\"}"),
        ];
        for (before, after) in envelopes {
            let body = format!("{before}{params}{after}");
            let line = UpdateLine::read(&body).unwrap();
            assert_eq!(
                (line.body, line.params.text, line.plain_text()),
                (&*body, params, Some("a")),
                "{body}"
            );
        }
        for broken in ["{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}", "{}", ""] {
            assert!(UpdateLine::read(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn update_with_a_duplicated_acpx_meta_is_not_read() {
        for meta in [r#""_meta":{"acpx":1,"acpx":2}"#, r#""_meta":{},"\u005fmeta":{"acpx":1}"#] {
            let body =
                format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{}},{meta}}}}}"#);
            assert!(UpdateLine::read(&body).is_none(), "{body}");
        }
    }
}
