//! Inserts and removes members of JSON objects by byte range; the rest of the text stays unchanged.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Splice;
use crate::wire::encode::json_string;
use crate::wire::message::range_in;

/// One member of an object, as ranges of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberRange {
    name: Range<usize>,
    value: Range<usize>,
}

/// An object in a text, parsed once into the ranges of its members. Ranges refer to the whole text.
#[derive(Debug)]
pub struct Object<'t> {
    text: &'t str,
    members: Vec<MemberRange>,
}

impl<'t> Object<'t> {
    /// Parses a text as an object; `None` if it is something else.
    pub fn read(text: &'t str) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let members = reader.deserialize_map(MembersVisitor(text)).ok()?;
        reader.end().ok()?;
        Some(Self { text, members })
    }

    /// The raw value of the single member with this name.
    pub fn value(&self, name: &str) -> Option<&'t str> {
        self.text.get(self.members[self.one(name)?].value.clone())
    }

    /// The object in the single member with this name.
    pub fn within(&self, name: &str) -> Option<Self> {
        let range = self.members[self.one(name)?].value.clone();
        self.text[range.clone()].starts_with('{').then_some(())?;
        Some(Self { text: self.text, members: members_in(self.text, range)? })
    }

    /// The ranges to cut so that the object at the end of a path loses these members, and every object on the path that
    /// had nothing else is removed too. `None` if none of them exists, or if a name on the path is duplicated.
    pub fn without(&self, path: &[&str], names: &[&str]) -> Option<Vec<Range<usize>>> {
        let mut within: Option<Self> = None;
        let mut cut = None;
        for name in path {
            let object = within.as_ref().unwrap_or(self);
            let index = object.one(name)?;
            if object.members.len() > 1 || cut.is_none() {
                cut = Some(extent(&object.members, index, index));
            }
            within = Some(object.within(name)?);
        }
        let object = within.as_ref().unwrap_or(self);
        let mut indexes = Vec::with_capacity(names.len());
        for name in names {
            match find(self.text, &object.members, name)? {
                MemberPosition::At(index) => indexes.push(index),
                MemberPosition::Nowhere => {}
            }
        }
        indexes.sort_unstable();
        match cut {
            _ if indexes.is_empty() => None,
            Some(whole) if indexes.len() == object.members.len() => Some(vec![whole]),
            _ => Some(runs(&indexes).map(|(first, last)| extent(&object.members, first, last)).collect()),
        }
    }

    fn one(&self, name: &str) -> Option<usize> {
        match find(self.text, &self.members, name)? {
            MemberPosition::At(index) => Some(index),
            MemberPosition::Nowhere => None,
        }
    }
}

/// The text with a value at the end of a path of members, replacing an existing one. Missing objects on the path are
/// created, and `null` counts as missing. `None` if a value on the path is not an object, or is duplicated.
pub fn put(json: &str, path: &[&str], value: &str) -> Option<String> {
    let mut at = whole(json)?;
    for (depth, name) in path.iter().enumerate() {
        match &json[at.clone()] {
            "null" => return replaced(json, at, &nested(&path[depth..], value)),
            object if object.starts_with('{') => {}
            _ => return None,
        }
        let members = members_in(json, at.clone())?;
        match find(json, &members, name)? {
            MemberPosition::At(index) => at = members[index].value.clone(),
            MemberPosition::Nowhere => {
                let comma = if members.is_empty() { "" } else { "," };
                let inside = nested(&path[depth + 1..], value);
                let member = format!("{}:{inside}{comma}", json_string(name));
                return replaced(json, at.start + 1..at.start + 1, &member);
            }
        }
    }
    replaced(json, at, value)
}

/// The text without the member at the end of a path, and without every object on the path that had nothing else. `None`
/// if there is no such member, or if a name on the path is duplicated.
pub fn without(json: &str, path: &[&str]) -> Option<String> {
    let (name, way) = path.split_last()?;
    let cuts = Object::read(json)?.without(way, &[name])?;
    let mut splice = Splice::new(json);
    for cut in cuts {
        splice.replace(cut, "").ok()?;
    }
    Some(splice.finish())
}

/// The text of a JSON string; `None` if it is not a string.
pub fn text_of(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"')?.strip_suffix('"')? {
        // Most strings have no escape, so they are borrowed as written.
        plain if memchr::memchr(b'\\', plain.as_bytes()).is_none() => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str::<String>(json).ok().map(Cow::Owned),
    }
}

/// Groups the indexes into runs of adjacent ones, each as first and last.
fn runs(indexes: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let runs = indexes.chunk_by(|one, next| one + 1 == *next);
    runs.filter_map(|run| Some((*run.first()?, *run.last()?)))
}

/// The range of adjacent members, with the comma that belongs to them.
fn extent(members: &[MemberRange], first: usize, last: usize) -> Range<usize> {
    let end = members[last].value.end;
    let before = first.checked_sub(1).and_then(|before| members.get(before));
    match (before, members.get(last + 1)) {
        (Some(before), _) => before.value.end..end,
        (None, Some(after)) => members[first].name.start..after.name.start,
        (None, None) => members[first].name.start..end,
    }
}

/// A value nested in objects of one member each.
fn nested(path: &[&str], value: &str) -> String {
    path.iter().rev().fold(value.to_owned(), |inside, name| format!("{{{}:{inside}}}", json_string(name)))
}

fn replaced(json: &str, range: Range<usize>, with: &str) -> Option<String> {
    let mut splice = Splice::new(json);
    splice.replace(range, with).ok()?;
    Some(splice.finish())
}

fn whole(json: &str) -> Option<Range<usize>> {
    Some(range_in(json, serde_json::from_str::<&RawValue>(json).ok()?.get()))
}

enum MemberPosition {
    At(usize),
    Nowhere,
}

/// The position of the single member with this name; `None` if there are two.
fn find(json: &str, members: &[MemberRange], name: &str) -> Option<MemberPosition> {
    let is_it = |member: &MemberRange| text_of(&json[member.name.clone()]).is_some_and(|text| text == name);
    let mut found = members.iter().enumerate().filter(|(_, member)| is_it(member));
    match (found.next(), found.next()) {
        (None, _) => Some(MemberPosition::Nowhere),
        (Some((index, _)), None) => Some(MemberPosition::At(index)),
        (Some(_), Some(_)) => None,
    }
}

/// The members of the object at a range of a text.
fn members_in(json: &str, range: Range<usize>) -> Option<Vec<MemberRange>> {
    let mut reader = serde_json::Deserializer::from_str(&json[range]);
    reader.deserialize_map(MembersVisitor(json)).ok()
}

struct MembersVisitor<'t>(&'t str);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = Vec<MemberRange>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let range = |raw: &RawValue| range_in(self.0, raw.get());
            members.push(MemberRange { name: range(name), value: range(value) });
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_put_where_it_belongs_and_every_other_byte_stays() {
        let path = ["_meta", "acpx", "n"];
        let rows = [
            ("{}", r#"{"_meta":{"acpx":{"n":1}}}"#),
            (r#"{ "a" : 1.0e2 }"#, r#"{"_meta":{"acpx":{"n":1}}, "a" : 1.0e2 }"#),
            (r#"{"a":1,"_meta":{"b" :2}}"#, r#"{"a":1,"_meta":{"acpx":{"n":1},"b" :2}}"#),
            (r#"{"_meta":{"acpx":{ } } }"#, r#"{"_meta":{"acpx":{"n":1 } } }"#),
            (r#"{"_meta":null}"#, r#"{"_meta":{"acpx":{"n":1}}}"#),
            (r#"{"_meta":{"acpx":{"n":[0],"m":2}}}"#, r#"{"_meta":{"acpx":{"n":1,"m":2}}}"#),
            (r#"{"\u005fmeta":{"acpx":{"n":0}}}"#, r#"{"\u005fmeta":{"acpx":{"n":1}}}"#),
        ];
        for (json, expected) in rows {
            assert_eq!(put(json, &path, "1").as_deref(), Some(expected), "{json}");
        }
        for json in
            ["", "[]", "7", r#"{"_meta":7}"#, r#"{"_meta":{"acpx":[]}}"#, r#"{"_meta":{},"_meta":{}}"#]
        {
            assert_eq!(put(json, &path, "1"), None, "{json}");
        }
        assert_eq!(put("7", &[], "1").as_deref(), Some("1"));
    }

    #[test]
    fn a_member_is_taken_out_with_its_comma_and_with_what_it_leaves_empty() {
        let path = ["_meta", "acpx", "seq"];
        let rows = [
            (r#"{"_meta":{"acpx":{"seq":1}},"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":2 , "_meta":{"acpx":{"seq":1}} }"#, r#"{"a":2 }"#),
            (r#"{"_meta":{"acpx":{"seq":1}}}"#, "{}"),
            (r#"{"_meta":{"b":{} , "acpx":{"seq":1}}}"#, r#"{"_meta":{"b":{}}}"#),
            (r#"{"_meta":{"acpx":{"at":0,"seq":1,"x":2}}}"#, r#"{"_meta":{"acpx":{"at":0,"x":2}}}"#),
            (r#"{"_meta":{"acpx":{"seq":1, "x":2}}}"#, r#"{"_meta":{"acpx":{"x":2}}}"#),
        ];
        for (json, expected) in rows {
            assert_eq!(without(json, &path).as_deref(), Some(expected), "{json}");
        }
        for json in
            ["", "[]", "{}", r#"{"_meta":7}"#, r#"{"_meta":{"acpx":{"s":1}}}"#, r#"{"_meta":{},"_meta":{}}"#]
        {
            assert_eq!(without(json, &path), None, "{json}");
        }
    }
    #[test]
    fn members_that_are_taken_out_together_leave_what_they_leave_one_by_one() {
        let path = ["_meta", "acpx"];
        let rows = [
            r#"{"_meta":{"acpx":{"seq":1,"at":2}},"a":2}"#,
            r#"{"a":2, "_meta":{"acpx":{"at":2 , "seq":1}, "b":0}}"#,
            r#"{"_meta":{"acpx":{"seq":1,"at":2,"x":3}}}"#,
            r#"{"_meta":{"acpx":{"x":3, "seq":1, "at":2}}}"#,
            r#"{"_meta":{"acpx":{"seq":1,"x":3,"at":2}}}"#,
            r#"{"_meta":{"acpx":{"seq":1,"x":3}}}"#,
            r#"{"_meta":{"acpx":{"at":1}}}"#,
        ];
        for json in rows {
            let cuts = Object::read(json).unwrap().without(&path, &["seq", "at"]).unwrap();
            let mut splice = Splice::new(json);
            for cut in cuts {
                splice.replace(cut, "").unwrap();
            }
            let first = without(json, &["_meta", "acpx", "seq"]).unwrap_or_else(|| json.to_owned());
            let both = without(&first, &["_meta", "acpx", "at"]).unwrap_or(first);
            assert_eq!(splice.finish(), both, "{json}");
        }
        assert_eq!(Object::read("{}").unwrap().without(&path, &["seq"]), None);
        let twice = Object::read(r#"{"_meta":{"acpx":{"seq":1,"seq":1}}}"#).unwrap();
        assert_eq!(twice.without(&path, &["seq"]), None);
    }
}
