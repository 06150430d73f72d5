//! Checks `docs/reference/errors.md`: it has every stable code with its class and whether a retry may succeed, and no
//! other.

use std::collections::BTreeSet;

use acpx_core::model::ErrorCode;

use crate::workspace;

/// A code's row on the page: its code, its class, and whether a retry may succeed.
fn row(line: &str) -> Option<(&str, &str, bool)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let (code, class, retry) = (cells.next()?.strip_suffix('`')?, cells.next()?, cells.next()?);
    Some((code, class, retry == "yes"))
}

#[test]
fn the_errors_page_has_every_error_code_and_no_other() {
    let ours: BTreeSet<(&str, &str, bool)> = ErrorCode::ALL
        .iter()
        .map(|code| (code.as_str(), code.class().as_str(), code.is_retryable()))
        .collect();
    let page = workspace::read("docs/reference/errors.md");
    let described: Vec<(&str, &str, bool)> = page.lines().filter_map(row).collect();
    let once: BTreeSet<(&str, &str, bool)> = described.iter().copied().collect();
    assert_eq!((once.len(), once), (described.len(), ours));
}
