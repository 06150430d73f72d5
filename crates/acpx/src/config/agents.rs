//! Agent entries of the configuration file: the command (a list, a line to split, a program with arguments, or a URL),
//! the protocol version, the profile and the environment.
//!
//! A wrong entry affects only its agent: others can be used, and running ones can be stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use acpx_core::model::{AgentProfile, AgentSpec, JsonNode, ProtocolVersion, WrongMember};

use super::variables::AgentVariables;
use crate::agents::{canonical, split_line};

/// Keys that define how an agent is started or reached.
const COMMAND: [&str; 5] = ["argv", "command", "args", "url", "tokenFile"];
/// Other keys of an entry.
const SETTINGS: [&str; 4] = ["protocol", "profile", "env", "secretEnv"];
const EXPECTED: &str = "an object with \"argv\", with \"command\" and perhaps \"args\", or with \"url\" and perhaps \"tokenFile\"";

/// A parsed agent entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AgentEntry {
    /// Its command; `None` for a built-in agent's own command.
    pub(super) argv: Option<Vec<String>>,
    /// The newest protocol version to offer it.
    pub(super) protocol: Option<ProtocolVersion>,
    /// Its profile, which overrides the built-in one.
    pub(super) profile: Option<Arc<AgentProfile>>,
    /// Variables for its environment, and the names of secret ones.
    pub(super) variables: AgentVariables,
    /// Unknown members, by their full keys.
    pub(super) unknown: Vec<String>,
}

/// All entries by canonical agent name, each parsed or with its error.
pub(super) type Agents = BTreeMap<String, Result<AgentEntry, WrongMember>>;

/// Parses all agent entries.
pub(super) fn agents(node: &JsonNode<'_>) -> Result<Agents, WrongMember> {
    let members = node.object("an object")?;
    Ok(members.all().map(|(name, entry)| (canonical(name), agent(&entry))).collect())
}

/// The keys of an agent's entry.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    COMMAND.into_iter().chain(SETTINGS)
}

/// An entry without a command configures a built-in agent.
fn agent(entry: &JsonNode<'_>) -> Result<AgentEntry, WrongMember> {
    let members = entry.object(EXPECTED)?;
    let protocol = members.read("protocol", protocol)?;
    let profile = members.read("profile", AgentProfile::read)?.map(Arc::new);
    let variables = AgentVariables::of(members.get("env").as_ref(), members.get("secretEnv").as_ref())?;
    let has_command = COMMAND.into_iter().any(|name| members.get(name).is_some());
    let has_more = SETTINGS.into_iter().any(|name| members.get(name).is_some());
    let argv = if has_more && !has_command { None } else { Some(command(entry)?) };
    let known = [&COMMAND[..], &SETTINGS].concat();
    let of_profile = members.get("profile").map(|node| AgentProfile::unknown_members(&node));
    let unknown = members.others(&known).into_iter().chain(of_profile.unwrap_or_default()).collect();
    Ok(AgentEntry { argv, protocol, profile, variables, unknown })
}

fn protocol(node: &JsonNode<'_>) -> Result<ProtocolVersion, WrongMember> {
    node.number("1 or 2", |number| ProtocolVersion::from_number(u16::try_from(number.as_u64()?).ok()?))
}

fn command(entry: &JsonNode<'_>) -> Result<Vec<String>, WrongMember> {
    let members = entry.object(EXPECTED)?;
    if let Some(url) = members.get("url") {
        let own = ["argv", "command", "args"].into_iter().find(|name| members.get(name).is_some());
        return if own.is_some() {
            Err(entry.wrong_content(EXPECTED))
        } else {
            remote_agent(&url, members.get("tokenFile"))
        };
    }
    match (members.get("argv"), members.get("command"), members.get("args")) {
        (Some(argv), None, None) => words(&argv),
        (None, Some(line), None) => {
            let text = line.word()?;
            split_line(&text).map_err(|problem| line.wrong_content(&format!("a command line; it {problem}")))
        }
        (None, Some(program), Some(args)) => with_arguments(&program, &args),
        _ => Err(entry.wrong_content(EXPECTED)),
    }
}

/// The command of a remote agent.
fn remote_agent(url: &JsonNode<'_>, token_file: Option<JsonNode<'_>>) -> Result<Vec<String>, WrongMember> {
    let mut words = vec![url.word()?];
    if AgentSpec::new(words[0].as_str(), [""; 0]).url().is_none() {
        return Err(url.wrong_content("a URL that begins with wss://, ws://, https:// or http://"));
    }
    if let Some(file) = token_file {
        let path = file.word()?;
        if !Path::new(&path).is_absolute() {
            // A relative path would depend on where the agent is started.
            return Err(file.wrong_content("an absolute path"));
        }
        words.extend(["--token-file".to_owned(), path]);
    }
    Ok(words)
}

fn words(argv: &JsonNode<'_>) -> Result<Vec<String>, WrongMember> {
    let nodes = argv.array()?;
    let Some((program, arguments)) = nodes.split_first() else {
        return Err(argv.wrong("an array with at least the program"));
    };
    let arguments = arguments.iter().map(JsonNode::text);
    [program.word()].into_iter().chain(arguments).collect()
}

fn with_arguments(program: &JsonNode<'_>, args: &JsonNode<'_>) -> Result<Vec<String>, WrongMember> {
    let name = program.word()?;
    if name.contains(|character: char| character.is_whitespace() || character == '"' || character == '\'') {
        return Err(
            program.wrong_content("one program without spaces or quotes, since \"args\" has the arguments")
        );
    }
    let arguments = args.array()?;
    [Ok(name)].into_iter().chain(arguments.iter().map(JsonNode::text)).collect()
}
