//! Locating and replacing values in a text.

use super::*;

const TEXT: &str = r#"{ "a" : [1, {"b":"x"} , null], "\u0063":1e3, "d":1, "d":2 }"#;

fn at(path: &[PathStep<'_>]) -> Option<&'static str> {
    locate(TEXT, path).map(|range| &TEXT[range])
}

#[test]
fn a_value_is_found_by_its_path_without_the_space_around_it() {
    use PathStep::{Index, Key};
    assert_eq!(at(&[]), Some(TEXT));
    assert_eq!(at(&[Key("a"), Index(1), Key("b")]), Some(r#""x""#));
    assert_eq!(at(&[Key("a"), Index(2)]), Some("null"));
    assert_eq!(at(&[Key("c")]), Some("1e3"));
}

#[test]
fn what_is_not_there_or_there_twice_or_no_json_is_none() {
    use PathStep::{Index, Key};
    let none = [
        at(&[Key("d")]),
        at(&[Key("e")]),
        at(&[Key("a"), Index(3)]),
        at(&[Key("a"), Key("b")]),
        at(&[Index(0)]),
        at(&[Key("c"), Key("x")]),
    ];
    assert_eq!(none, [None; 6]);
    for text in ["", "{", "{} {}", r#"{"a":1,}"#, r#"{"a":1"#] {
        assert_eq!(locate(text, &[Key("a")]), None, "{text}");
    }
}

#[test]
fn all_elements_of_an_array_are_found_and_nothing_else_has_elements() {
    let text = r#" [ 1 ,[2], {"a":[]} ] "#;
    let found = elements(text).map(|ranges| ranges.into_iter().map(|range| &text[range]).collect::<Vec<_>>());
    assert_eq!(found, Some(vec!["1", "[2]", r#"{"a":[]}"#]));
    assert_eq!(elements("[]"), Some(vec![]));
    assert_eq!(
        [elements("{}"), elements("1"), elements("[1"), elements("[1]x"), elements("")],
        [const { None }; 5]
    );
}

#[test]
fn replacements_are_made_in_the_order_of_their_places() {
    let mut splice = Splice::new("héllo");
    splice.replace(3..5, "LL").unwrap().replace(6..6, "!").unwrap().replace(0..1, "").unwrap();
    splice.replace(3..3, "-").unwrap();
    assert_eq!(splice.finish(), "é-LLo!");
}

#[test]
fn a_wrong_range_is_an_error_and_changes_nothing() {
    let mut splice = Splice::new("héllo");
    splice.replace(3..5, "x").unwrap().replace(0..0, "y").unwrap();
    let outside = |range: Range<usize>| SpliceError::Outside { range, length: 6 };
    let overlap = |range: Range<usize>, other| SpliceError::Overlap { range, other };
    #[expect(clippy::reversed_empty_ranges, reason = "a range that ends before it starts is what is tried")]
    let backwards = 4..3;
    let cases = [
        (0..7, outside(0..7)),
        (9..9, outside(9..9)),
        (backwards.clone(), outside(backwards)),
        (0..2, SpliceError::InsideCharacter { range: 0..2 }),
        (2..2, SpliceError::InsideCharacter { range: 2..2 }),
        (4..6, overlap(4..6, 3..5)),
        (4..4, overlap(4..4, 3..5)),
        (1..6, overlap(1..6, 3..5)),
        (3..5, overlap(3..5, 3..5)),
        (0..0, overlap(0..0, 0..0)),
    ];
    for (range, error) in cases {
        assert_eq!(splice.replace(range, "z").map(|_| ()), Err(error));
    }
    assert_eq!(splice.finish(), "yhéxo");
}
