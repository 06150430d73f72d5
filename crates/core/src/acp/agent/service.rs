//! What an agent does, call by call.

use std::future::{Future, pending, ready};

use super::call::{
    CallExtras, ExtensionCall, ForkCall, ListCall, LoginCall, NewCall, PromptCall, RestoreCall, SetModeCall,
    SetModelCall, SetOptionCall, StopCall,
};
use super::client::ClientFacts;
use super::error::CallError;
use super::insertion::TurnLink;
use super::link::ClientLink;
use super::offer::Offer;
use super::params::ParamProblem;
use super::setup::{Meta, PromptReply, SessionPage, SessionSetup};
use super::turn::Cancellation;
use crate::model::AcpSessionId;
use crate::wire::RpcId;

/// An agent behind one connection. Every call has been checked. Calls run at the same time, but for two rules
/// within one session: its prompts come one after the other (see [`Offer::tells_states`]), and a close or a
/// delete runs alone. Such a call comes when whatever was asked before it has been answered, and whatever is
/// asked after it waits for its answer.
///
/// A session is active on a connection from the answer to new, load, resume or fork until it is closed or
/// deleted; [`prompt`](Self::prompt), [`set_mode`](Self::set_mode) and [`set_option`](Self::set_option) come for
/// active sessions only. Methods with a default body belong to features that need not be offered.
///
/// The client may speak version 1 or 2 of the protocol ([`ClientLink::client`] says which). Typed values are told
/// in its version; values that are raw JSON are passed on as they are, so they must be in its version already.
///
/// A future is dropped when its request is cancelled (load, resume, list, login, a method of its own) or when the
/// connection has been gone for a while.
pub trait AgentService: Send + Sync + 'static {
    /// What this client is offered, given what every client is. Nothing else of the client is read until this
    /// has returned, so it must return in bounded time.
    fn offer(
        &self,
        client: &ClientFacts,
        to_everybody: Offer,
    ) -> impl Future<Output = Result<Offer, CallError>> + Send {
        let _ = client;
        ready(Ok(to_everybody))
    }

    /// Answers a request that comes before `initialize`, which is for whoever stands between a client and this agent.
    /// Nothing else is read until this has returned.
    fn before_initialize(
        &self,
        call: ExtensionCall,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        ready(Err(CallError::NotInitialized(call.method)))
    }

    /// Begins a session. Dropped, it takes back what it has begun: the client has withdrawn its request.
    fn new_session(
        &self,
        call: NewCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send;

    /// Runs a turn. It says [`inserted`](TurnLink::inserted) when the prompt is part of the conversation, which
    /// is the answer in version 2. Once `cancellation` asks, the turn sends what it still has to say and returns
    /// [`StopReason::cancelled`](crate::model::StopReason::cancelled), without inserting a prompt that was not;
    /// an error after that moment is told as `cancelled` too, but for [`CallError::Unanswered`].
    fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> impl Future<Output = Result<PromptReply, CallError>> + Send;

    /// Why nothing can be asked of a session that is not active on this connection.
    fn not_active(&self, session: AcpSessionId) -> impl Future<Output = CallError> + Send {
        ready(CallError::UnknownSession(session))
    }

    /// Brings a session back and replays it: every update is sent through `link` before this returns.
    fn load_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Brings a session back without a word, or with a replay from where the call says. Then every update is
    /// sent through `link` before this returns.
    fn resume_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Begins a session that knows what another one does.
    fn fork_session(
        &self,
        call: ForkCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Logs the user in. What is asked of the client meanwhile may name its request, which is `request`.
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
    fn logout(&self, aside: CallExtras) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(aside);
        ready(Err(CallError::UnknownMethod("logout".into())))
    }

    /// Lists the sessions there are, active or not.
    fn list_sessions(&self, call: ListCall) -> impl Future<Output = Result<SessionPage, CallError>> + Send {
        drop(call);
        ready(Ok(SessionPage { sessions: Vec::new(), next_cursor: None, meta: Meta::new() }))
    }

    /// Comes with `session/close`, also of a session that is not active on this connection: cancels its turns as by
    /// `session/cancel`, as far as they are the client's to close, and waits until they are over. Turns on this connection
    /// have had their signal.
    fn cancel_for_close(&self, session: AcpSessionId) -> impl Future<Output = ()> + Send {
        drop(session);
        ready(())
    }

    /// Frees what an active session holds. Its turn, if it had one, has ended and been answered.
    fn close_session(&self, session: AcpSessionId) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(session);
        ready(Ok(()))
    }

    /// Takes a session, active or not, out of the list for good. An unknown one is gone already. What it returns is the
    /// `_meta` of the answer.
    fn delete_session(
        &self,
        session: AcpSessionId,
        aside: CallExtras,
    ) -> impl Future<Output = Result<Meta, CallError>> + Send {
        drop((session, aside));
        ready(Ok(Meta::new()))
    }

    /// Answers a method of the service's own with a JSON object. What it is called with is for it to check.
    fn extension(
        &self,
        call: ExtensionCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownMethod(call.method)))
    }

    /// Comes when the agent takes no more requests, though its client is still there. What is under way is
    /// answered, and then the connection ends.
    fn leaving(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// `session/cancel` of an active session: ends what the client may end beside the turns whose prompts it waits for
    /// on this connection. Those have had their signal.
    fn cancel_turns(
        &self,
        session: AcpSessionId,
        aside: CallExtras,
        link: ClientLink,
    ) -> impl Future<Output = ()> + Send {
        drop((session, aside, link));
        ready(())
    }

    /// Stops a tool call or a terminal of an active session. The answer is a JSON object.
    fn stop(
        &self,
        call: StopCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownMethod(call.method.into())))
    }

    /// Puts an active session into a mode. The answer is a JSON object.
    fn set_mode(
        &self,
        call: SetModeCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Chooses the model of an active session, of a service that tells `models`. The answer is a JSON object.
    fn set_model(
        &self,
        call: SetModelCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Sets an option of an active session. The answer is a JSON object with all its `configOptions`. In version
    /// 2 the modes that a service tells as [`Modes`](super::Modes) are an option, which
    /// [`set_mode`](Self::set_mode) sets.
    fn set_option(
        &self,
        call: SetOptionCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<String, CallError>> + Send {
        drop(link);
        let problem = format!("is {:?}, which this session does not have", call.option);
        ready(Err(ParamProblem::new("configId", problem).into()))
    }
}
