use acpx_core::index::MessageRole;

use super::super::OutputMode;
use super::super::tests::samples::at;
use super::*;

fn hit(origin: SessionOrigin, session: &str) -> SearchHit {
    let excerpt = "…the parser\tfails on 漢字 with a parse error in the last line".to_owned();
    let start = excerpt.find("parse error").unwrap();
    SearchHit {
        origin,
        agent: "claude".to_owned(),
        session: session.to_owned(),
        parent: None,
        path: "/t.jsonl".into(),
        directory: Some("/home/ada/src/shop".to_owned()),
        title: Some("Mend the\u{1b}[2J roof".to_owned()),
        event: 12,
        message: Some("m1".to_owned()),
        at: Some(at(60)),
        role: MessageRole::User,
        tool: None,
        matches: vec![(start, start + "parse".len()), (start + "parse ".len(), start + "parse error".len())],
        excerpt,
    }
}

fn found() -> Vec<FoundMessage> {
    let tool = SearchHit {
        role: MessageRole::Tool,
        tool: Some("execute Bash".to_owned()),
        directory: None,
        at: None,
        title: None,
        message: None,
        ..hit(SessionOrigin::Record, "019a5f3c-aaaa")
    };
    let message = |hit, short: &str| FoundMessage {
        hit,
        short_id: short.to_owned(),
        agent: "claude".to_owned(),
        agent_name: Some("claude".to_owned()),
    };
    vec![message(hit(SessionOrigin::Transcript, "3f2a9c1e-bbbb"), "3f2a9c1e"), message(tool, "019a5f3c")]
}

fn shown(width: usize, has_color: bool) -> String {
    let view = SearchView { home: Some(Path::new("/home/ada")), now: at(60 + 7300) };
    let mut bytes = Vec::new();
    let mut out = StyledWriter::new(&mut bytes, Format::Text, true, has_color);
    for found in &found() {
        block(found, view, width, &mut out).unwrap();
    }
    drop(out);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn search_hit_has_session_excerpt_and_command_on_any_terminal() {
    insta::assert_snapshot!(shown(80, false), @r"
    3f2a9c1e  claude  ~/src/shop  2 h ago  Mend the[2J roof
      user: …the parser fails on 漢字 with a parse error in the last line
      acpx claude sessions replay 3f2a9c1e --from seq:12
    019a5f3c  claude
      tool execute Bash: …the parser fails on 漢字 with a parse error in the last
      line
      acpx claude sessions replay 019a5f3c --from seq:12
    ");
    insta::assert_snapshot!(shown(30, false), @r"
    3f2a9c1e  claude  ~/src/shop
      user: …the parser fails on
      漢字 with a parse error in
      the last line
      acpx claude sessions replay 3f2a9c1e --from seq:12
    019a5f3c  claude
      tool execute Bash: …the
      parser fails on 漢字 with a
      parse error in the last line
      acpx claude sessions replay 019a5f3c --from seq:12
    ");
}

#[test]
fn search_matches_are_coloured_and_control_characters_removed() {
    let coloured = shown(80, true);
    assert!(coloured.contains("\u{1b}[33mparse\u{1b}[0m \u{1b}[33merror\u{1b}[0m"), "{coloured:?}");
    assert!(!coloured.contains("\u{1b}[2J"), "{coloured:?}");
}

fn written(mode: OutputMode, progress: &IndexProgress) -> (String, String) {
    let view = SearchView { home: None, now: at(60) };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console::over(mode, &mut out, &mut err);
    search_hits(&found(), progress, view, &mut console).unwrap();
    drop(console);
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn search_in_a_pipe_is_tabs_json_or_ids() {
    let progress = IndexProgress { missing: 12, missing_bytes: 80 << 20, ..IndexProgress::default() };
    let (out, err) = written(OutputMode::default(), &progress);
    insta::assert_snapshot!(out.replace('\t', "|"), @r"
    transcript|3f2a9c1e-bbbb|claude|/home/ada/src/shop|2023-11-14T22:14:20.000Z|user|seq:12|Mend the[2J roof|…the parser fails on 漢字 with a parse error in the last line
    record|019a5f3c-aaaa|claude|-|-|tool|seq:12|-|…the parser fails on 漢字 with a parse error in the last line
    ");
    assert_eq!(
        err,
        "[acpx] 12 conversations (80.0 MB) are not read yet; to read all of it now: acpx index update\n"
    );
    let quiet = written(OutputMode { format: Format::Quiet, ..OutputMode::default() }, &progress).0;
    assert_eq!(quiet, "3f2a9c1e-bbbb\n019a5f3c-aaaa\n");
    let busy = IndexProgress { is_busy: true, ..IndexProgress::default() };
    let (json, _) = written(OutputMode { format: Format::Json, ..OutputMode::default() }, &busy);
    insta::assert_snapshot!(json, @r#"{"action":"search","hits":[{"origin":"transcript","nativeSessionId":"3f2a9c1e-bbbb","agentName":"claude","cwd":"/home/ada/src/shop","title":"Mend the\u001b[2J roof","at":"2023-11-14T22:14:20.000Z","role":"user","event":"seq:12","messageId":"m1","excerpt":"…the parser\tfails on 漢字 with a parse error in the last line","matches":[{"start":37,"end":42},{"start":43,"end":48}],"command":"acpx claude sessions replay 3f2a9c1e-bbbb --from seq:12"},{"origin":"record","acpxRecordId":"019a5f3c-aaaa","agentName":"claude","role":"tool","tool":"execute Bash","event":"seq:12","excerpt":"…the parser\tfails on 漢字 with a parse error in the last line","matches":[{"start":37,"end":42},{"start":43,"end":48}],"command":"acpx claude sessions replay 019a5f3c-aaaa --from seq:12"}],"updating":true}"#);
}
