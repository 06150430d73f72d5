//! Members of objects, put in and taken out by byte range: whatever else the text has stays as it was.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Splice;
use crate::wire::encode::json_string;
use crate::wire::message::range_in;

/// One member of an object, as ranges of the text it was looked for in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberRange {
    name: Range<usize>,
    value: Range<usize>,
}

/// The text with a value at the end of a path of members, in the place of what may be there. Objects that are missing
/// on the way are made, and `null` counts as missing. `None` if something on the way is no object, or is there twice.
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
            Found::At(index) => at = members[index].value.clone(),
            Found::Nowhere => {
                let comma = if members.is_empty() { "" } else { "," };
                let inside = nested(&path[depth + 1..], value);
                let member = format!("{}:{inside}{comma}", json_string(name));
                return replaced(json, at.start + 1..at.start + 1, &member);
            }
        }
    }
    replaced(json, at, value)
}

/// The text without the member at the end of a path, and without every object on the way that had nothing else.
/// `None` if there is no such member, or if a name on the way is there twice.
pub fn without(json: &str, path: &[&str]) -> Option<String> {
    let mut at = whole(json)?;
    let mut cut = None;
    for name in path {
        if !json[at.clone()].starts_with('{') {
            return None;
        }
        let members = members_in(json, at)?;
        let Found::At(index) = find(json, &members, name)? else { return None };
        at = members[index].value.clone();
        if members.len() > 1 || cut.is_none() {
            cut = Some(extent(&members, index));
        }
    }
    replaced(json, cut?, "")
}

/// A member with the comma that goes with it.
fn extent(members: &[MemberRange], index: usize) -> Range<usize> {
    let member = &members[index];
    let before = index.checked_sub(1).and_then(|before| members.get(before));
    match (before, members.get(index + 1)) {
        (Some(before), _) => before.value.end..member.value.end,
        (None, Some(after)) => member.name.start..after.name.start,
        (None, None) => member.name.start..member.value.end,
    }
}

/// A value within objects of one member each.
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

enum Found {
    At(usize),
    Nowhere,
}

/// Where the one member of this name is; `None` if there are two.
fn find(json: &str, members: &[MemberRange], name: &str) -> Option<Found> {
    let is_it = |member: &MemberRange| {
        serde_json::from_str::<Cow<'_, str>>(&json[member.name.clone()]).is_ok_and(|text| text == name)
    };
    let mut found = members.iter().enumerate().filter(|(_, member)| is_it(member));
    match (found.next(), found.next()) {
        (None, _) => Some(Found::Nowhere),
        (Some((index, _)), None) => Some(Found::At(index)),
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
}
