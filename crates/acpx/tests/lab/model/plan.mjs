// What the lab's model answers. Pure: the same conversation always has the same answer.
//
// The last line of what the user said decides, and in capitals it steers: USE A TOOL, WRITE TO a path, SEARCH FOR a
// word in past sessions, GO SLOWLY, RECALL. Anything else is echoed. An agent asks its model for more than its user did (a title, a summary); such
// questions are echoed too.

/** What a tool call of the model makes, and what is then in it. */
export const MADE = { file: "made-by-a-tool.txt", text: "made by a tool\n" };

/** How it makes it. It writes, so an agent has to ask before. */
const COMMAND = `echo made by a tool > ${MADE.file} && cat ${MADE.file}`;

/** What the model writes to a file. */
export const WRITTEN = "written by the model\n";

/** A slow answer has so many words, and so much time passes before each. */
const SLOW_WORDS = 100;
const SLOW_MS = 200;

/**
 * The answer to a conversation: `{ say, pauseMs, call }`.
 *
 * `said` is what the user said and what tools have said, in its order, each `{ text }` or `{ result }`; and `tools`
 * are those that the agent offers, as `{ name, parameters }`.
 */
export function plan({ said, tools }) {
  const real = said.flatMap((part) => (part.text === undefined ? [part] : linesOf(part.text)));
  // A result counts as long as it is the last thing said.
  if (real.at(-1)?.result !== undefined) return quick(`The tool said: ${real.at(-1).result.trim()}`);
  const texts = real.flatMap(({ text }) => (text === undefined ? [] : [text]));
  const last = texts.at(-1) ?? "";
  const path = /WRITE TO (\S+)/.exec(last)?.[1];
  if (path !== undefined) return write(tools, path) ?? useShell(tools, writing(path)) ?? NO_TOOL;
  const word = /SEARCH FOR (\w+)/.exec(last)?.[1];
  if (word !== undefined) return search(tools, word) ?? NO_TOOL;
  if (last.includes("USE A TOOL")) return useShell(tools, COMMAND) ?? NO_TOOL;
  if (last.includes("GO SLOWLY")) return { say: slowly(), pauseMs: SLOW_MS };
  if (last.includes("RECALL")) return quick(`You said before: ${texts.slice(0, -1).join("; ")}`);
  return quick(`You said: ${last}`);
}

/** Line by line, because an agent may join what its user said one after the other without an answer. */
function linesOf(text) {
  const lines = withoutAdditions(text).split("\n");
  return lines.filter((line) => line !== "").map((line) => ({ text: line }));
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

const NO_TOOL = quick("There is no tool for that.");

function useShell(tools, command) {
  const shell = tools.find(
    ({ name, parameters }) => /bash|shell|exec/i.test(name) && nameOf(COMMANDS, parameters) !== undefined,
  );
  if (shell === undefined) return undefined;
  const { properties } = shell.parameters;
  const name = nameOf(COMMANDS, shell.parameters);
  // For codex it takes the wish to leave its sandbox.
  return call(shell, {
    [name]: properties[name].type === "array" ? ["sh", "-c", command] : command,
    sandbox_permissions: "require_escalated",
    justification: "The lab wants to be asked.",
  });
}

/** The agent's own tool to write a file, if it has one. */
function write(tools, path) {
  const tool = tools.find(({ name, parameters }) => /^write$/i.test(name) && nameOf(PATHS, parameters) !== undefined);
  return tool && call(tool, { [nameOf(PATHS, tool.parameters)]: path, content: WRITTEN });
}

/** The tool of `acpx mcp` that searches past sessions, by whatever name the agent gives it. */
function search(tools, words) {
  const tool = tools.find(({ name, parameters }) => /search$/.test(name) && parameters?.properties?.words !== undefined);
  return tool && call(tool, { words });
}

/** The same as a command. */
function writing(path) {
  return `echo ${WRITTEN.trim()} > ${path}`;
}

/** What agents call the command and the path that a tool takes. */
const COMMANDS = ["command", "cmd"];
const PATHS = ["path", "file_path", "filePath"];

function nameOf(names, parameters) {
  return names.find((name) => parameters?.properties?.[name] !== undefined);
}

/** Calls a tool with arguments that its schema takes: what is known of them, and what must be there. */
function call({ name, namespace, parameters: { properties, required = [] } }, known) {
  const wanted = Object.keys(properties).filter((name) => name in known || required.includes(name));
  const filled = wanted.map((name) => [name, known[name] ?? anyOf(properties[name])]);
  return { ...quick(`I use ${name}. `), call: { name, namespace, arguments: Object.fromEntries(filled) } };
}

function anyOf({ type, enum: choices }) {
  if (choices !== undefined) return choices[0];
  return { string: "lab", number: 1, integer: 1, boolean: false, array: [], object: {} }[type] ?? "lab";
}
