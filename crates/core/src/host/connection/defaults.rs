//! Defaults that a client sets once, in `initialize`, for all its requests: the agent, and how to start it. Values in a
//! request take precedence.

use std::sync::{Arc, OnceLock};

use crate::acp::agent::{CallError, ClientFacts};
use crate::model::{AbsolutePath, AgentSpec};
use crate::sync::Lock;

use crate::protocol::acpx_meta::read_meta;
use crate::protocol::meta::{AgentMeta, ClientMeta, GreetingMeta, StartMeta};

/// The defaults of one connection.
#[derive(Default)]
pub(crate) struct Defaults {
    sent: Lock<Arc<ClientMeta>>,
    /// What the server declared about a remote client. It overrides what the client sends.
    declared: OnceLock<Arc<ClientMeta>>,
}

impl Defaults {
    /// Sets the defaults regardless of what the client sends. Only the first call has an effect.
    pub(crate) fn declare(&self, client: ClientMeta) {
        self.declared.get_or_init(|| Arc::new(client));
    }

    /// Reads the defaults from a client's `initialize`.
    pub(crate) fn on_initialize(&self, client: &ClientFacts) -> Result<Arc<ClientMeta>, CallError> {
        if let Some(declared) = self.declared.get() {
            return Ok(Arc::clone(declared));
        }
        let meta: GreetingMeta = read_meta(client.meta.as_deref())?;
        let client = Arc::new(meta.client.unwrap_or_default());
        *self.sent.lock() = Arc::clone(&client);
        Ok(client)
    }

    /// The defaults that apply.
    pub(crate) fn client(&self) -> Arc<ClientMeta> {
        let sent = || Arc::clone(&self.sent.lock());
        self.declared.get().cloned().unwrap_or_else(sent)
    }

    /// The agent of a request: the one that it names, or else the connection's.
    pub(crate) fn agent(&self, named: Option<AgentMeta>) -> Option<AgentSpec> {
        named.or_else(|| self.client().agent.clone()).and_then(AgentMeta::spec)
    }

    /// Whether the request or the connection sets the protocol version for the agent.
    pub(crate) fn sets_protocol(&self, named: Option<&AgentMeta>) -> bool {
        let client = self.client();
        named.or(client.agent.as_ref()).is_some_and(|agent| agent.protocol.is_some())
    }

    /// The directory that the client was started in, if it sent it.
    pub(crate) fn cwd(&self) -> Option<AbsolutePath> {
        AbsolutePath::new(self.client().cwd.as_deref()?).ok()
    }

    /// Fills in what a request that may start an agent leaves open.
    pub(crate) fn complete(&self, start: &mut StartMeta) {
        let client = self.client();
        let (own, default) = (&mut start.launch, &client.launch);
        if own.environment.is_empty() {
            own.environment.clone_from(&default.environment);
            own.variables.clone_from(&default.variables);
            own.secret_variables.clone_from(&default.secret_variables);
        }
        own.idle_ms = own.idle_ms.or(default.idle_ms);
        own.login = own.login.or(default.login);
        start.with_seq |= client.seq;
    }
}
