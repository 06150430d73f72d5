//! Rules for single tools, as a policy file of npm acpx has them.
//!
//! A rule is one word that matches a tool call's kind, its title, the title's first word or the tool's name; `*`
//! matches every tool. A deny rule wins over all others. A file with an unknown or invalid member is rejected as a
//! whole, because ignoring a misspelt rule would allow what its author has forbidden.

use serde_json::{Map, Value, json};

use super::{Decision, Ruling, ToolUse};
use crate::model::{JsonNode, WrongMember};

/// Rules for single tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    /// Approved without asking a client.
    auto_approve: Vec<Box<str>>,
    /// Rejected without asking a client.
    auto_deny: Vec<Box<str>>,
    /// Sent to a client in every mode.
    escalate: Vec<Box<str>>,
    /// Applies to all other tools; without it the mode decides.
    default_action: Option<Action>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Approve,
    Deny,
    Escalate,
}

const LISTS: [&str; 3] = ["autoApprove", "autoDeny", "escalate"];
const DEFAULT: &str = "defaultAction";
/// The rule that is reported when the default action escalates.
const EVERY: &str = "*";

impl ToolPolicy {
    /// Parses a policy.
    pub fn parse(text: &str) -> Result<Self, WrongMember> {
        // What is not JSON is not an object either.
        Self::of(&serde_json::from_str(text).unwrap_or_default())
    }

    /// Reads a policy that is a document of its own.
    pub fn of(value: &Value) -> Result<Self, WrongMember> {
        Self::read(&JsonNode::root(value, "the policy"))
    }

    /// Reads a policy that is part of a document.
    pub fn read(node: &JsonNode<'_>) -> Result<Self, WrongMember> {
        let members = node.object("a JSON object")?;
        let known = [&LISTS[..], &[DEFAULT]].concat();
        if let Some((_, unknown)) = members.all().find(|(name, _)| !known.contains(name)) {
            return Err(unknown.wrong_content("one of autoApprove, autoDeny, escalate and defaultAction"));
        }
        let action =
            |node: &JsonNode<'_>| node.parsed("\"approve\", \"deny\" or \"escalate\"", Action::parse);
        let [auto_approve, auto_deny, escalate] = LISTS.map(|name| members.read(name, rules));
        Ok(Self {
            auto_approve: auto_approve?.unwrap_or_default(),
            auto_deny: auto_deny?.unwrap_or_default(),
            escalate: escalate?.unwrap_or_default(),
            default_action: members.read(DEFAULT, action)?,
        })
    }

    /// The policy as JSON, without absent members.
    pub(crate) fn to_value(&self) -> Value {
        let mut members = Map::new();
        let lists = LISTS.into_iter().zip([&self.auto_approve, &self.auto_deny, &self.escalate]);
        members.extend(
            lists.filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.to_owned(), json!(list))),
        );
        members.extend(self.default_action.map(|action| (DEFAULT.to_owned(), action.as_str().into())));
        Value::Object(members)
    }

    /// Whether it approves any call without asking a client.
    pub fn approves(&self) -> bool {
        !self.auto_approve.is_empty() || self.default_action == Some(Action::Approve)
    }

    /// The same without its approvals; the mode decides those calls.
    #[must_use]
    pub(crate) fn without_approvals(self) -> Self {
        let default_action = self.default_action.filter(|action| *action != Action::Approve);
        Self { auto_approve: Vec::new(), default_action, ..self }
    }

    /// The decision on a tool call; `None` if no rule matches.
    pub fn rule(&self, tool: &ToolUse) -> Option<Ruling<'_>> {
        let settled = |decision| Ruling { decision, escalated_by: None };
        if matching(&self.auto_deny, tool).is_some() {
            return Some(settled(Decision::Reject));
        }
        if matching(&self.auto_approve, tool).is_some() {
            return Some(settled(Decision::Approve));
        }
        if let Some(rule) = matching(&self.escalate, tool) {
            return Some(Ruling { decision: Decision::Ask, escalated_by: Some(rule) });
        }
        self.default_action.map(|action| match action {
            Action::Approve => settled(Decision::Approve),
            Action::Deny => settled(Decision::Reject),
            Action::Escalate => Ruling { decision: Decision::Ask, escalated_by: Some(EVERY) },
        })
    }
}

impl Action {
    const ALL: [Self; 3] = [Self::Approve, Self::Deny, Self::Escalate];

    fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Escalate => "escalate",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// The first of these rules that matches a tool call.
fn matching<'a>(rules: &'a [Box<str>], tool: &ToolUse) -> Option<&'a str> {
    let title = tool.title.as_deref().map(str::trim);
    let names = [Some(tool.kind_name()), title, tool.first_word(), tool.name.as_deref()];
    let names: Vec<String> = names.into_iter().flatten().map(str::to_lowercase).collect();
    let is_meant = |rule: &str| rule == EVERY || names.contains(&rule.to_lowercase());
    rules.iter().map(|rule| &**rule).find(|rule| is_meant(rule))
}

/// The rules of one list.
fn rules(node: &JsonNode<'_>) -> Result<Vec<Box<str>>, WrongMember> {
    let items = node.array().map_err(|_| node.wrong("an array of strings"))?;
    items.iter().map(|item| Ok(item.word()?.trim().into())).collect()
}
