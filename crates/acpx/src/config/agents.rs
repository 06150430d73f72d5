//! The agents that a configuration file has: a list of words, a line to split, or a program with arguments; and in which
//! version of the protocol each is spoken to.

use std::collections::BTreeMap;

use super::ConfigError;
use super::node::Node;
use crate::agents::{canonical, split_line};
use acpx_core::model::ProtocolVersion;

/// What the file says of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AgentEntry {
    /// Its command; `None` if it is a built-in agent's.
    pub(super) argv: Option<Vec<String>>,
    /// The newest version of the protocol that it is asked for.
    pub(super) protocol: Option<ProtocolVersion>,
}

/// Every agent by the name it is looked up by.
pub(super) fn agents(node: &Node<'_>) -> Result<BTreeMap<String, AgentEntry>, ConfigError> {
    let members = node.object("an object")?;
    let mut agents = BTreeMap::new();
    for (name, entry) in members.names().zip(members.all()) {
        agents.insert(canonical(name), agent(&entry)?);
    }
    Ok(agents)
}

/// An entry that only says the version is about a built-in agent.
fn agent(entry: &Node<'_>) -> Result<AgentEntry, ConfigError> {
    const EXPECTED: &str = "an object with \"argv\", or with \"command\" and perhaps \"args\"";
    let members = entry.object(EXPECTED)?;
    let protocol = members.get("protocol").map(|node| protocol(&node)).transpose()?;
    let parts = [members.get("argv"), members.get("command"), members.get("args")];
    if protocol.is_some() && parts.iter().all(Option::is_none) {
        return Ok(AgentEntry { argv: None, protocol });
    }
    Ok(AgentEntry { argv: Some(command(entry, parts, EXPECTED)?), protocol })
}

fn protocol(node: &Node<'_>) -> Result<ProtocolVersion, ConfigError> {
    let number = node.count().ok().and_then(|number| u16::try_from(number).ok());
    number.and_then(ProtocolVersion::from_number).ok_or_else(|| node.wrong("1 or 2"))
}

fn command(
    entry: &Node<'_>,
    [argv, line, args]: [Option<Node<'_>>; 3],
    expected: &str,
) -> Result<Vec<String>, ConfigError> {
    match (argv, line, args) {
        (Some(argv), None, None) => words(&argv),
        (None, Some(line), None) => {
            let text = line.word()?;
            split_line(&text).map_err(|problem| line.wrong(&format!("a command line; it {problem}")))
        }
        (None, Some(program), Some(args)) => with_arguments(&program, &args),
        _ => Err(entry.wrong(expected)),
    }
}

fn words(argv: &Node<'_>) -> Result<Vec<String>, ConfigError> {
    let nodes = argv.array()?;
    let Some((program, arguments)) = nodes.split_first() else {
        return Err(argv.wrong("an array with at least the program"));
    };
    let arguments = arguments.iter().map(Node::text);
    [program.word()].into_iter().chain(arguments).collect()
}

fn with_arguments(program: &Node<'_>, args: &Node<'_>) -> Result<Vec<String>, ConfigError> {
    let name = program.word()?;
    if name.contains(|character: char| character.is_whitespace() || character == '"' || character == '\'') {
        return Err(program.wrong("one program without spaces or quotes, since \"args\" has the arguments"));
    }
    let arguments = args.array()?;
    [Ok(name)].into_iter().chain(arguments.iter().map(Node::text)).collect()
}
