//! `docs/reference/errors.md` is true: it has every stable code that the library and the program can give, and no other.

use std::collections::BTreeSet;

use acpx_core::model::ErrorCode;

use crate::workspace;

#[test]
fn the_errors_page_has_every_error_code_and_no_other() {
    let ours: BTreeSet<&str> = ErrorCode::ALL.iter().map(ErrorCode::as_str).collect();
    let page = workspace::read("docs/reference/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let described: Vec<&str> = rows.map(|(code, _)| code).collect();
    let once: BTreeSet<&str> = described.iter().copied().collect();
    assert_eq!((once.len(), once), (described.len(), ours));
}
