//! Derives a title for a conversation without one.

/// The maximum length of a derived title in characters.
const TITLE_CHARS: usize = 100;

/// The first non-blank line of a text, cut to a title's length; `None` if there is none.
pub fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    match line.char_indices().nth(TITLE_CHARS) {
        None => Some(line.to_owned()),
        Some((end, _)) => Some(format!("{}…", &line[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_with_words_and_bounded() {
        assert_eq!(title_of("\n  fix the tests \nand more"), Some("fix the tests".to_owned()));
        assert_eq!(title_of(" \n\t"), None);
        let long = "é".repeat(TITLE_CHARS + 1);
        assert_eq!(title_of(&long), Some(format!("{}…", "é".repeat(TITLE_CHARS))));
        assert_eq!(title_of(&"é".repeat(TITLE_CHARS)), Some("é".repeat(TITLE_CHARS)));
    }
}
