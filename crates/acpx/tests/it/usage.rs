//! Mistakes on the command line and in the configuration, help and version, as the shell sees them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::acpx::{Done, Place};

fn mistake(message: &str, hint: &str) -> serde_json::Value {
    let data = json!({"acpxCode": "USAGE", "detailCode": "USAGE", "origin": "cli", "retryable": false, "hint": hint});
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": message, "data": data}})
}

#[test]
fn usage_error_exits_with_2_and_prints_text_or_json() {
    let place = Place::new();
    let (message, hint) = (
        "unexpected argument '--bogus' found",
        "acpx help exec lists its flags; to send it to the agent, put it after --",
    );
    let text = Done { out: String::new(), err: format!("acpx: {message}\nhint: {hint}\n"), code: Some(2) };
    assert_eq!(place.acpx(&["claude", "exec", "--bogus", "hi"]), text);
    let quiet = format!("[acpx] error: USAGE {message}\n");
    let found = place.acpx(&["--format", "quiet", "status", "--bogus"]);
    assert_eq!(found, Done { out: String::new(), err: quiet, code: Some(2) });
    for (line, hint) in [
        (&["--format", "json", "claude", "exec", "--bogus"][..], hint),
        (&["sessions", "show", "--bogus", "--format=json"], "acpx help sessions show lists its flags"),
        (&["exec", "--bogus", "--format", "json", "--json-strict"], hint),
    ] {
        let found = place.acpx(line);
        assert_eq!(
            (found.json(), found.err.as_str(), found.code),
            (mistake(message, hint), "", Some(2)),
            "{line:?}"
        );
    }
    // The format is found wherever it stands, also behind words that mean nothing.
    let found = place.acpx(&["--nope", "a", "--nope2", "b", "--format", "json", "--json-strict", "status"]);
    let code = (&found.json()["error"]["code"], &found.json()["error"]["data"]["acpxCode"]);
    assert_eq!((code, found.err.as_str(), found.code), ((&json!(-32602), &json!("USAGE")), "", Some(2)));
    place.configure(r#"{"format":"json"}"#);
    assert_eq!(place.acpx(&["exec", "--bogus"]).json(), mistake(message, hint));
}

#[test]
fn unknown_word_is_never_an_agent() {
    let place = Place::new();
    let found = place.acpx(&["hepl", "--format", "json"]);
    let hint = "did you mean \"help\"? to prompt the default agent: acpx prompt hepl";
    assert_eq!(
        (found.json(), found.code),
        (mistake("\"hepl\" is neither a command nor an agent", hint), Some(2))
    );
    place.configure(r#"{"agents":{"hepl":{"argv":["true"]}}}"#);
    let known = place.acpx(&["hepl", "--format", "json", "status"]);
    assert_eq!((known.json()["status"].clone(), known.code), (json!("no-session"), Some(0)));
}

#[test]
fn a_name_that_cannot_be_is_refused_with_what_would_do() {
    let place = Place::new();
    for (name, hint) in [
        ("new\nline", "remove its control characters"),
        (" ", "leave the name out for the directory's unnamed session"),
    ] {
        let (code, told, exit) =
            place.acpx(&["--format", "json", "demo", "sessions", "new", "-s", name]).failure();
        assert_eq!((code.as_str(), told.as_str(), exit), ("USAGE", hint, Some(2)), "{name:?}");
    }
}

#[test]
fn strict_output_without_json_is_a_usage_error_in_json() {
    let found = Place::new().acpx(&["--json-strict", "status"]);
    let expected = mistake("--json-strict needs --format json", "add --format json");
    assert_eq!((found.json(), found.err.as_str(), found.code), (expected, "", Some(2)));
}

#[test]
fn an_argument_that_is_no_text_is_a_mistake() {
    let output = Command::new(env!("CARGO_BIN_EXE_acpx")).arg(OsStr::from_bytes(b"a\xff")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("acpx: an argument is not valid UTF-8: "), "{err}");
}

#[test]
fn help_and_version_need_neither_a_home_nor_a_configuration() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_acpx"))
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = run(&["--version"]);
    let words: Vec<&str> = version.split_whitespace().collect();
    assert_eq!(
        (words[..2].join(" "), version.lines().count()),
        (concat!("acpx ", env!("CARGO_PKG_VERSION")).into(), 1)
    );
    for line in [&["-V"][..], &["--format", "json", "--version"], &["claude", "--version"]] {
        assert_eq!(run(line), version);
    }
    for line in [&["--help"][..], &["help"], &["claude", "--help"]] {
        assert!(run(line).contains("acpx claude 'fix the tests' "), "{line:?}");
    }
    assert!(run(&["help", "sessions"]).contains("ensure"));
    let mut broken = Command::new(env!("CARGO_BIN_EXE_acpx"));
    let place = Place::new();
    place.configure("not JSON");
    let output = broken.arg("--version").env("ACPX_HOME", place.acpx_home()).output().unwrap();
    assert_eq!((output.stdout, output.status.code()), (version.as_bytes().to_vec(), Some(0)));
}

#[test]
fn a_broken_configuration_is_named_by_file_and_key() {
    let place = Place::new();
    let file = place.acpx_home().join("config.json");
    let shown = |message: &str, hint: &str| Done {
        out: String::new(),
        err: format!("acpx: {}{message}\nhint: {hint}\n", file.display()),
        code: Some(1),
    };
    place.configure(r#"{"agents":{"foo":{"argv":["a",1]}}}"#);
    let entry = "correct the entry; other agents are not affected";
    assert_eq!(
        place.acpx(&["foo", "hello"]),
        shown(": agents.foo.argv[1] must be a string; found a number", entry)
    );
    place.configure("{,}");
    let whole = "correct the file, or move it away";
    assert_eq!(
        place.acpx(&["status"]),
        shown(" is not JSON: key must be a string at line 1 column 2", whole)
    );
    let found = place.acpx(&["status", "--format", "json"]).json();
    assert_eq!(found["error"]["data"]["detailCode"], "CONFIG_INVALID");
}

#[test]
fn a_directory_that_cannot_be_worked_in_is_a_mistake() {
    let place = Place::new();
    let missing = place.work().join("missing");
    let err = format!(
        "acpx: cannot work in {}: No such file or directory\nhint: name a directory that exists with --cwd\n",
        missing.display()
    );
    assert_eq!(place.acpx(&["status", "--cwd", "missing"]), Done { out: String::new(), err, code: Some(2) });
}

#[test]
fn empty_prompt_is_a_usage_error() {
    let place = Place::new();
    let hint = "give the prompt as words, with --file, or through a pipe";
    for (line, message) in [
        (&["--format", "json", "demo"][..], "the prompt from stdin is empty"),
        (&["--format", "json"], "the prompt from stdin is empty"),
        (&["--format", "json", "exec", " "], "the prompt is empty"),
    ] {
        let found = place.acpx(line);
        let error = &found.json()["error"];
        let seen = (&error["message"], &error["data"]["detailCode"], &error["data"]["hint"], found.code);
        assert_eq!(seen, (&json!(message), &json!("BAD_PROMPT"), &json!(hint), Some(2)), "{line:?}");
    }
}
