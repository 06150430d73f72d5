//! The words of a text and of a query: pairs of CJK characters, and words within identifiers.
//!
//! SQLite's tokenizer takes a run of letters as one word. Chinese, Japanese and Korean text has no spaces, and
//! `parseUserName` is three words for a reader. [`parts`] are written next to the text, and a query looks in both. A
//! single CJK character is found as the beginning of a pair, so the last character of a run is a part too.

/// The parts of a text, separated by blanks.
pub(super) fn parts(text: &str) -> String {
    all_parts(text).join(" ")
}

fn all_parts(text: &str) -> Vec<String> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.flat_map(parts_of_run).collect()
}

/// The parts of a run of letters and digits; none if it is a plain word.
fn parts_of_run(run: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let is_cjk_run = is_cjk(first);
        let end = rest.find(|letter| is_cjk(letter) != is_cjk_run).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        if is_cjk_run {
            parts.extend(pairs(piece));
        } else {
            let words = words_of_identifier(piece);
            // A plain word is in the text already, unless CJK characters next to it hide it there.
            if words.len() > 1 || piece.len() < run.len() {
                parts.extend(words);
            }
        }
        rest = after;
    }
    parts
}

/// The pairs of neighbouring characters, and the last character.
fn pairs(run: &str) -> Vec<String> {
    let letters: Vec<char> = run.chars().collect();
    let pairs = letters.windows(2).map(|pair| pair.iter().collect());
    pairs.chain(letters.last().map(char::to_string)).collect()
}

/// The words of an identifier in camel case: `HTTPServer2` has `HTTP`, `Server` and `2`.
fn words_of_identifier(run: &str) -> Vec<String> {
    let letters: Vec<char> = run.chars().collect();
    let (mut words, mut word) = (Vec::new(), String::new());
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(index + 1);
        let begins = before.is_some_and(|before| {
            (before.is_lowercase() && letter.is_uppercase())
                || (before.is_numeric() != letter.is_numeric())
                || (before.is_uppercase()
                    && letter.is_uppercase()
                    && after.is_some_and(|next| next.is_lowercase()))
        });
        if begins {
            words.push(std::mem::take(&mut word));
        }
        word.push(*letter);
    }
    words.push(word);
    words
}

fn is_cjk(letter: char) -> bool {
    matches!(u32::from(letter),
        0x1100..=0x11ff | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3100..=0x31bf
        | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xa960..=0xa97f | 0xac00..=0xd7ff
        | 0xf900..=0xfaff | 0xff66..=0xff9f | 0x20000..=0x3ffff)
}

/// A word or a phrase that a message must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) text: String,
    /// Whether more letters may follow.
    pub(super) is_prefix: bool,
}

/// The terms of a query: words, `"phrases"`, and beginnings of words that end in `*`.
pub(super) fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    for (index, piece) in query.split('"').enumerate() {
        let is_phrase = index % 2 == 1;
        let words: Vec<&str> =
            if is_phrase { vec![piece.trim()] } else { piece.split_whitespace().collect() };
        for word in words {
            let text = word.trim_end_matches('*');
            if text.contains(char::is_alphanumeric) {
                terms.push(Term { text: text.to_owned(), is_prefix: text.len() < word.len() });
            }
        }
    }
    terms
}

impl Term {
    /// The term in the language of FTS5: its words in order in the text, or its parts in order among the parts.
    pub(super) fn expression(&self) -> String {
        let star = if self.is_prefix { " *" } else { "" };
        let plain = format!("{}{star}", quoted(&self.text));
        let mut parts = all_parts(&self.text);
        if parts.is_empty() {
            // It may be a word within an identifier.
            return plain;
        }
        let ends_in_cjk = parts.last().is_some_and(|last| last.chars().all(is_cjk));
        // In a text more characters may follow the last one, which is then in a pair with the next.
        let is_in_pair = ends_in_cjk
            && matches!(parts.as_slice(), [.., pair, _] if pair.chars().count() == 2 && pair.chars().all(is_cjk));
        if is_in_pair {
            parts.pop();
        }
        let star = if self.is_prefix || ends_in_cjk && !is_in_pair { " *" } else { "" };
        format!("({plain} OR parts : {}{star})", quoted(&parts.join(" ")))
    }
}

/// A string of FTS5, whose words form a phrase. It ends at a NUL.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace(['"', '\0'], " "))
}

/// The expression of FTS5 for a query: all its terms. `None` if it has none.
pub(super) fn expression(terms: &[Term]) -> Option<String> {
    let all: Vec<String> = terms.iter().map(Term::expression).collect();
    (!all.is_empty()).then(|| all.join(" AND "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_words_of_identifiers_and_pairs_of_cjk_characters() {
        let cases = [
            ("plain words, and snake_case", ""),
            ("parseUserName", "parse User Name"),
            ("HTTPServer2", "HTTP Server 2"),
            ("中文搜索", "中文 文搜 搜索 索"),
            ("用rust写", "用 rust 写"),
            ("字", "字"),
            ("한국어 テスト", "한국 국어 어 テス スト ト"),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn query_has_words_phrases_and_prefixes() {
        let expression = |query: &str| expression(&terms(query)).unwrap_or_default();
        let cases = [
            ("fix the tests", r#""fix" AND "the" AND "tests""#),
            (r#"the "exact phrase" pre*"#, r#""the" AND "exact phrase" AND "pre" *"#),
            ("userName", r#"("userName" OR parts : "user Name")"#),
            ("搜索", r#"("搜索" OR parts : "搜索")"#),
            ("字", r#"("字" OR parts : "字" *)"#),
            ("rust写字", r#"("rust写字" OR parts : "rust 写字")"#),
            ("用rust写", r#"("用rust写" OR parts : "用 rust 写" *)"#),
            ("a::b_c", r#""a::b_c""#),
            ("* -- \"", ""),
            ("a\0b", r#""a b""#),
            (r#"unclosed "quote here"#, r#""unclosed" AND "quote here""#),
        ];
        for (query, expected) in cases {
            assert_eq!(expression(query), expected, "{query}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_parts_and_any_query_terms(text in ".*") {
            drop((parts(&text), expression(&terms(&text))));
        }
    }
}
