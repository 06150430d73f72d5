//! Tests of the archive: what survives a crash, and which damage is rejected.

use acpx_testkit::TempHome;

use super::*;

fn session() -> AcpSessionId {
    AcpSessionId::new("s-1").unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn cwd() -> AbsolutePath {
    AbsolutePath::new("/w").unwrap()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn prompt(text: &str) -> ArchiveLine {
    let block = raw(&format!(r#"{{"type":"text", "text":"{text}"}}"#));
    ArchiveLine::Prompt { at: at(1).to_string(), text: text.into(), blocks: vec![block], message_id: None }
}

fn end() -> ArchiveLine {
    ArchiveLine::End { at: at(2).to_string(), stop_reason: Some("end_turn".into()) }
}

fn user(text: &str) -> UpdateBody {
    let block = format!(r#"{{"type":"text", "text":"{text}"}}"#);
    UpdateBody::user_block(&block).unwrap().in_message("user-1")
}

#[test]
fn a_session_is_read_back_as_it_was_written_byte_for_byte() {
    let home = TempHome::new();
    let archive = Archive::new(home.join("demo"));
    assert_eq!(archive.read(&session()).unwrap(), None);
    assert_eq!(archive.all().unwrap(), vec![]);
    archive.append(&session(), &cwd(), at(0), &[prompt("one")]).unwrap();
    let update = r#"{"sessionUpdate":"agent_message_chunk","n":1.50}"#;
    let mode = ArchiveLine::Mode { mode: "code".into(), at: at(2).to_string() };
    archive.append(&session(), &cwd(), at(0), &[ArchiveLine::Update(raw(update)), mode, end()]).unwrap();
    let turn = ArchiveTurn {
        text: "one".into(),
        updates: vec![user("one"), UpdateBody::from_json(update).unwrap()],
    };
    let kept = || ArchiveSession {
        session: session(),
        cwd: cwd(),
        mode: Some("code".into()),
        turns: vec![ArchiveTurn { text: turn.text.clone(), updates: turn.updates.clone() }],
        updated_at: at(2),
    };
    assert_eq!(archive.read(&session()).unwrap(), Some(kept()));
    assert_eq!(archive.all().unwrap(), vec![kept()]);
    archive.remove(&session()).unwrap();
    archive.remove(&session()).unwrap();
    assert_eq!(archive.read(&session()).unwrap(), None);
}

#[test]
fn archived_message_keeps_its_id_or_gets_one_from_its_position() {
    let home = TempHome::new();
    let archive = Archive::new(home.path().to_owned());
    let named = |text: &str| {
        let ArchiveLine::Prompt { at, text, blocks, .. } = prompt(text) else { unreachable!("a prompt") };
        ArchiveLine::Prompt { at, text, blocks, message_id: Some("mine".into()) }
    };
    archive.append(&session(), &cwd(), at(0), &[named("one"), end(), prompt("two"), end()]).unwrap();
    let turns = archive.read(&session()).unwrap().unwrap().turns;
    let first: Vec<_> = turns.iter().map(|turn| turn.updates[0].as_json().to_owned()).collect();
    let chunk = |id: &str, text: &str| {
        format!(
            r#"{{"messageId":"{id}","sessionUpdate":"user_message_chunk","content":{{"type":"text", "text":"{text}"}}}}"#
        )
    };
    assert_eq!(first, [chunk("mine", "one"), chunk("user-2", "two")]);
}

#[test]
fn truncated_last_archive_line_is_dropped() {
    let home = TempHome::new();
    let archive = Archive::new(home.path().to_owned());
    archive.append(&session(), &cwd(), at(0), &[prompt("one"), end()]).unwrap();
    let path = home.join("s-1.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = whole[..cut].matches('\n').count();
        let before = archive.read(&session()).unwrap();
        assert_eq!(before.is_some(), lines > 0, "cut at {cut}");
        archive.append(&session(), &cwd(), at(0), &[prompt("two"), end()]).unwrap();
        let turns = archive.read(&session()).unwrap().unwrap().turns;
        let texts: Vec<_> = turns.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, if lines > 1 { vec!["one", "two"] } else { vec!["two"] }, "cut at {cut}");
    }
}

#[test]
fn damage_is_named_by_its_line_and_never_taken_for_nothing() {
    let home = TempHome::new();
    let archive = Archive::new(home.path().to_owned());
    archive.append(&session(), &cwd(), at(0), &[prompt("one")]).unwrap();
    let path = home.join("s-1.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}garbage\n{whole}")).unwrap();
    let problem = archive.read(&session()).unwrap_err().to_string();
    let expected = format!("{} is damaged in line 3: expected value at line 1 column 1", path.display());
    assert_eq!(problem, expected);
    assert!(archive.all().is_err());
}

#[test]
fn an_id_that_spells_a_path_is_no_file_of_ours() {
    let home = TempHome::new();
    let archive = Archive::new(home.join("demo"));
    for id in ["../s", "/etc/passwd", "a/b", ".."] {
        let session = AcpSessionId::new(id).unwrap();
        archive.append(&session, &cwd(), at(0), &[prompt("one")]).unwrap();
        assert_eq!(archive.read(&session).unwrap(), None);
        archive.remove(&session).unwrap();
    }
    assert!(fs::read_dir(home.path()).unwrap().next().is_none());
}
