//! Tests of the token file: which secrets grant access, and what is stored.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn tokens() -> (tempfile::TempDir, Tokens) {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::of(home.path());
    (home, tokens)
}

fn bearer(name: Option<&str>) -> NewToken<'_> {
    NewToken { name, ..NewToken::default() }
}

#[test]
fn device_tokens_are_no_bearers_and_serve_needs_none() {
    let (_home, tokens) = tokens();
    let device = NewToken { kind: TokenKind::Device, scope: AccessScope::Read, name: Some("phone") };
    let (secret, token) = tokens.make(device).unwrap();
    assert!(!tokens.are_needed().unwrap());
    assert_eq!(tokens.check(&secret, TokenKind::Bearer).unwrap(), None);
    let found = tokens.check(&secret, TokenKind::Device).unwrap().unwrap();
    assert_eq!((found.id, found.scope), (token.id, AccessScope::Read));
}

#[test]
fn a_token_lets_in_until_it_is_revoked_and_nothing_else_does() {
    let (_home, tokens) = tokens();
    assert!(!tokens.are_needed().unwrap());
    let (secret, token) = tokens.make(bearer(Some("laptop"))).unwrap();
    let (other, _) = tokens.make(bearer(None)).unwrap();
    assert!(tokens.are_needed().unwrap());
    assert_eq!(secret.len(), PREFIX.len() + 64);
    assert_eq!(
        tokens.check(&secret, TokenKind::Bearer).unwrap().map(|token| token.id),
        Some(token.id.clone())
    );
    assert_eq!(tokens.check(&secret, TokenKind::Device).unwrap(), None);
    for wrong in ["", "acpx_", &secret[..secret.len() - 1], &format!("{secret}0"), &token.id] {
        assert_eq!(tokens.check(wrong, TokenKind::Bearer).unwrap(), None);
    }
    let revoked = tokens.revoke(&token.id).unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(tokens.revoke(&token.id).unwrap(), revoked);
    assert_eq!(tokens.check(&secret, TokenKind::Bearer).unwrap(), None);
    assert!(!tokens.still_holds(&token.id).unwrap());
    assert!(tokens.check(&other, TokenKind::Bearer).unwrap().is_some());
}

#[test]
fn revoke_by_name_returns_the_only_matching_tokens_id() {
    let (_home, tokens) = tokens();
    let (_, old) = tokens.make(bearer(Some("laptop"))).unwrap();
    tokens.revoke(&old.id).unwrap();
    let refused = |name: &str| {
        let error = tokens.revoke(name).unwrap_err();
        (error.to_string(), error.hint().unwrap().into_owned())
    };
    let unknown = |hint: &str| ("there is no token with the id \"laptop\"".to_owned(), hint.to_owned());
    assert_eq!(
        refused("laptop"),
        unknown("acpx token list shows the ids"),
        "one that is revoked need not be"
    );
    let (_, token) = tokens.make(bearer(Some("laptop"))).unwrap();
    let named = format!("that is the name of one: acpx token revoke {}", token.id);
    assert_eq!(refused("laptop"), unknown(&named));
    tokens.make(bearer(Some("laptop"))).unwrap();
    assert_eq!(refused("laptop"), unknown("that is the name of 2; acpx token list shows their ids"));
}

#[test]
fn a_home_whose_last_token_is_revoked_still_wants_one() {
    let (_home, tokens) = tokens();
    let (_, token) = tokens.make(bearer(None)).unwrap();
    tokens.revoke(&token.id).unwrap();
    assert!(tokens.are_needed().unwrap());
}

#[test]
fn the_file_is_its_owners_alone_and_has_no_secret() {
    let (home, tokens) = tokens();
    let (secret, _) = tokens.make(bearer(Some("laptop"))).unwrap();
    let file = home.path().join("tokens.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("laptop") && !text.contains(&secret[PREFIX.len()..]), "{text}");
}

#[test]
fn the_last_use_is_written_down_and_not_at_every_use() {
    let (home, tokens) = tokens();
    let (secret, _) = tokens.make(bearer(None)).unwrap();
    let listed = || tokens.list().unwrap().remove(0).last_used_at;
    assert_eq!(listed(), None);
    tokens.check(&secret, TokenKind::Bearer).unwrap();
    let first = listed();
    assert!(first.is_some());
    let before = fs::read(home.path().join("tokens.json")).unwrap();
    tokens.check(&secret, TokenKind::Bearer).unwrap();
    assert_eq!(fs::read(home.path().join("tokens.json")).unwrap(), before);
}

#[test]
fn late_token_use_keeps_its_time_unless_a_later_exists() {
    let (_home, tokens) = tokens();
    let (_, token) = tokens.make(bearer(None)).unwrap();
    let at = |millis| Timestamp::from_millis(millis).unwrap();
    let fresh = i64::try_from(FRESH.as_millis()).unwrap();
    for (used, expected) in [(5, 5), (4 + fresh, 5), (5 + fresh, 5 + fresh), (7, 5 + fresh)] {
        let uses = HashMap::from([(token.id.clone(), at(used)), ("unknown".to_owned(), at(1))]);
        tokens.list_with(&uses).unwrap();
        assert_eq!(tokens.list().unwrap()[0].last_used_at, Some(at(expected)));
    }
}

#[test]
fn token_errors_name_the_problem() {
    let (home, tokens) = tokens();
    assert_eq!(tokens.revoke("x").unwrap_err().to_string(), "there is no token with the id \"x\"");
    for name in ["", "a\nb", &"x".repeat(101)] {
        assert_eq!(tokens.make(bearer(Some(name))).unwrap_err().code().as_str(), "USAGE");
    }
    fs::write(home.path().join("tokens.json"), "{").unwrap();
    let error = tokens.check("acpx_x", TokenKind::Bearer).unwrap_err();
    assert_eq!(error.code().as_str(), "TOKENS_UNUSABLE");
    assert_eq!(tokens.are_needed().unwrap_err().code().as_str(), "TOKENS_UNUSABLE");
    assert_eq!(tokens.make(bearer(None)).unwrap_err().code().as_str(), "TOKENS_UNUSABLE");
    assert_eq!(fs::read_to_string(home.path().join("tokens.json")).unwrap(), "{");
}

#[test]
fn tokens_that_are_made_at_once_are_all_kept() {
    let (_home, tokens) = tokens();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| tokens.make(bearer(None)).unwrap());
        }
    });
    assert_eq!(tokens.list().unwrap().len(), 8);
}
