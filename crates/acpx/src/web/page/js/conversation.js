// The model of one conversation: updates of version 2 in, items of the virtual list out.
//
// Each event counts once, whatever connection or page of the history it came with. Items are found again by the ids of
// messages, tool calls, plans and compactions; only `rev` of what changed rises. `items` is another array if something
// but its end has changed. `trim` bounds what is kept of a long conversation.

import { arrayOf, fromBase64 } from "./text.js";

/** @typedef {import("../types").Item} Item */
/** @typedef {import("../types").UpdateParams} UpdateParams */

/** A part of a message ends at a block's end after this many characters, at a line's end after twice as many. */
const PART = 3_000;
/** A longer line is cut, so that none is searched or rendered as a whole. */
const LONGEST_LINE = 16_000;
/** Text of a terminal or of a part of a tool call that is kept. */
const OUTPUT = 100_000;
/** The same of earlier tool calls, if there is much. */
const EARLIER_OUTPUT = 4_000;
/** How many tool calls at the end are kept as they are. */
const WHOLE_CALLS = 50;
/** About how many characters a conversation has before its earlier tool calls are shortened. */
const MUCH = 10_000_000;
/** How many items, and about how many characters, `trim` leaves. */
const KEPT_ITEMS = 5_000;
const KEPT_CHARACTERS = 20_000_000;
/** A part of a tool call that is nested more deeply counts as too long. */
const DEEPEST = 100;
const FINISHED = ["completed", "failed", "cancelled"];

/** @type {Record<string, { text: string, tone: "quiet" | "info" | "warning" | "error" }>} */
const STOPS = {
  cancelled: { text: "Cancelled", tone: "info" },
  refusal: { text: "The agent refused to continue", tone: "warning" },
  max_tokens: { text: "Stopped at the token limit", tone: "warning" },
  max_turn_requests: { text: "Stopped at the limit of requests in a turn", tone: "warning" },
  error: { text: "The turn failed", tone: "error" },
};

export class Conversation {
  /** @type {Item[]} */ items = [];
  /** @type {Map<string, Item[]>} */ #byKey = new Map();
  /** @type {Map<string, import("../types").Terminal>} */ terminals = new Map();
  /** @type {Map<string, Item>} */ #toolOfTerminal = new Map();
  /** The last event that was applied. */
  lastSeq = 0;
  /** Where older turns end: the cursor for `_acpx/history`. @type {number | null} */
  from = null;
  more = false;
  /** @type {"running" | "requires_action" | "idle"} */ state = "idle";
  /** @type {{ requestId?: string, since: number } | null} */ running = null;
  #turn = 0;
  #marks = 0;
  /** @type {import("../types").ConfigOption[]} */ options = [];
  /** @type {import("../types").Command[]} */ commands = [];
  /** @type {{ used: number, size: number, cost?: any } | null} */ usage = null;
  /** @type {string | undefined} */ title;
  /** Names of prompts that this browser sent. @type {Set<string>} */ mine = new Set();
  /** A message or call that has just been finished, for assistive technology. @type {(text: string) => void} */ onfinished = () => {};
  /** A prompt of this browser is in the conversation. @type {(requestId: string) => void} */ oninserted = () => {};

  /**
   * Applies a page of older turns before everything.
   * @param {UpdateParams[]} updates
   * @param {number} from
   * @param {boolean} more
   * @returns {number} how many items were added at the beginning
   */
  prepend(updates, from, more) {
    const older = new Conversation();
    older.mine = this.mine;
    older.#marks = this.#marks;
    for (const params of updates) older.apply(params);
    for (const item of older.items) item.last = true;
    this.#marks = older.#marks;
    this.from = from;
    this.more = more && updates.length > 0;
    if (this.lastSeq === 0) {
      this.lastSeq = older.lastSeq;
      this.#turn = older.#turn;
      this.options = older.options.length ? older.options : this.options;
      this.commands = older.commands.length ? older.commands : this.commands;
      this.usage ??= older.usage;
    }
    for (const [id, terminal] of older.terminals) if (!this.terminals.has(id)) this.terminals.set(id, terminal);
    for (const [id, item] of older.#toolOfTerminal) if (!this.#toolOfTerminal.has(id)) this.#toolOfTerminal.set(id, item);
    for (const [key, items] of older.#byKey) if (!this.#byKey.has(key)) this.#byKey.set(key, items);
    this.items = [...older.items, ...this.items];
    return older.items.length;
  }

  /** @param {UpdateParams} params */
  apply(params) {
    const update = params.update;
    if (typeof update !== "object" || update === null) return;
    const meta = params._meta?.acpx ?? {};
    const seq = typeof meta.seq === "number" ? meta.seq : 0;
    const known = seq > 0 && seq <= this.lastSeq;
    // The state before the answer to `session/resume` is that of an event that was applied, and counts nevertheless.
    if (known && update.sessionUpdate !== "state_update") return;
    this.#applied(update, { ...meta, ...(update._meta?.acpx ?? {}), seq: known ? 0 : seq, at: meta.at });
    if (seq > this.lastSeq) this.lastSeq = seq;
  }

  /**
   * @param {any} update
   * @param {any} meta
   */
  #applied(update, meta) {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
      case "agent_message_chunk":
      case "agent_thought_chunk":
        return this.#chunk(KINDS[update.sessionUpdate], update.messageId, [update.content], meta);
      case "user_message":
      case "agent_message":
      case "agent_thought":
        return this.#message(KINDS[update.sessionUpdate], update, meta);
      case "tool_call":
      case "tool_call_update":
        return this.#toolCall(update, meta);
      case "tool_call_content_chunk":
        return this.#toolContent(update, meta);
      case "terminal_update":
      case "terminal_output_chunk":
        return this.#terminal(update);
      case "plan_update":
        return this.#plan(update.plan, meta);
      case "state_update":
        return this.#stateUpdate(update, meta);
      case "notice":
        return this.#mark(`n:${meta.seq || `x${this.#marks}`}`, { text: update.title ?? "Notice", detail: update.description, tone: TONES[update.severity] ?? "info" }, meta);
      case "compaction_update":
        return this.#compaction(update, meta);
      case "available_commands_update":
        this.commands = arrayOf(update.availableCommands);
        return;
      case "config_option_update":
        this.options = arrayOf(update.configOptions);
        return;
      case "usage_update":
        this.usage = { used: update.used, size: update.size, cost: update.cost ?? this.usage?.cost };
        return;
      case "session_info_update":
        if (typeof update.title === "string") this.title = update.title;
        return;
      case "subagent_update":
        return this.#mark(`a:${update.subagentId ?? update.sessionId ?? this.#marks}`, { text: `Sub-agent: ${update.title ?? update.name ?? update.sessionId ?? ""}`, tone: "quiet" }, meta);
    }
  }

  /**
   * @param {string} key
   * @param {Item["kind"]} kind
   * @param {any} meta
   * @returns {Item}
   */
  #add(key, kind, meta) {
    /** @type {Item} */
    const item = { key, kind, seq: meta.seq, lastSeq: meta.seq, rev: 0, at: meta.at };
    // The message before a new item is finished.
    const before = this.items[this.items.length - 1];
    if (before && before.key !== key) this.#finish(before);
    this.items.push(item);
    const same = this.#byKey.get(key);
    if (same) same.push(item);
    else this.#byKey.set(key, [item]);
    return item;
  }

  /** @param {Item} item */
  #finish(item) {
    if (item.last || item.kind === "tool" || item.kind === "plan" || item.kind === "mark") return;
    item.last = true;
    item.rev += 1;
    if (item.kind === "agent") {
      const parts = this.#byKey.get(item.key) ?? [];
      this.onfinished(parts.slice(0, 2).map(({ segment }) => segment?.source ?? "").join("").slice(0, 600));
    }
  }

  /**
   * @param {Item} item
   * @param {any} meta
   */
  #touch(item, meta) {
    item.rev += 1;
    if (meta.seq > 0) {
      item.lastSeq = meta.seq;
      item.seq ||= meta.seq;
    }
  }

  /**
   * @param {Item["kind"]} kind
   * @param {string | undefined} messageId
   * @param {any[]} contents
   * @param {any} meta
   */
  #chunk(kind, messageId, contents, meta) {
    const before = this.items[this.items.length - 1];
    const key = messageId !== undefined ? `m:${messageId}` : before?.kind === kind ? before.key : `m:?${this.#marks++}`;
    const parts = this.#byKey.get(key);
    let item = parts?.[parts.length - 1];
    if (!item || item.kind !== kind) {
      item = this.#add(key, kind, meta);
      item.first = true;
      item.segment = { source: "", fence: null };
      if (kind === "user") this.#began(item, meta);
    }
    for (const content of contents) item = this.#content(item, content, meta);
    this.#touch(item, meta);
  }

  /**
   * @param {Item} item
   * @param {any} content
   * @param {any} meta
   */
  #content(item, content, meta) {
    let current = item;
    const segment = /** @type {import("../types").Segment} */ (current.segment);
    if (content?.type !== "text") {
      (segment.images ??= []).push(content);
      return current;
    }
    if (segment.images) current = this.#part(current, "", null, meta);
    /** @type {import("../types").Segment} */ (current.segment).source += String(content.text ?? "");
    for (;;) {
      const open = /** @type {import("../types").Segment} */ (current.segment);
      const cut = open.source.length > PART ? partEnd(open) : null;
      if (!cut) return current;
      open.scan = undefined;
      const rest = open.source.slice(cut.at);
      open.source = open.source.slice(0, cut.at);
      this.#touch(current, meta);
      current = this.#part(current, rest, cut.fence, meta);
    }
  }

  /**
   * Begins the next part of a long message, after its last one.
   * @param {Item} before
   * @param {string} source
   * @param {string | null} fence
   * @param {any} meta
   */
  #part(before, source, fence, meta) {
    /** @type {Item} */
    const item = { key: before.key, kind: before.kind, seq: meta.seq, lastSeq: meta.seq, rev: 0, at: meta.at, segment: { source, fence } };
    const parts = /** @type {Item[]} */ (this.#byKey.get(before.key));
    parts.push(item);
    before.last = true;
    before.rev += 1;
    if (this.items[this.items.length - 1] === before) this.items.push(item);
    else this.items = this.items.toSpliced(this.items.indexOf(before) + 1, 0, item);
    return item;
  }

  /**
   * A whole message: replaces what is there.
   * @param {Item["kind"]} kind
   * @param {any} update
   * @param {any} meta
   */
  #message(kind, update, meta) {
    const parts = this.#byKey.get(`m:${update.messageId}`);
    if (update.content === undefined && parts) return;
    if (parts) {
      const [first, ...others] = parts;
      if (others.length) {
        const gone = new Set(others);
        this.items = this.items.filter((item) => !gone.has(item));
      }
      first.segment = { source: "", fence: null };
      parts.length = 1;
    }
    this.#chunk(kind, update.messageId, arrayOf(update.content), meta);
  }

  /**
   * The prompt of a turn.
   * @param {Item} item
   * @param {any} meta
   */
  #began(item, meta) {
    item.client = meta.client;
    item.requestId = meta.requestId;
    if (typeof meta.turn === "number") this.#turn = meta.turn;
    if (meta.requestId && this.mine.has(meta.requestId)) {
      item.mine = true;
      this.oninserted(meta.requestId);
    }
  }

  /**
   * @param {any} update
   * @param {any} meta
   */
  #toolCall(update, meta) {
    const key = `t:${update.toolCallId}`;
    const parts = this.#byKey.get(key);
    let item = parts?.[parts.length - 1];
    const again = item?.tool && FINISHED.includes(item.tool.status ?? "") && update.status === "pending" && /** @type {any} */ (item).turn !== this.#turn;
    if (!item || again) {
      item = this.#add(key, "tool", meta);
      item.tool = { toolCallId: update.toolCallId, status: "pending" };
      /** @type {any} */ (item).turn = this.#turn;
    }
    const tool = /** @type {any} */ (item.tool);
    for (const name of ["title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput"]) {
      if (update[name] !== undefined) tool[name] = update[name];
    }
    if (Array.isArray(meta.leftOut)) tool.leftOut = meta.leftOut;
    if (Array.isArray(tool.content)) tool.content = [...tool.content];
    shorten(tool, OUTPUT);
    for (const content of arrayOf(update.content)) {
      if (content?.type === "terminal") this.#toolOfTerminal.set(content.terminalId, item);
    }
    this.#touch(item, meta);
  }

  /**
   * @param {any} update
   * @param {any} meta
   */
  #toolContent(update, meta) {
    const parts = this.#byKey.get(`t:${update.toolCallId}`);
    if (!parts) this.#toolCall({ toolCallId: update.toolCallId }, meta);
    const item = /** @type {Item[]} */ (this.#byKey.get(`t:${update.toolCallId}`)).slice(-1)[0];
    const tool = /** @type {import("../types").ToolCall} */ (item.tool);
    const content = (tool.content = arrayOf(tool.content));
    const last = content[content.length - 1];
    const added = update.content;
    if (added?.content?.type === "text" && last?.content?.type === "text") {
      content[content.length - 1] = { ...last, content: { ...last.content, text: latest(`${last.content.text ?? ""}${added.content.text ?? ""}`) } };
    } else {
      content.push(added);
      shorten(tool, OUTPUT);
    }
    if (added?.type === "terminal") this.#toolOfTerminal.set(added.terminalId, item);
    this.#touch(item, meta);
  }

  /** @param {any} update */
  #terminal(update) {
    const id = update.terminalId;
    const terminal = this.terminals.get(id) ?? { output: "" };
    this.terminals.set(id, terminal);
    if (update.command !== undefined) terminal.command = update.command ?? undefined;
    if (update.cwd !== undefined) terminal.cwd = update.cwd ?? undefined;
    if (update.exitStatus !== undefined) terminal.exit = update.exitStatus;
    if (update.output !== undefined) terminal.output = update.output ? fromBase64(update.output.data) : "";
    if (update.data !== undefined) terminal.output += fromBase64(update.data);
    terminal.output = latest(terminal.output);
    const item = this.#toolOfTerminal.get(id);
    if (item) item.rev += 1;
  }

  /**
   * @param {any} plan
   * @param {any} meta
   */
  #plan(plan, meta) {
    if (!Array.isArray(plan?.entries)) return;
    const key = `p:${plan.planId}:${this.#turn}`;
    const item = this.#byKey.get(key)?.[0] ?? this.#add(key, "plan", meta);
    item.plan = plan.entries;
    this.#touch(item, meta);
  }

  /**
   * @param {string} key
   * @param {NonNullable<Item["mark"]>} mark
   * @param {any} meta
   */
  #mark(key, mark, meta) {
    this.#marks += 1;
    const item = this.#byKey.get(key)?.[0] ?? this.#add(key, "mark", meta);
    item.mark = mark;
    this.#touch(item, meta);
  }

  /**
   * @param {any} update
   * @param {any} meta
   */
  #compaction(update, meta) {
    /** @type {Record<string, string>} */
    const statusTexts = { in_progress: "The agent is compacting the conversation…", completed: "The agent compacted the conversation", failed: "The compaction failed", cancelled: "The compaction was cancelled" };
    const summary = arrayOf(update.summary).map((/** @type {any} */ block) => block?.text ?? "").join("");
    this.#mark(`c:${update.compactionId}`, { text: statusTexts[update.status] ?? "Compaction", detail: update.error ?? (summary || undefined), tone: update.status === "failed" ? "error" : "info" }, meta);
  }

  /**
   * @param {any} update
   * @param {any} meta
   */
  #stateUpdate(update, meta) {
    this.state = update.state === "running" || update.state === "requires_action" ? update.state : "idle";
    if (typeof meta.turn === "number") this.#turn = meta.turn;
    if (this.state !== "idle") {
      this.running ??= { since: Date.parse(meta.at) || Date.now() };
      if (meta.requestId) this.running.requestId = meta.requestId;
      return;
    }
    const ran = this.running !== null;
    this.running = null;
    const last = this.items[this.items.length - 1];
    if (last) this.#finish(last);
    // An agent that was stopped or has died says nothing more of its calls. One that lists work in the background may.
    for (const item of arrayOf(update.background).length > 0 ? [] : this.items) {
      if (!item.tool || FINISHED.includes(item.tool.status ?? "")) continue;
      item.tool.status = "cancelled";
      item.rev += 1;
    }
    const stop = STOPS[update.stopReason];
    if (!stop || !(ran || meta.seq > 0)) return;
    const error = update.error;
    const detail = error ? error.data?.details ?? error.data?.acpx?.message ?? error.message : meta.limit?.message;
    this.#mark(`e:${meta.seq || `x${this.#marks}`}`, { ...stop, detail: typeof detail === "string" ? detail : undefined }, meta);
  }

  /**
   * Adds a mark that only this page knows, unless the last one has its detail.
   * @param {NonNullable<Item["mark"]>} mark
   */
  note(mark) {
    if (this.items.at(-1)?.mark?.detail === mark.detail) return;
    this.#mark(`l:${this.#marks}`, mark, { seq: 0, at: new Date().toISOString() });
  }

  /** Bounds what is kept: shortens earlier tool calls, and drops the oldest items. They come back as older turns. */
  trim() {
    let characters = 0;
    for (const item of this.items) characters += lengthOf(item, MUCH);
    for (const { output } of this.terminals.values()) characters += output.length;
    if (characters > MUCH) this.#shortenEarlierCalls();
    this.#drop(this.#cut());
  }

  #shortenEarlierCalls() {
    let calls = 0;
    for (let at = this.items.length - 1; at >= 0; at -= 1) {
      const item = this.items[at];
      if (!item.tool || (calls += 1) <= WHOLE_CALLS) continue;
      if (item.shortened === item.rev) break;
      if (!FINISHED.includes(item.tool.status ?? "")) continue;
      shorten(item.tool, EARLIER_OUTPUT);
      for (const { terminalId } of arrayOf(item.tool.content)) {
        const terminal = this.terminals.get(terminalId);
        if (terminal) terminal.output = headAndTail(terminal.output, EARLIER_OUTPUT);
      }
      item.shortened = item.rev += 1;
    }
  }

  /** The first item that is kept: no earlier item but a plan has a later event, because older turns end at its event. */
  #cut() {
    let characters = 0, least = this.items.length;
    while (least > 0 && this.items.length - least < KEPT_ITEMS && characters < KEPT_CHARACTERS) characters += lengthOf(this.items[least -= 1], KEPT_CHARACTERS);
    let last = 0, cut = 0;
    for (const [at, { kind, seq, lastSeq }] of this.items.entries()) {
      if (at > least) break;
      if (seq > last) cut = at;
      last = Math.max(last, kind === "plan" ? seq : lastSeq);
    }
    return cut;
  }

  /** Drops items at the beginning. @param {number} amount */
  #drop(amount) {
    if (amount === 0) return;
    for (const { key } of this.items.slice(0, amount)) this.#byKey.delete(key);
    this.items = this.items.slice(amount);
    // A part of a message or an earlier use of an id may be left.
    for (const item of this.items) {
      const same = this.#byKey.get(item.key);
      if (!same) this.#byKey.set(item.key, this.items.filter(({ key }) => key === item.key));
    }
    const kept = new Set(this.items);
    for (const [id, item] of this.#toolOfTerminal) {
      if (kept.has(item)) continue;
      this.#toolOfTerminal.delete(id);
      this.terminals.delete(id);
    }
    this.from = this.items[0].seq;
    this.more = true;
  }

  /**
   * The index of the item of an event: the one that ends with it, or else the last one that includes it, or else the first
   * later one.
   * @param {number} seq
   */
  indexOf(seq) {
    const exact = this.items.findIndex((item) => item.lastSeq === seq);
    if (exact >= 0) return exact;
    const around = this.items.findLastIndex((item) => item.seq <= seq && seq <= item.lastSeq);
    return around >= 0 ? around : this.items.findIndex((item) => item.lastSeq > seq);
  }
}

/**
 * The number of characters in a value, as far as it is below a bound. A value that is nested too deeply is above it.
 * @param {any} value
 * @param {number} most
 * @param {number} [depth]
 * @returns {number}
 */
function lengthOf(value, most, depth = 0) {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 8;
  if (depth > DEEPEST) return most + 1;
  let sum = 16;
  for (const name in value) {
    sum += name.length + lengthOf(value[name], most - sum, depth + 1);
    if (sum > most) break;
  }
  return sum;
}

/**
 * A long text without its middle.
 * @param {string} text
 * @param {number} most
 */
function headAndTail(text, most) {
  return text.length > most ? `${text.slice(0, most / 2)}\n… ${text.length - most} characters are left out …\n${text.slice(-most / 2)}` : text;
}

/**
 * Bounds what is kept of a tool call: the middle of long texts, and other long parts as a whole, which `leftOut` names.
 * @param {import("../types").ToolCall} tool
 * @param {number} most
 */
function shorten(tool, most) {
  /** @type {string[]} */
  const leftOut = [];
  for (const name of /** @type {const} */ (["rawInput", "rawOutput"])) {
    if (lengthOf(tool[name], most) <= most) continue;
    if (typeof tool[name] === "string") {
      tool[name] = headAndTail(tool[name], most);
    } else {
      tool[name] = undefined;
      leftOut.push(name);
    }
  }
  if (lengthOf(tool.content, most) > most) {
    tool.content = arrayOf(tool.content).map((part) => (typeof part?.content?.text === "string" ? { ...part, content: { ...part.content, text: headAndTail(part.content.text, most) } } : part));
  }
  // Diffs and images may be longer than texts.
  if (lengthOf(tool.content, 20 * most) > 20 * most) {
    tool.content = [];
    leftOut.push("content");
  }
  if (leftOut.length > 0) tool.leftOut = [...new Set([...arrayOf(tool.leftOut), ...leftOut])];
}

/**
 * The end of an output that has become too long to be kept.
 * @param {string} output
 */
function latest(output) {
  return output.length > OUTPUT ? `…${output.slice(-OUTPUT / 2)}` : output;
}

/** @type {Record<string, "user" | "agent" | "thought">} */
const KINDS = { user_message_chunk: "user", user_message: "user", agent_message_chunk: "agent", agent_message: "agent", agent_thought_chunk: "thought", agent_thought: "thought" };
/** @type {Record<string, "info" | "warning" | "error">} */
const TONES = { info: "info", warning: "warning", error: "error" };

/**
 * Where a part ends: after an empty line outside of code, or else after a line, or else within a very long line. The
 * search continues where the last one ended.
 * @param {import("../types").Segment} segment
 * @returns {{ at: number, fence: string | null } | null}
 */
function partEnd(segment) {
  const { source } = segment;
  const scan = (segment.scan ??= { from: 0, fence: segment.fence, cut: null });
  while (scan.from < source.length) {
    const { from } = scan;
    const length = source.slice(from, from + LONGEST_LINE).indexOf("\n");
    if (length < 0) {
      if (source.length - from < LONGEST_LINE) return null;
      return scan.cut ?? (from > 0 ? { at: from, fence: scan.fence } : { at: LONGEST_LINE - Number(isHighSurrogate(source, LONGEST_LINE - 1)), fence: scan.fence });
    }
    const row = source.slice(from, from + Math.min(length, 200));
    const mark = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(row);
    if (mark && scan.fence === null) scan.fence = row;
    else if (mark && scan.fence !== null && mark[2].trim() === "" && scan.fence.trim().startsWith(mark[1].slice(0, 3))) scan.fence = null;
    scan.from = from + length + 1;
    if (scan.from < PART / 2) continue;
    if (scan.fence === null && row.trim() === "") return { at: scan.from, fence: null };
    if (scan.from <= 2 * PART || !scan.cut) scan.cut = { at: scan.from, fence: scan.fence };
    if (scan.from > 2 * PART) return scan.cut;
  }
  return null;
}

/**
 * Whether a character is the first half of a pair.
 * @param {string} text
 * @param {number} at
 */
function isHighSurrogate(text, at) {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}
