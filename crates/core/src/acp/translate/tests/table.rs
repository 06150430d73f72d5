//! The table in `docs/protocol.md` is the one in the program. To change it, run this with `ACPX_WRITE_TABLE=1` and
//! read the difference.

use super::super::table;

const BEGIN: &str = "## Translation between versions\n";
const END: &str = "<!-- The table ends here. -->\n";

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for whoever changes the table, not for the library")]
fn every_difference_between_the_versions_is_in_the_published_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!(
        "{before}{BEGIN}\n\
         Where a client and an agent speak the same version, every byte goes through but for the ids.\n\
         Where they do not, all is translated that both can say, and the rest becomes what is here.\n\
         A test compares these tables with the program.\n\n{}{END}{after}",
        table()
    );
    if std::env::var_os("ACPX_WRITE_TABLE").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == current, "the program and docs/protocol.md differ");
}
