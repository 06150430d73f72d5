//! Rules for single tools, as a policy file of npm acpx has them.
//!
//! A rule is a word that a tool call goes by: its kind, its title, the title's first word, the tool's name, or `*` for
//! every tool. What is denied is denied whatever else is said of it. A file that is not understood in all its members is
//! no policy: a misspelt rule that is passed over would allow what its author has forbidden.

use serde_json::{Map, Value, json};

use super::{Decision, Ruling, ToolUse};

/// Rules for single tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    /// What is approved unasked.
    auto_approve: Vec<Box<str>>,
    /// What is rejected unasked.
    auto_deny: Vec<Box<str>>,
    /// What is asked, whatever the mode says.
    escalate: Vec<Box<str>>,
    /// What becomes of all other tools; without it the mode says so.
    default_action: Option<Action>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Approve,
    Deny,
    Escalate,
}

/// Why something is no policy. The value itself is not told.
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
/// The rule by which a default that is to ask is told.
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

    /// The policy as JSON, without what it does not say.
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        let lists = LISTS.into_iter().zip([&self.auto_approve, &self.auto_deny, &self.escalate]);
        members.extend(
            lists.filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.to_owned(), json!(list))),
        );
        members.extend(self.default_action.map(|action| (DEFAULT.to_owned(), action.as_str().into())));
        Value::Object(members)
    }

    /// Whether anything is approved by it that nobody was asked.
    pub fn approves(&self) -> bool {
        !self.auto_approve.is_empty() || self.default_action == Some(Action::Approve)
    }

    /// The same without what is approved by it: that is left to the mode.
    #[must_use]
    pub fn without_approvals(self) -> Self {
        let default_action = self.default_action.filter(|action| *action != Action::Approve);
        Self { auto_approve: Vec::new(), default_action, ..self }
    }

    /// What it says of a tool call; `None` if it says nothing of it.
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

/// The first of these rules that a tool call goes by.
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
