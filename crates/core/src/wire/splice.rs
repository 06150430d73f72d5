//! Edits a text by byte range, so that all other bytes stay unchanged. Nothing here panics: a bad range is a typed error.

use std::ops::Range;

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

#[cfg(test)]
mod tests;
