//! The project's `.acpxrc.json`: what holds of it before and after `acpx trust`, and what `acpx config` shows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};

fn project_file(place: &Place) -> PathBuf {
    place.work().canonicalize().unwrap().join(".acpxrc.json")
}

/// Writes the project's file, readable for all.
fn write(place: &Place, value: &Value) {
    fs::write(project_file(place), value.to_string()).unwrap();
    fs::set_permissions(project_file(place), fs::Permissions::from_mode(0o644)).unwrap();
}

fn demo() -> Value {
    json!({ "argv": [env!("CARGO_BIN_EXE_acpx"), "demo-agent"] })
}

fn shown(place: &Place) -> Value {
    place.json(&["config", "show"])
}

#[test]
fn a_project_agent_starts_only_after_trust_and_not_after_a_change() {
    let place = Place::new();
    fs::create_dir_all(place.work().join(".git")).unwrap();
    fs::create_dir_all(place.work().join("sub")).unwrap();
    let file = text(project_file(&place));
    write(&place, &json!({ "agents": { "theirs": demo() }, "format": "quiet" }));
    let hint = format!(
        "the project's file {file} defines the agent theirs, but is not trusted as it is now; to review and allow it: \
         acpx trust"
    );
    for (line, code) in
        [(&["theirs", "exec", "hello"][..], "USAGE"), (&["compare", "demo", "theirs", "hi"], "AGENT_UNKNOWN")]
    {
        let unknown = place.acpx(&[&["--format", "json"][..], line].concat());
        assert_eq!(unknown.failure(), (code.to_owned(), hint.clone(), Some(2)), "{unknown:?}");
    }
    let exec = place.acpx(&["demo", "exec", "hello"]).without_tokens();
    let notice = format!(
        "[acpx] {file} is not trusted; not in force: agents, format; to review and allow it: acpx trust\n"
    );
    assert_eq!(
        (exec.out.as_str(), exec.err.as_str()),
        ("You said: hello\n\n[done] end_turn\n", notice.as_str())
    );

    let unconfirmed = place.acpx(&["--format", "json", "trust"]);
    assert_eq!((unconfirmed.failure().0.as_str(), unconfirmed.code), ("USAGE", Some(2)));
    let sub = text(place.work().join("sub"));
    let trusted = place.json(&["--cwd", &sub, "trust", "--yes"]);
    let argv = json!([env!("CARGO_BIN_EXE_acpx"), "demo-agent"]).to_string();
    assert_eq!(
        (&trusted["path"], &trusted["settings"]),
        (&json!(file), &json!({ "agents.theirs.argv": argv, "format": "\"quiet\"" }))
    );
    let mode = fs::metadata(place.acpx_home().join("trusted.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(place.ok(&["--cwd", &sub, "theirs", "exec", "hello"]), "You said: hello\n");

    write(&place, &json!({ "agents": { "theirs": { "argv": ["/bin/false"] } } }));
    let changed = place.acpx(&["demo", "exec", "hello"]);
    assert!(changed.err.contains("has changed since it was trusted; not in force: agents;"), "{changed:?}");
    let files = place.json(&["trust", "list"])["files"].clone();
    assert_eq!((&files[0]["path"], &files[0]["state"]), (&json!(file), &json!("changed")));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(place.json(&["trust", "list"])["files"][0]["state"], "refused");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let review = place.ok(&["trust", "--yes"]);
    let lines: Vec<&str> = review.lines().collect();
    let before = format!("- agents.theirs.argv = {argv}");
    let expected = [
        &format!("{file} has changed since it was trusted"),
        &before,
        "- format = \"quiet\"",
        "+ agents.theirs.argv = [\"/bin/false\"]",
        &format!("trusted {file}"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(place.json(&["trust", "revoke"])["revoked"], json!(true));
    assert_eq!(place.json(&["trust", "revoke", &file])["revoked"], json!(false));
}

#[test]
fn trust_review_shows_variables_and_ignored_keys() {
    let place = Place::new();
    let mut agent = demo();
    agent["env"] = json!({ "LD_PRELOAD": "./lib.so", "API_TOKEN": "s3cret" });
    write(&place, &json!({ "agents": { "theirs": agent }, "modle": "opus" }));
    let argv = json!([env!("CARGO_BIN_EXE_acpx"), "demo-agent"]);
    let file = text(project_file(&place));
    let expected = [
        &format!("{file} sets"),
        &format!("  agents.theirs.argv = {argv}"),
        "  agents.theirs.env.API_TOKEN = (not shown)",
        "  agents.theirs.env.LD_PRELOAD = \"./lib.so\"",
        "  modle = (unknown, ignored)",
        &format!("trusted {file}"),
    ];
    assert_eq!(place.ok(&["trust", "--yes"]).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_flag_overrides_the_project_and_the_project_the_home() {
    let place = Place::new();
    place.configure(
        r#"{"ttl":1,"timeout":2,"format":"quiet","auth":{"b":"s3cret","a":"s3cret"},
        "agents":{"mine":{"command":"./mine --acp"},"both":{"command":"x","args":["a b"]}}}"#,
    );
    write(&place, &json!({ "timeout": null, "idleTimeout": 3.5, "agents": { "both": { "argv": ["y"] } } }));
    place.ok(&["--format", "quiet", "trust", "--yes"]);
    let shown = place.acpx(&["--format", "json", "--ttl", "9", "config"]);
    assert!(!shown.out.contains("s3cret"), "{shown:?}");
    let home = text(place.acpx_home().join("config.json"));
    let origins = json!({
        "defaultAgent": "built-in", "defaultPermissions": "built-in", "nonInteractivePermissions": "built-in",
        "authPolicy": "built-in", "ttl": "flag", "timeout": "project", "idleTimeout": "project",
        "queueMaxDepth": "built-in", "maxCost": "built-in", "maxTokens": "built-in", "format": "global", "agents.mine": "global", "agents.both": "project",
        "authMethods.a": "global", "authMethods.b": "global", "disableExec": "built-in",
        "keepPrograms": "built-in", "index": "built-in", "notify": "built-in", "mcpServers": "built-in",
        "recall": "built-in", "paths.global": "environment", "paths.project": "built-in",
    });
    let expected = json!({
        "defaultAgent": "codex", "defaultPermissions": "approve-reads", "nonInteractivePermissions": "deny",
        "authPolicy": "skip", "ttl": 9, "timeout": null, "idleTimeout": 3.5, "queueMaxDepth": 256,
        "maxCost": null, "maxTokens": null, "format": "quiet",
        "agents": { "mine": { "command": "./mine --acp" }, "both": { "argv": ["y"] } },
        "authMethods": ["a", "b"], "disableExec": false, "keepPrograms": [], "mcpServers": [], "recall": false,
        "index": { "enabled": true, "exclude": [], "excludeAgents": [] }, "notify": { "sinks": [] },
        "paths": { "global": home, "project": text(project_file(&place)) },
        "loaded": { "global": true, "project": true },
        "origins": origins,
    });
    assert_eq!(serde_json::from_str::<Value>(&shown.out).unwrap(), expected);
    // Text in a pipe is the same JSON on many lines, as npm acpx has it.
    let pretty = place.ok(&["--format", "text", "config"]);
    assert!(pretty.starts_with("{\n  \"defaultAgent\": \"codex\",\n"), "{pretty}");
    let variable = Done::of(place.command(&["--format", "json", "config"]).env("ACPX_AUTH_A", "s3cret"));
    assert_eq!(variable.json()["origins"]["authMethods.a"], "environment");
}

#[test]
fn config_init_creates_a_private_valid_file_once() {
    let place = Place::new();
    let file = place.acpx_home().join("config.json");
    let path = text(&file);
    assert_eq!(place.ok(&["config", "init"]), format!("Created {path}\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["defaultPermissions"], "approve-reads");
    assert_eq!(shown(&place)["loaded"], json!({ "global": true, "project": false }));
    fs::write(&file, "{}").unwrap();
    assert_eq!(place.ok(&["config", "init"]), format!("Config already exists: {path}\n"));
    assert_eq!(place.json(&["config", "init"]), json!({ "path": path, "created": false }));
    assert_eq!(place.ok(&["--format", "quiet", "config", "init"]), format!("{path}\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn programs_of_an_agent_cannot_trust_or_create_the_configuration() {
    let place = Place::new();
    write(&place, &json!({ "agents": { "theirs": demo() } }));
    let acpx = env!("CARGO_BIN_EXE_acpx");
    let line = format!(
        "{acpx} --format json trust --yes > trust.out; {acpx} --format json trust revoke > revoke.out; \
         {acpx} --format json config init > init.out; exec \"$@\""
    );
    let script = place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    let argv = [&["sh", "-c", &line, "sh"].map(str::to_owned)[..], &script].concat();
    place.configure(&json!({ "agents": { "mine": { "argv": argv } } }).to_string());
    place.ok(&["mine", "sessions", "new"]);
    for file in ["trust.out", "revoke.out", "init.out"] {
        let out = fs::read_to_string(place.work().join(file)).unwrap();
        let refused: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(refused["error"]["data"]["detailCode"], "NOT_ALLOWED", "{file}: {out}");
    }
    assert!(!place.acpx_home().join("trusted.json").exists());
}

#[test]
fn project_servers_are_left_out_of_a_restore_after_a_change() {
    let place = Place::new();
    let server = json!({ "name": "theirs", "command": env!("CARGO_BIN_EXE_acpx"), "args": ["demo-agent"] });
    write(&place, &json!({ "mcpServers": [server] }));
    place.ok(&["--format", "quiet", "trust", "--yes"]);
    let script = Script::new().initialize(json!({ "loadSession": true })).session_new("s1");
    let argv = place.scripted(&script);
    place.configure(&json!({ "agents": { "mine": { "argv": argv } } }).to_string());
    let record = place.json(&["mine", "sessions", "new"])["acpxRecordId"].clone();
    write(&place, &json!({ "mcpServers": [{ "name": "theirs", "command": "/bin/sh" }] }));
    let checks = place.acpx(&["--format", "json", "mine", "doctor", "-s", record.as_str().unwrap()]);
    let untrusted = format!("{} is not trusted as it is now", project_file(&place).display());
    assert!(checks.out.contains(&untrusted), "{checks:?}");
}

#[test]
fn a_project_file_of_another_user_is_not_read() {
    let place = Place::new();
    write(&place, &json!({ "format": "json" }));
    // Only root can give a file away; others see the same with an injected user in the tests of `config::project`.
    if rustix::process::geteuid().is_root() {
        chown(project_file(&place), Some(65_534), None).unwrap();
        let status = place.acpx(&["demo", "status"]);
        let notice = format!(
            "[acpx] {} is not read: it belongs to another user (uid 65534)\n",
            project_file(&place).display()
        );
        assert_eq!(status.err, notice);
        assert!(!status.out.starts_with('{'), "{status:?}");
        assert_eq!(shown(&place)["loaded"]["project"], json!(false));
    }
}

#[test]
fn a_damaged_project_file_stops_what_starts_an_agent_and_nothing_else() {
    let place = Place::new();
    place.configure(r#"{"defaultAgent":"demo"}"#);
    fs::write(project_file(&place), "{\n  \"ttl\": 3,\n}").unwrap();
    let file = project_file(&place).display().to_string();
    let problem = format!("{file} is not JSON: trailing comma at line 3 column 1");
    let refused = place.acpx(&["--format", "json", "exec", "hello"]);
    assert_eq!(refused.failure().0, "CONFIG_INVALID");
    assert_eq!(refused.json()["error"]["message"], json!(problem));
    let listed = place.acpx(&["sessions", "list"]);
    assert_eq!((listed.code, listed.err), (Some(0), format!("[acpx] {problem}; nothing of it is used\n")));
}
