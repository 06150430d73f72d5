//! Permission requests: what is asked, and how an answer is put in the agent's own options.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::machine::{AskId, Permit};
use crate::model::ToolKind;
use crate::wire::encode;
use crate::wire::splice::{Step, locate};

use super::super::agent::PermissionOutcome;
use super::{AgentConnection, Outgoing, rpc_id};

/// What the agent wants to do, and the answers it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// What it wants to do.
    pub kind: ToolKind,
    /// Option ids with their kinds, in the agent's order.
    options: Vec<(String, String)>,
    /// The request's params, for whoever is asked.
    params: Arc<str>,
}

impl PermissionRequest {
    /// Reads the params of a `session/request_permission`; `known` tells the kind of a tool call that was
    /// reported earlier. What cannot be read asks for nothing that a policy would approve.
    pub(super) fn read(text: &str, known: impl Fn(&str) -> Option<ToolKind>) -> Self {
        let params: Value = serde_json::from_str(text).unwrap_or_default();
        // Version 2 has the tool call among other things that a permission can be about.
        let tool =
            params.get("toolCall").or_else(|| params.pointer("/subject/toolCall")).unwrap_or(&Value::Null);
        let told = tool.get("kind").and_then(Value::as_str).map(kind_of);
        let remembered = || known(tool.get("toolCallId")?.as_str()?);
        let option = |option: &Value| {
            let text = |key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("optionId")?, text("kind").unwrap_or_default()))
        };
        let options = params.get("options").and_then(Value::as_array);
        Self {
            kind: told.or_else(remembered).unwrap_or(ToolKind::Other),
            options: options.into_iter().flatten().filter_map(option).collect(),
            params: text.into(),
        }
    }

    /// Whether params offer any answers at all.
    pub(super) fn has_options(params: &str) -> bool {
        locate(params, &[Step::Key("options")]).is_some_and(|options| params[options].starts_with('['))
    }

    /// The request's params, as the agent wrote them.
    pub fn params(&self) -> &Arc<str> {
        &self.params
    }

    /// What it means that somebody chose an option; one that was not offered means no.
    pub fn choice(&self, option: &str) -> Permit {
        self.chosen(option, None)
    }

    /// The same of a client's whole result, which goes to the agent as it is if it chooses what was offered. One that
    /// cannot be read means no.
    pub fn said(&self, result: &Arc<str>) -> Permit {
        match PermissionOutcome::read(result) {
            Some(PermissionOutcome::Selected(option)) => self.chosen(&option, Some(result)),
            Some(PermissionOutcome::Cancelled) => Permit::Cancelled,
            None => Permit::Reject,
        }
    }

    fn chosen(&self, option: &str, said: Option<&Arc<str>>) -> Permit {
        match self.options.iter().find(|(offered, _)| offered == option) {
            Some((option, kind)) => Permit::Choose {
                option: option.as_str().into(),
                approves: kind.starts_with("allow"),
                said: said.cloned(),
            },
            None => Permit::Reject,
        }
    }

    /// The result that says this to the agent, in the narrowest of the options it offers.
    pub(super) fn result(&self, permit: &Permit) -> String {
        let of_kind = |kinds: &[&str]| {
            let option = |kind: &&str| self.options.iter().find(|(_, offered)| offered == kind);
            kinds.iter().find_map(option).map(|(option, _)| option.as_str())
        };
        if let Permit::Choose { said: Some(said), .. } = permit {
            return said.to_string();
        }
        let chosen = match permit {
            Permit::Approve => of_kind(&["allow_once", "allow_always"]),
            Permit::Reject => of_kind(&["reject_once", "reject_always"]),
            Permit::Choose { option, .. } => Some(&**option),
            Permit::Cancelled | Permit::Declined | Permit::Elicited(_) => None,
        };
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        json!({ "outcome": outcome }).to_string()
    }
}

impl AgentConnection {
    /// The line that answers a permission request.
    pub fn permit(&self, ask: &AskId, request: &PermissionRequest, permit: &Permit) -> Outgoing {
        self.said_by_client(encode::response(&rpc_id(ask), &request.result(permit)))
    }

    /// A response that may hold what a client said, which is kept without the secrets we know.
    pub(super) fn said_by_client(&self, line: String) -> Outgoing {
        let kept = self.secrets.remove_from_json(&line);
        Outgoing { kept, ..Outgoing::response(&self.peer, line) }
    }
}

fn kind_of(kind: &str) -> ToolKind {
    match kind {
        "read" | "search" => ToolKind::Reads,
        _ => ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (request("edit", ALL), request("edit", ALL).said(&other.into()), selected("r")),
            (request("edit", ALL), request("edit", ALL).said(&"{}".into()), selected("r")),
        ];
        for (request, permit, expected) in cases {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parsed(&request.result(&permit)), parsed(&expected), "{request:?} {permit:?}");
        }
    }

    #[test]
    fn what_a_client_said_goes_to_the_agent_byte_for_byte_if_it_chose_what_was_offered() {
        let said = r#"{"outcome":{"optionId":"R","outcome":"selected","future":1.0e2} ,"_meta":{"why":"x"}}"#;
        let request = request("edit", ALL);
        assert_eq!(request.result(&request.said(&said.into())), said);
        let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
        assert_eq!(request.result(&request.said(&cancelled.into())), cancelled);
    }

    #[test]
    fn the_kind_is_the_told_one_else_the_known_one_else_none_that_is_approved() {
        assert_eq!(request("read", &[]).kind, ToolKind::Reads);
        assert_eq!(request("search", &[]).kind, ToolKind::Reads);
        assert_eq!(request("execute", &[]).kind, ToolKind::Other);
        let subject = r#"{"title":"Read","subject":{"type":"tool_call","toolCall":{"toolCallId":"t","kind":"read"}},"options":[]}"#;
        assert_eq!(PermissionRequest::read(subject, |_| None).kind, ToolKind::Reads);
        let command = r#"{"title":"Run","subject":{"type":"command","command":"ls","cwd":"/"},"options":[]}"#;
        assert_eq!(PermissionRequest::read(command, |_| None).kind, ToolKind::Other);
        let untold = r#"{"toolCall":{"toolCallId":"t"},"options":[]}"#;
        assert_eq!(
            PermissionRequest::read(untold, |id| (id == "t").then_some(ToolKind::Reads)).kind,
            ToolKind::Reads
        );
        for unreadable in [untold, "null", "[]", r#"{"toolCall":7}"#] {
            assert_eq!(PermissionRequest::read(unreadable, |_| None).kind, ToolKind::Other);
        }
    }
}
