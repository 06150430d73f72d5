// Shows a tool call: one line with kind, title and status, and what it read, ran or changed when it is opened.

import { h, icon } from "./dom.js";
import { changeCount, diffView, fileChanges } from "./diff.js";
import { codeBlock, copyButton, link, picture, sliced } from "./markdown.js";
import { arrayOf, line, plainOutput, shortPath, size, visible } from "./text.js";

/** @typedef {import("../types").ToolCall} ToolCall */
/** @typedef {(id: string) => import("../types").Terminal | undefined} TerminalLookup */

/** @type {Record<string, string>} */
const STATUS_WORDS = { pending: "pending", in_progress: "running", paused: "paused", completed: "done", failed: "failed", cancelled: "cancelled" };

/** @param {string | null | undefined} status */
export function statusWord(status) {
  return STATUS_WORDS[status ?? "pending"] ?? line(String(status), 20);
}

/** Members of a call's input that may have its command. */
const COMMANDS = ["command", "cmd", "script"];

/**
 * The command that a call runs, if it has one.
 * @param {ToolCall | undefined} tool
 * @returns {string}
 */
export function commandOf(tool) {
  const input = tool?.rawInput;
  const name = commandMember(input);
  if (name === undefined) return "";
  const command = input[name];
  const args = arrayOf(input.args);
  if (typeof command === "string") return [command, ...args].join(" ");
  return [...command, ...args].map((part) => (/^[\w@%+=:,./-]+$/.test(String(part)) ? String(part) : `'${String(part).replaceAll("'", "'\\''")}'`)).join(" ");
}

/**
 * The name of the member of an input that has the command.
 * @param {any} input
 */
function commandMember(input) {
  if (typeof input !== "object" || input === null) return undefined;
  return COMMANDS.find((name) => (typeof input[name] === "string" && input[name] !== "") || (Array.isArray(input[name]) && input[name].length > 0));
}

/**
 * What a call's input has besides its command and its title; undefined if there is nothing.
 * @param {ToolCall} tool
 */
function inputBesidesCommand({ rawInput: input, title }) {
  if (input === undefined || input === null) return undefined;
  const command = commandMember(input);
  if (command === undefined) return input;
  const others = Object.entries(input).filter(([name, value]) => name !== command && value !== title && !(name === "args" && Array.isArray(value)));
  return others.length > 0 ? Object.fromEntries(others) : undefined;
}

/**
 * @param {ToolCall} tool
 * @returns {import("./diff.js").FileChange[]}
 */
function changesOf(tool) {
  return arrayOf(tool.content).filter((content) => content?.type === "diff").flatMap(fileChanges);
}

/**
 * The line of a call.
 * @param {ToolCall} tool
 * @param {boolean} open
 * @param {() => void} toggle
 */
export function toolLine(tool, open, toggle) {
  const status = tool.status ?? "pending";
  const changes = changesOf(tool);
  const path = arrayOf(tool.locations)[0]?.path;
  const where = typeof path === "string" ? path : "";
  const title = line(tool.title || tool.name || "Tool call", 300);
  const total = { added: 0, removed: 0 };
  for (const { added, removed } of changes) {
    total.added += added;
    total.removed += removed;
  }
  return h("button", { type: "button", class: "tool-line", "aria-expanded": String(open), onclick: toggle },
    icon(tool.kind ?? "other"),
    h("span", { class: tool.kind === "execute" ? "tool-title mono" : "tool-title" }, title),
    where && !title.includes(where.split("/").pop() ?? where) && h("span", { class: "tool-where" }, shortPath(where)),
    total.added + total.removed > 0 && changeCount(total),
    h("span", { class: `status status-${Object.hasOwn(STATUS_WORDS, status) ? status : "other"}` }, statusWord(status)),
    icon("chevron"));
}

/**
 * Everything that is known of a call.
 * @param {ToolCall} tool
 * @param {TerminalLookup} terminal
 * @param {boolean} [whole] shows everything at once, for a decision
 * @returns {HTMLElement}
 */
export function toolBody(tool, terminal, whole = false) {
  const body = h("div", { class: "tool-body" });
  const command = commandOf(tool);
  const content = arrayOf(tool.content);
  const changed = new Set(changesOf(tool).map(({ path }) => path));
  if (command) body.append(commandBlock(command));
  for (const part of content) body.append(...toolContent(part, terminal, command, whole));
  const locations = arrayOf(tool.locations).filter((place) => place?.path !== undefined && (whole ? !changed.has(place.path) : changed.size === 0));
  if (locations.length > 0) {
    body.append(h("ul", { class: "locations" }, locations.slice(0, whole ? undefined : 50).map((place) => h("li", null, `${visible(place.path)}${place.line ? `:${visible(place.line)}` : ""}`))));
  }
  const input = inputBesidesCommand(tool);
  if (input !== undefined && (whole || (!command && content.length === 0))) body.append(json("Input", input, whole));
  if (content.length === 0 && tool.rawOutput !== undefined && tool.rawOutput !== null) body.append(json("Output", tool.rawOutput, whole));
  const leftOut = arrayOf(tool.leftOut);
  if (leftOut.length) body.append(h("p", { class: "dim" }, `Not shown because of its length: ${leftOut.map((name) => line(name, 40)).join(", ")}.`));
  if (!body.firstChild) body.append(h("p", { class: "dim no-details" }, "The agent gave no details."));
  return body;
}

/** @param {string} command */
export function commandBlock(command) {
  return h("div", { class: "command" }, h("span", { class: "prompt", "aria-hidden": "true" }, "$"), h("code", null, visible(command)), copyButton(() => command));
}

/**
 * @param {any} part
 * @param {TerminalLookup} terminal
 * @param {string} command
 * @param {boolean} whole
 * @returns {HTMLElement[]}
 */
function toolContent(part, terminal, command, whole) {
  if (part?.type === "diff") return fileChanges(part).map((change) => diffView(change, whole));
  if (part?.type === "terminal") {
    const shown = terminal(part.terminalId);
    if (!shown) return whole ? [json("Terminal", part, whole)] : [];
    const exit = shown.exit;
    const code = exit?.exitCode;
    return [
      ...(shown.command && shown.command !== command ? [commandBlock(shown.command)] : []),
      ...(shown.output ? [outputBlock(plainOutput(shown.output))] : []),
      ...(exit && (exit.signal || code) ? [h("p", { class: "exit" }, exit.signal ? `ended by ${line(exit.signal, 30)}` : `exit code ${code}`)] : []),
    ];
  }
  return [contentBlock(part?.content ?? part, whole)];
}

/**
 * @param {string} text
 * @param {boolean} [whole] shows all of it at once
 */
export function outputBlock(text, whole = false) {
  const element = h("pre", { class: "output", tabindex: "0", role: "group", "aria-label": "Output" });
  if (whole) element.textContent = visible(text);
  else sliced(element, text.replace(/\n+$/, ""));
  return element;
}

/**
 * A content block of a tool call or a message.
 * @param {any} block
 * @param {boolean} [whole] shows all of it as it is, for a decision
 * @returns {HTMLElement}
 */
export function contentBlock(block, whole = false) {
  switch (block?.type) {
    case "text": {
      if (whole) return outputBlock(String(block.text ?? ""), whole);
      const fence = /^```(\w*)\n([^]*?)\n?```\s*$/.exec(String(block.text ?? ""));
      return fence ? codeBlock(fence[2], fence[1]) : outputBlock(plainOutput(String(block.text ?? "")));
    }
    case "image":
      return picture(String(block.mimeType), String(block.data), "Image");
    case "audio":
      return h("p", { class: "dim" }, `Audio (${visible(String(block.mimeType))}, ${size(String(block.data).length * 0.75)})`);
    case "resource_link":
      return h("p", { class: "resource" }, icon("link"), link(String(block.uri ?? ""), String((whole ? undefined : block.title ?? block.name) ?? block.uri ?? "Link")));
    case "resource": {
      const { uri, text } = block.resource ?? {};
      const name = String(uri ?? "file").split("/").pop() || "file";
      return h("details", { class: "resource", open: whole }, h("summary", null, icon("attach"), ` ${whole ? visible(uri) : line(name, 100)}`), typeof text === "string" ? outputBlock(text, whole) : h("p", { class: "dim" }, "Binary content"));
    }
    default:
      return json(`Content of the kind ${line(String(block?.type), 40)}`, block ?? null, whole);
  }
}

/**
 * @param {string} label
 * @param {any} value
 * @param {boolean} whole
 */
function json(label, value, whole) {
  if (typeof value === "string") return outputBlock(value, whole);
  const text = JSON.stringify(value, null, 2) ?? "";
  if (whole) return h("div", { class: "json" }, h("div", { class: "label" }, label), outputBlock(text, whole));
  return h("div", { class: "json" }, h("div", { class: "label" }, label), text.length > 20_000 ? outputBlock(text) : codeBlock(text, "json"));
}

