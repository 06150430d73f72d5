//! Finds secrets in the strings of a JSON text. Strings are compared unescaped, and matches are returned as ranges of
//! the text.
//!
//! Member names are never secrets. Nor are the protocol's words and ids: a server whose variable has the value
//! `content` must not make every update unreadable. Nothing here panics on any text, JSON or not.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

use super::Secret;

/// Envelope members that identify a line.
const ENVELOPE: &[&str] = &["jsonrpc", "id", "method"];

/// Members that hold ids. A redacted id would identify nothing.
const IDS: &[&str] = &[
    "sessionId",
    "agentSessionId",
    "messageId",
    "toolCallId",
    "terminalId",
    "optionId",
    "nextCursor",
    "modeId",
    "currentModeId",
    "modelId",
    "currentModelId",
    "configId",
];

/// Members in which an agent advertises what can be chosen; clients send the names in them back. They occur in a
/// response's result, in an update or in an error's data. At other places the same names mean something else.
const OFFERS: &[&str] = &["modes", "models", "configOptions", "availableCommands", "authMethods"];

/// The members with names in there. At other places their values may be secrets.
const OFFERED: &[&str] = &["id", "name", "value", "currentValue", "group", "category"];

/// Members whose value is a word of the protocol, if it looks like one.
const WORDS: &[&str] = &["type", "sessionUpdate", "kind", "status", "stopReason", "outcome", "role"];

/// The ranges of a JSON text that hold secrets.
pub(super) fn find(json: &str, secrets: &[&Secret]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut found = Vec::new();
    for inside in
        (Strings { json, at: 0, depth: 0, member: None, branch: [None; 2], offers: None, aside: None })
    {
        let Some(raw) = json.get(inside.clone()) else { continue };
        let reading = UnescapedString::of(raw);
        for secret in secrets {
            secret.find(&reading.text, &mut found);
        }
        let place = |range: Range<usize>| {
            inside.start + reading.origin(range.start)..inside.start + reading.origin(range.end)
        };
        places.extend(found.drain(..).map(place));
    }
    places
}

/// Iterates over the strings of a JSON text that may hold secrets, without their quotes.
struct Strings<'a> {
    json: &'a str,
    at: usize,
    depth: usize,
    /// The name of the member whose value comes next.
    member: Option<&'a str>,
    /// The path of the current value: a member of the envelope, and a member of that.
    branch: [Option<&'a str>; 2],
    /// The depths at which an agent's offers began, and at which a part of them began that is not an offer.
    offers: Option<usize>,
    aside: Option<usize>,
}

impl Iterator for Strings<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let byte = *self.json.as_bytes().get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => {
                    let (inside, may_have_secrets) = self.string()?;
                    if may_have_secrets {
                        return Some(inside);
                    }
                }
                b'{' | b'[' => {
                    let member = self.member.take();
                    self.enter(member);
                    self.depth += 1;
                }
                b'}' | b']' => {
                    (self.depth, self.member) = (self.depth.saturating_sub(1), None);
                    self.offers.take_if(|began| self.depth <= *began);
                    self.aside.take_if(|began| self.depth <= *began);
                }
                b',' => self.member = None,
                _ => {}
            }
        }
    }
}

impl<'a> Strings<'a> {
    /// Enters an object or a list that is the value of this member.
    fn enter(&mut self, member: Option<&'a str>) {
        if let Some(branch) = self.depth.checked_sub(1).and_then(|level| self.branch.get_mut(level)) {
            *branch = member;
        }
        let tells = match (self.depth, self.branch) {
            (2, [Some("result"), _]) => true,
            (3, branch) => matches!(branch, [Some("params"), Some("update")] | [Some("error"), Some("data")]),
            _ => false,
        };
        if tells && member.is_some_and(|member| OFFERS.contains(&member)) {
            self.offers.get_or_insert(self.depth);
        }
        if self.offers.is_some() && member == Some("_meta") {
            self.aside.get_or_insert(self.depth);
        }
    }

    /// The string that begins here, and whether it may hold secrets: a name may not.
    fn string(&mut self) -> Option<(Range<usize>, bool)> {
        let inside = self.at..end_of_string(self.json, self.at)?;
        let text = self.json.get(inside.clone())?;
        let rest = self.json.get(inside.end + 1..)?;
        self.at = inside.end + 1;
        if rest.trim_ascii_start().starts_with(':') {
            self.member = Some(text);
            return Some((inside, false));
        }
        let stays = self.member.take().is_some_and(|member| self.stays(member, text));
        Some((inside, !stays))
    }

    fn stays(&self, member: &str, text: &str) -> bool {
        let is_word = || text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        (self.depth == 1 && ENVELOPE.contains(&member))
            || IDS.contains(&member)
            || (self.offers.is_some() && self.aside.is_none() && OFFERED.contains(&member))
            || (WORDS.contains(&member) && is_word())
    }
}

/// The position of the quote that ends a string.
fn end_of_string(json: &str, mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', json.as_bytes().get(at..)?)?;
        if json.as_bytes().get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// An unescaped string, with the origin of each byte.
struct UnescapedString<'a> {
    text: Cow<'a, [u8]>,
    /// One position per byte of the text; empty if nothing was escaped.
    origins: Vec<usize>,
    length: usize,
}

impl<'a> UnescapedString<'a> {
    fn of(raw: &'a str) -> Self {
        let bytes = raw.as_bytes();
        if memchr(b'\\', bytes).is_none() {
            return Self { text: bytes.into(), origins: Vec::new(), length: bytes.len() };
        }
        let mut text = Vec::with_capacity(bytes.len());
        let mut origins = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if byte == b'\\' {
                let (character, length) = escape(bytes.get(at + 1..).unwrap_or_default());
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                origins.resize(text.len(), at);
                at += 1 + length;
            } else {
                text.push(byte);
                origins.push(at);
                at += 1;
            }
        }
        Self { text: text.into(), origins, length: bytes.len() }
    }

    /// The position in the raw string of a byte of the text; the end maps to the end.
    fn origin(&self, byte: usize) -> usize {
        if byte == self.text.len() {
            return self.length;
        }
        self.origins.get(byte).copied().unwrap_or(byte)
    }
}

/// The character of an escape, and the escape's length without its backslash. A lone surrogate becomes the
/// replacement character, which no secret contains.
fn escape(bytes: &[u8]) -> (char, usize) {
    let Some(first) = bytes.first() else { return (char::REPLACEMENT_CHARACTER, 0) };
    let character = match first {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode(bytes),
        other => char::from(*other),
    };
    (character, 1)
}

fn unicode(bytes: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let Some(character) = char::from_u32(first) {
        return (character, 5);
    }
    let is_pair = first < 0xDC00 && bytes.get(5..7) == Some(b"\\u");
    let second = if is_pair { unit(7).filter(|second| (0xDC00..0xE000).contains(second)) } else { None };
    let whole =
        second.and_then(|second| char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)));
    whole.map_or((char::REPLACEMENT_CHARACTER, 5), |character| (character, 11))
}
