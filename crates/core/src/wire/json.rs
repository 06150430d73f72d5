//! Raw JSON: finds and edits the members of an object without parsing their values. Every value keeps its bytes.
//!
//! Nothing here panics on any text: a missing value is `None`. Names are compared as bytes, so an unpaired surrogate in
//! another name does not hide a member.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::encode::json_string;
use super::splice::Splice;

/// The value at the end of a path of members, without the whitespace around it. `None` if the text is not JSON, if
/// there is no such value, or if a name on the path is duplicated.
pub fn get<'t>(json: &'t str, path: &[&str]) -> Option<&'t str> {
    path.iter().try_fold(json, |object, name| {
        let MemberScan { values: [value], repeated: [false], .. } = scan(object, &[*name])? else {
            return None;
        };
        value
    })
}

/// The text with a value at the end of a path of members, replacing an existing one. Missing objects on the path are
/// created, and `null` counts as missing. `None` if a value on the path is not an object, or is duplicated.
pub fn set(json: &str, path: &[&str], value: &str) -> Option<String> {
    let mut part = json.trim_ascii();
    for (depth, name) in path.iter().enumerate() {
        if part == "null" {
            return Some(replace(json, part, &nested(&path[depth..], value)));
        }
        let MemberScan { values: [found], repeated: [false], has_others, .. } = scan(part, &[*name])? else {
            return None;
        };
        let Some(found) = found else {
            let comma = if has_others { "," } else { "" };
            let member = format!("{}:{}{comma}", json_string(name), nested(&path[depth + 1..], value));
            return Some(replace(json, &part[1..1], &member));
        };
        part = found;
    }
    Some(replace(json, part, value))
}

/// The text without the member at the end of a path, and without every object on the path that had nothing else. `None`
/// if there is no such member, or if a name on the path is duplicated.
pub(crate) fn remove(json: &str, path: &[&str]) -> Option<String> {
    let (name, parents) = path.split_last()?;
    let mut splice = Splice::new(json);
    for range in RawObject::parse(json)?.removal(json, parents, &[name])? {
        splice.replace(range, "").ok()?;
    }
    Some(splice.finish())
}

/// Whether a name on a path of members is duplicated, so that readers may disagree about its value.
pub(crate) fn is_duplicated(json: &str, path: &[&str]) -> bool {
    let mut part = Some(json);
    path.iter().any(|name| {
        let found = part.and_then(|object| scan(object, &[*name]));
        part = found.as_ref().and_then(|found| found.values[0]);
        found.is_some_and(|found| found.repeated[0])
    })
}

/// The items of an array; `None` for anything else.
pub fn items(json: &str) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    for_each_item(json, |item| {
        items.push(item);
        true
    })?;
    Some(items)
}

/// An array of JSON values.
pub(crate) fn array<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
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

/// The decoded text of a JSON string; `None` for anything else.
pub(crate) fn string(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"')?.strip_suffix('"')? {
        // Most strings have no escape, so they are borrowed as written.
        plain if memchr::memchr(b'\\', plain.as_bytes()).is_none() => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str::<String>(json).ok().map(Cow::Owned),
    }
}

/// The byte range of a part that was borrowed from a text.
pub(crate) fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The text with other content for a part that was borrowed from it.
pub(crate) fn replace(text: &str, part: &str, with: &str) -> String {
    let Range { start, end } = range_in(text, part);
    [&text[..start], with, &text[end..]].concat()
}

/// A value nested in objects of one member each.
fn nested(path: &[&str], value: &str) -> String {
    path.iter().rev().fold(value.to_owned(), |inside, name| format!("{{{}:{inside}}}", json_string(name)))
}

/// The members of an object in order, names and values as JSON. A parsed object borrows both from its text, and members
/// that are not edited keep their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawObject<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> RawObject<'a> {
    /// An object without members.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reads an object; `None` for anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut members = Vec::new();
        for_each_member(text, |name, value| members.push((Cow::Borrowed(name), Cow::Borrowed(value))))?;
        Some(Self(members))
    }

    /// A member's value. The last of several members with one name counts.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.position(name).map(|index| &*self.0[index].1)
    }

    /// A member's value, unless it is `null`.
    pub(crate) fn get_non_null(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| *value != "null")
    }

    /// A member's text, if it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<Box<str>> {
        string(self.get(name)?).map(Into::into)
    }

    /// The value of the single member with this name, as it was parsed.
    pub(crate) fn get_single(&self, name: &str) -> Option<&'a str> {
        borrowed(&self.0[self.single(name).ok()??].1)
    }

    /// Removes a member, and all others with its name.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let (_, value) = self.0.remove(self.position(name)?);
        self.0.retain(|(known, _)| !is_named(known, name));
        Some(value)
    }

    /// Sets a member at its position, or appends it.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        match self.position(name) {
            Some(index) => self.0[index].1 = value.into(),
            None => self.0.push((Cow::Owned(json_string(name)), value.into())),
        }
    }

    /// Sets a member to a string.
    pub(crate) fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, json_string(text));
    }

    /// Sets the member at the end of a path. Values on the path that are not objects are replaced.
    pub(crate) fn set_path(&mut self, path: &[&str], value: &str) {
        if let Some((name, parents)) = path.split_last() {
            self.merge_path(
                parents,
                &Self(vec![(Cow::Owned(json_string(name)), Cow::Owned(value.to_owned()))]),
            );
        }
    }

    /// Sets the members of another object in the object at the end of a path. Values on the path that are not objects
    /// are replaced.
    pub(crate) fn merge_path(&mut self, path: &[&str], other: &RawObject<'_>) {
        let Some((name, rest)) = path.split_first() else { return self.merge(other) };
        let mut object = self.get(name).and_then(RawObject::parse).unwrap_or_default();
        object.merge_path(rest, other);
        let object = object.to_string();
        self.set(name, object);
    }

    /// Sets the members of another object, in linear time.
    pub(crate) fn merge(&mut self, other: &RawObject<'_>) {
        fn key(name: &str) -> Cow<'_, str> {
            string(name).unwrap_or(Cow::Borrowed(name))
        }
        let mut values: HashMap<_, _> = other.0.iter().map(|(name, value)| (key(name), value)).collect();
        for (name, value) in self.0.iter_mut().rev() {
            if let Some(new) = values.remove(&*key(name)) {
                *value = Cow::Owned(new.to_string());
            }
        }
        for (name, _) in &other.0 {
            let new = values.remove(&*key(name));
            self.0.extend(new.map(|value| (Cow::Owned(name.to_string()), Cow::Owned(value.to_string()))));
        }
    }

    /// Removes the members whose name and value the filter refuses, or whose name is not text.
    pub(crate) fn retain(&mut self, mut filter: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|(name, value)| string(name).is_some_and(|name| filter(&name, value)));
    }

    /// Renames a member at its position. It replaces a member that has that name already.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if self.position(from).is_none() {
            return;
        }
        self.0.retain(|(name, _)| !is_named(name, to));
        for (name, _) in &mut self.0 {
            if is_named(name, from) {
                *name = Cow::Owned(json_string(to));
            }
        }
    }

    /// Removes those of these members that are `null`.
    pub(crate) fn remove_nulls(&mut self, names: &[&str]) {
        self.0.retain(|(name, value)| value != "null" || !names.iter().any(|wanted| is_named(name, wanted)));
    }

    /// Removes all members that are `null`.
    pub(crate) fn remove_all_nulls(&mut self) {
        self.0.retain(|(_, value)| value != "null");
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the members to an unfinished object, each after a comma.
    pub(crate) fn write_members(&self, object: &mut String) {
        for (name, value) in &self.0 {
            object.extend([",", name, ":", value]);
        }
    }

    /// The ranges to cut from the text it was parsed from, so that the object at the end of a path loses these members,
    /// and every object on the path that had nothing else is removed too. `None` if none of them exists, or if a name is
    /// duplicated.
    pub(crate) fn removal(&self, text: &str, path: &[&str], names: &[&str]) -> Option<Vec<Range<usize>>> {
        self.cuts(text, path, names).map(|(ranges, _)| ranges)
    }

    /// The same, and whether nothing is left of the object.
    fn cuts(&self, text: &str, path: &[&str], names: &[&str]) -> Option<(Vec<Range<usize>>, bool)> {
        if let Some((name, rest)) = path.split_first() {
            let index = self.single(name).ok()??;
            return match RawObject::parse(borrowed(&self.0[index].1)?)?.cuts(text, rest, names)? {
                (_, true) => Some((vec![self.extent(text, index, index)?], self.len() == 1)),
                some => Some(some),
            };
        }
        let mut indexes = Vec::with_capacity(names.len());
        for name in names {
            indexes.extend(self.single(name).ok()?);
        }
        indexes.sort_unstable();
        let runs = indexes.chunk_by(|one, next| one + 1 == *next);
        let ranges = runs.map(|run| self.extent(text, *run.first()?, *run.last()?));
        let ranges: Vec<Range<usize>> = ranges.collect::<Option<_>>()?;
        (!ranges.is_empty()).then_some((ranges, indexes.len() == self.len()))
    }

    /// The range of adjacent members, with the comma that belongs to them.
    fn extent(&self, text: &str, first: usize, last: usize) -> Option<Range<usize>> {
        let range = |part| Some(range_in(text, borrowed(part)?));
        let (name, end) = (&self.0[first].0, range(&self.0[last].1)?.end);
        let before = first.checked_sub(1).and_then(|before| self.0.get(before));
        match (before, self.0.get(last + 1)) {
            (Some((_, before)), _) => Some(range(before)?.end..end),
            (None, Some((after, _))) => Some(range(name)?.start..range(after)?.start),
            (None, None) => Some(range(name)?.start..end),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().rposition(|(known, _)| is_named(known, name))
    }

    /// The position of the member with this name, if any; an error if there are two.
    fn single(&self, name: &str) -> Result<Option<usize>, ()> {
        let last = self.position(name);
        let first = self.0.iter().position(|(known, _)| is_named(known, name));
        if first == last { Ok(last) } else { Err(()) }
    }
}

impl fmt::Display for RawObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}:{value}")?;
        }
        f.write_str("}")
    }
}

/// Whether a member's name, as JSON, is this one.
fn is_named(json: &str, name: &str) -> bool {
    string(json).is_some_and(|text| text == name)
}

fn borrowed<'a>(part: &Cow<'a, str>) -> Option<&'a str> {
    match part {
        Cow::Borrowed(part) => Some(part),
        Cow::Owned(_) => None,
    }
}

/// The members of an object with certain names.
#[derive(Debug)]
pub(crate) struct MemberScan<'t, const N: usize> {
    /// The value of each; the last of several members with one name.
    pub(crate) values: [Option<&'t str>; N],
    /// Whether a name occurs more than once.
    pub(crate) repeated: [bool; N],
    /// Whether there are members with other names.
    pub(crate) has_others: bool,
    /// Whether another name contains half of a surrogate pair, so that it is not text.
    pub(crate) has_bad_name: bool,
}

impl<'t, const N: usize> MemberScan<'t, N> {
    /// Whether no name occurs twice and every name is text.
    pub(crate) fn is_plain(&self) -> bool {
        !self.has_bad_name && !self.repeated.contains(&true)
    }

    /// The values, if there are no other members.
    pub(crate) fn only(self) -> Option<[Option<&'t str>; N]> {
        (!self.has_others && self.is_plain()).then_some(self.values)
    }
}

/// Finds the members with these names, in one pass and without allocation; `None` if the text is not an object.
pub(crate) fn scan<'t, const N: usize>(json: &'t str, names: &[&str; N]) -> Option<MemberScan<'t, N>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let scan = reader.deserialize_map(NamedMembersVisitor(names)).ok()?;
    reader.end().ok()?;
    Some(scan)
}

/// Passes each member of an object on, name and value as JSON; `None` if the text is not an object.
pub(crate) fn for_each_member<'t>(json: &'t str, each: impl FnMut(&'t str, &'t str)) -> Option<()> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_map(MembersVisitor(each)).ok()?;
    reader.end().ok()
}

/// Passes each item of an array on, until `each` returns false. `None` if it did, or if the text is not an array.
pub(crate) fn for_each_item<'t>(json: &'t str, each: impl FnMut(&'t str) -> bool) -> Option<()> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_seq(ItemsVisitor(each)).ok()?;
    reader.end().ok()
}

struct NamedMembersVisitor<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for NamedMembersVisitor<'_, N> {
    type Value = MemberScan<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (values, repeated) = ([None; N], [false; N]);
        let mut scan = MemberScan { values, repeated, has_others: false, has_bad_name: false };
        while let Some(name) = map.next_key_seed(NameSeed(self.0))? {
            match name {
                Ok(index) => {
                    let value = map.next_value::<&RawValue>()?.get();
                    scan.repeated[index] |= scan.values[index].replace(value).is_some();
                }
                Err(is_text) => {
                    scan.has_others = true;
                    scan.has_bad_name |= !is_text;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(scan)
    }
}

/// The index of a member's name, or whether another name is text.
struct NameSeed<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = Result<usize, bool>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = Result<usize, bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        let index = self.0.iter().position(|wanted| wanted.as_bytes() == name);
        Ok(index.ok_or_else(|| std::str::from_utf8(name).is_ok()))
    }
}

struct MembersVisitor<F>(F);

impl<'de, F: FnMut(&'de str, &'de str)> Visitor<'de> for MembersVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            (self.0)(name.get(), value.get());
        }
        Ok(())
    }
}

struct ItemsVisitor<F>(F);

impl<'de, F: FnMut(&'de str) -> bool> Visitor<'de> for ItemsVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<&RawValue>()? {
            if !(self.0)(item.get()) {
                return Err(serde::de::Error::custom("no further item is wanted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
