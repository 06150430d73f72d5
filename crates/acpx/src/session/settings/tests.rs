use std::fs;

use acpx_core::model::{PermissionMode, PermissionPolicy};

use super::*;
use crate::cli::Format;

fn config(text: &str) -> Config {
    Config::parse(Path::new("/h/config.json"), text).unwrap()
}

fn with_flags(flags: SessionArgs) -> CliOptions {
    CliOptions { flags, ..CliOptions::default() }
}

fn settled(options: &CliOptions, text: &str) -> CommandSettings {
    CommandSettings::new(options, &config(text)).unwrap()
}

fn refused(options: &CliOptions, text: &str) -> String {
    CommandSettings::new(options, &config(text)).unwrap_err().message()
}

#[test]
fn flags_override_the_configuration_and_the_defaults() {
    let configured =
        r#"{"defaultAgent":"gemini","defaultPermissions":"deny-all","ttl":7,"timeout":9,"format":"quiet"}"#;
    let mut flags = SessionArgs {
        output: OutputArgs { format: Some(Format::Json), json_strict: true, ..OutputArgs::default() },
        timeout: Some(Duration::from_secs(1)),
        ttl: Some(Duration::ZERO),
        ..SessionArgs::default()
    };
    flags.permissions.approve_all = true;
    let typed = CliOptions { agent: AgentChoice::Line("mine 'a b'".to_owned()), session: None, flags };
    let seen = |settings: CommandSettings| {
        let CommandSettings { mode, agent, policy, timeout, ttl, .. } = settings;
        (
            mode.format,
            agent.key().to_string(),
            policy.mode,
            timeout.map(|time| time.as_secs()),
            ttl.map(|time| time.as_secs()),
        )
    };
    let none = CliOptions::default();
    assert_eq!(
        seen(settled(&none, "{}")),
        (Format::Text, "codex".to_owned(), PermissionMode::ApproveReads, None, None)
    );
    assert_eq!(
        seen(settled(&none, configured)),
        (Format::Quiet, "gemini".to_owned(), PermissionMode::DenyAll, Some(9), Some(7))
    );
    let expected =
        (Format::Json, r#"["mine","a b"]"#.to_owned(), PermissionMode::ApproveAll, Some(1), Some(0));
    assert_eq!(seen(settled(&typed, configured)), expected);
    assert_eq!(settled(&typed, "{}").typed_agent(), r"--agent 'mine '\''a b'\'''");
    assert_eq!(settled(&none, "{}").typed_agent(), "codex");
}

#[test]
fn deny_all_ignores_configured_rules_but_not_typed_ones() {
    let configured = r#"{"permissionPolicy":{"autoApprove":["*"]}}"#;
    let mut denying = CliOptions::default();
    denying.flags.permissions.deny_all = true;
    let PermissionPolicy { mode, tools, .. } = settled(&denying, configured).policy;
    assert_eq!((mode, tools), (PermissionMode::DenyAll, None));
    denying.flags.policy.permission_policy = Some(r#"{"autoApprove":["read"]}"#.to_owned());
    assert!(settled(&denying, configured).policy.tools.is_some());
    assert!(settled(&CliOptions::default(), configured).policy.tools.is_some());
}

#[test]
fn strict_output_needs_json_typed_or_configured() {
    let strict = OutputArgs { format: None, json_strict: true, ..OutputArgs::default() };
    assert_eq!(mode(strict, &config("{}")).unwrap_err().message(), "--json-strict needs --format json");
    let json = OutputMode::of_program(Format::Json, strict);
    assert_eq!(mode(strict, &config(r#"{"format":"json"}"#)).unwrap(), json);
}

#[test]
fn a_default_agent_that_is_none_is_named_with_its_file() {
    let message = "there is no agent named \"nobody\", which /h/config.json has as defaultAgent";
    assert_eq!(refused(&CliOptions::default(), r#"{"defaultAgent":"nobody"}"#), message);
    let own = r#"{"defaultAgent":"mine","agents":{"mine":{"argv":["x"]}}}"#;
    assert_eq!(settled(&CliOptions::default(), own).agent, AgentSpec::new("x", [""; 0]).named("mine"));
    let line = CliOptions { agent: AgentChoice::Line("a 'b".to_owned()), ..CliOptions::default() };
    assert_eq!(refused(&line, "{}"), "the command line of --agent has an unterminated quote");
}

#[test]
fn parent_components_are_resolved_through_symlinks() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
    let resolved = |typed: &str| {
        let cwd = Some(root.join(typed));
        settled(&with_flags(SessionArgs { cwd, ..SessionArgs::default() }), "{}").cwd.as_path().to_owned()
    };
    for (typed, expected) in [
        ("a/b/..", "a"),
        ("a/b/../../a/b/c", "a/b/c"),
        ("link/c/..", "link"),
        ("link/..", "a"),
        ("a/../link", "link"),
    ] {
        assert_eq!(resolved(typed), root.join(expected), "{typed}");
    }
    let gone = with_flags(SessionArgs { cwd: Some(root.join("none/..")), ..SessionArgs::default() });
    assert!(matches!(
        CommandSettings::new(&gone, &Config::default()),
        Err(CliError::Directory { path, .. }) if path == root.join("none/..")
    ));
    let both = [
        (gone, "name a directory that exists with --cwd"),
        (
            with_flags(SessionArgs { add_dir: vec!["/no/such".into()], ..SessionArgs::default() }),
            "name a directory that exists with --add-dir",
        ),
    ];
    for (options, hint) in both {
        let error = CommandSettings::new(&options, &Config::default()).unwrap_err();
        assert_eq!(error.hint().as_deref(), Some(hint));
    }
}

#[test]
fn an_absolute_directory_stays_as_typed_and_a_relative_one_is_resolved() {
    let home = tempfile::tempdir().unwrap();
    let typed = format!("{}//./", home.path().display());
    let at = |cwd: &str| with_flags(SessionArgs { cwd: Some(cwd.into()), ..SessionArgs::default() });
    assert_eq!(settled(&at(&typed), "{}").cwd.as_str(), typed);
    let here = std::env::current_dir().unwrap();
    assert_eq!(settled(&at("src/."), "{}").cwd.as_path(), here.join("src"));
    assert_eq!(settled(&CliOptions::default(), "{}").cwd.as_path(), here);

    fs::write(home.path().join("file"), "").unwrap();
    let file = home.path().join("file");
    let message = format!("cannot work in {}: it is not a directory", file.display());
    assert_eq!(refused(&at(file.to_str().unwrap()), "{}"), message);
    let message = format!("cannot work in {}: No such file or directory", here.join("nowhere").display());
    assert_eq!(refused(&at("nowhere"), "{}"), message);
}

#[test]
fn mcp_servers_come_from_the_flag_or_the_configuration() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("m.json"), r#"{"mcpServers":[{"name":"a","type":"http","url":"u"}]}"#)
        .unwrap();
    let configured = config(r#"{"mcpServers":[{"name":"b","type":"sse","url":"u"}]}"#);
    let options = with_flags(SessionArgs { cwd: Some(home.path().to_owned()), ..SessionArgs::default() });
    let settings = CommandSettings::new(&options, &configured).unwrap();
    assert_eq!(settings.mcp_servers(&options, &configured).unwrap(), McpFile::of(&configured));
    let typed = with_flags(SessionArgs { mcp_config: Some("m.json".into()), ..options.flags });
    let expected = McpFile::load(home.path().join("m.json")).unwrap();
    assert_eq!(settings.mcp_servers(&typed, &configured).unwrap(), expected);
}

#[test]
fn agent_defaults_of_a_bridge_apply_to_that_agent_only() {
    let pairs = |variables: &[(&str, &str)]| -> Pairs {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    let bridged = |choice: AgentChoice, text: &str, shell: &[(&str, &str)]| {
        settled(&CliOptions { agent: choice, ..CliOptions::default() }, text).environments(&pairs(shell))
    };
    let own = |name: &str, variables: &[(&str, &str)]| BTreeMap::from([(name.to_owned(), pairs(variables))]);
    let named = |name: &str| AgentChoice::Named(name.to_owned());
    let configured = r#"{"agents":{"mine":{"argv":["m"]},"grok-build":{"env":{"XAI_API_KEY":"set"}}}}"#;
    let set = [("XAI_API_KEY", "set"), ("ACPX_AUTH_XAI_API_KEY", "set")];
    let (home, key) = (("HOME", "/h"), ("XAI_API_KEY", "x"));
    let follows = [("ACPX_AUTH_XAI_API_KEY", "x")];
    for name in ["mine", "grok-build"] {
        let settings = bridged(named(name), configured, &[home]);
        assert_eq!(settings, (pairs(&[home]), own("grok-build", &set)), "{name}");
        let settings = bridged(named(name), r#"{"agents":{"mine":{"argv":["m"]}}}"#, &[home, key]);
        assert_eq!(settings, (pairs(&[home, key]), own("grok-build", &follows)), "{name}");
    }
    let line = AgentChoice::Line("grok agent stdio".to_owned());
    let settings = bridged(line, "{}", &[home, key]);
    assert_eq!(settings, (pairs(&[home, key, follows[0]]), BTreeMap::new()));
}

#[test]
fn home_keys_of_a_projects_configuration_are_reported_with_their_place() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join(".acpxrc.json");
    std::fs::write(&file, r#"{"index":{},"tll":1}"#).unwrap();
    let config = Config::load_for(&root.path().join("home"), root.path()).unwrap();
    let words = unread_keys(&config, None).unwrap();
    let expected = ": nothing reads index (it belongs in config.json of ACPX_HOME), tll (did you mean ttl?)";
    assert!(words.ends_with(expected), "{words}");
}
