//! Reads parameters as received, and says which field is wrong and how.
//!
//! Values stay raw until a check asks for them, so what nobody asks for (unknown fields, `_meta` of any shape)
//! can never be a reason to refuse, and what is passed on is passed on byte for byte.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::model::AbsolutePath;

/// What is wrong with one field, in words that follow its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct ParamProblem {
    /// The field by its path, such as `mcpServers[1].command`.
    pub field: String,
    /// What is wrong with it, such as `is missing`.
    pub problem: String,
}

impl ParamProblem {
    /// A problem with the field at this path.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// The members of an object and the path they were found at.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: String,
    members: BTreeMap<String, &'a RawValue>,
}

/// One value and the path it was found at.
#[derive(Debug)]
pub(super) struct Field<'a> {
    path: String,
    raw: &'a RawValue,
}

impl<'a> Fields<'a> {
    /// The params of a message; left out or null, they have no members.
    pub(super) fn of_params(params: Option<&'a str>) -> Result<Self, ParamProblem> {
        let Some(text) = params.filter(|text| *text != "null") else {
            return Ok(Self { path: String::new(), members: BTreeMap::new() });
        };
        let unreadable = |_| ParamProblem::new("params", "must be an object");
        let raw = serde_json::from_str(text).map_err(unreadable)?;
        let params = Field { path: "params".into(), raw };
        Ok(Self { path: String::new(), ..params.members()? })
    }

    /// A member that must be there. A null is there: its type is what is wrong with it.
    pub(super) fn required(&self, name: &str) -> Result<Field<'a>, ParamProblem> {
        match self.members.get(name) {
            Some(raw) => Ok(Field { path: self.path_of(name), raw }),
            None => Err(ParamProblem::new(self.path_of(name), "is missing")),
        }
    }

    /// A member that may be left out; null says the same as leaving it out.
    pub(super) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let raw = *self.members.get(name)?;
        (raw.get() != "null").then(|| Field { path: self.path_of(name), raw })
    }

    /// The `_meta` object, or nothing if there is none or it is none.
    pub(super) fn meta(&self) -> Option<Box<str>> {
        let raw = self.members.get("_meta")?.get();
        raw.starts_with('{').then(|| raw.into())
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }
}

impl<'a> Field<'a> {
    /// The value as received.
    pub(super) fn json(&self) -> &'a str {
        self.raw.get()
    }

    /// The value as text.
    pub(super) fn string(&self) -> Result<String, ParamProblem> {
        serde_json::from_str(self.json()).map_err(|_| {
            // Half a surrogate pair can be written in JSON and is no text.
            if self.json().starts_with('"') {
                self.problem("is not valid text")
            } else {
                self.must_be("a string")
            }
        })
    }

    /// The value as a number of 16 bits, as protocol versions are.
    pub(super) fn version(&self) -> Result<u16, ParamProblem> {
        serde_json::from_str(self.json()).map_err(|_| self.must_be("a whole number from 0 to 65535"))
    }

    /// The value as an absolute path.
    pub(super) fn absolute_path(&self) -> Result<AbsolutePath, ParamProblem> {
        let text = self.string()?;
        AbsolutePath::new(text.clone())
            .map_err(|_| self.problem(format!("must be an absolute path, not {text:?}")))
    }

    /// The items of an array.
    pub(super) fn items(&self) -> Result<Vec<Field<'a>>, ParamProblem> {
        let items: Vec<&'a RawValue> =
            serde_json::from_str(self.json()).map_err(|_| self.must_be("an array"))?;
        let item = |(index, raw)| Field { path: format!("{}[{index}]", self.path), raw };
        Ok(items.into_iter().enumerate().map(item).collect())
    }

    /// The members of an object.
    pub(super) fn members(&self) -> Result<Fields<'a>, ParamProblem> {
        let members = serde_json::from_str(self.json()).map_err(|_| self.must_be("an object"))?;
        Ok(Fields { path: self.path.clone(), members })
    }

    /// What is wrong with this value.
    pub(super) fn problem(&self, problem: impl Into<String>) -> ParamProblem {
        ParamProblem::new(self.path.clone(), problem)
    }

    fn must_be(&self, wanted: &str) -> ParamProblem {
        self.problem(format!("must be {wanted}, not {}", self.described()))
    }

    /// What the value is; its first byte tells. Numbers are short and worth showing, the rest may be long or
    /// secret.
    fn described(&self) -> String {
        let json = self.json();
        match json.as_bytes().first() {
            Some(b'"') => "a string".into(),
            Some(b'{') => "an object".into(),
            Some(b'[') => "an array".into(),
            Some(b't' | b'f') => "a boolean".into(),
            Some(b'n') => "null".into(),
            _ => format!("the number {}", json.chars().take(32).collect::<String>()),
        }
    }
}
