//! Rules for single tools, as a policy file of npm acpx has them.
//!
//! A rule is one word that matches a tool call's kind, its title, the title's first word or the tool's name; `*`
//! matches every tool. A deny rule wins over all others. A file with an unknown or invalid member is rejected as a
//! whole, because ignoring a misspelt rule would allow what its author has forbidden.

use serde_json::{Map, Value, json};

use super::{Decision, Ruling, ToolUse};

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

/// Why a value is not a policy. The error does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{member} must be {expected}")]
pub struct PolicyProblem {
    /// Where, as a path of members.
    pub member: String,
    /// What it must be.
    pub expected: &'static str,
}

const LISTS: [&str; 3] = ["autoApprove", "autoDeny", "escalate"];
const DEFAULT: &str = "defaultAction";
/// The rule that is reported when the default action escalates.
const EVERY: &str = "*";

impl ToolPolicy {
    /// Reads a policy from JSON.
    pub fn read(text: &str) -> Result<Self, PolicyProblem> {
        let expected = "a JSON object";
        let value = serde_json::from_str(text)
            .map_err(|_| PolicyProblem { member: "the policy".to_owned(), expected })?;
        Self::of(&value)
    }

    /// Reads a policy from a value.
    pub fn of(value: &Value) -> Result<Self, PolicyProblem> {
        let wrong = |member: &str, expected| PolicyProblem { member: member.to_owned(), expected };
        let members = value.as_object().ok_or_else(|| wrong("the policy", "a JSON object"))?;
        if let Some(unknown) = members.keys().find(|name| !LISTS.contains(&name.as_str()) && *name != DEFAULT)
        {
            let known = "one of autoApprove, autoDeny, escalate and defaultAction";
            return Err(wrong(&format!("the member {unknown:?}"), known));
        }
        let [auto_approve, auto_deny, escalate] = LISTS.map(|name| words(members, name));
        let default_action = match members.get(DEFAULT) {
            None => None,
            Some(action) => Some(
                action
                    .as_str()
                    .and_then(Action::parse)
                    .ok_or_else(|| wrong(DEFAULT, "\"approve\", \"deny\" or \"escalate\""))?,
            ),
        };
        let (auto_approve, auto_deny, escalate) = (auto_approve?, auto_deny?, escalate?);
        Ok(Self { auto_approve, auto_deny, escalate, default_action })
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

/// The rules of one list; none if it is not there.
fn words(members: &Map<String, Value>, name: &str) -> Result<Vec<Box<str>>, PolicyProblem> {
    let Some(list) = members.get(name) else { return Ok(Vec::new()) };
    let wrong = |member: String, expected| PolicyProblem { member, expected };
    let list = list.as_array().ok_or_else(|| wrong(name.to_owned(), "an array of strings"))?;
    let word = |(index, word): (usize, &Value)| {
        let text = word.as_str().map(str::trim).filter(|text| !text.is_empty());
        text.map(Into::into).ok_or_else(|| wrong(format!("{name}[{index}]"), "a string with something in it"))
    };
    list.iter().enumerate().map(word).collect()
}
