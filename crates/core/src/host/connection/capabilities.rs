//! What a client is offered on behalf of its agent, and login and logout with that agent.
//!
//! Sessions are ours, so the host advertises load, resume, list, close and delete even if the agent lacks them. Prompt
//! content, MCP transports and login methods are those of the agent.

use std::future::pending;

use tokio::sync::mpsc;

use crate::acp::agent::{
    CallError, CallExtras, ClientFacts, ClientLink, Feature, LoginCall, NewCall, Offer, TerminalLogin,
};
use crate::engine::{NewSession, SessionError};
use crate::model::{AbsolutePath, AgentError, ProtocolVersion, command_line};
use crate::wire::json;
use crate::wire::{RpcError, RpcId};

use super::{Connection, LoginOptions};
use crate::host::permissions::router;
use crate::protocol::acpx_meta::{acpx_meta, problem};
use crate::protocol::meta::{ClientMeta, HostMeta, PROTOCOL, StartMeta};

/// How many requests of one login may be pending. Further ones are declined.
const PENDING_REQUESTS: usize = 4;

/// What every host advertises. A session reports what its agent does not support when that is requested.
pub(crate) fn host_offer(version: &str) -> Offer {
    let meta = HostMeta { protocol: PROTOCOL, version: version.to_owned() };
    let features = [
        Feature::Load,
        Feature::Resume,
        Feature::Close,
        Feature::List,
        Feature::Delete,
        Feature::Modes,
        Feature::Models,
        Feature::ConfigOptions,
        Feature::AdditionalDirectories,
        Feature::McpHttp,
        Feature::McpSse,
        Feature::Image,
        Feature::Audio,
        Feature::EmbeddedContext,
    ];
    Offer::new("acpx", version, features)
        .up_to(ProtocolVersion::V2)
        .sends_states()
        .with_meta(acpx_meta(&meta))
}

impl Connection {
    /// Stores what a client sends in `initialize`, and returns the capabilities for it.
    pub(crate) async fn initialize(&self, client: &ClientFacts, offer: Offer) -> Result<Offer, CallError> {
        let meta = self.defaults.on_initialize(client)?;
        self.capabilities.get_or_init(|| client.capabilities.clone());
        let terminal_login = self.access.terminal_login(client);
        if meta.agent.is_some() && terminal_login == TerminalLogin::No {
            self.login.without_terminal();
        }
        let offer = offer.with_terminal_login(terminal_login);
        let offer = self.offer_of_agent(&meta, client.protocol, offer).await?;
        let hint = self.login_hint(offer.login_methods());
        let offer = offer.with_login_hint(hint.as_deref());
        self.login_options
            .get_or_init(|| LoginOptions { methods: offer.login_methods().map(Into::into), hint });
        tracing::info!(
            client = client.name.as_deref(),
            version = client.version.as_deref(),
            kind = self.access.kind(),
            protocol = client.protocol.number(),
            "client connected"
        );
        let may_start = self.access.may_start_servers();
        Ok(if may_start { offer } else { offer.without_advertised_stdio() })
    }

    /// The capabilities for a client whose sessions are with one agent. An error if the agent cannot be started.
    async fn offer_of_agent(
        &self,
        client: &ClientMeta,
        protocol: ProtocolVersion,
        offer: Offer,
    ) -> Result<Offer, CallError> {
        let Some(agent) = self.agent_alone(client)? else { return Ok(offer) };
        let answer = self.host.engine.agent_answer(agent).await.map_err(|error| self.refused(&error))?;
        let offer = offer.on_behalf_of(&answer, protocol);
        Ok(if self.access.may_send_extras() { offer } else { offer.of_known_kinds() })
    }

    /// What the user can do when a login is missing, given the offered methods.
    fn login_hint(&self, methods: Option<&str>) -> Option<String> {
        let agent = self.defaults.agent(None)?;
        let is_offered = methods.and_then(json::items).is_some_and(|methods| !methods.is_empty());
        let way = if is_offered { "by one of the offered ways, or " } else { "" };
        if !self.access.may_see_command_line() {
            return Some(format!("log in {way}on the machine that runs acpx serve, then try again"));
        }
        let whole = command_line(&agent.program, agent.args.iter().map(String::as_str));
        let command = match &agent.name {
            Some(name) => command_line("acpx", [name, "auth"]),
            None => command_line("acpx", ["--agent", &whole, "auth"]),
        };
        Some(format!("log in {way}in a shell, then try again: {command}"))
    }

    /// Logs the user in with the connection's agent; later starts for this client use the same login. Requests of the
    /// agent during the login go to this client.
    pub(crate) async fn log_in(
        &self,
        call: &LoginCall,
        request: &RpcId,
        link: &ClientLink,
    ) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent =
            self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("authenticate".into()))?;
        let agent = NewSession { extra_params: self.access.extra_params_of(&call.extras), ..agent };
        let (responder, mut requests) = mpsc::channel(PENDING_REQUESTS);
        let forwarding = async {
            while let Some(pending) = requests.recv().await {
                router::forward_to_caller(pending, request, link).await;
            }
            // The agent has no more requests; wait for the login to finish.
            pending::<()>().await;
        };
        let done = tokio::select! {
            done = self.host.engine.log_in(agent, &call.method, responder) => done,
            () = forwarding => return Err(CallError::Unanswered),
        };
        done.map_err(|error| match error {
            SessionError::Agent(AgentError::NotOffered { .. }) => {
                problem("methodId", format!("is {:?}, which is no way to log in here", call.method))
            }
            error => self.refused(&error),
        })
    }

    /// Logs the user out; later starts for this client are logged out too.
    pub(crate) async fn log_out(&self, extras: &CallExtras) -> Result<(), CallError> {
        let client = self.defaults.client();
        let agent = self.agent_alone(&client)?.ok_or_else(|| CallError::UnknownMethod("logout".into()))?;
        let agent = NewSession { extra_params: self.access.extra_params_of(extras), ..agent };
        let done = self.host.engine.log_out(agent).await;
        done.map_err(|error| match (&error, self.refused(&error)) {
            // In version 2 a host with logins has the method, so an agent without it is an internal error.
            (SessionError::Agent(AgentError::NotOffered { .. }), CallError::PassedOn(error))
                if extras.version == ProtocolVersion::V2 =>
            {
                CallError::PassedOn(RpcError { code: RpcError::INTERNAL, ..error })
            }
            (_, refused) => refused,
        })
    }

    /// The connection's agent, to be started without a session.
    pub(crate) fn agent_alone(&self, client: &ClientMeta) -> Result<Option<NewSession>, CallError> {
        let Some(agent) = self.defaults.agent(None) else { return Ok(None) };
        let cwd = AbsolutePath::new(client.cwd.as_deref().unwrap_or("/"))
            .map_err(|error| problem("_meta.acpx.client.cwd", error.to_string()))?;
        let (additional_directories, mcp_servers) = (Vec::new(), Vec::new());
        let call = NewCall { cwd, additional_directories, mcp_servers, meta: None, unknown: None };
        self.new_session(agent, call, &mut StartMeta::default(), ProtocolVersion::V1).map(Some)
    }
}
