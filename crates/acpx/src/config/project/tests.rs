use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use serde_json::json;

use super::super::HomeSettings;
use super::*;

/// A repository with a file, and a home.
struct Project {
    top: tempfile::TempDir,
}

impl Project {
    fn new(text: &str) -> Self {
        let top = tempfile::tempdir().unwrap();
        for directory in ["home", "repository/.git", "repository/sub/deep"] {
            fs::create_dir_all(top.path().join(directory)).unwrap();
        }
        let project = Self { top };
        project.write(text);
        project
    }

    fn root(&self) -> PathBuf {
        self.top.path().canonicalize().unwrap()
    }

    fn file(&self) -> PathBuf {
        self.root().join("repository/.acpxrc.json")
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
        self.set_mode(0o644);
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.file(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn configure(&self, text: &str) {
        fs::write(self.root().join("home/config.json"), text).unwrap();
    }

    fn trusted(&self) -> TrustedFiles {
        TrustedFiles::of(&self.root().join("home"))
    }

    fn trust(&self) {
        let bytes = fs::read(self.file()).unwrap();
        self.trusted().pin(self.file().to_str().unwrap(), &bytes, [].into()).unwrap();
    }

    fn load(&self) -> Result<Config, ConfigError> {
        Config::load_for(&self.root().join("home"), &self.root().join("repository/sub/deep"))
    }

    fn state(&self) -> ProjectState {
        self.load().unwrap().project.unwrap().state
    }
}

const EVERYTHING: &str = r#"{"defaultAgent":"claude","defaultPermissions":"approve-all",
    "nonInteractivePermissions":"fail","permissionPolicy":{"autoApprove":["*"]},"ttl":1,"timeout":2,"idleTimeout":3,
    "format":"json","disableExec":true,"mcpServers":[{"name":"x","command":"evil"}],"authPolicy":"fail",
    "auth":{"key":"s3cret"},"agents":{"mine":{"argv":["./evil"]}},"queueMaxDepth":4,"keepPrograms":["x"],
    "index":{"exclude":["/"]}}"#;

#[test]
fn harmless_project_keys_hold_at_once_and_others_after_trust() {
    let project = Project::new(EVERYTHING);
    let keys =
        ["agents", "auth", "authPolicy", "defaultPermissions", "format", "mcpServers", "permissionPolicy"];
    let keys = keys.map(str::to_owned).to_vec();
    let config = project.load().unwrap();
    let found = config.project.clone().unwrap();
    assert_eq!(found.state, ProjectState::Withheld { keys, has_changed: false });
    assert_eq!(found.unknown, ["keepPrograms", "index"]);
    let untrusted = Config {
        layers: config.layers.clone(),
        project: config.project.clone(),
        default_agent: Some("claude".to_owned()),
        unattended: Some(UnattendedPolicy::Fail),
        ttl: Some(std::time::Duration::from_secs(1)),
        timeout: Some(std::time::Duration::from_secs(2)),
        idle_timeout: Some(std::time::Duration::from_secs(3)),
        queue_depth: Some(4),
        disable_exec: true,
        ..Config::default()
    };
    assert_eq!(config, untrusted);

    project.trust();
    let config = project.load().unwrap();
    assert_eq!(config.project.as_ref().unwrap().state, ProjectState::InForce);
    assert_eq!(config.agent("mine"), Ok(Some(&["./evil".to_owned()][..])));
    assert_eq!((config.mcp.servers.len(), config.mode.is_some()), (1, true));
    assert_eq!(config.home, HomeSettings::default());
    assert_eq!(config.layers.file_of("mcpServers"), project.file());
}

#[test]
fn changed_project_file_loses_its_trust() {
    let project = Project::new(r#"{"agents":{"mine":{"argv":["a"]}},"ttl":1}"#);
    project.trust();
    project.write(r#"{"agents":{"mine":{"argv":["b"]}},"ttl":2}"#);
    let config = project.load().unwrap();
    let keys = vec!["agents".to_owned()];
    let found = config.project.clone().unwrap();
    assert_eq!(found.state, ProjectState::Withheld { keys, has_changed: true });
    assert_eq!((config.agent("mine"), config.ttl), (Ok(None), Some(std::time::Duration::from_secs(2))));
    let file = project.file();
    let notice = format!(
        "{} has changed since it was trusted; not in force: agents; to review and allow it: acpx trust",
        file.display()
    );
    assert_eq!(found.notice(), Some(notice));
    // The content that was trusted is trusted again.
    project.write(r#"{"agents":{"mine":{"argv":["a"]}},"ttl":1}"#);
    assert_eq!(project.state(), ProjectState::InForce);
    assert!(project.trusted().revoke(file.to_str().unwrap()).unwrap());
    assert!(matches!(project.state(), ProjectState::Withheld { has_changed: false, .. }));
    // A damaged list trusts nothing.
    project.trust();
    fs::write(project.root().join("home/trusted.json"), "{").unwrap();
    assert!(matches!(project.state(), ProjectState::Withheld { .. }));
}

#[test]
fn project_values_override_global_ones_by_presence_and_per_agent() {
    let project = Project::new(
        r#"{"timeout":null,"mcpServers":[],"agents":{"Mine":{"argv":["of-project"]}},"auth":{"b":"2"}}"#,
    );
    project.configure(
        r#"{"timeout":9,"ttl":8,"mcpServers":[{"name":"x","command":"y"}],"auth":{"a":"1","b":"1"},
            "agents":{"mine":{"argv":["global"]},"other":{"argv":["other"]}}}"#,
    );
    project.trust();
    let config = project.load().unwrap();
    assert_eq!((config.timeout, config.ttl), (None, Some(std::time::Duration::from_secs(8))));
    assert_eq!(config.mcp.servers, []);
    assert_eq!(config.agent("mine"), Ok(Some(&["of-project".to_owned()][..])));
    assert_eq!(config.agent("other"), Ok(Some(&["other".to_owned()][..])));
    let credentials = [("a", "1"), ("b", "2")].map(|(id, value)| (id.to_owned(), value.to_owned()));
    assert_eq!(config.credentials, credentials.into_iter().collect());
    let origins = ["timeout", "ttl", "format", "agents.mine", "agents.other", "auth.a", "auth.b"]
        .map(|key| config.layers.origin(key).as_str());
    assert_eq!(origins, ["project", "global", "built-in", "project", "global", "global", "project"]);
}

#[test]
fn a_default_agent_and_a_policy_hold_only_if_they_loosen_nothing() {
    let global = |text: &str| Config::parse(Path::new("/h/config.json"), text).unwrap();
    let cases = [
        ("defaultAgent", json!("demo"), "{}", true),
        ("defaultAgent", json!("mine"), "{}", false),
        ("defaultAgent", json!(" MINE "), r#"{"agents":{"mine":{"argv":["m"]}}}"#, true),
        ("nonInteractivePermissions", json!("fail"), "{}", true),
        ("nonInteractivePermissions", json!("deny"), "{}", true),
        ("nonInteractivePermissions", json!("wait"), "{}", false),
        ("nonInteractivePermissions", json!("wait"), r#"{"nonInteractivePermissions":"wait"}"#, true),
        ("nonInteractivePermissions", json!("deny"), r#"{"nonInteractivePermissions":"fail"}"#, false),
        ("disableExec", json!(true), "{}", true),
        ("disableExec", json!(false), "{}", false),
        ("recall", json!(true), "{}", false),
        ("recall", json!(false), "{}", true),
        ("agents", json!({}), "{}", true),
        ("defaultPermissions", json!("deny-all"), "{}", false),
        ("mcpServers", json!([]), "{}", false),
    ];
    for (key, value, text, expected) in cases {
        assert_eq!(is_harmless(key, &value, &global(text)), expected, "{key} {value} {text}");
    }
}

#[test]
fn project_file_is_found_up_to_the_repository_root() {
    let project = Project::new("{}");
    let root = project.root();
    let deep = root.join("repository/sub/deep");
    assert_eq!(find(&deep), Some(project.file()));
    // The nearest one wins.
    let nearer = root.join("repository/sub/.acpxrc.json");
    fs::write(&nearer, "{}").unwrap();
    assert_eq!(find(&deep), Some(nearer));
    // A worktree has a file named .git, and is a root of its own.
    fs::write(deep.join(".git"), "gitdir: there").unwrap();
    assert_eq!(find(&deep), None);
    // Outside a repository only the directory itself counts.
    fs::create_dir_all(root.join("plain/below")).unwrap();
    fs::write(root.join("plain/.acpxrc.json"), "{}").unwrap();
    assert_eq!(find(&root.join("plain/below")), None);
    assert_eq!(find(&root.join("plain")), Some(root.join("plain/.acpxrc.json")));
    assert_eq!(find(&root.join("nowhere")), None);
}

#[test]
fn project_file_of_another_user_or_writable_for_others_is_refused() {
    let project = Project::new(r#"{"ttl":1}"#);
    let (file, own) = (project.file(), FileOwner::of_process());
    let refusal = |own: FileOwner| read(&file, own).unwrap_err();
    assert_eq!(read(&file, own).unwrap(), br#"{"ttl":1}"#);
    let FileOwner { user, group } = own;
    let other_user = FileOwner { user: user + 1, group };
    assert_eq!(refusal(other_user), format!("it belongs to another user (uid {user})"));
    project.set_mode(0o664);
    let words = format!("other users can write to it; to change that: chmod go-w {}", file.display());
    assert_eq!(refusal(FileOwner { user, group: group + 1 }), words);
    assert_eq!(read(&file, own).unwrap(), br#"{"ttl":1}"#, "its user's own group may write");
    project.set_mode(0o646);
    assert_eq!(refusal(own), words);
    assert_eq!(project.state(), ProjectState::Refused(refusal(own)));
    assert_eq!(project.load().unwrap().ttl, None);
    project.set_mode(0o600);
    let directory = file.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(refusal(own), "every user can replace it: its directory is writable for all");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(read(&file, own).is_ok());
}

#[test]
fn only_a_small_regular_project_file_is_read() {
    let project = Project::new("{}");
    let (file, own) = (project.file(), FileOwner::of_process());
    fs::write(&file, vec![b' '; 1 + usize::try_from(LARGEST).unwrap()]).unwrap();
    assert_eq!(read(&file, own).unwrap_err(), "it is larger than 1 MiB");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(project.state(), ProjectState::Refused(_)));
    fs::remove_dir(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(project.state(), ProjectState::Refused(_)));
    fs::remove_file(&file).unwrap();
    symlink("/nowhere/at/all", &file).unwrap();
    assert!(matches!(project.state(), ProjectState::Refused(_)));
}

#[test]
fn a_link_to_a_trusted_file_is_not_trusted_in_its_directory() {
    let project = Project::new(r#"{"agents":{"mine":{"argv":["./mine"]}}}"#);
    project.trust();
    let other = project.root().join("other");
    fs::create_dir(&other).unwrap();
    symlink(project.file(), other.join(".acpxrc.json")).unwrap();
    let home = project.root().join("home");
    let config = Config::load_for(&home, &other).unwrap();
    assert_eq!(config.agent("mine"), Ok(None));
    assert!(matches!(config.project.unwrap().state, ProjectState::Withheld { .. }));
    // Trusted where it is, it holds, until it leads to another content.
    let link = other.join(".acpxrc.json");
    let bytes = fs::read(&link).unwrap();
    project.trusted().pin(link.to_str().unwrap(), &bytes, [].into()).unwrap();
    assert_eq!(Config::load_for(&home, &other).unwrap().agent_names(), ["mine"]);
    fs::write(other.join("more.json"), r#"{"agents":{"mine":{"argv":["./evil"]}}}"#).unwrap();
    fs::remove_file(&link).unwrap();
    symlink("more.json", &link).unwrap();
    assert_eq!(Config::load_for(&home, &other).unwrap().agent_names(), [""; 0]);
}

#[test]
fn errors_of_a_project_file_name_it_with_key_and_position() {
    let project = Project::new("{}");
    let file = project.file();
    let cases = [
        ("{\n \"ttl\": x}", format!("{} is not JSON: expected value at line 2 column 9", file.display())),
        (
            r#"{"ttl":"s3cret"}"#,
            format!("{}: ttl must be a number of seconds, 0 or more; found a string", file.display()),
        ),
        // A key that is not in force is checked too.
        (r#"{"auth":{"key":7}}"#, format!("{}: auth.key must be a string; found a number", file.display())),
        (
            r#"{"agents":{"mine":{"argv":["a"],"argv":["b"]}}}"#,
            format!("{} is not JSON: the key \"argv\" is there twice at line 1 column 38", file.display()),
        ),
    ];
    for (text, message) in cases {
        project.write(text);
        assert_eq!(project.load().unwrap_err().to_string(), message, "{text}");
    }
    fs::write(&file, b"\xff").unwrap();
    assert_eq!(
        project.load().unwrap_err().to_string(),
        format!("{} is not JSON: it is not UTF-8", file.display())
    );
    // A wrong agent affects only commands that start it, and its error names the file that has it.
    project.write(r#"{"agents":{"mine":{"argv":[7]}}}"#);
    project.configure(r#"{"agents":{"other":{"argv":[8]}}}"#);
    project.trust();
    let config = project.load().unwrap();
    let wrong: Vec<String> =
        config.wrong_agents().map(|(_, wrong)| wrong.file.display().to_string()).collect();
    assert_eq!(wrong, [file, project.root().join("home/config.json")].map(|file| file.display().to_string()));
}

#[test]
fn trust_listing_shows_commands_and_variables_and_hides_secrets() {
    let members = json!({
        "ttl": 1, "auth": { "key": "s3cret" }, "fromTheFuture": "s3cret", "keepPrograms": ["tmux"],
        "agents": {
            "env": {
                "argv": ["./run"], "secretEnv": ["A"],
                "env": {
                    "LD_PRELOAD": "./evil.so", "API_KEY": "s3cret", "A": "s3cret", "DB": "postgres://me:s3cret@db.example/x",
                },
            },
            "far": { "url": "wss://me:s3cret@far.example/acp" },
        },
        "mcpServers": [
            {
                "name": "x", "command": "y",
                "env": [{ "name": "NODE_OPTIONS", "value": "-r ./evil.js" }, { "name": "TOKEN", "value": "s3cret" }],
            },
            { "name": "z", "type": "http", "url": "https://z.example", "headers": [{ "name": "X", "value": "s3cret" }] },
        ],
    });
    let rows: Vec<String> =
        listing(members.as_object().unwrap()).iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let expected = [
        r#"agents.env.argv = ["./run"]"#,
        r#"agents.env.env.A = "s3cret""#,
        "agents.env.env.API_KEY = (not shown)",
        r#"agents.env.env.DB = "postgres://me:s3cret@db.example/x""#,
        r#"agents.env.env.LD_PRELOAD = "./evil.so""#,
        r#"agents.env.secretEnv = ["A"]"#,
        r#"agents.far.url = "wss://me:s3cret@far.example/acp""#,
        "auth.key = (not shown)",
        "fromTheFuture = (unknown, ignored)",
        "keepPrograms = (ignored: it belongs to the home)",
        r#"mcpServers[0].command = "y""#,
        r#"mcpServers[0].env.NODE_OPTIONS = "-r ./evil.js""#,
        "mcpServers[0].env.TOKEN = (not shown)",
        r#"mcpServers[0].name = "x""#,
        "mcpServers[1].headers.X = (not shown)",
        r#"mcpServers[1].name = "z""#,
        r#"mcpServers[1].type = "http""#,
        r#"mcpServers[1].url = "https://z.example""#,
        "ttl = 1",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn trust_listing_keeps_every_agent_key_apart_and_every_command_whole() {
    let shell = ["sh", "-c", "x://a:$(./evil)@b"];
    let members = json!({
        "agents": {
            "claude": { "argv": shell, "env": { "PATH": "./bin", "A.B": "" }, "secretEnv": ["PATH"] },
            "claude.argv": ["claude-agent-acp"],
            "": ["x"],
            "a\"b": ["y"],
        },
        "mcpServers[0]": 1,
    });
    let rows: Vec<String> =
        listing(members.as_object().unwrap()).iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let expected = [
        r#"agents."" = ["x"]"#,
        r#"agents."a\"b" = ["y"]"#,
        r#"agents."claude.argv" = ["claude-agent-acp"]"#,
        r#"agents.claude.argv = ["sh","-c","x://a:$(./evil)@b"]"#,
        r#"agents.claude.env."A.B" = """#,
        r#"agents.claude.env.PATH = "./bin""#,
        r#"agents.claude.secretEnv = ["PATH"]"#,
        r#""mcpServers[0]" = (unknown, ignored)"#,
    ];
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    let mut rows = rows;
    rows.sort();
    assert_eq!(rows, expected);
}

/// JSON that is likely to be a configuration.
fn configuration() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just(json!({})),
        Just(json!([])),
        Just(json!({ "mine": { "argv": ["./evil"] } })),
        Just(json!({ "demo": { "command": "./evil" } })),
        Just(json!([{ "name": "x", "command": "./evil" }])),
        Just(json!({ "autoApprove": ["*"] })),
        Just(json!({ "key": "value" })),
        Just(json!(true)),
        Just(json!(false)),
        any::<u8>().prop_map(|number| json!(number)),
        proptest::sample::select(vec![
            "approve-all",
            "deny-all",
            "fail",
            "deny",
            "wait",
            "skip",
            "demo",
            "mine"
        ])
        .prop_map(|text| json!(text)),
    ];
    let key = prop_oneof![proptest::sample::select(KEYS.to_vec()).prop_map(str::to_owned), "[a-zA-Z]{1,8}"];
    let object = proptest::collection::btree_map(key, value, 0..5).prop_map(|map| json!(map).to_string());
    prop_oneof![4 => object, 1 => ".{0,40}"]
}

proptest! {
    /// Whatever bytes a project brings, without trust no program, permission, server or credential of it is in force.
    #[test]
    fn no_untrusted_project_bytes_set_a_guarded_key(text in configuration(), rest in proptest::collection::vec(any::<u8>(), 0..4)) {
        let project = Project::new("{}");
        fs::write(project.file(), [text.as_bytes(), &rest].concat()).unwrap();
        let global = r#"{"nonInteractivePermissions":"fail","defaultPermissions":"deny-all","agents":{"own":{"argv":["own"]}}}"#;
        project.configure(global);
        let alone = Config::parse(Path::new("/h/config.json"), global).unwrap();
        // A file that is wrong is an error, and sets nothing.
        if let Ok(config) = project.load() {
            let guarded = |config: &Config| {
                (
                    (config.mode, config.unattended, config.tool_policy.clone(), config.login),
                    (config.mcp.servers.clone(), config.credentials.clone(), config.home.keep_programs.clone()),
                    config.agents.clone(),
                )
            };
            prop_assert_eq!(guarded(&config), guarded(&alone));
            let default = config.default_agent.unwrap_or_default();
            prop_assert!(default.is_empty() || default == "own" || agents::is_built_in(&default));
        }
    }
}
