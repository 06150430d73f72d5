//! The members of updates that say what changed: of each the last telling, as it was written.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::wire::encode::json_string;

/// The member that says what an update is.
pub(super) const WHAT: &str = "sessionUpdate";

type Field = (Box<str>, Box<RawValue>);

/// Members by their names, in the order in which they first came.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<Field>);

impl Fields {
    /// The members of an object; `None` for anything else.
    pub(super) fn read(object: &str) -> Option<Self> {
        serde_json::from_str(object).ok()
    }

    /// Takes what another update tells, but for what it is.
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

    /// Writes them behind other members of an object.
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
