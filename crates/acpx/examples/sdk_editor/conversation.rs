//! The conversation that an editor has received: live updates come in many pieces, a replay in few.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::sync::Lock;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long an update may take. Only an agent that hangs takes so long.
const UPDATE_TIMEOUT: Duration = Duration::from_mins(2);

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Agent,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    speaker: Speaker,
    pub(crate) text: String,
}

impl Message {
    pub(crate) fn user(text: &str) -> Self {
        Self { speaker: Speaker::User, text: text.to_owned() }
    }

    pub(crate) fn is_user(&self) -> bool {
        self.speaker == Speaker::User
    }
}

#[derive(Debug, Default)]
struct LogState {
    messages: Vec<(Option<String>, Message)>,
    /// Why the turn has ended, if an update reports it.
    stop_reason: Option<String>,
    permission_requests: usize,
}

/// The received messages, and a signal for each change.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConversationLog(Arc<(Lock<LogState>, Notify)>);

impl ConversationLog {
    /// A piece of a message.
    pub(crate) fn piece(&self, speaker: Speaker, id: Option<String>, text: &str) {
        self.change(|log| log.message(speaker, id).push_str(text));
    }

    /// A whole message; replaces its pieces.
    pub(crate) fn whole(&self, speaker: Speaker, id: String, text: String) {
        self.change(|log| *log.message(speaker, Some(id)) = text);
    }

    pub(crate) fn stopped(&self, reason: String) {
        self.change(|log| log.stop_reason = Some(reason));
    }

    pub(crate) fn count_permission_request(&self) {
        self.change(|log| log.permission_requests += 1);
    }

    pub(crate) fn permission_requests(&self) -> usize {
        self.0.0.lock().permission_requests
    }

    /// Removes the messages received so far. Consecutive messages of one speaker are joined.
    pub(crate) fn take(&self) -> Vec<Message> {
        let mut joined: Vec<Message> = Vec::new();
        for (_, message) in std::mem::take(&mut self.0.0.lock().messages) {
            match joined.last_mut() {
                Some(last) if last.speaker == message.speaker => last.text.push_str(&message.text),
                _ => joined.push(message),
            }
        }
        joined.retain(|message| !message.text.is_empty());
        joined
    }

    /// Waits for a message with this text.
    pub(crate) async fn until_message(&self, words: &str) {
        let has = |log: &mut LogState| log.messages.iter().any(|(_, message)| message.text.contains(words));
        self.until(|log| has(log).then_some(())).await;
    }

    /// Waits for the end of the turn, and returns its reason.
    pub(crate) async fn until_stopped(&self) -> String {
        self.until(|log| log.stop_reason.take()).await
    }

    async fn until<T>(&self, mut wanted: impl FnMut(&mut LogState) -> Option<T>) -> T {
        loop {
            let changed = self.0.1.notified();
            if let Some(found) = wanted(&mut self.0.0.lock()) {
                return found;
            }
            timeout(UPDATE_TIMEOUT, changed).await.expect("the update arrives in time");
        }
    }

    fn change(&self, change: impl FnOnce(&mut LogState)) {
        change(&mut self.0.0.lock());
        self.0.1.notify_one();
    }
}

impl LogState {
    /// The message with this id; without one, the last if it is of the same speaker.
    fn message(&mut self, speaker: Speaker, id: Option<String>) -> &mut String {
        let is_meant =
            |(known, message): &(Option<String>, Message)| message.speaker == speaker && *known == id;
        let last = self.messages.len().saturating_sub(1);
        let found = match &id {
            Some(_) => self.messages.iter().position(is_meant),
            None => self.messages.last().is_some_and(is_meant).then_some(last),
        };
        let index = found.unwrap_or(self.messages.len());
        if found.is_none() {
            self.messages.push((id, Message { speaker, text: String::new() }));
        }
        &mut self.messages[index].1.text
    }
}
