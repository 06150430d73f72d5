//! Finds passwords in URLs: the part between the user and the host in `scheme://user:password@host`.

/// The placeholder password of examples and local setups.
const EXAMPLE: &str = "password";

/// Every password in the URLs of a text, as written and percent-decoded. One that repeats the user or the scheme
/// (`postgres://postgres:postgres@localhost`) protects nothing and is an ordinary word.
pub(super) fn passwords(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, separator) in text.match_indices("://") {
        let before = text.get(..at).unwrap_or_default();
        let rest = text.get(at + separator.len()..).unwrap_or_default();
        let Some((user, password)) = user_and_password(rest) else { continue };
        let scheme = before.rsplit(|character| !is_of_scheme(character)).next().unwrap_or_default();
        if scheme.is_empty() || [user, scheme, EXAMPLE].iter().any(|word| password.eq_ignore_ascii_case(word))
        {
            continue;
        }
        let read = decoded(password).filter(|read| read != password);
        found.extend([password.to_owned()].into_iter().chain(read));
    }
    found
}

/// The user and the password of a URL.
fn user_and_password(rest: &str) -> Option<(&str, &str)> {
    let ends = |character: char| "/?#\"'<>".contains(character) || character.is_whitespace();
    let authority = rest.split(ends).next()?;
    let (user_info, _host) = authority.rsplit_once('@')?;
    user_info.split_once(':')
}

fn is_of_scheme(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
}

/// The percent-decoded text; `None` if it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let meant = digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        let meant = meant.filter(|_| byte == b'%');
        bytes.push(meant.unwrap_or(byte));
        rest = if meant.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_passwords_in_every_spelling() {
        let cases: [(&str, &[&str]); 12] = [
            ("postgres://app:s3cr3t-word@db.example:5432/app", &["s3cr3t-word"]),
            ("https://:only-password@host", &["only-password"]),
            ("redis+tls://u:a:b@c@host", &["a:b@c"]),
            ("amqp://u:first-one@h1,amqp://u:second-one@h2", &["first-one", "second-one"]),
            ("see 'http://u:quoted-one@h' and more", &["quoted-one"]),
            ("mysql://u:p%40ss%2Fword@h/db", &["p%40ss%2Fword", "p@ss/word"]),
            ("mysql://u:100%sure%zz@h", &["100%sure%zz"]),
            ("postgres://me:postgres@h POSTGRES://admin:Admin@h x://u:password@h", &[]),
            ("https://token@host https://host:8080/a@b https://host:8080", &[]),
            ("://u:without-scheme@h", &[]),
            ("user:word@host", &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(passwords(text), expected, "{text}");
        }
    }
}
