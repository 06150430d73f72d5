// The real agents of the lab: how each is started, and how it is told to take the lab's model for its own.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const { platform, arch } = process;

/** The trial for agents with `models`. */
export const MODEL_TRIAL = "model, editor and shell";

/**
 * Each has its `command`, given where its package is installed, the `environment` that it needs beside the usual, and
 * its `login`, which is what makes the model its own: variables, and files of its home. `speaks` are the versions of
 * the protocol it has. `withoutLogin` is what comes of a prompt without the login, if it is not that one is wanted.
 * `requiring` are the files of its home by which it refuses a session without an MCP server of its own configuration,
 * if it can; otherwise it works without a server that fails.
 * With `only`, these trials are made with it and nothing else.
 * `native` is the agent's own program, if the package has it: its `name` in acpx, its command, and the words that `begin`
 * a session in it and `resume` one.
 */
const AGENTS = {
  "claude-agent-acp": {
    speaks: [1, 2],
    command: (modules) => [process.execPath, join(modules, "@agentclientprotocol/claude-agent-acp/dist/index.js")],
    environment: (url) => ({
      ANTHROPIC_BASE_URL: url,
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      // Else its model has to look for the tools of MCP servers first.
      ENABLE_TOOL_SEARCH: "false",
    }),
    login: () => ({ environment: { ANTHROPIC_API_KEY: "none" } }),
    native: {
      name: "claude",
      command: (modules) => [join(modules, `@anthropic-ai/claude-agent-sdk-${platform}-${arch}/claude`)],
      begin: (words) => ["-p", words],
      resume: (id, words) => ["-p", "--resume", id, words],
    },
  },
  // It tells its models as `models`, and takes `session/set_model`. Its tools are not tried: it takes the lab's model at
  // its word for how short a command may run, and for a variable that its permission requests do not show a person is
  // asked twice.
  "claude-code-acp": {
    speaks: [1],
    only: ["turn", "cancel while streaming", "kill -9 of the agent", "kill -9 of the host", "close", MODEL_TRIAL],
    command: (modules) => [process.execPath, join(modules, "@zed-industries/claude-code-acp/dist/index.js")],
    environment: (url) => ({ ANTHROPIC_BASE_URL: url, DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1" }),
    login: () => ({ environment: { ANTHROPIC_API_KEY: "none" } }),
  },
  "codex-acp": {
    speaks: [1, 2],
    command: (modules) => [process.execPath, join(modules, "@agentclientprotocol/codex-acp/dist/index.js")],
    // In its own first mode it asks its model, and not its user, whether a tool may be used.
    environment: () => ({ INITIAL_AGENT_MODE: "read-only" }),
    login: (url) => ({ environment: { LAB_KEY: "none" }, files: { ".codex/config.toml": codex(url) } }),
    requiring: (url, command) => ({
      ".codex/config.toml": `${codex(url)}\n[mcp_servers.required]\ncommand = "${command}"\nrequired = true\n`,
    }),
    native: {
      name: "codex",
      command: (modules) => [process.execPath, join(modules, "@openai/codex/bin/codex.js"), "exec", "--skip-git-repo-check"],
      begin: (words) => [words],
      resume: (id, words) => ["resume", id, words],
    },
  },
  opencode: {
    speaks: [1],
    command: (modules) => [join(modules, `opencode-${platform}-${arch}/bin/opencode`), "acp"],
    withoutLogin: "IDLE_TIMEOUT",
    // Without a login it takes a model of its maker's, and keeps quiet where it cannot reach it. The lab lets it reach
    // nothing that is not here.
    environment: (url) => ({
      HTTPS_PROXY: url,
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
    }),
    login: (url) => ({ files: { ".config/opencode/opencode.json": JSON.stringify(opencode(url)) } }),
    native: {
      name: "opencode",
      command: (modules) => [join(modules, `opencode-${platform}-${arch}/bin/opencode`), "run"],
      begin: (words) => [words],
      resume: (id, words) => ["--session", id, words],
    },
  },
  goose: {
    speaks: [1],
    command: (modules) => [
      join(modules, `@aaif/goose-binary-${platform}-${arch}/bin/goose`),
      "acp",
      "--with-builtin",
      "developer",
    ],
    environment: () => ({ GOOSE_DISABLE_KEYRING: "1", GOOSE_MODE: "approve" }),
    login: (url) => ({
      environment: {
        GOOSE_MODEL: "lab-model",
        GOOSE_PROVIDER: "openai",
        OPENAI_API_KEY: "none",
        OPENAI_HOST: url,
      },
    }),
    native: {
      name: "goose",
      command: (modules) => [join(modules, `@aaif/goose-binary-${platform}-${arch}/bin/goose`), "run"],
      begin: (words) => ["--text", words],
      resume: (id, words) => ["--resume", "--session-id", id, "--text", words],
    },
  },
};

function codex(url) {
  return `model = "lab-model"
model_provider = "lab"

[model_providers.lab]
name = "Lab"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "LAB_KEY"
requires_openai_auth = false
`;
}

function opencode(url) {
  const limit = { context: 100_000, output: 8_000 };
  return {
    model: "lab/lab-model",
    small_model: "lab/lab-model",
    autoupdate: false,
    share: "disabled",
    permission: { bash: "ask", edit: "ask" },
    provider: {
      lab: {
        name: "Lab",
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${url}/v1`, apiKey: "none" },
        models: { "lab-model": { name: "Lab model", tool_call: true, limit } },
      },
    },
  };
}

/**
 * An agent that can be started, with its login or without: its command, and the environment of whoever starts it.
 * `logIn` gives it the login, and gives the variables that belong to it. `requireServer` makes it need an MCP server,
 * if it can need one, until the next `logIn`.
 */
export function prepared(name, { installed, home, url, loggedIn = true }) {
  const agent = AGENTS[name];
  const temporary = join(home, "tmp");
  rmSync(home, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  const write = (files) => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), content);
    }
  };
  const logIn = () => {
    const { environment = {}, files = {} } = agent.login(url);
    write(files);
    return environment;
  };
  const modules = join(installed, "node_modules");
  const requireServer = (command) => write(agent.requiring?.(url, command) ?? {});
  return {
    name,
    speaks: agent.speaks,
    only: agent.only,
    withoutLogin: agent.withoutLogin ?? "AUTH_REQUIRED",
    logIn,
    requireServer,
    command: agent.command(modules),
    native: agent.native && {
      name: agent.native.name,
      begin: (words) => [...agent.native.command(modules), ...agent.native.begin(words)],
      resume: (id, words) => [...agent.native.command(modules), ...agent.native.resume(id, words)],
    },
    environment: {
      HOME: home,
      LANG: "C.UTF-8",
      NO_COLOR: "1",
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      TERM: "dumb",
      TMPDIR: temporary,
      ...agent.environment(url),
      ...(loggedIn ? logIn() : {}),
    },
  };
}
