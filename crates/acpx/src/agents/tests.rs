use super::*;

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_line_is_split_as_a_shell_would_without_expanding_anything() {
    let cases: &[(&str, &[&str])] = &[
        ("a", &["a"]),
        ("  a\tb\n c ", &["a", "b", "c"]),
        ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
        (r#"a b\ c "d\"e\\f\n" '\g'"#, &["a", "b c", r#"d"e\f\n"#, r"\g"]),
        ("a '' \"\"", &["a", "", ""]),
        ("a'b'\"c\"d", &["abcd"]),
        ("a $HOME *", &["a", "$HOME", "*"]),
        (r"a \", &["a", r"\"]),
    ];
    for (line, words) in cases {
        assert_eq!(split_line(line), Ok(argv(words)), "{line:?}");
    }
    for line in ["a 'b", "a \"b", r#"a "b\"#] {
        assert_eq!(split_line(line), Err(CommandLineProblem::UnterminatedQuote), "{line:?}");
    }
    for line in ["", "  ", "''", "\"\" a"] {
        assert_eq!(split_line(line), Err(CommandLineProblem::Empty), "{line:?}");
    }
}

#[test]
fn a_quoted_word_is_one_word_again() {
    for word in ["plain", "", "two words", "it's", "a\"b", r"back\slash", "$x"] {
        let line = format!("program {}", quote(word));
        assert_eq!(split_line(&line), Ok(argv(&["program", word])), "{line}");
    }
    assert_eq!(quote("@scope/a-b_c@^1.2.3"), "@scope/a-b_c@^1.2.3");
}

#[test]
fn built_in_agent_names_are_canonical_and_unique() {
    let names: Vec<&str> = built_in_names().collect();
    let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!((names.len(), once.len()), (27, 27));
    for name in names {
        assert_eq!(canonical(name), name);
    }
}

#[test]
fn a_command_of_any_version_is_known_by_its_name() {
    let known: &[(&[&str], &str)] = &[
        (&["npx", "-y", "@agentclientprotocol/codex-acp@^1.1.5"], "codex"),
        (&["npx", "@zed-industries/codex-acp@0.9.0"], "codex"),
        (&["npx", "-y", "@zed-industries/claude-agent-acp"], "claude"),
        (&["npx", "-y", "@zed-industries/claude-code-acp@^0.1.0"], "claude"),
        (&["/usr/bin/node", "/x/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"], "claude"),
        (
            &[
                "node",
                "/n/npm-cli.js",
                "exec",
                "--yes",
                "--package=@agentclientprotocol/codex-acp@^1",
                "--",
                "codex-acp",
            ],
            "codex",
        ),
        (&["npx", "-y", "mux@^0.20.0", "acp"], "mux"),
        (&["npx", "pi-acp"], "pi"),
        (&["gemini", "--experimental-acp"], "gemini"),
        (&["droid", "exec", "--output-format", "acp"], "droid"),
    ];
    for (words, name) in known {
        assert_eq!(name_of(&argv(words)).as_deref(), Some(*name), "{words:?}");
    }
    let unknown: &[&[&str]] =
        &[&[], &["gemini"], &["my-agent", "mux"], &["npx", "muxer"], &["npx", "@zed-industries/codex-acp-x"]];
    for words in unknown {
        assert_eq!(name_of(&argv(words)), None, "{words:?}");
    }
}
