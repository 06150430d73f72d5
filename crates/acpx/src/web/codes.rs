//! One-time codes, by which a device signs in to the page.
//!
//! A code is 128 random bits, valid for a minute, and redeemed once. The file `web-codes.json` stores only hashes, so
//! reading it grants no access. `acpx web` makes a code and the server redeems it, in different processes.

use std::io;
use std::path::Path;
use std::time::Duration;

use acpx_core::model::{Timestamp, hex, sha256_hex};
use acpx_core::protocol::meta::AccessScope;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::home_file::HomeFile;
use crate::http::tokens::now;

/// How long a code is valid.
pub(crate) const VALID_FOR: Duration = Duration::from_mins(1);
/// Maximum number of valid codes; a further one replaces the oldest.
const MAX_CODES: usize = 32;
/// Maximum size of the file; the maximum number of codes needs less.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The codes of one home.
#[derive(Debug, Clone)]
pub(crate) struct OneTimeCodes {
    file: HomeFile<CodeList>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodeEntry {
    /// SHA-256 of the code, in hex.
    hash: String,
    made_at: String,
    /// What a device that redeems it may do.
    #[serde(default, skip_serializing_if = "AccessScope::is_full")]
    scope: AccessScope,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct CodeList {
    codes: Vec<CodeEntry>,
}

impl OneTimeCodes {
    /// The codes of this home.
    pub(crate) fn of(home: &Path) -> Self {
        Self { file: HomeFile::new(home.join("web-codes.json"), MAX_FILE_BYTES) }
    }

    /// Makes a code for a device with this scope.
    pub(crate) fn make(&self, scope: AccessScope) -> io::Result<String> {
        self.make_at(scope, now())
    }

    fn make_at(&self, scope: AccessScope, now: Timestamp) -> io::Result<String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let code = hex(&random);
        let entry = CodeEntry { hash: sha256_hex(code.as_bytes()), made_at: now.to_string(), scope };
        self.file.change(|contents| {
            contents.codes.retain(|known| known.is_valid(now));
            if contents.codes.len() >= MAX_CODES {
                contents.codes.remove(0);
            }
            contents.codes.push(entry);
            Ok::<_, io::Error>(code)
        })?
    }

    /// Uses a code up, and returns its scope; `None` if it is wrong, used or expired.
    pub(crate) fn redeem(&self, code: &str) -> io::Result<Option<AccessScope>> {
        self.redeem_at(code, now())
    }

    fn redeem_at(&self, code: &str, now: Timestamp) -> io::Result<Option<AccessScope>> {
        let hash = sha256_hex(code.as_bytes());
        let is_it = |entry: &CodeEntry| bool::from(entry.hash.as_bytes().ct_eq(hash.as_bytes()));
        let redeemed = self.file.change(|contents| {
            contents.codes.retain(|known| known.is_valid(now));
            // A wrong code leaves the file as it is.
            let found = contents.codes.iter().position(is_it).ok_or(())?;
            Ok::<_, ()>(contents.codes.remove(found).scope)
        })?;
        Ok(redeemed.ok())
    }
}

impl CodeEntry {
    fn is_valid(&self, now: Timestamp) -> bool {
        Timestamp::parse(&self.made_at).is_ok_and(|made| made <= now && now.since(made) < VALID_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_code_is_redeemed_once_and_within_its_minute() {
        let home = tempfile::tempdir().unwrap();
        let codes = OneTimeCodes::of(home.path());
        let made = now();
        let code = codes.make_at(AccessScope::Answer, made).unwrap();
        assert_eq!(code.len(), 32);
        let text = std::fs::read_to_string(home.path().join("web-codes.json")).unwrap();
        assert!(!text.contains(&code), "{text}");
        for wrong in ["", &code[1..], &format!("{code}0")] {
            assert_eq!(codes.redeem_at(wrong, made).unwrap(), None);
        }
        assert_eq!(codes.redeem_at(&code, made).unwrap(), Some(AccessScope::Answer));
        assert_eq!(codes.redeem_at(&code, made).unwrap(), None);
        let late = codes.make_at(AccessScope::Full, made).unwrap();
        let after = Timestamp::from_millis(made.as_millis() + 60_000).unwrap();
        assert_eq!(codes.redeem_at(&late, after).unwrap(), None);
    }

    #[test]
    fn oldest_one_time_codes_give_way_to_new_ones() {
        let home = tempfile::tempdir().unwrap();
        let codes = OneTimeCodes::of(home.path());
        let made: Vec<String> = (0..=MAX_CODES).map(|_| codes.make(AccessScope::Full).unwrap()).collect();
        assert_eq!(codes.redeem(&made[0]).unwrap(), None);
        assert_eq!(codes.redeem(&made[1]).unwrap(), Some(AccessScope::Full));
    }
}
