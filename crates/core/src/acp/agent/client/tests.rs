//! Every requested version, and every member of `initialize` that describes the client.

use serde_json::json;

use super::*;

fn read(params: &Value, latest: ProtocolVersion) -> Result<ClientFacts, Value> {
    ClientFacts::read(Some(&params.to_string()), latest)
        .map_err(|error| serde_json::to_value(error.to_rpc()).unwrap())
}

fn spoken(asked: u16, latest: ProtocolVersion) -> Result<u16, Value> {
    let info = json!({ "name": "n", "version": "1" });
    let facts = read(&json!({ "protocolVersion": asked, "info": info }), latest);
    facts.map(|facts| facts.protocol.number())
}

#[test]
fn the_highest_version_at_or_below_the_one_asked_for_is_spoken() {
    let unsupported = json!({
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": { "requested": 0, "supported": [1, 2] },
    });
    assert_eq!(spoken(0, ProtocolVersion::V2), Err(unsupported));
    for (asked, answered) in [(1, 1), (2, 2), (3, 2), (65_535, 2)] {
        assert_eq!(spoken(asked, ProtocolVersion::V2), Ok(answered), "{asked}");
    }
    for asked in [0, 1, 2, 65_535] {
        assert_eq!(spoken(asked, ProtocolVersion::V1), Ok(1), "{asked}");
    }
}

#[test]
fn a_version_is_a_number_of_16_bits_and_must_be_there() {
    let table = [
        (json!({}), "is missing"),
        (json!({ "protocolVersion": "1" }), "must be a whole number from 0 to 65535, not a string"),
        (json!({ "protocolVersion": null }), "must be a whole number from 0 to 65535, not null"),
        (json!({ "protocolVersion": 1.5 }), "must be a whole number from 0 to 65535, not the number 1.5"),
        (json!({ "protocolVersion": -1 }), "must be a whole number from 0 to 65535, not the number -1"),
        (json!({ "protocolVersion": 65536 }), "must be a whole number from 0 to 65535, not the number 65536"),
    ];
    for (params, problem) in table {
        for latest in [ProtocolVersion::V1, ProtocolVersion::V2] {
            let data = json!({ "field": "protocolVersion", "problem": problem });
            assert_eq!(read(&params, latest).unwrap_err()["data"], data);
        }
    }
    let twice = ClientFacts::read(Some(r#"{"protocolVersion":1,"protocolVersion":2}"#), ProtocolVersion::V2);
    assert_eq!(
        twice.unwrap_err().to_rpc().message,
        "Invalid params: protocolVersion is given more than once"
    );
    assert!(ClientFacts::read(None, ProtocolVersion::V2).is_err());
}

#[test]
fn a_client_of_version_1_is_read_from_its_places() {
    let params = json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "zed", "version": "1.2" },
        "clientCapabilities": {
            "fs": { "readTextFile": true, "writeTextFile": false },
            "terminal": true,
            "session": { "notices": {}, "compaction": null, "configOptions": { "boolean": {} } },
            "elicitation": { "form": {} },
            "subagents": {},
            "later": [1.0],
            "_meta": { "acpx": { "errorData": true }, "terminal-auth": true, "terminal_output": true },
        },
        "info": { "name": "elsewhere", "version": "0" },
        "_meta": { "a": 1 },
    });
    let expected = ClientFacts {
        protocol: ProtocolVersion::V1,
        name: Some("zed".into()),
        version: Some("1.2".into()),
        notices: true,
        compaction: false,
        boolean_options: true,
        elicitation: Elicitation { form: true, url: false },
        fs: FileAccess { read: true, write: false },
        terminal: true,
        terminal_login: TerminalLogin::WholeCommand,
        error_data: true,
        terminal_output: true,
        subagents: true,
        capabilities: ExtraParams::of(
            ProtocolVersion::V1,
            Some(r#"{"terminal-auth":true,"terminal_output":true}"#),
            Some(r#""subagents":{},"later":[1.0]"#),
        ),
        meta: Some(r#"{"a":1}"#.into()),
        logins: None,
        login_hint: None,
    };
    assert_eq!(read(&params, ProtocolVersion::V2), Ok(expected));
}

#[test]
fn v2_client_capabilities_are_read_from_their_members() {
    let params = json!({
        "protocolVersion": 2,
        "info": { "name": "zed", "version": "2.0", "title": "Zed" },
        "capabilities": { "elicitation": { "url": {} }, "fs": { "readTextFile": true }, "auth": { "terminal": {} },
            "_meta": { "acpx": { "errorData": true } } },
        "clientInfo": { "name": "elsewhere", "version": "0" },
    });
    let expected = ClientFacts {
        protocol: ProtocolVersion::V2,
        name: Some("zed".into()),
        version: Some("2.0".into()),
        notices: true,
        compaction: true,
        boolean_options: true,
        subagents: true,
        elicitation: Elicitation { form: false, url: true },
        error_data: true,
        terminal_login: TerminalLogin::Any,
        ..ClientFacts::default()
    };
    assert_eq!(read(&params, ProtocolVersion::V2), Ok(expected));
}

#[test]
fn v2_client_must_send_its_info() {
    let table = [
        (json!({}), "info", "is missing"),
        (json!({ "info": null }), "info", "must be an object, not null"),
        (json!({ "info": { "version": "1" } }), "info.name", "is missing"),
        (
            json!({ "info": { "name": "n", "version": 1 } }),
            "info.version",
            "must be a string, not the number 1",
        ),
    ];
    for (mut params, field, problem) in table {
        params["protocolVersion"] = json!(2);
        let data = json!({ "field": field, "problem": problem });
        assert_eq!(read(&params, ProtocolVersion::V2).unwrap_err()["data"], data);
        params["protocolVersion"] = json!(3);
        assert!(read(&params, ProtocolVersion::V2).is_ok());
        assert!(read(&params, ProtocolVersion::V1).is_ok());
    }
}

#[test]
fn unreadable_capability_is_absent_and_initialize_succeeds() {
    let strange = r#"{"protocolVersion":1,"clientCapabilities":7,"clientInfo":[],"_meta":"x"}"#;
    let facts = ClientFacts::read(Some(strange), ProtocolVersion::V2).unwrap();
    assert_eq!(facts, ClientFacts::default());
    let torn =
        r#"{"protocolVersion":1,"clientCapabilities":{"terminal":true,"x":"\ud800"},"clientInfo":null}"#;
    let facts = ClientFacts::read(Some(torn), ProtocolVersion::V2).unwrap();
    assert_eq!(facts, ClientFacts::default());
}
