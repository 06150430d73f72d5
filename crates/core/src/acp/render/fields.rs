//! The members of merged updates: the last value of each, as received.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::wire::encode::json_string;

/// The member with the kind of an update.
pub(super) const WHAT: &str = "sessionUpdate";

/// The member of `_meta.acpx` that lists omitted members.
const LEFT_OUT: &str = "leftOut";

type RawField = (Box<str>, Box<RawValue>);

/// Members by name, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<RawField>);

impl Fields {
    /// The members of an object; `None` for anything else.
    pub(super) fn read(object: &str) -> Option<Self> {
        serde_json::from_str(object).ok()
    }

    /// Merges the members of another update, except its kind.
    pub(super) fn take(&mut self, told: Self) {
        for (name, value) in told.0.into_iter().filter(|(name, _)| **name != *WHAT) {
            self.set(name, value);
        }
    }

    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&str, &RawValue) -> bool) {
        self.0.retain(|(name, value)| keeps(name, value));
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.get())
    }

    pub(super) fn set_json(&mut self, name: &str, json: &str) {
        if let Ok(value) = RawValue::from_string(json.to_owned()) {
            self.set(name.into(), value);
        }
    }

    fn set(&mut self, name: Box<str>, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, told)) => *told = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets a member of `_meta.acpx`, and keeps the others. The value is JSON.
    pub(super) fn note(&mut self, name: &str, json: &str) {
        let mut meta = self.object("_meta");
        let mut acpx = meta.object("acpx");
        acpx.set_json(name, json);
        meta.set_json("acpx", &acpx.to_json());
        self.set_json("_meta", &meta.to_json());
    }

    /// Removes these members, and adds them to the list of omitted members.
    pub(super) fn leave_out(&mut self, names: &[&str]) {
        self.retain(|name, _| !names.contains(&name));
        let acpx = self.object("_meta").object("acpx");
        let before = acpx.get(LEFT_OUT).and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
        let mut all = before.unwrap_or_default();
        all.extend(names.iter().map(|name| (*name).to_owned()));
        all.sort();
        all.dedup();
        let all: Vec<String> = all.iter().map(|name| json_string(name)).collect();
        self.note(LEFT_OUT, &format!("[{}]", all.join(",")));
    }

    /// The members of an object member; empty if it is not an object.
    fn object(&self, name: &str) -> Self {
        self.get(name).and_then(Self::read).unwrap_or_default()
    }

    /// All members as an object.
    pub(super) fn to_json(&self) -> String {
        let mut members = String::new();
        self.write_behind(&mut members);
        format!("{{{}}}", members.trim_start_matches(','))
    }

    /// Appends the members to an unfinished object.
    pub(super) fn write_behind(&self, object: &mut String) {
        for (name, value) in &self.0 {
            object.push(',');
            object.push_str(&json_string(name));
            object.push(':');
            object.push_str(value.get());
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        source.deserialize_map(Members)
    }
}
