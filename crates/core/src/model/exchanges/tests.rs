//! Exchanges kept event by event: resumed from any checkpoint they equal the fold of the whole conversation.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::{Conversation, Direction, Entry, EventKind, RecordId};

/// One step of a conversation. Numbers choose a message or a session.
#[derive(Debug, Clone)]
enum Step {
    Prompt(String),
    PromptAgain,
    End(Option<&'static str>),
    Chunk(MessageKind, Option<u8>, String),
    Whole(MessageKind, u8, Option<String>),
    Tool,
    State,
    Reset { announced: bool },
    Return(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let text = || "[ab \n]{0,4}";
    let kind = || {
        prop_oneof![
            3 => Just(MessageKind::Agent),
            1 => Just(MessageKind::User),
            1 => Just(MessageKind::Thought),
        ]
    };
    let id = || proptest::option::of(0..3u8);
    prop_oneof![
        3 => text().prop_map(Step::Prompt),
        1 => Just(Step::PromptAgain),
        3 => prop_oneof![Just(Some("end_turn")), Just(Some("cancelled")), Just(None)].prop_map(Step::End),
        8 => (kind(), id(), text()).prop_map(|(kind, id, text)| Step::Chunk(kind, id, text)),
        2 => (kind(), 0..3u8, proptest::option::of(text()))
            .prop_map(|(kind, id, text)| Step::Whole(kind, id, text)),
        1 => Just(Step::Tool),
        1 => Just(Step::State),
        1 => any::<bool>().prop_map(|announced| Step::Reset { announced }),
        1 => (0..4u8).prop_map(Step::Return),
    ]
}

/// A conversation that is being written.
#[derive(Default)]
struct Log {
    events: Vec<(Event, Content)>,
    turns: u64,
    turn: Option<TurnId>,
    sessions: u64,
    session: u64,
    rows: u64,
    /// How many exchanges may have begun: agents do not use an id of an earlier one.
    exchanges: u64,
    /// The last user message with an id, by the exchange that it began.
    user: Option<u64>,
}

impl Log {
    fn of(steps: &[Step]) -> Self {
        let mut log = Self { rows: 1, ..Self::default() };
        for step in steps {
            log.step(step);
        }
        log
    }

    fn push(&mut self, content: Content) {
        let seq = self.events.len() as u64 + 1;
        let event = Event {
            seq: Seq(seq),
            at: Timestamp::from_millis(seq.cast_signed()).unwrap(),
            turn: self.turn,
            lineage: LineageIndex(self.rows),
            protocol: 1,
            direction: Direction::FromAgent,
            kind: EventKind::Update,
            body: Arc::from(""),
        };
        self.events.push((event, content));
    }

    fn fact(&mut self, fact: Fact) {
        self.push(Content::Fact(fact));
    }

    fn end(&mut self, stop_reason: Option<&str>) {
        if let Some(TurnId(turn)) = self.turn {
            self.fact(Fact::TurnEnded { turn, stop_reason: stop_reason.map(Into::into), error: None });
            self.turn = None;
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Prompt(text) => {
                self.end(Some("end_turn"));
                self.turns += 1;
                self.exchanges += 1;
                self.turn = Some(TurnId(self.turns));
                self.fact(Fact::TurnStarted { turn: self.turns, request_id: String::new(), client: None });
                self.push(Content::Prompt { text: text.clone(), blocks: Vec::new() });
            }
            Step::PromptAgain => {
                if let Some(TurnId(turn)) = self.turn {
                    self.fact(Fact::PromptResent { turn, retry: None });
                    self.push(Content::Prompt { text: "again".to_owned(), blocks: Vec::new() });
                }
            }
            Step::End(reason) => self.end(*reason),
            Step::Chunk(kind, id, text) => {
                self.exchanges += u64::from(*kind == MessageKind::User && id.is_none());
                let message_id = id.map(|id| self.id(*kind, id));
                let content = ChunkContent::Text(text.as_str().into());
                self.push(Content::Update(Update::Chunk { kind: *kind, message_id, content }));
            }
            Step::Whole(kind, id, text) => {
                let content = text.as_deref().map(|text| vec![ChunkContent::Text(text.into())]);
                let message_id = self.id(*kind, *id);
                self.push(Content::Update(Update::Message { kind: *kind, message_id, content }));
            }
            Step::Tool => {
                self.push(Content::Update(Update::Tool { call: "t".into(), fields: "{}".into() }));
            }
            Step::State => self.push(Content::Update(Update::State)),
            Step::Reset { announced } => {
                self.sessions += 1;
                self.reset(self.sessions, *announced);
            }
            Step::Return(session) => {
                let to = u64::from(*session);
                if to < self.sessions && to != self.session {
                    self.fact(Fact::SessionReturned {
                        from_acpx_session_id: self.session.to_string(),
                        acpx_session_id: to.to_string(),
                        agent_session_id: None,
                    });
                    self.enter(to);
                }
            }
        }
    }

    fn reset(&mut self, to: u64, announced: bool) {
        self.fact(Fact::SessionReset {
            reason: "agent-lost".to_owned(),
            from_acpx_session_id: self.session.to_string(),
            acpx_session_id: to.to_string(),
            agent_session_id: None,
            announced,
            carried: None,
            error: None,
        });
        self.enter(to);
    }

    fn enter(&mut self, session: u64) {
        (self.session, self.user) = (session, None);
        self.rows += 1;
        self.exchanges += 1;
    }

    /// An id for a message. The first one of users is that of the last user message.
    fn id(&mut self, kind: MessageKind, id: u8) -> Box<str> {
        if kind == MessageKind::User && (id > 0 || self.user != Some(self.exchanges)) {
            self.exchanges += 1;
            // Within a turn it is an echo, which begins no exchange.
            self.user = self.turn.is_none().then_some(self.exchanges);
        }
        let id = if kind == MessageKind::User { 0 } else { id };
        format!("{}.{id}", self.exchanges).into()
    }

    /// The fold of all events, with a checkpoint after each event that `cuts` selects.
    fn fold(&self, cuts: impl Fn(usize) -> bool) -> (Option<ExchangeCheckpoint>, ExchangeFold) {
        let (mut stored, mut fold) = (None::<ExchangeCheckpoint>, ExchangeFold::new());
        for (index, (event, content)) in self.events.iter().enumerate() {
            fold.apply(event, content);
            if cuts(index) {
                store(&mut stored, &mut fold);
                fold = ExchangeFold::resume(stored.as_ref().unwrap());
            }
        }
        store(&mut stored, &mut fold);
        (stored, fold)
    }
}

/// Writes a checkpoint, its state as JSON.
fn store(stored: &mut Option<ExchangeCheckpoint>, fold: &mut ExchangeFold) {
    let Some(next) = fold.take_checkpoint() else { return };
    let state = serde_json::from_str(&serde_json::to_string(&next.state).unwrap()).unwrap();
    let next = ExchangeCheckpoint { state, ..next };
    match stored {
        Some(stored) => stored.add(next),
        none => *none = Some(next),
    }
}

fn exchanges_in(all: Option<&ExchangeCheckpoint>, branch: u64) -> Vec<Exchange> {
    let all = all.iter().flat_map(|stored| &stored.exchanges);
    all.filter(|stored| stored.branch == branch).map(|stored| stored.exchange.clone()).collect()
}

/// The exchanges of the session in force from the whole conversation.
fn from_entries(log: &Log) -> Vec<Exchange> {
    let mut conversation = Conversation::new(RecordId::new("r").unwrap());
    for (event, content) in &log.events {
        conversation.apply(event, content.clone());
    }
    let mut left: HashMap<&str, Vec<Exchange>> = HashMap::new();
    let (mut exchanges, mut turn_runs, mut has_current) = (Vec::<Exchange>::new(), false, false);
    for entry in conversation.entries() {
        match entry {
            Entry::Reset { from, to, .. } => {
                let resent = if turn_runs { exchanges.pop() } else { None };
                left.insert(from, std::mem::take(&mut exchanges));
                exchanges = left.remove(&**to).unwrap_or_default();
                has_current = resent.is_some();
                exchanges.extend(resent);
            }
            Entry::Message(message) if message.kind == MessageKind::User => {
                turn_runs = message.turn.is_some();
                let prompt = message.text.split_whitespace().collect();
                exchanges.push(Exchange { prompt, answered: message.turn.is_none(), ..Exchange::default() });
                has_current = true;
            }
            Entry::Message(message) if message.kind == MessageKind::Agent => {
                if let Some(last) = exchanges.last_mut().filter(|_| has_current) {
                    last.reply.push_str(&message.text);
                }
            }
            Entry::TurnEnd { stop_reason, .. } => {
                turn_runs = false;
                let is_answered = stop_reason.as_ref().is_some_and(|reason| &**reason != "cancelled");
                if let Some(last) = exchanges.last_mut().filter(|_| is_answered && has_current) {
                    last.answered = true;
                }
            }
            Entry::Message(_) | Entry::Tool(_) | Entry::Plan { .. } => {}
        }
    }
    exchanges
}

proptest! {
    #[test]
    fn exchanges_resumed_from_any_checkpoint_equal_the_whole_fold(
        steps in prop::collection::vec(step(), 0..60),
        cuts in prop::collection::vec(any::<bool>(), 200),
    ) {
        let log = Log::of(&steps);
        let (whole, fold) = log.fold(|_| false);
        let (kept, resumed) = log.fold(|index| cuts[index % cuts.len()]);
        prop_assert_eq!(&kept, &whole);
        prop_assert_eq!(resumed, fold);
    }

    #[test]
    fn exchanges_in_force_equal_those_of_the_conversation(steps in prop::collection::vec(step(), 0..60)) {
        let log = Log::of(&steps);
        let (whole, fold) = log.fold(|_| false);
        prop_assert_eq!(exchanges_in(whole.as_ref(), fold.branch(None).unwrap()), from_entries(&log));
    }
}

#[test]
fn long_prompts_and_replies_of_exchanges_are_cut_with_their_length() {
    let (prompt, reply) = ("é ".repeat(PROMPT_BYTES), "ü".repeat(REPLY_BYTES));
    let chunk = |text: &str| Step::Chunk(MessageKind::Agent, None, text.to_owned());
    let mut steps = vec![Step::Prompt(prompt), chunk("well"), chunk(&reply), Step::Tool];
    // More messages than can be changed by their ids.
    steps.extend((0..40).map(|id| Step::Chunk(MessageKind::Agent, Some(id), "more".to_owned())));
    let (stored, fold) = Log::of(&steps).fold(|_| false);
    let [exchange] = &exchanges_in(stored.as_ref(), 0)[..] else { panic!("one exchange") };
    let expected = Exchange {
        prompt: "é".repeat(PROMPT_BYTES / 2),
        unstored_prompt: PROMPT_BYTES,
        answered: false,
        reply: format!("well{}", "ü".repeat((REPLY_BYTES - 4) / 2)),
        unstored: REPLY_BYTES + 4 + 40 * 4,
    };
    assert_eq!(*exchange, expected);
    let parts = fold.state.current.unwrap().reply;
    assert_eq!(
        (parts.len(), parts.iter().map(|part| part.text.len()).sum::<usize>()),
        (OPEN_MESSAGES, REPLY_BYTES)
    );
}

#[test]
fn long_message_id_is_stored_as_its_digest() {
    let key = |id: &str| AgentMessageKey::new(LineageIndex::FIRST, id);
    let long = |end: &str| format!("{}{end}", "x".repeat(10 << 20));
    assert_eq!(&*key(&"x".repeat(ID_BYTES)).id, "x".repeat(ID_BYTES));
    assert!(key(&long("a")).id.len() < ID_BYTES);
    assert_eq!(key(&long("a")), key(&long("a")));
    assert_ne!(key(&long("a")), key(&long("b")));
}
