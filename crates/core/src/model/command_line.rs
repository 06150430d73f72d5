//! Splits a command line into words: quotes and backslashes only, without expansion.

/// A quote was opened and not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnterminatedQuote;

/// Splits a command line. Single quotes keep everything; in double quotes a backslash escapes `"` and `\` only; outside
/// quotes it escapes the next character. The words of an unnamed agent are its key, so this rule must not change.
pub fn split_command_line(line: &str) -> Result<Vec<String>, UnterminatedQuote> {
    let mut words = Vec::new();
    // A word may be empty: `''`.
    let mut word: Option<String> = None;
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\'' => word.get_or_insert_default().push_str(&single_quoted(&mut signs)?),
            '"' => word.get_or_insert_default().push_str(&double_quoted(&mut signs)?),
            // A backslash at the very end is literal.
            '\\' => word.get_or_insert_default().push(signs.next().unwrap_or('\\')),
            sign if sign.is_whitespace() => words.extend(word.take()),
            sign => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(signs: &mut std::str::Chars<'_>) -> Result<String, UnterminatedQuote> {
    let mut text = String::new();
    loop {
        match signs.next().ok_or(UnterminatedQuote)? {
            '\'' => return Ok(text),
            sign => text.push(sign),
        }
    }
}

fn double_quoted(signs: &mut std::str::Chars<'_>) -> Result<String, UnterminatedQuote> {
    let mut text = String::new();
    loop {
        match signs.next().ok_or(UnterminatedQuote)? {
            '"' => return Ok(text),
            '\\' => match signs.next().ok_or(UnterminatedQuote)? {
                sign @ ('"' | '\\') => text.push(sign),
                sign => text.extend(['\\', sign]),
            },
            sign => text.push(sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn command_line_is_split_at_spaces_with_quotes_and_backslashes() {
        let table: [(&str, Result<Vec<&str>, UnterminatedQuote>); 10] = [
            ("npx -y pi-acp@^0.0.33", Ok(vec!["npx", "-y", "pi-acp@^0.0.33"])),
            ("  a\t b \n", Ok(vec!["a", "b"])),
            (r#"python3 "my agent.py" 'it is'"#, Ok(vec!["python3", "my agent.py", "it is"])),
            (r#"a\ b "c\"d\n" '\'"#, Ok(vec!["a b", r#"c"d\n"#, r"\"])),
            (r#"sh -c "x \$Y \`\\""#, Ok(vec!["sh", "-c", r"x \$Y \`\"])),
            (r#"x'y'"z" ''"#, Ok(vec!["xyz", ""])),
            (r"end\", Ok(vec![r"end\"])),
            ("", Ok(vec![])),
            (r#"a "b"#, Err(UnterminatedQuote)),
            ("a 'b", Err(UnterminatedQuote)),
        ];
        for (line, words) in table {
            let words = words.map(|words| words.into_iter().map(String::from).collect());
            assert_eq!(split_command_line(line), words, "{line}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_survive_splitting(words in prop::collection::vec("[^']{0,20}", 0..6)) {
            let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split_command_line(&line), Ok(words));
        }

        #[test]
        fn splitting_any_line_does_not_panic(line in any::<String>()) {
            drop(split_command_line(&line));
        }
    }
}
