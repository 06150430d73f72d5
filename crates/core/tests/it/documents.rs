//! The documents are true where a test can tell: what they name exists, and the code map is complete.

use std::fs;

use crate::workspace;

#[test]
fn every_file_that_a_document_names_exists() {
    for (document, text) in workspace::documents() {
        for named in workspace::quoted(&text) {
            if named.starts_with("crates/") || named.starts_with("docs/") {
                assert!(workspace::root().join(named).exists(), "{document} names {named}");
            }
        }
    }
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    for (document, text) in workspace::documents() {
        let path = workspace::root().join(&document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let (target, anchor) = link.0.split_once('#').unwrap_or((link.0, ""));
            if target.contains("://") {
                continue;
            }
            let linked = if target.is_empty() { path.clone() } else { path.parent().unwrap().join(target) };
            assert!(linked.exists(), "{document} links to {target}");
            if !anchor.is_empty() {
                let page = fs::read_to_string(&linked).unwrap();
                assert!(anchors(&page).any(|known| known == anchor), "{document} links to {target}#{anchor}");
            }
        }
    }
}

/// The anchors of a page's headings, as GitHub makes them: lower case, hyphens for spaces, no punctuation.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings =
        page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    headings.map(move |heading| heading.to_lowercase().chars().filter_map(kept).collect())
}

#[test]
fn every_test_that_a_document_names_exists() {
    let tests = workspace::tests();
    for (document, text) in workspace::documents() {
        for named in workspace::quoted(&text) {
            if reads_like_a_test(named) {
                assert!(tests.contains(named), "{document} names {named}");
            }
        }
    }
}

/// A test's name is a claim: a sentence of at least four words.
fn reads_like_a_test(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_word) && name.split('_').count() >= 4
}

#[test]
fn the_code_map_has_every_module_of_the_library() {
    let (page, lib) = (workspace::read("ARCHITECTURE.md"), workspace::read("crates/core/src/lib.rs"));
    let named = workspace::quoted(&page);
    for module in lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        let paths = [format!("crates/core/src/{module}/"), format!("crates/core/src/{module}.rs")];
        assert!(paths.iter().any(|path| named.contains(&path.as_str())), "the code map lacks {module}");
    }
}
