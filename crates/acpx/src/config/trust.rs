//! The project files that the user trusts, in `trusted.json` of the home: the path and the SHA-256 of each.
//!
//! Trust is for exactly these bytes at this path. A changed file, a copy in another directory, and any doubt about
//! `trusted.json` itself mean that the file is not trusted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use acpx_core::model::{Timestamp, sha256_hex};
use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::home_file::HomeFile;
use crate::http::tokens::now;

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = ".acpxrc.json";
/// Maximum size of the file.
const LARGEST: u64 = 16 << 20;

/// Whether a project's file is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustState {
    /// With this content.
    Trusted,
    /// It was, with another content.
    Changed,
    /// It never was.
    Unknown,
}

/// The trusted files of a home.
#[derive(Debug, Clone)]
pub(crate) struct TrustedFiles {
    file: HomeFile<TrustContents>,
}

/// A trusted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrustedFile {
    /// Its path.
    pub(crate) path: String,
    /// The SHA-256 of its bytes, in hex.
    pub(crate) sha256: String,
    /// When it was trusted.
    pub(crate) trusted_at: String,
    /// What it set then, without secrets, to show what has changed.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct TrustContents {
    files: Vec<TrustedFile>,
}

/// `trusted.json` cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the trusted files in {}", file.display())]
pub(crate) struct TrustError {
    /// The file.
    pub(crate) file: PathBuf,
    /// The I/O error.
    #[source]
    pub(crate) source: io::Error,
}

impl TrustedFiles {
    /// The trusted files of this home.
    pub(crate) fn of(home: &Path) -> Self {
        Self { file: HomeFile::new(home.join("trusted.json"), LARGEST) }
    }

    /// Whether a file with these bytes is trusted. If the list cannot be read, none is.
    pub(crate) fn state(&self, path: &Path, bytes: &[u8]) -> TrustState {
        let files = self.list().unwrap_or_default();
        match files.iter().find(|file| Path::new(&file.path) == path) {
            None => TrustState::Unknown,
            Some(file) if file.sha256 == sha256_hex(bytes) => TrustState::Trusted,
            Some(_) => TrustState::Changed,
        }
    }

    /// Fails if a file that a session has its servers from is a project's, and is not trusted with these bytes.
    pub(crate) fn check(&self, path: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
        let is_project = path.file_name().is_some_and(|name| name == PROJECT_FILE);
        if is_project && self.state(path, bytes) != TrustState::Trusted {
            return Err(ConfigError::Untrusted { file: path.to_owned() });
        }
        Ok(())
    }

    /// The trusted files, by path.
    pub(crate) fn list(&self) -> Result<Vec<TrustedFile>, TrustError> {
        let mut files = self.file.read().map_err(|source| self.unusable(source))?.files;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// Trusts a file with these bytes, in place of any earlier content.
    pub(crate) fn pin(
        &self,
        path: &str,
        bytes: &[u8],
        settings: BTreeMap<String, String>,
    ) -> Result<TrustedFile, TrustError> {
        let trusted_at: Timestamp = now();
        let file = TrustedFile {
            path: path.to_owned(),
            sha256: sha256_hex(bytes),
            trusted_at: trusted_at.to_string(),
            settings,
        };
        self.change(|files| {
            files.retain(|known| known.path != path);
            files.push(file.clone());
        })?;
        Ok(file)
    }

    /// Ends the trust in a file; false if it was not trusted.
    pub(crate) fn revoke(&self, path: &str) -> Result<bool, TrustError> {
        self.change(|files| {
            let before = files.len();
            files.retain(|known| known.path != path);
            files.len() < before
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<TrustedFile>) -> T) -> Result<T, TrustError> {
        let changed = self.file.change(|contents| Ok::<_, TrustError>(change(&mut contents.files)));
        changed.map_err(|source| self.unusable(source))?
    }

    fn unusable(&self, source: io::Error) -> TrustError {
        TrustError { file: self.file.path().to_owned(), source }
    }
}
