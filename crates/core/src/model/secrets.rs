//! Finds secret values in lines and replaces them before a line is stored. A value that is not stored cannot leak.
//!
//! Secrets are credentials, the values given to MCP servers, the values of environment variables whose names or
//! configuration mark them as secret, and passwords in URLs of any variable. Values under eight characters are never
//! searched for, because they are ordinary words. In the lists in which requests carry secrets, every value is
//! replaced; in all other text, known values are searched for and replaced. All other bytes stay unchanged. A line
//! whose secrets cannot be located is not stored at all.
//!
//! This protects against agents that repeat a value unintentionally, in one message. A malicious agent can encode a
//! value in any way, and was trusted with it.

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

pub use names::is_secret_name;

/// Replaces a secret.
pub(crate) const PLACEHOLDER: &str = "[secret]";

/// Replaces a line whose secrets cannot be located.
const NOT_KEPT: &str = r#"{"acpx":"a line with secret values of an unreadable shape was not kept"}"#;

/// The minimum length of a value in characters. Shorter ones are ordinary words: `true`, `main`, `eu-west`.
const SHORTEST: usize = 8;

/// How many values learned from lines are kept; a newer one evicts the oldest.
const MOST_LEARNED: usize = 256;

/// The values that must not be stored.
#[derive(Default)]
pub struct Secrets {
    given: Vec<Secret>,
    /// Values learned from lines, oldest first.
    learned: VecDeque<Secret>,
}

impl Secrets {
    /// The initially known values, and the passwords of URLs in them.
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut secrets = Self::default();
        for value in values {
            secrets.give(value.as_ref());
            secrets.give_passwords(value.as_ref());
        }
        secrets
    }

    /// The same with the values of secret environment variables, and with the passwords in URLs of any variable;
    /// `is_secret` decides which variables are secret.
    #[must_use]
    pub(crate) fn with_variables<'a>(
        mut self,
        variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
        is_secret: impl Fn(&OsStr) -> bool,
    ) -> Self {
        for (name, value) in variables {
            // A line is text, so it cannot contain a value that is not.
            let Some(value) = value.to_str() else { continue };
            if is_secret(name) {
                self.give(value);
            }
            self.give_passwords(value);
        }
        self
    }

    /// These and the initially known values of others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        for other in others.given {
            if !self.knows(&other.value) {
                self.given.push(other);
            }
        }
        self
    }

    fn give(&mut self, value: &str) {
        if !self.knows(value) {
            self.given.extend(Secret::new(value));
        }
    }

    fn give_passwords(&mut self, text: &str) {
        for password in passwords(text) {
            self.give(&password);
        }
    }

    /// A request or notification without its secrets; `None` if it has none. `params` is a part of `line`. Secret
    /// values in it are learned for later lines.
    pub(crate) fn redact_call(&mut self, line: &str, method: &str, params: Option<&str>) -> Option<String> {
        let Some(values) = lists::values(method, params.unwrap_or("null")) else {
            return Some(NOT_KEPT.to_owned());
        };
        for value in &values {
            let text = value.text();
            if value.is_secret {
                self.learn(&text);
            }
            for password in passwords(&text) {
                self.learn(&password);
            }
        }
        if values.iter().all(|value| !value.is_secret) {
            return self.redact_json(line);
        }
        let Some(text) = lists::replace(line, &values) else { return Some(NOT_KEPT.to_owned()) };
        self.redact_json(&text).or(Some(text))
    }

    /// Any other JSON text without its secrets; `None` if it has none. A text without secrets costs one search per
    /// secret; only a possible match is parsed.
    pub fn redact_json(&self, json: &str) -> Option<String> {
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

    /// Text that is not JSON, without its secrets.
    pub fn redact_text<'a>(&self, words: &'a str) -> Cow<'a, str> {
        let mut found = Vec::new();
        for secret in self.all() {
            secret.find(words.as_bytes(), &mut found);
        }
        if found.is_empty() { words.into() } else { replaced(words, found).into() }
    }

    /// How many bytes of an incomplete text can be stored: a possible beginning of a secret is held back.
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
        // A complete match is not split for a possible one that begins within it.
        found.sort_by_key(|place| std::cmp::Reverse(place.start));
        for place in found {
            if (place.start..place.end).contains(&end) {
                end = place.start;
            }
        }
        text.floor_char_boundary(end)
    }

    /// How many bytes of a text with a cut-off beginning may be the end of a secret.
    pub(crate) fn torn(&self, text: &str) -> usize {
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

    /// Adds a value that is a secret from now on.
    pub(crate) fn learn(&mut self, value: &str) {
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

/// One value, and its search patterns.
struct Secret {
    value: Box<str>,
    /// Its longest part that every JSON encoder leaves unescaped.
    anchor: Finder<'static>,
    /// The value, and its JSON-escaped form, which a text may quote.
    forms: Vec<Finder<'static>>,
}

impl Secret {
    /// `None` for a value that is too short to search for.
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

    /// Whether it can be in a JSON text. An empty anchor matches every text.
    fn may_be_in(&self, json: &str) -> bool {
        self.anchor.find(json.as_bytes()).is_some()
    }

    /// Adds the ranges where it occurs in a text.
    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        for form in &self.forms {
            let length = form.needle().len();
            let mut from = 0;
            while let Some(offset) = text.get(from..).and_then(|rest| form.find(rest)) {
                let start = from + offset;
                found.push(start..start + length);
                // The last occurrence that overlaps this one: `abcab` occurs twice in `abcabcab`.
                let within = start + 1..text.len().min(start + 2 * length - 1);
                let last = text.get(within).and_then(|rest| memchr::memmem::rfind(rest, form.needle()));
                from = last.map_or(start + length, |offset| start + 1 + offset);
            }
        }
    }
}

/// The longest run of characters that no JSON encoder escapes. Some encoders escape characters that are special in
/// HTML or JavaScript, and some escape everything outside ASCII.
fn anchor(value: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\/<>&'+=`".contains(&byte);
    let runs = value.split(|character: char| !u8::try_from(character).is_ok_and(is_plain));
    runs.max_by_key(|run| run.len()).unwrap_or_default()
}

/// The text with the placeholder at these ranges. Overlapping ranges get one placeholder.
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

/// The placeholder password of examples and local setups.
const EXAMPLE: &str = "password";

/// Every password in the URLs of a text, as written and percent-decoded. One that repeats the user or the scheme
/// (`postgres://postgres:postgres@localhost`) protects nothing and is an ordinary word.
pub(super) fn passwords(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, separator) in text.match_indices("://") {
        let before = text.get(..at).unwrap_or_default();
        let rest = text.get(at + separator.len()..).unwrap_or_default();
        let Some((user, password)) = user_and_password(rest) else { continue };
        let scheme = before.rsplit(|character| !is_of_scheme(character)).next().unwrap_or_default();
        if scheme.is_empty() || [user, scheme, EXAMPLE].iter().any(|word| password.eq_ignore_ascii_case(word))
        {
            continue;
        }
        let read = decoded(password).filter(|read| read != password);
        found.extend([password.to_owned()].into_iter().chain(read));
    }
    found
}

/// The user and the password of a URL.
fn user_and_password(rest: &str) -> Option<(&str, &str)> {
    let ends = |character: char| "/?#\"'<>".contains(character) || character.is_whitespace();
    let authority = rest.split(ends).next()?;
    let (user_info, _host) = authority.rsplit_once('@')?;
    user_info.split_once(':')
}

fn is_of_scheme(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
}

/// The percent-decoded text; `None` if it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let meant = digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        let meant = meant.filter(|_| byte == b'%');
        bytes.push(meant.unwrap_or(byte));
        rest = if meant.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod urls_tests {
    use super::*;

    #[test]
    fn url_passwords_in_every_spelling() {
        let cases: [(&str, &[&str]); 12] = [
            ("postgres://app:s3cr3t-word@db.example:5432/app", &["s3cr3t-word"]),
            ("https://:only-password@host", &["only-password"]),
            ("redis+tls://u:a:b@c@host", &["a:b@c"]),
            ("amqp://u:first-one@h1,amqp://u:second-one@h2", &["first-one", "second-one"]),
            ("see 'http://u:quoted-one@h' and more", &["quoted-one"]),
            ("mysql://u:p%40ss%2Fword@h/db", &["p%40ss%2Fword", "p@ss/word"]),
            ("mysql://u:100%sure%zz@h", &["100%sure%zz"]),
            ("postgres://me:postgres@h POSTGRES://admin:Admin@h x://u:password@h", &[]),
            ("https://token@host https://host:8080/a@b https://host:8080", &[]),
            ("://u:without-scheme@h", &[]),
            ("user:word@host", &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(passwords(text), expected, "{text}");
        }
    }
}

#[cfg(test)]
mod tests;
