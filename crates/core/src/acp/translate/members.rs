//! A JSON object, one level deep: its members in order, each value with its original bytes. Members that a
//! translation does not handle pass through unchanged, including numbers and nested values.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::encode::json_string;

/// The members of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObjectMembers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for ObjectMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((name, Cow::Borrowed(value.get())));
                }
                Ok(ObjectMembers(members))
            }
        }
        source.deserialize_map(Object)
    }
}

impl<'a> ObjectMembers<'a> {
    /// An object without members.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Reads an object; `None` for anything else.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A member's value, as JSON. The last of several members with one name counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A member's value, unless it is `null`.
    pub(super) fn told(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| *value != "null")
    }

    /// A member's text, if it is a string.
    pub(super) fn text(&self, name: &str) -> Option<Box<str>> {
        text(self.get(name)?)
    }

    /// Whether a member is present and `null`.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.get(name) == Some("null")
    }

    /// Removes a member.
    pub(super) fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let index = self.0.iter().rposition(|(known, _)| known == name)?;
        let (_, value) = self.0.remove(index);
        self.0.retain(|(known, _)| known != name);
        Some(value)
    }

    /// Sets a member in its place, or appends it.
    pub(super) fn set(&mut self, name: &'a str, value: impl Into<Cow<'a, str>>) {
        match self.0.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, told)) => *told = value.into(),
            None => self.0.push((Cow::Borrowed(name), value.into())),
        }
    }

    /// Sets a member to a string.
    pub(super) fn set_text(&mut self, name: &'a str, text: &str) {
        self.set(name, json_string(text));
    }

    /// Renames a member in its place. It replaces a member that has that name already.
    pub(super) fn rename(&mut self, from: &str, to: &'a str) {
        if self.get(from).is_none() {
            return;
        }
        self.0.retain(|(name, _)| name != to);
        for (name, _) in &mut self.0 {
            if name == from {
                *name = Cow::Borrowed(to);
            }
        }
    }

    /// Removes those of these members that are `null`.
    pub(super) fn forget_nulls(&mut self, names: &[&str]) {
        self.0.retain(|(name, value)| !(value == "null" && names.contains(&&**name)));
    }

    /// Adds a member to `_meta.acpx`, for values that the other version has no place for.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let meta = {
            let mut meta = self.get("_meta").and_then(ObjectMembers::parse).unwrap_or_default();
            let acpx = {
                let mut acpx = meta.get("acpx").and_then(ObjectMembers::parse).unwrap_or_default();
                acpx.set(name, value);
                acpx.to_string()
            };
            meta.set("acpx", acpx);
            meta.to_string()
        };
        self.set("_meta", meta);
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for ObjectMembers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{value}", json_string(name))?;
        }
        f.write_str("}")
    }
}

/// The decoded string, if the JSON is a string.
pub(super) fn text(json: &str) -> Option<Box<str>> {
    serde_json::from_str(json).ok()
}

/// The items of a list; `None` for anything else.
pub(super) fn items(json: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// A list of JSON values.
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(item.as_ref());
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_keeps_its_bytes_and_its_place() {
        let mut members = ObjectMembers::parse(r#"{ "a": 1.0e2, "b":{"x" : [ ]}, "c":"\u0041" }"#).unwrap();
        members.rename("b", "d");
        members.set_text("e", "\"");
        assert_eq!(members.to_string(), r#"{"a":1.0e2,"d":{"x" : [ ]},"c":"\u0041","e":"\""}"#);
    }

    #[test]
    fn a_note_leaves_what_others_put_beside_it() {
        let mut members = ObjectMembers::parse(r#"{"_meta":{"z":1,"acpx":{"y":2}}}"#).unwrap();
        members.note("status", "3");
        assert_eq!(members.to_string(), r#"{"_meta":{"z":1,"acpx":{"y":2,"status":3}}}"#);
        let mut members = ObjectMembers::parse(r#"{"_meta":null}"#).unwrap();
        members.note("status", "3");
        assert_eq!(members.to_string(), r#"{"_meta":{"acpx":{"status":3}}}"#);
    }

    #[test]
    fn of_several_members_of_one_name_the_last_counts_and_all_go_together() {
        let mut members = ObjectMembers::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(members.get("a"), Some("3"));
        assert_eq!(members.take("a").as_deref(), Some("3"));
        assert_eq!(members.to_string(), r#"{"b":2}"#);
    }
}
