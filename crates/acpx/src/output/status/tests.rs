use acpx_core::model::{
    AgentEnd, AgentMemory, Choices, Cost, Lifecycle, LineageReason, OfferedSetting, OfferedSettings,
    RecordSettings, Seq, Setting, SettingName, SettingValue, UnmetSetting,
};

use super::*;
use crate::output::tests::samples::{at, bare_record, formats, record, run, turn};

/// The word for people, for quiet and for programs. The host is alive if there are open turns.
fn words(record: &Record, open_turns: &[Turn], agent_lives: bool) -> String {
    let host_lives = !open_turns.is_empty();
    words_of(&Snapshot { open_turns, agent_lives, host_lives, ..idle(record) })
}

/// A session without an agent, a host or an open turn.
fn idle(record: &Record) -> Snapshot<'_> {
    Snapshot {
        record,
        open_turns: &[],
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives: false,
        missing_program: None,
        host_lives: false,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    }
}

fn words_of(snapshot: &Snapshot<'_>) -> String {
    let [text, quiet, json] = formats(|console| status(snapshot, console).unwrap());
    let line = text.lines().find_map(|line| line.strip_prefix("status: ")).unwrap();
    assert_eq!(format!("{line}\n"), quiet);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    format!("{line} {}", json["status"].as_str().unwrap())
}

#[test]
fn status_word_is_the_agents_state() {
    let waiting = || turn(3, TurnState::Queued);
    let sent = || turn(2, TurnState::Dispatched { at: at(45) });
    let with_run = |run| Record { agent_run: run, ..record() };
    let none = Record { lifecycle: Lifecycle::Open, ..bare_record() };
    let asked = with_run(Some(run(Some(AgentEnd::Asked.words()))));
    let cases = [
        ("a turn runs", words(&record(), &[sent()], true), "running alive"),
        ("a turn runs and one waits", words(&record(), &[sent(), waiting()], true), "running alive"),
        ("the agent has nothing to do", words(&record(), &[], true), "running alive"),
        ("a turn waits for an agent to start", words(&none, &[waiting()], false), "idle idle"),
        ("the agent was asked to go", words(&asked, &[], false), "idle idle"),
        ("no agent was ever seen", words(&none, &[], false), "idle idle"),
        ("a turn was sent and its agent is gone", words(&record(), &[sent()], false), "idle idle"),
        ("the agent is gone and nobody saw it", words(&record(), &[], false), "idle idle"),
        ("the agent was killed", words(&with_run(Some(run(Some("signal 9")))), &[], false), "idle idle"),
        ("the agent failed", words(&with_run(Some(run(Some("exit code 70")))), &[], false), "idle idle"),
    ];
    for (case, found, expected) in cases {
        assert_eq!(found, expected, "{case}");
    }
    let snapshot = |agent_lives| Snapshot {
        record: &none,
        open_turns: &[],
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives,
        missing_program: Some("./mine"),
        host_lives: false,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    assert_eq!([words_of(&snapshot(false)), words_of(&snapshot(true))], ["dead dead", "running alive"]);
    let [_, _, json] = formats(|console| status(&snapshot(false), console).unwrap());
    let summary = "the agent's program ./mine cannot be started; acpx doctor says more";
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["summary"], summary);
}

#[test]
fn ending_agent_has_a_pid_and_no_uptime() {
    let waiting = WaitReasonMeta {
        what: WaitReasonMeta::AGENT_END.to_owned(),
        method: None,
        questions: Vec::new(),
        since: at(50).to_string(),
        last_line_at: None,
    };
    let [open, queued] = [vec![], vec![turn(3, TurnState::Queued)]];
    let going = Record { agent_run: Some(run(None)), ..record() };
    let snapshot = |open_turns| Snapshot {
        record: &going,
        open_turns,
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives: true,
        missing_program: None,
        host_lives: true,
        waiting: Some(&waiting),
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    assert_eq!(words_of(&snapshot(&open)), "ending alive");
    let summaries = [
        (&open, "the agent is being ended; the next prompt starts another"),
        (&queued, "the agent is being ended; what waits goes to another"),
    ];
    for (turns, summary) in summaries {
        let [text, _, json] = formats(|console| status(&snapshot(turns), console).unwrap());
        assert!(
            text.contains("\nuptime: -\n") && text.contains("waitingFor: the end of the agent's process,")
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let pid = going.agent_run.as_ref().unwrap().process.pid;
        assert_eq!((&json["ending"], &json["pid"]), (&true.into(), &pid.into()), "{json}");
        assert_eq!((json.get("uptime"), &json["summary"]), (None, &summary.into()), "{json}");
    }
}

#[test]
fn turns_of_a_dead_host_are_queued_not_running() {
    let turns = [turn(2, TurnState::Dispatched { at: at(45) }), turn(3, TurnState::Queued)];
    let killed = Record { agent_run: Some(run(None)), ..record() };
    let left = |host_lives| Snapshot {
        record: &killed,
        open_turns: &turns,
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives: false,
        missing_program: None,
        host_lives,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    assert_eq!([words_of(&left(false)), words_of(&left(true))], ["idle idle", "idle idle"]);
    let [text, _, json] = formats(|console| status(&left(false), console).unwrap());
    assert!(text.contains("queued: 1, waiting since ") && !text.contains("turn: "), "{text}");
    let line = "interrupted: 2 (q2), accepted at 2023-11-14T22:14:02.000Z; it is not sent again by itself\n";
    assert!(text.contains(line), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["queued"].as_u64(), json.get("turn")), (Some(1), None));
    let interrupted = serde_json::json!({"number": 2, "requestId": "q2", "acceptedAt": at(42)});
    assert_eq!(json["interruptedTurn"], interrupted);
    let summary =
        "the turn that ran was interrupted; the next prompt restores the session and runs what waits first";
    assert_eq!(json["summary"].as_str(), Some(summary));
}

#[test]
fn status_warns_of_memory_that_is_not_restorable() {
    let ended = Record { agent_run: Some(run(Some(AgentEnd::Asked.words()))), ..record() };
    let told = |record: &Record, agent_lives| {
        let snapshot = Snapshot {
            record,
            open_turns: &[],
            last_turn: None,
            forgets: true,
            usage: None,
            agent_lives,
            missing_program: None,
            host_lives: agent_lives,
            waiting: None,
            now: at(60),
            questions: &[],
            transcript: TranscriptView::default(),
        };
        let [text, _, json] = formats(|console| status(&snapshot, console).unwrap());
        let memory = text.lines().find(|line| line.starts_with("memory: ")).unwrap().to_owned();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        (memory, json["summary"].as_str().unwrap().to_owned(), json["restorable"].clone())
    };
    let cannot = "memory: the agent can neither load nor resume sessions: ";
    let (live, lost) = (
        "what it remembers of this one goes with its process",
        "the next prompt begins a fresh one; --carry-history tells it what was said",
    );
    let begins =
        "no agent runs; the next prompt begins a fresh session, since the agent can restore none".to_owned();
    let no = serde_json::Value::Bool(false);
    let ready = "the agent is ready".to_owned();
    assert_eq!(told(&record(), true), (format!("{cannot}{live}"), ready, no.clone()));
    assert_eq!(told(&ended, false), (format!("{cannot}{lost}"), begins, no));
}

#[test]
fn status_shows_incomplete_agent_memory() {
    let told = |memory, forgets| {
        let record = Record { memory, ..record() };
        let snapshot = Snapshot {
            record: &record,
            open_turns: &[],
            last_turn: None,
            forgets,
            usage: None,
            agent_lives: true,
            missing_program: None,
            host_lives: true,
            waiting: None,
            now: at(60),
            questions: &[],
            transcript: TranscriptView::default(),
        };
        let [text, _, json] = formats(|console| status(&snapshot, console).unwrap());
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("memory: ")).collect();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        (lines.join("|"), json.get("memory").map(ToString::to_string).unwrap_or_default())
    };
    let reason = Some(LineageReason::AgentLost);
    let cases = [
        (AgentMemory::Whole, "", ""),
        (
            AgentMemory::Since { from: Seq(7), reason },
            "the agent began afresh (agent-lost) and knows nothing that came before event 7",
            r#"{"how":"fresh","from":7,"reason":"agent-lost"}"#,
        ),
        (
            AgentMemory::Compacted,
            "the agent made its memory shorter: it has a summary of what came before",
            r#"{"how":"compacted"}"#,
        ),
        (AgentMemory::Part, "the agent remembers only part of the conversation", r#"{"how":"shorter"}"#),
        (
            AgentMemory::Another,
            "the agent remembers another conversation than the stored one",
            r#"{"how":"different"}"#,
        ),
    ];
    for (memory, words, json) in cases {
        let (said, object) = told(memory, false);
        let object: serde_json::Value = serde_json::from_str(&object).unwrap_or_default();
        assert_eq!((said.as_str(), object), (words, serde_json::from_str(json).unwrap_or_default()));
    }
    let both = "the agent made its memory shorter: it has a summary of what came before; \
         the agent can neither load nor resume sessions: what it remembers of this one goes with its process";
    assert_eq!(told(AgentMemory::Compacted, true).0, both);
}

#[test]
fn status_shows_an_interrupted_turn_until_the_next_is_sent() {
    let ended = Record { agent_run: Some(run(Some(AgentEnd::Asked.words()))), ..record() };
    let interrupted = turn(2, TurnState::Interrupted { at: at(50) });
    let snapshot = Snapshot {
        record: &ended,
        open_turns: &[],
        last_turn: Some(&interrupted),
        forgets: false,
        usage: None,
        agent_lives: false,
        missing_program: None,
        host_lives: false,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    let [text, quiet, json] = formats(|console| status(&snapshot, console).unwrap());
    let line = "interrupted: 2 (q2), accepted at 2023-11-14T22:14:02.000Z; it is not sent again by itself\n";
    assert!(text.contains(line) && quiet == "idle\n", "{text}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let told = (&json["summary"], &json["interruptedTurn"]["number"]);
    let summary = "the turn that ran was interrupted; the next prompt restores the session";
    assert_eq!(told, (&serde_json::json!(summary), &serde_json::json!(2)));
    let waiting = [turn(3, TurnState::Queued)];
    let [text, ..] =
        formats(|console| status(&Snapshot { open_turns: &waiting, ..snapshot.clone() }, console).unwrap());
    assert!(text.contains(line) && text.contains("\nlastPromptTime: 2023-11-14T22:14:03.000Z\n"), "{text}");
}

#[test]
fn a_snapshot_is_whole_and_has_no_null() {
    let additional_directories = vec![AbsolutePath::new("/more").unwrap()];
    let record = Record { additional_directories, ..record() };
    let turns = [
        turn(2, TurnState::Dispatched { at: at(45) }),
        turn(3, TurnState::Queued),
        turn(4, TurnState::Queued),
    ];
    let waiting = WaitReasonMeta {
        what: "answer".to_owned(),
        method: Some("session/prompt".to_owned()),
        questions: Vec::new(),
        since: at(45).to_string(),
        last_line_at: Some(at(50).to_string()),
    };
    let snapshot = Snapshot {
        record: &record,
        open_turns: &turns,
        last_turn: turns.first(),
        forgets: false,
        usage: Some(SessionUsage {
            used: 53_000,
            size: 200_000,
            cost: Some(Cost { amount: 1.into(), currency: "USD".to_owned() }),
        }),
        agent_lives: true,
        missing_program: None,
        host_lives: true,
        waiting: Some(&waiting),
        now: at(50 + 3723),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    let [text, _, json] = formats(|console| status(&snapshot, console).unwrap());
    let expected = "\
session: r1
acpxSessionId: s2
agent: npx -y 'an agent'
pid: 4242
status: running
model: -
mode: -
uptime: 01:02:03
lastPromptTime: 2023-11-14T22:14:04.000Z
context: 53000 of 200000 tokens, 1 USD
turn: 2 (q2) since 2023-11-14T22:14:05.000Z
queued: 2, waiting since 2023-11-14T22:14:03.000Z
waitingFor: the agent's answer to session/prompt, since 2023-11-14T22:14:05.000Z; its last line came 3723 s ago
cwd: /w
summary: the agent works on a turn
";
    assert_eq!(text, expected);
    let expected = concat!(
        r#"{"action":"status_snapshot","status":"alive","summary":"the agent works on a turn","acpxRecordId":"r1","#,
        r#""acpxSessionId":"s2","agentName":"claude","agentCommand":"npx -y 'an agent'","name":"api","cwd":"/w","additionalDirectories":["/more"],"pid":4242,"uptime":"01:02:03","#,
        r#""lastPromptTime":"2023-11-14T22:14:04.000Z","usage":{"used":53000,"size":200000,"cost":{"amount":1,"currency":"USD"}},"turn":{"number":2,"requestId":"q2","since":"2023-11-14T22:14:05.000Z"},"#,
        r#""queued":2,"waitingSince":"2023-11-14T22:14:03.000Z","#,
        r#""waitingFor":{"what":"answer","method":"session/prompt","since":"2023-11-14T22:14:05.000Z","lastLineAt":"2023-11-14T22:14:10.000Z"}}"#,
        "\n"
    );
    assert_eq!(json, expected);
}

#[test]
fn missing_status_values_are_hyphens_in_text_and_absent_in_json() {
    let gone = Record { agent_run: Some(run(Some("signal 9"))), ..bare_record() };
    let snapshot = Snapshot {
        record: &gone,
        open_turns: &[],
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives: false,
        missing_program: None,
        host_lives: false,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    let [text, _, json] = formats(|console| status(&snapshot, console).unwrap());
    let expected = "\
session: r1
acpxSessionId: s1
agent: ./mine --acp
pid: -
status: idle
model: -
mode: -
uptime: -
lastPromptTime: -
lastExit: signal 9
lastExitAt: 2023-11-14T22:14:15.000Z
cwd: /w
summary: the agent ended unexpectedly; the next prompt restores the session
";
    assert_eq!(text, expected);
    let expected = concat!(
        r#"{"action":"status_snapshot","status":"idle","summary":"the agent ended unexpectedly; the next prompt restores the session","#,
        r#""acpxRecordId":"r1","acpxSessionId":"s1","agentCommand":"./mine --acp","cwd":"/w","queued":0,"#,
        r#""lastExit":"signal 9","lastExitAt":"2023-11-14T22:14:15.000Z"}"#,
        "\n"
    );
    assert_eq!(json, expected);
}

#[test]
fn that_there_is_no_session_is_an_answer() {
    let agent = record().agent;
    assert_eq!(
        formats(|console| no_session(&agent, None, console).unwrap()),
        [
            "session: -\nagent: npx -y 'an agent'\npid: -\nstatus: no-session\nmodel: -\nmode: -\nuptime: -\nlastPromptTime: -\n".to_owned(),
            "no-session\n".to_owned(),
            "{\"action\":\"status_snapshot\",\"status\":\"no-session\",\"summary\":\"no session is open here\",\"agentName\":\"claude\",\"agentCommand\":\"npx -y 'an agent'\"}\n".to_owned(),
        ]
    );
}

#[test]
fn missing_session_is_a_sentence_with_the_next_command_on_a_terminal() {
    let agent = record().agent;
    let shown = |name: Option<&SessionName>| {
        let mut bytes = Vec::new();
        let mode = crate::output::OutputMode { is_terminal: true, ..Default::default() };
        no_session(&agent, name, &mut Console::over(mode, &mut bytes, io::sink())).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(shown(None), "No session of claude is open here. Start one: acpx claude 'your prompt'\n");
    let name = SessionName::new("api").unwrap();
    assert_eq!(shown(Some(&name)), "No session of claude named api is open here.\n");
}

#[test]
fn every_wait_reason_has_words_even_an_unknown_one() {
    let words = |what: &str| {
        let questions =
            if what == "permission" { vec!["7".to_owned(), "\"a\"".to_owned()] } else { Vec::new() };
        let (method, since) = (None, at(0).to_string());
        let waiting = WaitReasonMeta { what: what.to_owned(), method, questions, since, last_line_at: None };
        waiting_words(&waiting, at(60)).replace(", since 2023-11-14T22:13:20.000Z", "")
    };
    let whats = [
        "agent-start",
        "load-time",
        "turn-end",
        "agent-away",
        "agent-read",
        "permission",
        "agent-end",
        "client",
    ];
    let said: Vec<_> = whats.into_iter().chain(["host", "rain"]).map(words).collect();
    let expected = [
        "the start of the agent",
        "the time from which the agent loads sessions",
        "the agent, which has the prompt",
        "the connection to the agent's machine, which is lost and being restored",
        "the agent, which does not read what it was sent",
        "an answer to the agent's permission request (7, \"a\")",
        "the end of the agent's process",
        "a client: no host runs, and the next prompt starts one",
        "the host, which does not answer",
        "rain",
    ];
    assert_eq!(said, expected);
}

#[test]
fn imported_settings_are_in_the_status_before_the_agent_has_shown_any() {
    let id = |text: &str| SettingValue::Id(text.into());
    let wish = |name, value| Setting { name, value };
    let chosen = vec![
        wish(SettingName::Mode, id("plan")),
        wish(SettingName::Option("effort".into()), id("high")),
        wish(SettingName::Option("model".into()), id("m1")),
    ];
    let settings = RecordSettings { chosen, ..RecordSettings::default() };
    let said = |settings: RecordSettings| {
        let record = Record { settings, ..bare_record() };
        let [text, _, json] = formats(|console| status(&idle(&record), console).unwrap());
        (text, json)
    };
    let (text, json) = said(settings.clone());
    assert!(text.contains("status: idle\nmodel: m1\nmode: plan\noption effort: high\nuptime: "), "{text}");
    let members = r#""model":"m1","mode":"plan","options":{"effort":"high","model":"m1"},"queued":0"#;
    assert!(json.contains(members), "{json}");
    // A setting that the agent refused is shown only as requested.
    let unmet = vec![UnmetSetting { name: SettingName::Mode, reason: "it is gone".into() }];
    let (text, _) = said(RecordSettings { unmet, ..settings });
    assert!(text.contains("mode: -\noption effort: high\nwished mode: plan (it is gone)\n"), "{text}");
}

#[test]
fn status_shows_settings_and_requested_values_that_differ() {
    let id = |text: &str| SettingValue::Id(text.into());
    let option = |id: &str| SettingName::Option(id.into());
    let shown = |name, category: Option<&str>, value, choices| OfferedSetting {
        name,
        category: category.map(Into::into),
        value: Some(value),
        choices,
    };
    let settings = RecordSettings {
        chosen: vec![
            Setting { name: SettingName::Mode, value: id("plan") },
            Setting { name: option("web"), value: SettingValue::Flag(true) },
            Setting { name: option("gone"), value: id("x") },
        ],
        reported: OfferedSettings(vec![
            shown(SettingName::Mode, None, id("ask"), Choices::Unknown),
            shown(option("engine"), Some("model"), id("m1"), Choices::Of(vec!["m1".into(), "m2".into()])),
            shown(option("web"), None, SettingValue::Flag(true), Choices::Unknown),
        ]),
        unmet: vec![UnmetSetting { name: option("gone"), reason: "it is gone".into() }],
        ..RecordSettings::default()
    };
    let record = Record { settings, ..record() };
    let snapshot = Snapshot {
        record: &record,
        open_turns: &[],
        last_turn: None,
        forgets: false,
        usage: None,
        agent_lives: true,
        missing_program: None,
        host_lives: false,
        waiting: None,
        now: at(60),
        questions: &[],
        transcript: TranscriptView::default(),
    };
    let [text, _, json] = formats(|console| status(&snapshot, console).unwrap());
    let lines =
        "model: m1\nmode: ask\noption web: true\nwished mode: plan\nwished option gone: x (it is gone)\n";
    assert!(text.contains(&format!("status: running\n{lines}uptime: ")), "{text}");
    let members = r#""model":"m1","availableModels":["m1","m2"],"mode":"ask","options":{"engine":"m1","web":true},"openWishes":[{"value":"plan"},{"option":"gone","value":"x","reason":"it is gone"}],"uptime""#;
    assert!(json.contains(members), "{json}");
}
