//! What goes along with a prompt, and what an agent tells beside the conversation.

use std::process::Stdio;

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::Place;

/// A place with a session whose agent has these prompt capabilities and does this in every turn.
fn place(capabilities: &Value, turn: Script) -> (Place, Vec<String>) {
    let capabilities = json!({ "promptCapabilities": capabilities });
    let script = Script::new().initialize(capabilities).session_new("s1").serve([("session/prompt", turn)]);
    let place = Place::new();
    let agent = place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    (place, agent)
}

#[test]
fn files_are_sent_to_an_agent_that_accepts_them() {
    let all = json!({ "image": true, "audio": true, "embeddedContext": true });
    let (place, agent) = place(&all, Script::new().end("end_turn"));
    std::fs::write(place.work().join("a.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(place.work().join("a.wav"), b"RIFF0000WAVE").unwrap();
    std::fs::write(place.work().join("a.txt"), "words").unwrap();
    let files = ["--image", "a.png", "--audio", "a.wav", "--resource", "a.txt"];
    place.ok(&[&["scripted", "prompt", "look"], &files[..]].concat());
    let lines = received_lines(&agent);
    let prompt: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let uri = |name: &str| format!("file://{}", place.work().join(name).display());
    let expected = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=", "uri": uri("a.png") },
        { "type": "audio", "mimeType": "audio/wav", "data": "UklGRjAwMDBXQVZF" },
        { "type": "resource", "resource": { "uri": uri("a.txt"), "mimeType": "text/plain", "text": "words" } },
    ]);
    assert_eq!(prompt["params"]["prompt"], expected);
}

#[test]
fn content_without_its_prompt_capability_is_refused_by_the_capabilitys_name() {
    let (place, agent) = place(&json!({}), Script::new().end("end_turn"));
    std::fs::write(place.work().join("a.gif"), b"GIF89a").unwrap();
    std::fs::write(place.work().join("a.ogg"), b"OggS").unwrap();
    std::fs::write(place.work().join("a.txt"), "").unwrap();
    let rows = [
        ("--image", "a.gif", "image"),
        ("--audio", "a.ogg", "audio"),
        ("--resource", "a.txt", "embeddedContext"),
    ];
    for (flag, file, capability) in rows {
        let refused = place.acpx(&["scripted", flag, file, "look"]);
        let words = format!("it does not advertise promptCapabilities.{capability}");
        let hint = format!("\nhint: leave {flag} {file} out, and write in the prompt where it is\n");
        assert!(refused.out.contains("CONTENT_UNSUPPORTED") && refused.out.contains(&words), "{refused:?}");
        assert!(refused.out.ends_with(&hint), "{refused:?}");
        assert_eq!(refused.code, Some(2));
    }
    assert!(!received_lines(&agent).iter().any(|line| line.contains("session/prompt")));
    let missing = place.acpx(&["scripted", "--image", "missing.png", "look"]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(2), ""));
}

#[test]
fn history_and_replay_show_attached_files_and_refused_ones() {
    let block = json!({ "type": "image", "mimeType": "image/png", "data": "x", "uri": "file:///drawn.png" });
    let turn = Script::new()
        .update(json!({ "sessionUpdate": "agent_message_chunk", "content": block }))
        .end("end_turn");
    let (place, _) = place(&json!({ "image": true }), turn);
    std::fs::write(place.work().join("a.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(place.work().join("a.wav"), b"RIFF0000WAVE").unwrap();
    place.ok(&["scripted", "prompt", "--image", "a.png", "look"]);
    place.ok(&["scripted", "prompt", "--image", "a.png"]);
    assert_eq!(place.acpx(&["scripted", "prompt", "--audio", "a.wav"]).code, Some(2));
    let image = format!("[image file://{}]", place.work().join("a.png").display());
    let quiet = place.ok(&["--format", "quiet", "scripted", "sessions", "history"]);
    let drawn = "[image file:///drawn.png]";
    let expected = format!("look {image}\n{drawn}\n{image}\n{drawn}\n[not sent] [audio audio/wav]\n");
    assert_eq!(quiet, expected);
    let replayed = place.ok(&["scripted", "sessions", "replay"]);
    let begin = format!(
        "[user, turn 1] look\n               {image}\n\n{drawn}\n\n[done] end_turn\n\n\
         [user, turn 2] {image}\n\n{drawn}\n\n[done] end_turn\n\n\
         [user, turn 3] [audio audio/wav]\n\n[error] CONTENT_UNSUPPORTED: "
    );
    assert!(replayed.starts_with(&begin), "{replayed}");
}

#[test]
fn the_time_limit_bounds_the_reading_of_the_prompt() {
    let (place, agent) = place(&json!({}), Script::new().end("end_turn"));
    for more in [&["prompt"][..], &["prompt", "--file", "-"], &["exec", "--resource", "-", "look"]] {
        let arguments = [&["--timeout", "0.3", "scripted"], more].concat();
        let mut command = place.command(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Nobody writes and nobody closes it, until all is over.
        let stdin = child.stdin.take();
        let done = child.wait_with_output().unwrap();
        drop(stdin);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(
            said,
            "acpx: reading the prompt took longer than 0.3 s\nhint: give it more time with --timeout\n"
        );
        assert_eq!(done.status.code(), Some(3));
    }
    assert!(!received_lines(&agent).iter().any(|line| line.contains("session/prompt")));
}

#[test]
fn notices_and_compactions_are_shown_to_people_and_usage_in_the_status() {
    let compaction =
        |status: &str| json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": status });
    let turn = Script::new()
        .update(json!({ "sessionUpdate": "notice", "severity": "warning", "title": "slow", "description": "a server is away" }))
        .update(compaction("in_progress"))
        .update(compaction("completed"))
        .say("hi")
        .update(json!({ "sessionUpdate": "usage_update", "used": 53, "size": 200, "cost": { "amount": 0.25, "currency": "USD" } }))
        .end("end_turn");
    let (place, agent) = place(&json!({}), turn);
    let expected = "\
[notice] warning: slow: a server is away

[compaction] the agent is compacting its memory

[compaction] the agent remembers a summary of what came before
hi

[done] end_turn
";
    assert_eq!(place.ok(&["scripted", "go"]), expected);
    assert_eq!(place.ok(&["--format", "quiet", "scripted", "go"]), "hi\n");
    let initialize: Value = serde_json::from_str(&received_lines(&agent)[0]).unwrap();
    let session = &initialize["params"]["clientCapabilities"]["session"];
    assert_eq!((&session["notices"], &session["compaction"]), (&json!({}), &json!({})));
    let usage = json!({ "used": 53, "size": 200, "cost": { "amount": 0.25, "currency": "USD" } });
    assert_eq!(place.json(&["scripted", "status"])["usage"], usage);
    assert!(place.ok(&["scripted", "status"]).contains("\ncontext: 53 of 200 tokens, 0.25 USD\n"));
    assert_eq!(place.json(&["scripted", "sessions", "show"])["usage"], usage);
    assert!(place.ok(&["scripted", "sessions", "show"]).contains("\ncontext: 53 of 200 tokens, 0.25 USD\n"));
}

#[test]
fn compaction_is_shown_by_status_show_and_doctor_even_much_later() {
    let compaction =
        json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed" });
    let turn = Script::new().update(compaction).repeat(600, |turn| turn.say("x")).end("end_turn");
    let (place, _) = place(&json!({}), turn);
    assert_eq!(place.json(&["scripted", "status"]).get("memory"), None);
    place.ok(&["scripted", "go"]);
    place.ok(&["host", "stop"]);
    let words = "the agent made its memory shorter: it has a summary of what came before";
    for command in [&["scripted", "status"][..], &["scripted", "sessions", "show"]] {
        assert_eq!(place.json(command)["memory"], json!({ "how": "compacted" }), "{command:?}");
        assert!(place.ok(command).contains(&format!("\nmemory: {words}")), "{command:?}");
    }
    let doctor = place.ok(&["--format", "json", "scripted", "doctor"]);
    let found: Vec<Value> = doctor.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told =
        found.iter().find(|line| line["check"] == "memory").map(|line| (&line["level"], &line["detail"]));
    assert_eq!(told, Some((&json!("warn"), &json!(words))), "{doctor}");
}
