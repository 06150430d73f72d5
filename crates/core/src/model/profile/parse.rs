//! Reads and writes a profile as JSON: in the table, in a user's configuration and on the socket. An error names the
//! invalid member. Unknown members are ignored, because versions share files and sockets;
//! [`AgentProfile::unknown_members`] lists them for a warning.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{AgentProfile, ErrorRow, LoadWait};
use crate::model::ErrorMeaning;

/// The longest start timeout, in seconds.
const LONGEST_START: f64 = 24.0 * 60.0 * 60.0;

/// What is wrong with a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} must be {expected}", if member.is_empty() { "a profile" } else { member })]
pub struct ProfileError {
    /// The member, from the top of the profile; empty for the profile itself.
    pub member: String,
    /// What it must be.
    pub expected: &'static str,
}

/// The meanings that a profile can give an error. That a session was never stored follows from its history alone.
const READINGS: [(&str, ErrorMeaning); 5] = [
    ("lost", ErrorMeaning::Lost),
    ("busy-elsewhere", ErrorMeaning::BusyElsewhere),
    ("login-needed", ErrorMeaning::LoginNeeded),
    ("worker-died", ErrorMeaning::WorkerDied),
    ("broken", ErrorMeaning::Broken),
];

const WAITS: [(&str, LoadWait); 2] = [("none", LoadWait::None), ("next-minute", LoadWait::NextMinute)];

/// Every member of a profile.
const MEMBERS: [&str; 8] = [
    "errors",
    "startTimeoutSeconds",
    "needsPromptBeforeLoad",
    "waitBeforeLoad",
    "ignoresStdinEnd",
    "ignoresTerminate",
    "replaysOnResume",
    "notes",
];
/// Every member of a row of `errors`.
const ROW_MEMBERS: [&str; 3] = ["code", "words", "reading"];

impl AgentProfile {
    /// The members that [`Self::parse`] ignores as unknown, as paths from the top of the profile.
    pub fn unknown_members(value: &Value) -> Vec<String> {
        let others = |value: &Value, known: &[&str]| -> Vec<String> {
            let names = value.as_object().into_iter().flat_map(Map::keys);
            names.filter(|name| !known.contains(&name.as_str())).cloned().collect()
        };
        let rows = value.get("errors").and_then(Value::as_array).into_iter().flatten().enumerate();
        let of_rows = rows.flat_map(|(index, row)| {
            others(row, &ROW_MEMBERS).into_iter().map(move |name| format!("errors[{index}].{name}"))
        });
        others(value, &MEMBERS).into_iter().chain(of_rows).collect()
    }

    /// Reads a profile.
    pub fn parse(value: &Value) -> Result<Self, ProfileError> {
        ProfileMember::root(value).profile()
    }

    /// The profile in the format that [`Self::parse`] reads.
    pub(crate) fn to_json(&self) -> Value {
        let mut members = Map::new();
        if !self.errors.is_empty() {
            members.insert("errors".to_owned(), self.errors.iter().map(row_json).collect());
        }
        let seconds = self.start_timeout.map(|limit| json!(limit.as_secs_f64()));
        let wait = self.wait_before_load.map(|wait| json!(word_for(&WAITS, wait)));
        let said = [
            ("startTimeoutSeconds", seconds),
            ("needsPromptBeforeLoad", self.needs_prompt_before_load.map(Value::Bool)),
            ("waitBeforeLoad", wait),
            ("ignoresStdinEnd", self.ignores_stdin_end.map(Value::Bool)),
            ("ignoresTerminate", self.ignores_terminate.map(Value::Bool)),
            ("replaysOnResume", self.replays_on_resume.map(Value::Bool)),
            ("notes", (!self.notes.is_empty()).then(|| self.notes.clone().into())),
        ];
        members.extend(said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(members)
    }
}

fn row_json(row: &ErrorRow) -> Value {
    let mut members = Map::new();
    if let Some(code) = row.code {
        members.insert("code".to_owned(), code.into());
    }
    if !row.words.is_empty() {
        members.insert("words".to_owned(), row.words.clone().into());
    }
    members.insert("reading".to_owned(), word_for(&READINGS, row.meaning).into());
    Value::Object(members)
}

fn word_for<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("broken", |(word, _)| word)
}

/// A value and its path.
pub(super) struct ProfileMember<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> ProfileMember<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    fn wrong(&self, expected: &'static str) -> ProfileError {
        ProfileError { member: self.path.clone(), expected }
    }

    /// A member of an object, if present.
    pub(super) fn get(&self, name: &str) -> Result<Option<ProfileMember<'a>>, ProfileError> {
        let members = self.value.as_object().ok_or_else(|| self.wrong("an object"))?;
        let dot = if self.path.is_empty() { "" } else { "." };
        let member = |value| ProfileMember { value, path: format!("{}{dot}{name}", self.path) };
        Ok(members.get(name).map(member))
    }

    /// A required member.
    pub(super) fn needed(&self, name: &str) -> Result<ProfileMember<'a>, ProfileError> {
        static NOTHING: Value = Value::Null;
        let dot = if self.path.is_empty() { "" } else { "." };
        let missing = || ProfileMember { value: &NOTHING, path: format!("{}{dot}{name}", self.path) };
        Ok(self.get(name)?.unwrap_or_else(missing))
    }

    pub(super) fn items(&self) -> Result<Vec<ProfileMember<'a>>, ProfileError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        let item = |(index, value)| ProfileMember { value, path: format!("{}[{index}]", self.path) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn word(&self) -> Result<String, ProfileError> {
        let text = self.value.as_str().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong("a non-empty string"))
    }

    pub(super) fn words(&self) -> Result<Vec<String>, ProfileError> {
        self.items()?.iter().map(Self::word).collect()
    }

    pub(super) fn profile(&self) -> Result<AgentProfile, ProfileError> {
        let yes = |name: &str| self.get(name)?.map(|member| member.boolean()).transpose();
        let errors = match self.get("errors")? {
            Some(rows) => rows.items()?.iter().map(Self::row).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(AgentProfile {
            errors,
            start_timeout: self.get("startTimeoutSeconds")?.map(|member| member.seconds()).transpose()?,
            needs_prompt_before_load: yes("needsPromptBeforeLoad")?,
            wait_before_load: self
                .get("waitBeforeLoad")?
                .map(|member| member.one_of(&WAITS, "\"none\" or \"next-minute\""))
                .transpose()?,
            ignores_stdin_end: yes("ignoresStdinEnd")?,
            ignores_terminate: yes("ignoresTerminate")?,
            replays_on_resume: yes("replaysOnResume")?,
            notes: self.get("notes")?.map(|notes| notes.words()).transpose()?.unwrap_or_default(),
        })
    }

    fn row(&self) -> Result<ErrorRow, ProfileError> {
        let code =
            self.get("code")?.map(|code| code.value.as_i64().ok_or_else(|| code.wrong("a whole number")));
        let words = self.get("words")?.map(|words| words.words()).transpose()?.unwrap_or_default();
        let row = ErrorRow {
            code: code.transpose()?,
            words: words.iter().map(|word| word.to_lowercase()).collect(),
            meaning: self.needed("reading")?.one_of(
                &READINGS,
                "\"lost\", \"busy-elsewhere\", \"login-needed\", \"worker-died\" or \"broken\"",
            )?,
        };
        // A row that matches everything would hide every row below it.
        if row.code.is_none() && row.words.is_empty() {
            return Err(self.wrong("an object with a code, with words, or with both"));
        }
        Ok(row)
    }

    fn boolean(&self) -> Result<bool, ProfileError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    fn seconds(&self) -> Result<Duration, ProfileError> {
        let seconds = self.value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_START);
        let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        limit
            .filter(|limit| !limit.is_zero())
            .ok_or_else(|| self.wrong("a number of seconds above 0, a day at most"))
    }

    fn one_of<T: Copy>(&self, words: &[(&str, T)], expected: &'static str) -> Result<T, ProfileError> {
        let said = self.value.as_str();
        let found = words.iter().find(|(word, _)| said == Some(*word));
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(expected))
    }
}
