//! The rights of each kind of client as a table, and restricted `_meta` in every spelling.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::acp::agent::FileAccess;
use crate::model::{AcpSessionId, AgentMemory, Lifecycle, Lineage, RecordId, RecordSettings, Timestamp};
use crate::protocol::meta::{AccessScope, AgentMeta, ClientMeta, PageMeta, ShellMeta};

/// The kinds of clients: local, started by an agent, remote, remote with everything allowed, remote and confined.
fn clients() -> [ClientAccess; 5] {
    let who = || "user".to_owned();
    let remote = |client: RemoteClientMeta| {
        let access = ClientAccess::new(false);
        access.declare_remote(client).unwrap();
        access
    };
    let allowed = RemoteClientMeta {
        who: who(),
        approve_all: true,
        stdio_servers: true,
        extra_params: true,
        ..RemoteClientMeta::default()
    };
    [
        ClientAccess::new(false),
        ClientAccess::new(true),
        remote(RemoteClientMeta { who: who(), ..RemoteClientMeta::default() }),
        remote(allowed.clone()),
        remote(RemoteClientMeta { confined: true, ..allowed }),
    ]
}

fn agent(program: &str) -> AgentSpec {
    AgentSpec::new(program, [""; 0])
}

fn record() -> Record {
    let path = || AbsolutePath::new("/").unwrap();
    let now = || Timestamp::from_millis(0).unwrap();
    Record {
        id: RecordId::new("r").unwrap(),
        agent: agent("a"),
        cwd: path(),
        real_cwd: path(),
        additional_directories: vec![path()],
        scope: None,
        mcp_servers: Vec::new(),
        info: crate::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(AcpSessionId::new("s").unwrap(), None, now()),
        agent_run: None,
        settings: RecordSettings::default(),
        memory: AgentMemory::default(),
        restore_error: None,
        created_at: now(),
        updated_at: now(),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    }
}

/// The code or field of an error, or `allowed`.
fn outcome<T>(result: Result<T, CallError>) -> String {
    match result {
        Ok(_) => "allowed".to_owned(),
        Err(error) => {
            let data = error.to_rpc().data.map(|data| data.get().to_owned()).unwrap_or_default();
            let data: serde_json::Value = serde_json::from_str(&data).unwrap_or_default();
            let named = data.get("field").or_else(|| data.pointer("/acpx/code"));
            named.and_then(serde_json::Value::as_str).unwrap_or("?").to_owned()
        }
    }
}

/// Asserts what each kind of client gets, in the order of [`clients`].
fn assert_row(action: &str, right: impl Fn(&ClientAccess) -> String, expected: [&str; 5]) {
    assert_eq!(clients().each_ref().map(right), expected, "{action}");
}

#[test]
fn user_actions_are_refused_to_confined_clients_except_on_their_own_records() {
    let users = ["allowed", "NOT_ALLOWED", "allowed", "allowed", "NOT_ALLOWED"];
    for action in [
        UserAction::AnswerRequest,
        UserAction::ApproveAll,
        UserAction::ChangeQueue,
        UserAction::ChangeSettings,
        UserAction::ImportDirectory,
        UserAction::MoveSession,
        UserAction::RenameSession,
        UserAction::SeeQueue,
        UserAction::SetToolRules,
        UserAction::StopHost,
        UserAction::CancelTurns,
        UserAction::CloseSession,
        UserAction::DeleteSession,
        UserAction::ReplaceSession,
        UserAction::ResetSession,
    ] {
        let name = format!("{action:?}");
        assert_row(&name, |client| outcome(client.check(action)), users);
        assert_row(&name, |client| outcome(client.check_record(action, false)), users);
        assert_row(&name, |client| outcome(client.check_record(action, true)), ["allowed"; 5]);
    }
    let setting =
        |option: Option<&str>| [SettingMeta { option: option.map(str::to_owned), value: String::new() }];
    let initial =
        |option| move |client: &ClientAccess| outcome(client.check_initial_settings(&setting(option)));
    assert_row("initial mode", initial(None), users);
    assert_row("initial option", initial(Some("effort")), users);
    assert_row("initial model", initial(Some("model")), ["allowed"; 5]);
}

#[test]
fn methods_servers_and_params_are_restricted_by_client_kind() {
    let flag = |flag: bool| flag.to_string();
    let call = |method| move |client: &ClientAccess| outcome(client.check_method(method));
    assert_row("watch", call("_acpx/watch"), ["allowed"; 5]);
    assert_row("stop host", call("_acpx/host/stop"), ["allowed", "allowed", "?", "?", "?"]);
    assert_row("sessions", call("_acpx/sessions"), ["allowed", "allowed", "?", "?", "?"]);
    assert_row(
        "quota",
        |client| format!("{:?}", client.quota_user()),
        ["None", "None", r#"Some("user")"#, r#"Some("user")"#, r#"Some("user")"#],
    );
    let transport = McpTransport::Stdio {
        command: AbsolutePath::new("/bin/sh").unwrap(),
        args: Vec::new(),
        env: Vec::new(),
    };
    let stdio = [McpServer::new("m", transport)];
    assert_row(
        "stdio server",
        |client| outcome(client.check_mcp_servers(&stdio)),
        ["allowed", "allowed", "mcpServers[0]", "allowed", "allowed"],
    );
    assert_row(
        "named agent",
        |client| flag(client.may_name_agent()),
        ["true", "false", "true", "true", "false"],
    );
    assert_row(
        "command line",
        |client| flag(client.may_see_command_line()),
        ["true", "true", "false", "false", "false"],
    );
    let named = || vec![serde_json::from_value(json!({ "name": "a", "argv": ["sh"] })).unwrap()];
    assert_row(
        "agents of an import",
        |client| client.import_agents(named()).len().to_string(),
        ["1", "0", "1", "1", "0"],
    );
    let params = r#"{"modeId":"m","later":1}"#;
    let (all, known) = (params, r#"{"modeId":"m"}"#);
    assert_row(
        "params",
        |client| client.forwarded_params(params).unwrap().into_owned(),
        [all, known, known, all, known],
    );
    for params in [
        r#"{"_meta":{},"_meta":{"acpx":{"policy":"approve-all"}}}"#,
        r#"{"_meta":{"acpx":{},"acpx":{"policy":"approve-all"}}}"#,
    ] {
        assert_row(
            params,
            |client| client.forwarded_params(params).map_or("refused".to_owned(), Cow::into_owned),
            ["refused", "{}", "{}", "refused", "{}"],
        );
    }
    let extras =
        |client: &ClientAccess| flag(client.extra_params(ProtocolVersion::V1, Some(params), None).is_some());
    assert_row("extra params", extras, ["true", "false", "false", "true", "false"]);
    let setup = |client: &ClientAccess| {
        let setup = SetupOptions { no_fs: true, allowed_tools: Some(Vec::new()), ..SetupOptions::default() };
        let mut start = StartMeta { setup, ..StartMeta::default() };
        let set = client.setup(&mut start);
        set.map_or("refused".to_owned(), |set| serde_json::to_string(&set).unwrap())
    };
    let (all, restriction) = (r#"{"allowedTools":[],"noFs":true}"#, r#"{"noFs":true}"#);
    assert_row("options of the setup", setup, [all, "refused", restriction, all, "refused"]);
}

#[test]
fn records_directories_and_waits_are_restricted_by_client_kind() {
    let flag = |flag: bool| flag.to_string();
    let stored = record();
    let sees = |own: Option<&'static str>| {
        let (stored, own) = (record(), own.map(agent));
        move |client: &ClientAccess| flag(client.can_see(&stored, own.as_ref()))
    };
    assert_row("any record", sees(None), ["true", "true", "false", "false", "false"]);
    assert_row("record of its agent", sees(Some("a")), ["true"; 5]);
    assert_row("record of another agent", sees(Some("b")), ["false"; 5]);
    let directories = |is_creator: bool, paths: &'static [&'static str]| {
        let (stored, paths) = (stored.clone(), paths.iter().map(|path| AbsolutePath::new(*path).unwrap()));
        let wanted: Vec<_> = paths.collect();
        move |client: &ClientAccess| outcome(client.directories(&stored, is_creator, Some(wanted.clone())))
    };
    let field = "additionalDirectories";
    assert_row(
        "own directories",
        directories(true, &["/b"]),
        ["allowed", field, "allowed", "allowed", field],
    );
    assert_row("others' directories", directories(false, &["/b"]), ["allowed", field, field, field, field]);
    assert_row("same directories", directories(false, &["/"]), ["allowed"; 5]);
    assert_row(
        "directories of an existing session",
        |client| flag(client.may_set_directories(false)),
        ["true", "false", "false", "false", "false"],
    );
    assert_row(
        "confined record",
        |client| flag(client.creates_confined_records()),
        ["false", "true", "false", "false", "true"],
    );
    let limited = agent("a").with_start_timeout(Duration::from_secs(5));
    let wait = |seconds: u64| {
        let start = StartMeta { start_wait_ms: Some(seconds * 1000), ..StartMeta::default() };
        let limited = limited.clone();
        move |client: &ClientAccess| format!("{:?}", client.start_wait(&start, &limited).unwrap())
    };
    assert_row("long start wait", wait(9), ["9s", "9s", "5s", "5s", "5s"]);
    assert_row("short start wait", wait(3), ["3s"; 5]);
}

#[test]
fn approvals_and_requests_are_restricted_by_client_kind() {
    let flag = |flag: bool| flag.to_string();
    let prompt = PromptMeta::default();
    assert_row(
        "interactive",
        |client| flag(client.is_interactive(&prompt)),
        ["true", "false", "true", "true", "false"],
    );
    let start = StartMeta::default();
    assert_row(
        "responder",
        |client| flag(client.is_responder(&start)),
        ["true", "false", "true", "true", "false"],
    );
    assert_row(
        "joined turn",
        |client| flag(client.may_answer_joined_turn()),
        ["true", "false", "true", "true", "false"],
    );
    let fs = FileAccess { read: true, write: true };
    let facts = ClientFacts { fs, terminal: true, ..ClientFacts::default() };
    assert_row(
        "services",
        |client| flag(client.services(&facts).terminal),
        ["true", "false", "false", "false", "false"],
    );
    let policy = |policy: &str| {
        let meta = json!({ "acpx": { "policy": policy } }).to_string();
        move |client: &ClientAccess| {
            let prompt: PromptMeta = client.authorized_meta(Some(&meta)).unwrap();
            let terms = client.turn_terms(&prompt.terms, &TurnTermsMeta::default(), &SpendingLimits::default);
            terms.map_or_else(|error| outcome::<()>(Err(error)), |terms| format!("{:?}", terms.policy))
        }
    };
    let (all, deny, reads) = ("Some(ApproveAll)", "Some(DenyAll)", "Some(ApproveReads)");
    assert_row("approve-all", policy("approve-all"), [all, "NOT_ALLOWED", "None", all, "NOT_ALLOWED"]);
    assert_row("approve-reads", policy("approve-reads"), [reads; 5]);
    assert_row("deny-all", policy("deny-all"), [deny; 5]);
    let limits = |tokens| SpendingLimits {
        turn: crate::model::Budget { cost: None, tokens },
        ..SpendingLimits::default()
    };
    let tokens = |own: Option<u64>| {
        move |client: &ClientAccess| {
            let meta = json!({ "acpx": { "maxUsage": limits(own) } }).to_string();
            let prompt: PromptMeta = client.authorized_meta(Some(&meta)).unwrap();
            let terms = client.turn_terms(&prompt.terms, &TurnTermsMeta::default(), &|| limits(Some(5)));
            format!("{:?}", terms.unwrap().max_usage.turn.tokens)
        }
    };
    assert_row("higher limit", tokens(Some(9)), ["Some(9)", "Some(5)", "Some(9)", "Some(9)", "Some(5)"]);
    assert_row("lower limit", tokens(Some(3)), ["Some(3)"; 5]);
    assert_row("no limit", tokens(None), ["None", "Some(5)", "None", "None", "Some(5)"]);
}

/// Remote clients with narrower rights: the page with each scope, and a client of `acpx serve` that only reads.
fn scoped_clients() -> [ClientAccess; 4] {
    let page = || {
        let agents = vec![serde_json::from_value(json!({ "name": "a", "argv": ["listed"] })).unwrap()];
        Some(PageMeta { agents, ..PageMeta::default() })
    };
    let of = |scope: AccessScope, page: Option<PageMeta>| {
        let access = ClientAccess::new(false);
        access.declare_remote(RemoteClientMeta { scope, page, ..RemoteClientMeta::default() }).unwrap();
        access
    };
    [
        of(AccessScope::Full, page()),
        of(AccessScope::Answer, page()),
        of(AccessScope::Read, page()),
        of(AccessScope::Read, None),
    ]
}

/// Asserts what each of the [`scoped_clients`] gets.
fn assert_scoped(action: &str, right: impl Fn(&ClientAccess) -> String, expected: [&str; 4]) {
    assert_eq!(scoped_clients().each_ref().map(right), expected, "{action}");
}

#[test]
fn scope_of_a_remote_client_decides_which_methods_it_may_call() {
    let (yes, no, unknown) = ("allowed", "NOT_ALLOWED", "?");
    let cases = [
        ("_acpx/watch", [yes, yes, yes, yes]),
        ("_acpx/waiting", [yes, yes, yes, yes]),
        ("_acpx/detach", [yes, yes, yes, yes]),
        ("_acpx/sessions", [yes, yes, yes, unknown]),
        ("_acpx/history", [yes, yes, yes, unknown]),
        ("_acpx/agents", [yes, yes, yes, unknown]),
        ("_acpx/pending", [yes, yes, yes, unknown]),
        ("_acpx/queue", [yes, yes, yes, unknown]),
        ("_acpx/answer", [yes, yes, no, unknown]),
        ("_acpx/queue/drop", [yes, no, no, unknown]),
        ("_acpx/rename", [yes, no, no, unknown]),
        ("_acpx/cancel", [yes, no, no, no]),
        ("_acpx/close", [yes, no, no, no]),
        ("_acpx/move", [unknown; 4]),
        ("_acpx/forget", [unknown; 4]),
        ("_acpx/prune", [unknown; 4]),
        ("_acpx/import", [unknown; 4]),
        ("_acpx/host/stop", [unknown; 4]),
        ("_acpx/host/status", [unknown; 4]),
    ];
    for (method, expected) in cases {
        assert_scoped(method, |client| outcome(client.check_method(method)), expected);
    }
    assert_scoped("change", |client| outcome(client.check_scope(AccessScope::Full)), [yes, no, no, no]);
    let start = StartMeta::default();
    let is_responder = |client: &ClientAccess| client.is_responder(&start).to_string();
    assert_scoped("responder", is_responder, ["true", "true", "false", "false"]);
    assert_scoped(
        "all records",
        |client| client.can_see_all(None).to_string(),
        ["true", "true", "true", "false"],
    );
}

#[test]
fn page_names_only_configured_agents_servers_and_directories() {
    let named = |name: &'static str| {
        move |client: &ClientAccess| {
            let meta = json!({ "acpx": { "agent": { "name": name, "argv": ["sh"] } } }).to_string();
            let new: NewMeta = client.authorized_meta(Some(&meta)).unwrap();
            new.agent.map_or_else(String::new, |agent| agent.argv.join(" "))
        }
    };
    assert_scoped("listed agent", named("a"), ["listed", "", "", ""]);
    assert_scoped("other agent", named("b"), ["", "", "", ""]);
    let server = McpTransport::Http { url: "https://m.example".to_owned(), headers: Vec::new() };
    let servers = [McpServer::new("m", server)];
    let checked = |client: &ClientAccess| outcome(client.check_mcp_servers(&servers));
    assert_scoped("servers", checked, ["mcpServers", "mcpServers", "mcpServers", "allowed"]);
    let restored = |client: &ClientAccess| client.restored_servers(Some(Vec::new())).is_some().to_string();
    assert_scoped("restored servers", restored, ["false"; 4]);
    assert_row("restored servers", restored, ["true"; 5]);
    let field = "additionalDirectories";
    let directories = [AbsolutePath::new("/b").unwrap()];
    let checked = |client: &ClientAccess| outcome(client.check_new_directories(&directories));
    assert_scoped("new directories", checked, [field, field, field, "allowed"]);
    assert_scoped("set directories", |client| client.may_set_directories(true).to_string(), ["false"; 4]);
}

#[test]
fn restore_by_a_reading_client_starts_no_agent_and_changes_nothing() {
    let meta = json!({ "acpx": {
        "fallback": "always", "returnTo": "s", "idleMs": 5, "settings": [{ "value": "m" }],
        "replay": { "turns": 3 }, "replayFrom": { "type": "start" }, "withSeq": true, "carryHistory": true,
    }});
    let (meta, mut scoped) = (meta.to_string(), scoped_clients().into_iter());
    let full: RestoreMeta = scoped.next().unwrap().authorized_meta(Some(&meta)).unwrap();
    assert_eq!((full.later, full.same_directories, full.start.settings.len()), (false, true, 1));
    for client in scoped {
        let read: RestoreMeta = client.authorized_meta(Some(&meta)).unwrap();
        let expected = RestoreMeta {
            later: true,
            same_directories: true,
            replay: crate::protocol::meta::ReplayMeta { turns: Some(3), tool_output_bytes: None },
            replay_from: Some(json!({ "type": "start" })),
            start: StartMeta { with_seq: true, ..StartMeta::default() },
            ..RestoreMeta::default()
        };
        assert_eq!(read, expected);
    }
}

#[test]
fn a_remote_client_is_declared_once() {
    let access = ClientAccess::new(false);
    let declared = |who: &str| {
        let client = RemoteClientMeta { who: who.to_owned(), ..RemoteClientMeta::default() };
        access.declare_remote(client).is_some()
    };
    assert_eq!((declared("first"), declared("second"), access.quota_user()), (true, false, Some("first")));
}

fn idle(millis: u64) -> LaunchMeta {
    LaunchMeta { idle_ms: Some(millis), ..LaunchMeta::default() }
}

/// The `_meta` of a remote client after restriction.
fn restricted<T: RestrictedMeta>(meta: &str) -> Option<T> {
    let mut meta: T = read_meta(Some(meta)).ok()?;
    meta.restrict(&RemoteClientMeta {
        client: ClientMeta { launch: idle(60), ..ClientMeta::default() },
        ..RemoteClientMeta::default()
    });
    Some(meta)
}

/// Whether no forbidden field is left.
fn is_harmless(meta: &str) -> bool {
    let is_plain = |start: &StartMeta| {
        start.launch.environment.is_empty()
            && start.launch.variables.is_empty()
            && start.mcp_source.is_none()
            && start.launch.idle_ms.is_none_or(|idle| (1..=60).contains(&idle))
    };
    restricted::<NewMeta>(meta).is_none_or(|new| {
        (&new.agent, &new.shell) == (&None::<AgentMeta>, &None::<ShellMeta>) && is_plain(&new.start)
    }) && restricted::<RestoreMeta>(meta)
        .is_none_or(|restore| restore.agent.is_none() && is_plain(&restore.start))
        && restricted::<PromptMeta>(meta)
            .is_none_or(|prompt| prompt.terms.policy != Some(PermissionMode::ApproveAll))
}

#[test]
fn meta_that_only_a_local_client_may_send_is_removed() {
    let meta = json!({ "acpx": {
        "agent": { "argv": ["sh"] }, "shell": { "name": "x" }, "environment": [["PATH", "/tmp"]],
        "variables": { "served": [["PATH", "/tmp"]] },
        "mcpSource": "/etc/passwd", "idleMs": 0, "withSeq": true, "withoutUpdates": true,
    }});
    let new: NewMeta = restricted(&meta.to_string()).unwrap();
    let start = StartMeta { launch: idle(60), with_seq: true, without_updates: true, ..StartMeta::default() };
    assert_eq!(new, NewMeta { start, ..NewMeta::default() });
    let policy = |policy: &str| {
        let meta = json!({ "acpx": { "requestId": "r", "policy": policy } });
        restricted::<PromptMeta>(&meta.to_string()).unwrap()
    };
    let named = PromptMeta { request_id: Some("r".to_owned()), ..PromptMeta::default() };
    let denying = TurnTermsMeta { policy: Some(PermissionMode::DenyAll), ..TurnTermsMeta::default() };
    assert_eq!(policy("approve-all"), named);
    assert_eq!(policy("deny-all"), PromptMeta { terms: denying, ..named });
}

#[test]
fn of_two_idle_times_the_shorter_one_applies() {
    let cases = [
        ((0, None), 0),
        ((0, Some(0)), 0),
        ((0, Some(7)), 7),
        ((9, Some(7)), 7),
        ((3, Some(7)), 3),
        ((3, Some(0)), 3),
    ];
    for ((wanted, served), expected) in cases {
        assert_eq!(shorter_idle(wanted, served), expected, "{wanted} {served:?}");
    }
}

/// Member names in different spellings, including relevant and invalid ones.
fn name() -> impl Strategy<Value = String> {
    let known = [
        "acpx",
        "agent",
        "environment",
        "variables",
        "mcpSource",
        "shell",
        "policy",
        "idleMs",
        "argv",
        "later",
        "_meta",
        "modeId",
        "value",
    ];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => proptest::sample::select(known.to_vec()).prop_map(|name| format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..])),
        1 => proptest::sample::select(vec![r"\ud800", r"\udfff", r"\u0000", "", r"\uD83D\ude00"]).prop_map(str::to_owned),
    ]
}

/// Values, including dangerous ones.
fn value() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        r#"{"argv":["sh"]}"#,
        r#"[["PATH","/tmp"]]"#,
        r#"{"served":[["PATH","/tmp"]]}"#,
        r#""/etc/x""#,
        r#"{"name":"x"}"#,
        r#""approve-all""#,
        r#""approve\u002dall""#,
        "0",
        "5",
        "999999999",
        "true",
        "null",
        r#""\ud800""#,
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(3, 24, 6, |inner| proptest::collection::vec((name(), inner), 0..6).prop_map(object))
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<_> = members.into_iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

proptest! {
    #[test]
    fn no_restricted_member_of_a_remote_client_passes_in_any_spelling(
        ours in proptest::collection::vec((name(), value()), 0..6),
        others in proptest::collection::vec((name(), value()), 0..6),
    ) {
        let mut members = others;
        // Params forwarded outside a turn contain only known members.
        if let Ok(passed) = known_params(&object(members.clone())) {
            let passed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&passed).unwrap();
            prop_assert!(passed.keys().all(|name| KNOWN_PARAMS.contains(&name.as_str())), "{:?}", passed);
        }
        members.push(("acpx".to_owned(), object(ours)));
        let meta = object(members);
        prop_assert!(is_harmless(&meta), "{}", meta);
    }
}
