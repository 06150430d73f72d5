//! Parses a stored `session/update` line: its parts and its kind.
//!
//! Every part borrows the text of the line, so forwarded parts keep their exact bytes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{Event, MessageKind, ProtocolVersion};
use crate::wire::splice;

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
    Running,
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
#[derive(Debug, Default)]
pub(super) struct Params<'a> {
    pub(super) text: &'a str,
    pub(super) session: Option<&'a RawValue>,
    pub(super) meta: Option<&'a RawValue>,
    update: Option<&'a RawValue>,
    has_others: bool,
}

/// The members of an update that identify it.
#[derive(Debug)]
pub(super) struct UpdateHeader<'a> {
    pub(super) kind: UpdateKind,
    pub(super) message_id: Option<&'a RawValue>,
    pub(super) tool_call: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) terminal: Option<&'a RawValue>,
    /// The plan id, if plans have one.
    pub(super) plan: Option<&'a RawValue>,
    /// Whether it announces a new tool call, as version 1 does.
    pub(super) is_new_call: bool,
    /// Whether the update has further members.
    has_others: bool,
}

#[derive(Deserialize)]
struct UpdateEnvelope<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

impl<'a> UpdateLine<'a> {
    /// Parses a line; `None` if it has no session id or no update.
    pub(super) fn read(body: &'a str) -> Option<Self> {
        let params = usual_params(body).or_else(|| {
            let UpdateEnvelope { params } = serde_json::from_str(body).ok()?;
            Params::read(params.get())
        })?;
        params.session?;
        let update = params.update?.get();
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
        let has_bad_id = self.head.message_id.is_some_and(|id| inside_quotes(id.get()).is_none());
        if !has_others && !has_bad_id { plain_text(self.head.content?.get()) } else { None }
    }
}

/// Whether `_meta` contains only `acpx`, which is not forwarded.
fn is_ours_alone(meta: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ours {
        #[serde(rename = "acpx")]
        _acpx: IgnoredAny,
    }
    serde_json::from_str::<Ours>(meta.get()).is_ok()
}

impl UpdateKind {
    /// Whether only version 2 has this kind.
    fn is_of_version_2(self) -> bool {
        matches!(self, Self::Message(_) | Self::ToolContent | Self::Terminal | Self::Running)
    }
}

impl<'a> UpdateHeader<'a> {
    /// Parses an update object. An unreadable one is of unknown kind.
    pub(super) fn read(update: &'a str) -> Self {
        serde_json::from_str(update).unwrap_or(Self {
            kind: UpdateKind::Other,
            message_id: None,
            tool_call: None,
            content: None,
            terminal: None,
            plan: None,
            is_new_call: false,
            has_others: true,
        })
    }
}

impl<'a> Params<'a> {
    fn read(text: &'a str) -> Option<Self> {
        Some(Params { text, ..serde_json::from_str(text).ok()? })
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

/// A JSON string, decoded.
pub(super) fn text_of(json: &RawValue) -> Option<Cow<'_, str>> {
    splice::text_of(json.get())
}

fn plain_text(content: &str) -> Option<&str> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Text<'a> {
        #[serde(borrow, rename = "type")]
        kind: &'a RawValue,
        #[serde(borrow)]
        text: &'a RawValue,
    }
    let Text { kind, text } = serde_json::from_str(content).ok()?;
    if kind.get() == r#""text""# { inside_quotes(text.get()) } else { None }
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
        "state_update" => UpdateKind::Running,
        _ => UpdateKind::Other,
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum ParamsMember {
    SessionId,
    Update,
    #[serde(rename = "_meta")]
    Meta,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Params<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the params of an update")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'a>, A::Error> {
                let mut params = Params::default();
                while let Some(member) = map.next_key()? {
                    match member {
                        ParamsMember::SessionId => once(&mut params.session, &mut map)?,
                        ParamsMember::Update => once(&mut params.update, &mut map)?,
                        ParamsMember::Meta => once(&mut params.meta, &mut map)?,
                        ParamsMember::Other => {
                            params.has_others = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(params)
            }
        }
        source.deserialize_map(Members(std::marker::PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum HeadMember {
    SessionUpdate,
    MessageId,
    ToolCallId,
    Content,
    Title,
    TerminalId,
    Plan,
    PlanId,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for UpdateHeader<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = UpdateHeader<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an update")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UpdateHeader<'a>, A::Error> {
                let (mut what, mut message_id, mut tool_call) = (None, None, None);
                let (mut content, mut title, mut terminal) = (None, None, None);
                let (mut plan, mut plan_id) = (None, None);
                let mut has_others = false;
                while let Some(member) = map.next_key()? {
                    match member {
                        HeadMember::SessionUpdate => once(&mut what, &mut map)?,
                        HeadMember::MessageId => once(&mut message_id, &mut map)?,
                        HeadMember::ToolCallId => once(&mut tool_call, &mut map)?,
                        HeadMember::Content => once(&mut content, &mut map)?,
                        HeadMember::Title => once(&mut title, &mut map)?,
                        HeadMember::TerminalId => once(&mut terminal, &mut map)?,
                        HeadMember::Plan => once(&mut plan, &mut map)?,
                        HeadMember::PlanId => once(&mut plan_id, &mut map)?,
                        HeadMember::Other => {
                            has_others = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let what = what.and_then(text_of);
                let kind = what.as_deref().map_or(UpdateKind::Other, kind_of);
                let is_new_call = what.as_deref() == Some("tool_call");
                let message_id = message_id.filter(|id: &&RawValue| id.get() != "null");
                has_others |= [title, terminal, plan, plan_id].iter().any(Option::is_some);
                let plan = plan_id.or_else(|| plan_id_of(plan?));
                Ok(UpdateHeader {
                    kind,
                    message_id,
                    tool_call,
                    content,
                    terminal,
                    plan,
                    is_new_call,
                    has_others,
                })
            }
        }
        source.deserialize_map(Members(std::marker::PhantomData))
    }
}

/// The id inside a version 2 plan.
fn plan_id_of(plan: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Plan<'a> {
        #[serde(borrow, rename = "planId")]
        id: &'a RawValue,
    }
    serde_json::from_str(plan.get()).ok().map(|Plan { id }| id)
}

/// Takes the value of a member, and rejects duplicates.
fn once<'de: 'a, 'a, A: MapAccess<'de>>(
    place: &mut Option<&'a RawValue>,
    map: &mut A,
) -> Result<(), A::Error> {
    match place.replace(map.next_value::<&'de RawValue>()?) {
        None => Ok(()),
        Some(_) => Err(serde::de::Error::custom("the member is there twice")),
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
}
