//! `docs/reference/errors.md` is true: it has every stable code that the library and the program can give, and no other.

use std::collections::BTreeSet;

use crate::workspace;

/// Text in the form of a code, between double quotes.
fn codes(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_code =
        |text: &&str| text.len() > 3 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    text.split('"').skip(1).step_by(2).filter(is_code).map(str::to_owned)
}

/// How a function that gives codes begins.
const SIGNATURES: [&str; 4] = [
    "fn code(&self) -> &'static str {",
    "fn code(&self) -> &str {",
    "fn code(self) -> &'static str {",
    "fn code(&self) -> Cow<'static, str> {",
];

/// The body of every such function in the sources, ended by its closing brace.
fn bodies(text: &str) -> impl Iterator<Item = &str> {
    let after = SIGNATURES.iter().flat_map(|signature| text.split(signature).skip(1));
    after.map(|rest| rest.split_once("\n    }\n").expect("a function ends").0)
}

#[test]
fn the_page_of_errors_has_every_code_and_no_other() {
    let mut ours = BTreeSet::new();
    let mut functions = 0;
    for (path, text) in
        [workspace::sources("crates/core/src"), workspace::sources("crates/acpx/src")].concat()
    {
        for body in bodies(&text) {
            functions += 1;
            ours.extend(codes(body));
        }
        // What crosses the socket, and what a turn keeps, may have a code that no error type has.
        if ["crates/core/src/protocol/rpc_error.rs", "crates/core/src/model/turn.rs"].contains(&path.as_str())
        {
            ours.extend(text.lines().flat_map(codes));
        }
        // A fact of ours may carry a code that no error type has.
        for literal in text.split("FactError { code: ").skip(1) {
            ours.extend(codes(literal.split_once(',').map_or(literal, |(code, _)| code)));
        }
    }
    assert_eq!(functions, 12, "an error type was added: describe its codes in docs/reference/errors.md");
    let page = workspace::read("docs/reference/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let described: Vec<String> = rows.map(|(code, _)| code.to_owned()).collect();
    let once: BTreeSet<String> = described.iter().cloned().collect();
    assert_eq!((once.len(), once), (described.len(), ours));
}
