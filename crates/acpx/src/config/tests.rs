use std::fs;
use std::os::unix::fs::PermissionsExt;

use acpx_core::model::{AbsolutePath, LoadWait, McpServer, McpTransport, NamedValue};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("/h/config.json"), text)
}

/// The error of a file, or else of one of its agents.
fn whole_error(text: &str) -> String {
    match parse(text) {
        Ok(config) => config.wrong_agents().next().unwrap().1.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The same without the kind that was found.
fn wrong(text: &str) -> String {
    let error = whole_error(text);
    error.split_once("; found ").map_or(error.clone(), |(expected, _)| expected.to_owned())
}

#[test]
fn configuration_error_names_the_found_kind_or_the_possible_values() {
    let cases = [
        (r#"{"ttl":"s3cret"}"#, "ttl must be a number of seconds, 0 or more; found a string"),
        (r#"{"ttl":null}"#, "ttl must be a number of seconds, 0 or more; found nothing"),
        (r#"{"format":7}"#, "format must be \"text\", \"json\" or \"quiet\"; found a number"),
        (r#"{"disableExec":{}}"#, "disableExec must be true or false; found an object"),
        (r#"{"keepPrograms":true}"#, "keepPrograms must be an array; found a boolean"),
        (
            r#"{"agents":{"a":{"argv":[" "]}}}"#,
            "agents.a.argv[0] must be a non-empty string; found an empty string",
        ),
        (r#"{"mcpServers":[{}]}"#, "mcpServers[0].name must be a non-empty string; found nothing"),
        (r#"{"defaultAgent":["s3cret"]}"#, "defaultAgent must be a non-empty string; found an array"),
        // Of a value of the right kind, the possible values are enough.
        (r#"{"format":"s3cret"}"#, "format must be \"text\", \"json\" or \"quiet\""),
        (
            r#"{"defaultPermissions":"s3cret"}"#,
            "defaultPermissions must be \"approve-all\", \"approve-reads\" or \"deny-all\"",
        ),
        (r#"{"ttl":-1}"#, "ttl must be a number of seconds, 0 or more"),
        (
            r#"{"maxCost":{"currency":"s3cret"}}"#,
            "maxCost.currency must be a code of three letters, such as EUR",
        ),
        (r#"{"agents":{"a":{"argv":["x"],"protocol":3}}}"#, "agents.a.protocol must be 1 or 2"),
    ];
    for (text, message) in cases {
        assert_eq!(whole_error(text), format!("/h/config.json: {message}"), "{text}");
    }
}

#[test]
fn every_key_is_read_and_unknown_ones_are_named_and_left_alone() {
    let text = r#"{
        "defaultAgent": " Claude ", "defaultPermissions": "deny-all", "nonInteractivePermissions": "fail",
        "authPolicy": "skip", "ttl": 0, "timeout": 1.5, "idleTimeout": 0.5, "queueMaxDepth": 16, "format": "json",
        "agents": {"A": {"argv": ["a", ""]}, "claude": {"protocol": 2}}, "auth": {"api-key": "s3cret"}, "disableExec": true,
        "maxCost": {"turn": 0.5, "session": 5}, "maxTokens": {"session": 100},
        "keepPrograms": ["tmux: server"], "mcpServers": [], "recall": true, "permissionPolicy": {"autoDeny": ["bash"]}, "fromTheFuture": [null]
    }"#;
    let layers = parse(text).unwrap().layers;
    let expected = Config {
        layers: layers.clone(),
        project: None,
        default_agent: Some("claude".to_owned()),
        mode: Some(PermissionMode::DenyAll),
        unattended: Some(UnattendedPolicy::Fail),
        tool_policy: Some(ToolPolicy::parse(r#"{"autoDeny":["bash"]}"#).unwrap()),
        ttl: Some(Duration::ZERO),
        timeout: Some(Duration::from_millis(1500)),
        idle_timeout: Some(Duration::from_millis(500)),
        spending: SpendingLimits {
            turn: Budget { cost: Money::of(0.5, "USD"), tokens: None },
            session: Budget { cost: Money::of(5.0, "USD"), tokens: Some(100) },
        },
        queue_depth: Some(16),
        format: Some(Format::Json),
        disable_exec: true,
        home: HomeSettings { keep_programs: vec!["tmux: server".to_owned()], ..HomeSettings::default() },
        mcp: McpSettings { servers: Vec::new(), recall: true },
        login: Some(LoginPolicy::Skip),
        credentials: [("api-key".to_owned(), "s3cret".to_owned())].into_iter().collect(),
        agents: [
            (
                "a".to_owned(),
                Ok(AgentEntry { argv: Some(vec!["a".to_owned(), String::new()]), ..AgentEntry::default() }),
            ),
            (
                "claude".to_owned(),
                Ok(AgentEntry { protocol: Some(ProtocolVersion::V2), ..AgentEntry::default() }),
            ),
        ]
        .into(),
        unknown: vec!["fromTheFuture".to_owned()],
    };
    assert_eq!(parse(text).unwrap(), expected);
    assert_eq!((layers.global.file.as_path(), layers.project), (Path::new("/h/config.json"), None));
    let config = parse("\u{feff}{\"timeout\":null,\"idleTimeout\":null}").unwrap();
    assert_eq!(config, Config { layers: config.layers.clone(), ..Config::default() });
}

#[test]
fn wrong_type_error_names_file_and_key_but_no_value() {
    let cases = [
        ("[]", "the file must be an object"),
        (r#"{"defaultAgent":" "}"#, "defaultAgent must be a non-empty string"),
        (
            r#"{"defaultPermissions":"s3cret"}"#,
            "defaultPermissions must be \"approve-all\", \"approve-reads\" or \"deny-all\"",
        ),
        (
            r#"{"nonInteractivePermissions":1}"#,
            "nonInteractivePermissions must be \"deny\", \"fail\" or \"wait\"",
        ),
        (r#"{"permissionPolicy":"s3cret"}"#, "permissionPolicy must be a JSON object"),
        (
            r#"{"permissionPolicy":{"escalate":[7]}}"#,
            "permissionPolicy.escalate[0] must be a non-empty string",
        ),
        (r#"{"authPolicy":"s3cret"}"#, "authPolicy must be \"skip\" or \"fail\""),
        (r#"{"ttl":-1}"#, "ttl must be a number of seconds, 0 or more"),
        (r#"{"timeout":0}"#, "timeout must be a number of seconds above 0, or null"),
        (r#"{"queueMaxDepth":1.5}"#, "queueMaxDepth must be a whole number above 0"),
        (r#"{"format":"xml"}"#, "format must be \"text\", \"json\" or \"quiet\""),
        (r#"{"disableExec":"yes"}"#, "disableExec must be true or false"),
        (r#"{"auth":{"key":["s3cret"]}}"#, "auth.key must be a string"),
        (r#"{"mcpServers":{"a":{}}}"#, "mcpServers must be an array"),
        (r#"{"mcpServers":[{"command":"x"}]}"#, "mcpServers[0].name must be a non-empty string"),
        (
            r#"{"mcpServers":[{"name":"a","type":"s3cret"}]}"#,
            "mcpServers[0].type must be \"stdio\", \"http\" or \"sse\"",
        ),
        (
            r#"{"mcpServers":[{"name":"a","command":"x","env":{"K":"s3cret"}}]}"#,
            "mcpServers[0].env must be an array",
        ),
        (
            r#"{"mcpServers":[{"name":"a","command":"x","env":[{"name":"K","value":"s3cret"},{"name":"K","value":""}]}]}"#,
            "mcpServers[0].env must be variables with different names",
        ),
        (
            r#"{"mcpServers":[{"name":"a","command":"x","env":[{"name":"K","value":7}]}]}"#,
            "mcpServers[0].env[0].value must be a string",
        ),
        (r#"{"mcpServers":[{"name":"a","command":"x","args":"y"}]}"#, "mcpServers[0].args must be an array"),
        (r#"{"mcpServers":[{"name":"a","type":"http"}]}"#, "mcpServers[0].url must be a non-empty string"),
        (
            r#"{"mcpServers":[{"name":"a","command":"x"},{"name":"a","command":"y"}]}"#,
            "mcpServers[1].name must be a name that no other server has",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(wrong(text), format!("/h/config.json: {message}"), "{text}");
    }
    assert_eq!(wrong("{\"a\":s3cret}"), "/h/config.json is not JSON: expected value at line 1 column 6");
}

#[test]
fn a_wrong_type_of_an_agent_is_named_likewise() {
    let cases = [
        (
            r#"{"agents":{"foo":"s3cret"}}"#,
            "agents.foo must be an object with \"argv\", with \"command\" and perhaps \"args\", or with \"url\" and perhaps \"tokenFile\"",
        ),
        (r#"{"agents":{"foo":{"argv":["a",1]}}}"#, "agents.foo.argv[1] must be a string"),
        (r#"{"agents":{"foo":{"argv":[]}}}"#, "agents.foo.argv must be an array with at least the program"),
        (
            r#"{"agents":{"foo":{"argv":["a"],"args":[]}}}"#,
            "agents.foo must be an object with \"argv\", with \"command\" and perhaps \"args\", or with \"url\" and perhaps \"tokenFile\"",
        ),
        (
            r#"{"agents":{"foo":{"command":"a 's3cret"}}}"#,
            "agents.foo.command must be a command line; it has an unterminated quote",
        ),
        (
            r#"{"agents":{"foo":{"command":"a b","args":[]}}}"#,
            "agents.foo.command must be one program without spaces or quotes, since \"args\" has the arguments",
        ),
        (
            r#"{"agents":{"foo":{"url":"s3cret"}}}"#,
            "agents.foo.url must be a URL that begins with wss://, ws://, https:// or http://",
        ),
        (
            r#"{"agents":{"foo":{"url":"wss://x","argv":["a"]}}}"#,
            "agents.foo must be an object with \"argv\", with \"command\" and perhaps \"args\", or with \"url\" and perhaps \"tokenFile\"",
        ),
        (
            r#"{"agents":{"foo":{"url":"wss://x","tokenFile":7}}}"#,
            "agents.foo.tokenFile must be a non-empty string",
        ),
        (
            r#"{"agents":{"foo":{"url":"wss://x","tokenFile":"token"}}}"#,
            "agents.foo.tokenFile must be an absolute path",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(wrong(text), format!("/h/config.json: {message}"), "{text}");
    }
}

#[test]
fn agent_profiles_are_read_and_wrong_members_are_named() {
    let text =
        r#"{"agents":{"Gemini":{"profile":{"waitBeforeLoad":"none"}},"mine":{"argv":["m"],"profile":{}}}}"#;
    let config = parse(text).unwrap();
    let expected = AgentProfile { wait_before_load: Some(LoadWait::None), ..AgentProfile::default() };
    assert_eq!((config.profile("gemini").as_deref(), config.agent("gemini")), (Some(&expected), Ok(None)));
    assert_eq!(config.profile("mine").as_deref(), Some(&AgentProfile::default()));
    assert_eq!(config.agent_names(), ["mine"]);
    let cases = [
        (r#"{"profile":7}"#, "agents.foo.profile must be an object"),
        (
            r#"{"profile":{"errors":[{"code":1,"reading":"s3cret"}]}}"#,
            "agents.foo.profile.errors[0].reading must be \"lost\", \"busy-elsewhere\", \"login-needed\", \"worker-died\" or \"broken\"",
        ),
        (
            r#"{"profile":{"ignoresTerminate":1}}"#,
            "agents.foo.profile.ignoresTerminate must be true or false",
        ),
    ];
    for (text, message) in cases {
        let error = wrong(&format!(r#"{{"agents":{{"foo":{text}}}}}"#));
        assert_eq!(error, format!("/h/config.json: {message}"), "{text}");
    }
}

#[test]
fn a_version_that_is_not_spoken_is_no_protocol_of_an_agent() {
    for text in [r#"{"argv":["a"],"protocol":3}"#, r#"{"protocol":"2"}"#, r#"{"protocol":0}"#] {
        let message = wrong(&format!(r#"{{"agents":{{"foo":{text}}}}}"#));
        assert_eq!(message, "/h/config.json: agents.foo.protocol must be 1 or 2", "{text}");
    }
}

#[test]
fn missing_config_is_empty_and_unreadable_config_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.json");
    let global = Layer { file: file.clone(), ..Layer::default() };
    let nothing = Config { layers: Layers { global, project: None }, ..Config::default() };
    assert_eq!(Config::load(home.path()).unwrap(), nothing);
    fs::create_dir(&file).unwrap();
    let error = Config::load(home.path()).unwrap_err();
    assert_eq!(
        (error.to_string(), error.code().as_str()),
        (format!("cannot read {}", file.display()), "CONFIG_UNREADABLE")
    );
}

#[test]
fn servers_are_given_as_the_file_has_them_with_their_programs_found() {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for (name, mode) in [("tool", 0o755), ("notes", 0o644)] {
        fs::write(bin.join(name), "").unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let text = r#"{"mcpServers":[
        {"name":"a","command":"tool","args":["x"],"env":[{"name":"K","value":"s3cret"}],"_meta":{}},
        {"name":"b","type":"stdio","command":"bin/tool"},
        {"name":"c","type":"http","url":"http://x/mcp","headers":[{"name":"A","value":"s3cret"}]},
        {"name":"d","type":"sse","url":"http://x/sse"}]}"#;
    let file = McpFile::parse("/m.json".into(), text).unwrap();
    let around = ProgramSearch { cwd: home.path(), path: Some(bin.as_os_str()) };
    let command = AbsolutePath::from_path(&bin.join("tool")).unwrap();
    let value = |name: &str| NamedValue { name: name.to_owned(), value: "s3cret".to_owned() };
    let server = |name: &str, transport| McpServer::new(name, transport);
    let expected = [
        server(
            "a",
            McpTransport::Stdio { command: command.clone(), args: vec!["x".into()], env: vec![value("K")] },
        ),
        server("b", McpTransport::Stdio { command, args: Vec::new(), env: Vec::new() }),
        server("c", McpTransport::Http { url: "http://x/mcp".into(), headers: vec![value("A")] }),
        server("d", McpTransport::Sse { url: "http://x/sse".into(), headers: Vec::new() }),
    ];
    assert_eq!(file.servers(around).unwrap(), expected);
    assert!(!format!("{file:?}").contains("s3cret"), "secrets are not printed");

    for command in ["notes", "nothing", "bin/notes", "/nowhere/tool"] {
        let text = format!(r#"{{"mcpServers":[{{"name":"a","command":"{command}"}}]}}"#);
        let error = McpFile::parse("/m.json".into(), &text).unwrap().servers(around).unwrap_err();
        let message = format!("/m.json: the command {command:?} of the MCP server \"a\" was not found");
        assert_eq!((error.to_string(), error.code().as_str()), (message, "MCP_COMMAND_NOT_FOUND"));
    }
}

#[test]
fn the_file_of_servers_must_be_there_and_have_them() {
    let error = McpFile::load("/nowhere/m.json".into()).unwrap_err();
    assert_eq!(error.to_string(), "there is no file /nowhere/m.json");
    let error = McpFile::parse("/m.json".into(), "{}").unwrap_err();
    assert_eq!(error.to_string(), "/m.json: mcpServers must be an array; found nothing");
}

#[test]
fn a_wrong_entry_is_an_error_for_its_agent_alone() {
    let text = r#"{"agents":{"nof":{"command":"a b","args":[]},"mine":{"argv":["m"]}}}"#;
    let config = parse(text).unwrap();
    assert_eq!(config.agent("mine"), Ok(Some(&["m".to_owned()][..])));
    let wrong = config.agent("nof").unwrap_err();
    let words = "one program without spaces or quotes, since \"args\" has the arguments";
    assert_eq!(wrong.to_string(), format!("/h/config.json: agents.nof.command must be {words}"));
    assert_eq!(config.wrong_agents().collect::<Vec<_>>(), [("nof", wrong)]);
    // It can be named, which reports what is wrong with it.
    assert_eq!(config.agent_names(), ["mine", "nof"]);
}

#[test]
fn unknown_config_keys_are_named_without_values() {
    let text = r#"{"defaultPermision":"s3cret","agents":{
        "mine":{"argv":["m"],"evn":{"A":"s3cret"},"profile":{"bogus":1,"errors":[{"code":1,"reading":"lost","x":2}]}},
        "other":{"argv":["o"],"cwd":"/"},"sessions":{"argv":["s"]},"config":{"argv":["f"]}}}"#;
    let config = parse(text).unwrap();
    let mine = [
        "defaultPermision",
        "agents.mine.evn",
        "agents.mine.profile.bogus",
        "agents.mine.profile.errors[0].x",
    ];
    let keys = |agent| config.unknown_keys(agent).into_iter().map(|(_, key)| key).collect::<Vec<_>>();
    assert_eq!(keys(Some("mine")), mine);
    assert_eq!(keys(None), [&mine[..], &["agents.other.cwd"]].concat());
    assert_eq!(config.unreachable_agents().collect::<Vec<_>>(), ["config", "sessions"]);
    let npm = r#"{"defaultAgent":"codex","defaultPermissions":"approve-all","nonInteractivePermissions":"deny",
        "authPolicy":"skip","ttl":300,"timeout":null,"queueMaxDepth":16,"format":"text","agents":{},"auth":{},
        "disableExec":false,"mcpServers":[]}"#;
    assert_eq!(parse(npm).unwrap().unknown_keys(None), []);
}

#[test]
fn agent_environment_replaces_inherited_variables_and_is_not_printed() {
    let text = r#"{"agents":{"claude":{"env":{"FOO":"s3cret","EMPTY":""}}}}"#;
    let config = parse(text).unwrap();
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    let there = pairs(&[("FOO", "old"), ("HOME", "/h")]);
    let expected = pairs(&[("HOME", "/h"), ("EMPTY", ""), ("FOO", "s3cret")]);
    assert_eq!(config.variables()["claude"].over(there), expected);
    assert_eq!((config.agent("claude"), config.unknown_keys(None)), (Ok(None), Vec::new()));
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
    for (env, message) in [
        (r#"["A=b"]"#, "agents.a.env must be an object of strings"),
        (r#"{"A":1}"#, "agents.a.env.A must be a string"),
        (
            r#"{"A=B":"s3cret"}"#,
            "agents.a.env.A=B must be under a name that a variable can have, without \"=\"",
        ),
    ] {
        let error = wrong(&format!(r#"{{"agents":{{"a":{{"argv":["a"],"env":{env}}}}}}}"#));
        assert_eq!(error, format!("/h/config.json: {message}"));
    }
}

#[test]
fn secret_env_names_the_variables_of_an_agent_that_are_secrets() {
    let config =
        parse(r#"{"agents":{"claude":{"secretEnv":["LICENCE","HOME"]},"codex":{"env":{"A":"b"}}}}"#).unwrap();
    let secrets = |agent: &str| config.variables()[agent].secrets();
    assert_eq!((secrets("claude"), secrets("codex")), (vec!["LICENCE".into(), "HOME".into()], Vec::new()));
    assert_eq!((config.agent("claude"), config.unknown_keys(None)), (Ok(None), Vec::new()));
    let name = "must be a name that a variable can have, without \"=\"";
    for (names, message) in [
        (r#"{"LICENCE":true}"#, "secretEnv must be an array of names of variables".to_owned()),
        (r#""LICENCE""#, "secretEnv must be an array of names of variables".to_owned()),
        (r#"["LICENCE",7]"#, format!("secretEnv[1] {name}")),
        (r#"["LICENCE=s3cret"]"#, format!("secretEnv[0] {name}")),
        (r#"[""]"#, format!("secretEnv[0] {name}")),
    ] {
        let error = wrong(&format!(r#"{{"agents":{{"a":{{"argv":["a"],"secretEnv":{names}}}}}}}"#));
        assert_eq!(error, format!("/h/config.json: agents.a.{message}"));
    }
}
