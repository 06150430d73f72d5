//! Lines with secrets at every position and in every spelling, and lines that must stay unchanged.

use std::fmt::Write;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A request or notification as it is stored when no secret is known yet.
fn stored_call(line: &str) -> String {
    learnt_from(&mut Secrets::default(), line)
}

fn learnt_from(secrets: &mut Secrets, line: &str) -> String {
    let read: Value = serde_json::from_str(line).unwrap();
    let params = line.find(r#""params":"#).map(|at| {
        let rest = &line[at + r#""params":"#.len()..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next().unwrap().unwrap();
        &rest[..values.byte_offset()]
    });
    let method = read["method"].as_str().unwrap_or_default();
    secrets.redact_call(line, method, params).unwrap_or_else(|| line.to_owned())
}

fn kept_json(secrets: &[&str], json: &str) -> String {
    Secrets::new(secrets).redact_json(json).unwrap_or_else(|| json.to_owned())
}

#[test]
fn secrets_in_request_lists_are_replaced_and_no_other_byte() {
    let setup = |env: &str, header: &str| {
        format!(
            r#"{{"id":1, "method":"session/load","params":{{"mcpServers":[{{"name":"a","env":[{{"name":"T","value":{env}}}]}}, {{"headers":[{{"value":{header},"name":"A"}}]}}],"n":1e3}}}}"#
        )
    };
    let given = setup(r#""s3cret \" }""#, r#""Bearer x-y-z""#);
    assert_eq!(stored_call(&given), setup(r#""[secret]""#, r#""[secret]""#));
    let create = |key: &str, unnamed: &str| {
        format!(
            r#"{{"id":1, "method":"terminal/create","params":{{"command":"c","env":[{{"name":"A_KEY","value":{key}}},{{"value":{unnamed}}},{{"value":"production","name":"NODE_ENV"}}],"x":1}},"y":2}}"#
        )
    };
    assert_eq!(
        stored_call(&create(r#""s3cret \" }""#, r#""s3cret too""#)),
        create(r#""[secret]""#, r#""[secret]""#)
    );
    assert_eq!(stored_call(&create("7", r#""x""#)), create(r#""[secret]""#, r#""[secret]""#));
}

#[test]
fn secret_of_a_request_is_redacted_in_later_lines() {
    let mut secrets = Secrets::default();
    let setup = r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"env":[{"name":"M","value":"of a server"}]}]}}"#;
    let create = r#"{"id":2,"method":"terminal/create","params":{"env":[{"name":"PWD","value":"/srv/project"},{"name":"DATABASE_URL","value":"pg://u:of-a-url@db"},{"name":"GH_TOKEN","value":"of a terminal"}]}}"#;
    learnt_from(&mut secrets, setup);
    let kept = learnt_from(&mut secrets, create);
    assert_eq!(kept, create.replace("of-a-url", "[secret]").replace("of a terminal", "[secret]"));
    let update = |server: &str, terminal: &str, url: &str| {
        format!(r#"{{"method":"m","params":{{"text":"{server}, {terminal}, {url} in /srv/project"}}}}"#)
    };
    let said = learnt_from(&mut secrets, &update("of a server", "of a terminal", "of-a-url"));
    // A directory is not a secret, even though a terminal received it.
    assert_eq!(said, update("[secret]", "[secret]", "[secret]"));
}

#[test]
fn of_values_that_keep_coming_the_last_ones_are_known() {
    let mut secrets = Secrets::default();
    for number in 0..=MOST_LEARNED {
        secrets.learn(&format!("token-{number:04}"));
        secrets.learn(&format!("token-{number:04}"));
    }
    let text = format!(r#"["token-0000","token-0001","token-{MOST_LEARNED:04}"]"#);
    assert_eq!(secrets.redact_json(&text).unwrap(), r#"["token-0000","[secret]","[secret]"]"#);
}

#[test]
fn a_request_without_secrets_is_kept_byte_for_byte() {
    for line in [
        r#"{"id":1,"method":"terminal/create","params":{"command":"c"}}"#,
        r#"{"id":1,"method":"terminal/create","params":{"command":"c","env":null}}"#,
        r#"{"method":"session/update","params":{"env":[{"name":"A","value":"not ours to judge"}]}}"#,
        r#"{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
        r#"{"id":1,"method":"session/new","params":{"mcpServers":[{"name":"a","env":null}]}}"#,
        r#"{"id":1,"method":"session/resume"}"#,
        r#"{"id":1,"method":"session/prompt","params":{"mcpServers":"is only a word here"}}"#,
    ] {
        assert_eq!(stored_call(line), line);
    }
}

#[test]
fn a_line_whose_secrets_cannot_be_found_is_not_kept() {
    for (method, params) in [
        ("terminal/create", r#"{"env":{"A":"s3cret"}}"#),
        ("terminal/create", r#"{"env":[{"value":"s3cret","value":"s3cret"}]}"#),
        ("terminal/create", r#"{"env":[],"env":[{"name":"A_KEY","value":"s3cret"}]}"#),
        ("terminal/create", r#"{"env":[],"env":[{"name":"A_KEY","valu\u0065":"s3cret"}]}"#),
        ("session/new", r#"{"mcpServers":{"a":{"env":{"T":"s3cret"}}}}"#),
        ("session/new", r#"{"mcpServers":[{"env":{"T":"s3cret"}}]}"#),
        ("session/new", r#"{"mcpServers":[{"env":[],"env":[{"value":"s3cret"}]}]}"#),
        ("session/new", r#"{"mcpServers":[{"env":["T=s3cret"]}]}"#),
        ("session/new", r#"["s3cret"]"#),
    ] {
        let line = format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
        assert_eq!(stored_call(&line), NOT_KEPT, "{line}");
    }
    // Names are compared unescaped.
    let escaped =
        r#"{"method":"terminal/create","params":{"\u0065nv":[{"name":"A_KEY","valu\u0065":"s3cret"}]}}"#;
    assert_eq!(stored_call(escaped), escaped.replace("s3cret", "[secret]"));
}

#[test]
fn a_known_value_is_found_however_it_is_written() {
    let secret = "päss/w<o>rd \"+\" 𝄞=ok";
    let spellings = [
        r#"päss/w<o>rd \"+\" 𝄞=ok"#,
        r"p\u00e4ss\/w\u003co\u003Erd \u0022\u002b\u0022 \ud834\udd1e\u003dok",
        // A text that quotes a line.
        r#"päss/w<o>rd \\\"+\\\" 𝄞=ok"#,
    ];
    for spelling in spellings {
        let text = |inside: &str| format!(r#"{{"a":["x\/{inside}\n\ud800", 1.0e3]}}"#);
        assert_eq!(kept_json(&[secret], &text(spelling)), text("[secret]"), "{spelling}");
    }
    let other = r#"{"a":"p\u00e4ss\/w\u003co\u003Erd \u0022\u002b\u0022 \ud834\udd1f\u003dok"}"#;
    assert_eq!(kept_json(&[secret], other), other);
}

#[test]
fn a_value_that_begins_or_ends_with_a_quote_leaves_json() {
    for secret in ["\"begins-it", "ends-it\"", "\"both-ends\"", "ends-in-slash\\", "\"\"\"\"\"\"\"\""] {
        let text = |inside: &str| format!(r#"{{"data":"{inside}","more":["x {inside} {inside}"]}}"#);
        let quoted = Value::from(secret).to_string();
        let line = text(&quoted[1..quoted.len() - 1]);
        assert_eq!(kept_json(&[secret], &line), text("[secret]"), "{secret}");
    }
}

#[test]
fn of_values_that_overlap_no_part_is_left() {
    let cases: [(&[&str], &str, &str); 5] = [
        (&["secret-a", "secret-a-longer"], "secret-a-longer!", "[secret]!"),
        (&["secret-a-longer", "secret-a"], "secret-a secret-a-longer", "[secret] [secret]"),
        (&["abcdefgh", "efghijkl"], "abcdefghijkl", "[secret]"),
        (&["abcabcab"], "<abcabcabcabcabcab>", "<[secret]>"),
        (&["abcdabcd"], "abcdabcdabcdabcd abcdabc", "[secret] abcdabc"),
    ];
    for (secrets, text, kept) in cases {
        assert_eq!(kept_json(secrets, &format!(r#"["{text}"]"#)), format!(r#"["{kept}"]"#), "{text}");
        assert_eq!(Secrets::new(secrets).redact_text(text), kept, "{text}");
    }
}

#[test]
fn secret_equal_to_a_protocol_word_is_replaced_only_in_text() {
    let line = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"session-7","method":"session/update","params":{{"sessionId":"session-1","update":{{"sessionUpdate":"tool_call_update","toolCallId":"content","content":[{{"type":"content","content" : {{"type":"text","text":"{text}"}}}}],"status":"completed"}}}}}}"#
        )
    };
    let secrets = ["session-1", "tool_call_update", "completed", "2.0.session"];
    assert_eq!(kept_json(&secrets, &line("a session-1 is completed")), line("a [secret] is [secret]"));
    // A value that does not look like a word of the protocol is redacted, and `params` contains no envelope members.
    let odd = |inside: &str| {
        format!(r#"{{"result":{{"stopReason":"{inside}","id":"{inside}","method":["{inside}"]}}}}"#)
    };
    assert_eq!(kept_json(&["s3cret-value"], &odd("s3cret-value")), odd("[secret]"));
}

#[test]
fn only_offered_option_names_are_exempt_from_redaction() {
    let secrets = ["claude-opus-4-5", "ask-always"];
    let answer = |said: &str, value: &str| {
        format!(
            r#"{{"id":1,"result":{{"sessionId":"s","modes":{{"currentModeId":"ask","availableModes":[{{"id":"ask","name":"ask","description":"{said}"}}]}},"models":{{"currentModelId":"claude-opus-4-5","availableModels":[{{"modelId":"claude-opus-4-5","name":"claude-opus-4-5"}}]}},"configOptions":[{{"id":"ask","category":"ask","currentValue":"claude-opus-4-5","options":[{{"group":"ask","name":"ask","options":[{{"value":"claude-opus-4-5","name":"claude-opus-4-5"}}]}}]}}],"_meta":{{"id":"{said}","env":[{{"name":"MODEL","value":"{value}"}}]}}}}}}"#
        )
    };
    let kept = kept_json(&secrets, &answer("of claude-opus-4-5", "ask-always"));
    assert_eq!(kept, answer("of [secret]", "[secret]"));
    let update = |said: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"update":{{"availableCommands":[{{"name":"claude-opus-4-5","description":"{said}"}}],"currentModeId":"claude-opus-4-5","name":"{said}"}}}}}}"#
        )
    };
    assert_eq!(kept_json(&secrets, &update("claude-opus-4-5")), update("[secret]"));
    // At other places, members with such names are not offers.
    let elsewhere = |value: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"update":{{"rawOutput":{{"models":[{{"value":"{value}"}}]}},"configOptions":[{{"id":"ask","_meta":{{"value":"{value}"}}}}]}},"_meta":{{"models":[{{"value":"{value}"}}]}}}}}}"#
        )
    };
    assert_eq!(kept_json(&secrets, &elsewhere("claude-opus-4-5")), elsewhere("[secret]"));
    let set = r#"{"method":"session/set_mode","params":{"modeId":"claude-opus-4-5"}}"#;
    assert_eq!(kept_json(&secrets, set), set);
}

#[test]
fn secret_values_under_eight_characters_are_never_redacted() {
    let line = |value: &str| {
        format!(r#"{{"id":1,"error":{{"message":"{value}","data":["{value}","is {value}"]}}}}"#)
    };
    // Eight characters, not bytes.
    for (value, is_redacted) in [("", false), ("abcdefg", false), ("äöüäöüä", false), ("abcdefgh", true)]
    {
        let kept = if is_redacted { line("[secret]") } else { line(value) };
        assert_eq!(kept_json(&[value], &line(value)), kept, "{value}");
        let words = if is_redacted { "[secret]" } else { value };
        assert_eq!(Secrets::new([value]).redact_text(value), words);
    }
    // The placeholder would be replaced by itself.
    assert_eq!(Secrets::new(["[secret]"]).redact_json(&line("[secret]")), None);
}

#[test]
fn environment_values_are_redacted_by_name_and_url_passwords_in_any_variable() {
    let variables = [
        ("API_KEY", "k3y-of-api"),
        ("MARKED", "m4rked-value"),
        ("NODE_ENV", "production"),
        ("HTTPS_PROXY", "http://me:pr0xy-word@proxy:3128"),
        ("DATABASE_URL", "postgres://postgres:postgres@db/app"),
    ];
    let secrets = Secrets::default().with_variables(
        variables.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))),
        |name| name == "API_KEY" || name == "MARKED",
    );
    let said = variables.map(|(name, value)| format!("{name}={value}")).join(" ");
    let kept = said.replace("k3y-of-api", "[secret]").replace("m4rked-value", "[secret]");
    assert_eq!(secrets.redact_text(&said), kept.replace("pr0xy-word", "[secret]"));
}

#[test]
fn debug_output_contains_no_secret() {
    assert_eq!(format!("{:?}", Secrets::new(["s3cret-value"])), "Secrets { .. }");
}

/// A string written with any escapes that JSON allows.
fn written(text: &str, escapes: &[bool]) -> String {
    let mut out = String::new();
    for (index, character) in text.chars().enumerate() {
        // The anchor's characters are never escaped.
        let may_be_plain = character as u32 >= 0x20 && !matches!(character, '"' | '\\');
        let is_anchor = anchor(&character.to_string()).len() == 1;
        if is_anchor || (may_be_plain && !escapes[index % escapes.len()]) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn any_json_loses_the_secret_and_nothing_else(
        before in any::<String>(),
        secret in "[a-z\"\\\\/é𝄞<]{8,14}",
        after in any::<String>(),
        escapes in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let whole = format!("{before}{secret}{after}");
        let line = format!(r#"{{"a" :["{}"]}}"#, written(&whole, &escapes));
        let kept: Value = serde_json::from_str(&kept_json(&[&secret], &line)).unwrap();
        let words = Secrets::new([&secret]).redact_text(&whole).into_owned();
        prop_assert_eq!(&kept["a"][0], &words);
        prop_assert!(!words.contains(&secret));
    }

    #[test]
    fn any_text_is_taken_and_nothing_panics(text in any::<String>(), secret in any::<String>()) {
        let secrets = Secrets::new([&secret]);
        let kept = secrets.redact_json(&text);
        if serde_json::from_str::<IgnoredAny>(&text).is_ok() {
            prop_assert!(kept.is_none_or(|kept| serde_json::from_str::<IgnoredAny>(&kept).is_ok()));
        }
    }
}

#[test]
fn possible_beginning_of_a_secret_waits_for_the_rest() {
    let secrets = Secrets::new(["hunter2secret", "zwei\nlines of it"]);
    let taken = |text: &str| text.get(..secrets.settled(text)).unwrap().to_owned();
    assert_eq!(taken("password: hunter2"), "password: ");
    assert_eq!(taken("password: hunter3"), "password: hunter3");
    assert_eq!(taken("password: hunter2secret"), "password: hunter2secret");
    assert_eq!(taken("a\nzwei\n"), "a\n");
    assert_eq!(taken("a\nzwei\nothers"), "a\nzwei\nothers");
    // A complete match is not split for another that may begin within it.
    let twice = Secrets::new(["abcdabcd"]);
    assert_eq!(twice.settled("xabcdabcd"), 1);
    assert_eq!([secrets.torn("r2secret, and more"), secrets.torn("hunter"), secrets.torn("")], [8, 0, 0]);
}

proptest! {
    #[test]
    fn a_secret_that_comes_in_pieces_is_never_kept(
        before in "[a-c]{0,6}", after in "[a-c]{0,6}", cuts in prop::collection::vec(0..24_usize, 0..6),
    ) {
        let secret = "abacabab";
        let secrets = Secrets::new([secret]);
        let text = format!("{before}{secret}{after}");
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let (mut held, mut kept) = (String::new(), String::new());
        for piece in cuts.windows(2) {
            held.push_str(&text[piece[0]..piece[1]]);
            let rest = held.split_off(secrets.settled(&held));
            kept.push_str(&secrets.redact_text(&std::mem::replace(&mut held, rest)));
        }
        kept.push_str(&secrets.redact_text(&held));
        prop_assert!(kept.contains("[secret]"), "{kept}");
        prop_assert!(!kept.replace("[secret]", "|").contains(secret), "{kept}");
    }
}
