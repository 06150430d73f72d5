//! What an agent may do where nobody is at a terminal: rules for single tools, what becomes of the rest, and answers
//! from anywhere.

use std::path::PathBuf;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually, kill_hard, text};

/// An agent that asks for an edit in every turn.
fn asking() -> Script {
    let turn = Script::new().ask_permission("t1").say("done").end("end_turn");
    Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)])
}

fn place() -> Place {
    let place = Place::new();
    place.scripted(&asking());
    place.ok(&["scripted", "sessions", "new"]);
    place
}

/// The result by which a question was answered, among the lines of a command.
fn answer(lines: &[Value]) -> &Value {
    let is_answer = |line: &&Value| line["result"].get("outcome").is_some();
    &lines.iter().find(is_answer).expect("an answer")["result"]
}

/// The id of the one question that is open, once it is.
fn open_question(place: &Place) -> String {
    let mut id = String::new();
    eventually("a question is open", || {
        place.ok(&["--format", "quiet", "pending"]).trim().clone_into(&mut id);
        !id.is_empty()
    });
    id
}

#[test]
fn tool_rules_precede_the_permission_mode_from_a_file_or_as_json() {
    let place = place();
    std::fs::write(place.work().join("policy.json"), r#"{"autoApprove":["EDIT"]}"#).unwrap();
    let cases: [(&[&str], i32); 6] = [
        (&["--permission-policy", "policy.json", "--deny-all"], 0),
        (&["--policy", r#"{"autoApprove":["edit a file"]}"#], 0),
        (&["--permission-policy", r#" {"autoDeny":["*"],"autoApprove":["edit"]}"#, "--approve-all"], 5),
        (&["--permission-policy", r#"{"defaultAction":"deny"}"#, "--approve-all"], 5),
        (&["--permission-policy", r#"{"autoDeny":["read"]}"#, "--approve-all"], 0),
        (&["--permission-policy", "{}"], 5),
    ];
    for (flags, code) in cases {
        for verb in [&["scripted", "go"][..], &["scripted", "exec", "go"]] {
            let done = place.acpx(&[flags, verb].concat());
            assert_eq!(done.code, Some(code), "{flags:?} {verb:?} {done:?}");
        }
    }
}

#[test]
fn invalid_permission_policy_is_reported_with_its_member_before_sending() {
    let place = place();
    let wrong = place.work().join("wrong.json");
    std::fs::write(&wrong, r#"{"autoDeny":[7]}"#).unwrap();
    let failed = |flags: &[&str]| {
        let done = place.acpx(&[&["--format", "json"], flags, &["scripted", "go"]].concat());
        let message = done.lines().pop().unwrap()["error"]["message"].as_str().unwrap().to_owned();
        (done.failure().0, message, done.code)
    };
    let problem = "autoDeny must be an array of strings; found a number";
    let inline = failed(&["--permission-policy", r#"{"autoDeny":7}"#]);
    let message = format!("the JSON of --permission-policy is not a policy: {problem}");
    assert_eq!(inline, ("USAGE".to_owned(), message, Some(2)));
    let file = failed(&["--permission-policy", "wrong.json"]);
    let message = format!("{}: autoDeny[0] must be a non-empty string; found a number", wrong.display());
    assert_eq!(file, ("CONFIG_INVALID".to_owned(), message, Some(1)));
    // A path that leads nowhere was mistyped.
    let message = format!("there is no file {}", place.work().join("nowhere.json").display());
    let missing = ("CONFIG_UNREADABLE".to_owned(), message, Some(2));
    assert_eq!(failed(&["--permission-policy", "nowhere.json"]), missing);
    assert_eq!(failed(&["--mcp-config", "nowhere.json"]), missing);
    let two = failed(&["--permission-policy", "{}", "--policy", "wrong.json"]);
    assert_eq!((two.0.as_str(), two.2), ("USAGE", Some(2)));
    assert_eq!(failed(&["--non-interactive-permissions", "perhaps"]).0, "USAGE");
    let waits =
        place.acpx(&["--format", "json", "--non-interactive-permissions", "wait", "scripted", "exec", "go"]);
    assert_eq!((waits.failure().0.as_str(), waits.code), ("USAGE", Some(2)));
    place.configure(r#"{"permissionPolicy":{"escalate":"x"}}"#);
    let message = failed(&[]).1;
    assert!(
        message
            .ends_with("config.json: permissionPolicy.escalate must be an array of strings; found a string"),
        "{message}"
    );
    // What is started here is stopped by a command that reads it too.
    place.configure("{}");
}

#[test]
fn escalated_permission_without_a_responder_is_rejected_with_the_reason() {
    let place = place();
    let flags = ["--format", "json", "--permission-policy", r#"{"escalate":["edit"]}"#, "--approve-all"];
    let done = place.acpx(&[&flags[..], &["scripted", "go"]].concat());
    assert_eq!(done.code, Some(5), "{done:?}");
    let lines = done.lines();
    let told = answer(&lines);
    let escalation = &told["_meta"]["acpx"]["permissionEscalation"];
    let expected = json!({
        "type": "permission_escalation", "acpxRecordId": lines.last().unwrap()["acpxRecordId"],
        "acpxSessionId": "s1", "toolCallId": "t1", "toolName": "Edit", "toolTitle": "Edit a file",
        "toolKind": "edit", "action": "escalate", "matchedRule": "edit",
        "message": "Permission escalation required for Edit a file", "timestamp": escalation["timestamp"],
    });
    assert_eq!((&told["outcome"]["optionId"], escalation), (&json!("no"), &expected));
}

#[test]
fn turn_that_fails_without_a_responder_exits_with_5_and_answers_nothing() {
    let place = place();
    for verb in [&["scripted", "go"][..], &["scripted", "exec", "go"]] {
        let flags = ["--format", "json", "--non-interactive-permissions", "fail"];
        let done = place.acpx(&[&flags[..], verb].concat());
        let lines = done.lines();
        assert_eq!(answer(&lines), &json!({ "outcome": { "outcome": "cancelled" } }));
        let result = lines.last().unwrap();
        assert_eq!((&result["status"], done.code), (&json!("failed"), Some(5)), "{result}");
        let error = &lines[lines.len() - 2]["error"];
        let told = (&error["code"], &error["data"]["acpxCode"], &error["data"]["detailCode"]);
        let code = json!("PERMISSION_PROMPT_UNAVAILABLE");
        assert_eq!((told, error), ((&json!(-32072), &code, &code), &result["error"]));
    }
    place.configure(
        &json!({
            "nonInteractivePermissions": "fail",
            "agents": { "scripted": { "argv": place.scripted(&asking()) } },
        })
        .to_string(),
    );
    assert_eq!(place.acpx(&["scripted", "go"]).code, Some(5));
    // The next turn is another one.
    assert_eq!(place.acpx(&["--approve-all", "scripted", "go"]).code, Some(0));
}

#[test]
fn pending_permission_request_is_listed_in_status_until_answered() {
    let place = place();
    assert_eq!(place.json(&["pending"]), json!({ "action": "pending", "questions": [] }));
    let waiting = ["--non-interactive-permissions", "wait", "scripted", "go"];
    for (verb, code) in [("approve", 0), ("deny", 5)] {
        let mut running = place.start(&waiting);
        running.wait_for_word(
            "[acpx] it waits for an answer: acpx pending shows the request, acpx approve ID or",
        );
        let id = open_question(&place);
        let status = place.json(&["scripted", "status"]);
        assert_eq!(status["questions"][0]["questionId"], id, "{status}");
        let shown = place.ok(&["scripted", "status"]);
        assert!(shown.contains(&format!("question: {id} Edit a file [edit]")), "{shown}");
        assert!(place.ok(&["pending"]).contains("  asked: no client is connected\n"));
        let answered = place.json(&[verb, &id]);
        let approved = verb == "approve";
        assert_eq!((&answered["questionId"], &answered["approved"]), (&json!(id), &json!(approved)));
        assert_eq!(running.done().code, Some(code), "{verb}");
    }
}

#[test]
fn pending_request_outlives_its_command_and_accepts_option_id_kind_or_number() {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": format!("The {id}"), "kind": kind });
    let options = [option("o1", "allow_once"), option("o2", "allow_always"), option("o3", "reject_once")];
    let many = [&options[..], &[option("o4", "reject_once")]].concat();
    let params = json!({ "sessionId": "{sessionId}", "toolCall": { "toolCallId": "t1", "title": "Edit" }, "options": many });
    let turn = Script::new().request("session/request_permission", params).end("end_turn");
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    let answers = [
        ("approve", "o2", "The o2"),
        ("approve", "allow_always", "The o2"),
        ("approve", "1", "The o1"),
        ("deny", "4", "The o4"),
    ];
    for (verb, word, name) in answers {
        place.ok(&["--non-interactive-permissions", "wait", "scripted", "--no-wait", "go"]);
        let id = open_question(&place);
        let none = |wrong: &str| format!("the request {id:?} has no single option {wrong:?}");
        let of = |wrong: &str, what: &str| format!("the option {wrong:?} of the request {id:?} {what}");
        let wrong = [
            ("approve", "everything", none("everything")),
            ("approve", "reject_once", none("reject_once")),
            ("approve", "0", none("0")),
            ("approve", "5", none("5")),
            ("approve", "3", of("3", "does not approve")),
            ("deny", "o1", of("o1", "is not known to refuse")),
        ];
        for (verb, wrong, what) in wrong {
            let unknown = place.acpx(&["--format", "json", verb, &id, "--option", wrong]);
            assert_eq!((unknown.failure().0.as_str(), unknown.code), ("NO_OPTION", Some(2)));
            let expected = format!(
                r#"{what}; it has 1 "o1" ("allow_once"), 2 "o2" ("allow_always"), 3 "o3" ("reject_once"), 4 "o4" ("reject_once")"#
            );
            assert_eq!(unknown.lines().pop().unwrap()["error"]["message"], expected);
        }
        let said = if verb == "approve" { "approved\n" } else { "denied\n" };
        assert_eq!(place.ok(&[verb, &id, "--option", word]), said);
        eventually("the turn is over", || place.json(&["scripted", "status"]).get("turn").is_none());
        let answered = format!("[permission] Edit: answered {name}\n\n[done] end_turn\n");
        assert!(place.ok(&["scripted", "sessions", "replay"]).ends_with(&answered), "{word}");
    }
}

#[test]
fn pending_request_is_listed_and_shown_with_its_whole_tool_call() {
    let diff = json!({ "type": "diff", "path": "/w/x", "oldText": "a\n", "newText": "b\n" });
    let told = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Look", "kind": "execute", "status": "pending",
        "rawInput": { "command": "rm -rf /" },
    });
    let asked = json!({ "toolCallId": "t1", "title": "Tidy up", "kind": null, "content": [diff] });
    let option = json!({ "optionId": "o1", "name": "Yes", "kind": "allow_once" });
    let params = json!({ "sessionId": "{sessionId}", "toolCall": asked, "options": [option] });
    let turn = Script::new().update(told).request("session/request_permission", params).end("end_turn");
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["--non-interactive-permissions", "wait", "scripted", "--no-wait", "go"]);
    let id = open_question(&place);
    let question = place.json(&["pending"])["questions"][0].clone();
    let expected = json!({
        "toolCallId": "t1", "title": "Tidy up", "kind": "execute", "rawInput": { "command": "rm -rf /" },
        "content": [diff],
    });
    assert_eq!((&question["toolCall"], &question["cwd"]), (&expected, &json!(place.work())));
    let shown = "  $ rm -rf /\n  --- /w/x\n  +++ /w/x\n  @@ -1,1 +1,1 @@\n  -a\n  +b\n";
    let listed = place.ok(&["pending"]);
    assert!(
        listed.starts_with(&format!("{id}\tTidy up [execute]\n{shown}  session: scripted (")),
        "{listed}"
    );
    let end =
        format!("  options:\n    1  o1  Yes [allow_once]\n  answer: acpx approve {id}; or acpx deny {id}\n");
    assert!(listed.ends_with(&end), "{listed}");
    let status = place.ok(&["scripted", "status"]);
    assert!(status.contains(&format!("question: {id} Tidy up [execute]\n{shown}")), "{status}");
    assert_eq!(place.json(&["scripted", "status"])["questions"][0], question);
    place.ok(&["deny", &id]);
}

#[test]
fn answering_a_request_that_is_not_pending_fails_and_starts_nothing() {
    let place = Place::new();
    let gone = place.acpx(&["--format", "json", "approve", "3f9c1a7be052"]);
    let (code, hint, exit) = gone.failure();
    assert_eq!((code.as_str(), exit), ("NO_QUESTION", Some(4)));
    assert!(hint.starts_with("acpx pending"), "{hint}");
    assert_eq!(place.ok(&["pending"]), "no pending requests\n");
    assert!(!place.acpx_home().join("host.lock").exists(), "a host was started");
    place.scripted(&asking());
    place.ok(&["scripted", "sessions", "new"]);
    // What the turn's own policy denies, nobody else is asked.
    assert_eq!(place.acpx(&["--deny-all", "scripted", "go"]).code, Some(5));
    assert_eq!(place.ok(&["pending"]), "no pending requests\n");
    assert_eq!(place.acpx(&["deny", "3f9c1a7be052"]).code, Some(4));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells what an agent has started")]
fn programs_started_by_an_agent_approve_nothing_and_set_no_policy() {
    let place = Place::new();
    let tried = ["approved", "prompted", "set", "executed"].map(|name| place.path_of(name));
    let program = env!("CARGO_BIN_EXE_acpx");
    let inside = format!(
        r#"(until id=$("{program}" --format quiet pending) && [ -n "$id" ]; do sleep 0.02; done
            "{program}" --format json approve "$id" >"{0}"
            "{program}" --format json --permission-policy '{{"autoApprove":["*"]}}' scripted -s other go >"{1}"
            "{program}" --format json scripted -s other set-mode free >"{2}"
            "{program}" --format json scripted exec --config-option mode=free go >"{3}.part"
            mv "{3}.part" "{3}") & exec "$@""#,
        text(&tried[0]),
        text(&tried[1]),
        text(&tried[2]),
        text(&tried[3])
    );
    let argv = place.scripted(&asking());
    let wrapped = [vec!["sh".to_owned(), "-c".to_owned(), inside, "sh".to_owned()], argv.clone()].concat();
    place.configure(
        &json!({ "agents": { "scripted": { "argv": argv }, "wrapped": { "argv": wrapped } } }).to_string(),
    );
    place.ok(&["scripted", "sessions", "new", "-s", "other"]);
    place.ok(&["wrapped", "sessions", "new"]);
    let running = place.start(&["--non-interactive-permissions", "wait", "wrapped", "go"]);
    eventually("the agent's programs have tried", || tried[3].exists());
    let code = |path: &PathBuf| -> Value {
        let said = std::fs::read_to_string(path).unwrap();
        let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        last["error"]["data"]["detailCode"].clone()
    };
    assert_eq!(tried.each_ref().map(code), std::array::from_fn(|_| json!("NOT_ALLOWED")));
    place.ok(&["deny", &open_question(&place)]);
    assert_eq!(running.done().code, Some(5));
}

#[test]
fn queued_prompt_that_outlives_its_host_keeps_its_permission_policy() {
    let place = Place::new();
    let hold = place.path_of("hold");
    let resume = json!({ "sessionCapabilities": { "resume": {} } });
    let script = Script::new()
        .initialize(resume.clone())
        .session_new("s1")
        .prompt(|turn| turn.touch(&hold).hang())
        .next_start()
        .initialize(resume)
        .session_resume()
        .prompt(|turn| turn.ask_permission("t1").ask_permission("t2").end("end_turn"))
        .prompt(|turn| turn.end("end_turn"));
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    let first = place.start(&["scripted", "runs"]);
    eventually("the first runs", || hold.exists());
    let rules = r#"{"escalate":["edit"]}"#;
    place.ok(&[
        "--permission-policy",
        rules,
        "--non-interactive-permissions",
        "wait",
        "--approve-all",
        "scripted",
        "--no-wait",
        "waits",
    ]);
    kill_hard(place.host_pid());
    drop(first);
    let next = place.start(&["scripted", "next"]);
    for verb in ["approve", "deny"] {
        let id = open_question(&place);
        place.ok(&[verb, &id]);
        eventually("it is answered", || !place.ok(&["--format", "quiet", "pending"]).contains(&id));
    }
    assert_eq!(next.done().code, Some(0));
}

#[test]
fn permission_without_options_is_cancelled_and_unknown_option_kinds_are_answered() {
    let place = Place::new();
    let ask = |options: Value| json!({ "sessionId": "{sessionId}", "toolCall": { "toolCallId": "t", "kind": "edit" }, "options": options });
    let new = json!([{ "optionId": "x", "name": "X", "kind": "allow_for_a_week" }]);
    let turn = Script::new()
        .request("session/request_permission", ask(json!([])))
        .request("session/request_permission", ask(new))
        .end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    let done = place.acpx(&["--format", "json", "--approve-all", "scripted", "exec", "go"]);
    let answers: Vec<Value> =
        done.lines().iter().filter_map(|line| line["result"].get("outcome").cloned()).collect();
    let expected = [json!({ "outcome": "cancelled" }), json!({ "outcome": "selected", "optionId": "x" })];
    assert_eq!((answers, done.code), (expected.to_vec(), Some(0)));
}
