//! What a project's file sets before the user trusts it, and the files that are trusted.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::Console;
use super::json_line;
use super::sanitize::on_one_line;
use super::style::Style;
use crate::cli::Format;
use crate::config::trust::TrustedFile;

/// What a file sets, and what it set when it was trusted.
#[derive(Debug)]
pub(crate) struct TrustReview<'a> {
    /// The file.
    pub(crate) path: &'a str,
    /// Its settings now, without secrets.
    pub(crate) settings: &'a BTreeMap<String, String>,
    /// Those of the content that was trusted.
    pub(crate) before: Option<&'a BTreeMap<String, String>>,
}

/// Whether a trusted file is still what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TrustedFileState {
    /// It is.
    Trusted,
    /// It has another content, so it is not trusted.
    Changed,
    /// It is not there.
    Missing,
    /// It cannot be read, or other users can write it, so it is ignored.
    Refused,
}

impl TrustedFileState {
    fn word(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }
}

/// Shows what would be trusted: all of it, or what has changed. JSON has it in the result.
pub(crate) fn trust_review(review: &TrustReview<'_>, console: &mut Console<'_>) -> io::Result<()> {
    if console.mode.format != Format::Text {
        return Ok(());
    }
    let line = |key: &str, value: &str| format!("{} = {}\n", on_one_line(key), on_one_line(value));
    let TrustReview { path, settings, before } = review;
    let out = &mut console.out;
    match before {
        None => {
            writeln!(out, "{} sets", on_one_line(path))?;
            settings.iter().try_for_each(|(key, value)| write!(out, "  {}", line(key, value)))?;
        }
        Some(before) => {
            writeln!(out, "{} has changed since it was trusted", on_one_line(path))?;
            let gone = before.iter().filter(|(key, value)| settings.get(*key) != Some(*value));
            let new = settings.iter().filter(|(key, value)| before.get(*key) != Some(*value));
            let lines: Vec<(Style, String)> = gone
                .map(|(key, value)| (Style::Bad, format!("- {}", line(key, value))))
                .chain(new.map(|(key, value)| (Style::Good, format!("+ {}", line(key, value)))))
                .collect();
            if lines.is_empty() {
                writeln!(out, "  only its spelling or values that are not shown")?;
            }
            lines.iter().try_for_each(|(style, line)| out.styled(*style, line))?;
        }
    }
    console.flush()
}

#[derive(Serialize)]
struct TrustedFilesObject<'a> {
    action: &'static str,
    files: Vec<TrustedFileObject<'a>>,
}

#[derive(Serialize)]
struct TrustedFileObject<'a> {
    #[serde(flatten)]
    file: &'a TrustedFile,
    state: TrustedFileState,
}

/// Writes that a file is trusted.
pub(crate) fn trusted(file: &TrustedFile, console: &mut Console<'_>) -> io::Result<()> {
    let text = format!("trusted {}", on_one_line(&file.path));
    console.result("trusted", file, Some(&text), Some(&file.path))
}

#[derive(Serialize)]
struct RevokedTrustObject<'a> {
    path: &'a str,
    revoked: bool,
}

/// Writes that the trust in a file has ended.
pub(crate) fn trust_revoked(path: &str, revoked: bool, console: &mut Console<'_>) -> io::Result<()> {
    let shown = on_one_line(path);
    let text =
        if revoked { format!("{shown} is not trusted any more") } else { format!("{shown} was not trusted") };
    console.result("trust_revoked", &RevokedTrustObject { path, revoked }, Some(&text), None)
}

/// Writes the trusted files.
pub(crate) fn trusted_files(
    files: &[(TrustedFile, TrustedFileState)],
    console: &mut Console<'_>,
) -> io::Result<()> {
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => {
            let files = files.iter().map(|(file, state)| TrustedFileObject { file, state: *state });
            json_line(&TrustedFilesObject { action: "trusted_files", files: files.collect() }, out)?;
        }
        Format::Quiet => {
            files.iter().try_for_each(|(file, _)| writeln!(out, "{}", on_one_line(&file.path)))?;
        }
        Format::Text => {
            for (file, state) in files {
                let (word, path) = (state.word(), on_one_line(&file.path));
                writeln!(out, "{word}\t{}\t{path}", file.trusted_at)?;
            }
            if files.is_empty() {
                console.banner("no project's file is trusted");
            }
        }
    }
    console.flush()
}
