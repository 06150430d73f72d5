//! The agents that a configuration file has: a list of words, a line to split, or a program with arguments.

use std::collections::BTreeMap;

use acpx_core::model::AgentSpec;

use super::ConfigError;
use super::node::Node;
use crate::agents::{canonical, split_line};

/// Every agent's command by the name it is looked up by.
pub(super) fn agents(node: &Node<'_>) -> Result<BTreeMap<String, Vec<String>>, ConfigError> {
    let members = node.object("an object")?;
    let mut agents = BTreeMap::new();
    for (name, entry) in members.names().zip(members.all()) {
        agents.insert(canonical(name), command(&entry)?);
    }
    Ok(agents)
}

fn command(entry: &Node<'_>) -> Result<Vec<String>, ConfigError> {
    const EXPECTED: &str = "an object with \"argv\", with \"command\" and perhaps \"args\", or with \"url\" and perhaps \"tokenFile\"";
    let members = entry.object(EXPECTED)?;
    if let Some(url) = members.get("url") {
        let own = ["argv", "command", "args"].into_iter().find(|name| members.get(name).is_some());
        return if own.is_some() {
            Err(entry.wrong(EXPECTED))
        } else {
            elsewhere(&url, members.get("tokenFile"))
        };
    }
    match (members.get("argv"), members.get("command"), members.get("args")) {
        (Some(argv), None, None) => words(&argv),
        (None, Some(line), None) => {
            let text = line.word()?;
            split_line(&text).map_err(|problem| line.wrong(&format!("a command line; it {problem}")))
        }
        (None, Some(program), Some(args)) => with_arguments(&program, &args),
        _ => Err(entry.wrong(EXPECTED)),
    }
}

/// An agent on another machine, as it is reached.
fn elsewhere(url: &Node<'_>, token_file: Option<Node<'_>>) -> Result<Vec<String>, ConfigError> {
    let mut words = vec![url.word()?];
    if AgentSpec::new(words[0].as_str(), [""; 0]).url().is_none() {
        return Err(url.wrong("a URL that begins with wss://, ws://, https:// or http://"));
    }
    if let Some(file) = token_file {
        words.extend(["--token-file".to_owned(), file.word()?]);
    }
    Ok(words)
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
