//! Passes elicitation requests to the person at the terminal, and the answers back. Without a person a request is
//! declined at once, so that the agent does not wait.

use acpx_core::client::HostClient;
use acpx_core::wire::RpcId;

use super::{HostSession, HostSessionError};
use crate::error::InterruptReason;
use crate::output::TerminalForm;
use crate::terminal::prompt::{TerminalAnswer, TerminalPrompter};

impl HostSession<'_> {
    /// Shows a form request to the person; without a person it is declined with a notice.
    pub(super) async fn elicited(
        &mut self,
        client: &HostClient,
        id: RpcId,
        params: &str,
    ) -> Result<(), HostSessionError> {
        if let Some(prompter) = &mut self.prompter {
            self.console.stop_waiting();
            prompter.ask_form(id, params);
            return Ok(());
        }
        let words = TerminalForm::read(params).declined("there is no terminal to ask on");
        self.console.notice(&words);
        self.interrupts
            .during(client.answer(&id, &TerminalForm::refusal()))
            .await
            .map_err(HostSessionError::Stopped)??;
        Ok(())
    }

    /// Sends the typed answer and shows the next request. A closed terminal answers nothing: the request stays pending
    /// in the host, unless the host is in this process and ends with it.
    pub(super) async fn answer(
        &mut self,
        client: &HostClient,
        typed: TerminalAnswer,
    ) -> Result<Option<InterruptReason>, HostSessionError> {
        if matches!(typed, TerminalAnswer::HungUp(..)) && self.locator.is_some() {
            self.prompter = None;
            return Ok(Some(InterruptReason::HungUp));
        }
        let (id, answer) = typed.or_refusal();
        self.interrupts.during(client.answer(&id, &answer)).await.map_err(HostSessionError::Stopped)??;
        if let Some(prompter) = &mut self.prompter
            && !prompter.next()
        {
            self.wait_for_agent();
        }
        Ok(None)
    }
}

/// The person's next answer; never resolves without a person.
pub(super) async fn answered(prompter: Option<&mut TerminalPrompter>) -> TerminalAnswer {
    match prompter {
        Some(prompter) => prompter.answered().await,
        None => std::future::pending().await,
    }
}
