// What the lab's model answers. Pure: the same conversation always has the same answer.
//
// The last thing the user said decides, and in capitals it steers: USE A TOOL, GO SLOWLY, RECALL. Anything else is
// echoed. An agent asks its model for more than its user did (a title, a summary); such questions are echoed too.

/** What a tool call of the model does, and what it then reads. It writes, so an agent has to ask before. */
const COMMAND = "echo made by a tool > made-by-a-tool.txt && cat made-by-a-tool.txt";

/** A slow answer has so many words, and so much time passes before each. */
const SLOW_WORDS = 100;
const SLOW_MS = 200;

/**
 * The answer to a conversation: `{ say, pauseMs, call }`.
 *
 * `texts` is all that stands in messages of the user, `result` what the tool called last has said since, and `tools`
 * are those that the agent offers, as `{ name, parameters }`.
 */
export function plan({ texts, result, tools }) {
  const said = texts.map(withoutAdditions).filter((text) => text !== "");
  const last = said.at(-1) ?? "";
  if (result !== undefined) return quick(`The tool said: ${result.trim()}`);
  if (last.includes("USE A TOOL")) return useShell(tools) ?? quick("There is no tool for that.");
  if (last.includes("GO SLOWLY")) return { say: slowly(), pauseMs: SLOW_MS };
  if (last.includes("RECALL")) return quick(`You said before: ${said.slice(0, -1).join("; ")}`);
  return quick(`You said: ${last}`);
}

/** Agents put words of their own into the user's mouth, in tags or under a heading of a file. */
function withoutAdditions(text) {
  const bare = text.replace(/<([a-z][\w-]*)\b[^>]*>[\s\S]*?<\/\1>/gi, "").trim();
  return bare.startsWith("# AGENTS.md") ? "" : bare;
}

function quick(text) {
  const half = Math.ceil(text.length / 2);
  return { say: [text.slice(0, half), text.slice(half)], pauseMs: 0 };
}

function slowly() {
  return Array.from({ length: SLOW_WORDS }, (_, index) => `word ${index + 1} `);
}

function useShell(tools) {
  const shell = tools.find(
    ({ name, parameters }) => /bash|shell|exec/i.test(name) && commandOf(parameters) !== undefined,
  );
  if (shell === undefined) return undefined;
  return { ...quick(`I use ${shell.name}. `), call: { name: shell.name, arguments: filled(shell.parameters) } };
}

function commandOf(parameters) {
  return ["command", "cmd"].find((name) => parameters?.properties?.[name] !== undefined);
}

/** Arguments that the schema takes: the command, what must be there, and for codex the wish to leave its sandbox. */
function filled({ properties, required = [] }) {
  const command = commandOf({ properties });
  const known = {
    [command]: properties[command].type === "array" ? ["sh", "-c", COMMAND] : COMMAND,
    sandbox_permissions: "require_escalated",
    justification: "The lab wants to be asked.",
  };
  const wanted = Object.keys(properties).filter((name) => name in known || required.includes(name));
  return Object.fromEntries(wanted.map((name) => [name, known[name] ?? anyOf(properties[name])]));
}

function anyOf({ type, enum: choices }) {
  if (choices !== undefined) return choices[0];
  return { string: "lab", number: 1, integer: 1, boolean: false, array: [], object: {} }[type] ?? "lab";
}
