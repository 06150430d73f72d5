//! The command lines that both programs run, and the subjects by which they differ on purpose.

/// Steps that share a home, in their order.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Members of the configuration besides the agent, each a key and its JSON.
    pub(super) configuration: &'static [(&'static str, &'static str)],
    pub(super) steps: &'static [Step],
}

/// One command line.
pub(super) struct Step {
    pub(super) line: &'static str,
    pub(super) stdin: &'static str,
    pub(super) compared: Compared,
    /// Subjects of rows in `docs/guide/npm-acpx.md`; empty if both programs do the same.
    pub(super) differs: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub(super) enum Compared {
    /// The exit code and stdout.
    Output,
    /// The exit code: each program has its own words.
    ExitAlone,
}

/// A step that does the same in both programs.
const fn same(line: &'static str) -> Step {
    Step { line, stdin: "", compared: Compared::Output, differs: &[] }
}

/// A step that differs by these subjects.
const fn differs(line: &'static str, subjects: &'static [&'static str]) -> Step {
    Step { differs: subjects, ..same(line) }
}

/// A step whose output is prose.
const fn exit(line: &'static str) -> Step {
    Step { compared: Compared::ExitAlone, ..same(line) }
}

/// A step whose output is prose and whose exit code differs by these subjects.
const fn exit_differs(line: &'static str, subjects: &'static [&'static str]) -> Step {
    Step { differs: subjects, ..exit(line) }
}

impl Step {
    /// The same step with this text on stdin.
    const fn with_stdin(self, stdin: &'static str) -> Self {
        Self { stdin, ..self }
    }
}

/// Subjects of rows in `docs/guide/npm-acpx.md`.
const IDS: &str = "ids in JSON";
const REPLACED: &str = "`session_ensured` after a replacement";
const USAGE: &str = "usage errors";
const PRUNE: &str = "`sessions prune`";
const COMPARE: &str = "`compare`";
const STATUS: &str = "`status`";
const WARM: &str = "agents after `sessions new`, `ensure`, `set`";
const MISSING: &str = "a `--file` or `--cwd` that is not there";
const PERMISSIONS: &str = "permission requests in text";
const FAIL: &str = "`--non-interactive-permissions`";
const ERROR_DATA: &str = "error data";
const ERROR_TEXT: &str = "an error of a turn in text";
const LIST: &str = "`sessions list`";
const ORDER: &str = "order of `sessions list`";
const SHOW: &str = "`sessions show`";
const NO_SESSION: &str = "`show`, `history` without such a session";
const CLOSE: &str = "`sessions close` without such a session";
const HISTORY: &str = "`sessions history`";
const READ: &str = "`sessions read`";
const CONFIG_SHOW: &str = "`config show`";
const FLOW: &str = "`flow run`";
const QUEUE: &str = "`queueMaxDepth`";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sessions",
        configuration: &[],
        steps: &[
            same("mock sessions list --local"),
            same("--format json mock sessions list --local"),
            same("mock sessions new"),
            same("mock sessions new"),
            same("--format json mock sessions new --name n1"),
            same("--format quiet mock sessions new --name n2"),
            differs("--format json mock sessions new --name n1", &[REPLACED]),
            same("mock sessions ensure"),
            same("--format json mock sessions ensure --name n1"),
            same("mock sessions ensure -s n3"),
            same("--format quiet mock sessions ensure --name n3"),
            differs("--format quiet mock sessions list --local", &[ORDER]),
            differs("mock sessions list --local", &[LIST, ORDER]),
            differs("mock sessions --local", &[LIST, ORDER]),
            differs("--format json mock sessions list --local", &[IDS, ORDER]),
            same("mock sessions list --local --cursor x"),
            differs("mock sessions show", &[SHOW]),
            differs("--format json mock sessions show n1", &[SHOW, IDS]),
            same("--format quiet mock sessions show n1"),
            differs("mock sessions show nope", &[NO_SESSION]),
            same("mock sessions close n1"),
            same("--format json mock sessions close n2"),
            same("--format quiet mock sessions close n3"),
            differs("mock sessions close n1", &[CLOSE]),
            differs("--format json mock sessions close nope", &[CLOSE, ERROR_DATA]),
            same("--format quiet mock sessions show n1"),
            exit("mock sessions prune --dry-run"),
            same("--format json mock sessions prune --before 2000-01-01"),
            same("--format json mock sessions prune --older-than 30"),
            exit_differs("mock sessions prune --older-than x", &[USAGE]),
            differs("--format json mock sessions prune --dry-run", &[PRUNE]),
            same("--format json mock sessions prune"),
            same("mock sessions prune"),
            same("--format quiet mock sessions list --local"),
            exit_differs("mock sessions lst", &[USAGE]),
            exit_differs("mock sessions history --limit 0", &[USAGE]),
            exit_differs("mock sessions new --name ''", &[USAGE]),
        ],
    },
    Scenario {
        name: "exec",
        configuration: &[],
        steps: &[
            same("mock exec hello"),
            same("--format json mock exec hello"),
            same("--format quiet mock exec hello"),
            same("--format json --json-strict mock exec hello"),
            same("mock exec think plan tool"),
            same("--format json mock exec think plan tool"),
            same("--format quiet mock exec think plan"),
            same("--suppress-reads mock exec tool"),
            same("--format json --suppress-reads mock exec tool"),
            same("mock exec -- --weird flag"),
            same("mock exec --file -").with_stdin("from stdin\n"),
            same("mock exec --file - and words").with_stdin("from stdin\n"),
            same("mock exec").with_stdin("only stdin"),
            same("--format json mock exec --file -").with_stdin(r#"[{"type":"text","text":"as a block"}]"#),
            exit("--format json mock exec --file -")
                .with_stdin(r#"[{"type":"image","data":"%%","mimeType":"image/png"}]"#),
            same("--format quiet mock exec --file -").with_stdin("[not json"),
            exit("mock exec"),
            exit_differs("mock exec --file missing.txt", &[MISSING]),
            exit_differs("--cwd missing mock exec hello", &[MISSING]),
            differs("--approve-all mock exec permission", &[PERMISSIONS]),
            same("--format quiet --approve-all mock exec permission"),
            differs("--deny-all mock exec permission", &[PERMISSIONS]),
            same("--format json --deny-all mock exec permission"),
            same("--format quiet --deny-all mock exec permission"),
            same("--format quiet mock exec permission"),
            differs(
                "--format json --non-interactive-permissions fail mock exec permission",
                &[ERROR_DATA, FAIL],
            ),
            same("--format quiet --non-interactive-permissions fail mock exec permission"),
            same(r#"--format quiet --permission-policy '{"autoApprove":["edit"]}' mock exec permission"#),
            same(r#"--format quiet --policy '{"defaultAction":"deny"}' mock exec permission"#),
            exit("--format json --policy '{' mock exec hello"),
            same("--format quiet mock exec refuse"),
            differs("mock exec fail", &[ERROR_TEXT]),
            same("--format json mock exec fail"),
            same("--format quiet mock exec fail"),
            exit("--format json mock exec crash"),
            exit("--timeout 1 mock exec wait 60000"),
            exit("--format json --timeout 1 mock exec wait 60000"),
            exit("--format json --agent no-such-program exec hello"),
            exit("--agent '' exec hello"),
            exit("--agent x mock exec hello"),
        ],
    },
    Scenario {
        name: "usage errors",
        configuration: &[],
        steps: &[
            exit("--help"),
            exit("--format json --json-strict --approve-all --deny-all mock exec hello"),
            exit("--json-strict mock exec hello"),
            exit("--format xml mock exec hello"),
            exit("--timeout 0 mock exec hello"),
            exit("--ttl x mock exec hello"),
            exit("--max-turns 0 mock exec hello"),
            exit("--allowed-tools a,,b mock exec hello"),
            exit("--prompt-retries x mock exec hello"),
            exit("--system-prompt a --append-system-prompt b mock exec hello"),
            exit("--auth-policy maybe mock exec hello"),
            exit("--non-interactive-permissions maybe mock exec hello"),
            exit("--nope mock exec hello"),
            exit_differs("mock exec --nope hello", &[USAGE]),
            exit_differs("mock set effort", &[USAGE]),
        ],
    },
    Scenario {
        name: "prompts",
        configuration: &[],
        steps: &[
            exit("mock hello"),
            differs("--format json mock status", &[STATUS]),
            same("--format quiet mock status"),
            differs("--format json mock cancel", &[IDS]),
            same("mock sessions new"),
            differs("--format quiet mock status", &[WARM]),
            same("mock hello"),
            same("mock prompt hello again"),
            same("--format json mock prompt hello"),
            same("--format quiet mock prompt hello"),
            same("--format quiet mock -s nope hello"),
            same("--format quiet mock prompt --file -").with_stdin("from a file"),
            same("--format quiet mock prompt --file - hello").with_stdin("from stdin"),
            differs("--format quiet mock sessions history --limit 2", &[HISTORY]),
            differs("--format json mock sessions history --limit 2", &[IDS]),
            differs("mock sessions history --limit 2", &[HISTORY]),
            differs("mock sessions read --tail 2", &[READ]),
            differs("--format json mock sessions read --tail 1", &[IDS]),
            differs("--format quiet mock sessions read", &[READ]),
            same("mock cancel"),
            same("--format quiet mock cancel"),
            differs("--format json mock cancel", &[IDS]),
            same("--format json mock set-mode code"),
            same("mock set-mode ask"),
            same("--format quiet mock set-mode code"),
            exit("mock set-mode nope"),
            exit("mock set nope value"),
            differs("--format json mock prompt --no-wait hello", &[IDS]),
            same("--format quiet mock prompt --no-wait hello"),
        ],
    },
    Scenario {
        name: "root commands",
        configuration: &[],
        steps: &[
            differs("config show", &[CONFIG_SHOW, QUEUE]),
            differs("--format json config show", &[CONFIG_SHOW, QUEUE]),
            differs("--format quiet config", &[CONFIG_SHOW, QUEUE]),
            same("config init"),
            same("--format json config init"),
            same("--format quiet compare mock hello"),
            differs("--format json compare mock hello", &[COMPARE]),
            same("--format quiet compare mock mock fail"),
            differs("--format json compare mock refuse", &[COMPARE]),
            exit("compare mock"),
            exit_differs("flow run missing.mjs", &[FLOW]),
            exit("--version"),
        ],
    },
    Scenario {
        name: "archives",
        configuration: &[],
        steps: &[
            exit("mock sessions new --name a"),
            exit("mock -s a hello"),
            exit("mock sessions close a"),
            same("mock sessions export a --output a.json"),
            differs("--format json mock sessions export a --output b.json", &[IDS]),
            exit_differs("mock sessions export nope --output c.json", &[NO_SESSION]),
            exit("--format json mock sessions import a.json --name b"),
            exit("--format quiet mock sessions prune"),
            differs("--format json mock sessions import a.json --name b", &[IDS]),
            exit("--format json mock sessions import b.json --name b"),
            same("mock sessions history b"),
            exit_differs("--format json mock sessions import missing.json", &[MISSING]),
            same("--format quiet mock -s b recall"),
        ],
    },
    Scenario {
        name: "exec disabled",
        configuration: &[("disableExec", "true")],
        steps: &[exit("mock exec hello"), exit("--format json mock exec hello")],
    },
    Scenario {
        name: "default agent",
        configuration: &[
            ("defaultAgent", "\"mock\""),
            ("defaultPermissions", "\"deny-all\""),
            ("format", "\"quiet\""),
        ],
        steps: &[
            same("exec hello"),
            same("exec permission"),
            same("sessions new"),
            same("prompt hello"),
            same("'hello there'"),
            same("status"),
        ],
    },
];
