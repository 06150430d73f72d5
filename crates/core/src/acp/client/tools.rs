//! File and terminal requests of a version 1 agent, and their results. Version 2 has neither.
//!
//! Requests are parsed as the agent wrote them, not as their line is stored: a file keeps the secrets in its content,
//! and a command gets its variables.

use std::fmt;

use agent_client_protocol_schema::v1 as acp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::{AcpSessionId, PreviousContent, Secrets, ToolUse, command_line, is_secret_name};
use crate::wire::RpcError;

use super::permission::PermissionRequest;
use super::to_json;

/// Maximum size of file content shown in a permission request, in bytes.
const SHOWN_BYTES: usize = 64 << 10;

/// A file or terminal request.
#[derive(Clone, PartialEq, Eq)]
pub enum ToolRequest {
    /// `fs/read_text_file`.
    Read {
        /// The file.
        path: String,
        /// The first line, counted from 1.
        line: Option<u32>,
        /// The number of lines.
        limit: Option<u32>,
    },
    /// `fs/write_text_file`.
    Write {
        /// The file.
        path: String,
        /// Its new content.
        content: String,
    },
    /// `terminal/create`.
    Create(TerminalRequest),
    /// `terminal/output`, of this terminal.
    Output(Box<str>),
    /// `terminal/wait_for_exit`, of this terminal.
    WaitForExit(Box<str>),
    /// `terminal/kill`, of this terminal.
    Kill(Box<str>),
    /// `terminal/release`, of this terminal.
    Release(Box<str>),
}

/// A command to run.
#[derive(Clone, PartialEq, Eq)]
pub struct TerminalRequest {
    /// The program, or a shell command line.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables: name and value.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The requested limit of its output, in bytes.
    pub output_bytes: Option<u64>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolAnswer {
    /// The text of a file, or of some lines.
    Text(String),
    /// The id of a new terminal.
    Created(Box<str>),
    /// The output of a terminal.
    Shown {
        /// The end of its output.
        output: String,
        /// Whether earlier output was dropped.
        truncated: bool,
        /// The exit status, if the command has exited.
        exit: Option<ExitStatus>,
    },
    /// The exit status of a command.
    Exited(ExitStatus),
    /// Success without a result.
    Done,
}

/// How a command exited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExitStatus {
    /// Its exit code, if it exited normally.
    pub code: Option<u32>,
    /// The signal that ended it, if any.
    pub signal: Option<String>,
}

impl ToolRequest {
    /// Parses a request; `None` if the method is not about files or terminals.
    pub(super) fn read(method: &str, params: &str) -> Option<Result<Self, RpcError>> {
        let read = match method {
            "fs/read_text_file" => read(params).and_then(|request: acp::ReadTextFileRequest| {
                let acp::ReadTextFileRequest { path, line, limit, .. } = request;
                Ok(Self::Read { path: text(path)?, line, limit })
            }),
            "fs/write_text_file" => read(params).and_then(|request: acp::WriteTextFileRequest| {
                let acp::WriteTextFileRequest { path, content, .. } = request;
                Ok(Self::Write { path: text(path)?, content })
            }),
            "terminal/create" => read(params).and_then(TerminalRequest::of).map(Self::Create),
            "terminal/output" => {
                read(params).map(|request: acp::TerminalOutputRequest| Self::Output(id(&request.terminal_id)))
            }
            "terminal/wait_for_exit" => read(params)
                .map(|request: acp::WaitForTerminalExitRequest| Self::WaitForExit(id(&request.terminal_id))),
            "terminal/kill" => {
                read(params).map(|request: acp::KillTerminalRequest| Self::Kill(id(&request.terminal_id)))
            }
            "terminal/release" => read(params)
                .map(|request: acp::ReleaseTerminalRequest| Self::Release(id(&request.terminal_id))),
            _ => return None,
        };
        Some(read)
    }

    /// The protocol's method.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Read { .. } => "fs/read_text_file",
            Self::Write { .. } => "fs/write_text_file",
            Self::Create(_) => "terminal/create",
            Self::Output(_) => "terminal/output",
            Self::WaitForExit(_) => "terminal/wait_for_exit",
            Self::Kill(_) => "terminal/kill",
            Self::Release(_) => "terminal/release",
        }
    }

    /// The tool use for a policy; `None` for operations on an existing terminal.
    pub(crate) fn tool_use(&self) -> Option<ToolUse> {
        let kind = match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "edit",
            Self::Create(_) => "execute",
            Self::Output(_) | Self::WaitForExit(_) | Self::Kill(_) | Self::Release(_) => return None,
        };
        let (title, name) = match self {
            // Rules match the command as typed, or its program.
            Self::Create(request) => (request.line(), request.program()),
            _ => (self.title(), None),
        };
        Some(ToolUse {
            protocol_kind: Some(kind.into()),
            title: Some(title.into()),
            name: name.map(Into::into),
        })
    }

    /// The request as text for the user.
    fn title(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("Read {path}"),
            Self::Write { path, .. } => format!("Write {path}"),
            Self::Create(request) => format!("Run {}", request.line()),
            Self::Output(_) | Self::WaitForExit(_) | Self::Kill(_) | Self::Release(_) => {
                self.method().to_owned()
            }
        }
    }

    /// A permission request for it; `call` is the id for its tool call, and `old` the content to be replaced. Secrets
    /// in a command are removed.
    pub(super) fn question(
        &self,
        session: &AcpSessionId,
        call: &str,
        old: Option<&PreviousContent>,
        secrets: &Secrets,
    ) -> PermissionRequest {
        let fields =
            acp::ToolCallUpdateFields::new().status(acp::ToolCallStatus::Pending).title(self.title());
        let fields = match self {
            Self::Write { path, content } => {
                let (old, hidden) = match old {
                    Some(PreviousContent::Text(old)) => (Some(old.clone()), None),
                    Some(PreviousContent::Unshown(bytes)) => (None, Some(*bytes)),
                    Some(PreviousContent::Nothing) | None => (None, None),
                };
                let is_short = content.len() + old.as_ref().map_or(0, String::len) <= SHOWN_BYTES;
                let shown = is_short && hidden.is_none();
                let diff = acp::Diff::new(path, content).old_text(old);
                let diff = shown.then(|| vec![acp::ToolCallContent::Diff(diff)]);
                // The title says that the content is not shown in full.
                let unshown = match (shown, hidden) {
                    (true, _) => String::new(),
                    (false, None) => format!(" ({} bytes, too long to show)", content.len()),
                    (false, Some(old)) => {
                        format!(" ({} bytes, in the place of {old} that cannot be shown)", content.len())
                    }
                };
                fields
                    .title(self.title() + &unshown)
                    .kind(acp::ToolKind::Edit)
                    .locations(vec![acp::ToolCallLocation::new(path)])
                    .content(diff)
                    .raw_input(json!({ "path": path }))
            }
            Self::Create(TerminalRequest { command, args, cwd, env, .. }) => {
                // A variable can change what a command does, so its name is shown. Its value may be a secret: an agent
                // may pass on its whole environment.
                let variable = |(name, value): &(String, String)| {
                    if is_secret_name(name) {
                        json!({ "name": name })
                    } else {
                        json!({ "name": name, "value": secrets.redact_text(value) })
                    }
                };
                let variables: Vec<Value> = env.iter().map(variable).collect();
                let command = secrets.redact_text(command);
                let args: Vec<_> = args.iter().map(|arg| secrets.redact_text(arg)).collect();
                fields
                    .title(format!("Run {}", command_line(&command, args.iter().map(|arg| &**arg))))
                    .kind(acp::ToolKind::Execute)
                    .raw_input(json!({ "command": command, "args": args, "cwd": cwd, "env": variables }))
            }
            Self::Read { path, .. } => {
                fields.kind(acp::ToolKind::Read).locations(vec![acp::ToolCallLocation::new(path)])
            }
            Self::Output(_) | Self::WaitForExit(_) | Self::Kill(_) | Self::Release(_) => fields,
        };
        let option = |id: &str, name: &str, kind| acp::PermissionOption::new(id.to_owned(), name, kind);
        let options = vec![
            option("allow", "Allow", acp::PermissionOptionKind::AllowOnce),
            option("reject", "Reject", acp::PermissionOptionKind::RejectOnce),
        ];
        let session = acp::SessionId::new(session.as_str());
        let call = acp::ToolCallUpdate::new(call.to_owned(), fields);
        let params = acp::RequestPermissionRequest::new(session, call, options);
        let params = serde_json::to_string(&params).expect("a permission request has only text and lists");
        PermissionRequest::read(&params, |_| None)
    }
}

impl TerminalRequest {
    /// The command line as a user would type it.
    fn line(&self) -> String {
        command_line(&self.command, self.args.iter().map(String::as_str))
    }

    /// The name of the program; also the first word of a shell command line.
    fn program(&self) -> Option<&str> {
        self.command.split_whitespace().next()?.rsplit('/').next().filter(|name| !name.is_empty())
    }

    fn of(request: acp::CreateTerminalRequest) -> Result<Self, RpcError> {
        let acp::CreateTerminalRequest { command, args, env, cwd, output_byte_limit, .. } = request;
        let env: Vec<_> = env.into_iter().map(|variable| (variable.name, variable.value)).collect();
        // Such a name or value cannot be passed to a process.
        let has_nul = |text: &String| text.contains('\0');
        let is_bad = |(name, value): &(String, String)| {
            name.is_empty() || name.contains(['=', '\0']) || has_nul(value)
        };
        if command.is_empty() || has_nul(&command) || args.iter().any(has_nul) || env.iter().any(is_bad) {
            return Err(RpcError::invalid_params(
                "the command, or a variable for it, cannot be given to a program",
            ));
        }
        Ok(Self { command, args, env, cwd: cwd.map(text).transpose()?, output_bytes: output_byte_limit })
    }
}

impl ToolAnswer {
    /// The result for the agent.
    pub(super) fn result(&self) -> String {
        let exited = |ExitStatus { code, signal }: &ExitStatus| {
            acp::TerminalExitStatus::new().exit_code(*code).signal(signal.clone())
        };
        match self {
            Self::Text(text) => to_json(&acp::ReadTextFileResponse::new(text)),
            Self::Created(id) => to_json(&acp::CreateTerminalResponse::new(id.to_string())),
            Self::Shown { output, truncated, exit } => {
                let shown = acp::TerminalOutputResponse::new(output, *truncated);
                to_json(&shown.exit_status(exit.as_ref().map(exited)))
            }
            Self::Exited(exit) => to_json(&acp::WaitForTerminalExitResponse::new(exited(exit))),
            Self::Done => "{}".to_owned(),
        }
    }
}

impl fmt::Debug for ToolRequest {
    /// Shows only the method: the params may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())
    }
}

fn read<T: DeserializeOwned>(params: &str) -> Result<T, RpcError> {
    serde_json::from_str(params).map_err(|error| RpcError::invalid_params(format!("cannot be read: {error}")))
}

fn text(path: std::path::PathBuf) -> Result<String, RpcError> {
    path.into_os_string().into_string().map_err(|_| RpcError::invalid_params("a path is no text"))
}

fn id(terminal: &acp::TerminalId) -> Box<str> {
    Box::from(&*terminal.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_request_is_parsed_or_refused_as_invalid() {
        let read = |method: &str, params: serde_json::Value| ToolRequest::read(method, &params.to_string());
        assert_eq!(read("session/prompt", json!({})), None);
        let lines = json!({"sessionId": "s", "path": "/a", "line": 2, "limit": null, "_meta": {}});
        let expected = ToolRequest::Read { path: "/a".into(), line: Some(2), limit: None };
        assert_eq!(read("fs/read_text_file", lines), Some(Ok(expected)));
        let create =
            json!({"sessionId": "s", "command": "c", "env": [{"name": "A", "value": "b"}], "args": null});
        let expected = TerminalRequest {
            command: "c".into(),
            args: vec![],
            env: vec![("A".into(), "b".into())],
            cwd: None,
            output_bytes: None,
        };
        assert_eq!(read("terminal/create", create), Some(Ok(ToolRequest::Create(expected))));
        let bad = [
            ("fs/read_text_file", json!({"sessionId": "s"})),
            ("fs/read_text_file", json!({"sessionId": "s", "path": "/a", "line": -1})),
            ("fs/write_text_file", json!({"sessionId": "s", "path": "/a", "content": 7})),
            ("terminal/create", json!({"sessionId": "s", "command": ""})),
            ("terminal/create", json!({"sessionId": "s", "command": "a\0b"})),
            (
                "terminal/create",
                json!({"sessionId": "s", "command": "c", "env": [{"name": "A=", "value": "b"}]}),
            ),
            ("terminal/output", json!({"sessionId": "s"})),
        ];
        for (method, params) in bad {
            let error = read(method, params.clone()).unwrap().unwrap_err();
            assert_eq!(error.code, RpcError::INVALID_PARAMS, "{method} {params}");
        }
    }

    #[test]
    fn a_question_shows_what_would_be_done_and_offers_yes_and_no() {
        let session = AcpSessionId::new("s").unwrap();
        let write = ToolRequest::Write { path: "/w/a".into(), content: "new".into() };
        let question =
            write.question(&session, "c1", Some(&PreviousContent::Text("old".into())), &Secrets::default());
        let expected = json!({
            "sessionId": "s",
            "toolCall": {
                "toolCallId": "c1", "title": "Write /w/a", "kind": "edit", "status": "pending",
                "locations": [{"path": "/w/a"}], "rawInput": {"path": "/w/a"},
                "content": [{"type": "diff", "path": "/w/a", "oldText": "old", "newText": "new"}],
            },
            "options": [
                {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
            ],
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(question.params()).unwrap(), expected);
        let long = ToolRequest::Write { path: "/w/a".into(), content: "x".repeat(SHOWN_BYTES + 1) };
        let asked = |request: &ToolRequest, old: Option<&PreviousContent>| {
            let question = request.question(&session, "c1", old, &Secrets::default());
            let params: serde_json::Value = serde_json::from_str(question.params()).unwrap();
            (params["toolCall"]["title"].as_str().unwrap().to_owned(), params["toolCall"]["content"].clone())
        };
        let nothing = serde_json::Value::Null;
        let title = "Write /w/a (65537 bytes, too long to show)".to_owned();
        assert_eq!(asked(&long, None), (title, nothing.clone()));
        let title = "Write /w/a (3 bytes, in the place of 7 that cannot be shown)".to_owned();
        assert_eq!(asked(&write, Some(&PreviousContent::Unshown(7))), (title, nothing));
    }

    #[test]
    fn command_permission_request_shows_variables_without_secrets() {
        let session = AcpSessionId::new("s1").unwrap();
        let env = [
            ("LD_PRELOAD", "/evil.so"),
            ("API_KEY", "s3cret"),
            ("ACPX_AUTH_OAUTH", "of nobody's"),
            ("OTHER", "it is given-01 too"),
            ("NODE_ENV", "production"),
            ("MAX_TOKENS", "1234"),
        ];
        let request = ToolRequest::Create(TerminalRequest {
            command: "curl given-01".into(),
            args: vec!["-H given-01".into(), "x".into()],
            env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
            cwd: None,
            output_bytes: None,
        });
        let question = request.question(&session, "c1", None, &Secrets::new(["given-01", "1234"]));
        let params: Value = serde_json::from_str(question.params()).unwrap();
        let variables = json!([
            { "name": "LD_PRELOAD", "value": "/evil.so" },
            { "name": "API_KEY" },
            { "name": "ACPX_AUTH_OAUTH" },
            { "name": "OTHER", "value": "it is [secret] too" },
            { "name": "NODE_ENV", "value": "production" },
            { "name": "MAX_TOKENS", "value": "1234" },
        ]);
        let input = json!({ "command": "curl [secret]", "args": ["-H [secret]", "x"], "cwd": null, "env": variables });
        assert_eq!(params["toolCall"]["rawInput"], input);
        assert_eq!(params["toolCall"]["title"], "Run curl [secret] '-H [secret]' x");
    }

    #[test]
    fn a_rule_knows_a_command_by_its_line_and_by_its_program() {
        let create = |command: &str, args: &[&str]| {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            let request = TerminalRequest {
                command: command.into(),
                args,
                env: Vec::new(),
                cwd: None,
                output_bytes: None,
            };
            let tool = ToolRequest::Create(request).tool_use().unwrap();
            (tool.kind_name().to_owned(), tool.title.unwrap(), tool.name.unwrap())
        };
        assert_eq!(create("npm", &["test"]), ("execute".into(), "npm test".into(), "npm".into()));
        assert_eq!(create("/bin/rm", &["a b"]), ("execute".into(), "/bin/rm 'a b'".into(), "rm".into()));
        assert_eq!(create("rm -rf x", &[]), ("execute".into(), "rm -rf x".into(), "rm".into()));
    }
}
