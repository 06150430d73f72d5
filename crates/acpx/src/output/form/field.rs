//! One field of a form: how to ask for it, and how to interpret a typed line.

use acpx_core::acp::client::is_secret_field;
use serde_json::Value;

use super::kind::FormFieldKind;
use super::{DECLINES, HYPHEN};
use crate::output::sanitize::agent_text;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FormField {
    /// Its name in the answer.
    pub(super) key: String,
    title: String,
    description: Option<String>,
    kind: FormFieldKind,
    default: Option<Value>,
    /// A default that the field's own rules forbid.
    wrong_default: Option<Value>,
    is_required: bool,
    is_secret: bool,
}

impl FormField {
    /// Reads a property of a form; `None` if it is of a type that cannot be typed.
    pub(super) fn read(key: &str, property: &Value, is_required: bool) -> Option<Self> {
        let text = |name: &str| property[name].as_str().map(str::to_owned);
        let kind = FormFieldKind::read(property)?;
        let is_secret = matches!(kind, FormFieldKind::Text { .. }) && is_secret_field(key, property);
        let default = Some(property["default"].clone()).filter(|default| !default.is_null());
        let (default, wrong_default) = match default {
            Some(default) if kind.check(&default).is_err() => (None, Some(default)),
            default => (default, None),
        };
        Some(Self {
            key: key.to_owned(),
            title: text("title").unwrap_or_else(|| key.to_owned()),
            description: text("description"),
            kind,
            default,
            wrong_default,
            is_required,
            is_secret,
        })
    }

    /// What it is called, in one line.
    pub(super) fn title(&self) -> String {
        agent_text(&self.title)
    }

    /// Whether its input must not be echoed.
    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// The prompt lines.
    pub(super) fn prompt_line(&self) -> String {
        let mut text = String::new();
        if let Some(description) = &self.description {
            text.extend(["  ", &agent_text(description), "\n"]);
        }
        text.push_str(&self.kind.list());
        if let Some(wrong) = &self.wrong_default {
            text.extend(["  the default ", &agent_text(&plain(wrong)), " does not fit and is left out\n"]);
        }
        let empty = match (&self.default, self.is_required) {
            (Some(default), _) => format!(", empty for {}", agent_text(&plain(default))),
            (None, true) => ", required".to_owned(),
            (None, false) => ", empty to skip".to_owned(),
        };
        let hidden = if self.is_secret { ", not shown as it is typed" } else { "" };
        let hyphen =
            if self.kind.may_be_hyphen() { format!(", {HYPHEN} for a hyphen") } else { String::new() };
        let (title, kind) = (agent_text(&self.title), self.kind.words());
        format!("{text}{title} ({kind}{hidden}{empty}, {DECLINES} to decline{hyphen}): ")
    }

    /// Interprets a line for this field; `None` leaves the field out.
    pub(super) fn value(&self, typed: &str) -> Result<Option<Value>, String> {
        if !typed.is_empty() {
            return self.kind.typed(typed).map(Some);
        }
        match (&self.default, self.is_required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, false) => Ok(None),
            (None, true) => Err(format!("{} is required", agent_text(&self.title))),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
