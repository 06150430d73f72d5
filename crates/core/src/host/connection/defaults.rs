//! What a client said once, in `initialize`, for all its requests: the agent that is meant, and what it is started
//! with. What a request says itself counts more.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::acp::agent::{CallError, ClientFacts};
use crate::model::{AbsolutePath, AgentSpec};

use crate::protocol::acpx_meta::read_meta;
use crate::protocol::meta::{AgentMeta, ClientMeta, GreetingMeta, StartMeta, TurnTermsMeta};

/// The defaults of one connection.
#[derive(Default)]
pub(crate) struct Defaults {
    said: Mutex<Arc<ClientMeta>>,
    /// What somebody else has said of the client. Then it says nothing of itself.
    settled: OnceLock<Arc<ClientMeta>>,
}

impl Defaults {
    /// Whatever the client says of itself, this is what holds; the first that is said.
    pub(crate) fn settle(&self, client: ClientMeta) {
        self.settled.get_or_init(|| Arc::new(client));
    }

    /// Takes what a client says when it initializes.
    pub(crate) fn take(&self, client: &ClientFacts) -> Result<Arc<ClientMeta>, CallError> {
        if let Some(settled) = self.settled.get() {
            return Ok(Arc::clone(settled));
        }
        let meta: GreetingMeta = read_meta(client.meta.as_deref())?;
        let client = Arc::new(meta.client.unwrap_or_default());
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&client);
        Ok(client)
    }

    /// What the client said.
    pub(crate) fn client(&self) -> Arc<ClientMeta> {
        let said = || Arc::clone(&self.said.lock().unwrap_or_else(PoisonError::into_inner));
        self.settled.get().cloned().unwrap_or_else(said)
    }

    /// The agent of a request: the one that it names, or else the connection's.
    pub(crate) fn agent(&self, named: Option<AgentMeta>) -> Option<AgentSpec> {
        named.or_else(|| self.client().agent.clone()).and_then(AgentMeta::spec)
    }

    /// Whether a client says in which version the agent of a request is to be spoken to.
    pub(crate) fn says_protocol(&self, named: Option<&AgentMeta>) -> bool {
        let client = self.client();
        named.or(client.agent.as_ref()).is_some_and(|agent| agent.protocol.is_some())
    }

    /// The directory that the client was started in, if it said so.
    pub(crate) fn cwd(&self) -> Option<AbsolutePath> {
        AbsolutePath::new(self.client().cwd.as_deref()?).ok()
    }

    /// Fills in what a request that may start an agent does not say.
    pub(crate) fn complete(&self, start: &mut StartMeta) {
        let client = self.client();
        if start.environment.is_empty() {
            start.environment.clone_from(&client.environment);
            start.variables.clone_from(&client.variables);
            start.secret_variables.clone_from(&client.secret_variables);
        }
        start.idle_ms = start.idle_ms.or(client.idle_ms);
        start.login = start.login.or(client.login);
        start.with_seq |= client.seq;
    }

    /// The terms of a turn: what its prompt does not say, the connection does.
    pub(crate) fn terms(&self, own: TurnTermsMeta) -> TurnTermsMeta {
        own.or(&self.client().terms)
    }
}
