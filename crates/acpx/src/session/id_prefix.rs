//! Ids that a person types: a whole id, or the beginning of exactly one of those that are meant.

use super::lookup::SHORTEST_PREFIX;
use crate::cli::UsageError;

/// The item whose id is typed or begins like this; `None` if there is no such item.
pub(crate) fn by_prefix<'a, T>(
    typed: &str,
    items: &'a [T],
    id: impl Fn(&T) -> &str,
) -> Result<Option<&'a T>, UsageError> {
    let mut exact = items.iter().filter(|item| id(item) == typed);
    if let (Some(one), None) = (exact.next(), exact.next()) {
        return Ok(Some(one));
    }
    let matches: Vec<&T> = items.iter().filter(|item| id(item).starts_with(typed)).collect();
    match matches.as_slice() {
        [] => Ok(None),
        [one] if typed.chars().count() >= SHORTEST_PREFIX => Ok(Some(*one)),
        several => {
            let ids = several.iter().map(|item| id(item).to_owned()).collect();
            Err(UsageError::UnclearId { typed: typed.to_owned(), ids })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_prefix_must_be_unique_and_six_characters_long() {
        let ids = ["abcdef01", "abcdef02", "abcdef", "123456"];
        let found = |typed: &str| by_prefix(typed, &ids, |id| id).map(Option::<&&str>::copied);
        let unclear = |typed: &str, ids: &[&str]| {
            let ids = ids.iter().map(ToString::to_string).collect();
            Err(UsageError::UnclearId { typed: typed.to_owned(), ids })
        };
        assert_eq!(found("abcdef01"), Ok(Some("abcdef01")));
        assert_eq!(found("abcdef"), Ok(Some("abcdef")));
        assert_eq!(found("abcdef0"), unclear("abcdef0", &["abcdef01", "abcdef02"]));
        assert_eq!(found("123456"), Ok(Some("123456")));
        assert_eq!(found("12345"), unclear("12345", &["123456"]));
        assert_eq!(found("fffffff"), Ok(None));
    }
}
