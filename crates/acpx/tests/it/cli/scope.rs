//! Which session a command means: the agent, the real path of the directory, the name, and how far up it looks.

use std::fs;

use serde_json::{Value, json};

use acpx_testkit::Script;

use crate::acpx::{Place, text};
use crate::editor::Editor;

fn id(value: &Value) -> String {
    value["acpxRecordId"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

#[test]
fn session_is_found_by_the_real_path_of_its_directory() {
    let place = Place::new();
    let new = id(&place.json(&["demo", "sessions", "new"]));
    let link = place.path_of("link");
    std::os::unix::fs::symlink(place.work(), &link).unwrap();
    let found = place.acpx_in(&link, &["--format", "json", "demo", "status"]);
    assert_eq!(id(&found.json()), new);
    let by_flag = place.json(&["--cwd", &text(&link), "demo", "sessions", "ensure"]);
    assert_eq!((id(&by_flag), &by_flag["created"]), (new.clone(), &json!(false)));
    let relative =
        place.acpx_in(&place.path_of(""), &["--cwd", "work", "--format", "json", "demo", "status"]);
    assert_eq!(id(&relative.json()), new);
}

#[test]
fn commands_find_the_session_further_up_but_not_above_the_git_root() {
    let place = Place::new();
    let deep = place.work().join("repository/a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(place.work().join("repository/.git")).unwrap();
    place.ok(&["demo", "sessions", "new"]);
    let outside = place.acpx_in(&deep, &["--format", "json", "demo", "hello"]);
    assert_eq!(outside.failure().0, "NO_SESSION");
    let root = place.work().join("repository");
    assert!(
        outside.json()["error"]["message"].as_str().unwrap().ends_with(&format!("up to {}", root.display()))
    );
    let made = place.acpx_in(&root, &["--format", "json", "demo", "sessions", "ensure"]);
    let (made, created) = (id(&made.json()), made.json()["created"].clone());
    assert_eq!(created, true);
    for verb in [
        &["sessions", "ensure"][..],
        &["status"],
        &["sessions", "show"],
        &["sessions", "history"],
        &["cancel"],
    ] {
        let found = place.acpx_in(&deep, &[&["--format", "json", "demo"], verb].concat());
        assert_eq!(id(&found.json()), made, "{verb:?}");
    }
    let routed = place.acpx_in(&deep, &["demo", "hello"]);
    assert!(routed.err.contains("(routed from ./a/b)"), "{routed:?}");
    // The agent works where its session is, and not where the prompt came from.
    let closed = place.acpx_in(&deep, &["--format", "json", "demo", "sessions", "close"]);
    assert_eq!(id(&closed.json()), made);
    let new = place.acpx_in(&deep, &["--format", "json", "demo", "sessions", "new"]).json();
    assert_ne!(id(&new), made);
    assert_eq!(place.acpx_in(&root, &["--format", "json", "demo", "status"]).json()["status"], "no-session");
}

#[test]
fn a_directory_has_a_session_for_each_name_and_one_without() {
    let place = Place::new();
    let plain = id(&place.json(&["demo", "sessions", "new"]));
    let api = id(&place.json(&["demo", "sessions", "new", "--name", "api"]));
    let web = id(&place.json(&["demo", "-s", "web", "sessions", "ensure"]));
    assert_eq!(id(&place.json(&["demo", "status"])), plain);
    assert_eq!(id(&place.json(&["demo", "status", "-s", "api"])), api);
    assert_eq!(id(&place.json(&["demo", "sessions", "show", "web"])), web);
    assert_eq!(id(&place.json(&["demo", "-s", "api", "hello"])), api);
    assert_eq!(id(&place.json(&["demo", "prompt", "--session", "web", "hello"])), web);
    let unknown = place.acpx(&["--format", "json", "demo", "sessions", "close", "nope"]);
    let hint = "acpx sessions list shows the sessions there are".to_owned();
    assert_eq!(unknown.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
    place.ok(&["demo", "sessions", "close", "api"]);
    assert_eq!(place.json(&["demo", "status", "-s", "api"])["status"], "no-session");
    let replaced = place.json(&["demo", "sessions", "new", "-s", "web"]);
    assert_eq!(replaced["replacedRecordId"], web.as_str());
    let empty = place.acpx(&["--format", "json", "demo", "prompt", "-s", " ", "x"]);
    assert_eq!((empty.failure().0.as_str(), empty.code), ("USAGE", Some(2)));
}

#[test]
fn agent_whose_command_line_changed_keeps_its_sessions() {
    let place = Place::new();
    let (old, new) = (place.path_of("old-agent"), place.path_of("new-agent"));
    let configure = |program: &str| {
        let argv = [program, "demo-agent"];
        place.configure(&json!({ "agents": { "mine": { "argv": argv } } }).to_string());
    };
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_acpx"), &old).unwrap();
    configure(&text(&old));
    let made = id(&place.json(&["mine", "sessions", "new"]));
    place.ok(&["mine", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    fs::rename(&old, &new).unwrap();
    configure(&text(&new));
    assert_eq!(id(&place.json(&["mine", "status"])), made);
    let said = place.ok(&["mine", "recall"]);
    assert!(said.contains("1. My name is Ada."), "{said}");
    let shown = place.json(&["mine", "sessions", "show"]);
    assert_eq!((id(&shown), &shown["agentArgv"][0]), (made, &json!(text(&new))));
}

#[test]
fn an_agent_without_a_name_is_its_whole_command_line() {
    let place = Place::new();
    let line = format!("{} demo-agent", env!("CARGO_BIN_EXE_acpx"));
    let other = format!("{line} --no-load");
    let made = id(&place.json(&["--agent", &line, "sessions", "new"]));
    assert_eq!(id(&place.json(&["--agent", &line, "status"])), made);
    assert_eq!(place.json(&["--agent", &other, "status"])["status"], "no-session");
    assert_eq!(place.json(&["demo", "status"])["status"], "no-session");
    assert_eq!(place.json(&["--agent", &line, "-s", "x", "sessions", "ensure"])["created"], true);
}

#[test]
fn two_who_make_a_session_at_once_leave_one() {
    let place = Place::new();
    let ensure = ["--format", "json", "demo", "sessions", "ensure"];
    let both = [place.start(&ensure), place.start(&ensure), place.start(&ensure)];
    let made: Vec<Value> = both.map(|started| started.done().json()).to_vec();
    assert!(made.iter().all(|one| id(one) == id(&made[0])), "{made:?}");
    assert_eq!(made.iter().filter(|one| one["created"] == true).count(), 1, "{made:?}");
    let new = ["--format", "json", "demo", "sessions", "new", "--name", "n"];
    let three = [place.start(&new), place.start(&new), place.start(&new)];
    let made: Vec<Value> = three.map(|started| started.done().json()).to_vec();
    assert_eq!(made.iter().filter(|one| one.get("replacedRecordId").is_none()).count(), 1, "{made:?}");
    let rows = place.json(&["demo", "sessions", "list"]);
    let open = rows.as_array().unwrap().iter().filter(|row| row["name"] == "n" && row["closed"] == false);
    assert_eq!(open.count(), 1, "{rows}");
}

#[test]
fn reopened_session_has_its_name_again_unless_another_session_has_it() {
    let place = Place::new();
    let first = id(&place.json(&["demo", "sessions", "new", "-s", "api"]));
    place.ok(&["demo", "sessions", "close", "api"]);
    let (code, hint, exit) = place.acpx(&["--format", "json", "demo", "-s", "api", "hello"]).failure();
    assert_eq!((code.as_str(), exit), ("NO_SESSION", Some(4)));
    let create = "create one: acpx demo sessions new --name api, or add --create";
    assert_eq!(hint, format!("one is closed; continue it: acpx demo -s {first} …; or {create}"));
    place.ok(&["demo", "-s", &first, "hello"]);
    assert_eq!(id(&place.json(&["demo", "-s", "api", "status"])), first);
    let second = place.json(&["demo", "sessions", "new", "-s", "api"]);
    assert_eq!(second["replacedRecordId"], first.as_str());
    // The name is taken: what is gone on with by its id is found by its id.
    place.ok(&["demo", "-s", &first, "hello"]);
    assert_eq!(id(&place.json(&["demo", "-s", "api", "status"])), id(&second));
    let shown = place.json(&["sessions", "show", &first]);
    assert_eq!((&shown["closed"], shown.get("name")), (&json!(false), None));
}

#[test]
fn editor_session_is_marked_in_the_list_and_suggested_by_the_shell() {
    let place = Place::new();
    let closed = id(&place.json(&["demo", "sessions", "new"]));
    place.ok(&["demo", "sessions", "close"]);
    let mut editor = Editor::new(&place);
    let cwd = format!("{}/", place.work().display());
    let answer = editor.call("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    // Only the shell lists what was never prompted.
    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(closed));
    let rows = place.json(&["demo", "sessions", "list"]);
    let marks = rows.as_array().unwrap().iter().map(|row| (id(row), row.get("byIdOnly").cloned()));
    assert_eq!(marks.collect::<Vec<_>>(), [(session.clone(), Some(json!(true))), (closed.clone(), None)]);
    let text = place.ok(&["demo", "sessions", "list"]);
    let columns: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').take(3).collect()).collect();
    let work = place.work().display().to_string();
    assert_eq!(columns, [[&*session, "[by id]", &*work], [&*format!("{closed} [closed]"), "-", &*work]]);
    // An open one is named before one that is closed, with the line that goes on in it.
    let alone = "1 open session here has no name, as those of editors";
    let hint = |line: &[&str]| place.acpx(&[&["--format", "json", "demo"], line].concat()).failure().1;
    let first = "create one: acpx demo sessions new";
    let create = format!("{first}, or add --create");
    // One that was never prompted is suggested to nobody.
    let go_on = format!("one is closed; continue it: acpx demo -s {closed} …; or {create}");
    assert_eq!(hint(&["hello"]), go_on);
    assert_eq!(place.acpx(&["demo", "status"]).err, "");
    place.ok(&["demo", "-s", &session, "hello"]);
    assert_eq!(hint(&["hello"]), format!("{alone}; continue it: acpx demo -s {session} …; or {create}"));
    let looked = place.acpx(&["demo", "status"]);
    let go_on = format!("[acpx] {alone}; continue it: acpx demo -s {session} …; or {first}\n");
    assert_eq!((looked.err, looked.code), (go_on, Some(0)));
    let close = format!("{alone}; close it: acpx demo sessions close {session}");
    assert_eq!(hint(&["sessions", "close"]), close);
    // The editor hears of its directory as it has written it, and people see the same directory twice.
    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"][0]["cwd"], json!(cwd));
    place.ok(&["demo", "sessions", "close", &session]);
    assert_eq!(hint(&["sessions", "close"]), format!("the last one there, {closed}, is closed already"));
    let delete = format!("one is closed; delete it: acpx demo sessions delete {closed}");
    assert_eq!(hint(&["sessions", "delete"]), delete);
}

#[test]
fn commands_in_a_directory_mention_the_session_an_editor_began_there() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let answer = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    place.ok(&["demo", "-s", &session, "hello"]);
    let alone = "1 open session here has no name, as those of editors";
    for verb in ["show", "history", "replay", "watch"] {
        let done = place.acpx(&["--format", "json", "demo", "sessions", verb]);
        let hint = format!("{alone}; show it: acpx demo sessions {verb} {session}");
        assert_eq!(done.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
        let named = place.acpx(&["--format", "json", "demo", "sessions", verb, "nope"]);
        assert_eq!(named.failure().1, "acpx sessions list shows the sessions there are");
    }
}

#[test]
fn id_known_only_to_the_agent_is_reported_as_loadable_by_editors() {
    let unknown = "01a1e405-d0db-7598-beaa-ca4387eff252";
    let here = "acpx sessions list shows the sessions there are";
    let there = "one that only the agent has, marked [remote] by acpx demo sessions list --remote, can be opened with \
                 session/load by an editor that runs acpx demo acp";
    for (flags, hint) in [(&[][..], format!("{here}; {there}")), (&["--no-list"], here.to_owned())] {
        let place = Place::new();
        place.demo_with(flags);
        place.ok(&["demo", "sessions", "new", "-s", "api"]);
        for line in [&["-s", unknown, "hello"][..], &["sessions", "history", unknown]] {
            let done = place.acpx(&[&["--format", "json", "demo"], line].concat());
            assert_eq!(done.failure(), ("NO_SESSION".to_owned(), hint.clone(), Some(4)), "{line:?}");
        }
        let deleted = place.acpx(&["--format", "json", "demo", "sessions", "delete", unknown]);
        assert_eq!(deleted.failure().1, here);
    }
}

#[test]
fn an_id_that_is_unknown_is_not_offered_as_a_name() {
    let place = Place::new();
    let unknown = "01a1e405-d0db-7598-beaa-ca4387eff252";
    let done = place.acpx(&["--format", "json", "demo", "-s", unknown, "hello"]);
    let hint = "acpx sessions list shows the sessions there are".to_owned();
    assert_eq!(done.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
}

#[test]
fn error_without_a_session_names_the_searched_directories() {
    let place = Place::new();
    let (plain, root) = (place.work().join("plain"), place.work().join("repository"));
    std::fs::create_dir_all(root.join("below")).unwrap();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::create_dir(&plain).unwrap();
    let above = "; nothing above it was searched, as it is in no git repository";
    let up_to = format!(" or above, up to {}", root.display());
    for (directory, more) in [(plain, above), (root.join("below"), &up_to), (root, "")] {
        let done = place.acpx_in(&directory, &["demo", "hello"]);
        let said = format!("acpx: there is no session of demo in {}{more}\n", directory.display());
        assert!(done.err.starts_with(&said), "{}", done.err);
    }
}

#[test]
fn session_is_found_by_id_from_any_directory_even_when_closed() {
    let place = Place::new();
    let elsewhere = place.path_of("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let made = place.json(&["demo", "sessions", "new"]);
    let record = made["acpxRecordId"].as_str().unwrap();
    place.ok(&["demo", "one"]);
    let away = |line: &[&str]| {
        let done = place.acpx_in(&elsewhere, &[&["--format", "json"], line].concat());
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
        done.lines().pop().unwrap()
    };
    // The agent is the session's own, whichever is the default here.
    let found: [&[&str]; 6] = [
        &["demo", "status", "-s", record],
        &["sessions", "show", record],
        &["sessions", "history", record],
        &["prompt", "-s", record, "two"],
        &["demo", "cancel", "-s", record],
        &["demo", "sessions", "close", record],
    ];
    for line in found {
        assert_eq!(away(line)["acpxRecordId"], made["acpxRecordId"], "{line:?}");
    }
    let closed = away(&["sessions", "show", record]);
    assert_eq!((&closed["closed"], &closed["agentName"]), (&json!(true), &json!("demo")));
    // A prompt takes it up again, with all that was said.
    let recalled = place.acpx_in(&elsewhere, &["--format", "quiet", "demo", "-s", record, "recall"]);
    assert_eq!(recalled.out, "You said before:\n1. one\n2. two\n", "{recalled:?}");
    let (code, hint, exit) =
        place.acpx(&["--format", "json", "sessions", "show", "nothing like it"]).failure();
    assert_eq!((code.as_str(), exit), ("NO_SESSION", Some(4)));
    assert_eq!(hint, "acpx sessions list shows the sessions there are");
}

#[test]
fn session_id_of_another_agent_is_refused_with_the_right_command() {
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    let made = place.json(&["demo", "sessions", "new"]);
    let id = made["acpxRecordId"].as_str().unwrap();
    let message = format!("the session {id} is with demo, and not with scripted");
    let hint = "type acpx demo in place of acpx scripted, or leave the agent out";
    let commands: [&[&str]; 7] = [
        &["-s", id, "hello"],
        &["-s", id, "status"],
        &["-s", id, "cancel"],
        &["set", "-s", id, "mode", "plan"],
        &["sessions", "show", id],
        &["sessions", "move", id],
        &["sessions", "delete", id],
    ];
    for command in commands {
        let done = place.acpx(&[&["scripted"], command].concat());
        assert_eq!(
            (done.err, done.code),
            (format!("acpx: {message}\nhint: {hint}\n"), Some(4)),
            "{command:?}"
        );
    }
    // Without an agent an id means its session, and so it does with the agent's own command line.
    assert_eq!(place.json(&["sessions", "show", id])["acpxRecordId"], id);
    let line = format!("{} demo-agent", env!("CARGO_BIN_EXE_acpx"));
    assert_eq!(place.json(&["--agent", &line, "sessions", "show", id])["acpxRecordId"], id);
}
