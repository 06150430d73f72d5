//! The access tokens of a home, which authenticate remote clients: bearer tokens for `acpx serve`, and the cookies of
//! devices that use the page.
//!
//! A token is 256 random bits, shown once. The file `tokens.json` stores only hashes, so reading it grants no access. A
//! revoked token stays in the file: once a home has had a bearer token, every client of `acpx serve` needs one. A bearer
//! token is no cookie, and a cookie is no bearer token.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acpx_core::model::{ErrorCode, Timestamp, hex, sha256_hex};
use acpx_core::protocol::meta::AccessScope;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::home_file::HomeFile;

/// Prefix of every token, which makes leaked tokens recognisable.
const PREFIX: &str = "acpx_";
/// How old a persisted time of last use may be before it is updated.
const FRESH: Duration = Duration::from_secs(10);
/// Maximum number of tokens per home, including revoked ones.
const MOST: usize = 1000;
/// Maximum size of the file; the maximum number of tokens needs less.
const LARGEST: u64 = 1 << 20;
/// Maximum length of a token's name, in characters.
const LONGEST_NAME: usize = 100;

/// Why a token operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot use the tokens in {}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The home has the maximum number of tokens.
    #[error("there are {MOST} tokens already, revoked ones included")]
    TooMany,
    /// The name is empty, too long or has control characters.
    #[error("the name of a token has from 1 to {LONGEST_NAME} characters, and no control characters")]
    Name,
    /// There is no such token.
    #[error("there is no token with the id {id:?}")]
    Unknown {
        /// The given id.
        id: String,
        /// Ids of unrevoked tokens that have it as their name.
        named: Vec<String>,
    },
}

impl TokenError {
    /// The stable code of this error.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::File { .. } => ErrorCode::TokensUnusable,
            Self::TooMany => ErrorCode::TooManyTokens,
            Self::Name => ErrorCode::Usage,
            Self::Unknown { .. } => ErrorCode::NoToken,
        }
    }

    /// What the user can do next.
    pub(crate) fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Unknown { named, .. } => match &named[..] {
                [] => "acpx token list shows the ids",
                [id] => return Some(format!("that is the name of one: acpx token revoke {id}").into()),
                several => {
                    let count = several.len();
                    return Some(
                        format!("that is the name of {count}; acpx token list shows their ids").into(),
                    );
                }
            },
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free space on the disk of the home"
                }
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    "correct the file, or stop acpx serve, move the file away and run acpx token new before you start it again: \
                     without tokens every local user may connect"
                }
                _ => "check that you may write to the file and the home",
            },
            Self::TooMany => self.code().hint()?,
            Self::Name => "name it after its user or machine, as in --name laptop",
        };
        Some(hint.into())
    }
}

/// How a token is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TokenKind {
    /// In `Authorization`, or as a subprotocol, to `acpx serve`.
    #[default]
    Bearer,
    /// As the cookie of a browser, to the page's server.
    Device,
}

impl TokenKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
    fn is_bearer(&self) -> bool {
        *self == Self::Bearer
    }
}

/// A token to make.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NewToken<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) kind: TokenKind,
    pub(crate) scope: AccessScope,
}

/// A token's metadata, without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    #[serde(rename = "tokenId")]
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "TokenKind::is_bearer")]
    pub(crate) kind: TokenKind,
    #[serde(skip_serializing_if = "AccessScope::is_full")]
    pub(crate) scope: AccessScope,
    pub(crate) created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<Timestamp>,
}

/// The tokens of one home.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    file: HomeFile<Contents>,
}

/// A token as stored in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenEntry {
    token_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "TokenKind::is_bearer")]
    kind: TokenKind,
    #[serde(default, skip_serializing_if = "AccessScope::is_full")]
    scope: AccessScope,
    /// SHA-256 of the whole token, in hex.
    hash: String,
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Contents {
    tokens: Vec<TokenEntry>,
}

impl Tokens {
    /// The tokens of this home.
    pub(crate) fn of(home: &Path) -> Self {
        Self { file: HomeFile::new(home.join("tokens.json"), LARGEST) }
    }

    /// Creates a token; returns its secret and its metadata.
    pub(crate) fn make(&self, new: NewToken<'_>) -> Result<(String, Token), TokenError> {
        let NewToken { name, kind, scope } = new;
        let is_fit = |name: &str| {
            (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.contains(char::is_control)
        };
        if !name.is_none_or(is_fit) {
            return Err(TokenError::Name);
        }
        let mut random = [0; 36];
        getrandom::fill(&mut random).map_err(|error| self.unusable(error.into()))?;
        let (secret, id) = random.split_at(32);
        let secret = format!("{PREFIX}{}", hex(secret));
        let entry = TokenEntry {
            token_id: hex(id),
            name: name.map(str::to_owned),
            kind,
            scope,
            hash: hash(&secret),
            created_at: now().to_string(),
            last_used_at: None,
            revoked_at: None,
        };
        self.change(|contents| {
            if contents.tokens.len() >= MOST {
                // A revoked device is only kept to be listed.
                let is_over = |entry: &TokenEntry| !entry.kind.is_bearer() && entry.revoked_at.is_some();
                let oldest = contents.tokens.iter().position(is_over).ok_or(TokenError::TooMany)?;
                contents.tokens.remove(oldest);
            }
            let token = entry.token();
            contents.tokens.push(entry);
            Ok((secret, token))
        })
    }

    /// All tokens, including revoked ones, oldest first.
    pub(crate) fn list(&self) -> Result<Vec<Token>, TokenError> {
        Ok(self.read()?.tokens.iter().map(TokenEntry::token).collect())
    }

    /// Revokes a token. Revoking it again changes nothing.
    pub(crate) fn revoke(&self, id: &str) -> Result<Token, TokenError> {
        self.change(|contents| {
            let Some(index) = contents.tokens.iter().position(|entry| entry.token_id == id) else {
                let has_name =
                    |entry: &&TokenEntry| entry.revoked_at.is_none() && entry.name.as_deref() == Some(id);
                let named = contents.tokens.iter().filter(has_name).map(|entry| entry.token_id.clone());
                return Err(TokenError::Unknown { id: id.to_owned(), named: named.collect() });
            };
            let entry = &mut contents.tokens[index];
            entry.revoked_at.get_or_insert_with(|| now().to_string());
            Ok(entry.token())
        })
    }

    /// Whether clients of `acpx serve` must present a token.
    pub(crate) fn are_needed(&self) -> Result<bool, TokenError> {
        Ok(self.read()?.tokens.iter().any(|entry| entry.kind.is_bearer()))
    }

    /// The token of this kind with this secret, unless it was revoked.
    pub(crate) fn check(&self, secret: &str, kind: TokenKind) -> Result<Option<Token>, TokenError> {
        let hash = hash(secret);
        let contents = self.read()?;
        let found = contents.tokens.iter().rfind(|entry| entry.kind == kind && entry.is(&hash));
        let Some(entry) = found.filter(|entry| entry.revoked_at.is_none()) else { return Ok(None) };
        let token = entry.token();
        // A failed write of the time of use does not deny access.
        drop(self.note_uses(&contents, &HashMap::from([(token.id.clone(), now())])));
        Ok(Some(token))
    }

    /// Persists these uses, then lists all tokens, including revoked ones.
    pub(crate) fn list_with(&self, uses: &HashMap<String, Timestamp>) -> Result<Vec<Token>, TokenError> {
        let contents = self.read()?;
        self.note_uses(&contents, uses)?;
        Ok(contents.tokens.iter().map(TokenEntry::token).collect())
    }

    /// Whether a token exists and is not revoked.
    pub(crate) fn still_holds(&self, id: &str) -> Result<bool, TokenError> {
        Ok(self.read()?.tokens.iter().any(|entry| entry.token_id == id && entry.revoked_at.is_none()))
    }

    /// Persists times of last use, unless the stored ones are recent enough.
    fn note_uses(&self, known: &Contents, uses: &HashMap<String, Timestamp>) -> Result<(), TokenError> {
        let is_news = |entry: &TokenEntry| uses.get(&entry.token_id).is_some_and(|at| entry.is_behind(*at));
        if !known.tokens.iter().any(is_news) {
            return Ok(());
        }
        self.change(|contents| {
            for entry in contents.tokens.iter_mut().filter(|entry| is_news(entry)) {
                entry.last_used_at = uses.get(&entry.token_id).map(ToString::to_string);
            }
            Ok(())
        })
    }

    fn read(&self) -> Result<Contents, TokenError> {
        self.file.read().map_err(|error| self.unusable(error))
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        self.file.change(change).map_err(|error| self.unusable(error))?
    }

    fn unusable(&self, source: io::Error) -> TokenError {
        TokenError::File { file: self.file.path().to_owned(), source }
    }
}

impl TokenEntry {
    fn is(&self, hash: &str) -> bool {
        self.hash.as_bytes().ct_eq(hash.as_bytes()).into()
    }

    fn is_behind(&self, used: Timestamp) -> bool {
        let last = self.last_used_at.as_deref().and_then(|at| Timestamp::parse(at).ok());
        last.is_none_or(|last| used.since(last) >= FRESH)
    }

    fn token(&self) -> Token {
        let time = |text: &str| Timestamp::parse(text).ok();
        Token {
            id: self.token_id.clone(),
            name: self.name.clone(),
            kind: self.kind,
            scope: self.scope,
            // A damaged timestamp must not hide the token.
            created_at: time(&self.created_at).unwrap_or_else(epoch),
            last_used_at: self.last_used_at.as_deref().and_then(time),
            revoked_at: self.revoked_at.as_deref().map(|at| time(at).unwrap_or_else(epoch)),
        }
    }
}

fn hash(secret: &str) -> String {
    sha256_hex(secret.as_bytes())
}

fn epoch() -> Timestamp {
    Timestamp::since_1970(Duration::ZERO)
}

/// The current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::since_1970(acpx_core::wire::since_1970())
}

#[cfg(test)]
mod tests;
