//! Reads request params and reports which field is wrong and how.
//!
//! Values stay raw until a check reads them. Unread members (unknown fields, any `_meta`) therefore never cause a
//! refusal, and forwarded values keep their bytes. A member that is read must occur only once. Memory grows only with
//! accepted values: items are checked as they are read, and a path is formatted only for a problem.

use std::fmt;

use crate::model::AbsolutePath;
use crate::wire::json;

/// The only member that never causes a refusal.
const META: &str = "_meta";

/// What is wrong with one field; the text follows the field's name.
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

/// The path of a value.
#[derive(Debug, Clone, Copy)]
enum Path<'a> {
    Params,
    Member(&'a Path<'a>, &'static str),
    Item(&'a Path<'a>, usize),
}

/// A value and its path.
#[derive(Debug)]
pub(super) struct ParamField<'a> {
    path: Path<'a>,
    json: &'a str,
}

/// A member of an object, which may be missing.
#[derive(Debug)]
pub(super) struct ParamMember<'a> {
    path: Path<'a>,
    json: Option<&'a str>,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params => f.write_str("params"),
            Self::Member(Self::Params, name) => f.write_str(name),
            Self::Member(object, name) => write!(f, "{object}.{name}"),
            Self::Item(array, index) => write!(f, "{array}[{index}]"),
        }
    }
}

impl<'a> ParamMember<'a> {
    /// Requires the member. A null passes here and fails at the type check.
    pub(super) fn required(&self) -> Result<ParamField<'a>, ParamProblem> {
        let field = |json| ParamField { path: self.path, json };
        self.json.map(field).ok_or_else(|| ParamProblem::new(self.path.to_string(), "is missing"))
    }

    /// The member's value; `None` if it is missing or null.
    pub(super) fn optional(&self) -> Option<ParamField<'a>> {
        let json = self.json.filter(|json| *json != "null")?;
        Some(ParamField { path: self.path, json })
    }

    /// The object as received; `None` if it is missing or not an object. Used for `_meta`.
    pub(super) fn object(&self) -> Option<Box<str>> {
        self.json.filter(|json| json.starts_with('{')).map(Into::into)
    }
}

impl<'a> ParamField<'a> {
    /// The params of a message; missing or null params have no members.
    pub(super) fn params(json: Option<&'a str>) -> Self {
        Self { path: Path::Params, json: json.filter(|json| *json != "null").unwrap_or("{}") }
    }

    /// The value as received.
    pub(super) fn json(&self) -> &'a str {
        self.json
    }

    /// The value as text.
    pub(super) fn string(&self) -> Result<String, ParamProblem> {
        serde_json::from_str(self.json).map_err(|_| {
            // A lone surrogate is valid JSON but not text.
            if self.json.starts_with('"') {
                self.problem("is not valid text")
            } else {
                self.must_be("a string")
            }
        })
    }

    /// The value as a 16-bit number, the type of protocol versions.
    pub(super) fn version(&self) -> Result<u16, ParamProblem> {
        serde_json::from_str(self.json).map_err(|_| self.must_be("a whole number from 0 to 65535"))
    }

    /// The value as a boolean.
    pub(super) fn boolean(&self) -> Result<bool, ParamProblem> {
        serde_json::from_str(self.json).map_err(|_| self.must_be("a boolean"))
    }

    /// Checks that the value is an array.
    pub(super) fn array(&self) -> Result<(), ParamProblem> {
        if self.json.starts_with('[') { Ok(()) } else { Err(self.must_be("an array")) }
    }

    /// The value as an absolute path.
    pub(super) fn absolute_path(&self) -> Result<AbsolutePath, ParamProblem> {
        let text = self.string()?;
        AbsolutePath::new(text.clone())
            .map_err(|_| self.problem(format!("must be an absolute path, not {text:?}")))
    }

    /// Maps the items of an array with `check`. Stops at the first problem.
    pub(super) fn items<T>(
        &self,
        mut check: impl FnMut(ParamField<'_>) -> Result<T, ParamProblem>,
    ) -> Result<Vec<T>, ParamProblem> {
        let (mut checked, mut problem) = (Vec::new(), None);
        let each = |json: &str| {
            let path = Path::Item(&self.path, checked.len());
            match check(ParamField { path, json }) {
                Ok(item) => checked.push(item),
                Err(found) => problem = Some(found),
            }
            problem.is_none()
        };
        let read = json::for_each_item(self.json, each);
        match problem {
            Some(problem) => Err(problem),
            None if read.is_none() => Err(self.must_be("an array")),
            None => Ok(checked),
        }
    }

    /// The members with these names. All others are ignored.
    pub(super) fn members<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[ParamMember<'_>; N], ParamProblem> {
        let found = json::scan(self.json, &names).ok_or_else(|| self.must_be("an object"))?;
        let path = |index| Path::Member(&self.path, names[index]);
        if let Some(index) = (0..N).find(|index| found.repeated[*index] && names[*index] != META) {
            return Err(ParamProblem::new(path(index).to_string(), "is given more than once"));
        }
        Ok(std::array::from_fn(|index| {
            let json = found.values[index].filter(|_| !found.repeated[index]);
            ParamMember { path: path(index), json }
        }))
    }

    /// The members with other names, as received and without the braces; `None` if there are none.
    pub(super) fn others(&self, known: &[&str]) -> Option<Box<str>> {
        let mut others = String::new();
        let each = |name: &str, value: &str| {
            let is_known = json::string(name).is_some_and(|name| known.contains(&&*name));
            if !is_known {
                let comma = if others.is_empty() { "" } else { "," };
                others.extend([comma, name, ":", value]);
            }
        };
        json::for_each_member(self.json, each)?;
        (!others.is_empty()).then(|| others.into())
    }

    /// A problem with this value.
    pub(super) fn problem(&self, problem: impl Into<String>) -> ParamProblem {
        ParamProblem::new(self.path.to_string(), problem)
    }

    fn must_be(&self, wanted: &str) -> ParamProblem {
        self.problem(format!("must be {wanted}, not {}", self.described()))
    }

    /// The value's type, from its first byte. Numbers are shown because they are short; other values may be long or
    /// secret.
    fn described(&self) -> String {
        match self.json.as_bytes().first() {
            Some(b'"') => "a string".into(),
            Some(b'{') => "an object".into(),
            Some(b'[') => "an array".into(),
            Some(b't' | b'f') => "a boolean".into(),
            Some(b'n') => "null".into(),
            _ => format!("the number {}", self.json.chars().take(32).collect::<String>()),
        }
    }
}

#[cfg(test)]
mod tests;
