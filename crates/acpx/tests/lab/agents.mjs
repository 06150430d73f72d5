// The real agents of the lab: how each is started, and how it is told to take the lab's model for its own.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const { platform, arch } = process;

/**
 * Each has its `command`, given where its package is installed, the `environment` that it needs beside the usual, and
 * perhaps `files` of its home, given the model's address. `speaks` are the versions of the protocol it has, and
 * `cancelledAs` is the stop reason of a turn that was cancelled, if it is another one than it should be.
 */
const AGENTS = {
  "claude-agent-acp": {
    speaks: [1, 2],
    command: (modules) => [process.execPath, join(modules, "@agentclientprotocol/claude-agent-acp/dist/index.js")],
    environment: (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: "none",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
    }),
  },
  "codex-acp": {
    speaks: [1, 2],
    command: (modules) => [process.execPath, join(modules, "@agentclientprotocol/codex-acp/dist/index.js")],
    // In its own first mode it asks its model, and not its user, whether a tool may be used.
    environment: () => ({ INITIAL_AGENT_MODE: "read-only", LAB_KEY: "none" }),
    files: (url) => ({ ".codex/config.toml": codex(url) }),
  },
  opencode: {
    speaks: [1],
    command: (modules) => [join(modules, `opencode-${platform}-${arch}/bin/opencode`), "acp"],
    environment: () => ({ OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    files: (url) => ({ ".config/opencode/opencode.json": JSON.stringify(opencode(url)) }),
  },
  goose: {
    speaks: [1],
    cancelledAs: "end_turn",
    command: (modules) => [
      join(modules, `@aaif/goose-binary-${platform}-${arch}/bin/goose`),
      "acp",
      "--with-builtin",
      "developer",
    ],
    environment: (url) => ({
      GOOSE_DISABLE_KEYRING: "1",
      GOOSE_MODE: "approve",
      GOOSE_MODEL: "lab-model",
      GOOSE_PROVIDER: "openai",
      OPENAI_API_KEY: "none",
      OPENAI_HOST: url,
    }),
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

/** An agent that can be started: its command, and the whole environment of whoever starts it. */
export function prepared(name, { installed, home, temporary, url }) {
  const agent = AGENTS[name];
  for (const [path, content] of Object.entries(agent.files?.(url) ?? {})) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), content);
  }
  return {
    name,
    speaks: agent.speaks,
    cancelledAs: agent.cancelledAs ?? "cancelled",
    command: agent.command(join(installed, "node_modules")),
    environment: {
      HOME: home,
      LANG: "C.UTF-8",
      NO_COLOR: "1",
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      TERM: "dumb",
      TMPDIR: temporary,
      ...agent.environment(url),
    },
  };
}
