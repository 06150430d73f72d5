//! The complete output of commands: every object has the canonical ids, and no null.

pub(super) mod samples;

use std::path::Path;

use acpx_core::model::{AbsolutePath, AcpSessionId, Record, RecordId, RequestId, SessionUsage};
use acpx_core::protocol::{FileMeta, ImportMeta, ImportedRecordMeta};

use self::samples::{at, bare_record, formats, mode, record, written};
use super::*;

#[test]
fn ensured_session_is_written_with_its_ids() {
    let identity = record().identity();
    let other = RecordId::new("r0").unwrap();
    let told = |name, how| {
        formats(|console| ensured(EnsureResult { identity: &identity, name, how }, console).unwrap())
    };
    let quiet = "r1\n".to_owned();
    assert_eq!(
        told(Some("api"), EnsureOrigin::New { replaced: Some(&other) }),
        [
            "r1\t(replaced r0)\n".to_owned(),
            quiet.clone(),
            "{\"action\":\"session_ensured\",\"created\":true,\"acpxRecordId\":\"r1\",\"acpxSessionId\":\"s2\",\"name\":\"api\",\"replacedRecordId\":\"r0\"}\n".to_owned(),
        ]
    );
    assert_eq!(told(None, EnsureOrigin::New { replaced: None })[0], quiet);
    assert_eq!(told(None, EnsureOrigin::Created)[0], "r1\t(created)\n");
    assert_eq!(
        told(None, EnsureOrigin::Existing { not_applied: &[] }),
        [
            "r1\t(existing)\n".to_owned(),
            quiet,
            "{\"action\":\"session_ensured\",\"created\":false,\"acpxRecordId\":\"r1\",\"acpxSessionId\":\"s2\"}\n".to_owned(),
        ]
    );
}

#[test]
fn close_cancel_and_queue_results_have_the_session_ids() {
    let identity = record().identity();
    let request = RequestId::new("q1").unwrap();
    let ids = "\"acpxRecordId\":\"r1\",\"acpxSessionId\":\"s2\"";
    assert_eq!(
        formats(|console| closed(&identity, console).unwrap()),
        ["r1\n".to_owned(), String::new(), format!("{{\"action\":\"session_closed\",{ids}}}\n")]
    );
    assert_eq!(
        formats(|console| cancelled(Some(&identity), true, console).unwrap()),
        [
            "cancel requested\n".to_owned(),
            "cancel requested\n".to_owned(),
            format!("{{\"action\":\"cancel_result\",\"cancelled\":true,{ids}}}\n"),
        ]
    );
    assert_eq!(
        formats(|console| cancelled(None, false, console).unwrap()),
        [
            "nothing to cancel\n".to_owned(),
            "nothing to cancel\n".to_owned(),
            "{\"action\":\"cancel_result\",\"cancelled\":false}\n".to_owned(),
        ]
    );
    assert_eq!(
        formats(|console| queued(&identity, &request, console).unwrap()),
        [
            "[queued] q1\n".to_owned(),
            String::new(),
            format!("{{\"action\":\"prompt_queued\",{ids},\"requestId\":\"q1\"}}\n"),
        ]
    );
}

#[test]
fn session_list_is_one_array_and_remote_rows_have_no_record_id() {
    let (mut kept, closed) = (record(), bare_record());
    kept.info.usage = Some(SessionUsage { used: 7, size: 9, cost: None });
    let remote = RemoteSessionRow {
        session: AcpSessionId::new("s9").unwrap(),
        agent: "claude".to_owned(),
        cwd: Some("/w".to_owned()),
        title: Some("a\tb".to_owned()),
        updated_at: Some(at(1)),
    };
    let rows = [
        ListRow::Kept(&kept, Some(ListedState::Idle)),
        ListRow::Kept(&closed, Some(ListedState::Closed)),
        ListRow::Remote(remote),
    ];
    let text = "\
r1\tapi\t/w\t2023-11-14T22:14:20.000Z\tclaude\tA title
r1 [closed]\t[by id]\t/w\t2023-11-14T22:14:20.000Z\t./mine --acp\t-
s9 [remote]\t-\t/w\t2023-11-14T22:13:21.000Z\tclaude\ta b
";
    let json = concat!(
        r#"[{"acpxRecordId":"r1","acpxSessionId":"s2","agentName":"claude","agentCommand":"npx -y 'an agent'","#,
        r#""agentArgv":["npx","-y","an agent"],"cwd":"/w","name":"api","title":"A\ntitle","#,
        r#""createdAt":"2023-11-14T22:13:20.000Z","lastUsedAt":"2023-11-14T22:14:20.000Z","lastSeq":9,"closed":false,"#,
        r#""state":"idle","usage":{"used":7,"size":9}},"#,
        r#"{"acpxRecordId":"r1","acpxSessionId":"s1","agentCommand":"./mine --acp","agentArgv":["./mine","--acp"],"#,
        r#""cwd":"/w","byIdOnly":true,"createdAt":"2023-11-14T22:13:20.000Z","lastUsedAt":"2023-11-14T22:14:20.000Z","lastSeq":0,"#,
        r#""closed":true,"closedAt":"2023-11-14T22:14:30.000Z","state":"closed"},"#,
        r#"{"acpxSessionId":"s9","cwd":"/w","title":"a\tb","updatedAt":"2023-11-14T22:13:21.000Z"}]"#,
        "\n"
    );
    let shown = formats(|console| list(&rows, console).unwrap());
    assert_eq!(shown, [text.to_owned(), "r1\nr1 [closed]\ns9\n".to_owned(), json.to_owned()]);
    assert_eq!(
        formats(|console| list(&[], console).unwrap()),
        ["No sessions\n".to_owned(), String::new(), "[]\n".to_owned()]
    );
    let remote = |format, rows: &[ListRow<'_>], next| {
        written(mode(format), |console| remote_list(rows, next, console).unwrap())
    };
    let page = r#"{"source":"agent","sessions":[],"nextCursor":"c 2"}"#;
    assert_eq!(remote(Format::Json, &[], Some("c 2")), (format!("{page}\n"), String::new()));
    let page = format!(r#"{{"source":"agent","sessions":{}}}"#, json.trim_end());
    assert_eq!(remote(Format::Json, &rows, None), (format!("{page}\n"), String::new()));
    let more = "[acpx] more: --cursor 'c 2'\n".to_owned();
    assert_eq!(remote(Format::Quiet, &rows[..1], Some("c 2")), ("r1\n".to_owned(), more));
}

#[test]
fn remote_session_row_is_one_line_for_any_agent_text() {
    let remote = RemoteSessionRow {
        session: AcpSessionId::new("s\t9\nr1").unwrap(),
        agent: "./mine\t--acp\n".to_owned(),
        cwd: Some("/w\nr2\tx".to_owned()),
        title: None,
        updated_at: None,
    };
    let [text, quiet, _] =
        formats(|console| remote_list(&[ListRow::Remote(remote.clone())], None, console).unwrap());
    assert_eq!(text, "s 9 r1 [remote]\t-\t/w r2 x\t-\t./mine --acp\t-\n");
    assert_eq!(quiet, "s 9 r1\n");
}

#[test]
fn agent_text_in_an_error_cannot_forge_a_hint() {
    let said =
        CliError::LoginFailed { method: "m".to_owned(), how: "no\nhint: run rm\nacpx: done".to_owned() };
    let report = ErrorReport::from(&said);
    let mut out = Vec::new();
    error::text(&report, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(
        out,
        "acpx: the login \"m\" failed: no hint: run rm acpx: done\nhint: acpx auth lists the agent's other login methods, if there are any\n"
    );
}

#[test]
fn session_is_shown_with_its_lineage_and_without_unknown_members() {
    let record = record();
    let [text, quiet, json] =
        formats(|console| show(&record, Some(at(43)), None, &TranscriptView::default(), console).unwrap());
    let expected = "\
acpxRecordId: r1
acpxSessionId: s2
agentName: claude
agent: npx -y 'an agent'
cwd: /w
name: api
title: A title
created: 2023-11-14T22:13:20.000Z
lastActivity: 2023-11-14T22:14:20.000Z
lastPrompt: 2023-11-14T22:14:03.000Z
closed: no
closedAt: -
pid: 4242
agentStartedAt: 2023-11-14T22:14:10.000Z
lastExit: -
lastExitAt: -
turns: 3
lineage:
  created  s1  inner-1  2023-11-14T22:13:20.000Z to 2023-11-14T22:14:10.000Z
  agent-lost  s2  2023-11-14T22:14:10.000Z to now
";
    let lineage = concat!(
        r#""mcpServers":["files"],"lineage":[{"acpxSessionId":"s1","agentSessionId":"inner-1","#,
        r#""from":"2023-11-14T22:13:20.000Z","to":"2023-11-14T22:14:10.000Z","reason":"created"},"#,
        r#"{"acpxSessionId":"s2","from":"2023-11-14T22:14:10.000Z","reason":"agent-lost"}]}"#,
        "\n"
    );
    assert_eq!((text.as_str(), quiet.as_str()), (expected, "r1\n"));
    assert!(json.starts_with(r#"{"acpxRecordId":"r1","acpxSessionId":"s2","agentName":"claude","#), "{json}");
    assert!(json.ends_with(lineage), "{json}");
    assert!(json.contains(r#""lastPromptAt":"2023-11-14T22:14:03.000Z","pid":4242,"#), "{json}");

    let additional_directories = vec![AbsolutePath::new("/a").unwrap(), AbsolutePath::new("/b\nc").unwrap()];
    let with_more = Record { additional_directories, ..record.clone() };
    let [shown, _, json] =
        formats(|console| show(&with_more, None, None, &TranscriptView::default(), console).unwrap());
    let lines = "\ncwd: /w\nadditionalDirectory: /a\nadditionalDirectory: /b c\nname: api\n";
    assert!(shown.contains(lines), "{shown}");
    assert!(json.contains(r#","additionalDirectories":["/a","/b\nc"],"#), "{json}");

    let hostile = Record {
        info: acpx_core::model::SessionInfo {
            title: Some("a\tb\nclosed: yes".to_owned()),
            ..Default::default()
        },
        ..record
    };
    let [shown, ..] =
        formats(|console| show(&hostile, None, None, &TranscriptView::default(), console).unwrap());
    assert!(shown.contains("\ntitle: a b closed: yes\n"), "{shown}");

    let [_, _, bare] =
        formats(|console| show(&bare_record(), None, None, &TranscriptView::default(), console).unwrap());
    assert!(!bare.contains("null") && !bare.contains("agentSessionId"), "{bare}");
}

#[test]
fn the_host_is_shown_whether_it_runs_or_not() {
    let home = Path::new("/h");
    let host = RunningHost {
        pid: 7,
        version: "0.1.0".to_owned(),
        build: Some("1a2b3c4d5 2026-11-18".to_owned()),
        since: at(0),
        socket: "/run/s".into(),
        live_sessions: 2,
        clients: 1,
    };
    assert_eq!(
        formats(|console| host_status(home, Some(&host), console).unwrap()),
        [
            "host: running\nhome: /h\npid: 7\nversion: 0.1.0 (1a2b3c4d5 2026-11-18)\nsince: 2023-11-14T22:13:20.000Z\nsocket: /run/s\nliveSessions: 2\nclients: 1\n".to_owned(),
            "running\n".to_owned(),
            "{\"action\":\"host_status\",\"status\":\"running\",\"home\":\"/h\",\"pid\":7,\"version\":\"0.1.0\",\"build\":\"1a2b3c4d5 2026-11-18\",\"since\":\"2023-11-14T22:13:20.000Z\",\"socket\":\"/run/s\",\"liveSessions\":2,\"clients\":1}\n".to_owned(),
        ]
    );
    assert_eq!(
        formats(|console| host_status(home, None, console).unwrap()),
        [
            "host: stopped\nhome: /h\n".to_owned(),
            "stopped\n".to_owned(),
            "{\"action\":\"host_status\",\"status\":\"stopped\",\"home\":\"/h\"}\n".to_owned(),
        ]
    );
    assert_eq!(
        formats(|console| host_changed(HostChange::Restarted { pid: 8 }, console).unwrap()),
        [
            "host restarted (pid 8)\n".to_owned(),
            String::new(),
            "{\"action\":\"host_restarted\",\"stopped\":true,\"pid\":8}\n".to_owned(),
        ]
    );
    assert_eq!(
        formats(|console| host_changed(HostChange::NoneToStop, console).unwrap())[2],
        "{\"action\":\"host_stopped\",\"stopped\":false}\n"
    );
    assert_eq!(formats(|console| host_changed(HostChange::Stopped, console).unwrap())[0], "host stopped\n");
}

#[test]
fn migration_reports_the_result_of_every_file() {
    let came = |record: &str, notes: &[&str]| ImportedRecordMeta {
        file: format!("{record}.json"),
        acpx_record_id: record.to_owned(),
        acpx_session_id: "s".to_owned(),
        agent_session_id: (record == "a").then(|| "inner".to_owned()),
        turns: 2,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    let file = |file: &str, reason: &str| FileMeta { file: file.to_owned(), reason: reason.to_owned() };
    let report = ImportMeta {
        taken: vec![came("a", &["the journal ends within a line"])],
        grown: vec![came("b", &[])],
        unchanged: 3,
        left: vec![file("c.json", "npm acpx holds it")],
        damaged: vec![file("d.json", "it is not JSON")],
        continued: Vec::new(),
    };
    let [text, quiet, json] = formats(|console| migrated(&report, false, console).unwrap());
    let expected = "\
taken over: a (2 turns)\ta.json
  note: the journal ends within a line
grown: b (2 turns)\tb.json
left alone: c.json: npm acpx holds it
damaged: d.json: it is not JSON
1 taken over, 1 grown, 3 unchanged, 1 left alone, 1 damaged
";
    let object = concat!(
        r#"{"action":"sessions_migrated","dryRun":false,"taken":[{"file":"a.json","acpxRecordId":"a","#,
        r#""acpxSessionId":"s","agentSessionId":"inner","turns":2,"notes":["the journal ends within a line"]}],"#,
        r#""grown":[{"file":"b.json","acpxRecordId":"b","acpxSessionId":"s","turns":2,"notes":[]}],"unchanged":3,"#,
        r#""left":[{"file":"c.json","reason":"npm acpx holds it"}],"#,
        r#""damaged":[{"file":"d.json","reason":"it is not JSON"}]}"#,
        "\n"
    );
    assert_eq!((text.as_str(), quiet.as_str(), json.as_str()), (expected, "a\nb\n", object));
    let [dry, ..] = formats(|console| migrated(&report, true, console).unwrap());
    assert!(dry.starts_with("would be taken over: a"), "{dry}");
}

#[test]
fn banners_are_for_those_who_read_along_and_never_for_strict_readers() {
    let record = record();
    let (agent, cwd) = (&record.agent, Path::new("/w"));
    let label = SessionLabel { record: &record.id, name: None, cwd, agent, short: "r1" };
    let said = |mode| {
        written(mode, |console| {
            created(label, console);
            prompting(label, Path::new("/w/sub/deep"), AgentReadiness::Starting, console);
            prompting(label, Path::new("/w"), AgentReadiness::Connected, console);
            prompting(
                SessionLabel::of(&bare_record(), "r1"),
                Path::new("/w"),
                AgentReadiness::Connected,
                console,
            );
            prompting(SessionLabel::of(&record, "r1"), Path::new("/w"), AgentReadiness::Connected, console);
        })
    };
    let words = "\
[acpx] created session cwd (r1)
[acpx] agent: claude
[acpx] cwd: /w
[acpx] session cwd (r1) · /w (routed from ./sub/deep) · agent starting
[acpx] session cwd (r1) · /w · agent connected
[acpx] session [by id] (r1) · /w · agent connected
[acpx] session api (r1) · /w · agent connected
";
    let strict = OutputMode { format: Format::Json, strict: true, ..OutputMode::default() };
    assert_eq!(said(mode(Format::Text)), (String::new(), words.to_owned()));
    assert_eq!(said(mode(Format::Json)), (String::new(), words.to_owned()));
    assert_eq!(said(mode(Format::Quiet)), (String::new(), String::new()));
    assert_eq!(said(strict), (String::new(), String::new()));
}
