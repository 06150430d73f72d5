//! Parses server-sent events as far as ACP uses them: the data of each event; event names are ignored.

use super::super::longest_line;

/// The incomplete line and event so far.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Option<String>,
}

/// An event is longer than any message may be, or no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than any message may be, or no text")]
pub(super) struct BadEvent;

impl Events {
    /// The data of the events that these bytes complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<String>, BadEvent> {
        let mut complete = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > 2 * longest_line() {
                return Err(BadEvent);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                complete.extend(self.line(&line)?);
            }
        }
        Ok(complete)
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<String>, BadEvent> {
        let line = std::str::from_utf8(line).map_err(|_| BadEvent)?;
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(self.data.take());
        }
        if let Some(data) = line.strip_prefix("data:") {
            let data = data.strip_prefix(' ').unwrap_or(data);
            match &mut self.data {
                Some(before) => {
                    before.push('\n');
                    before.push_str(data);
                }
                None => self.data = Some(data.to_owned()),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_their_bytes_come() {
        let stream = "data: {\"a\":1}\n\n:\n\nevent: message\r\ndata:{\ndata: }\r\nid: 7\r\n\r\ndata: half";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let told: Vec<String> =
                stream.as_bytes().chunks(size).flat_map(|bytes| events.take(bytes).unwrap()).collect();
            assert_eq!(told, ["{\"a\":1}", "{\n}"]);
        }
    }

    #[test]
    fn invalid_utf8_or_endless_event_is_an_error() {
        assert_eq!(Events::default().take(b"data: \xff\n\n"), Err(BadEvent));
        let mut events = Events::default();
        let endless = vec![b'x'; longest_line()];
        let told: Result<Vec<_>, _> = (0..3).map(|_| events.take(&endless)).collect();
        assert_eq!(told, Err(BadEvent));
    }
}
