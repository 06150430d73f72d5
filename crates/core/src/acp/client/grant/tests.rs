use serde_json::json;

use super::*;

fn permission(call: &Value) -> PermissionRequest {
    PermissionRequest::read(&json!({ "toolCall": call, "options": [] }).to_string(), |_| None)
}

fn request(method: &str, params: &Value) -> ToolRequest {
    ToolRequest::read(method, &params.to_string()).unwrap().unwrap()
}

#[test]
fn permission_covers_a_command_contained_word_for_word() {
    let asked = permission(&json!({ "rawInput": { "command": "make it", "note": "unseen" } }));
    let is_about = |params: Value| {
        let mut whole = json!({ "sessionId": "s", "command": "make it" });
        whole.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        asked.is_about(&request("terminal/create", &whole), None, "/w")
    };
    assert!(is_about(json!({})));
    assert!(is_about(json!({ "cwd": "/w", "outputByteLimit": 50_000 })));
    let others = [
        json!({ "command": "make" }),
        json!({ "command": "make it so" }),
        json!({ "command": "unseen" }),
        json!({ "args": ["so"] }),
        json!({ "env": [{ "name": "LD_PRELOAD", "value": "x" }] }),
        json!({ "cwd": "/w/below" }),
    ];
    for other in others {
        assert!(!is_about(other.clone()), "{other}");
    }
}

#[test]
fn permission_with_args_or_env_does_not_cover_the_bare_command() {
    let run = request("terminal/create", &json!({ "sessionId": "s", "command": "sh" }));
    let is_about = |input: Value| permission(&json!({ "rawInput": input })).is_about(&run, None, "/w");
    assert!(is_about(json!({ "command": "sh", "args": [], "env": {}, "cwd": "/w" })));
    assert!(is_about(json!({ "command": "sh", "args": null, "env": [], "cwd": null })));
    let others = [
        json!({ "command": "sh", "args": ["-c", "echo"] }),
        json!({ "command": "sh", "args": "-c" }),
        json!({ "command": "sh", "env": { "DRY_RUN": "1" } }),
        json!({ "command": "sh", "cwd": "/w/below" }),
        json!({ "command": ["sh"] }),
    ];
    for other in others {
        assert!(!is_about(other.clone()), "{other}");
    }
}

fn write(path: &str, content: &str) -> ToolRequest {
    request("fs/write_text_file", &json!({ "sessionId": "s", "path": path, "content": content }))
}

#[test]
fn permission_covers_a_write_with_its_path_and_text() {
    let old = PreviousContent::Text("old".into());
    let by_input = permission(&json!({ "rawInput": { "path": "/w/a", "content": "new" } }));
    let diff = json!({ "type": "diff", "path": "/w/a", "oldText": "old", "newText": "new" });
    let by_diff = permission(&json!({ "rawInput": { "filepath": "/w/a" }, "content": [diff] }));
    for asked in [by_input, by_diff] {
        assert!(asked.is_about(&write("/w/a", "new"), Some(&old), "/w"));
        assert!(!asked.is_about(&write("/w/b", "new"), Some(&old), "/w"));
        assert!(!asked.is_about(&write("/w/a", "newer"), Some(&old), "/w"));
    }
    for nothing in [json!(null), json!([]), json!({ "rawInput": "/w/a" }), json!({ "content": "new" })] {
        assert!(!permission(&nothing).is_about(&write("/w/a", "new"), None, "/w"), "{nothing}");
    }
}

#[test]
fn permission_covers_no_write_that_differs_from_its_diff_or_input() {
    let (evil, nothing) = (write("/w/x", "evil"), Some(&PreviousContent::Nothing));
    let diff = |path: &str, new: &str| json!({ "type": "diff", "path": path, "newText": new });
    let input = json!({ "path": "/w/x", "content": "evil" });
    let cases = [
        json!({ "content": [{ "type": "content", "path": "/w/x", "newText": "evil" }] }),
        json!({ "rawInput": input, "content": [diff("/w/x", "good")] }),
        json!({ "rawInput": { "filepath": "/w/x", "content": "evil" }, "content": [diff("/w/y", "")] }),
        json!({ "rawInput": { "path": "/w/y", "file": "/w/x", "content": "evil" } }),
        json!({ "rawInput": { "command": "ls", "path": "/w/x", "content": "evil" } }),
        json!({ "content": [diff("/w/y", ""), diff("/w/x", "evil")] }),
    ];
    for case in cases {
        assert!(!permission(&case).is_about(&evil, nothing, "/w"), "{case}");
    }
    assert!(permission(&json!({ "rawInput": input })).is_about(&evil, nothing, "/w"));
    assert!(permission(&json!({ "content": [diff("/w/x", "evil")] })).is_about(&evil, nothing, "/w"));
}

#[test]
fn a_difference_from_what_the_file_does_not_have_is_no_permission() {
    let is_about = |said: Value, old: Option<&PreviousContent>| {
        let diff = json!({ "type": "diff", "path": "/w/x", "oldText": said, "newText": "evil" });
        permission(&json!({ "content": [diff] })).is_about(&write("/w/x", "evil"), old, "/w")
    };
    let good = PreviousContent::Text("good".into());
    assert!(is_about(json!("good"), Some(&good)));
    // Without an old text the whole new text is shown.
    assert!(is_about(json!(null), Some(&good)));
    assert!(is_about(json!(""), Some(&good)));
    assert!(!is_about(json!("evil"), Some(&good)));
    assert!(!is_about(json!(["evil"]), Some(&good)));
    for other in [None, Some(&PreviousContent::Nothing), Some(&PreviousContent::Unshown(4))] {
        assert!(!is_about(json!("good"), other), "{other:?}");
    }
}
