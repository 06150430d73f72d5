use acpx_core::model::{AcpSessionId, RecordId};
use acpx_core::protocol::OptionMeta;
use serde_json::{Value, json};

use super::*;
use crate::output::OutputMode;
use crate::output::tests::samples::{at, formats};

fn question(tool: &Value) -> PendingRequestMeta {
    let option = |id: &str, name: Option<&str>, kind: Option<&str>| OptionMeta {
        option_id: id.to_owned(),
        name: name.map(str::to_owned),
        kind: kind.map(str::to_owned),
    };
    PendingRequestMeta {
        question_id: "3f9c1a7be052".to_owned(),
        ids: SessionIdentity {
            record: RecordId::new("r1").unwrap(),
            session: AcpSessionId::new("s1").unwrap(),
            agent_session: None,
        },
        name: Some("work".to_owned()),
        agent: "claude".to_owned(),
        cwd: "/w".to_owned(),
        title: Some("Edit\nit".to_owned()),
        kind: "edit".to_owned(),
        tool_call: tool.as_object().cloned(),
        left_out: Vec::new(),
        elicitation: None,
        options: vec![option("o1", Some("Allow\nonce"), Some("allow_once")), option("o2", None, None)],
        since: "2026-11-16T12:21:00.000Z".to_owned(),
        asked: Vec::new(),
    }
}

#[test]
fn pending_request_is_listed_with_its_details_and_options() {
    let diff = json!({ "type": "diff", "path": "/w/x", "oldText": "a\n", "newText": "b\n" });
    let tool =
        json!({ "toolCallId": "t", "rawInput": { "command": "rm -rf /\u{1b}[2J" }, "content": [diff] });
    let asked = question(&tool);
    let [text, quiet, json] =
        formats(|console| pending(std::slice::from_ref(&asked), at(0), console).unwrap());
    let expected = "\
3f9c1a7be052\tEdit it [edit]
  $ rm -rf /[2J
  --- /w/x
  +++ /w/x
  @@ -1,1 +1,1 @@
  -a
  +b
  session: claude work (r1)
  cwd: /w
  since: 2026-11-16T12:21:00.000Z
  asked: no client is connected
  options:
    1  o1  Allow once [allow_once]
    2  o2
  answer: acpx approve 3f9c1a7be052; or acpx deny 3f9c1a7be052
";
    assert_eq!((text.as_str(), quiet.as_str()), (expected, "3f9c1a7be052\n"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let told = &json["questions"][0];
    assert_eq!((&told["toolCall"], &told["cwd"]), (&tool, &json!("/w")));
}

/// The requests as `pending` lists them on a terminal, two minutes after they were sent.
fn on_terminal(requests: &[PendingRequestMeta]) -> String {
    let now = Timestamp::parse("2026-11-16T12:23:10.000Z").unwrap();
    let mut out = Vec::new();
    let mut console =
        Console::over(OutputMode { is_terminal: true, ..OutputMode::default() }, &mut out, io::sink());
    pending(requests, now, &mut console).unwrap();
    drop(console);
    String::from_utf8(out).unwrap()
}

#[test]
fn pending_requests_on_a_terminal_end_with_the_lines_that_answer_them() {
    let option = |id: &str, kind: &str| OptionMeta {
        option_id: id.to_owned(),
        name: Some(id.to_uppercase()),
        kind: Some(kind.to_owned()),
    };
    let command = question(&json!({ "rawInput": { "command": "cargo test" } }));
    let options = [("once", "allow_once"), ("always", "allow_always"), ("no", "reject_once")];
    let command =
        PendingRequestMeta { options: options.map(|(id, kind)| option(id, kind)).to_vec(), ..command };
    let form = PendingRequestMeta {
        question_id: "3f9c1a7b9999".to_owned(),
        name: None,
        title: Some("Which name?".to_owned()),
        kind: "form".to_owned(),
        elicitation: json!({
            "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
        })
        .as_object()
        .cloned(),
        options: Vec::new(),
        ..question(&json!(null))
    };
    let expected = "\
3f9c1a7be  Edit it [edit] (claude work in /w, waiting for 2 min)
  $ cargo test
  acpx approve 3f9c1a7be             ONCE
  acpx approve 3f9c1a7be --option 2  ALWAYS
  acpx deny 3f9c1a7be                NO

3f9c1a7b9  Which name? [form] (claude in /w, waiting for 2 min)
  fields: name
  acpx approve 3f9c1a7b9  asks for the fields
  acpx deny 3f9c1a7b9
";
    assert_eq!(on_terminal(&[command, form]), expected);
}

#[test]
fn pending_request_names_omitted_members_and_older_hosts_send_titles() {
    let long = PendingRequestMeta { left_out: vec!["content".to_owned()], ..question(&json!({})) };
    assert!(text(&long).contains("\n  (too long to show: content)\n  session: "), "{}", text(&long));
    let old = PendingRequestMeta { cwd: String::new(), tool_call: None, ..question(&json!(null)) };
    assert!(text(&old).starts_with("3f9c1a7be052\tEdit it [edit]\n  session: claude work (r1)\n  since: "));
}

#[test]
fn pending_requests_are_sanitized_for_the_terminal() {
    let hostile = |text: &str| format!("{text}\u{202e}\u{1b}[2J\r\n\tx");
    let plain = question(&json!({}));
    let asked = PendingRequestMeta {
        name: Some(hostile("name")),
        agent: hostile("agent"),
        cwd: hostile("/w"),
        title: Some(hostile("title")),
        kind: hostile("kind"),
        options: vec![OptionMeta {
            option_id: hostile("id"),
            name: Some(hostile("name")),
            kind: Some(hostile("kind")),
        }],
        asked: vec![ResponderMeta { is_turns: true, name: Some(hostile("client")) }],
        ..plain
    };
    let shown = |text: &str| format!("{text}\u{fffd}[2J   x");
    let expected = format!(
        "3f9c1a7be052\t{} [{}]\n  session: {} {} (r1)\n  cwd: {}\n  since: 2026-11-16T12:21:00.000Z\n  \
         asked: the turn's client, {}\n  options:\n    1  {}  {} [{}]\n  \
         answer: acpx approve 3f9c1a7be052; or acpx deny 3f9c1a7be052\n",
        shown("title"),
        shown("kind"),
        shown("agent"),
        shown("name"),
        shown("/w"),
        shown("client"),
        shown("id"),
        shown("name"),
        shown("kind"),
    );
    assert_eq!(text(&asked), expected);
}

#[test]
fn pending_form_is_listed_with_its_fields_or_address() {
    let elicitation = |params: Value| PendingRequestMeta {
        title: Some("Which name?".to_owned()),
        kind: params["mode"].as_str().unwrap_or("form").to_owned(),
        elicitation: params.as_object().cloned(),
        options: Vec::new(),
        ..question(&json!(null))
    };
    let properties =
        json!({ "name": { "type": "string" }, "age": { "type": "integer", "title": "Your age" } });
    let form = json!({ "message": "Which name?", "requestedSchema": { "type": "object", "properties": properties } });
    let end = "  session: claude work (r1)
  cwd: /w
  since: 2026-11-16T12:21:00.000Z
  asked: no client is connected
  answer: acpx approve 3f9c1a7be052, which asks for the fields; or acpx deny 3f9c1a7be052
";
    let expected = format!("3f9c1a7be052\tWhich name? [form]\n  fields: name, Your age\n{end}");
    assert_eq!(text(&elicitation(form)), expected);
    let address = json!({ "message": "Which name?", "mode": "url", "url": "https://x.example/a" });
    let shown = text(&elicitation(address));
    assert!(
        shown.starts_with("3f9c1a7be052\tWhich name? [url]\n  https://x.example/a\n  session: "),
        "{shown}"
    );
}
