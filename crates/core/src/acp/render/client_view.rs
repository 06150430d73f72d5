//! What one client can be told, as it said when it came.

use serde_json::Value;

use crate::model::{ClientName, ProtocolVersion};

/// What a client understands. One that says nothing understands the first version without what must be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientView {
    /// The version its connection speaks.
    pub protocol: ProtocolVersion,
    /// Who it is, if it said so.
    pub name: Option<ClientName>,
    /// Whether it takes notices.
    pub notices: bool,
    /// Whether it takes what agents say about the compaction of their memory.
    pub compaction: bool,
    /// Whether it takes options that are true or false.
    pub boolean_options: bool,
}

impl ClientView {
    /// Reads the params of `initialize` on a connection that speaks this version. What cannot be read was not said.
    pub fn read(initialize: &str, protocol: ProtocolVersion) -> Self {
        let params: Value = serde_json::from_str(initialize).unwrap_or_default();
        let name = match protocol {
            ProtocolVersion::V1 => params.get("clientInfo"),
            ProtocolVersion::V2 => params.get("info"),
        };
        let name = name.and_then(|name| serde_json::from_value(name.clone()).ok());
        let session = params.pointer("/clientCapabilities/session");
        // In the second version nobody is asked: all of it belongs to the protocol.
        let takes = |path: &str| {
            protocol == ProtocolVersion::V2
                || session.and_then(|session| session.pointer(path)).is_some_and(Value::is_object)
        };
        let (notices, compaction) = (takes("/notices"), takes("/compaction"));
        Self { protocol, name, notices, compaction, boolean_options: takes("/configOptions/boolean") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_what_it_said_it_takes_and_nothing_else() {
        let said = r#"{"protocolVersion":1,"clientInfo":{"name":"zed","version":"1.2","title":null},
            "clientCapabilities":{"session":{"notices":{},"compaction":null,"configOptions":{"boolean":{}}}}}"#;
        let name = Some(ClientName { name: "zed".to_owned(), version: "1.2".to_owned() });
        let expected = ClientView { name, notices: true, boolean_options: true, ..ClientView::default() };
        assert_eq!(ClientView::read(said, ProtocolVersion::V1), expected);
        assert_eq!(ClientView::read("{}", ProtocolVersion::V1), ClientView::default());
        assert_eq!(ClientView::read("not JSON", ProtocolVersion::V1), ClientView::default());
        let second = ClientView {
            protocol: ProtocolVersion::V2,
            name: Some(ClientName { name: "x".to_owned(), version: String::new() }),
            notices: true,
            compaction: true,
            boolean_options: true,
        };
        assert_eq!(ClientView::read(r#"{"info":{"name":"x"}}"#, ProtocolVersion::V2), second);
    }
}
