//! Replacing ranges of a text.

use super::*;

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
