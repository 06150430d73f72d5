//! What must be true when the soak is over: every prompt has become of it what its client was told, and all who have
//! the conversation have the same.

use std::collections::{HashMap, HashSet};

use acpx_core::model::{Direction, Event, EventKind, RecordId, Seq, Turn, TurnId, TurnOutcome, TurnState};
use acpx_core::store::{Access, SqliteStore, Store};
use serde_json::Value;

use super::conversation::Conversation;
use super::editor::Editor;
use super::world::World;

/// How many events are read at a time.
const PAGE: usize = 1024;
/// How many differences are shown.
const SHOWN: usize = 8;

/// What is in the store.
pub(super) struct Kept {
    record: RecordId,
    events: Vec<Event>,
    turns: Vec<Turn>,
}

impl Kept {
    pub(super) fn read(world: &World) -> Self {
        let path = world.place.acpx_home().join("acpx.db");
        let store = SqliteStore::open(&path, Access::ReadOnly).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let record = RecordId::new(world.record.as_str()).unwrap();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let from = events.last().map_or(Seq::FIRST, |last| last.seq.next());
            let page = runtime.block_on(store.events(record.clone(), from, PAGE)).unwrap();
            if page.is_empty() {
                break;
            }
            events.extend(page);
        }
        let mut turns = Vec::new();
        while let Some(turn) =
            runtime.block_on(store.turn_numbered(record.clone(), TurnId(turns.len() as u64 + 1))).unwrap()
        {
            turns.push(turn);
        }
        Self { record, events, turns }
    }

    /// The last event that clients of both versions receive: only version 2 has states.
    pub(super) fn last_update(&self) -> u64 {
        let is_told = |event: &&Event| {
            (event.direction, event.kind) == (Direction::FromAgent, EventKind::Update)
                && !event.body.contains("state_update")
        };
        self.events.iter().rfind(is_told).unwrap().seq.0
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    fn conversation(&self) -> Vec<String> {
        Conversation::of_store(&self.record, &self.events).lines()
    }

    /// The words of every prompt that was accepted, with its turn.
    fn prompts(&self) -> HashMap<String, &Turn> {
        let mut prompts = HashMap::new();
        for turn in &self.turns {
            let before = prompts.insert(acpx_core::acp::prompt_text(&turn.prompt), turn);
            assert!(before.is_none(), "two turns for one prompt: {before:?} and {turn:?}");
        }
        prompts
    }
}

/// How a turn stands, in one word.
fn word(turn: &Turn) -> &str {
    match &turn.state {
        TurnState::Queued => "queued",
        TurnState::Dispatched { .. } => "dispatched",
        TurnState::Interrupted { .. } => "INTERRUPTED",
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => reason.as_str(),
        TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => error.code.as_str(),
    }
}

/// Every turn has an end, and every prompt has become what its client was told.
pub(super) fn prompts_are_kept(world: &World, kept: &Kept) {
    for turn in &kept.turns {
        let is_over = ["end_turn", "INTERRUPTED", "AGENT_DIED"].contains(&word(turn));
        assert!(is_over, "turn {} has no end of its own: {turn:?}", turn.id);
    }
    let prompts = kept.prompts();
    for editor in &world.editors {
        for asked in &editor.prompts {
            let (name, version) = (&asked.name, editor.version);
            let turn = prompts.get(name).unwrap_or_else(|| {
                panic!("{name} of editor {version} is lost, {:?}", asked.answer);
            });
            assert_eq!(asked.turn, Some(turn.id.0), "{name} of editor {version}: {:?}", asked.answer);
            match asked.error_code() {
                Some(code) => assert_eq!(code, word(turn), "{name} of editor {version}"),
                // In version 2 the answer comes before the end.
                None if version == 2 => assert!(asked.is_done(), "{:?}", asked.answer),
                None => {
                    let reason = &asked.answer.as_ref().unwrap()["result"]["stopReason"];
                    assert_eq!(reason, word(turn), "{name} of editor {version}");
                }
            }
        }
    }
    for shell in &world.shells {
        let Some(result) = shell.result() else { continue };
        // The agent may be killed while it is restored for the prompt, which is not accepted then.
        let hint = result["error"]["data"]["hint"].as_str().unwrap_or_default();
        if result["action"].is_null() && hint.starts_with("the prompt was not sent") {
            assert!(!prompts.contains_key(&shell.name), "{} was sent: {result}", shell.name);
            continue;
        }
        let turn = prompts.get(&shell.name).unwrap_or_else(|| panic!("{} is lost: {result}", shell.name));
        let told = match (result["action"].as_str(), result["status"].as_str()) {
            (Some("prompt_queued"), _) => continue,
            (_, Some("completed")) => result["stopReason"].as_str(),
            _ => result["error"]["data"]["detailCode"].as_str(),
        };
        assert_eq!(told, Some(word(turn)), "{}: {result}", shell.name);
    }
}

/// All who have the conversation have the one in the store.
pub(super) fn conversations_are_equal(world: &mut World, kept: &Kept) {
    let expected = kept.conversation();
    let replayed = world.place.json_lines(&["scripted", "sessions", "replay", "-s", &world.record]);
    same("sessions replay", &Conversation::of_exchange(world.soak.agent, &replayed), &expected);
    let updates = |told: &[Value]| told.iter().map(|params| params["update"].clone()).collect::<Vec<_>>();
    same("a fresh load", &Conversation::of_v1(&updates(&world.replayed(1))), &expected);
    same("a fresh resume from the start", &Conversation::of_v2(&updates(&world.replayed(2))), &expected);
    let [first, second] = &world.editors;
    same("the editor of version 2", &Conversation::of_v2(&updates(&second.told)), &expected);
    let mut own = Conversation::of_v1(&updates(&first.told));
    own.put_own(&unreceived_prompts(first, &expected), &turns_known_to(first));
    same("the editor of version 1", &own, &expected);
}

/// The prompts of a version 1 editor that it did not receive back, with their turns: those of the connection that saw
/// them begin. Only the store knows whether a prompt that failed silently reached the agent.
fn unreceived_prompts(editor: &Editor, kept: &[String]) -> Vec<(u64, String)> {
    let told: HashSet<&str> =
        editor.told.iter().filter_map(|params| params["_meta"]["acpx"]["requestId"].as_str()).collect();
    let kept: HashSet<&str> = kept.iter().filter_map(|line| line.strip_prefix("user: ")).collect();
    let own = editor.prompts.iter().filter(|asked| !told.contains(&*asked.name));
    let own = own.filter(|asked| asked.is_done() || kept.contains(&*asked.name));
    let mut own: Vec<_> = own.map(|asked| (asked.turn.unwrap(), asked.name.clone())).collect();
    own.sort_unstable();
    own
}

/// Which turn each prompt has, as far as an editor knows: those of others are told with it.
fn turns_known_to(editor: &Editor) -> HashMap<String, u64> {
    let own = editor.prompts.iter().filter_map(|asked| Some((asked.name.clone(), asked.turn?)));
    let others = editor.told.iter().filter_map(|params| {
        let text = params["update"]["content"]["text"].as_str()?;
        Some((text.to_owned(), params["_meta"]["acpx"]["turn"].as_u64()?))
    });
    own.chain(others).collect()
}

/// Fails with the lines that differ, if some do.
fn same(who: &str, seen: &Conversation, expected: &[String]) {
    let seen = seen.lines();
    if seen == expected {
        return;
    }
    let is_same = |(seen, expected): &(&String, &String)| seen == expected;
    let first = seen.iter().zip(expected).take_while(is_same).count();
    let (seen, expected) = (&seen[first..], &expected[first..]);
    let last = seen.iter().rev().zip(expected.iter().rev()).take_while(is_same).count();
    let differing =
        |lines: &[String]| lines[..lines.len() - last].iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let (seen, expected) = (differing(seen), differing(expected));
    panic!("at entry {first} {who} has {seen:#?} and the store {expected:#?}");
}
