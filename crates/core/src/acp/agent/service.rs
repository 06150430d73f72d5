//! The trait that an agent implements: one method per call.

use std::future::{Future, pending, ready};

use super::call::{
    CallExtras, ExtensionCall, ForkCall, ListCall, LoginCall, NewCall, PromptCall, RestoreCall, SetCall,
    StopCall,
};
use super::client::ClientFacts;
use super::error::CallError;
use super::insertion::TurnLink;
use super::link::ClientLink;
use super::offer::Offer;
use super::setup::{Meta, PromptReply, SessionPage, SessionSetup};
use super::turn::Cancellation;
use crate::model::AcpSessionId;
use crate::wire::RpcId;

/// An agent behind one connection. Every call has been checked. Calls run concurrently, with two exceptions within a
/// session: its prompts run one after the other, and a close or a delete runs alone. It
/// starts when all earlier requests are answered, and later ones wait for its reply.
///
/// A session is active on a connection from the reply to new, load, resume or fork until it is closed or deleted.
/// [`prompt`](Self::prompt) and [`set`](Self::set) are called only for active sessions. Methods with a default body
/// belong to optional features.
///
/// The client uses version 1 or 2 of the protocol (see [`ClientLink::client`]). Typed values are translated to its
/// version. Raw JSON is forwarded unchanged, so it must have the client's version.
///
/// A future is dropped when its request is cancelled (new, load, resume, list, login, extension methods), or some time
/// after the client disconnected.
pub trait AgentService: Send + Sync + 'static {
    /// The offer to this client, derived from the offer to every client. The dispatcher reads nothing from the client
    /// until this returns, so it must return in bounded time.
    fn offer(
        &self,
        client: &ClientFacts,
        base_offer: Offer,
    ) -> impl Future<Output = Result<Offer, CallError>> + Send {
        let _ = client;
        ready(Ok(base_offer))
    }

    /// Replies to a request that precedes `initialize`; proxies between the client and this agent send such requests.
    /// The dispatcher reads nothing until this returns.
    fn before_initialize(
        &self,
        call: ExtensionCall,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        ready(Err(CallError::NotInitialized(call.method)))
    }

    /// Creates a session. Dropping the future must undo the creation: the client has withdrawn its request.
    fn new_session(
        &self,
        call: NewCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send;

    /// Runs a turn. It calls [`inserted`](TurnLink::inserted) when the prompt is part of the conversation, which sends
    /// the version 2 reply. After `cancellation`, the turn sends its remaining updates and returns
    /// [`StopReason::cancelled`](crate::model::StopReason::cancelled), and no longer inserts its prompt. An error after
    /// that is also reported as `cancelled`, except [`CallError::Unanswered`].
    fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> impl Future<Output = Result<PromptReply, CallError>> + Send;

    /// The error for a request on a session that is not active on this connection.
    fn not_active(&self, session: AcpSessionId) -> impl Future<Output = CallError> + Send {
        ready(CallError::UnknownSession(session))
    }

    /// Restores a session and replays it: every update is sent through `link` before this returns.
    fn load_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Restores a session, with a replay only if the call requests one. Its updates are sent through `link` before this
    /// returns.
    fn resume_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Creates a session with the conversation of another one.
    fn fork_session(
        &self,
        call: ForkCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Logs the user in. Requests to the client during the login may refer to its request id, `request`.
    fn login(
        &self,
        call: LoginCall,
        request: RpcId,
        link: ClientLink,
    ) -> impl Future<Output = Result<(), CallError>> + Send {
        drop((call, request, link));
        ready(Err(CallError::UnknownMethod("authenticate".into())))
    }

    /// Logs the user out.
    fn logout(&self, extras: CallExtras) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(extras);
        ready(Err(CallError::UnknownMethod("logout".into())))
    }

    /// Lists all sessions, active or not.
    fn list_sessions(&self, call: ListCall) -> impl Future<Output = Result<SessionPage, CallError>> + Send {
        drop(call);
        ready(Ok(SessionPage { sessions: Vec::new(), next_cursor: None, meta: Meta::new() }))
    }

    /// Handles the first step of `session/close`, also for a session that is not active on this connection. Cancels the
    /// turns that the client may close, like `session/cancel`, and waits until they end. Turns on this connection
    /// already have the signal.
    fn cancel_for_close(&self, session: AcpSessionId) -> impl Future<Output = ()> + Send {
        drop(session);
        ready(())
    }

    /// Frees the resources of an active session. Its turns have ended and been answered.
    fn close_session(&self, session: AcpSessionId) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(session);
        ready(Ok(()))
    }

    /// Deletes a session, active or not. An unknown session counts as deleted. Returns the `_meta` of the reply.
    fn delete_session(
        &self,
        session: AcpSessionId,
        extras: CallExtras,
    ) -> impl Future<Output = Result<Meta, CallError>> + Send {
        drop((session, extras));
        ready(Ok(Meta::new()))
    }

    /// Replies to an extension method with a JSON object. The service checks the params.
    fn extension(
        &self,
        call: ExtensionCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownMethod(call.method)))
    }

    /// Resolves when the agent accepts no more requests while its client is still connected. Active requests are
    /// answered, then the connection ends.
    fn leaving(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Handles `session/cancel` of an active session: ends all other turns that the client may end, such as those of a
    /// disconnected client. Turns that wait for a reply on this connection already have the signal.
    fn cancel_turns(
        &self,
        session: AcpSessionId,
        extras: CallExtras,
        link: ClientLink,
    ) -> impl Future<Output = ()> + Send {
        drop((session, extras, link));
        ready(())
    }

    /// Cancels a tool call or a terminal of an active session. Returns a JSON object.
    fn stop(
        &self,
        call: StopCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownMethod(call.method.into())))
    }

    /// Sets the mode, the model or an option of an active session. Returns a JSON object; after an option it has all the
    /// session's `configOptions`. A model is set for a service that reports `models`. In version 2 the
    /// [`Modes`](super::Modes) of a service are an option, which arrives here as a mode.
    fn set(&self, call: SetCall, link: ClientLink) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(call.unknown_setting()))
    }
}
