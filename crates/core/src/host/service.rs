//! The host as an ACP agent: answers the requests of one client.

mod methods;

use crate::acp::Cursor;
use crate::acp::agent::{
    AgentService, CallError, CallExtras, Cancellation, ClientFacts, ClientLink, ExtensionCall, ForkCall,
    ListCall, LoginCall, Meta, NewCall, Offer, PromptCall, PromptReply, RestoreCall, SessionPage,
    SessionSetup, SetCall, StopCall, TurnLink,
};
use crate::model::AcpSessionId;
use crate::wire::RpcId;

use super::connection::Connection;
use super::connection::access::UserAction;
use super::session::{create, delete, list, load, prompt, set_config, turn_owners};
use crate::protocol::acpx_meta::{read_params, record_of};
use crate::protocol::meta::{AccessScope, REMOTE_CLIENT};
use crate::protocol::rpc_error;

impl AgentService for Connection {
    /// A server declares its remote client. A second declaration is refused.
    async fn before_initialize(&self, call: ExtensionCall) -> Result<String, CallError> {
        if call.method != REMOTE_CLIENT {
            return Err(CallError::NotInitialized(call.method));
        }
        let declared = self.access.declare_remote(read_params(&call)?);
        let remote = declared.ok_or(CallError::UnknownMethod(call.method))?;
        self.defaults.declare(remote.client.clone());
        Ok("{}".to_owned())
    }

    async fn offer(&self, client: &ClientFacts, base_offer: Offer) -> Result<Offer, CallError> {
        self.initialize(client, base_offer).await
    }

    async fn login(&self, call: LoginCall, request: RpcId, link: ClientLink) -> Result<(), CallError> {
        self.access.check_scope(AccessScope::Full)?;
        self.log_in(&call, &request, &link).await
    }

    async fn logout(&self, extras: CallExtras) -> Result<(), CallError> {
        self.access.check_scope(AccessScope::Full)?;
        self.log_out(&extras).await
    }

    async fn set(&self, call: SetCall, link: ClientLink) -> Result<String, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        set_config::set(self, &call, &link).await
    }

    async fn stop(&self, call: StopCall, _link: ClientLink) -> Result<String, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        set_config::stop_tool(self, call).await
    }

    async fn cancel_turns(&self, session: AcpSessionId, extras: CallExtras, _link: ClientLink) {
        if self.access.check_scope(AccessScope::Full).is_ok() {
            turn_owners::cancel_for_client(self, record_of(&session), &extras).await;
        }
    }

    async fn new_session(&self, call: NewCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        create::create(self, call, &link).await
    }

    async fn fork_session(&self, call: ForkCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        create::fork(self, call, &link).await
    }

    async fn not_active(&self, session: AcpSessionId) -> CallError {
        let record = record_of(&session);
        match self.host.engine.record(&record).await {
            Ok(Some(stored)) if self.can_see(&stored) => rpc_error::not_loaded(&record),
            _ => CallError::UnknownSession(session),
        }
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        load::load(self, call, &link, Some(Cursor::Start)).await
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        load::load(self, call, &link, None).await
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        list::list(self, call).await
    }

    async fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptReply, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        prompt::run_turn(self, call, cancellation, &link).await
    }

    async fn cancel_for_close(&self, session: AcpSessionId) {
        turn_owners::cancel_for_close(self, &record_of(&session)).await;
    }

    /// Detaches the client. The last client to detach frees the agent.
    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        let record = record_of(&session);
        if self.attachments.detach(&record).await.is_none() || self.access.only_reads() {
            return Ok(());
        }
        // A program that an agent started may not delete a session of its user.
        if self.check_record(UserAction::DeleteSession, &record).is_ok()
            && self.host.remove_if_unprompted(&record).await.map_err(|error| self.refused(&error))?
        {
            return Ok(());
        }
        let session = self.host.engine.running(&record).await.map_err(|error| self.refused(&error))?;
        if let Some(session) = session.filter(|session| !session.is_held()) {
            // Another client's turn may have started; then the session is not parked.
            drop(session.park().await);
        }
        Ok(())
    }

    async fn leaving(&self) {
        self.host.stopped().await;
    }

    /// Deletes the record for all clients: others that use it get an unknown-session error.
    async fn delete_session(&self, session: AcpSessionId, extras: CallExtras) -> Result<Meta, CallError> {
        self.access.check_scope(AccessScope::Full)?;
        delete::delete(self, &session, &extras).await
    }

    async fn extension(&self, call: ExtensionCall, link: ClientLink) -> Result<String, CallError> {
        methods::call(self, call, &link).await
    }
}
