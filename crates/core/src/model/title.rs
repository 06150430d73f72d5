//! What stands for the title of a conversation that nobody has given one.

/// How many characters of what was said first stand for a title.
const TITLE_CHARS: usize = 100;

/// The first line of a text that has words, cut to a title's length; `None` if none has.
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
