//! Finds the approving and the rejecting option among those that an agent offers with a permission request.
//!
//! Policies, commands and people at a terminal use the same rule, so an approval selects the same option everywhere.
//! An id that two options share is never selected, because the agent could take it for either.

/// An option of a permission request.
pub trait OfferedAnswer {
    /// Its id.
    fn id(&self) -> &str;
    /// Its kind, if the agent sent one.
    fn kind(&self) -> Option<&str>;
}

/// The options with a unique id.
pub fn unmistakable<T: OfferedAnswer>(answers: &[T]) -> impl Iterator<Item = &T> {
    answers.iter().filter(|one| answers.iter().filter(|other| other.id() == one.id()).count() == 1)
}

/// The narrowest option whose kind begins with this word, `allow` or `reject`: once before always, always before an
/// unknown suffix. Other kinds are ignored, because their meaning is unknown.
pub fn narrowest<'a, T: OfferedAnswer>(answers: &'a [T], word: &str) -> Option<&'a T> {
    let rank = |answer: &&T| match answer.kind()?.strip_prefix(word)? {
        "_once" => Some(0),
        "_always" => Some(1),
        _ => Some(2),
    };
    let ranked = unmistakable(answers).filter_map(|answer| Some((rank(&answer)?, answer)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, answer)| answer)
}

impl OfferedAnswer for (String, String) {
    fn id(&self) -> &str {
        &self.0
    }

    fn kind(&self) -> Option<&str> {
        Some(&self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_select_the_narrowest_unambiguous_option() {
        let all = [
            ("x", "perhaps"),
            ("w", "allow_all_week"),
            ("A", "allow_always"),
            ("a", "allow_once"),
            ("a", "reject_once"),
            ("R", "reject_always"),
        ]
        .map(|(id, kind)| (id.to_owned(), kind.to_owned()));
        let chosen =
            |answers: &[(String, String)], word: &str| narrowest(answers, word).map(|one| one.0.clone());
        let cases = [
            (&all[..], "allow", Some("A")),
            (&all[..], "reject", Some("R")),
            (&all[..4], "allow", Some("a")),
            (&all[..2], "allow", Some("w")),
            (&all[..1], "allow", None),
            (&all[3..5], "allow", None),
            (&all[3..5], "reject", None),
            (&all[..0], "allow", None),
        ];
        for (answers, word, expected) in cases {
            assert_eq!(chosen(answers, word).as_deref(), expected, "{answers:?} {word}");
        }
    }
}
