//! What one version says and the other cannot, and what becomes of it: one row for each, with what shows it. The table
//! is published in `docs/reference/protocol.md`.

use std::fmt::Write as _;

use super::{from_v1, from_v2};
use crate::model::ProtocolVersion::{self, V1, V2};

/// One thing that is not the same in both versions.
pub(super) struct Row {
    /// The version it is said in.
    pub(super) from: ProtocolVersion,
    /// What is said.
    pub(super) feature: &'static str,
    /// What the other version is told.
    pub(super) becomes: &'static str,
    pub(super) shown: Shown,
}

/// What shows that a row is true.
pub(super) enum Shown {
    /// Updates of a session, and what they become.
    Updates(&'static [&'static str], &'static [&'static str]),
    /// A request, by method and params, and what it becomes.
    Call((&'static str, &'static str), (&'static str, &'static str)),
    /// A test by example, by its name.
    By(&'static str),
    /// It cannot be otherwise.
    ByNature(&'static str),
}

pub(super) const fn v1(feature: &'static str, becomes: &'static str, shown: Shown) -> Row {
    Row { from: V1, feature, becomes, shown }
}

pub(super) const fn v2(feature: &'static str, becomes: &'static str, shown: Shown) -> Row {
    Row { from: V2, feature, becomes, shown }
}

/// Every row, first what version 1 says.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    from_v1::ROWS.iter().chain(from_v2::ROWS)
}

/// The table, as it is published.
pub(super) fn table() -> String {
    let mut text = String::new();
    for (from, to) in [(V1, V2), (V2, V1)] {
        // Writing to a text cannot fail.
        let _written = write!(
            text,
            "### From version {} to version {}\n\n| what is said | what becomes of it |\n|---|---|\n",
            from.number(),
            to.number()
        );
        for row in rows().filter(|row| row.from == from) {
            let _written = writeln!(text, "| {} | {} |", row.feature, row.becomes);
        }
        text.push('\n');
    }
    text
}
