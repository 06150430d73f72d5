//! What an agent does, call by call.

use std::future::{Future, pending, ready};

use super::call::{ExtensionCall, ListCall, NewCall, PromptCall, RestoreCall, SetModeCall};
use super::error::CallError;
use super::link::ClientLink;
use super::setup::{PromptAnswer, SessionPage, SessionSetup};
use super::turn::Cancellation;
use crate::acp::ClientView;
use crate::model::AcpSessionId;

/// An agent behind one connection. Every call has been checked. Calls run at the same time, but for two rules
/// within one session: it has one turn at a time, and a close or a delete runs alone. Such a call comes when
/// whatever was asked before it has been answered, and whatever is asked after it waits for its answer.
///
/// A session is active on a connection from the answer to new, load or resume until it is closed or deleted;
/// [`prompt`](Self::prompt) and [`set_mode`](Self::set_mode) come for active sessions only. Methods with a
/// default body belong to features that need not be offered.
///
/// A future is dropped when its request is cancelled (load, resume, list, a method of its own) or when the connection has been gone
/// for a while.
pub trait AgentService: Send + Sync + 'static {
    /// The client has said who it is and what it can be told. It may say so again.
    fn initialized(&self, client: ClientView) {
        drop(client);
    }

    /// Begins a session.
    fn new_session(
        &self,
        call: NewCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send;

    /// Runs a turn. Once `cancellation` asks, the turn sends what it still has to say and returns
    /// [`StopReason::cancelled`](crate::model::StopReason::cancelled); an error after that moment is answered as
    /// `cancelled` too, but for [`CallError::Unanswered`].
    fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: ClientLink,
    ) -> impl Future<Output = Result<PromptAnswer, CallError>> + Send;

    /// Brings a session back and replays it: every update is sent through `link` before this returns.
    fn load_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Brings a session back without a word.
    fn resume_session(
        &self,
        call: RestoreCall,
        link: ClientLink,
    ) -> impl Future<Output = Result<SessionSetup, CallError>> + Send {
        drop(link);
        ready(Err(CallError::UnknownSession(call.session)))
    }

    /// Lists the sessions there are, active or not.
    fn list_sessions(&self, call: ListCall) -> impl Future<Output = Result<SessionPage, CallError>> + Send {
        drop(call);
        ready(Ok(SessionPage { sessions: Vec::new(), next_cursor: None }))
    }

    /// Frees what an active session holds. Its turn, if it had one, has ended and been answered.
    fn close_session(&self, session: AcpSessionId) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(session);
        ready(Ok(()))
    }

    /// Takes a session, active or not, out of the list for good. An unknown one is gone already.
    fn delete_session(&self, session: AcpSessionId) -> impl Future<Output = Result<(), CallError>> + Send {
        drop(session);
        ready(Ok(()))
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

    /// Puts an active session into a mode.
    fn set_mode(&self, call: SetModeCall) -> impl Future<Output = Result<(), CallError>> + Send {
        ready(Err(CallError::UnknownSession(call.session)))
    }
}
