//! MCP servers as a client hands them over. Their values are secrets: they live in memory and go to the agent.

use std::fmt;

/// One server for the agent to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name; its values are never stored.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// A server as it is kept: by what its values can be had again, and none of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeptServer {
    /// Its name.
    pub name: String,
    /// The configuration file its values came from; `None` if a client told them.
    pub source: Option<super::AbsolutePath>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that the agent starts. Every agent can.
    Stdio {
        /// Absolute path of the program.
        command: super::AbsolutePath,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment.
        env: Vec<NamedValue>,
    },
    /// Streamable HTTP, where the agent advertises it.
    Http {
        /// Where it listens.
        url: String,
        /// Sent with every request.
        headers: Vec<NamedValue>,
    },
    /// Server-sent events, where the agent advertises it.
    Sse {
        /// Where it listens.
        url: String,
        /// Sent with every request.
        headers: Vec<NamedValue>,
    },
}

/// A name and a value that nobody may print.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedValue {
    /// The variable's or header's name.
    pub name: String,
    /// Its secret value.
    pub value: String,
}

impl fmt::Debug for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedValue").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_value_is_not_printed() {
        let value = NamedValue { name: "TOKEN".into(), value: "s3cret".into() };
        assert_eq!(format!("{value:?}"), "NamedValue { name: \"TOKEN\", .. }");
    }
}
