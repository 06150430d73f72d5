//! Properties: a round trip loses nothing that the narrower version can express, nothing panics, and every output is
//! valid.

use agent_client_protocol_schema::{v1, v2};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::values::{any_json, any_update, block, updates_of_v1, updates_of_v2};
use super::*;
use crate::acp;

fn reads<T: DeserializeOwned>(text: &str) -> bool {
    serde_json::from_str::<T>(text).is_ok()
}

proptest! {
    #[test]
    fn v1_session_updates_survive_the_round_trip(updates in updates_of_v1()) {
        let (mut there, mut back) = (UpdatesToV2::new(), UpdatesToV1::new());
        for update in updates {
            prop_assert!(reads::<v1::SessionUpdate>(&update.to_string()), "{}", update);
            let told = there.update(&update.to_string(), "made");
            let told: Vec<_> = told.iter().flat_map(|told| back.update(told)).collect();
            prop_assert_eq!(values(&told), [update]);
        }
    }

    #[test]
    fn v2_updates_survive_the_round_trip_if_v1_has_them(updates in updates_of_v2()) {
        let (mut there, mut back) = (UpdatesToV1::new(), UpdatesToV2::new());
        for update in updates {
            prop_assert!(reads::<v2::SessionUpdate>(&update.to_string()), "{}", update);
            let told = there.update(&update.to_string());
            let told: Vec<_> = told.iter().flat_map(|told| back.update(told, "made")).collect();
            prop_assert_eq!(values(&told), [update]);
        }
    }

    #[test]
    fn repeated_whole_messages_end_as_the_last_one(
        told in proptest::collection::vec(proptest::collection::vec(block(), 0..4), 1..5),
    ) {
        let mut translator = UpdatesToV1::new();
        let mut shown: Vec<(Value, Vec<Value>)> = Vec::new();
        for content in &told {
            let whole = json!({"sessionUpdate": "agent_message", "messageId": "m", "content": content});
            for chunk in values(&translator.update(&whole.to_string())) {
                match shown.last_mut() {
                    Some((id, blocks)) if *id == chunk["messageId"] => blocks.push(chunk["content"].clone()),
                    _ => shown.push((chunk["messageId"].clone(), vec![chunk["content"].clone()])),
                }
            }
        }
        let last = told.last().cloned().unwrap_or_default();
        let blocks = shown.pop().map(|(_, blocks)| blocks).unwrap_or_default();
        // Version 1 cannot clear a message. Otherwise the client shows the last content.
        prop_assert!(joined(&last).is_empty() || joined(&blocks) == joined(&last));
    }

    #[test]
    fn translation_of_any_update_is_valid_in_the_other_version(
        updates in proptest::collection::vec(any_update(), 0..6),
    ) {
        let (mut to_v1, mut to_v2) = (UpdatesToV1::new(), UpdatesToV2::new());
        for update in &updates {
            for told in to_v1.update(update) {
                prop_assert!(reads::<v1::SessionUpdate>(&told), "{}", told);
            }
            for told in to_v2.update(update, "made") {
                prop_assert!(reads::<v2::SessionUpdate>(&told), "{}", told);
            }
            let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
            let _read = (acp::update_v2(&params), acp::state_update(&params));
        }
    }

    #[test]
    fn translation_of_any_request_is_valid_in_the_other_version(json in any_json()) {
        let text = json.to_string();
        if let Some(told) = permission_to_v2(&text) && reads::<v1::RequestPermissionRequest>(&text) {
            prop_assert!(reads::<v2::RequestPermissionRequest>(&told), "{}", told);
        }
        if let Some(told) = permission_to_v1(&text, "made") && reads::<v2::RequestPermissionRequest>(&text) {
            prop_assert!(reads::<v1::RequestPermissionRequest>(&told), "{}", told);
        }
        prop_assert!(reads::<v1::RequestPermissionResponse>(&permission_answer(&text)));
        prop_assert!(reads::<v2::RequestPermissionResponse>(&permission_answer(&text)));
        let _read = (initialize_answer_to_v1(&text), initialize_answer_to_v2(&text));
        let _read = (elicitation_to_v2(&text), elicitation_answer_to_v1(&text), idle_update(&text));
        for method in ["session/new", "session/load", "session/resume", "session/prompt", "session/set_config_option"] {
            let _read = (request_to_v1(method, &text), request_to_v2(method, &text));
        }
        let (mut to_v1, mut to_v2) = (UpdatesToV1::new(), UpdatesToV2::new());
        prop_assert!(reads::<v1::LoadSessionResponse>(&to_v1.setup_answer(&text).result));
        prop_assert!(reads::<v2::ResumeSessionResponse>(&to_v2.setup_answer(&text)));
        prop_assert!(reads::<v1::SetSessionConfigOptionResponse>(&to_v1.options_answer(&text)));
        prop_assert!(reads::<v2::SetSessionConfigOptionResponse>(&to_v2.options_answer(&text)));
        let _read = (to_v1.set_mode(&text), to_v1.mode_answer(&text));
    }

    #[test]
    fn any_text_at_all_is_read(text in ".{0,60}") {
        prop_assert_eq!(UpdatesToV2::new().update(&text, &text), []);
        prop_assert_eq!(UpdatesToV1::new().update(&text), []);
        prop_assert!(request_to_v1("session/new", &text).is_err());
        prop_assert_eq!(permission_to_v1(&text, &text), None);
    }

    #[test]
    fn the_setup_of_a_session_comes_back_as_it_was(
        name in "[a-z]{1,3}",
        args in proptest::collection::vec("[a-z]{0,3}", 0..3),
        http in any::<bool>(),
        replay in any::<bool>(),
        modes in proptest::option::of("[ab]"),
    ) {
        let server = if http {
            json!({"type": "http", "name": name, "url": "u", "headers": []})
        } else {
            json!({"name": name, "command": "/c", "args": args, "env": [{"name": "N", "value": "V"}]})
        };
        let params = json!({"sessionId": "s", "cwd": "/w", "mcpServers": [server], "_meta": {"k": 1}});
        let method = if replay { "session/load" } else { "session/resume" };
        let there = request_to_v2(method, &params.to_string()).unwrap();
        prop_assert!(reads::<v2::ResumeSessionRequest>(&there.params));
        let back = request_to_v1(there.method, &there.params).unwrap();
        prop_assert_eq!((back.method, value(&back.params)), (method, params));

        let mut answer = json!({"sessionId": "s", "configOptions": [{"id": "o", "name": "O", "type": "boolean", "currentValue": true}]});
        if let Some(current) = modes {
            let available = json!([{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]);
            answer["modes"] = json!({"currentModeId": current, "availableModes": available, "_meta": {"k": 1}});
        }
        let there = UpdatesToV2::new().setup_answer(&answer.to_string());
        prop_assert!(reads::<v2::NewSessionResponse>(&there));
        prop_assert_eq!(value(&UpdatesToV1::new().setup_answer(&there).result), answer);
    }
}

/// Joins consecutive texts, because a message reads the same either way.
fn joined(blocks: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for block in blocks {
        let is_plain =
            |block: &Value| block["type"] == "text" && block.as_object().is_some_and(|it| it.len() == 2);
        match joined.last_mut() {
            Some(last) if is_plain(last) && is_plain(block) => {
                last["text"] =
                    json!(format!("{}{}", last["text"].as_str().unwrap(), block["text"].as_str().unwrap()));
            }
            _ => joined.push(block.clone()),
        }
    }
    joined.retain(|block| !(block["text"] == "" && block.as_object().is_some_and(|it| it.len() == 2)));
    joined
}
