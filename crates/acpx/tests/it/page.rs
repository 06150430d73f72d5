//! The page in a real browser: every scenario of `tests/page/scenarios.mjs` in a home of its own.
//!
//! `.ci/page-tools` installs the driver, `.ci/npm-sdk` node; Debian's chromium is the browser. Without them these tests
//! fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place};
use crate::npm_sdk;

/// What a hostile agent writes.
const HOSTILE: &str = "<script>globalThis.harmed = true</script> <img src=x onerror=\"globalThis.harmed = true\">\n\n\
     [click](javascript:globalThis.harmed=true) ![i](https://127.0.0.2/pixel.png) [a](data:text/html,x) \
     [good](https://example.com/) pay \u{202e}evil\u{202c}\n\n```js\n</code></pre><script>globalThis.harmed = true</script>\n```\n";

fn tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/page");
    assert!(tools.exists(), "{} is not there: run .ci/page-tools", tools.display());
    tools
}

fn node(script: impl AsRef<Path>) -> Command {
    let node = npm_sdk::installed().join("node_modules/.bin/node");
    assert!(node.exists(), "{} is not there: run .ci/npm-sdk", node.display());
    let mut command = Command::new(node);
    command.arg(script.as_ref());
    command
}

/// Runs a scenario, with the browser's devices signed in by this home's web server.
fn scenario(place: &Place, name: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/scenarios.mjs");
    let mut command = node(script);
    command.arg(name).arg(tools());
    let done = Done::of(&mut place.by(command, &[]));
    drop(place.acpx(&["web", "stop"]));
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{}", done.out);
}

/// A home with one session of the demo agent.
fn demo(name: &str) {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "prompt", "hello"]);
    scenario(&place, name);
}

/// A home with one session of a scripted agent, whose second turn this is.
fn scripted(name: &str, turn: impl FnOnce(Script) -> Script) {
    let place = Place::new();
    let script = Script::new().initialize(json!({})).session_new("scripted-1");
    let script = script.prompt(|turn| turn.say("hello")).end("end_turn");
    let script = turn(script.expect("session/prompt")).end("end_turn");
    place.scripted(&script.prompt(|turn| turn.say("thank you")).end("end_turn"));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "prompt", "hello"]);
    scenario(&place, name);
}

#[test]
fn page_types_are_checked() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    let mut compiler = node(tools().join("node_modules/typescript/bin/tsc"));
    let done = Done::of(compiler.arg("--project").arg(project));
    assert_eq!((done.out.as_str(), done.code), ("", Some(0)), "{}", done.err);
}

#[test]
fn page_is_opened_with_a_code_once_and_closed_by_revocation() {
    demo("first_visit");
}

#[test]
fn page_starts_renames_closes_and_deletes_a_session() {
    demo("new_session");
}

#[test]
fn page_streams_a_turn_and_keeps_the_position_of_the_reader() {
    demo("streaming");
}

#[test]
fn page_answers_permission_requests_from_any_view() {
    demo("requests");
}

#[test]
fn page_queues_edits_drops_and_cancels_prompts() {
    demo("queue");
}

#[test]
fn page_continues_after_a_reload_and_a_break_in_mid_turn() {
    demo("reload");
}

#[test]
fn page_survives_a_host_killed_in_mid_turn() {
    demo("host_lost");
}

#[test]
fn two_tabs_and_a_shell_share_one_session() {
    demo("clients");
}

#[test]
fn page_fits_a_phone_viewport() {
    demo("phone");
}

#[test]
fn page_works_with_the_keyboard_only() {
    demo("keyboard");
}

#[test]
fn page_has_no_axe_violation_in_both_themes() {
    demo("accessibility");
}

#[test]
fn page_of_a_scoped_device_only_reads_or_answers() {
    demo("scopes");
}

#[test]
fn page_list_follows_changes_and_an_older_page_offers_a_reload() {
    demo("changes");
}

#[test]
fn page_shows_malformed_requests_and_all_that_is_approved() {
    demo("malformed");
}

#[test]
fn page_cuts_a_long_line_of_a_message() {
    demo("long_line");
}

#[test]
fn page_follows_a_session_that_the_list_has_later() {
    demo("late_row");
}

#[test]
fn page_makes_a_refused_prompt_a_draft_again() {
    demo("refused");
}

#[test]
fn page_refuses_prompts_and_messages_that_are_too_long() {
    demo("too_long");
}

#[test]
fn page_shows_the_mode_that_the_agent_has() {
    demo("options");
}

#[test]
fn page_asks_for_older_turns_again_only_when_you_scroll() {
    demo("older_fails");
}

#[test]
fn page_notices_a_connection_that_is_silent() {
    demo("silence");
}

#[test]
fn page_keeps_a_session_without_a_prompt_over_a_reload() {
    demo("unprompted");
}

#[test]
fn page_keeps_nothing_of_sessions_after_a_sign_out_or_revocation() {
    demo("signed_out");
}

#[test]
fn page_explains_what_its_server_refuses() {
    demo("refusals");
}

#[test]
fn page_notifies_of_ended_turns_with_their_outcome() {
    demo("notifications");
}

#[test]
fn page_lists_filters_and_scrolls_5000_sessions() {
    demo("many_sessions");
}

#[test]
fn page_stays_responsive_and_small_with_100000_tool_calls() {
    demo("many_calls");
}

#[test]
fn page_scrolls_over_50000_messages() {
    demo("many_events");
}

#[test]
fn page_finds_destructive_commands_in_linear_time() {
    demo("long_commands");
}

#[test]
fn page_shows_images_marks_and_commands_of_an_agent() {
    demo("content");
}

#[test]
fn page_sends_a_pasted_image_and_a_dropped_file() {
    demo("attachments");
}

#[test]
fn page_continues_when_its_server_is_there_again() {
    demo("server_gone");
}

#[test]
fn page_loads_older_turns_and_opens_a_link_to_a_message() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "prompt", "hello"]);
    for turn in 1..=60 {
        place.ok(&["demo", "prompt", "--no-wait", &format!("turn {turn} {}", "of many ".repeat(40))]);
    }
    place.until("all turns are over", |status| status["status"] != "running");
    scenario(&place, "history");
}

#[test]
fn page_shows_forms_and_asks_twice_before_a_destructive_command() {
    let option = |id: &str, name: &str, kind: &str| json!({ "optionId": id, "name": name, "kind": kind });
    let command = json!({
        "sessionId": "{sessionId}",
        "toolCall": {
            "toolCallId": "push", "title": "Push the branch", "kind": "execute",
            "rawInput": { "command": "git push --force origin main" },
        },
        "options": [option("yes", "Yes, once", "allow_once"), option("no", "No", "reject_once")],
    });
    let form = json!({
        "sessionId": "{sessionId}", "mode": "form", "message": "Who is it for?",
        "requestedSchema": { "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "title": "Name" },
            "age": { "type": "integer", "minimum": 0 },
            "drink": { "type": "string", "enum": ["tea", "coffee"] },
            "sugar": { "type": "boolean", "title": "Sugar" },
            "parts": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] } },
        } },
    });
    let address = json!({
        "sessionId": "{sessionId}", "mode": "url", "elicitationId": "login", "message": "Log in",
        "url": "https://example.com/login",
    });
    scripted("forms", |turn| {
        turn.request("session/request_permission", command)
            .request("elicitation/create", form)
            .request("elicitation/create", address)
            .say("thank you")
    });
}

#[test]
fn page_shows_what_a_hostile_agent_sends_as_text() {
    let call = |number: u64| {
        let id = format!("call-{number}");
        json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "<b>x</b>", "status": "completed" })
    };
    let line: Value = json!({ "type": "text", "text": "x".repeat(10_000_000) });
    scripted("hostile", |turn| {
        let turn = turn.say(HOSTILE);
        let turn = (0..3000).fold(turn, |turn, number| turn.update(call(number)));
        turn.update(json!({ "sessionUpdate": "agent_message_chunk", "content": line }))
            .update(call(9999))
            .say("the end of it")
    });
}
