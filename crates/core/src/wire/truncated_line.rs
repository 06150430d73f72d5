//! Reads the beginning of a line that was too long to keep: the id of its request, so that the request can be answered
//! with an error.
//!
//! A line counts as a request only if its method and id come within the kept beginning. A response has an id too, but
//! it is not a request's.

use super::RpcId;

/// The request id in a line's beginning; `None` if it is not recognisable as a request.
pub(super) fn request_id(head: &[u8]) -> Option<RpcId> {
    let mut rest = PrefixScanner(std::str::from_utf8(head).unwrap_or_else(|cut| {
        // The kept beginning may end within a character.
        std::str::from_utf8(&head[..cut.valid_up_to()]).unwrap_or_default()
    }));
    rest.take('{')?;
    let (mut id, mut has_method) = (None, false);
    loop {
        let name = rest.scalar()?;
        rest.take(':')?;
        let value = rest.scalar()?;
        match serde_json::from_str::<String>(name).ok()?.as_str() {
            "id" => id = Some(RpcId::from_raw(value)?),
            "method" => has_method = value.starts_with('"'),
            _ => {}
        }
        if has_method && id.is_some() {
            return id;
        }
        rest.take(',')?;
    }
}

/// The rest of the text to scan.
struct PrefixScanner<'a>(&'a str);

impl<'a> PrefixScanner<'a> {
    /// Consumes this character and the whitespace before it.
    fn take(&mut self, character: char) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(character)?;
        Some(())
    }

    /// Consumes a scalar as raw text. Something must follow it: a scalar at the very end may be incomplete.
    fn scalar(&mut self) -> Option<&'a str> {
        let text = self.0.trim_ascii_start();
        let end = match text.strip_prefix('"') {
            Some(inside) => end_of_string(inside)? + 2,
            None => text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?,
        };
        let (value, rest) = text.split_at_checked(end)?;
        self.0 = rest;
        Some(value).filter(|value| !value.is_empty())
    }
}

/// The position of the closing quote of a string, in the text after its opening one.
fn end_of_string(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_line_is_a_request_only_with_method_and_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"x":"xxx"#, Some("7")),
            (r#" { "method" : "m\"\\" , "id" : "a,\"b" , "params":["#, Some(r#""a,\"b""#)),
            (r#"{"id":-1.5e3,"method":"m","#, Some("-1.5e3")),
            (r#"{"\u0069d":1,"method":"m","#, Some("1")),
            // The last value may be incomplete.
            (r#"{"method":"m","id":12"#, None),
            (r#"{"id":12,"method":"session/pro"#, None),
            // A response, a notification, and ambiguous text.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":"x"#, None),
            (r#"{"jsonrpc":"2.0","method":"session/update","params":{"id":7,"#, None),
            (r#"{"method":"m","id":null,"#, None),
            (r#"{"method":1,"id":7,"params":{"#, None),
            (r#"[{"method":"m","id":7,"#, None),
            (r#"{"method":"m","id":tru7,"#, None),
            ("{", None),
            ("", None),
        ];
        for (head, id) in cases {
            assert_eq!(request_id(head.as_bytes()).as_ref().map(RpcId::as_str), id, "{head}");
        }
        let cut = [br#"{"id":7,"method":"m","x":""#.as_slice(), &[0xc3]].concat();
        assert_eq!(request_id(&cut).as_ref().map(RpcId::as_str), Some("7"));
    }
}
