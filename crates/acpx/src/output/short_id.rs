//! Ids as a person types them: the shortest beginning that no other id of the same list has.

/// The shortest form that is shown. A shorter one could soon fit another id.
const SHOWN: usize = 8;

/// The beginning of an id that none of the others has, of at least eight characters.
pub(crate) fn short_id<'a, 'b>(id: &'a str, all: impl Iterator<Item = &'b str>) -> &'a str {
    let shared = |other: &str| id.bytes().zip(other.bytes()).take_while(|(own, other)| own == other).count();
    let longest = all.filter(|other| *other != id).map(shared).max().unwrap_or_default();
    id.get(..SHOWN.max(longest + 1)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_id_is_the_shortest_unique_beginning() {
        let all = ["0123456789ab", "01234567ffff", "short", "aaaaaaaaaaaa"];
        let shown = all.map(|id| short_id(id, all.into_iter()));
        assert_eq!(shown, ["012345678", "01234567f", "short", "aaaaaaaa"]);
    }
}
