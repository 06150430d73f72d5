//! Values that must not be kept, and lines without them. A value that is not stored cannot leak from the store.
//!
//! Secrets are credentials, what MCP servers are given, and the values of environment variables whose names mark them or
//! that the configuration marks; and the password in a URL, whichever variable has it. Values under eight characters are
//! never looked for, since they are ordinary words. A request that carries secrets has them in a list, and there each is
//! replaced whatever it is; anywhere else a value that is known is looked for in everything that reads as text. Every
//! byte that is no secret stays as it was. A line whose secrets cannot be told from the rest is not kept at all.
//!
//! This is for what agents repeat without meaning any harm, in one message. An agent that wants to give a value away can
//! write it in a thousand ways, and was trusted with it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;

use memchr::memmem::Finder;
use serde::de::IgnoredAny;

mod lists;
mod names;
mod strings;
mod urls;

pub use names::is_secret_name;

/// What stands where a secret stood.
pub(crate) const PLACEHOLDER: &str = "[secret]";

/// What is kept of a line whose secrets cannot be told from the rest.
const NOT_KEPT: &str = r#"{"acpx":"a line with secret values of an unreadable shape was not kept"}"#;

/// How many characters a value has at least. Shorter ones are ordinary words: `true`, `main`, `eu-west`.
const SHORTEST: usize = 8;

/// How many values that lines have told are remembered. The oldest is forgotten for a newer one.
const MOST_LEARNED: usize = 256;

/// The values that must not be kept.
#[derive(Default)]
pub struct Secrets {
    given: Vec<Secret>,
    /// What lines have told, the oldest first.
    learned: VecDeque<Secret>,
}

impl Secrets {
    /// Values that are known from the beginning, and the passwords in those that have URLs in them.
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut secrets = Self::default();
        for value in values {
            secrets.give(value.as_ref());
            secrets.give_passwords(value.as_ref());
        }
        secrets
    }

    /// The same with the values of environment variables that are secrets, and with the passwords in URLs of any;
    /// `is_secret` says which variables are.
    #[must_use]
    pub fn with_variables<'a>(
        mut self,
        variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
        is_secret: impl Fn(&OsStr) -> bool,
    ) -> Self {
        for (name, value) in variables {
            // What is no text is in no line.
            let Some(value) = value.to_str() else { continue };
            if is_secret(name) {
                self.give(value);
            }
            self.give_passwords(value);
        }
        self
    }

    fn give(&mut self, value: &str) {
        if !self.knows(value) {
            self.given.extend(Secret::new(value));
        }
    }

    fn give_passwords(&mut self, text: &str) {
        for password in urls::passwords(text) {
            self.give(&password);
        }
    }

    /// A request or a notification as it may be kept, if not as it is. `params` is the part of the line that they
    /// are. Secret values that it tells are known from then on.
    pub fn remove_from_call(&mut self, line: &str, method: &str, params: Option<&str>) -> Option<String> {
        let Some(values) = lists::values(method, params.unwrap_or("null")) else {
            return Some(NOT_KEPT.to_owned());
        };
        for value in &values {
            let text = value.text();
            if value.is_secret {
                self.learn(&text);
            }
            for password in urls::passwords(&text) {
                self.learn(&password);
            }
        }
        if values.iter().all(|value| !value.is_secret) {
            return self.remove_from_json(line);
        }
        let Some(text) = lists::replace(line, &values) else { return Some(NOT_KEPT.to_owned()) };
        self.remove_from_json(&text).or(Some(text))
    }

    /// Any other JSON text as it may be kept, if not as it is. A text that has none of the secrets costs one search for
    /// each; only one that may have them is read.
    pub fn remove_from_json(&self, json: &str) -> Option<String> {
        let sought: Vec<&Secret> = self.all().filter(|secret| secret.may_be_in(json)).collect();
        if sought.is_empty() {
            return None;
        }
        let found = strings::find(json, &sought);
        if found.is_empty() {
            return None;
        }
        let text = replaced(json, found);
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        Some(if is_json { text } else { NOT_KEPT.to_owned() })
    }

    /// Words that are no JSON, as they may be kept.
    pub fn remove_from_words<'a>(&self, words: &'a str) -> Cow<'a, str> {
        let mut found = Vec::new();
        for secret in self.all() {
            secret.find(words.as_bytes(), &mut found);
        }
        if found.is_empty() { words.into() } else { replaced(words, found).into() }
    }

    /// How much of a text that goes on may be kept: what may be the beginning of a secret waits for the rest of it.
    pub fn settled(&self, text: &str) -> usize {
        let (bytes, mut found) = (text.as_bytes(), Vec::new());
        let mut end = bytes.len();
        for secret in self.all() {
            secret.find(bytes, &mut found);
            for form in &secret.forms {
                let begun =
                    (1..form.needle().len()).rev().find(|length| bytes.ends_with(&form.needle()[..*length]));
                end = end.min(bytes.len() - begun.unwrap_or(0));
            }
        }
        // One that is there as a whole is not torn for one that may begin within it.
        found.sort_by_key(|place| std::cmp::Reverse(place.start));
        for place in found {
            if (place.start..place.end).contains(&end) {
                end = place.start;
            }
        }
        text.floor_char_boundary(end)
    }

    /// How much of a text whose beginning was cut off may be the end of a secret.
    pub fn torn(&self, text: &str) -> usize {
        let forms = self.all().flat_map(|secret| &secret.forms);
        let rest = |form: &Finder<'_>| {
            let needle = form.needle();
            (1..needle.len())
                .find(|from| text.as_bytes().starts_with(&needle[*from..]))
                .map(|from| needle.len() - from)
        };
        text.ceil_char_boundary(forms.filter_map(rest).max().unwrap_or(0))
    }

    fn all(&self) -> impl Iterator<Item = &Secret> {
        self.given.iter().chain(&self.learned)
    }

    fn knows(&self, value: &str) -> bool {
        self.all().any(|known| *known.value == *value)
    }

    /// Takes a value that is a secret from now on.
    pub fn learn(&mut self, value: &str) {
        if self.knows(value) {
            return;
        }
        let Some(secret) = Secret::new(value) else { return };
        if self.learned.len() == MOST_LEARNED {
            self.learned.pop_front();
        }
        self.learned.push_back(secret);
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// One value, and how it is looked for.
struct Secret {
    value: Box<str>,
    /// The longest part of it that stands in every JSON text as it is, however that was written.
    anchor: Finder<'static>,
    /// The value, and the value as it stands in JSON, which a text may quote.
    forms: Vec<Finder<'static>>,
}

impl Secret {
    /// `None` for a value that is too short to be looked for.
    fn new(value: &str) -> Option<Self> {
        if value.chars().count() < SHORTEST || value == PLACEHOLDER {
            return None;
        }
        let finder = |text: &str| Finder::new(text).into_owned();
        let quoted = serde_json::Value::from(value).to_string();
        let inside = quoted.get(1..quoted.len() - 1).filter(|inside| *inside != value);
        Some(Self {
            value: value.into(),
            anchor: finder(anchor(value)),
            forms: std::iter::once(value).chain(inside).map(finder).collect(),
        })
    }

    /// Whether it can be in a JSON text. An anchor without a byte is in every text.
    fn may_be_in(&self, json: &str) -> bool {
        self.anchor.find(json.as_bytes()).is_some()
    }

    /// Adds the places where it stands in a text.
    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        for form in &self.forms {
            let length = form.needle().len();
            let mut from = 0;
            while let Some(offset) = text.get(from..).and_then(|rest| form.find(rest)) {
                let start = from + offset;
                found.push(start..start + length);
                // The last one that begins within this one: `abcab` is twice in `abcabcab`.
                let within = start + 1..text.len().min(start + 2 * length - 1);
                let last = text.get(within).and_then(|rest| memchr::memmem::rfind(rest, form.needle()));
                from = last.map_or(start + length, |offset| start + 1 + offset);
            }
        }
    }
}

/// The longest run of characters that no writer of JSON escapes. Some escape what HTML or JavaScript would take
/// amiss, and some all that is not ASCII.
fn anchor(value: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\/<>&'+=`".contains(&byte);
    let runs = value.split(|character: char| !u8::try_from(character).is_ok_and(is_plain));
    runs.max_by_key(|run| run.len()).unwrap_or_default()
}

/// The text with the placeholder in these places. Where some overlap, one stands for all of them.
fn replaced(text: &str, mut found: Vec<Range<usize>>) -> String {
    found.sort_by_key(|place| (place.start, place.end));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for place in found {
        if place.start < done {
            done = done.max(place.end);
            continue;
        }
        out.push_str(text.get(done..place.start).unwrap_or_default());
        out.push_str(PLACEHOLDER);
        done = place.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;
