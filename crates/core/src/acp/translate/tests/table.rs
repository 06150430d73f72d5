//! Checks that the table in `docs/reference/protocol.md` matches the one in the code. To update it, run this test with
//! `ACPX_WRITE_TABLE=1` and review the diff.

use super::*;
use crate::model::ProtocolVersion;

mod from_v1;
mod from_v2;
mod rows;

use rows::{Shown, rows, table};

#[test]
fn every_row_of_the_table_is_what_the_program_does() {
    let here = [
        include_str!("requests.rs"),
        include_str!("sessions.rs"),
        include_str!("updates.rs"),
        include_str!("../../content/v2.rs"),
        include_str!("../../render/tests/v2_agents.rs"),
    ]
    .concat();
    for row in rows() {
        let read = |texts: &[&str]| texts.iter().map(|text| value(text)).collect::<Vec<_>>();
        match (&row.shown, row.from) {
            (Shown::Updates(said, told), ProtocolVersion::V1) => {
                let mut translation = UpdatesToV2::new();
                let becomes = said.iter().flat_map(|said| values(&translation.update(said, "made")));
                assert_eq!(becomes.collect::<Vec<_>>(), read(told), "{}", row.feature);
            }
            (Shown::Updates(said, told), ProtocolVersion::V2) => {
                let mut translation = UpdatesToV1::new();
                let becomes = said.iter().flat_map(|said| values(&translation.update(said)));
                assert_eq!(becomes.collect::<Vec<_>>(), read(told), "{}", row.feature);
            }
            (Shown::Call((method, params), (other, told)), from) => {
                let call = match from {
                    ProtocolVersion::V1 => request_to_v2(method, params),
                    ProtocolVersion::V2 => request_to_v1(method, params),
                };
                let call = call.unwrap();
                assert_eq!((call.method, value(&call.params)), (*other, value(told)), "{}", row.feature);
            }
            (Shown::By(test), _) => assert!(here.contains(&format!("fn {test}(")), "{test}"),
            (Shown::ByNature(why), _) => assert!(!why.is_empty(), "{}", row.feature),
        }
    }
}

const BEGIN: &str = "## Translation between versions\n";
const END: &str = "<!-- The table ends here. -->\n";

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for whoever changes the table, not for the library")]
fn every_difference_between_the_versions_is_in_the_published_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!(
        "{before}{BEGIN}\n\
         If client and agent speak the same version, every byte is forwarded except ids and `_meta.acpx`.\n\
         That includes MCP servers, of which only the names are stored; missing lists that version 1 requires are added \
         empty.\n\
         A client's `session/close` frees what it holds in acpx and is not forwarded.\n\
         If the versions differ, acpx translates what both have; these tables list the rest.\n\
         Tests run the translation row by row.\n\n{}{END}{after}",
        table()
    );
    if std::env::var_os("ACPX_WRITE_TABLE").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == current,
        "the program and docs/reference/protocol.md differ"
    );
}
