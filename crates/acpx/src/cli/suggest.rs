//! Suggestions for mistyped words.

/// Maximum edit distance of a suggestion.
const NEAR: usize = 2;

/// The first of the nearest candidates, if it is near enough to be a typing error.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let near = candidates.filter_map(|candidate| {
        let distance = strsim::damerau_levenshtein(&word, candidate);
        // Of a short word nearly everything is two edits away.
        let is_near = distance <= NEAR && distance * 3 <= candidate.chars().count();
        is_near.then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate.to_owned())
}
