//! What a replay is taken for, as a table, and what may still come late.

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

fn tool() -> Update {
    Update::Tool { call: "t".into(), fields: "{}".into() }
}

fn ours(exchanges: &[(&str, bool, &str)]) -> Alignment {
    let exchange = |&(prompt, answered, reply): &(&str, bool, &str)| Exchange {
        prompt: prompt.into(),
        answered,
        reply: reply.into(),
    };
    Alignment::new(exchanges.iter().map(exchange).collect())
}

fn replay(alignment: &mut Alignment, updates: &[Update]) -> Vec<bool> {
    updates.iter().map(|update| alignment.step(update) == ReplayStep::Keep).collect()
}

/// A prompt, whether it was answered, and the reply.
type Ours = (&'static str, bool, &'static str);
type Case<'a> = (&'static str, &'static [Ours], &'a [Update], Option<Verdict>);

const TWO: &[Ours] = &[("one", true, "1"), ("two", true, "2")];

#[test]
fn a_replay_is_judged_on_its_prompts() {
    let cases: &[Case<'_>] = &[
        ("nothing", TWO, &[], None),
        ("all", TWO, &[user("one"), agent("1"), user("two"), agent("2")], Some(Verdict::Same)),
        ("all, in pieces", TWO, &[user("o"), user("ne"), agent("1"), user("two")], Some(Verdict::Same)),
        ("no reply between", TWO, &[user("one"), user("two")], Some(Verdict::Same)),
        ("white space", TWO, &[user("one\n"), user(" two")], Some(Verdict::Same)),
        ("only the first", TWO, &[user("one"), agent("1")], Some(Verdict::Shorter)),
        ("only the last", TWO, &[user("two"), agent("2")], Some(Verdict::Shorter)),
        ("more", TWO, &[user("one"), user("two"), agent("2"), user("three")], Some(Verdict::Longer)),
        ("another", TWO, &[user("one"), user("other")], Some(Verdict::Different)),
        ("a summary first", TWO, &[user("summary"), user("two")], Some(Verdict::Different)),
        ("a prompt cut off", TWO, &[user("on"), agent("1")], Some(Verdict::Different)),
        ("output alone", TWO, &[agent("1"), tool()], Some(Verdict::Shorter)),
        (
            "an interrupted one is gone",
            &[("one", true, ""), ("x", false, "")],
            &[user("one")],
            Some(Verdict::Same),
        ),
        (
            "an interrupted one is gone, later ones are there",
            &[("one", true, ""), ("x", false, ""), ("two", true, "")],
            &[user("one"), user("two")],
            Some(Verdict::Same),
        ),
        ("ours is empty", &[], &[user("one")], Some(Verdict::Different)),
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
    assert_eq!(replay(&mut unmatched_last, &[user("one"), user("three")]), [false, false]);
    assert_eq!(unmatched_last.verdict(), Some(Verdict::Different));
}

#[test]
fn late_updates_are_owed_while_they_continue_the_replay() {
    let mut alignment = ours(&[("one", true, "first"), ("two", true, "second")]);
    replay(&mut alignment, &[user("one"), agent("fi")]);
    assert_eq!(alignment.verdict(), Some(Verdict::Shorter));
    for update in [agent("rst"), user("t"), user("wo"), tool(), agent("sec")] {
        assert_eq!(alignment.late(&update), LateStep::Owed, "{update:?}");
    }
    assert_eq!(alignment.late(&Update::State), LateStep::New);
    assert!(alignment.is_owed());
    assert_eq!(alignment.late(&agent("ond")), LateStep::Owed);
    assert!(!alignment.is_owed());
    assert_eq!(alignment.late(&agent("ond")), LateStep::New);
}

#[test]
fn the_first_late_update_that_does_not_fit_ends_what_is_owed() {
    let mut alignment = ours(&[("one", true, "first")]);
    replay(&mut alignment, &[user("one")]);
    assert_eq!(alignment.late(&agent("other")), LateStep::New);
    assert!(!alignment.is_owed());
    assert_eq!(alignment.late(&agent("first")), LateStep::New);
}

#[test]
fn a_complete_replay_owes_nothing() {
    let mut alignment = ours(&[("one", true, "first")]);
    replay(&mut alignment, &[user("one"), agent("first")]);
    assert!(!alignment.is_owed());
    assert_eq!(alignment.late(&agent("first")), LateStep::New);
}
