//! What an editor has been told, as one conversation, however it was cut: live in many pieces, replayed in few.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::sync::Lock;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long something may take to be told. Only an agent that hangs takes so long.
const UPDATE_TIMEOUT: Duration = Duration::from_mins(2);

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Agent,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    speaker: Speaker,
    pub(crate) text: String,
}

impl Said {
    pub(crate) fn user(text: &str) -> Self {
        Self { speaker: Speaker::User, text: text.to_owned() }
    }

    pub(crate) fn is_user(&self) -> bool {
        self.speaker == Speaker::User
    }
}

#[derive(Debug, Default)]
struct Told {
    messages: Vec<(Option<String>, Said)>,
    /// Why the work has ended, where that is told.
    stop_reason: Option<String>,
    asked: usize,
}

/// What is told, to whoever waits for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<(Lock<Told>, Notify)>);

impl Heard {
    /// A piece of a message.
    pub(crate) fn piece(&self, speaker: Speaker, id: Option<String>, text: &str) {
        self.change(|told| told.message(speaker, id).push_str(text));
    }

    /// A whole message, in the place of what was told of it.
    pub(crate) fn whole(&self, speaker: Speaker, id: String, text: String) {
        self.change(|told| *told.message(speaker, Some(id)) = text);
    }

    pub(crate) fn stopped(&self, reason: String) {
        self.change(|told| told.stop_reason = Some(reason));
    }

    pub(crate) fn asked(&self) {
        self.change(|told| told.asked += 1);
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.0.0.lock().asked
    }

    /// What was said since this was last asked for. Messages of one speaker that follow one another count as one.
    pub(crate) fn take(&self) -> Vec<Said> {
        let mut joined: Vec<Said> = Vec::new();
        for (_, said) in std::mem::take(&mut self.0.0.lock().messages) {
            match joined.last_mut() {
                Some(last) if last.speaker == said.speaker => last.text.push_str(&said.text),
                _ => joined.push(said),
            }
        }
        joined.retain(|said| !said.text.is_empty());
        joined
    }

    /// Waits until the agent has said this.
    pub(crate) async fn until_said(&self, words: &str) {
        let has = |told: &mut Told| told.messages.iter().any(|(_, said)| said.text.contains(words));
        self.until(|told| has(told).then_some(())).await;
    }

    /// Waits until the work has ended; why it has.
    pub(crate) async fn until_stopped(&self) -> String {
        self.until(|told| told.stop_reason.take()).await
    }

    async fn until<T>(&self, mut wanted: impl FnMut(&mut Told) -> Option<T>) -> T {
        loop {
            let changed = self.0.1.notified();
            if let Some(found) = wanted(&mut self.0.0.lock()) {
                return found;
            }
            timeout(UPDATE_TIMEOUT, changed).await.expect("it is told in time");
        }
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.0.lock());
        self.0.1.notify_one();
    }
}

impl Told {
    /// The message with this id; without one, the last if it is of the same speaker.
    fn message(&mut self, speaker: Speaker, id: Option<String>) -> &mut String {
        let is_meant = |(known, said): &(Option<String>, Said)| said.speaker == speaker && *known == id;
        let last = self.messages.len().saturating_sub(1);
        let found = match &id {
            Some(_) => self.messages.iter().position(is_meant),
            None => self.messages.last().is_some_and(is_meant).then_some(last),
        };
        let index = found.unwrap_or(self.messages.len());
        if found.is_none() {
            self.messages.push((id, Said { speaker, text: String::new() }));
        }
        &mut self.messages[index].1.text
    }
}
