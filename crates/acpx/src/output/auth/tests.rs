use std::cell::RefCell;

use serde_json::{Value, json};

use super::*;
use crate::output::OutputMode;

fn methods() -> Vec<LoginMethod> {
    let method = |id: &str, name: &str, how| LoginMethod {
        id: id.to_owned(),
        name: name.to_owned(),
        description: None,
        how,
    };
    let variable = |name: &str, optional| LoginVariable { name: name.to_owned(), optional };
    let variables = LoginMethodKind::Variables(vec![variable("KEY", false), variable("ORG", true)]);
    vec![
        LoginMethod {
            description: Some("In a browser".to_owned()),
            ..method("oauth", "Account", LoginMethodKind::Agent)
        },
        method("env", "By key", variables),
        method("tui", "Terminal", LoginMethodKind::Terminal { args: Vec::new(), env: Vec::new() }),
    ]
}

struct Shared<'a>(&'a RefCell<Vec<u8>>);

impl Write for Shared<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(format: Format, write: impl FnOnce(&mut Console<'_>) -> io::Result<()>) -> String {
    let out = RefCell::new(Vec::new());
    let mode = OutputMode { format, ..OutputMode::default() };
    write(&mut Console::over(mode, Shared(&out), io::sink())).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

fn listed(format: Format, has_credential: bool) -> String {
    let (agent, methods) = (AgentSpec::new("my-agent", ["--acp"]).named("mine"), methods());
    let credentials = [("oauth".to_owned(), CredentialSource::Configuration)];
    let credentials = if has_credential { &credentials[..] } else { &[] };
    let list = LoginList { agent: &agent, typed: "mine", methods: &methods, logout: true, credentials };
    written(format, |console| login_list(&list, |name| name == "KEY", console))
}

#[test]
fn login_methods_are_listed_with_what_each_needs() {
    assert_eq!(
        listed(Format::Text, false),
        "oauth\tAccount\tno credential in ACPX_AUTH_OAUTH or config.json\n  In a browser\n  acpx mine auth oauth\n\
         env\tBy key\tits variables are set\n  KEY (set)\n  ORG (not set, optional)\n\
         tui\tTerminal\tin a terminal\n  acpx mine auth tui\nlog out: acpx mine auth --logout\n"
    );
    let first = |list: String| list.lines().next().unwrap().to_owned();
    assert_eq!(first(listed(Format::Text, true)), "oauth\tAccount\twith the credential in config.json");
    assert_eq!(listed(Format::Quiet, false), "oauth\nenv\ntui\n");
    let told: Value = serde_json::from_str(&listed(Format::Json, false)).unwrap();
    let expected = json!({
        "action": "auth_methods", "agentName": "mine", "agentCommand": "my-agent --acp", "logout": true,
        "methods": [
            { "methodId": "oauth", "name": "Account", "description": "In a browser", "type": "agent",
              "prepared": false, "credential": "ACPX_AUTH_OAUTH" },
            { "methodId": "env", "name": "By key", "type": "env_var", "prepared": true,
              "credential": "ACPX_AUTH_ENV", "variables": [
                { "name": "KEY", "optional": false, "set": true },
                { "name": "ORG", "optional": true, "set": false },
            ] },
            { "methodId": "tui", "name": "Terminal", "type": "terminal", "prepared": false },
        ],
    });
    assert_eq!(told, expected);
}

#[test]
fn login_outcome_is_one_line_and_missing_variables_fail() {
    let (agent, methods) = (AgentSpec::new("my-agent", [""; 0]), methods());
    let LoginMethodKind::Variables(needed) = &methods[1].how else { panic!("it is done by variables") };
    let variables = needed.iter().map(|variable| (variable, false)).collect();
    let missing = LoginOutcome::Variables { method: &methods[1], variables };
    assert_eq!((missing.exit(), LoginOutcome::Out.exit()), (CliExit::Failure, CliExit::Success));
    assert_eq!(
        written(Format::Text, |console| logged(&agent, &missing, console)),
        "By key needs variables to be set:\n  KEY (not set)\n  ORG (not set, optional)\n"
    );
    let mut said = Vec::new();
    let mut console = Console::over(OutputMode::default(), std::io::sink(), &mut said);
    logged(&agent, &missing, &mut console).unwrap();
    drop(console);
    let next = "[acpx] set what is missing and try again: export KEY=…\n";
    assert_eq!(String::from_utf8(said).unwrap(), next);
    assert_eq!(
        written(Format::Json, |console| logged(&agent, &missing, console)),
        "{\"action\":\"auth_result\",\"methodId\":\"env\",\"status\":\"variables-missing\",\"missing\":[\"KEY\"]}\n"
    );
    assert_eq!(
        written(Format::Text, |console| logged(&agent, &LoginOutcome::In(&methods[0]), console)),
        "logged in with my-agent: Account\n"
    );
    assert_eq!(written(Format::Quiet, |console| logged(&agent, &LoginOutcome::Out, console)), "logged-out\n");
}
