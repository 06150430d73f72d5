//! The params and results of `_acpx/pending` and `_acpx/answer`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::OfferedAnswer;

use super::meta::IdsMeta;

/// The params of `_acpx/pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingParams {
    /// The record that they are wanted of; absent, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The answer to `_acpx/pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingMeta {
    /// The questions that are open, the oldest first.
    pub questions: Vec<PendingRequestMeta>,
}

/// One question that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRequestMeta {
    /// Its id.
    pub question_id: String,
    /// Whose agent asks.
    #[serde(flatten)]
    pub ids: IdsMeta,
    /// The session's name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent, by its name or its command line.
    pub agent: String,
    /// The directory that the session works in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// What it wants to do, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What sort of thing that is.
    pub kind: String,
    /// The tool call that it is about, with all that was told of it: its command, or the difference it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Map<String, Value>>,
    /// The members of the call that are too long to be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The form or the address of a question that is no permission: the params of its `elicitation/create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Map<String, Value>>,
    /// The answers it offers; a form has none.
    pub options: Vec<OptionMeta>,
    /// Since when it is asked.
    pub since: String,
    /// Who is asked; nobody, if nobody is there.
    pub asked: Vec<ResponderMeta>,
}

/// An answer that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionMeta {
    /// Its id.
    pub option_id: String,
    /// Its name, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A client that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponderMeta {
    /// Whether it is the turn's own client.
    pub is_turns: bool,
    /// Its name, if it said one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The params of `_acpx/answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerParams {
    /// The question.
    pub question_id: String,
    /// Whether the agent may.
    pub approve: bool,
    /// Which of its options says so: its id, its kind, or its number in the list, from 1, as long as that is one option
    /// and none that says the contrary; absent, the narrowest one that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// What a form is filled in with, by its fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
}

/// Why a question cannot be answered like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerProblem {
    /// No option is known to approve.
    NoneApproves,
    /// The word stands for no option, or for more than one.
    NotOne,
    /// What is to be approved would be refused.
    Refuses,
    /// What is to be refused may be approved.
    MayApprove,
    /// It is a form that has to be filled in.
    Unfilled,
}

impl OptionMeta {
    /// The options in the params of a permission request. Those without an id cannot be chosen.
    pub fn of_request(params: &Value) -> Vec<Self> {
        let option = |option: &Value| {
            let text = |name: &str| option.get(name).and_then(Value::as_str).map(str::to_owned);
            Some(Self { option_id: text("optionId")?, name: text("name"), kind: text("kind") })
        };
        let options = params.get("options").and_then(Value::as_array);
        options.into_iter().flatten().filter_map(option).collect()
    }

    /// What a person reads: its name, or else its id.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.option_id)
    }

    /// Whether its kind begins with this word: `allow` or `reject`.
    pub(crate) fn is_of_kind(&self, word: &str) -> bool {
        self.kind.as_deref().is_some_and(|kind| kind.starts_with(word))
    }
}

impl OfferedAnswer for OptionMeta {
    fn id(&self) -> &str {
        &self.option_id
    }

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }
}
