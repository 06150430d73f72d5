//! Cookies of the server, which a load balancer may need for routing. There is only one address, so every cookie is
//! sent back.

use hyper::header::HeaderValue;

/// Maximum number of cookies, and maximum length of each.
const MOST: usize = 32;
const LONGEST: usize = 4096;

/// The cookies by name.
#[derive(Debug, Default)]
pub(super) struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Stores the cookie of a `Set-Cookie` header. Malformed and excess cookies are ignored.
    pub(super) fn take(&mut self, header: &HeaderValue) {
        let Some(text) = header.to_str().ok().filter(|text| text.len() <= LONGEST) else { return };
        let mut parts = text.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let is_over = parts.filter_map(|part| part.split_once('=')).any(|(attribute, value)| {
            attribute.trim().eq_ignore_ascii_case("max-age")
                && value.trim().parse::<i64>().is_ok_and(|seconds| seconds <= 0)
        });
        self.0.retain(|(known, _)| *known != name);
        if !is_over && !name.is_empty() && self.0.len() < MOST {
            self.0.push((name, value));
        }
    }

    /// The `Cookie` header with all of them.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let pairs: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut header = HeaderValue::from_str(&pairs.join("; ")).ok().filter(|_| !pairs.is_empty())?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_sent_until_the_server_deletes_them() {
        let mut cookies = Cookies::default();
        assert_eq!(cookies.header(), None);
        for given in ["way=a; Path=/; HttpOnly", "x = 1 ;Max-Age=60", "no cookie", "way=b", "=nameless"] {
            cookies.take(&HeaderValue::from_static(given));
        }
        assert_eq!(cookies.header(), Some(HeaderValue::from_static("x=1; way=b")));
        cookies.take(&HeaderValue::from_static("x=; max-age=0"));
        assert_eq!(cookies.header(), Some(HeaderValue::from_static("way=b")));
        for number in 0..MOST * 2 {
            cookies.take(&HeaderValue::from_str(&format!("n{number}=1")).unwrap());
        }
        assert_eq!(cookies.0.len(), MOST);
    }
}
