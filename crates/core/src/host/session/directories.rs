//! `_acpx/agents`: the agents and the directories that a client may choose for a new session.

use std::collections::{HashMap, HashSet};

use crate::acp::agent::CallError;
use crate::acp::translate::MODE_OPTION;
use crate::host::connection::Connection;
use crate::model::{Choices, OfferedSetting, OfferedSettings, SettingName};
use crate::protocol::rpc_error;
use crate::protocol::sessions::{
    AgentChoiceMeta, AgentsMeta, KnownOptionMeta, OptionValueMeta, UsedDirectoryMeta,
};
use crate::store::RecordFilter;

/// How many directories are listed at most.
const DIRECTORIES: usize = 200;
/// How many records are read at a time, and how many of these pages.
const PAGE: usize = 500;
const PAGES: usize = 4;

/// Lists the agents that can be started, and the directories of records, last used first. A client that is not the page
/// starts any agent by its command; it gets the agents of records.
pub(crate) async fn list(client: &Connection) -> Result<String, CallError> {
    let mut known = AgentsMeta::default();
    let (mut seen, mut agents, mut after) = (HashSet::new(), Vec::new(), None);
    let mut options: HashMap<String, Vec<KnownOptionMeta>> = HashMap::new();
    for _ in 0..PAGES {
        let page = client.host.store.records(RecordFilter::default(), after, PAGE).await;
        let page = page.map_err(rpc_error::not_kept)?;
        after = page.last().filter(|_| page.len() == PAGE).map(|last| (last.updated_at, last.id.clone()));
        for record in page.into_iter().filter(|record| client.can_see(record)) {
            if let Some(name) = &record.agent.name {
                if !agents.contains(name) {
                    agents.push(name.clone());
                }
                if !options.contains_key(name) && !record.settings.reported.0.is_empty() {
                    options.insert(name.clone(), known_options(&record.settings.reported));
                }
            }
            if known.directories.len() < DIRECTORIES && seen.insert(record.cwd.clone()) {
                known.directories.push(UsedDirectoryMeta {
                    cwd: record.cwd.to_string(),
                    agent: record.agent.label().into_owned(),
                    updated_at: record.updated_at.to_string(),
                });
            }
        }
        if after.is_none() {
            break;
        }
    }
    let last_used = agents.first().cloned();
    if let Some(page) = client.access.page() {
        agents = page.agents.iter().filter_map(|agent| agent.name.clone()).collect();
    }
    let choice = |name: String| AgentChoiceMeta {
        last_used: last_used.as_ref() == Some(&name),
        options: options.remove(&name).unwrap_or_default(),
        name,
    };
    known.agents = agents.into_iter().map(choice).collect();
    Ok(serde_json::to_string(&known).expect("names and paths are text"))
}

/// The options whose values are known: the mode and the model.
fn known_options(reported: &OfferedSettings) -> Vec<KnownOptionMeta> {
    let known = |offered: &OfferedSetting| {
        let Choices::Of(choices) = &offered.choices else { return None };
        let (config_id, category) = match &offered.name {
            SettingName::Mode => (MODE_OPTION, Some("mode")),
            SettingName::Option(id) => (&**id, offered.category.as_deref()),
        };
        let name = match category {
            Some("mode") => "Mode",
            Some("model") => "Model",
            _ => config_id,
        };
        let value = |value: &str| OptionValueMeta { value: value.to_owned(), name: value.to_owned() };
        Some(KnownOptionMeta {
            config_id: config_id.to_owned(),
            name: name.to_owned(),
            category: category.map(str::to_owned),
            r#type: "select",
            current_value: offered.value.clone(),
            options: choices.iter().map(|choice| value(choice)).collect(),
        })
    };
    reported.0.iter().filter_map(known).collect()
}
