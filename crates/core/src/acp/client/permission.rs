//! Parses permission requests and maps decisions to the options that the agent offers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::model::{Permit, SessionIdentity, Timestamp, ToolUse, narrowest, unmistakable};
use crate::wire::json;

use super::super::agent::PermissionOutcome;

/// Maximum remembered length of a tool call's texts, in bytes. Rules and titles are shorter.
const REMEMBERED: usize = 4096;
/// Prefixes of the option kinds that allow and that reject.
const ALLOWS: &str = "allow";
const REJECTS: &str = "reject";

/// A tool use that needs permission, and the options the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The tool use.
    pub tool: ToolUse,
    /// Option ids with their kinds, in the agent's order.
    options: Vec<(String, String)>,
    /// The request's params, to forward.
    params: Arc<str>,
}

/// A permission request that a rule escalated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Escalation<'a> {
    /// The rule.
    pub rule: &'a str,
    /// The session.
    pub identity: SessionIdentity,
    /// The time.
    pub at: Timestamp,
}

impl PermissionRequest {
    /// Parses the params of a `session/request_permission`; `known` looks up an earlier reported tool call. Unreadable
    /// params request nothing that a permission mode would approve.
    pub(super) fn read<'a>(text: &str, known: impl Fn(&str) -> Option<&'a ToolUse>) -> Self {
        let params: Value = serde_json::from_str(text).unwrap_or_default();
        let tool = subject(&params);
        let mut tool_use = tool_use(&tool.to_string());
        if let Some(earlier) = tool.get("toolCallId").and_then(Value::as_str).and_then(known) {
            tool_use = tool_use.or(earlier);
        }
        // Version 2 has a title for the request, and commands that are not tool calls.
        let text_of = |name: &str| params.get(name).and_then(Value::as_str).map(Into::into);
        tool_use.title = tool_use.title.or_else(|| text_of("title"));
        if params.pointer("/subject/type").is_some_and(|kind| kind == "command") {
            tool_use.protocol_kind.get_or_insert_with(|| "execute".into());
        }
        let option = |option: &Value| {
            let text = |key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("optionId")?, text("kind").unwrap_or_default()))
        };
        let options = params.get("options").and_then(Value::as_array);
        Self {
            tool: tool_use,
            options: options.into_iter().flatten().filter_map(option).collect(),
            params: text.into(),
        }
    }

    /// Whether it offers any option. Without one it cannot be answered.
    pub(crate) fn has_any_option(&self) -> bool {
        !self.options.is_empty()
    }

    /// Whether params have a list of options.
    pub(super) fn has_options(params: &str) -> bool {
        json::get(params, &["options"]).is_some_and(|options| options.starts_with('['))
    }

    /// The request's params, as the agent wrote them.
    pub(crate) fn params(&self) -> &Arc<str> {
        &self.params
    }

    /// The decision for a chosen option; an unknown option rejects.
    pub(crate) fn choice(&self, option: &str) -> Permit {
        self.chosen(option, None)
    }

    /// The decision for a client's whole result. A result that selects an offered option, or none, is forwarded
    /// unchanged. An unreadable one rejects.
    pub fn client_choice(&self, result: &Arc<str>) -> Permit {
        match PermissionOutcome::read(result) {
            Some(PermissionOutcome::Selected(option)) => self.chosen(&option, Some(result)),
            Some(PermissionOutcome::Cancelled | PermissionOutcome::Unknown) => {
                Permit::Unselected(Arc::clone(result))
            }
            None => Permit::Reject,
        }
    }

    /// An id shared by several options rejects: the agent could read it as the opposite.
    fn chosen(&self, option: &str, result: Option<&Arc<str>>) -> Permit {
        match unmistakable(&self.options).find(|(offered, _)| offered == option) {
            Some((option, kind)) => Permit::Choose {
                option: option.as_str().into(),
                approves: kind.starts_with(ALLOWS),
                result: result.cloned(),
            },
            None => Permit::Reject,
        }
    }

    /// Whether it offers an option that is known to allow.
    pub(crate) fn can_be_approved(&self) -> bool {
        self.approval().is_some()
    }

    /// The decision for an approval without an option; rejects if no option is known to allow.
    pub(crate) fn approved(&self) -> Permit {
        if self.can_be_approved() { Permit::Approve } else { Permit::Reject }
    }

    /// The narrowest option that is known to allow. Every approval without an option selects it.
    fn approval(&self) -> Option<&str> {
        narrowest(&self.options, ALLOWS).map(|(option, _)| option.as_str())
    }

    fn refusal(&self) -> Option<&str> {
        narrowest(&self.options, REJECTS).map(|(option, _)| option.as_str())
    }

    /// The result for the agent, with the narrowest matching option.
    pub(super) fn result(&self, permit: &Permit) -> String {
        match permit {
            Permit::Choose { result: Some(result), .. } | Permit::Unselected(result) => result.to_string(),
            other => json!({ "outcome": self.outcome(other) }).to_string(),
        }
    }

    fn outcome(&self, permit: &Permit) -> Value {
        let chosen = match permit {
            Permit::Approve => self.approval(),
            Permit::Reject | Permit::Escalated(_) => self.refusal(),
            Permit::Choose { option, .. } => Some(&**option),
            Permit::Unselected(_) | Permit::Cancelled | Permit::Declined | Permit::ElicitationResult(_) => {
                None
            }
        };
        match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        }
    }

    /// The result for an escalated request that no user could answer, in npm acpx's format.
    pub(super) fn escalated(&self, escalation: &Escalation<'_>) -> String {
        let params: Value = serde_json::from_str(&self.params).unwrap_or_default();
        let call = subject(&params);
        let title = self.tool.title.as_deref().or_else(|| self.tool.tool()).unwrap_or("a tool call");
        let escalation = EscalationMeta {
            what: "permission_escalation",
            identity: &escalation.identity,
            tool_call_id: call.get("toolCallId").filter(|id| !id.is_null()),
            tool_name: self.tool.tool(),
            tool_title: title,
            tool_input: call.get("rawInput").filter(|input| !input.is_null()),
            tool_kind: self.tool.kind_name(),
            action: "escalate",
            matched_rule: escalation.rule,
            message: format!("Permission escalation required for {title}"),
            timestamp: escalation.at.to_string(),
        };
        let outcome = self.outcome(&Permit::Reject);
        json!({ "outcome": outcome, "_meta": { "acpx": { "permissionEscalation": escalation } } }).to_string()
    }
}

/// `_meta.acpx.permissionEscalation` in the response to an agent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EscalationMeta<'a> {
    #[serde(rename = "type")]
    what: &'static str,
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    tool_title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_input: Option<&'a Value>,
    tool_kind: &'a str,
    action: &'static str,
    matched_rule: &'a str,
    message: String,
    timestamp: String,
}

/// The tool call of a request. Version 2 has other subjects too.
fn subject(params: &Value) -> &Value {
    params.get("toolCall").or_else(|| params.pointer("/subject/toolCall")).unwrap_or(&Value::Null)
}

/// The tool use that a tool call describes. Members of the wrong type are ignored.
pub(super) fn tool_use(call: &str) -> ToolUse {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct View<'a> {
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        title: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        raw_input: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Input<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        tool: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_name: Option<&'a RawValue>,
    }
    let View { kind, title, name, raw_input } = serde_json::from_str(call).unwrap_or_default();
    let input: Input<'_> =
        raw_input.and_then(|input| serde_json::from_str(input.get()).ok()).unwrap_or_default();
    let non_empty = |value: Option<&RawValue>| -> Option<Box<str>> {
        let text: Box<str> = serde_json::from_str(value?.get()).ok()?;
        (!text.trim().is_empty()).then_some(text)
    };
    let names = [input.name, input.tool, input.tool_name, name];
    ToolUse {
        protocol_kind: non_empty(kind),
        title: non_empty(title),
        name: names.into_iter().find_map(non_empty),
    }
}

/// The tool use of an update, with texts cut to the remembered length, and whether the call is new.
pub(super) fn reported_tool(update: &str) -> (ToolUse, bool) {
    let mut tool = tool_use(update);
    for text in [&mut tool.protocol_kind, &mut tool.title, &mut tool.name].into_iter().flatten() {
        if text.len() > REMEMBERED {
            *text = text[..text.floor_char_boundary(REMEMBERED)].into();
        }
    }
    let what = json::get(update, &["sessionUpdate"]);
    (tool, what == Some("\"tool_call\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolKind;

    fn request(kind: &str, options: &[(&str, &str)]) -> PermissionRequest {
        let options: Vec<_> =
            options.iter().map(|(id, kind)| json!({"optionId": id, "name": id, "kind": kind})).collect();
        let params =
            json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "kind": kind}, "options": options});
        PermissionRequest::read(&params.to_string(), |_| None)
    }

    const ALL: &[(&str, &str)] =
        &[("A", "allow_always"), ("a", "allow_once"), ("R", "reject_always"), ("r", "reject_once")];

    #[test]
    fn the_narrowest_offered_option_is_chosen() {
        let selected = |id: &str| format!(r#"{{"outcome":{{"optionId":"{id}","outcome":"selected"}}}}"#);
        let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#.to_owned();
        let other = r#"{"outcome":{"outcome":"selected","optionId":"not offered"},"_meta":{}}"#;
        let cases = [
            (request("edit", ALL), Permit::Approve, selected("a")),
            (request("edit", ALL), Permit::Reject, selected("r")),
            (request("edit", ALL), Permit::Cancelled, cancelled.clone()),
            (request("edit", &ALL[..1]), Permit::Approve, selected("A")),
            (request("edit", &ALL[..2]), Permit::Reject, cancelled.clone()),
            (request("edit", &ALL[2..]), Permit::Approve, cancelled.clone()),
            (request("edit", &[]), Permit::Approve, cancelled.clone()),
            (request("edit", ALL), request("edit", ALL).choice("R"), selected("R")),
            (request("edit", ALL), request("edit", ALL).choice("not offered"), selected("r")),
            (request("edit", &[]), request("edit", &[]).choice("a"), cancelled),
            (request("edit", ALL), request("edit", ALL).client_choice(&other.into()), selected("r")),
            (request("edit", ALL), request("edit", ALL).client_choice(&"{}".into()), selected("r")),
        ];
        for (request, permit, expected) in cases {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parsed(&request.result(&permit)), parsed(&expected), "{request:?} {permit:?}");
        }
    }

    #[test]
    fn permission_result_with_an_offered_option_is_forwarded_unchanged() {
        let result =
            r#"{"outcome":{"optionId":"R","outcome":"selected","future":1.0e2} ,"_meta":{"why":"x"}}"#;
        let request = request("edit", ALL);
        assert_eq!(request.result(&request.client_choice(&result.into())), result);
    }

    #[test]
    fn permission_result_without_a_choice_is_forwarded_unchanged() {
        let request = request("edit", &ALL[2..3]);
        for result in [
            r#"{"outcome":{"outcome":"cancelled"}}"#,
            r#"{"outcome":{"why":"x","outcome":"cancelled"} ,"_meta":{"k":1.0}}"#,
            r#"{"outcome":{"outcome":"_later","until":5.0}}"#,
        ] {
            assert_eq!(request.result(&request.client_choice(&result.into())), result);
        }
        // A known outcome with an invalid shape is no outcome.
        let result = r#"{"outcome":{"outcome":"selected","until":5}}"#;
        assert_eq!(request.client_choice(&result.into()), Permit::Reject);
    }

    #[test]
    fn permission_option_kind_prefix_decides_what_an_unknown_kind_means() {
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        let new = [("r", "reject_all_week"), ("x", "perhaps"), ("a", "allow_all_week")];
        let cases = [
            (&new[..], Permit::Approve, selected("a")),
            (&new[..], Permit::Reject, selected("r")),
            (&new[..2], Permit::Approve, cancelled.clone()),
            (&new[1..2], Permit::Approve, cancelled.clone()),
            (&new[1..2], Permit::Reject, cancelled.clone()),
            (&new[..1], Permit::Approve, cancelled),
        ];
        for (options, permit, expected) in cases {
            let result: Value = serde_json::from_str(&request("edit", options).result(&permit)).unwrap();
            assert_eq!(result, expected, "{options:?} {permit:?}");
        }
    }

    #[test]
    fn an_id_that_two_options_have_is_no_answer() {
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        let both = [("a", "allow_once"), ("a", "reject_once"), ("A", "allow_always"), ("R", "reject_always")];
        let result = r#"{"outcome":{"outcome":"selected","optionId":"a"}}"#.into();
        let cases = [
            (&both[..2], Permit::Approve, cancelled.clone()),
            (&both[..2], Permit::Reject, cancelled.clone()),
            (&both[..2], request("edit", &both[..2]).choice("a"), cancelled.clone()),
            (&both[..2], request("edit", &both[..2]).client_choice(&result), cancelled),
            (&both[..], Permit::Approve, selected("A")),
            (&both[..], Permit::Reject, selected("R")),
            (&both[..], request("edit", &both).client_choice(&result), selected("R")),
        ];
        for (options, permit, expected) in cases {
            let result: Value = serde_json::from_str(&request("edit", options).result(&permit)).unwrap();
            assert_eq!(result, expected, "{options:?} {permit:?}");
        }
    }

    #[test]
    fn permission_escalation_has_npm_acpx_format() {
        use crate::model::{AcpSessionId, AgentSessionId, RecordId};
        let params = json!({
            "sessionId": "s",
            "toolCall": {"toolCallId": "p1", "title": "Write file", "kind": "edit", "rawInput": {"path": "x"}},
            "options": [{"optionId": "reject", "name": "No", "kind": "reject_once"}],
        });
        let request = PermissionRequest::read(&params.to_string(), |_| None);
        let identity = SessionIdentity {
            record: RecordId::new("r").unwrap(),
            session: AcpSessionId::new("s").unwrap(),
            agent_session: AgentSessionId::from_agent("inner"),
        };
        let at = Timestamp::from_millis(0).unwrap();
        let escalation: Value =
            serde_json::from_str(&request.escalated(&Escalation { rule: "*", identity, at })).unwrap();
        let expected = json!({
            "outcome": {"outcome": "selected", "optionId": "reject"},
            "_meta": {"acpx": {"permissionEscalation": {
                "type": "permission_escalation", "acpxRecordId": "r", "acpxSessionId": "s",
                "agentSessionId": "inner", "toolCallId": "p1", "toolName": "Write", "toolTitle": "Write file",
                "toolInput": {"path": "x"}, "toolKind": "edit", "action": "escalate", "matchedRule": "*",
                "message": "Permission escalation required for Write file", "timestamp": at.to_string(),
            }}},
        });
        assert_eq!(escalation, expected);
    }

    #[test]
    fn tool_kind_is_sent_else_known_else_never_approved() {
        assert_eq!(request("read", &[]).tool.kind(), ToolKind::Reads);
        assert_eq!(request("search", &[]).tool.kind(), ToolKind::Reads);
        assert_eq!(request("execute", &[]).tool.kind(), ToolKind::Other);
        let subject = r#"{"title":"Read","subject":{"type":"tool_call","toolCall":{"toolCallId":"t","kind":"read"}},"options":[]}"#;
        assert_eq!(PermissionRequest::read(subject, |_| None).tool.kind(), ToolKind::Reads);
        let command = r#"{"title":"Run","subject":{"type":"command","command":"ls","cwd":"/"},"options":[]}"#;
        assert_eq!(PermissionRequest::read(command, |_| None).tool.kind(), ToolKind::Other);
        let untold = r#"{"toolCall":{"toolCallId":"t"},"options":[]}"#;
        let known = ToolUse { protocol_kind: Some("read".into()), ..ToolUse::default() };
        let read = PermissionRequest::read(untold, |id| (id == "t").then_some(&known));
        assert_eq!(read.tool.kind(), ToolKind::Reads);
        for unreadable in [untold, "null", "[]", r#"{"toolCall":7}"#] {
            assert_eq!(PermissionRequest::read(unreadable, |_| None).tool.kind(), ToolKind::Other);
        }
    }
}
