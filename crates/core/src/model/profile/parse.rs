//! Reads and writes a profile as JSON: in the table, in a user's configuration and on the socket. An error names the
//! invalid member. Unknown members are ignored, because versions share files and sockets;
//! [`AgentProfile::unknown_members`] lists them for a warning.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{AgentProfile, ErrorRow, LoadWait};
use crate::model::{ErrorMeaning, JsonNode, WrongMember};

/// The longest start timeout, in seconds.
const LONGEST_START: f64 = 24.0 * 60.0 * 60.0;

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
    /// The paths of the members that [`Self::read`] ignores as unknown.
    pub fn unknown_members(node: &JsonNode<'_>) -> Vec<String> {
        let others = |node: &JsonNode<'_>, known: &[&str]| -> Vec<String> {
            node.object("an object").map_or_else(|_| Vec::new(), |members| members.others(known))
        };
        let errors = node.object("an object").ok().and_then(|members| members.get("errors")?.array().ok());
        let of_rows = errors.unwrap_or_default();
        let of_rows = of_rows.iter().flat_map(|row| others(row, &ROW_MEMBERS));
        others(node, &MEMBERS).into_iter().chain(of_rows).collect()
    }

    /// Reads a profile that is part of a document.
    pub fn read(node: &JsonNode<'_>) -> Result<Self, WrongMember> {
        let members = node.object("an object")?;
        let boolean = |name: &str| members.read(name, JsonNode::boolean);
        let rows = |node: &JsonNode<'_>| node.array()?.iter().map(error_row).collect();
        Ok(Self {
            errors: members.read("errors", rows)?.unwrap_or_default(),
            start_timeout: members.read("startTimeoutSeconds", seconds)?,
            needs_prompt_before_load: boolean("needsPromptBeforeLoad")?,
            wait_before_load: members.read("waitBeforeLoad", |node| one_of(node, &WAITS))?,
            ignores_stdin_end: boolean("ignoresStdinEnd")?,
            ignores_terminate: boolean("ignoresTerminate")?,
            replays_on_resume: boolean("replaysOnResume")?,
            notes: members.read("notes", JsonNode::words)?.unwrap_or_default(),
        })
    }
}

/// Reads a profile that is a document of its own.
impl TryFrom<Value> for AgentProfile {
    type Error = WrongMember;

    fn try_from(value: Value) -> Result<Self, WrongMember> {
        Self::read(&JsonNode::root(&value, "a profile"))
    }
}

/// The profile in the format that [`AgentProfile::read`] reads.
impl From<AgentProfile> for Value {
    fn from(profile: AgentProfile) -> Self {
        let mut members = Map::new();
        if !profile.errors.is_empty() {
            members.insert("errors".to_owned(), profile.errors.iter().map(row_json).collect());
        }
        let seconds = profile.start_timeout.map(|limit| json!(limit.as_secs_f64()));
        let wait = profile.wait_before_load.map(|wait| json!(word_for(&WAITS, wait)));
        let others = [
            ("startTimeoutSeconds", seconds),
            ("needsPromptBeforeLoad", profile.needs_prompt_before_load.map(Self::Bool)),
            ("waitBeforeLoad", wait),
            ("ignoresStdinEnd", profile.ignores_stdin_end.map(Self::Bool)),
            ("ignoresTerminate", profile.ignores_terminate.map(Self::Bool)),
            ("replaysOnResume", profile.replays_on_resume.map(Self::Bool)),
            ("notes", (!profile.notes.is_empty()).then(|| profile.notes.into())),
        ];
        members.extend(others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Self::Object(members)
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

fn error_row(node: &JsonNode<'_>) -> Result<ErrorRow, WrongMember> {
    let members = node.object("an object")?;
    let number = |code: &JsonNode<'_>| code.number("a whole number", serde_json::Number::as_i64);
    let words = members.read("words", JsonNode::words)?.unwrap_or_default();
    let row = ErrorRow {
        code: members.read("code", number)?,
        words: words.iter().map(|word| word.to_lowercase()).collect(),
        meaning: one_of(&members.needed("reading"), &READINGS)?,
    };
    // A row that matches everything would hide every row below it.
    if row.code.is_none() && row.words.is_empty() {
        return Err(node.wrong_content("an object with a code, with words, or with both"));
    }
    Ok(row)
}

fn seconds(node: &JsonNode<'_>) -> Result<Duration, WrongMember> {
    node.number("a number of seconds above 0, a day at most", |number| {
        let seconds = number.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_START)?;
        Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero())
    })
}

fn one_of<T: Copy>(node: &JsonNode<'_>, words: &[(&str, T)]) -> Result<T, WrongMember> {
    let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    let expected = || match names.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    };
    let find = |name: &str| words.iter().find(|(word, _)| name == *word).map(|(_, value)| *value);
    node.parsed(&expected(), find)
}
