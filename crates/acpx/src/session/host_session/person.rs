//! What passes between a talk and the person at its desk, if one is there: questions that are no permission, and what the
//! person says. Without a person the agent is told so, and is not left waiting.

use acpx_core::client::HostClient;
use acpx_core::wire::RpcId;

use super::{HostSession, HostSessionError};
use crate::error::InterruptReason;
use crate::output::TerminalForm;
use crate::terminal::prompt::{TerminalAnswer, TerminalPrompter};

impl HostSession<'_> {
    /// Puts a question that is no permission to the person; where nobody is, it is declined, and that is said.
    pub(super) async fn elicited(
        &mut self,
        client: &HostClient,
        id: RpcId,
        params: &str,
    ) -> Result<(), HostSessionError> {
        if let Some(desk) = &mut self.desk {
            desk.ask_form(id, params);
            return Ok(());
        }
        let words = TerminalForm::read(params).declined("there is no terminal to ask on");
        self.console.say(&words);
        self.patience
            .during(client.answer(&id, &TerminalForm::refusal()))
            .await
            .map_err(HostSessionError::Stopped)??;
        Ok(())
    }

    /// Sends the typed answer and shows the next question. A terminal that is gone answers nothing:
    /// the host keeps the question pending, unless it is in this process and ends with it.
    pub(super) async fn answer(
        &mut self,
        client: &HostClient,
        typed: TerminalAnswer,
    ) -> Result<Option<InterruptReason>, HostSessionError> {
        if matches!(typed, TerminalAnswer::HungUp(..)) && self.reach.is_some() {
            self.desk = None;
            return Ok(Some(InterruptReason::HungUp));
        }
        let (id, answer) = typed.or_refusal();
        self.patience.during(client.answer(&id, &answer)).await.map_err(HostSessionError::Stopped)??;
        if let Some(desk) = &mut self.desk {
            desk.next();
        }
        Ok(None)
    }
}

/// What the person at the desk says next; never, where nobody is.
pub(super) async fn answered(desk: Option<&mut TerminalPrompter>) -> TerminalAnswer {
    match desk {
        Some(desk) => desk.answered().await,
        None => std::future::pending().await,
    }
}
