//! `docs/reference/extensions.md` is true: it has every method and every member that the host adds to ACP, and no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace;

/// Where the types are that cross the socket.
const FILES: [&str; 12] = [
    "crates/core/src/model/ids.rs",
    "crates/core/src/protocol/meta.rs",
    "crates/core/src/protocol/meta/forgotten_settings.rs",
    "crates/core/src/protocol/meta/answers.rs",
    "crates/core/src/protocol/meta/turn_terms.rs",
    "crates/core/src/protocol/meta/wait_reason.rs",
    "crates/core/src/protocol/rpc_error.rs",
    "crates/core/src/protocol/import_params.rs",
    "crates/core/src/protocol/pending_requests.rs",
    "crates/core/src/protocol/prune.rs",
    "crates/core/src/protocol/queue.rs",
    "crates/core/src/protocol/sessions.rs",
];

/// The members of every type that crosses the socket, as they are written there. What is flattened is a type of
/// its own.
fn members_of_types() -> BTreeMap<String, BTreeSet<String>> {
    let mut types = BTreeMap::new();
    for text in FILES.map(workspace::read) {
        let mut attributes = String::new();
        let mut current: Option<String> = None;
        for line in text.lines() {
            let trimmed = line.trim();
            if let Some(name) = current.clone() {
                if line == "}" {
                    current = None;
                } else if let Some((field, _)) = field(trimmed)
                    && !attributes.contains("flatten")
                {
                    let renamed =
                        attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                    let member = renamed.map_or_else(|| camel_case(field), str::to_owned);
                    types.entry(name).or_insert_with(BTreeSet::new).insert(member);
                }
            } else if let Some(rest) =
                trimmed.trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix("struct ")
                && attributes.contains("Serialize")
                && attributes.contains("Deserialize")
                && let Some(name) = rest.strip_suffix(" {")
                && name != "RpcErrorData"
            {
                current = Some(name.to_owned());
            }
            if trimmed.starts_with("#[") {
                attributes.push_str(trimmed);
            } else if !trimmed.starts_with("///") {
                attributes.clear();
            }
        }
    }
    types
}

/// A line that declares a field: its name and its type.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, kind) = line.trim_start_matches("pub ").split_once(": ")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (is_name && kind.ends_with(',')).then_some((name, kind))
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (head, tail) = word.split_at(1);
        text + &head.to_ascii_uppercase() + tail
    })
}

/// The first cells of a table's rows, if they are in backticks.
fn cells(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0))
}

/// The members that the page has for each type.
fn members_of_page(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let parts = page.split("As a Rust type: `").skip(1);
    let part = |part: &str| {
        let (name, rest) = part.split_once('`').expect("a type's name ends");
        let table = rest.split("\n## ").next().unwrap_or_default().split("\n### ").next().unwrap_or_default();
        (name.to_owned(), cells(table).map(str::to_owned).collect())
    };
    parts.map(part).collect()
}

#[test]
fn the_page_of_extensions_has_every_member_and_no_other() {
    let page = workspace::read("docs/reference/extensions.md");
    assert_eq!(
        members_of_page(&page).keys().collect::<Vec<_>>(),
        members_of_types().keys().collect::<Vec<_>>()
    );
    assert_eq!(members_of_page(&page), members_of_types());
}

#[test]
fn the_page_of_extensions_has_every_method_and_no_other() {
    let mut ours = BTreeSet::new();
    let beside = workspace::read("crates/core/src/acp/acpx_peer.rs");
    let layers = ["protocol", "host", "client"].map(|layer| format!("crates/core/src/{layer}"));
    let sources = layers.iter().flat_map(|layer| workspace::sources(layer)).map(|(_, text)| text);
    for text in sources.chain([beside]) {
        ours.extend(text.split("\"_acpx/").skip(1).map(|rest| {
            let name = rest.split('"').next().unwrap_or_default();
            format!("_acpx/{name}")
        }));
    }
    let page = workspace::read("docs/reference/extensions.md");
    let named: BTreeSet<String> =
        cells(&page).filter(|cell| cell.starts_with("_acpx/")).map(str::to_owned).collect();
    assert_eq!(named, ours);
}

#[test]
fn remote_page_has_every_method_a_remote_client_may_call() {
    let ours = |text: &str| -> BTreeSet<String> {
        let names =
            text.split("_acpx/").skip(1).map(|rest| rest.split(['"', '`']).next().unwrap_or_default());
        names.map(str::to_owned).collect()
    };
    let source = workspace::read("crates/core/src/host/connection/access.rs");
    let (_, methods) = source.split_once("const REMOTE_METHODS").expect("the methods are in one list");
    let page = workspace::read("docs/guide/remote.md");
    let sentence = page.split(". ").flat_map(|part| part.split("; "));
    let sentence = sentence.into_iter().find(|part| part.contains("It may call only these methods of acpx"));
    assert_eq!(
        ours(sentence.expect("the page has them")),
        ours(methods.split(';').nth(1).unwrap_or_default())
    );
}

#[test]
fn the_values_that_the_page_names_are_those_that_are_understood() {
    use acpx_core::model::{Fallback, PermissionMode};
    let page = workspace::read("docs/reference/extensions.md");
    let quoted = workspace::quoted(&page);
    let fallbacks = [Fallback::Auto, Fallback::Always, Fallback::Never, Fallback::Reset]
        .map(|value| serde_json::to_value(value).unwrap());
    let policies = [PermissionMode::ApproveAll, PermissionMode::ApproveReads, PermissionMode::DenyAll]
        .map(|value| serde_json::to_value(value).unwrap());
    for value in fallbacks.iter().chain(&policies) {
        assert!(quoted.contains(&value.as_str().unwrap()), "{value}");
    }
}
