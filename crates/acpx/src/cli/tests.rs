//! The grammar, as tables: what is typed and what it means.

use std::collections::BTreeMap;
use std::iter;
use std::num::NonZeroU64;
use std::time::Duration;

use acpx_core::model::{
    Budget, Fallback, LoginPolicy, Money, ProtocolVersion, RequestId, SessionName, SpendingLimits,
    UnattendedPolicy, WakeOptions,
};
use proptest::prelude::*;

use super::options::{PermissionArgs, PolicyArgs, ToolNames};
use super::*;
use crate::error::CliError;

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

/// One configured agent, `mine`, and one that only an untrusted file defines, `theirs`.
#[expect(clippy::unnecessary_wraps, reason = "the shape that the parser calls")]
fn configured(name: &str) -> Result<KnownAgents, CliError> {
    let untrusted_file = (name == "theirs").then(|| PathBuf::from("/p/.acpxrc.json"));
    Ok(KnownAgents { names: vec!["mine".to_owned()], untrusted_file })
}

/// Parses with the configured agents, and stdin no terminal.
fn parsed(line: &[&str]) -> Result<Request, CliError> {
    parse(&words(line), &configured, ProgramTerminals::default())
}

fn invocation(line: &[&str]) -> Invocation {
    match parsed(line) {
        Ok(Request::Run(invocation)) => *invocation,
        other => panic!("{line:?}: {other:?}"),
    }
}

/// The mistake and the hint.
fn mistake(line: &[&str]) -> (String, String) {
    match parsed(line) {
        Err(CliError::Usage(error)) => (error.to_string(), error.hint().into_owned()),
        other => panic!("{line:?}: {other:?}"),
    }
}

/// Checks that each line is a usage error with this message and hint.
fn assert_mistakes(cases: &[(&[&str], &str, &str)]) {
    for (line, message, hint) in cases {
        assert_eq!(mistake(line), ((*message).to_owned(), (*hint).to_owned()), "{line:?}");
    }
}

fn prompt_of(line: &[&str]) -> (AgentChoice, Vec<String>) {
    let invocation = invocation(line);
    match invocation.command {
        CliCommand::Prompt(prompt) => (invocation.options.agent, prompt.input.words),
        other => panic!("{line:?}: {other:?}"),
    }
}

fn named(name: &str) -> AgentChoice {
    AgentChoice::Named(name.to_owned())
}

#[test]
fn flag_definitions_are_valid_for_clap() {
    grammar(&[]).debug_assert();
}

/// Every flag of a command and of those below it, by all its names.
fn flags_of(command: &clap::Command) -> BTreeMap<String, bool> {
    let flags = command.get_arguments().filter(|argument| !argument.is_positional()).flat_map(|argument| {
        let longs = argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default());
        let longs = longs.map(|long| format!("--{long}"));
        let names = longs.chain(argument.get_short().map(|short| format!("-{short}")));
        names.map(|name| (name, argument.get_action().takes_values())).collect::<Vec<_>>()
    });
    flags.chain(command.get_subcommands().flat_map(flags_of)).collect()
}

#[test]
fn flag_table_matches_the_grammar() {
    // These take no flag but their own, behind their verb.
    let programs = ["tour", "demo-agent", "remote-agent", "complete", "completions", "man", "mcp"];
    let whole = grammar(&[]);
    let verbs = whole.get_subcommands().filter(|verb| !programs.contains(&verb.get_name()));
    let follow = ("-f".to_owned(), false);
    // Only compare has these, behind its verb; in a prompt they are text.
    let of_compare = ["--json", "--prompt-file"];
    let taken: Vec<(String, bool)> = verbs
        .flat_map(flags_of)
        .filter(|flag| *flag != follow && !of_compare.contains(&flag.0.as_str()))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect();
    assert_eq!(
        flags::FLAGS.iter().map(|(name, takes_value)| ((*name).to_owned(), *takes_value)).collect::<Vec<_>>(),
        taken
    );
}

#[test]
fn partial_grammar_has_the_same_help_as_the_whole() {
    fn paths(command: &clap::Command) -> Vec<Vec<String>> {
        let below = command.get_subcommands().flat_map(|verb| {
            let name = verb.get_name().to_owned();
            let paths = paths(verb).into_iter();
            paths.map(|path| iter::once(name.clone()).chain(path).collect()).collect::<Vec<_>>()
        });
        iter::once(Vec::new()).chain(below).collect()
    }
    fn help(mut grammar: clap::Command, path: &[&str]) -> String {
        grammar.build();
        let verb = path.iter().fold(&mut grammar, |command, verb| {
            command.find_subcommand_mut(verb).expect("the path is one of the grammar")
        });
        verb.render_long_help().to_string()
    }
    for path in paths(&grammar(&[])) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        assert_eq!(help(grammar(&path), &path), help(grammar(&[]), &path), "{path:?}");
    }
}

#[test]
fn words_after_an_agent_are_a_prompt() {
    let cases: &[(&[&str], AgentChoice, &[&str])] = &[
        (&["claude", "fix", "the", "tests"], named("claude"), &["fix", "the", "tests"]),
        (&["codex", "fix", "--this"], named("codex"), &["fix", "--this"]),
        (&["codex", "fix", "--format", "json"], named("codex"), &["fix"]),
        (&["codex", "fix", "--", "--format", "json"], named("codex"), &["fix", "--format", "json"]),
        (&["codex", "fix", "-", "-x", "--", "--", "-s"], named("codex"), &["fix", "-", "-x", "--", "-s"]),
        (&["codex", "--", "--modle"], named("codex"), &["--modle"]),
        (&["codex", "--", "statsu"], named("codex"), &["statsu"]),
        (&["codex", "prompt", "statsu"], named("codex"), &["statsu"]),
        (&["codex", "statsu", "please"], named("codex"), &["statsu", "please"]),
        (&["codex", "set mode"], named("codex"), &["set mode"]),
        (&["demo", "wait"], named("demo"), &["wait"]),
        (&["demo", "queue"], named("demo"), &["queue"]),
        (&["demo", "schema"], named("demo"), &["schema"]),
        (&["demo", "rename", "ls"], named("demo"), &["rename", "ls"]),
        (&["codex", "--", "status"], named("codex"), &["status"]),
        (&["codex", "--", "set-mode", "plan"], named("codex"), &["set-mode", "plan"]),
        (&["codex", "prompt", "config"], named("codex"), &["config"]),
        (&["codex", "set the mode"], named("codex"), &["set the mode"]),
        (&["codex", "help", "me", "out"], named("codex"), &["help", "me", "out"]),
        (&["codex", "help", "me"], named("codex"), &["help", "me"]),
        (&["codex", "--", "host", "status"], named("codex"), &["host", "status"]),
        (&["codex", "gemini"], named("codex"), &["gemini"]),
        (&["  CLAUDE "], named("claude"), &[]),
        (&["MINE", "x"], named("mine"), &["x"]),
        (&["factory-droid", "x"], named("droid"), &["x"]),
        (&["factorydroid", "x"], named("droid"), &["x"]),
        (&["hello there"], AgentChoice::Default, &["hello there"]),
        (&["--", "hello"], AgentChoice::Default, &["hello"]),
        (&["--", "--weird", "flag"], AgentChoice::Default, &["--weird", "flag"]),
        (&["prompt", "hello", "world"], AgentChoice::Default, &["hello", "world"]),
        (&["prompt", "--", "--weird"], AgentChoice::Default, &["--weird"]),
        (&["claude", "prompt", "status"], named("claude"), &["status"]),
        (&["--agent", "a b", "hello"], AgentChoice::Line("a b".into()), &["hello"]),
        (&["--agent=a b", "hello", "--x"], AgentChoice::Line("a b".into()), &["hello", "--x"]),
        (&["prompt", "hello", "--agent", "a"], AgentChoice::Line("a".into()), &["hello"]),
        (&[], AgentChoice::Default, &[]),
        (&["--format", "json"], AgentChoice::Default, &[]),
        (&[""], AgentChoice::Default, &[""]),
    ];
    for (line, agent, text) in cases {
        assert_eq!(prompt_of(line), (agent.clone(), words(text)), "{line:?}");
    }
}

#[test]
fn queue_and_cancel_parse_ids_and_filters() {
    let cases: &[(&[&str], AgentChoice, &str)] = &[
        (
            &["cancel", "01a1e8cc"],
            AgentChoice::Default,
            r#"Cancel(CancelArgs { request: Some("01a1e8cc") })"#,
        ),
        (
            &["--agent", "claude", "queue"],
            AgentChoice::Default,
            r#"Queue(List(QueueListArgs { named: None, filter: QueueFilterArgs { agent: Some("claude"), session: None } }))"#,
        ),
        (
            &["queue", "drop", "--all", "-s", "api"],
            AgentChoice::Default,
            r#"Queue(Drop(QueueDropArgs { requests: [], all: true, filter: QueueFilterArgs { agent: None, session: Some("api") } }))"#,
        ),
    ];
    assert_read(cases);
    // After an agent's name it is text.
    assert_eq!(prompt_of(&["demo", "queue", "list"]), (named("demo"), words(&["queue", "list"])));
}

#[test]
fn every_verb_parses_with_and_without_an_agent() {
    let cases: &[(&[&str], AgentChoice, &str)] = &[
        (&["status"], AgentChoice::Default, "Status"),
        (&["claude", "status"], named("claude"), "Status"),
        (&["claude", "status", "@2"], named("claude"), "Status"),
        (&["--agent", "x", "status"], AgentChoice::Line("x".into()), "Status"),
        (&["claude", "cancel"], named("claude"), "Cancel(CancelArgs { request: None })"),
        (
            &["claude", "usage", "--by", "agent", "--since", "1h"],
            named("claude"),
            "Usage(UsageArgs { by: Agent, since: Some(Ago(3600s)), until: None, limit: None })",
        ),
        (&["doctor"], AgentChoice::Default, "Doctor"),
        (&["doctor", "claude"], AgentChoice::Named("claude".to_owned()), "Doctor"),
        (&["claude", "doctor"], AgentChoice::Named("claude".to_owned()), "Doctor"),
        (
            &["exec", "a", "-f", "-", "b"],
            AgentChoice::Default,
            "Exec(ExecCommand { input: PromptWords { words: [\"a\", \"b\"], file: Some(\"-\"), attachments: [] }, options: [], exit_by_stop_reason: false })",
        ),
    ];
    assert_read(cases);
}

#[test]
fn search_index_and_notify_are_commands_without_an_agent() {
    let cases: &[(&[&str], AgentChoice, &str)] = &[
        (
            &["search", "a b", "--agent", "claude", "c*", "--role", "user", "--since", "1h", "--limit", "3"],
            AgentChoice::Default,
            r#"Search(SearchArgs { words: ["a b", "c*"], agent: Some("claude"), project: None, since: Some(Ago(3600s)), role: [User], tool: None, limit: 3 })"#,
        ),
        (
            &["--agent", "claude", "search", "--project", ".", "--tool", "bash", "--", "-x"],
            AgentChoice::Default,
            r#"Search(SearchArgs { words: ["-x"], agent: Some("claude"), project: Some("."), since: None, role: [], tool: Some("bash"), limit: 20 })"#,
        ),
        (&["index"], AgentChoice::Default, "Index(Status)"),
        (&["index", "rebuild"], AgentChoice::Default, "Index(Rebuild)"),
        (&["notify"], AgentChoice::Default, "Notify(Status)"),
        (&["notify", "test"], AgentChoice::Default, "Notify(Test { sink: None })"),
        (&["notify", "test", "phone"], AgentChoice::Default, r#"Notify(Test { sink: Some("phone") })"#),
    ];
    assert_read(cases);
    // After an agent's name they are text.
    assert_eq!(
        prompt_of(&["demo", "search", "for", "bugs"]),
        (named("demo"), words(&["search", "for", "bugs"]))
    );
    assert_eq!(prompt_of(&["demo", "index"]), (named("demo"), words(&["index"])));
    assert_eq!(prompt_of(&["demo", "notify"]), (named("demo"), words(&["notify"])));
}

#[test]
fn every_sessions_verb_parses_with_and_without_an_agent() {
    const HISTORY: &str = "Sessions(History(HistoryArgs { limit: 3 }))";
    let cases: &[(&[&str], AgentChoice, &str)] = &[
        (
            &["claude", "sessions"],
            named("claude"),
            "Sessions(List(ListArgs { local: false, remote: false, all: false, cursor: None, filter_cwd: None, limit: None }))",
        ),
        (
            &["sessions", "list", "--local"],
            AgentChoice::Default,
            "Sessions(List(ListArgs { local: true, remote: false, all: false, cursor: None, filter_cwd: None, limit: None }))",
        ),
        (
            &["sessions", "--remote", "--cursor", "c", "--filter-cwd", "/w"],
            AgentChoice::Default,
            "Sessions(List(ListArgs { local: false, remote: true, all: false, cursor: Some(\"c\"), filter_cwd: Some(\"/w\"), limit: None }))",
        ),
        (&["claude", "sessions", "new"], named("claude"), "Sessions(New(NewArgs { resume_session: None }))"),
        (
            &["claude", "sessions", "ensure"],
            named("claude"),
            "Sessions(Ensure(NewArgs { resume_session: None }))",
        ),
        (&["sessions", "show"], AgentChoice::Default, "Sessions(Show)"),
        (&["sessions", "close"], AgentChoice::Default, "Sessions(Close)"),
        (&["demo", "sessions", "delete"], named("demo"), "Sessions(Delete(DeleteArgs { yes: false }))"),
        (&["sessions", "move"], AgentChoice::Default, "Sessions(Move)"),
        (
            &["sessions", "reset", "--carry-history"],
            AgentChoice::Default,
            "Sessions(Reset(ResetArgs { carry_history: true }))",
        ),
        (
            &["claude", "sessions", "restore", "id", "--to", "s1"],
            named("claude"),
            r#"Sessions(Restore(RestoreArgs { to: "s1" }))"#,
        ),
        (&["sessions", "history", "--limit", "3"], AgentChoice::Default, HISTORY),
        (
            &["sessions", "replay", "--from", "turn:2", "--last", "3"],
            AgentChoice::Default,
            "Sessions(Replay(ReplayArgs { start: StartArgs { from: Some(Turn(TurnId(2))) }, last: Some(3) }))",
        ),
        (
            &["claude", "sessions", "watch", "--from", "message:a:b"],
            named("claude"),
            r#"Sessions(Watch(WatchArgs { start: StartArgs { from: Some(Message("a:b")) }, cursor: None }))"#,
        ),
        (&["--limit", "3", "sessions", "history"], AgentChoice::Default, HISTORY),
        (
            &["sessions", "migrate", "old", "--dry-run"],
            AgentChoice::Default,
            "Sessions(Migrate(MigrateArgs { directory: Some(\"old\"), dry_run: true }))",
        ),
    ];
    assert_read(cases);
}

#[test]
fn host_verbs_parse() {
    assert_read(&[
        (&["host", "status"], AgentChoice::Default, "Host(Status)"),
        (&["--format", "json", "host", "stop"], AgentChoice::Default, "Host(Stop)"),
        (&["host", "restart"], AgentChoice::Default, "Host(Restart)"),
        (&["host", "log"], AgentChoice::Default, "Host(Log(HostLogArgs { follow: false, lines: 50 }))"),
        (
            &["host", "log", "-f", "-n", "9"],
            AgentChoice::Default,
            "Host(Log(HostLogArgs { follow: true, lines: 9 }))",
        ),
        (&["host", "run"], AgentChoice::Default, "Host(Run)"),
    ]);
}

#[test]
fn serve_and_token_verbs_parse() {
    assert_read(&[
        (
            &[
                "claude",
                "serve",
                "--listen",
                "localhost:7",
                "--allow-origin",
                "https://a",
                "--insecure-public",
            ],
            named("claude"),
            "Serve(ServeArgs { listen: 127.0.0.1:7, tls_cert: None, tls_key: None, insecure_public: true, allow_origin: [\"https://a\"], allow_approve_all: false, allow_stdio_servers: false, allow_meta: false })",
        ),
        (
            &[
                "serve",
                "--tls-cert",
                "c",
                "--tls-key",
                "k",
                "--allow-approve-all",
                "--allow-stdio-servers",
                "--allow-meta",
            ],
            AgentChoice::Default,
            "Serve(ServeArgs { listen: 127.0.0.1:0, tls_cert: Some(\"c\"), tls_key: Some(\"k\"), insecure_public: false, allow_origin: [], allow_approve_all: true, allow_stdio_servers: true, allow_meta: true })",
        ),
        (
            &["token", "new", "--name", "x"],
            AgentChoice::Default,
            "Token(New { name: Some(\"x\"), scope: Full })",
        ),
        (
            &["token", "new", "--scope", "read"],
            AgentChoice::Default,
            "Token(New { name: None, scope: Read })",
        ),
        (
            &["web"],
            AgentChoice::Default,
            "Web(Open(WebOpenArgs { no_open: false, scope: Full, server: WebListenArgs { listen: None, tls_cert: None, tls_key: None, public_url: None } }))",
        ),
        (
            &["web", "--no-open", "--scope", "answer", "--listen", "localhost:7"],
            AgentChoice::Default,
            "Web(Open(WebOpenArgs { no_open: true, scope: Answer, server: WebListenArgs { listen: Some(127.0.0.1:7), tls_cert: None, tls_key: None, public_url: None } }))",
        ),
        (&["web", "status"], AgentChoice::Default, "Web(Status)"),
        (&["web", "stop"], AgentChoice::Default, "Web(Stop)"),
        (&["--format", "json", "token", "list"], AgentChoice::Default, "Token(List)"),
        (&["token", "revoke", "x"], AgentChoice::Default, "Token(Revoke { id: \"x\" })"),
    ]);
}

/// Lines with the agent and the command they mean.
fn assert_read(cases: &[(&[&str], AgentChoice, &str)]) {
    for (line, agent, command) in cases {
        let invocation = invocation(line);
        let expected = (agent.clone(), (*command).to_owned());
        assert_eq!((invocation.options.agent, format!("{:?}", invocation.command)), expected, "{line:?}");
    }
}

#[test]
fn flags_mean_the_same_at_every_position() {
    let flags = "--format json --cwd=/w -s name --timeout 1.5 --idle-timeout 0.5 --ttl 0 --deny-all \
        --non-interactive-permissions wait --permission-policy p.json --protocol 2 --auth-policy fail --model opus \
        --mcp-config m.json --add-dir /more --add-dir=less --prompt-retries=2 --suppress-reads --json-strict \
        --max-cost 0.50,4eur/session --max-tokens=200k/session --with-recall";
    let flags: &[&str] = &flags.split_whitespace().collect::<Vec<_>>();
    let expected = CliOptions {
        agent: named("claude"),
        session: Some(SessionName::new("name").unwrap()),
        flags: SessionArgs {
            agent: None,
            cwd: Some("/w".into()),
            output: OutputArgs {
                format: Some(Format::Json),
                json_strict: true,
                suppress_reads: true,
                ..OutputArgs::default()
            },
            permissions: PermissionArgs { deny_all: true, ..PermissionArgs::default() },
            policy: PolicyArgs {
                non_interactive_permissions: Some(UnattendedPolicy::Wait),
                permission_policy: Some("p.json".to_owned()),
                policy: None,
            },
            timeout: Some(Duration::from_millis(1500)),
            idle_timeout: Some(Duration::from_millis(500)),
            max_cost: Some(SpendingLimits {
                turn: Budget { cost: Money::of(0.5, "USD"), tokens: None },
                session: Budget { cost: Money::of(4.0, "EUR"), tokens: None },
            }),
            max_tokens: Some(SpendingLimits {
                session: Budget { cost: None, tokens: Some(200_000) },
                ..SpendingLimits::default()
            }),
            ttl: Some(Duration::ZERO),
            protocol: Some(ProtocolVersion::V2),
            model: Some("opus".to_owned()),
            auth_policy: Some(LoginPolicy::Fail),
            mcp_config: Some("m.json".into()),
            with_recall: true,
            add_dir: vec!["/more".into(), "less".into()],
            setup: SetupArgs::default(),
            prompt_retries: Some(2),
        },
    };
    for verb in [&["prompt"][..], &["status"], &["cancel"], &["sessions", "show"], &["sessions", "new"]] {
        let before_the_agent = [flags, &["claude"], verb].concat();
        let before_the_verb = [&["claude"], flags, verb].concat();
        let behind_the_verb = [&["claude"], verb, flags].concat();
        for line in [before_the_agent, before_the_verb, behind_the_verb] {
            assert_eq!(invocation(&line).options, expected, "{line:?}");
        }
    }
}

#[test]
fn setup_flags_are_read_at_every_position() {
    let replaced = SetupArgs { system_prompt: Some("-x".to_owned()), ..SetupArgs::default() };
    let none = SetupArgs { allowed_tools: Some(ToolNames(Vec::new())), ..SetupArgs::default() };
    let all = SetupArgs {
        append_system_prompt: Some("be kind".to_owned()),
        allowed_tools: Some(ToolNames(words(&["Read", "Write"]))),
        max_turns: NonZeroU64::new(3),
        no_fs: true,
        no_terminal: true,
        ..SetupArgs::default()
    };
    let many = &["--append-system-prompt", "be kind", "--allowed-tools=Read, Write", "--max-turns", "3"][..];
    let cases: [(&[&str], SetupArgs); 3] = [
        (&["--system-prompt", "-x"], replaced),
        (&["--allowed-tools", ""], none),
        (&[many, &["--no-fs", "--no-terminal"]].concat(), all),
    ];
    for (flags, expected) in cases {
        let lines = [[flags, &["claude", "hi"]].concat(), [&["claude", "sessions", "new"], flags].concat()];
        for line in lines {
            assert_eq!(invocation(&line).options.flags.setup, expected, "{line:?}");
        }
    }
}

#[test]
fn prompt_flags_precede_its_words_or_follow_its_verb() {
    let expected = PromptCommand {
        input: PromptWords { words: words(&["go"]), file: Some("f".into()), attachments: Vec::new() },
        wait: Wait::JustQueue,
        create: true,
        request_id: Some(RequestId::new("job-1").unwrap()),
        exit_by_stop_reason: true,
        wake: WakeOptions { fallback: Fallback::Never, carry_history: false },
    };
    let by_reason = "--exit-by-stop-reason";
    let id = "--request-id=job-1";
    let lines: [&[&str]; 4] = [
        &["claude", "--no-wait", "--no-fallback", by_reason, id, "--create", "-f", "f", "go"],
        &[
            "--no-wait",
            "--create",
            "--request-id",
            "job-1",
            by_reason,
            "claude",
            "-ff",
            "--no-fallback",
            "go",
        ],
        &["claude", "prompt", "go", "--no-fallback", "--file=f", "--no-wait", "--create", id, by_reason],
        &["prompt", "--no-fallback", id, "--create", by_reason, "go", "-f", "f", "--no-wait"],
    ];
    for line in lines {
        match invocation(line).command {
            CliCommand::Prompt(prompt) => assert_eq!(prompt, expected, "{line:?}"),
            other => panic!("{line:?}: {other:?}"),
        }
    }
    match invocation(&["claude", "--carry-history", "go"]).command {
        CliCommand::Prompt(prompt) => assert!(prompt.wake.carry_history),
        other => panic!("{other:?}"),
    }
    let fallbacks = [("auto", Fallback::Auto), ("always", Fallback::Always), ("never", Fallback::Never)];
    for (value, fallback) in fallbacks {
        match invocation(&["claude", "--fallback", value, "go"]).command {
            CliCommand::Prompt(prompt) => assert_eq!(prompt.wake.fallback, fallback),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn session_name_is_a_flag_or_an_argument() {
    let lines: [&[&str]; 9] = [
        &["-s", "api", "status"],
        &["claude", "-s", " api ", "cancel"],
        &["--agent", "x", "-s", "api", "hello"],
        &["-sapi", "sessions", "show"],
        &["sessions", "show", "api"],
        &["sessions", "close", "api"],
        &["sessions", "delete", "api"],
        &["sessions", "new", "--name", "api"],
        &["sessions", "ensure", "--session", "api"],
    ];
    for line in lines {
        let name = invocation(line).options.session;
        assert_eq!(name.as_ref().map(SessionName::as_str), Some("api"), "{line:?}");
    }
    assert_eq!(mistake(&["-s", " ", "status"]).0, "the session name is empty");
}

#[test]
fn unknown_word_is_a_usage_error_with_a_suggestion() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["hepl"],
            "\"hepl\" is neither a command nor an agent",
            "did you mean \"help\"? to prompt the default agent: acpx prompt hepl",
        ),
        (
            &["cluade", "fix it"],
            "\"cluade\" is neither a command nor an agent",
            "did you mean \"claude\"? to prompt the default agent: acpx prompt 'cluade fix it'",
        ),
        (
            &["mien", "x"],
            "\"mien\" is neither a command nor an agent",
            "did you mean \"mine\"? to prompt the default agent: acpx prompt 'mien x'",
        ),
        (
            &["Theirs", "x"],
            "\"Theirs\" is neither a command nor an agent",
            "the project's file /p/.acpxrc.json defines the agent theirs, but is not trusted as it is now; to review and \
             allow it: acpx trust",
        ),
        (
            &["hello", "world"],
            "\"hello\" is neither a command nor an agent",
            "to prompt the default agent: acpx prompt 'hello world'; acpx --help lists the commands",
        ),
        (
            &["sessions", "lsit"],
            "\"acpx sessions\" has no command \"lsit\"",
            "did you mean \"acpx sessions list\"?",
        ),
        (&["host", "dance"], "\"acpx host\" has no command \"dance\"", "acpx host --help lists its commands"),
        (
            &["--agent", "x", "claude", "hi"],
            "both --agent and the agent \"claude\" are given",
            "leave one out; to send \"claude\" to the agent, put it after --",
        ),
        (
            &["claude", "--agent", "x", "hi"],
            "both --agent and the agent \"claude\" are given",
            "leave one out; to send \"claude\" to the agent, put it after --",
        ),
        (
            &["claude", "status", "--agent", "x"],
            "both --agent and the agent \"claude\" are given",
            "leave one out; to send \"claude\" to the agent, put it after --",
        ),
        (
            &["claude", "sessions", "migrate"],
            "the command takes no agent, and \"claude\" is given",
            "leave claude out; to send it to the agent, put it after --",
        ),
        (
            &["claude", "host", "status"],
            "the command takes no agent, and \"claude\" is given",
            "leave claude out; to send it to the agent, put it after --",
        ),
        (
            &["claude", "tour"],
            "the command takes no agent, and \"claude\" is given",
            "leave claude out; to send it to the agent, put it after --",
        ),
    ];
    assert_mistakes(cases);
}

#[test]
fn set_and_set_mode_parse_their_values() {
    let set = |line: &[&str]| match invocation(line).command {
        CliCommand::Set(set) => set,
        other => panic!("{line:?} is {other:?}"),
    };
    let chosen = |option: Option<&str>, value: &str| SetCommand {
        option: option.map(str::to_owned),
        change: SetAction::Set(value.to_owned()),
    };
    let without_value =
        |option: Option<&str>, change| SetCommand { option: option.map(str::to_owned), change };
    let forgotten = |option: Option<&str>| without_value(option, SetAction::Forget);
    assert_eq!(set(&["claude", "set-mode"]), without_value(None, SetAction::List));
    assert_eq!(set(&["set", "model"]), without_value(Some("model"), SetAction::List));
    assert_eq!(set(&["claude", "set-mode", "--forget"]), forgotten(None));
    assert_eq!(set(&["claude", "set", "effort", "--forget"]), forgotten(Some("effort")));
    assert_eq!(set(&["claude", "set-mode", "plan"]), chosen(None, "plan"));
    assert_eq!(set(&["set", "-s", "x", "model", "opus"]), chosen(Some("model"), "opus"));
    let exec = invocation(&["exec", "--config-option", "a=b=c", "--config-option", "d=", "hi"]).command;
    let CliCommand::Exec(exec) = exec else { panic!("no exec") };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(exec.options, [pair("a", "b=c"), pair("d", "")]);
}

#[test]
fn config_and_trust_without_a_subcommand_show_and_add() {
    let command = |line: &[&str]| invocation(line).command;
    let shows = |line: &[&str]| matches!(command(line), CliCommand::Config(ConfigCommand::Show));
    for line in [
        &["config"][..],
        &["config", "show"],
        &["--format", "json", "--cwd", "/", "config", "show"],
        &["--agent", "x", "config"],
        &["config", "--timeout", "3"],
    ] {
        assert!(shows(line), "{line:?}");
    }
    assert!(matches!(command(&["config", "init"]), CliCommand::Config(ConfigCommand::Init)));
    let trust = |line: &[&str]| match command(line) {
        CliCommand::Trust(trust) => trust,
        other => panic!("{line:?}: {other:?}"),
    };
    let add = |yes| TrustCommand::Add(configuration::TrustArgs { yes });
    assert_eq!([trust(&["trust"]), trust(&["trust", "--yes"])], [add(false), add(true)]);
    assert_eq!(trust(&["--cwd", "/p", "trust", "list"]), TrustCommand::List);
    assert_eq!(trust(&["trust", "revoke"]), TrustCommand::Revoke { file: None });
    assert_eq!(trust(&["trust", "revoke", "/p/f"]), TrustCommand::Revoke { file: Some("/p/f".into()) });
    // After an agent's name they are words of a prompt.
    assert_eq!(prompt_of(&["claude", "config", "show"]), (named("claude"), words(&["config", "show"])));
    assert_eq!(prompt_of(&["claude", "trust", "me"]), (named("claude"), words(&["trust", "me"])));
    let (message, hint) = mistake(&["config", "shwo"]);
    assert_eq!(
        (&*message, &*hint),
        ("\"acpx config\" has no command \"shwo\"", "did you mean \"acpx config show\"?")
    );
}

#[test]
fn compare_takes_its_prompt_from_the_last_word_a_file_or_text() {
    let compare = |line: &[&str]| match invocation(line) {
        Invocation { command: CliCommand::Compare(compare), options } => {
            (compare, options.flags.output.format)
        }
        other => panic!("{line:?}: {other:?}"),
    };
    let command = |agents: &[&str], prompt: &[&str], file: Option<&str>| CompareCommand {
        agents: words(agents),
        input: PromptWords { words: words(prompt), file: file.map(Into::into), attachments: Vec::new() },
        is_prompt_unmarked: prompt.len() == 1 && file.is_none(),
    };
    let json = Some(Format::Json);
    let cases = [
        (&["compare", "claude", "codex", "why?"][..], (command(&["claude", "codex"], &["why?"], None), None)),
        (&["compare", "demo", "--json", "hi"], (command(&["demo"], &["hi"], None), json)),
        (&["--format", "json", "compare", "demo", "hi"], (command(&["demo"], &["hi"], None), json)),
        (&["compare", "a", "b", "--prompt-file", "p"], (command(&["a", "b"], &[], Some("p")), None)),
        (&["compare", "a", "-f", "-", "--deny-all"], (command(&["a"], &[], Some("-")), None)),
        (&["compare", "a", "--", "why", "--this"], (command(&["a"], &["why", "--this"], None), None)),
    ];
    for (line, expected) in cases {
        assert_eq!(compare(line), expected, "{line:?}");
    }
    let wanted = "compare needs at least one agent and a prompt";
    assert_eq!(mistake(&["compare", "claude"]).0, wanted);
    assert_eq!(prompt_of(&["claude", "compare", "them"]), (named("claude"), words(&["compare", "them"])));
    assert_eq!(prompt_of(&["claude", "explain", "--json"]).1, words(&["explain", "--json"]));
}

#[test]
fn flow_names_the_npm_command_line_with_its_arguments() {
    let message = "flows are JavaScript modules, and belong to npm acpx";
    let cases: &[(&[&str], &str)] = &[
        (&["flow", "run", "a b.js"], "npx acpx@0.19 flow run 'a b.js'"),
        (
            &["--cwd", "/p", "flow", "run", "f.ts", "--input-json", "{\"a\":1}"],
            "npx acpx@0.19 --cwd /p flow run f.ts --input-json '{\"a\":1}'",
        ),
        (&["flow"], "npx acpx@0.19 flow"),
    ];
    for (line, command) in cases {
        assert_eq!(mistake(line), (message.to_owned(), format!("to run it there: {command}")), "{line:?}");
    }
    assert!(matches!(parsed(&["flow", "--help"]), Ok(Request::Help(_))));
    assert!(matches!(parsed(&["help", "flow"]), Ok(Request::Help(_))));
}

#[test]
fn requested_directory_is_the_last_one_before_the_text() {
    let cwd = |line: &[&str]| requested_cwd(&words(line));
    assert_eq!(cwd(&["--cwd", "/a", "claude", "hi", "--cwd=/b"]), Some("/b".into()));
    assert_eq!(cwd(&["--file", "--cwd", "claude", "--", "--cwd", "/a"]), None);
}

#[test]
fn flag_after_the_words_of_a_prompt_is_a_flag() {
    let Invocation { options, command } =
        invocation(&["demo", "hi", "--approve-all", "there", "-s", "api", "--image", "a.png", "--no-wait"]);
    let CliCommand::Prompt(prompt) = command else { panic!("no prompt") };
    assert_eq!((prompt.input.words, prompt.wait), (words(&["hi", "there"]), Wait::JustQueue));
    assert_eq!(prompt.input.attachments, [PromptAttachment::Image("a.png".into())]);
    assert_eq!(options.session.as_ref().map(SessionName::as_str), Some("api"));
    assert!(options.flags.permissions.approve_all);
    assert!(matches!(parsed(&["claude", "what", "is", "--version"]), Ok(Request::Version)));
    assert!(matches!(parsed(&["claude", "fix", "it", "--help"]), Ok(Request::Help(_))));
    let needs_value = "a value is required for '--model <MODEL>' but none was supplied";
    assert_eq!(mistake(&["claude", "use", "--model"]).0, needs_value);
}

#[test]
fn nearly_known_flag_is_a_usage_error_at_every_position() {
    let send = "to send it to the agent, put it after --";
    for (line, flag, near) in [
        (&["claude", "hi", "--modle", "opus"][..], "--modle", "--model"),
        (&["claude", "--modle", "opus", "hi"], "--modle", "--model"),
        (&["--aprove-all", "claude", "hi"], "--aprove-all", "--approve-all"),
        (&["claude", "hi", "--fromat=json"], "--fromat=json", "--format"),
        (&["claude", "hi", "--no-wait=1"], "--no-wait=1", "--no-wait"),
        (&["claude", "hi", "--hlep"], "--hlep", "--help"),
    ] {
        let expected = (format!("there is no flag {flag}"), format!("did you mean {near}? {send}"));
        assert_eq!(mistake(line), expected, "{line:?}");
    }
}

#[test]
fn word_that_is_nearly_a_verb_is_asked_about() {
    let near = |line: &[&str]| match parsed(line) {
        Ok(Request::NearVerb(near)) => (near.command_line(), near.prompt_line()),
        other => panic!("{line:?}: {other:?}"),
    };
    for (line, command, prompt) in [
        (&["claude", "statsu"][..], "acpx claude status", "acpx claude prompt statsu"),
        (&["claude", "Status"], "acpx claude status", "acpx claude prompt Status"),
        (
            &["--cwd", "/a b", "claude", "-s", "x", "atach", "--format", "json"],
            "acpx --cwd '/a b' claude -s x attach --format json",
            "acpx --cwd '/a b' claude -s x prompt atach --format json",
        ),
        (&["claude", "seesions", "list"], "acpx claude sessions list", "acpx claude prompt seesions list"),
        (&["claude", "seesions", "ls"], "acpx claude sessions ls", "acpx claude prompt seesions ls"),
        (
            &["claude", "session", "export", "x"],
            "acpx claude sessions export x",
            "acpx claude prompt session export x",
        ),
    ] {
        assert_eq!(near(line), (command.to_owned(), prompt.to_owned()), "{line:?}");
    }
}

#[test]
fn flag_errors_have_hints() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["claude", "exec", "hi", "--bogus"],
            "unexpected argument '--bogus' found",
            "acpx help exec lists its flags; to send it to the agent, put it after --",
        ),
        (
            &["--bogus", "status"],
            "unexpected argument '--bogus' found",
            "acpx help prompt lists its flags; to send it to the agent, put it after --",
        ),
        (
            &["claude", "--bogus", "hi"],
            "unexpected argument '--bogus' found",
            "acpx help prompt lists its flags; to send it to the agent, put it after --",
        ),
        (
            &["exec", "-s", "x", "hi"],
            "unexpected argument '-s' found",
            "acpx help exec lists its flags; to send it to the agent, put it after --",
        ),
        (&["pending", "more"], "unexpected argument 'more' found", "acpx help pending lists its flags"),
        (
            &["--format", "xml", "status"],
            "invalid value 'xml' for '--format <FORMAT>' [possible values: text, json, quiet]",
            "acpx help status lists its flags",
        ),
        (
            &["--approve-all", "status", "--deny-all"],
            "more than one of --approve-all, --approve-reads and --deny-all is given",
            "keep one of them",
        ),
        (
            &["claude", "--carry-history", "--fallback", "never", "go"],
            "--carry-history and --fallback never exclude each other",
            "keep one of them",
        ),
        (
            &["claude", "--carry-history", "--no-fallback", "go"],
            "--carry-history and --fallback never exclude each other",
            "keep one of them",
        ),
        (
            &["--json-strict", "--format", "json", "--verbose", "status"],
            "--json-strict and --verbose exclude each other",
            "keep one of them",
        ),
        (
            &["status", "--cwd"],
            "a value is required for '--cwd <DIR>' but none was supplied",
            "acpx help status lists its flags",
        ),
        (
            &["claude", "-s"],
            "a value is required for '--session <NAME>' but none was supplied",
            "acpx help prompt lists its flags",
        ),
        (
            &["--agent", "x", "host", "status"],
            "unexpected argument '--agent' found",
            "acpx help host status lists its flags",
        ),
    ];
    assert_mistakes(cases);
}

#[test]
fn invalid_flag_values_are_usage_errors() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["--timeout", "0", "status"],
            "invalid value '0' for '--timeout <SECONDS>': expected a number of seconds above 0 and up to 2147483.647",
            "acpx help status lists its flags",
        ),
        (
            &["--timeout", "2147484", "status"],
            "invalid value '2147484' for '--timeout <SECONDS>': expected a number of seconds above 0 and up to 2147483.647",
            "acpx help status lists its flags",
        ),
        (
            &["--ttl", "-1", "status"],
            "invalid value '-1' for '--ttl <SECONDS>': expected a number of seconds from 0 to 2147483.647",
            "acpx help status lists its flags",
        ),
        (
            &["--ttl", "NaN", "status"],
            "invalid value 'NaN' for '--ttl <SECONDS>': expected a number of seconds from 0 to 2147483.647",
            "acpx help status lists its flags",
        ),
        (
            &["--allowed-tools", "Read,,Write", "status"],
            "invalid value 'Read,,Write' for '--allowed-tools <NAMES>': expected names separated by commas, or \"\" for no tools",
            "acpx help status lists its flags",
        ),
        (
            &["--prompt-retries", "-1", "status"],
            "invalid value '-1' for '--prompt-retries <N>': expected a whole number from 0",
            "acpx help status lists its flags",
        ),
        (
            &["--max-turns", "0", "status"],
            "invalid value '0' for '--max-turns <N>': expected a whole number above 0",
            "acpx help status lists its flags",
        ),
        (
            &["--system-prompt", "a", "--append-system-prompt", "b", "status"],
            "the argument '--system-prompt <TEXT>' cannot be used with '--append-system-prompt <TEXT>'",
            "acpx help status lists its flags",
        ),
    ];
    assert_mistakes(cases);
}

#[test]
fn invalid_flag_values_of_sessions_are_usage_errors() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["sessions", "new", "--resume-session", " "],
            "invalid value ' ' for '--resume-session <ID>': expected the id of a session of the agent",
            "acpx help sessions new lists its flags",
        ),
        (
            &["sessions", "history", "--limit", "0"],
            "invalid value '0' for '--limit <N>': expected a whole number above 0",
            "acpx help sessions history lists its flags",
        ),
        (
            &["sessions", "list", "--local", "--cursor", "c"],
            "the argument '--local' cannot be used with '--cursor <CURSOR>'",
            "acpx help sessions list lists its flags",
        ),
        (
            &["sessions", "watch", "--cursor", "WyJhIiwxXQ"],
            "invalid value 'WyJhIiwxXQ' for '--cursor <CURSOR>': a cursor is the `cursor` of an event that \
             `sessions watch --format json` printed, such as seq:12; cursors of npm acpx are of its own files",
            "acpx help sessions watch lists its flags",
        ),
        (
            &["sessions", "watch", "--cursor", "seq:2", "--from", "start"],
            "the argument '--cursor <CURSOR>' cannot be used with '--from <POSITION>'",
            "acpx help sessions watch lists its flags",
        ),
    ];
    assert_mistakes(cases);
}

#[test]
fn every_command_has_help() {
    let cases: &[(&[&str], &str)] = &[
        (&["--help"], "Examples:\n  acpx tour"),
        (&["-h"], "`acpx --help` shows examples and the agents"),
        (&["claude", "-h"], "claude: Claude Code by Anthropic"),
        (&["help", "claude"], "acpx starts it with: npx -y @agentclientprotocol/claude-agent-acp@"),
        (&["gemini", "--help"], "If it is missing, install it: npm install -g @google/gemini-cli"),
        (&["help", "demo"], "It is part of acpx."),
        (&["help", "mine"], "acpx starts it as \"agents\" in config.json says for \"mine\"."),
        (&["--help", "--all"], "Examples:\n  acpx tour"),
        (&["--all", "--help"], "Examples:\n  acpx tour"),
        (&["help", "--all"], "\n      --approve-all\n"),
        (&["help"], "Examples:\n  acpx tour"),
        (&["claude", "--help"], "acpx claude 'fix the tests' "),
        (&["claude", "help"], "acpx claude 'fix the tests' "),
        (&["claude", "help", "prompt"], "Send the conversation so far to a fresh session"),
        (&["--format", "json", "help"], "Examples:\n  acpx tour"),
        (&["help", "sessions"], "\n  ensure   Start a session here unless there is one"),
        (&["sessions", "--help"], "\n  ensure   Start a session here unless there is one"),
        (&["claude", "-s", "x", "sessions", "-h"], "\n  ensure   Start a session here unless there is one"),
        (&["claude", "sessions", "new", "--help"], "A name for the session, for several in one directory"),
        (&["help", "prompt"], "Send the conversation so far to a fresh session"),
        (&["help", "demo-agent"], "Do not offer session/load"),
        (&["--help"], "acpx --agent wss://"),
        (&["--help"], "ACPX_REMOTE_TOKEN"),
        (&["help", "prompt"], "begins with wss:// or ws:// (WebSocket),"),
        (&["help", "prompt"], "ACPX_REMOTE_TOKEN"),
        (&["sessions", "list", "-h"], "or connect to the agent at this URL"),
        (&["help", "sessions", "replay"], "acpx claude sessions replay --last 2 "),
        (&["help", "sessions", "watch"], "Without --from it begins with the next event"),
        (&["help", "sessions", "watch"], "acpx claude sessions watch --from start "),
        (&["help", "sessions", "ensure"], "acpx claude --model opus sessions ensure "),
        (&["help", "serve"], "acpx claude serve --listen "),
        (&["help", "token", "new"], "acpx token new --name laptop "),
        (&["help", "token", "new"], "ACPX_REMOTE_TOKEN"),
    ];
    for (line, part) in cases {
        match parsed(line) {
            Ok(Request::Help(text)) => assert!(text.contains(part), "{line:?}: {text}"),
            other => panic!("{line:?}: {other:?}"),
        }
    }
    let asked = |stdin| {
        parse::<CliError>(&[], &|_| Ok(KnownAgents::default()), ProgramTerminals { stdin, columns: None })
            .unwrap()
    };
    assert!(matches!(asked(true), Request::Help(_)), "nothing typed on a terminal asks for help");
    assert!(matches!(asked(false), Request::Run(_)), "nothing typed into a pipe is a prompt from stdin");
}

#[test]
fn version_needs_no_configuration() {
    let lines: [&[&str]; 5] = [
        &["--version"],
        &["-V"],
        &["--format", "json", "--version"],
        &["claude", "--version"],
        &["status", "--version"],
    ];
    for line in lines {
        let unread = |_: &str| panic!("the configuration is not needed");
        assert!(
            matches!(
                parse::<CliError>(&words(line), &unread, ProgramTerminals::default()),
                Ok(Request::Version)
            ),
            "{line:?}"
        );
    }
}

#[test]
fn configured_agents_are_read_only_for_unknown_words() {
    let broken = |_: &str| Err(CliError::NoHome);
    for line in [&["status"][..], &["claude", "x"], &["hello there"], &["sessions", "list"]] {
        assert!(
            matches!(parse(&words(line), &broken, ProgramTerminals::default()), Ok(Request::Run(_))),
            "{line:?}"
        );
    }
    assert!(matches!(
        parse(&words(&["mine", "x"]), &broken, ProgramTerminals::default()),
        Err(CliError::NoHome)
    ));
}

#[test]
fn format_flag_is_found_in_an_invalid_line() {
    let wish = |format, strict| RequestedFormat { format, strict, color: ColorMode::Auto };
    let cases: &[(&[&str], RequestedFormat)] = &[
        (&["--format", "json", "--bogus"], wish(Some(Format::Json), false)),
        (&["claude", "exec", "--bogus", "--format=quiet"], wish(Some(Format::Quiet), false)),
        (&["hepl", "--format", "json"], wish(Some(Format::Json), false)),
        (&["--json-strict", "status"], wish(None, true)),
        (&["--format", "xml", "status"], wish(None, false)),
        (&["claude", "fix", "--format", "json"], wish(Some(Format::Json), false)),
        (&["prompt", "--", "--format", "json"], wish(None, false)),
        (&["--cwd", "--format", "json"], wish(None, false)),
        (&["--format"], wish(None, false)),
        (
            &["--nope", "a", "--nope2", "b", "--format", "json", "--json-strict", "status"],
            wish(Some(Format::Json), true),
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(requested_format(&words(line)), *expected, "{line:?}");
    }
}

proptest! {
    #[test]
    fn no_arguments_make_the_parser_panic(
        line in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "claude", "mine", "prompt", "exec", "sessions", "new", "list", "history", "host", "status",
                    "help", "tour", "demo-agent", "--", "-", "-s", "--name", "--format", "json", "--agent",
                    "--cwd=", "--timeout", "--limit", "1e999", "-sx", "--json-strict", "-V", "-h", "--no-wait",
                ]).prop_map(str::to_owned),
                "\\PC{0,8}",
            ],
            0..8,
        ),
        terminal: bool,
    ) {
        let terminals = ProgramTerminals { stdin: terminal, columns: terminal.then_some(30) };
        drop(parse::<CliError>(&line, &configured, terminals));
        requested_format(&line);
    }

    #[test]
    fn known_flags_mean_the_same_anywhere_in_a_prompt(
        (text, flags, places) in (1_usize..5, 0_usize..5).prop_flat_map(|(words, flags)| (
            proptest::collection::vec("[a-z]{1,8}( [a-z]{1,8})?", words),
            proptest::collection::vec(proptest::sample::select(FLAGS_OF_A_PROMPT), flags),
            proptest::collection::vec(0..=words, flags),
        )),
    ) {
        // A first word that is or resembles a verb is not text.
        let text = [vec!["please".to_owned()], text].concat();
        let mut mixed: Vec<Vec<String>> = text.iter().map(|word| vec![word.clone()]).collect();
        let first = mixed.len();
        mixed.resize(first + 1, Vec::new());
        for (flag, place) in flags.iter().zip(&places) {
            mixed[place + 1].splice(0..0, words(flag));
        }
        let mixed: Vec<String> = [words(&["claude"]), mixed.concat()].concat();
        // Flags of one place were put before each other.
        let mut ordered: Vec<_> = flags.iter().zip(&places).collect();
        ordered.reverse();
        ordered.sort_by_key(|(_, place)| **place);
        let flags: Vec<String> = ordered.iter().flat_map(|(flag, _)| words(flag)).collect();
        let before = [words(&["claude"]), flags, words(&["--"]), text].concat();
        prop_assert_eq!(read(&mixed), read(&before), "{:?}", mixed);
    }

    #[test]
    fn words_after_two_hyphens_are_text(
        before in proptest::collection::vec("[a-z ]{0,8}", 0..3),
        after in proptest::collection::vec("-{0,2}\\PC{0,8}", 0..5),
    ) {
        let line = [words(&["claude", "please"]), before.clone(), words(&["--"]), after.clone()].concat();
        let expected = [words(&["please"]), before, after].concat();
        prop_assert_eq!(read(&line).map(|(_, command)| command), Ok(format!("{expected:?}")));
    }

    #[test]
    fn word_with_a_hyphen_is_a_flag_a_mistake_or_text(word in "--?[a-z]{1,12}") {
        let line = words(&["claude", "explain", &word, "to", "me"]);
        let text = format!("{:?}", words(&["explain", &word, "to", "me"]));
        let is_known = flags::Flag::of(&word) != flags::Flag::Unknown;
        let is_mistake = flags::nearest_flag(&word).is_some();
        if !is_known {
            prop_assert_eq!(read(&line).is_ok_and(|(_, command)| command == text), !is_mistake);
        } else if let Ok((_, command)) = read(&line) {
            prop_assert_ne!(command, text);
        }
    }
}

/// Flags that a prompt may have, with their values.
const FLAGS_OF_A_PROMPT: &[&[&str]] = &[
    &["--format", "json"],
    &["--format=quiet"],
    &["-s", "api"],
    &["-sother"],
    &["--approve-all"],
    &["--no-wait"],
    &["--image", "x.png"],
    &["--add-dir", "more"],
    &["--timeout", "5"],
    &["--model=--model"],
];

/// The options and the words of a prompt line; its error as text.
fn read(line: &[String]) -> Result<(CliOptions, String), String> {
    match parse::<CliError>(line, &|_| Ok(KnownAgents::default()), ProgramTerminals::default()) {
        Ok(Request::Run(invocation)) => match invocation.command {
            CliCommand::Prompt(prompt) => Ok((invocation.options, format!("{:?}", prompt.input.words))),
            other => Err(format!("{other:?}")),
        },
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn help_names_agents_and_the_flags_a_verb_uses() {
    let help = |line: &[&str]| match parsed(line) {
        Ok(Request::Help(text)) => text,
        other => panic!("{line:?}: {other:?}"),
    };
    let root = help(&["--help"]);
    for agent in ["claude", "opencode", "zeroclaw", "demo"] {
        assert!(root.split_whitespace().any(|word| word == agent), "{agent}: {root}");
    }
    for verb in [&["status"][..], &["sessions", "show"], &["sessions", "history"]] {
        let text = help(&[verb, &["--help"]].concat());
        assert!(text.contains("Usage: acpx [AGENT] ") && text.contains("--format"), "{text}");
        for flag in ["--approve-all", "--deny-all", "--ttl", "--mcp-config", "--add-dir", "--timeout"] {
            assert!(!text.contains(flag), "{flag}: {text}");
        }
        // They are taken all the same.
        invocation(&[verb, &["--approve-all", "--ttl", "5", "--timeout", "5"]].concat());
    }
    let prompt = help(&["prompt", "--help"]);
    assert!(prompt.contains("a running turn is cancelled") && prompt.contains("--approve-all"), "{prompt}");
    assert!(help(&["exec", "--help"]).contains("Words are text. A stdin that is a pipe or a file"));
    assert!(!help(&["-h"]).contains("Examples:"), "a summary is short");
    // What a flag means to a verb is said there.
    let exec = help(&["exec", "--help"]);
    assert!(
        !exec.contains("wait  the request stays pending") && !exec.contains("a stored session"),
        "{exec}"
    );
    let cancel = help(&["cancel", "--help"]);
    assert!(cancel.contains("Give up after this many seconds\n"), "{cancel}");
    let acp = help(&["acp", "--help"]);
    assert!(acp.contains("--deny-all") && acp.contains("Cancel a turn that takes longer"), "{acp}");
    let sessions = help(&["sessions", "--help"]);
    assert!(sessions.contains("Usage: acpx [AGENT] sessions [COMMAND] [FLAGS]"), "{sessions}");
    assert!(sessions.contains("acpx claude sessions --format json"), "{sessions}");
}
