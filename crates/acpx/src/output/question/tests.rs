use super::*;

fn option(id: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": format!("The {id}"), "kind": kind })
}

fn question(tool: &Value, options: &[Value]) -> TerminalQuestion {
    let params = json!({ "sessionId": "r", "toolCall": tool, "options": options });
    TerminalQuestion::read(&params.to_string(), |_| None)
}

fn plain() -> Vec<Value> {
    vec![option("yes", "allow_once"), option("no", "reject_once")]
}

#[test]
fn permission_shows_an_edits_diff_and_a_commands_line() {
    let diff = json!({ "type": "diff", "path": "a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n" });
    let tool = json!({ "toolCallId": "t", "title": "Edit a.txt", "kind": "edit", "content": [diff] });
    let asked = question(&tool, &plain());
    let expected = "  --- a.txt
  +++ a.txt
  @@ -1,2 +1,2 @@
   one
  -two
  +2
";
    assert_eq!(asked.shown(), expected);
    assert_eq!(asked.prompt_line(), "Allow Edit a.txt [edit]? (y/N) ");
    // The diff names its file; an input that names another file is shown too.
    let mut named = tool.clone();
    named["rawInput"] = json!({ "path": "a.txt" });
    assert_eq!(question(&named, &plain()).shown(), expected);
    named["rawInput"] = json!({ "path": "b.txt" });
    assert!(question(&named, &plain()).shown().starts_with("  b.txt\n  --- a.txt\n"));
    let tool = json!({ "title": "Run it", "kind": "execute", "rawInput": { "command": "rm -rf x\nls" } });
    assert_eq!(question(&tool, &plain()).shown(), "  $ rm -rf x\n  ls\n");
    let tool = json!({ "title": "Look", "rawInput": { "depth": 3 } });
    assert_eq!(question(&tool, &plain()).shown(), "  {\"depth\":3}\n");
}

#[test]
fn permission_shows_members_of_earlier_tool_call_updates() {
    let known = |id: &str| {
        let told = json!({ "title": "Edit", "kind": "edit", "rawInput": { "path": "a.txt" } });
        let members = told.as_object().cloned().unwrap();
        (id == "t").then(|| ToolCallSnapshot { members, left_out: vec!["content"] })
    };
    let params =
        json!({ "toolCall": { "toolCallId": "t", "title": "Edit it", "kind": null }, "options": plain() });
    let asked = TerminalQuestion::read(&params.to_string(), known);
    let expected = "  a.txt\n  (too long to show: content)\n";
    assert_eq!(asked.shown(), expected);
    // Content in the request itself is not omitted.
    let params = json!({ "toolCall": { "toolCallId": "t", "content": [] }, "options": plain() });
    let asked = TerminalQuestion::read(&params.to_string(), known);
    assert_eq!(asked.shown(), "  a.txt\n");
}

#[test]
fn permission_title_cannot_control_the_terminal_or_forge_a_question() {
    let title = "Read\u{1b}[2J\u{9b}31m a\r\n[permission] Allow nothing? (y/N) y\u{202e}txt.exe";
    let asked = question(&json!({ "title": title, "kind": "ed\u{7}it\n" }), &plain());
    let subject = "Read[2J31m a  [permission] Allow nothing? (y/N) y\u{fffd}txt.exe [edit ]";
    assert_eq!(asked.shown(), "");
    assert_eq!(asked.prompt_line(), format!("Allow {subject}? (y/N) "));
    let asked =
        question(&json!({ "title": title, "kind": "ed\u{7}it\n", "rawInput": { "depth": 3 } }), &plain());
    assert_eq!(asked.shown(), "  {\"depth\":3}\n");
}

#[test]
fn permission_and_its_long_command_are_shown_once() {
    let command = "echo ".to_owned() + &"x".repeat(500);
    for title in [command.clone(), format!("`{command}`")] {
        let tool = json!({ "title": title, "kind": "execute", "rawInput": { "command": command } });
        let asked = question(&tool, &plain());
        assert_eq!(asked.shown(), format!("  $ {command}\n"));
        assert_eq!(asked.prompt_line(), "Allow this command? (y/N) ");
    }
    // A title that differs from the command has the usual length limit.
    let tool = json!({ "title": "y".repeat(500), "rawInput": { "command": command } });
    let expected = format!("Allow {}... (100 more characters)? (y/N) ", "y".repeat(400));
    assert_eq!(question(&tool, &plain()).prompt_line(), expected);
    assert_eq!(question(&json!({ "title": "Edit it" }), &plain()).shown(), "");
}

#[test]
fn numbers_are_asked_for_only_where_options_are_numbered() {
    let asked = question(&json!({ "title": "T" }), &plain());
    assert_eq!(asked.reply("sure"), TerminalPermissionReply::Again("type y or n"));
}

#[test]
fn too_long_permission_input_says_how_much_is_omitted() {
    let tool = json!({ "title": "x".repeat(500), "rawInput": { "command": "y".repeat(5000) } });
    let shown = question(&tool, &plain()).shown();
    assert!(shown.ends_with("y... (1000 more characters)\n"), "{shown}");
    let diff = |number: usize| json!({ "type": "diff", "path": number.to_string(), "newText": "" });
    let content: Vec<Value> = (0..12).map(diff).collect();
    assert!(question(&json!({ "content": content }), &plain()).shown().ends_with("  ... (4 more files)\n"));
}

#[test]
fn yes_and_no_select_the_narrowest_permission_option_numbers_any() {
    let options = [
        option("A", "allow_always"),
        option("a", "allow_once"),
        option("r", "reject_once"),
        option("x", "new"),
    ];
    let asked = question(&json!({ "title": "T" }), &options);
    assert_eq!(asked.shown(), "  1  The A\n  2  The a\n  3  The r\n  4  The x\n");
    assert_eq!(asked.prompt_line(), "Allow T? (y/N, or a number) ");
    let cases = [("y", "a"), (" YES ", "a"), ("", "r"), ("n", "r"), ("No", "r"), ("1", "A"), ("4", "x")];
    for (typed, chosen) in cases {
        assert_eq!(asked.reply(typed), TerminalPermissionReply::Answer(selected(chosen)), "{typed:?}");
    }
    for typed in ["0", "5", "perhaps", "-1", "yy"] {
        assert_eq!(
            asked.reply(typed),
            TerminalPermissionReply::Again("type y or n, or the number of an option"),
            "{typed:?}"
        );
    }
}

#[test]
fn permission_without_reject_option_is_cancelled_and_yes_is_refused() {
    let asked = question(&json!({ "title": "T" }), &[option("x", "new")]);
    assert_eq!(
        asked.reply("n"),
        TerminalPermissionReply::Answer(json!({ "outcome": { "outcome": "cancelled" } }))
    );
    assert!(matches!(asked.reply("y"), TerminalPermissionReply::Again(_)));
    assert_eq!(asked.reply("1"), TerminalPermissionReply::Answer(selected("x")));
}

#[test]
fn nothing_but_a_difference_that_is_shown_stands_for_the_input() {
    let input = json!({ "content": "evil", "path": "/w/x" });
    let whole = "  /w/x\n  {\"content\":\"evil\",\"path\":\"/w/x\"}\n";
    let block = json!({ "type": "content", "content": { "type": "text", "text": "diff" } });
    for item in [json!({ "type": "content", "path": "/w/x" }), block, json!({ "path": "/w/x" })] {
        let tool = json!({ "title": "T", "rawInput": input, "content": [item] });
        assert_eq!(question(&tool, &plain()).shown(), whole, "{item}");
    }
    // A diff of another file does not cover this one.
    let diff = |path: &str| json!({ "type": "diff", "path": path, "newText": "" });
    let tool = json!({ "title": "T", "rawInput": input, "content": [diff("/w/y")] });
    let shown = question(&tool, &plain()).shown();
    assert!(shown.starts_with(&format!("{whole}  ")), "{shown}");
    // Nor does a diff that is omitted.
    let content: Vec<Value> = (0..8).map(|_| diff("/w/y")).chain([diff("/w/x")]).collect();
    let shown = question(&json!({ "title": "T", "rawInput": input, "content": content }), &plain()).shown();
    assert!(shown.starts_with(whole) && shown.ends_with("  ... (1 more files)\n"), "{shown}");
    // An input without a path is shown.
    let tool = json!({ "title": "T", "rawInput": { "depth": 3 }, "content": [{ "type": "content", "text": "diff" }] });
    assert_eq!(question(&tool, &plain()).shown(), "  {\"depth\":3}\n");
}

#[test]
fn permission_input_omits_only_what_the_diff_shows() {
    let diff = |path: &str, old: Option<&str>, new: &str| json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
    let good = diff("/w/x", None, "good");
    let cases = [
        (json!({ "path": "/w/x", "content": "good" }), &good, ""),
        (json!({ "path": "/w/x", "content": "evil" }), &good, "  {\"content\":\"evil\"}\n"),
        (json!({ "path": "/w/x", "all": true }), &good, "  {\"all\":true}\n"),
        (
            json!({ "filepath": "/w/y", "all": true }),
            &good,
            "  /w/y\n  {\"filepath\":\"/w/y\",\"all\":true}\n",
        ),
        (json!("evil"), &good, "  \"evil\"\n"),
        (json!({ "depth": 3 }), &good, "  {\"depth\":3}\n"),
        (
            json!({ "file": "/w/x", "old_string": "bad", "new_string": "good" }),
            &diff("/w/x", Some("bad"), "good"),
            "",
        ),
        // A diff without changes shows nothing of the text.
        (
            json!({ "path": "/w/x", "content": "evil" }),
            &diff("/w/x", Some("evil"), "evil"),
            "  {\"content\":\"evil\"}\n",
        ),
    ];
    for (input, diff, expected) in cases {
        let tool = json!({ "title": "T", "rawInput": input, "content": [diff] });
        let shown = question(&tool, &plain()).shown();
        let before = shown.split("  --- ").next();
        assert_eq!(before, Some(expected), "{input}");
    }
    // The path and the text occur in different diffs, so the input is shown.
    let input = json!({ "path": "/w/x", "content": "evil" });
    let tool = json!({ "title": "T", "rawInput": input, "content": [good, diff("/w/y", None, "evil")] });
    assert!(question(&tool, &plain()).shown().starts_with("  {\"content\":\"evil\"}\n"));
}

#[test]
fn no_value_hides_the_variables_behind_it_and_no_secret_is_shown() {
    let with = |env: Value| {
        let tool = json!({ "title": "T", "rawInput": { "command": "ls", "env": env } });
        let shown = question(&tool, &plain()).shown();
        shown.strip_prefix("  $ ls\n").unwrap().to_owned()
    };
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let long = "x".repeat(400);
    let expected = format!("  with A={}... (320 more characters), LD_PRELOAD=/evil.so\n", &long[..80]);
    assert_eq!(with(json!([variable("A", &long), variable("LD_PRELOAD", "/evil.so")])), expected);
    assert_eq!(with(json!({ "A": long, "LD_PRELOAD": "/evil.so" })), expected);
    assert_eq!(
        with(json!([variable(&long, "")])),
        format!("  with {}... (320 more characters)=\n", &long[..80])
    );
    let secrets =
        json!([variable("MY_TOKEN", "s3cret"), variable("ACPX_AUTH_OAUTH", "s3cret"), "X_KEY=s3cret", "B=c"]);
    assert_eq!(with(secrets), "  with MY_TOKEN, ACPX_AUTH_OAUTH, X_KEY, B=c\n");
    assert_eq!(with(json!({ "ACPX_AUTH_OAUTH": "s3cret" })), "  with ACPX_AUTH_OAUTH\n");
    let many: Vec<Value> = (0..40).map(|number| variable(&format!("V{number}"), "")).collect();
    let shown = with(many.into());
    assert!(shown.starts_with("  with V0=, V1=, ") && shown.ends_with("V31= (and 8 more)\n"), "{shown}");
}

#[test]
fn permission_option_with_a_shared_id_cannot_be_chosen() {
    let both = [option("a", "allow_once"), option("a", "reject_once")];
    let asked = question(&json!({ "title": "T" }), &[&both[..], &[option("A", "allow_always")]].concat());
    assert_eq!(asked.reply("y"), TerminalPermissionReply::Answer(selected("A")));
    assert_eq!(asked.reply("3"), TerminalPermissionReply::Answer(selected("A")));
    let cancelled = TerminalPermissionReply::Answer(json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(asked.reply("n"), cancelled);
    let again = TerminalPermissionReply::Again("another option has the same id, so that it cannot be chosen");
    assert_eq!((asked.reply("1"), asked.reply("2")), (again.clone(), again));
    assert!(matches!(
        question(&json!({ "title": "T" }), &both).reply("y"),
        TerminalPermissionReply::Again(_)
    ));
}
