//! The built-in profiles, and the lookup of an agent's profile.
//!
//! The table is parsed when an agent is first started, so commands that start none do not pay for it.

use std::sync::LazyLock;

use serde_json::Value;

use super::AgentProfile;
use crate::model::{AgentSpec, ErrorMeaning, JsonNode, WrongMember, profile};

static BUILT_IN: LazyLock<Profiles> = LazyLock::new(|| {
    let table = serde_json::from_str(include_str!("agents.json")).unwrap_or_default();
    Profiles::of_table(&table).expect("a test reads the table that is built in")
});

/// The profiles of known agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles {
    /// Applies to any agent.
    any: AgentProfile,
    agents: Vec<KnownAgent>,
}

/// A known agent, and how it is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownAgent {
    name: String,
    /// Its programs and packages.
    commands: Vec<String>,
    /// Its names in the response to `initialize`.
    info: Vec<String>,
    profile: AgentProfile,
}

impl Profiles {
    /// The built-in profiles.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The profile of an unknown agent.
    pub fn any(&self) -> &AgentProfile {
        &self.any
    }

    pub(super) fn of_table(table: &Value) -> Result<Self, WrongMember> {
        let table = JsonNode::root(table, "the table").object("an object")?;
        let known = |entry: &JsonNode<'_>| {
            let members = entry.object("an object")?;
            Ok(KnownAgent {
                name: members.needed("agent").word()?,
                commands: members.needed("commands").words()?,
                info: members.needed("info").words()?,
                profile: AgentProfile::read(&members.needed("profile"))?,
            })
        };
        let agents = table.needed("agents").array()?.iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { any: table.read("any", AgentProfile::read)?.unwrap_or_default(), agents })
    }

    /// The profile of an agent: the user's over the built-in one over the default. The agent is recognised by its
    /// command line, by its name, or by its name in the response to `initialize`, in this order, because a configured
    /// name proves nothing.
    pub fn of(&self, agent: &AgentSpec, info: Option<&str>) -> AgentProfile {
        let mut known =
            self.known(agent, info).map_or_else(|| self.any.clone(), |known| known.profile.over(&self.any));
        // An agent's own rows must not override these default rows: a session that is taken for lost is given up.
        known.errors.sort_by_key(|row| {
            !matches!(row.meaning, ErrorMeaning::LoginNeeded | ErrorMeaning::BusyElsewhere)
        });
        match &agent.profile {
            Some(own) => own.over(&known),
            None => known,
        }
    }

    /// The built-in name of an agent, if it is known.
    pub(crate) fn name_of(&self, agent: &AgentSpec, info: Option<&str>) -> Option<&str> {
        self.known(agent, info).map(|known| known.name.as_str())
    }

    /// The names of all known agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|known| known.name.as_str())
    }

    fn known(&self, agent: &AgentSpec, info: Option<&str>) -> Option<&KnownAgent> {
        let argv: Vec<String> = match agent.url() {
            Some(_) => Vec::new(),
            None => agent.command(),
        };
        let by_command = |known: &&KnownAgent| known.commands.iter().any(|name| profile::starts(&argv, name));
        let by_name = |known: &&KnownAgent| agent.name.as_deref() == Some(known.name.as_str());
        let by_info = |known: &&KnownAgent| {
            info.is_some_and(|info| known.info.iter().any(|name| name.eq_ignore_ascii_case(info)))
        };
        let find = |agents: &[KnownAgent], is_it: &dyn Fn(&&KnownAgent) -> bool| {
            agents.iter().position(|known| is_it(&known))
        };
        let index = find(&self.agents, &by_command)
            .or_else(|| find(&self.agents, &by_name))
            .or_else(|| find(&self.agents, &by_info))?;
        self.agents.get(index)
    }
}
