//! `acpx mcp`: an MCP server on stdin and stdout that shows past sessions of a project to an agent.
//!
//! It only reads: the store, the agents' own transcripts and the search index. stdout has the protocol and nothing else.

mod arguments;
mod conversation_page;
mod recall;
mod result_page;
mod visible_sessions;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use acpx_core::store::Store;

use self::recall::Recall;
use crate::cli::{CliOptions, McpArgs};
use crate::error::CliError;
use crate::mcp::server;
use crate::output::{Console, stdio};
use crate::session::agent_child::refuse_other_projects;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::project_scope::ProjectScope;
use crate::session::recall_server::RECALL_NAME;
use crate::session::search_index;
use crate::session::settings::LazyConfig;

/// Shown to a person who starts the server by hand.
const BY_HAND: &str = "this is an MCP server: it waits for messages on stdin, one JSON object a line, and Ctrl-D ends it; \
                       acpx help mcp shows how to give it to an agent";

/// Serves until stdin ends.
pub(super) fn run(args: &McpArgs, options: &CliOptions, config: &LazyConfig) -> Result<(), CliError> {
    let settings = config.of_any_agent(options)?;
    let exclusions = search_index::exclusions(config)?;
    let scope = match &args.project {
        _ if args.all_projects => ProjectScope::All,
        directory => ProjectScope::of(directory.as_deref().unwrap_or(Path::new(".")))?,
    };
    if io::stdin().is_terminal() {
        Console::of_program(settings.mode).notice(BY_HAND);
    }
    block_on(async {
        let locator = HostLocator::of_environment()?;
        let store = locator.open_store()?;
        refuse_other_projects(&locator.paths, store.as_ref().map(|store| store as &dyn Store), &scope)
            .await?;
        drop(store);
        let (input, output) = stdio::open()?;
        let served =
            server::serve(RECALL_NAME, Arc::new(Recall::new(settings, exclusions, scope)), input, output)
                .await;
        served.map_err(|words| CliError::System {
            doing: "serve MCP on stdin and stdout".to_owned(),
            source: io::Error::other(words),
        })
    })
}
