//! Verdicts on replays, as a table, and late updates.

use super::*;

fn user(text: &str) -> Update {
    chunk(MessageKind::User, text)
}

fn agent(text: &str) -> Update {
    chunk(MessageKind::Agent, text)
}

fn chunk(kind: MessageKind, text: &str) -> Update {
    Update::Chunk { kind, message_id: None, content: ChunkContent::Text(text.into()) }
}

fn identified(id: &str, content: ChunkContent) -> Update {
    Update::Chunk { kind: MessageKind::User, message_id: Some(id.into()), content }
}

fn text(text: &str) -> ChunkContent {
    ChunkContent::Text(text.into())
}

fn image() -> ChunkContent {
    ChunkContent::Block(r#"{"type":"image"}"#.into())
}

fn tool() -> Update {
    Update::Tool { call: "t".into(), fields: "{}".into() }
}

fn ours(exchanges: &[(&str, bool, &str)]) -> Alignment {
    let exchange = |&(prompt, answered, reply): &(&str, bool, &str)| Exchange {
        prompt: bare(prompt),
        answered,
        reply: reply.into(),
        ..Exchange::default()
    };
    let notes = ["[Request interrupted", "<session_context>"].map(str::to_owned);
    Alignment::new(exchanges.iter().map(exchange).collect(), &notes)
}

fn replay(alignment: &mut Alignment, updates: &[Update]) -> Vec<bool> {
    updates.iter().map(|update| alignment.step(update) == ReplayStep::Keep).collect()
}

/// A prompt, whether it was answered, and the reply.
type Ours = (&'static str, bool, &'static str);
type Case<'a> = (&'static str, &'static [Ours], &'a [Update], Option<ReplayVerdict>);

const TWO: &[Ours] = &[("one", true, "1"), ("two", true, "2")];

#[test]
fn a_replay_is_judged_on_its_prompts() {
    let cases: &[Case<'_>] = &[
        ("nothing", TWO, &[], None),
        ("all", TWO, &[user("one"), agent("1"), user("two"), agent("2")], Some(ReplayVerdict::Same)),
        ("all, in pieces", TWO, &[user("o"), user("ne"), agent("1"), user("two")], Some(ReplayVerdict::Same)),
        ("no reply between", TWO, &[user("one"), user("two")], Some(ReplayVerdict::Same)),
        ("white space", TWO, &[user("one\n"), user(" two")], Some(ReplayVerdict::Same)),
        ("only the first", TWO, &[user("one"), agent("1")], Some(ReplayVerdict::Shorter)),
        ("only the last", TWO, &[user("two"), agent("2")], Some(ReplayVerdict::Shorter)),
        ("more", TWO, &[user("one"), user("two"), agent("2"), user("three")], Some(ReplayVerdict::Longer)),
        ("another", TWO, &[user("one"), agent("1"), user("other")], Some(ReplayVerdict::Different)),
        ("a summary first", TWO, &[user("summary"), tool(), user("two")], Some(ReplayVerdict::Different)),
        ("a prompt cut off", TWO, &[user("on"), agent("1")], Some(ReplayVerdict::Different)),
        ("output alone", TWO, &[agent("1"), tool()], Some(ReplayVerdict::Shorter)),
        (
            "an interrupted one is gone",
            &[("one", true, ""), ("x", false, "")],
            &[user("one")],
            Some(ReplayVerdict::Same),
        ),
        (
            "an interrupted one is gone, later ones are there",
            &[("one", true, ""), ("x", false, ""), ("two", true, "")],
            &[user("one"), user("two")],
            Some(ReplayVerdict::Same),
        ),
        ("ours is empty", &[], &[user("one")], Some(ReplayVerdict::Different)),
    ];
    for (name, exchanges, updates, verdict) in cases {
        let mut alignment = ours(exchanges);
        replay(&mut alignment, updates);
        assert_eq!(alignment.verdict(), *verdict, "{name}");
    }
}

#[test]
fn only_what_follows_an_exact_match_of_the_last_prompt_is_kept() {
    let mut alignment = ours(TWO);
    let updates = [user("one"), user("two"), agent("2"), tool(), user("three"), agent("3"), tool()];
    assert_eq!(replay(&mut alignment, &updates), [false, false, false, false, true, true, true]);

    let mut unmatched_last = ours(&[("one", true, ""), ("lost", false, "")]);
    assert_eq!(replay(&mut unmatched_last, &[user("one"), tool(), user("three")]), [false; 3]);
    assert_eq!(unmatched_last.verdict(), Some(ReplayVerdict::Different));
}

#[test]
fn late_updates_are_owed_while_they_continue_the_replay() {
    let mut alignment = ours(&[("one", true, "first"), ("two", true, "second")]);
    replay(&mut alignment, &[user("one"), agent("fi")]);
    assert_eq!(alignment.verdict(), Some(ReplayVerdict::Shorter));
    for update in [agent("rst"), user("t"), user("wo"), tool(), agent("sec")] {
        assert_eq!(alignment.late(&update), LateStep::Replayed, "{update:?}");
    }
    assert_eq!(alignment.late(&Update::State), LateStep::New);
    assert!(alignment.expects_more());
    assert_eq!(alignment.late(&agent("ond")), LateStep::Replayed);
    assert!(!alignment.expects_more());
    assert_eq!(alignment.late(&agent("ond")), LateStep::New);
}

#[test]
fn the_first_late_update_that_does_not_fit_ends_what_is_owed() {
    let mut alignment = ours(&[("one", true, "first")]);
    replay(&mut alignment, &[user("one")]);
    assert_eq!(alignment.late(&agent("other")), LateStep::New);
    assert!(!alignment.expects_more());
    assert_eq!(alignment.late(&agent("first")), LateStep::New);
}

#[test]
fn a_complete_replay_owes_nothing() {
    let mut alignment = ours(&[("one", true, "first")]);
    replay(&mut alignment, &[user("one"), agent("first")]);
    assert!(!alignment.expects_more());
    assert_eq!(alignment.late(&agent("first")), LateStep::New);
}

#[test]
fn the_half_of_an_answer_that_was_cut_off_is_not_owed() {
    let interrupted = &[("one", true, "1"), ("two", false, "tick0 ")];
    let mut alignment = ours(interrupted);
    replay(&mut alignment, &[user("one"), agent("1"), user("two")]);
    assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same));
    assert!(!alignment.expects_more());
    assert_eq!(alignment.late(&agent("tick0 ")), LateStep::New);

    // A prompt that others followed may be replayed, and is recognised.
    let mut alignment = ours(&[("one", false, "tick0 "), ("two", true, "2")]);
    replay(&mut alignment, &[user("one")]);
    for update in [agent("tick0 "), user("two"), agent("2")] {
        assert_eq!(alignment.late(&update), LateStep::Replayed, "{update:?}");
    }
}

#[test]
fn text_that_agents_add_to_a_prompt_belongs_to_it() {
    let ours_of = || ours(&[("see  please", true, "1"), ("two", true, "2")]);
    let second = |updates: &mut Vec<Update>| updates.extend([agent("1"), user("two"), agent("2")]);
    let cases = [
        ("a file between", vec![user("see "), user("content"), user(" please")]),
        ("a file after", vec![user("see  please"), user("content")]),
        ("a block between", vec![user("see "), identified("m", image()), user(" please")]),
        ("white space of its own", vec![user("\nsee\nplease\n\n")]),
        ("an image first", vec![identified("m", image()), identified("m", text("see  please"))]),
    ];
    for (name, mut updates) in cases {
        let mut alignment = ours_of();
        second(&mut updates);
        let dropped = vec![false; updates.len()];
        assert_eq!(replay(&mut alignment, &updates), dropped, "{name}");
        assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same), "{name}");
    }
    // After the last prompt, added text could be mistaken for a prompt made outside acpx.
    let mut alignment = ours(&[("two", false, "")]);
    let added = [identified("m", text("two")), identified("m", text("content")), agent("2")];
    assert_eq!(replay(&mut alignment, &added), [false; 3]);
    assert_eq!(replay(&mut alignment, &[identified("n", text("content"))]), [true]);
}

#[test]
fn messages_that_are_none_of_ours_are_forgiven_if_ours_go_on() {
    let cases: &[(&str, &[Update], ReplayVerdict)] = &[
        ("between", &[user("one"), agent("1"), user("x"), agent("?"), user("two")], ReplayVerdict::Same),
        ("first", &[user("x"), tool(), user("one"), agent("1"), user("two")], ReplayVerdict::Same),
        ("instead", &[user("one"), agent("1"), user("x"), agent("?")], ReplayVerdict::Different),
        ("for one of ours", &[user("x"), agent("?"), user("two"), agent("2")], ReplayVerdict::Different),
    ];
    for (name, updates, verdict) in cases {
        let mut alignment = ours(TWO);
        assert_eq!(replay(&mut alignment, updates), vec![false; updates.len()], "{name}");
        assert_eq!(alignment.verdict(), Some(*verdict), "{name}");
    }
}

#[test]
fn notes_of_the_agent_are_nobodys_prompts() {
    for note in ["[Request interrupted by user]", "[Requestinterrupted", "<session_context>\nx"] {
        let mut alignment = ours(&[("one", false, "half")]);
        replay(&mut alignment, &[user("one"), agent("half"), user(note)]);
        assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same), "{note}");
        assert_eq!(replay(&mut alignment, &[agent("?"), user("two")]), [false, true], "{note}");
    }
}

#[test]
fn repeated_prompt_after_an_interruption_may_be_replayed_once_or_twice() {
    let again: &[(&str, bool, &str)] = &[("one", false, "ha"), ("one", true, "half")];
    for updates in [vec![user("one"), agent("half")], vec![user("one"), user("one"), agent("half")]] {
        let mut alignment = ours(again);
        replay(&mut alignment, &updates);
        assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same), "{updates:?}");
        assert_eq!(replay(&mut alignment, &[user("elsewhere")]), [true], "{updates:?}");
    }
}

#[test]
fn prompt_without_text_is_not_missed_in_a_replay() {
    let mut alignment = ours(&[("one", true, "1"), ("", true, "a cat")]);
    replay(&mut alignment, &[user("one"), agent("1")]);
    assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same));
    assert_eq!(replay(&mut alignment, &[identified("m", image()), agent("a cat")]), [false, false]);
    assert_eq!(alignment.verdict(), Some(ReplayVerdict::Same));
}
