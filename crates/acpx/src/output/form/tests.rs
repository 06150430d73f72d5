use super::*;

fn form_of(properties: &Value, required: &[&str]) -> TerminalForm {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let params =
        json!({ "mode": "form", "sessionId": "s", "message": "Who are you?", "requestedSchema": schema });
    TerminalForm::read(&params.to_string())
}

/// The answer to one field, after these lines.
fn answered(property: &Value, lines: &[&str]) -> Vec<FormReply> {
    let mut form = form_of(&json!({ "f": property }), &["f"]);
    lines.iter().map(|line| form.reply(line)).collect()
}

fn accepted(content: &Value) -> FormReply {
    FormReply::Answer(json!({ "action": "accept", "content": content }))
}

fn again(words: &str) -> FormReply {
    FormReply::Again(words.to_owned())
}

#[test]
fn form_is_filled_field_by_field_without_skipped_fields() {
    let properties = json!({
        "age": { "type": "integer", "title": "Your age", "minimum": 1, "maximum": 150 },
        "colour": { "type": "string", "oneOf": [{ "const": "r", "title": "Red" }, { "const": "b", "title": "Blue" }] },
        "name": { "type": "string", "description": "As on the card", "default": "Ann" },
        "token": { "type": "string" },
    });
    let mut form = form_of(&properties, &["age"]);
    assert_eq!(form.shown(), "Who are you?\n");
    assert_eq!(form.prompt_line(), "Your age (whole number, from 1 to 150, required, - to decline): ");
    assert_eq!(form.reply(""), again("Your age is required"));
    assert_eq!(form.reply("0"), again("type from 1 to 150"));
    assert_eq!(form.reply(" 40 "), FormReply::Next);
    assert_eq!(
        form.prompt_line(),
        "  1  Red\n  2  Blue\ncolour (a number of the list, empty to skip, - to decline): "
    );
    assert_eq!((form.reply("3"), form.reply("2")), (again("type a number from 1 to 2"), FormReply::Next));
    assert_eq!(
        form.prompt_line(),
        "  As on the card\nname (text, empty for Ann, - to decline, \\- for a hyphen): "
    );
    assert!(!form.is_secret());
    assert_eq!(form.reply(""), FormReply::Next);
    assert!(form.is_secret(), "what a token is, nobody else reads");
    let asks = "token (text, not shown as it is typed, empty to skip, - to decline, \\- for a hyphen): ";
    assert_eq!(form.prompt_line(), asks);
    assert_eq!(form.reply(""), accepted(&json!({ "age": 40, "colour": "b", "name": "Ann" })));
}

#[test]
fn form_field_accepts_only_values_of_its_type() {
    let one = |value: Value| accepted(&json!({ "f": value }));
    let rows = [
        (json!({ "type": "boolean" }), vec![("perhaps", again("type y or n")), ("Y", one(json!(true)))]),
        (json!({ "type": "number" }), vec![("NaN", again("type a number")), ("2.5", one(json!(2.5)))]),
        (json!({ "type": "integer" }), vec![("2.5", again("type a whole number")), ("-3", one(json!(-3)))]),
        (
            json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
            vec![("x", again("type from 2 to 3 characters")), ("xéy", one(json!("xéy")))],
        ),
        (json!({ "type": "string" }), vec![("\\-", one(json!("-")))]),
        (
            json!({ "type": "string", "format": "email" }),
            vec![("me", again("that is no email")), ("me@here", one(json!("me@here")))],
        ),
        (
            json!({ "type": "string", "format": "date" }),
            vec![("2026-13-01", again("that is no date")), ("2026-11-16", one(json!("2026-11-16")))],
        ),
        (
            json!({ "type": "string", "pattern": "^[0-9]+$" }),
            vec![("abc", again("type what matches ^[0-9]+$")), ("123", one(json!("123")))],
        ),
        (
            json!({ "type": "array", "minItems": 2, "items": { "enum": ["x y", "z"] } }),
            vec![
                ("1,1", again("choose 2 or more")),
                ("x y", again("choose 2 or more")),
                ("z, x y", one(json!(["z", "x y"]))),
            ],
        ),
        (
            json!({ "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["a", "b", "c"] } }),
            vec![("d", again("type a number from 1 to 3")), ("1, c", one(json!(["a", "c"])))],
        ),
    ];
    for (property, lines) in rows {
        let (typed, expected): (Vec<&str>, Vec<FormReply>) = lines.into_iter().unzip();
        assert_eq!(answered(&property, &typed), expected, "{property}");
    }
}

#[test]
fn form_field_shows_its_rules_and_an_unchecked_pattern() {
    let asks = |property: Value| form_of(&json!({ "f": property }), &["f"]).prompt_line();
    let asked = |words: &str, more: &str| format!("f ({words}, required, - to decline{more}): ");
    let hyphen = ", \\- for a hyphen";
    assert_eq!(
        asks(json!({ "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$" })),
        asked("text, from 2 to 3 characters, matching ^[a-z]+$", hyphen)
    );
    assert_eq!(asks(json!({ "type": "number", "maximum": 2.5 })), asked("number, 2.5 or less", ""));
    let many = json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": { "enum": ["a"] } });
    let words = asked("numbers of the list, from 1 to 2 of them", "");
    assert_eq!(asks(many), format!("  1  a\n{words}"));
    // Lookahead takes unbounded time, and nested repetitions take too much memory.
    for pattern in ["^(?=a).*$", "(a{1000}){1000}", "["] {
        let property = json!({ "type": "string", "pattern": pattern });
        let words = format!("text, matching {pattern}, which is not checked here");
        assert_eq!(asks(property.clone()), asked(&words, hyphen));
        assert_eq!(answered(&property, &["x"]), [accepted(&json!({ "f": "x" }))]);
    }
}

#[test]
fn integer_field_allows_fractional_bounds_and_default() {
    let asks = |property: Value| form_of(&json!({ "f": property }), &["f"]).prompt_line();
    let bounded = |least: Value, most: Value| json!({ "type": "integer", "minimum": least, "maximum": most });
    for (least, most, words) in [
        (json!(1.5), json!(3.5), "from 2 to 3"),
        (json!(-1.5), json!(1.0), "from -1 to 1"),
        (json!(0), json!(1e300), "from 0 to 9223372036854775807"),
        (json!(0), json!(u64::MAX), "from 0 to 9223372036854775807"),
    ] {
        let asked = format!("f (whole number, {words}, required, - to decline): ");
        assert_eq!(asks(bounded(least, most)), asked);
    }
    assert_eq!(
        answered(&bounded(json!(1.5), json!(3.5)), &["1", "4", "2"]),
        [again("type from 2 to 3"), again("type from 2 to 3"), accepted(&json!({ "f": 2 }))]
    );
    let default = |value: f64| json!({ "type": "integer", "maximum": 3, "default": value });
    assert_eq!(answered(&default(2.0), &[""]), [accepted(&json!({ "f": 2.0 }))]);
    for wrong in [2.5, 4.0] {
        assert_eq!(answered(&default(wrong), &[""]), [again("f is required")]);
    }
}

#[test]
fn invalid_form_default_is_reported_and_never_sent() {
    for (property, default) in [
        (json!({ "type": "string", "enum": ["a", "b"], "default": "zzz" }), "zzz"),
        (json!({ "type": "integer", "minimum": 10, "default": 1 }), "1"),
        (json!({ "type": "integer", "default": "x" }), "x"),
        (json!({ "type": "boolean", "default": "yes" }), "yes"),
        (json!({ "type": "string", "pattern": "^[0-9]+$", "default": "abc" }), "abc"),
        (json!({ "type": "array", "items": { "enum": ["a"] }, "default": ["q"] }), "[\"q\"]"),
    ] {
        let form = form_of(&json!({ "f": property }), &["f"]);
        let said = format!("  the default {default} does not fit and is left out\n");
        assert!(form.prompt_line().contains(&said), "{}", form.prompt_line());
        assert_eq!(answered(&property, &[""]), [again("f is required")], "{property}");
        let mut optional = form_of(&json!({ "f": property }), &[]);
        assert_eq!(optional.reply(""), accepted(&json!({})), "{property}");
    }
}

#[test]
fn of_a_long_list_the_rest_is_counted_and_can_be_typed() {
    let values: Vec<String> = (1..=300).map(|number| format!("v{number}")).collect();
    let property = json!({ "type": "string", "enum": values });
    let asks = form_of(&json!({ "f": property }), &["f"]).prompt_line();
    let end = "\n  64  v64\n  and 236 more, which can be typed in full\nf (a number of the list, required, - to decline): ";
    assert!(asks.ends_with(end), "{asks}");
    assert_eq!(
        answered(&property, &["65", "v300"]),
        [again("type a number from 1 to 64"), accepted(&json!({ "f": "v300" }))]
    );
}

#[test]
fn a_hyphen_declines_and_so_does_a_form_that_cannot_be_typed() {
    let declined = FormReply::Answer(json!({ "action": "decline" }));
    assert_eq!(answered(&json!({ "type": "string" }), &["-"]), std::slice::from_ref(&declined));
    let mut form = form_of(&json!({ "f": { "type": "object" } }), &["f"]);
    assert!(form.is_unaskable());
    assert_eq!(
        (form.shown().as_str(), form.reply("")),
        ("Who are you?\n  declined: the form needs something that cannot be typed\n", declined)
    );
    let optional = form_of(&json!({ "f": { "type": "object" }, "g": { "type": "boolean" } }), &["g"]);
    assert_eq!(
        (optional.shown().as_str(), optional.prompt_line().as_str()),
        ("Who are you?\n  left out, since it cannot be typed: f\n", "g (y/n, required, - to decline): ")
    );
    for (properties, required) in [
        (json!({ "f": { "type": "object" }, "g": {} }), [].as_slice()),
        (json!({ "f": { "type": "string" } }), &["f", "nowhere"]),
        (json!({ "f": { "type": "string", "enum": [] } }), &["f"]),
    ] {
        assert!(form_of(&properties, required).is_unaskable(), "{properties}");
    }
    for schema in [Value::Null, json!("a string")] {
        let params = json!({ "message": "Who are you?", "requestedSchema": schema });
        assert!(TerminalForm::read(&params.to_string()).is_unaskable(), "{schema}");
    }
    let mut empty = form_of(&json!({}), &[]);
    assert_eq!(empty.prompt_line(), "Agree? (y/N) ");
    assert_eq!(empty.reply("y"), accepted(&json!({})));
}

#[test]
fn only_addresses_of_the_web_are_shown_and_opened_by_hand() {
    let read = |url: &str| {
        let params = json!({ "mode": "url", "elicitationId": "e", "url": url, "message": "Log\u{1b}[2J in" });
        TerminalForm::read(&params.to_string())
    };
    let mut form = read("https://example.com/login?x=1");
    assert!(form.shown().ends_with("  https://example.com/login?x=1\n"), "{}", form.shown());
    assert!(!form.shown().contains('\u{1b}'), "{:?}", form.shown());
    assert_eq!(form.prompt_line(), "Open it in a browser and type y when done (y/N) ");
    assert_eq!(form.reply("y"), FormReply::Answer(json!({ "action": "accept" })));
    assert_eq!(read("https://a.b").reply(""), FormReply::Answer(json!({ "action": "decline" })));
    assert!(!read("https://a.b/@c?d=e@f").is_unaskable());
    for bad in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https://a\u{202e}b",
        "https://a b",
        "",
        "https://good.example@evil.example/x",
        "https:///good.example@evil.example",
        "https:////good.example@evil.example",
        "https://\\\\good.example@evil.example",
        "https://?good.example",
    ] {
        assert!(read(bad).is_unaskable(), "{bad}");
    }
}
