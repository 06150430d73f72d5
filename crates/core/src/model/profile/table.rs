//! The profiles that are built in, and which of them an agent has.
//!
//! The table is read when an agent is first started, so commands that start none never pay for it.

use std::sync::LazyLock;

use serde_json::Value;

use super::{AgentProfile, command, parse};
use crate::model::{AgentSpec, ErrorMeaning};

static BUILT_IN: LazyLock<Profiles> = LazyLock::new(|| {
    let table = serde_json::from_str(include_str!("agents.json")).unwrap_or_default();
    Profiles::of_table(&table).expect("a test reads the table that is built in")
});

/// The profiles of agents that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles {
    /// What holds for any agent.
    any: AgentProfile,
    agents: Vec<KnownAgent>,
}

/// One agent that is known, and how it is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownAgent {
    name: String,
    /// Programs it is started as, and packages it is in.
    commands: Vec<String>,
    /// What it calls itself in its answer to `initialize`.
    info: Vec<String>,
    profile: AgentProfile,
}

impl Profiles {
    /// Those that are built in.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// How any agent behaves of which nothing else is known.
    pub fn any(&self) -> &AgentProfile {
        &self.any
    }

    pub(super) fn of_table(table: &Value) -> Result<Self, super::ProfileError> {
        let root = parse::ProfileMember::root(table);
        let any = match root.get("any")? {
            Some(any) => any.profile()?,
            None => AgentProfile::default(),
        };
        let known = |entry: &parse::ProfileMember<'_>| {
            Ok(KnownAgent {
                name: entry.needed("agent")?.word()?,
                commands: entry.needed("commands")?.words()?,
                info: entry.needed("info")?.words()?,
                profile: entry.needed("profile")?.profile()?,
            })
        };
        let agents = root.needed("agents")?.items()?.iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { any, agents })
    }

    /// How an agent behaves: as its user says, or else as is known of it, or else as any does. It is known by its
    /// command line, by its name, or by what it calls itself in its answer to `initialize`, in this order: a name can
    /// be given to anything.
    pub fn of(&self, agent: &AgentSpec, info: Option<&str>) -> AgentProfile {
        let mut known =
            self.known(agent, info).map_or_else(|| self.any.clone(), |known| known.profile.over(&self.any));
        // What holds for any agent is not lost by a row of one: a session that is taken for lost is given up.
        known.errors.sort_by_key(|row| {
            !matches!(row.reading, ErrorMeaning::LoginNeeded | ErrorMeaning::BusyElsewhere)
        });
        match &agent.profile {
            Some(said) => said.over(&known),
            None => known,
        }
    }

    /// What an agent is known as, if it is.
    pub fn name_of(&self, agent: &AgentSpec, info: Option<&str>) -> Option<&str> {
        self.known(agent, info).map(|known| known.name.as_str())
    }

    /// What every agent is known as.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|known| known.name.as_str())
    }

    fn known(&self, agent: &AgentSpec, info: Option<&str>) -> Option<&KnownAgent> {
        let argv: Vec<String> = match agent.url() {
            Some(_) => Vec::new(),
            None => agent.command(),
        };
        let by_command = |known: &&KnownAgent| known.commands.iter().any(|name| command::starts(&argv, name));
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
