//! What an agent may do is asked on the terminal of the command whose turn it is.
#![cfg(target_os = "linux")]

use acpx_testkit::Script;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually};
use crate::terminal::OnTerminal;

fn option(id: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": id, "kind": kind })
}

/// The params of a question about a tool call.
fn question(tool: &Value) -> Value {
    json!({
        "sessionId": "{sessionId}", "toolCall": tool,
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    })
}

/// A place with a session whose agent does this in every turn.
fn place(turn: Script) -> Place {
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    place
}

/// One whose agent asks for this in every turn.
fn asking(tool: &Value) -> Place {
    place(Script::new().request("session/request_permission", question(tool)).say("done").end("end_turn"))
}

fn edit() -> Value {
    let diff = json!({ "type": "diff", "path": "notes.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n" });
    json!({ "toolCallId": "t1", "title": "Edit notes.txt", "kind": "edit", "content": [diff] })
}

const ASKS: &str = "Allow Edit notes.txt [edit]? (y/N) ";

#[test]
fn permission_request_shows_the_diff_and_y_approves_it() {
    let place = asking(&edit());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("  @@ -1,2 +1,2 @@\n   one\n  -two\n  +2\n");
    terminal.wait_for(ASKS);
    terminal.type_in("y\n");
    terminal.wait_for("Answered yes: Edit notes.txt\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

#[test]
fn enter_alone_rejects_a_permission_request_and_an_invalid_answer_repeats_it() {
    let place = asking(&edit());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for(ASKS);
    terminal.type_in("sure\n");
    terminal.wait_for("type y or n\n");
    terminal.wait_for(ASKS);
    terminal.type_in("\n");
    terminal.wait_for("Answered no: Edit notes.txt\n");
    assert_eq!(terminal.done(), Some(5), "{}", terminal.seen);
}

#[test]
fn permission_request_uses_the_terminal_with_redirected_stdio_and_in_exec() {
    let place = asking(&edit());
    let line =
        r#"echo "fix it" | "$0" --format quiet scripted >out && echo "then" | "$0" scripted exec >out2"#;
    let mut terminal = OnTerminal::shell(line, &place.command(&[]));
    for _ in 0..2 {
        terminal.wait_for(ASKS);
        terminal.type_in("y\n");
    }
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert_eq!(std::fs::read_to_string(place.work().join("out")).unwrap(), "done\n");
    let exec = std::fs::read_to_string(place.work().join("out2")).unwrap();
    assert!(exec.contains("answered yes"), "{exec}");
}

#[test]
fn a_permission_request_of_a_background_command_stays_pending() {
    let place = asking(&edit());
    // With its own process group, as a shell gives it to a job, it may not read the terminal.
    let line = r#"set -m; "$0" scripted go & wait $!; echo "it ended with $?""#;
    let mut terminal = OnTerminal::shell(line, &place.command(&[]));
    terminal.wait_for("it waits for an answer: acpx pending shows the request");
    let id = pending_without_client(&place);
    assert_eq!(place.ok(&["approve", &id]), "approved\n");
    terminal.wait_for("it ended with 0\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert!(!terminal.seen.contains("(y/N)"), "{}", terminal.seen);
}

/// The id of the one question that is open, once no client is asked.
fn pending_without_client(place: &Place) -> String {
    let mut id = String::new();
    eventually("a request is pending, and nobody is asked", || {
        let pending = place.json(&["pending"]);
        let question = &pending["questions"][0];
        question["questionId"].as_str().unwrap_or_default().clone_into(&mut id);
        question["asked"] == json!([])
    });
    id
}

/// Waits until the last turn has ended like this.
fn ends(place: &Place, how: &str) {
    eventually("the turn has ended", || place.ok(&["scripted", "sessions", "replay"]).contains(how));
}

#[test]
fn a_permission_request_outlives_its_terminal_and_is_approved_from_another() {
    let place = asking(&edit());
    let mut terminal = OnTerminal::shell(r#""$0" scripted go; true"#, &place.command(&[]));
    terminal.wait_for(ASKS);
    terminal.hang_up();
    let id = pending_without_client(&place);
    assert_eq!(place.ok(&["approve", &id]), "approved\n");
    ends(&place, "[permission] Edit notes.txt: answered yes\n");
}

#[test]
fn permission_request_of_a_turn_queued_from_a_terminal_stays_pending() {
    let place = asking(&edit());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "--no-wait", "go"]));
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    let id = pending_without_client(&place);
    assert_eq!(place.ok(&["deny", &id]), "denied\n");
    ends(&place, "[permission] Edit notes.txt: answered no\n");
}

#[test]
fn permission_request_of_a_non_interactive_run_is_denied_without_a_responder() {
    // Without a terminal, and with one where the flag was given.
    let place = asking(&edit());
    place.ok(&["scripted", "--no-wait", "go"]);
    ends(&place, "[permission] Edit notes.txt: answered no\n");
    let place = asking(&edit());
    let line = r#""$0" --non-interactive-permissions deny scripted go; true"#;
    let mut terminal = OnTerminal::shell(line, &place.command(&[]));
    terminal.wait_for(ASKS);
    terminal.hang_up();
    ends(&place, "[permission] Edit notes.txt: answered no\n");
}

#[test]
fn ctrl_d_at_a_permission_request_is_a_no() {
    let place = asking(&edit());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for(ASKS);
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(5), "{}", terminal.seen);
}

#[test]
fn an_elicitation_form_outlives_its_terminal_and_is_filled_in_on_another() {
    let schema =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let form = json!({
        "sessionId": "{sessionId}", "mode": "form", "message": "Who are you?", "requestedSchema": schema,
    });
    let place = place(Script::new().request("elicitation/create", form).say("done").end("end_turn"));
    let mut terminal = OnTerminal::shell(r#""$0" scripted go; true"#, &place.command(&[]));
    terminal.wait_for("name (");
    terminal.hang_up();
    let id = pending_without_client(&place);
    let pending = place.json(&["pending"]);
    let elicitation = json!({ "mode": "form", "message": "Who are you?", "requestedSchema": schema });
    assert_eq!(pending["questions"][0]["elicitation"], elicitation);
    // A pipe cannot fill it in.
    let unfilled = place.acpx(&["--format", "json", "approve", &id]);
    assert_eq!(unfilled.failure().0, "NO_OPTION");
    let mut second = OnTerminal::start(&place.command(&["approve", &id]));
    second.wait_for("name (");
    second.type_in("Ada\n");
    second.wait_for("approved\n");
    assert_eq!(second.done(), Some(0), "{}", second.seen);
    let answered = || {
        let events = place.ok(&["--format", "json", "scripted", "sessions", "replay"]);
        events.contains(r#""action":"accept""#) && events.contains(r#""name":"Ada""#)
    };
    eventually("the agent has the form", answered);
}

#[test]
fn a_hostile_title_reaches_the_terminal_as_plain_text_in_one_line() {
    let title = "Edit\u{1b}[2J\u{9b}31m\r\n[permission] Allow nothing? (y/N) y\u{7}";
    let place = asking(&json!({ "toolCallId": "t1", "title": title, "kind": "edit" }));
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("Allow Edit[2J31m  [permission] Allow nothing? (y/N) y [edit]? (y/N) ");
    terminal.type_in("n\n");
    assert_eq!(terminal.done(), Some(5), "{}", terminal.seen);
    assert!(!terminal.seen.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{:?}", terminal.seen);
}

#[test]
fn permission_request_answered_by_a_second_shell_ignores_later_input() {
    let place = Place::new();
    let go = place.path_of("go");
    let turn = Script::new()
        .request("session/request_permission", question(&edit()))
        .await_file(&go)
        .request("session/request_permission", question(&edit()))
        .end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    let session = place.json(&["scripted", "sessions", "new", "-s", "work"]);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "-s", "work", "go"]));
    terminal.wait_for(ASKS);
    let pending = place.json(&["pending"]);
    let asked = &pending["questions"][0];
    let id = asked["questionId"].as_str().unwrap();
    let since = asked["since"].clone();
    let expected = json!({
        "questionId": id, "acpxRecordId": session["acpxRecordId"], "acpxSessionId": "s1", "name": "work",
        "agent": "scripted", "title": "Edit notes.txt", "kind": "edit", "since": since,
        "cwd": place.work(), "toolCall": edit(),
        "options": [option("yes", "allow_once"), option("no", "reject_once")], "asked": [{ "isTurns": true, "name": "acpx" }],
    });
    assert_eq!(pending, json!({ "action": "pending", "questions": [expected] }));
    assert_eq!(place.ok(&["approve", id]), "approved\n");
    terminal.wait_for("The request is withdrawn: another client answered it, or its turn is over\n");
    // This is no answer to what comes next.
    terminal.type_in("y");
    let late = place.acpx(&["--format", "json", "approve", id]);
    assert_eq!((late.failure().0.as_str(), late.code), ("NO_QUESTION", Some(4)));
    std::fs::write(&go, "").unwrap();
    terminal.wait_for(ASKS);
    terminal.type_in("\n");
    terminal.wait_for("Answered no: Edit notes.txt\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

/// A place whose agent has sent these requests at once, in a turn that no client waits for.
fn with_pending(titles: &[&str]) -> Place {
    let place = Place::new();
    let ask = |title: &str| {
        let mut params = question(&json!({ "toolCallId": title, "title": title, "kind": "edit" }));
        params["sessionId"] = json!("s1");
        let method = "session/request_permission";
        json!({ "jsonrpc": "2.0", "id": title, "method": method, "params": params }).to_string()
    };
    let turn = titles.iter().fold(Script::new(), |turn, title| turn.line(&ask(title)));
    let turn = turn.await_file(&place.path_of("go")).end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "--non-interactive-permissions", "wait", "--no-wait", "go"]);
    eventually("the requests are pending", || ids(&place).len() == titles.len());
    place
}

/// The ids of the pending requests.
fn ids(place: &Place) -> Vec<String> {
    place.ok(&["--format", "quiet", "pending"]).lines().map(str::to_owned).collect()
}

#[test]
fn approve_and_deny_take_the_beginning_of_a_request_id() {
    let place = with_pending(&["one", "two"]);
    let [one, two] = ids(&place).try_into().unwrap();
    let short = place.acpx(&["approve", &one[..5]]);
    let hint = format!(
        "acpx: {:?} is too short for the beginning of an id; it needs six characters\nhint: type more of it: {one}\n",
        &one[..5]
    );
    assert_eq!((short.err, short.code), (hint, Some(2)));
    let ambiguous = place.acpx(&["approve", ""]);
    assert_eq!(ambiguous.err, format!("acpx: 2 ids begin with \"\"\nhint: type more of it: {one}, {two}\n"));
    assert_eq!(ambiguous.code, Some(2));
    assert_eq!(place.ok(&["approve", &one[..8]]), "approved\n");
    let answered = place.json(&["deny", &two[..6]]);
    assert_eq!((&answered["questionId"], &answered["approved"]), (&json!(two), &json!(false)));
    let late = place.acpx(&["deny", &two[..6]]);
    assert_eq!(
        (late.err.lines().next(), late.code),
        (Some(&*format!("acpx: no request {:?} is pending", &two[..6])), Some(4))
    );
}

#[test]
fn approve_without_an_id_needs_a_terminal() {
    let place = with_pending(&["one"]);
    let id = &ids(&place)[0];
    let done = place.acpx(&["approve"]);
    let expected = format!(
        "acpx: acpx approve needs the id of a request, unless it runs on a terminal\nhint: acpx approve {id}\n"
    );
    assert_eq!((done.err, done.code), (expected, Some(2)));
    assert_eq!(ids(&place).len(), 1);
}

#[test]
fn approve_without_an_id_shows_the_request_and_asks() {
    let place = with_pending(&["Edit notes.txt"]);
    let mut left = OnTerminal::start(&place.command(&["approve"]));
    left.wait_for("  Edit notes.txt [edit] (scripted in ");
    left.wait_for("Approve it? (y/N) ");
    left.type_in("\n");
    left.wait_for("not answered; it stays pending\n");
    assert_eq!(left.done(), Some(0), "{}", left.seen);
    let mut approved = OnTerminal::start(&place.command(&["approve"]));
    approved.wait_for("Approve it? (y/N) ");
    approved.type_in("y\n");
    approved.wait_for("approved\n");
    assert_eq!(approved.done(), Some(0), "{}", approved.seen);
    let mut none = OnTerminal::start(&place.command(&["approve"]));
    none.wait_for("no request is pending\n");
    assert_eq!(none.done(), Some(4), "{}", none.seen);
}

#[test]
fn deny_without_an_id_chooses_a_request_by_its_number() {
    let place = with_pending(&["one", "two"]);
    let [one, _] = ids(&place).try_into().unwrap();
    let second = place.json(&["pending"])["questions"][1]["title"].clone();
    let mut terminal = OnTerminal::start(&place.command(&["deny"]));
    terminal.wait_for("Which one? (1 to 2) ");
    terminal.type_in("2\n");
    terminal.wait_for(&format!("  {} [edit] (scripted in ", second.as_str().unwrap()));
    terminal.wait_for("Deny it? (y/N) ");
    terminal.type_in("y\n");
    terminal.wait_for("denied\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert_eq!(ids(&place), [one]);
}

#[test]
fn watch_shows_the_id_of_a_pending_request_and_its_answer() {
    let place = asking(&edit());
    // One watches before the request, the other comes later.
    let mut early = place.start(&["scripted", "sessions", "watch"]);
    early.wait_for_word("watching session");
    place.ok(&["scripted", "--non-interactive-permissions", "wait", "--no-wait", "go"]);
    eventually("the request is pending", || ids(&place).len() == 1);
    let id = ids(&place).remove(0);
    let line = format!(
        "[acpx] Edit notes.txt [edit] waits for an answer: acpx approve {0} or acpx deny {0}",
        &id[..8]
    );
    early.wait_for_word(&line);
    let mut late = place.start(&["scripted", "sessions", "watch"]);
    late.wait_for_word(&line);
    place.ok(&["approve", &id]);
    early.wait_for("[permission] Edit notes.txt: answered yes");
    for mut watching in [early, late] {
        watching.wait_for("[done] end_turn");
        watching.signal(Signal::INT);
        let done = watching.done();
        assert_eq!((done.err.matches("waits for an answer").count(), done.code), (1, Some(0)), "{done:?}");
    }
}

#[test]
fn ctrl_c_at_a_permission_request_cancels_it_and_the_turn() {
    let place =
        place(Script::new().request("session/request_permission", question(&edit())).end("cancelled"));
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for(ASKS);
    terminal.type_in("\u{3}");
    terminal.wait_for("\nThe request is cancelled with its turn\n");
    assert_eq!(terminal.done(), Some(130), "{}", terminal.seen);
    assert!(!terminal.seen.contains("withdrawn"), "{}", terminal.seen);
    assert_eq!(terminal.seen.matches(ASKS).count(), 1, "{}", terminal.seen);
    assert!(terminal.seen.contains("Cancelled: Edit notes.txt\n"), "{}", terminal.seen);
    assert_eq!(place.ok(&["pending"]), "no pending requests\n");
}

#[test]
fn two_permission_requests_are_shown_one_at_a_time() {
    let place = Place::new();
    let ask = |id: &str| {
        let tool = json!({ "toolCallId": id, "title": format!("Edit {id}"), "kind": "edit" });
        let mut params = question(&tool);
        params["sessionId"] = json!("s1");
        let method = "session/request_permission";
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let go = place.path_of("go");
    let turn = Script::new().line(&ask("a")).line(&ask("b")).await_file(&go).end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("Allow Edit a [edit]? (y/N) ");
    eventually("both are open", || place.json(&["pending"])["questions"].as_array().unwrap().len() == 2);
    assert!(!terminal.seen.contains("Allow Edit b"), "{}", terminal.seen);
    terminal.type_in("y\n");
    terminal.wait_for("Allow Edit b [edit]? (y/N) ");
    terminal.type_in("n\n");
    eventually("none is open", || place.json(&["pending"])["questions"] == json!([]));
    std::fs::write(&go, "").unwrap();
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    for answered in ["Answered yes: Edit a", "Answered no: Edit b"] {
        assert!(terminal.seen.contains(answered), "{}", terminal.seen);
    }
}

#[test]
fn permission_request_is_shown_once_when_a_usage_update_follows() {
    let place = Place::new();
    let mut params = question(&edit());
    params["sessionId"] = json!("s1");
    let ask =
        json!({ "jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": params });
    let (asked, go) = (place.path_of("asked"), place.path_of("go"));
    let turn = Script::new()
        .line(&ask.to_string())
        .await_file(&asked)
        .update(json!({ "sessionUpdate": "usage_update", "used": 12, "size": 100 }))
        .await_file(&go)
        .say("more")
        .end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for(ASKS);
    std::fs::write(&asked, "").unwrap();
    eventually("the usage update is stored", || {
        place.ok(&["--format", "json", "scripted", "sessions", "replay"]).contains("usage_update")
    });
    terminal.type_in("y\n");
    terminal.wait_for("Answered yes: Edit notes.txt\n");
    std::fs::write(&go, "").unwrap();
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert_eq!(terminal.seen.matches(ASKS).count(), 1, "{}", terminal.seen);
}

#[test]
fn permission_request_is_shown_again_below_later_agent_output() {
    let place = Place::new();
    let mut params = question(&edit());
    params["sessionId"] = json!("s1");
    let ask =
        json!({ "jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": params });
    let (asked, go) = (place.path_of("asked"), place.path_of("go"));
    let turn = Script::new()
        .line(&ask.to_string())
        .await_file(&asked)
        .say("one more word")
        .await_file(&go)
        .end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for(ASKS);
    std::fs::write(&asked, "").unwrap();
    terminal.wait_for("one more word");
    terminal.wait_for(ASKS);
    terminal.type_in("y\n");
    terminal.wait_for("Answered yes: Edit notes.txt\n");
    std::fs::write(&go, "").unwrap();
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

#[test]
fn program_with_pipes_only_shows_no_permission_request_on_the_terminal() {
    let place = asking(&edit());
    let line = r#""$0" scripted go </dev/null >out 2>&1"#;
    let mut terminal = OnTerminal::shell(line, &place.command(&[]));
    assert_eq!(terminal.done(), Some(5), "{}", terminal.seen);
    assert_eq!(terminal.seen, "");
}
