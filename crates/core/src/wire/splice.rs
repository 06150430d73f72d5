//! Edits a JSON text by byte range, so that all other bytes stay unchanged.
//!
//! Nothing here panics on any text: a missing place is `None` or a typed error.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use super::message::range_in;

mod members;

pub use members::{Object, put, text_of, without};

/// Replacements in one text, collected and then applied together.
#[derive(Debug, Clone)]
pub struct Splice<'a> {
    text: &'a str,
    /// By start and end; no two overlap.
    edits: Vec<((usize, usize), Box<str>)>,
}

/// Why a place cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// The range is not inside the text, or ends before it starts.
    #[error("the range {}..{} is outside of a text of {length} bytes", range.start, range.end)]
    Outside {
        /// The range.
        range: Range<usize>,
        /// The text's length.
        length: usize,
    },
    /// The range would cut a character in two.
    #[error("the range {}..{} cuts a character in two", range.start, range.end)]
    InsideCharacter {
        /// The range.
        range: Range<usize>,
    },
    /// Another replacement touches the same bytes.
    #[error("the range {}..{} overlaps the range {}..{}", range.start, range.end, other.start, other.end)]
    Overlap {
        /// The range.
        range: Range<usize>,
        /// The earlier replacement.
        other: Range<usize>,
    },
}

impl<'a> Splice<'a> {
    /// Nothing is replaced yet.
    pub fn new(text: &'a str) -> Self {
        Self { text, edits: Vec::new() }
    }

    /// Replaces a range with `with`. An empty range inserts. On an error nothing has changed.
    pub fn replace(&mut self, range: Range<usize>, with: &str) -> Result<&mut Self, SpliceError> {
        let length = self.text.len();
        if range.start > range.end || range.end > length {
            return Err(SpliceError::Outside { range, length });
        }
        if !self.text.is_char_boundary(range.start) || !self.text.is_char_boundary(range.end) {
            return Err(SpliceError::InsideCharacter { range });
        }
        let key = (range.start, range.end);
        let place = self.edits.partition_point(|(other, _)| *other < key);
        let before = place.checked_sub(1).and_then(|before| self.edits.get(before));
        for &((start, end), _) in before.into_iter().chain(self.edits.get(place)) {
            if (start, end) == key || (start < range.end && range.start < end) {
                return Err(SpliceError::Overlap { range, other: start..end });
            }
        }
        self.edits.insert(place, (key, with.into()));
        Ok(self)
    }

    /// The text with all replacements applied.
    pub fn finish(&self) -> String {
        let added: usize = self.edits.iter().map(|(_, with)| with.len()).sum();
        let mut out = String::with_capacity(self.text.len() + added);
        let mut kept = 0;
        for &((start, end), ref with) in &self.edits {
            out.push_str(&self.text[kept..start]);
            out.push_str(with);
            kept = end;
        }
        out.push_str(&self.text[kept..]);
        out
    }
}

/// One step into a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep<'a> {
    /// To the member of an object.
    Key(&'a str),
    /// To the element of an array, from 0.
    Index(usize),
}

/// The byte range of a value inside a JSON text, without surrounding whitespace. `None` if the text is not JSON, if
/// there is no such value, or if a key on the path is duplicated.
pub fn locate(json: &str, path: &[PathStep<'_>]) -> Option<Range<usize>> {
    let mut at = serde_json::from_str::<&RawValue>(json).ok()?.get();
    for step in path {
        let mut reader = serde_json::Deserializer::from_str(at);
        at = StepSeed(*step).deserialize(&mut reader).ok()??;
    }
    Some(range_in(json, at))
}

/// The byte ranges of all elements of an array; `None` if the text is not a JSON array.
pub fn elements(json: &str) -> Option<Vec<Range<usize>>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let mut ranges = Vec::new();
    reader.deserialize_seq(ElementsVisitor(|part| ranges.push(range_in(json, part)))).ok()?;
    reader.end().ok()?;
    Some(ranges)
}

struct StepSeed<'s>(PathStep<'s>);

impl<'de> DeserializeSeed<'de> for StepSeed<'_> {
    type Value = Option<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            PathStep::Key(name) => deserializer.deserialize_map(PathMemberVisitor(name)),
            PathStep::Index(index) => {
                let (mut next, mut found) = (0, None);
                deserializer.deserialize_seq(ElementsVisitor(|part| {
                    if next == index {
                        found = Some(part);
                    }
                    next += 1;
                }))?;
                Ok(found)
            }
        }
    }
}

/// Finds the single member with this name.
struct PathMemberVisitor<'s>(&'s str);

impl<'de> Visitor<'de> for PathMemberVisitor<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(NameSeed(self.0))? {
            if !is_it {
                map.next_value::<IgnoredAny>()?;
            } else if found.replace(map.next_value::<&RawValue>()?.get()).is_some() {
                return Err(A::Error::custom("the key is there twice"));
            }
        }
        Ok(found)
    }
}

/// Whether a member's name is this one. Names are compared as bytes, so an unpaired surrogate in another name does not
/// hide the member.
struct NameSeed<'s>(&'s str);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<bool, E> {
        Ok(name == self.0.as_bytes())
    }
}

/// Passes on the raw text of each element.
struct ElementsVisitor<F>(F);

impl<'de, F: FnMut(&'de str)> Visitor<'de> for ElementsVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(part) = seq.next_element::<&RawValue>()? {
            (self.0)(part.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
