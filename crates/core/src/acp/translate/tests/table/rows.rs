//! Features that one version has and the other does not, and how they are translated: one row each, with its
//! evidence. The table is published in `docs/reference/protocol.md`.

use std::fmt::Write as _;

use super::{from_v1, from_v2};
use crate::model::ProtocolVersion::{self, V1, V2};

/// One difference between the versions.
pub(super) struct Row {
    /// The version that has the feature.
    pub(super) from: ProtocolVersion,
    /// The feature.
    pub(super) feature: &'static str,
    /// What the other version receives.
    pub(super) becomes: &'static str,
    pub(super) shown: Shown,
}

/// The evidence for a row.
pub(super) enum Shown {
    /// Updates of a session, and their translations.
    Updates(&'static [&'static str], &'static [&'static str]),
    /// A request (method and params), and its translation.
    Call((&'static str, &'static str), (&'static str, &'static str)),
    /// The name of an example test.
    By(&'static str),
    /// The reason why no example is possible.
    ByNature(&'static str),
}

pub(super) const fn v1(feature: &'static str, becomes: &'static str, shown: Shown) -> Row {
    Row { from: V1, feature, becomes, shown }
}

pub(super) const fn v2(feature: &'static str, becomes: &'static str, shown: Shown) -> Row {
    Row { from: V2, feature, becomes, shown }
}

/// All rows, those of version 1 first.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    from_v1::ROWS.iter().chain(from_v2::ROWS)
}

/// The table as published.
pub(super) fn table() -> String {
    let mut text = String::new();
    for (from, to) in [(V1, V2), (V2, V1)] {
        // Writing to a text cannot fail.
        let _written = write!(
            text,
            "### From version {} to version {}\n\n| feature | becomes |\n|---|---|\n",
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
