//! Makes JSON readable for every parser. An agent may nest values too deeply for parsers, or write half of a
//! surrogate pair; both are valid JSON, and pass unchanged between peers of one version. A translation has to parse
//! them, so it replaces the unreadable value and keeps the rest of the update.

use std::borrow::Cow;

/// The maximum depth. Our parsers accept 128, counted from the outermost object of the line.
const DEEPEST: usize = 96;

/// Replaces a value that is nested deeper.
const TOO_DEEP: &str = r#""[nested too deep]""#;

/// The same JSON with unreadable values replaced.
pub(super) fn repaired(json: &str) -> Cow<'_, str> {
    let opens = memchr::memchr2_iter(b'[', b'{', json.as_bytes()).nth(DEEPEST).is_some();
    let has_pairs =
        ["\\ud", "\\uD"].iter().any(|half| memchr::memmem::find(json.as_bytes(), half.as_bytes()).is_some());
    if opens || has_pairs { Cow::Owned(rewritten(json)) } else { Cow::Borrowed(json) }
}

fn rewritten(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut depth, mut rest) = (0_usize, json);
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => string_length(rest),
            _ => next.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        let closes = matches!(next, ']' | '}');
        if matches!(next, '[' | '{') {
            depth += 1;
            if depth == DEEPEST + 1 {
                out.push_str(TOO_DEEP);
            }
        }
        if depth <= DEEPEST {
            if next == '"' { push_string(&mut out, token) } else { out.push_str(token) }
        }
        if closes {
            depth = depth.saturating_sub(1);
        }
    }
    out
}

/// The length of the string at the start of a text, including its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Copies a string. Half of a surrogate pair becomes the replacement character.
fn push_string(out: &mut String, mut string: &str) {
    while let Some(escape) = string.find('\\') {
        let (plain, behind) = string.split_at(escape);
        out.push_str(plain);
        let length = match (unit(behind), behind.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                string = behind.get(6..).unwrap_or_default();
                continue;
            }
            _ => behind.chars().take(2).map(char::len_utf8).sum(),
        };
        let (kept, left) = behind.split_at(length);
        out.push_str(kept);
        string = left;
    }
    out.push_str(string);
}

/// The code unit of the `\uXXXX` at the start of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_pair_gives_way_and_every_other_byte_stays() {
        let text = r#"{ "a\\ud800":"\ud83d\ude00 \ud800 x\uDC00\"", "é":"\\\ud800"}"#;
        let expected = r#"{ "a\\ud800":"\ud83d\ude00 \ufffd x\ufffd\"", "é":"\\\ufffd"}"#;
        assert_eq!(repaired(text), expected);
    }

    #[test]
    fn too_deeply_nested_value_is_replaced_alone() {
        let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = format!(r#"[{},"]",1]"#, nested(200, "{\"[\":2}"));
        assert_eq!(repaired(&deep), format!(r#"[{},"]",1]"#, nested(DEEPEST - 1, TOO_DEEP)));
        let wide = format!("[{}1]", "[],".repeat(200));
        assert_eq!(repaired(&wide), wide);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_and_what_is_json_stays_json(text in "([\\[\\]{}\",:\\\\u]|d8|00|é){0,40}") {
            let whole = rewritten(&text);
            let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            proptest::prop_assert!(!is_json(&text) || is_json(&whole), "{}", whole);
        }
    }
}
