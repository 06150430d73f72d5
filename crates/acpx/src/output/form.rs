//! Asks an elicitation request on a terminal: a form filled in field by field, or an address to open.
//!
//! Everything the agent sends is sanitized here before it reaches the terminal, as for a permission. Typed values must
//! satisfy the field's own rules. Fields that cannot be typed are skipped, and the output says so.

mod field;
mod kind;

use serde_json::{Map, Value, json};

use super::sanitize::{agent_text, visible};

use self::field::FormField;

/// How many fields a form may have. More are impractical on a terminal.
const FIELDS: usize = 32;
/// What declines a form or field, and the escape to enter that sign itself.
const DECLINES: &str = "-";
const HYPHEN: &str = "\\-";

/// A request that a person answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TerminalForm {
    message: String,
    /// The agent's id for it, which it uses to report that what it wanted at an address is complete.
    id: Option<String>,
    what: FormContent,
}

#[derive(Debug, Clone, PartialEq)]
enum FormContent {
    /// Fields, with the lines about the whole form, and the values filled in so far.
    Form { about: String, fields: Vec<FormField>, filled: Map<String, Value>, at: usize },
    /// An address to open.
    Address(String),
    /// A request that cannot be asked here, and why.
    Unaskable(&'static str),
}

/// The outcome of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FormReply {
    /// The result of the request.
    Answer(Value),
    /// There is another field.
    Next,
    /// The input is invalid; why.
    Again(String),
}

impl TerminalForm {
    /// Reads the params of an `elicitation/create`.
    pub(crate) fn read(params: &str) -> Self {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let message = params["message"].as_str().unwrap_or("the agent requests input");
        let what = match params["mode"].as_str() {
            None | Some("form") => form(&params["requestedSchema"]),
            Some("url") => address(params["url"].as_str().unwrap_or_default()),
            Some(_) => FormContent::Unaskable("requests of this kind are not supported"),
        };
        let id = params["elicitationId"].as_str().map(str::to_owned);
        Self { message: agent_text(message), id, what }
    }

    /// The agent's request, in lines.
    pub(crate) fn shown(&self) -> String {
        let more = match &self.what {
            FormContent::Form { about, .. } => about.clone(),
            FormContent::Address(url) => format!("  {url}\n"),
            FormContent::Unaskable(why) => format!("  declined: {why}\n"),
        };
        visible(&format!("{}\n{more}", self.message))
    }

    /// The fields or the address, in lines, for a list.
    pub(super) fn listed(&self) -> String {
        let more = match &self.what {
            FormContent::Form { about, fields, .. } => {
                let names: Vec<String> = fields.iter().map(FormField::title).collect();
                let names = if names.is_empty() {
                    String::new()
                } else {
                    format!("  fields: {}\n", names.join(", "))
                };
                format!("{about}{names}")
            }
            FormContent::Address(url) => format!("  {url}\n"),
            FormContent::Unaskable(why) => format!("  cannot be answered on a terminal: {why}\n"),
        };
        visible(&more)
    }

    /// That it was declined without asking a person, and why, on one line.
    pub(crate) fn declined(&self, why: &str) -> String {
        visible(&format!("declined, since {why}: the agent's form {:?}", self.message))
    }

    /// The prompt line, with the choices.
    pub(crate) fn prompt_line(&self) -> String {
        let text = match &self.what {
            FormContent::Form { fields, at, .. } => match fields.get(*at) {
                Some(field) => field.prompt_line(),
                None => "Agree? (y/N) ".to_owned(),
            },
            FormContent::Address(_) => "Open it in a browser and type y when done (y/N) ".to_owned(),
            FormContent::Unaskable(_) => String::new(),
        };
        visible(&text)
    }

    /// Whether the current input must not be echoed.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(&self.what, FormContent::Form { fields, at, .. } if fields.get(*at).is_some_and(FormField::is_secret))
    }

    /// Whether it cannot be asked.
    pub(crate) fn is_unaskable(&self) -> bool {
        matches!(self.what, FormContent::Unaskable(_))
    }

    /// The answer to an address request that the agent reports as complete: opening the address was the consent.
    pub(crate) fn completed(&self, id: &str) -> Option<Value> {
        let is_meant = matches!(self.what, FormContent::Address(_)) && self.id.as_deref() == Some(id);
        is_meant.then(|| json!({ "action": "accept" }))
    }

    /// Interprets a typed line.
    pub(crate) fn reply(&mut self, typed: &str) -> FormReply {
        let typed = typed.trim();
        if typed == DECLINES {
            return FormReply::Answer(Self::refusal());
        }
        match &mut self.what {
            FormContent::Unaskable(_) => FormReply::Answer(Self::refusal()),
            FormContent::Address(_) => agreed(typed, || json!({ "action": "accept" })),
            FormContent::Form { fields, filled, at, .. } => {
                let Some(field) = fields.get(*at) else {
                    return agreed(typed, || json!({ "action": "accept", "content": filled }));
                };
                match field.value(typed) {
                    Ok(value) => {
                        if let Some(value) = value {
                            filled.insert(field.key.clone(), value);
                        }
                        *at += 1;
                    }
                    Err(words) => return FormReply::Again(words),
                }
                if *at < fields.len() {
                    FormReply::Next
                } else {
                    FormReply::Answer(json!({ "action": "accept", "content": filled }))
                }
            }
        }
    }

    /// The result that declines.
    pub(crate) fn refusal() -> Value {
        json!({ "action": "decline" })
    }
}

/// A form of fields that can be typed. A form without fields becomes a yes-or-no question.
fn form(schema: &Value) -> FormContent {
    if !schema.is_object() {
        return FormContent::Unaskable("the form does not say what may be filled in");
    }
    let required: Vec<&str> = strings(&schema["required"]);
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    if properties.len() > FIELDS {
        return FormContent::Unaskable("the form has too many fields for a terminal");
    }
    let read = |(key, property): (&String, &Value)| {
        FormField::read(key, property, required.contains(&key.as_str())).ok_or_else(|| key.clone())
    };
    let (mut fields, mut left_out) = (Vec::new(), Vec::new());
    for read in properties.iter().map(read) {
        match read {
            Ok(field) => fields.push(field),
            Err(key) => left_out.push(key),
        }
    }
    if !required.iter().all(|key| fields.iter().any(|field| field.key == *key)) {
        return FormContent::Unaskable("the form needs something that cannot be typed");
    }
    if fields.is_empty() && !left_out.is_empty() {
        return FormContent::Unaskable("the form has nothing that can be typed");
    }
    let about = schema["title"].as_str().or_else(|| schema["description"].as_str());
    let mut lines = about.map(|about| format!("  {}\n", agent_text(about))).unwrap_or_default();
    if !left_out.is_empty() {
        let names = agent_text(&left_out.join(", "));
        lines.extend(["  left out, since it cannot be typed: ", &names, "\n"]);
    }
    FormContent::Form { about: lines, fields, filled: Map::new(), at: 0 }
}

/// Accepts only web addresses: anything else could start a program.
fn address(url: &str) -> FormContent {
    let rest = ["https://", "http://"].iter().find_map(|scheme| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    // A browser skips extra slashes, and takes what follows as the host.
    let host = rest.and_then(|rest| rest.split(['/', '\\', '?', '#']).next()).filter(|host| !host.is_empty());
    let is_plain = url.chars().all(|letter| !letter.is_whitespace() && !letter.is_control());
    match host {
        Some(host) if is_plain && visible(url) == url => {
            if host.contains('@') {
                FormContent::Unaskable("the address has a name before its host, which hides where it leads")
            } else {
                FormContent::Address(url.to_owned())
            }
        }
        _ => FormContent::Unaskable("the address is no web address"),
    }
}

fn agreed(typed: &str, accepted: impl FnOnce() -> Value) -> FormReply {
    match typed.to_lowercase().as_str() {
        "y" | "yes" => FormReply::Answer(accepted()),
        "" | "n" | "no" => FormReply::Answer(TerminalForm::refusal()),
        _ => FormReply::Again("type y or n".to_owned()),
    }
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests;
