//! Properties: permission requests, elicitations, capabilities and logins survive a round trip through the other
//! version, as far as it can express them.

use agent_client_protocol_schema::{v1, v2};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::values::block;
use super::*;

/// Optional session capabilities of both versions.
const EXTRAS: &[&str] = &["delete", "additionalDirectories", "fork"];

fn reads<T: DeserializeOwned>(text: &str) -> bool {
    serde_json::from_str::<T>(text).is_ok()
}

/// An object with those members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn meta() -> impl Strategy<Value = Option<Value>> {
    option::of(select(vec![json!({ "k": 1 }), json!({ "k": { "deep": [1.5, null] } })]))
}

/// An object whose members all have the same value.
fn each(names: &[&str], value: &Value) -> Value {
    names.iter().map(|name| ((*name).to_owned(), value.clone())).collect()
}

/// A permission request of a version 1 agent.
fn permission() -> impl Strategy<Value = Value> {
    let content = block().prop_map(|block| json!([{ "type": "content", "content": block }]));
    let status = select(vec!["pending", "in_progress", "completed", "failed"]);
    let call = ("[a-z ]{1,8}", option::of(select(vec!["edit", "execute", "other"])), option::of(status));
    let details = (option::of(content), option::of(Just(json!({ "path": "/x", "n": 1.5 }))), meta());
    let kind = select(vec!["allow_once", "allow_always", "reject_once", "reject_always"]);
    let option = (kind, meta()).prop_map(|(kind, meta)| {
        object([
            ("optionId", Some(json!(kind))),
            ("name", Some(json!("N"))),
            ("kind", Some(json!(kind))),
            ("_meta", meta),
        ])
    });
    let options = proptest::collection::vec(option, 0..4);
    (call, details, options, meta()).prop_map(
        |((title, kind, status), (content, input, own), options, meta)| {
            let call = object([
                ("toolCallId", Some(json!("t"))),
                ("title", Some(json!(title))),
                ("kind", kind.map(Into::into)),
                ("status", status.map(Into::into)),
                ("content", content),
                ("rawInput", input),
                ("_meta", own),
            ]);
            object([
                ("sessionId", Some(json!("s"))),
                ("toolCall", Some(call)),
                ("options", Some(options.into())),
                ("_meta", meta),
            ])
        },
    )
}

/// The login methods of a version 1 agent.
fn logins() -> impl Strategy<Value = Vec<Value>> {
    let own = ("[a-z]{1,3}", option::of("[a-z]{1,5}"), meta()).prop_map(|(id, description, meta)| {
        object([
            ("id", Some(json!(id))),
            ("name", Some(json!("N"))),
            ("description", description.map(Into::into)),
            ("_meta", meta),
        ])
    });
    let terminal = (subsequence(vec!["A", "B"], 0..=2), meta()).prop_map(|(names, meta)| {
        object([
            ("id", Some(json!("t"))),
            ("name", Some(json!("T"))),
            ("type", Some(json!("terminal"))),
            ("args", Some(json!(["login"]))),
            ("env", Some(each(&names, &json!("v")))),
            ("_meta", meta),
        ])
    });
    proptest::collection::vec(prop_oneof![own, terminal], 0..3)
}

/// The response to `initialize` of a version 1 agent that supports everything that version 2 requires.
fn answer() -> impl Strategy<Value = Value> {
    let prompt = option::of(subsequence(vec!["image", "audio", "embeddedContext"], 0..=3));
    let extras = subsequence(EXTRAS.to_vec(), 0..=EXTRAS.len());
    ((prompt, any::<bool>(), extras), logins(), (meta(), meta())).prop_map(
        |((prompt, http, extras), logins, (own, meta))| {
            let mut session = each(&["list", "resume", "close"], &json!({}));
            for name in extras {
                session[name] = json!({});
            }
            let capabilities = object([
                ("loadSession", Some(json!(true))),
                ("promptCapabilities", prompt.map(|prompt| each(&prompt, &json!(true)))),
                ("mcpCapabilities", Some(if http { json!({ "http": true }) } else { json!({}) })),
                ("sessionCapabilities", Some(session)),
                // A version 2 agent with login methods supports logout.
                ("auth", (!logins.is_empty()).then(|| json!({ "logout": {} }))),
                ("_meta", own),
            ]);
            object([
                ("protocolVersion", Some(json!(1))),
                ("agentInfo", Some(json!({ "name": "a", "version": "1", "title": "A" }))),
                ("agentCapabilities", Some(capabilities)),
                ("authMethods", Some(logins.into())),
                ("_meta", meta),
            ])
        },
    )
}

/// An elicitation form of a version 1 agent.
fn form() -> impl Strategy<Value = Value> {
    let field = select(vec![
        json!({ "type": "string", "title": "T", "minLength": 1 }),
        json!({ "type": "integer", "minimum": 1 }),
        json!({ "type": "boolean", "default": true }),
        json!({ "type": "string", "enum": ["a", "b"] }),
    ]);
    let fields = proptest::collection::btree_map("[a-z]{1,3}", field, 0..3);
    (fields, option::of(Just(json!("t"))), meta()).prop_map(|(fields, call, meta)| {
        let required: Vec<&String> = fields.keys().take(1).collect();
        let schema = json!({ "type": "object", "properties": fields, "required": required });
        object([
            ("sessionId", Some(json!("s"))),
            ("toolCallId", call),
            ("mode", Some(json!("form"))),
            ("message", Some(json!("Who?"))),
            ("requestedSchema", Some(schema)),
            ("_meta", meta),
        ])
    })
}

/// A user's response, in either version.
fn filled_in() -> impl Strategy<Value = Value> {
    let value = select(vec![json!("x"), json!(7), json!(1.5), json!(true), json!(["a", "b"])]);
    let content = proptest::collection::btree_map("[a-z]{1,3}", value, 0..3);
    (option::of(content), select(vec!["accept", "decline", "cancel"]), meta()).prop_map(
        |(content, action, meta)| {
            let content = content.filter(|_| action == "accept").map(|content| json!(content));
            object([("action", Some(json!(action))), ("content", content), ("_meta", meta)])
        },
    )
}

proptest! {
    #[test]
    fn v1_permission_request_survives_the_round_trip(asked in permission()) {
        prop_assert!(reads::<v1::RequestPermissionRequest>(&asked.to_string()), "{}", asked);
        let there = permission_to_v2(&asked.to_string()).unwrap();
        prop_assert!(reads::<v2::RequestPermissionRequest>(&there), "{}", there);
        prop_assert_eq!(value(&permission_to_v1(&there, "made").unwrap()), asked);
    }

    #[test]
    fn v1_agent_capabilities_and_logins_survive_the_round_trip(said in answer()) {
        prop_assert!(reads::<v1::InitializeResponse>(&said.to_string()), "{}", said);
        let there = initialize_answer_to_v2(&said.to_string()).unwrap();
        prop_assert!(reads::<v2::InitializeResponse>(&there), "{}", there);
        prop_assert_eq!(value(&initialize_answer_to_v1(&there).unwrap()), said);
    }

    #[test]
    fn elicitation_and_its_response_are_equal_in_both_versions(
        asked in form(),
        answered in filled_in(),
    ) {
        prop_assert!(reads::<v1::CreateElicitationRequest>(&asked.to_string()), "{}", asked);
        let there = elicitation_to_v2(&asked.to_string()).unwrap();
        // Version 1 reads version 2 requests unchanged, and version 2 reads version 1 responses unchanged.
        prop_assert!(reads::<v2::CreateElicitationRequest>(&there), "{}", there);
        prop_assert_eq!(value(&there), asked);
        prop_assert!(reads::<v2::CreateElicitationResponse>(&answered.to_string()), "{}", answered);
        let back = elicitation_answer_to_v1(&answered.to_string());
        prop_assert!(reads::<v1::CreateElicitationResponse>(&back), "{}", back);
        prop_assert_eq!(value(&back), answered);
    }
}
