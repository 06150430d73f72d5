// The view of one session: head, conversation, requests and composer. It opens with the last turns of the history,
// then attaches after the last event, and comes back after a break with the same cursor.

import { byId, fill, h, icon, iconButton } from "./dom.js";
import { Composer } from "./composer.js";
import { choosable } from "./dialogs.js";
import { ConnectionLost, HostError } from "./connection.js";
import { Conversation } from "./conversation.js";
import { ItemView } from "./items.js";
import { RequestCards } from "./requests.js";
import { store, stored } from "./settings.js";
import { titleOf } from "./sessions.js";
import { clock, count, duration, line, price, shortPath, visible, withId } from "./text.js";
import { VirtualList } from "./virtual.js";

/** @typedef {import("../types").Item} Item */
/** @typedef {import("../types").Row} Row */

const TURNS = 20;
const OUTPUT_BYTES = 65_536;
/** The error of a session that the host does not have. */
const UNKNOWN = -32002;
/** The conversation is trimmed after this many updates, while its end is on the screen. */
const TRIM_AFTER = 500;
/** Of how many sessions the browser keeps the options and commands. */
const KEPT_OFFERS = 20;
/** How many pages of the history a link to a message may need. */
const MOST_PAGES = 200;

/**
 * @typedef {object} ThreadHost
 * @property {import("./connection.js").Connection} connection
 * @property {import("./sessions.js").SessionStore} sessions
 * @property {import("./requests.js").RequestStore} requests
 * @property {import("./outbox.js").Outbox} outbox
 * @property {(text: string, action?: { label: string, run: () => void }, ms?: number) => void} toast
 * @property {(text: string) => void} announce
 * @property {() => "full" | "answer" | "read"} scope
 * @property {(anchor: HTMLElement, row: Row) => void} menu
 */

export class Thread {
  /** @type {string | null} */ record = null;
  #conversation = new Conversation();
  #attached = false;
  /** Whether the session is attached to once the list has its row. */
  #awaitsRow = false;
  #opening = 0;
  /** @type {Promise<void> | null} */ #loadingOlder = null;
  /** Whether older turns could not be loaded, until you scroll or the connection is there again. */ #olderFailed = false;
  #untrimmed = 0;
  /** @type {import("../types").QueuedPrompt[]} */ #queued = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #queueTimer;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #clock;
  #frame = 0;
  #shownOptions = /** @type {any} */ (null);
  #keptCommands = /** @type {any} */ (null);
  #title = h("h1", { class: "thread-title", tabindex: "-1" });
  #sub = h("p", { class: "thread-sub" });
  #log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: "0" });
  #empty = h("div", { class: "empty" });
  #status = h("div", { class: "turn-status", "aria-hidden": "true" });
  #jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.#list.toEnd() }, icon("down"), h("span", null, "Latest"));
  #problem = h("p", { class: "thread-problem", role: "alert", hidden: true });
  #requests = h("div", { class: "requests" });
  /** @type {VirtualList<Item>} */ #list;
  #view;
  #cards;
  #composer;

  /** @param {ThreadHost} host */
  constructor(host) {
    this.host = host;
    this.#view = new ItemView(
      (id) => this.#conversation.terminals.get(id),
      (item) => `#/s/${encodeURIComponent(this.record ?? "")}/seq/${item.lastSeq}`,
      (item) => this.#conversation.items.filter(({ key }) => key === item.key),
      (items) => this.#list.keep(items),
    );
    this.#cards = new RequestCards(host.requests, () => host.scope() !== "read", host.toast, false);
    this.#composer = new Composer({
      send: (blocks, text) => this.#send(blocks, text),
      cancel: () => this.cancel(),
      stopped: () => this.focusLog(),
      choose: (option, value) => this.#choose(option, value),
      toast: host.toast,
      edit: (prompt) => this.#dropQueued(prompt, true),
      drop: (prompt) => this.#dropQueued(prompt, false),
    });
    const menu = iconButton("more", "Session menu", () => {
      const row = this.row;
      if (row) host.menu(menu, row);
    }, { "aria-haspopup": "menu" });
    fill(byId("thread"),
      h("header", { class: "thread-head" }, h("a", { class: "icon-button back", href: "#/", "aria-label": "All sessions", title: "All sessions" }, icon("back")),
        h("div", { class: "thread-name" }, this.#title, this.#sub), menu),
      h("div", { class: "log-frame" }, this.#log, this.#empty, this.#jump),
      h("div", { class: "dock" }, this.#problem, this.#status, this.#requests, this.#composer.element));
    for (const kind of ["scroll", "wheel", "touchmove"]) {
      this.#log.addEventListener(kind, () => {
        if (this.#olderFailed) this.#list.invalidate();
        this.#olderFailed = false;
      }, { passive: true });
    }
    this.#list = new VirtualList(this.#log, {
      items: () => this.#conversation.items,
      estimate: (item) => this.#view.estimate(item),
      render: (item, node) => this.#view.render(item, node),
      revision: (item) => item.rev,
      onstart: () => this.#olderFailed || void this.#older(),
      onfollow: (following) => {
        this.#jump.hidden = following;
        if (following) this.#conversation.trim();
      },
    }, true);
  }

  /** @returns {Row | undefined} */
  get row() {
    return this.record ? this.host.sessions.get(this.record) : undefined;
  }

  /**
   * Opens a session, perhaps at an event.
   * @param {string} record
   * @param {number} [seq]
   */
  async open(record, seq) {
    if (this.record === record && this.#conversation.lastSeq > 0) {
      if (seq !== undefined) await this.#reveal(seq, this.#opening);
      return;
    }
    const opening = ++this.#opening;
    if (this.record !== record) this.#detach(this.record);
    this.record = record;
    this.#begin();
    this.#list.reset(seq === undefined);
    this.#composer.open(record);
    this.render();
    await this.#load(opening, seq);
  }

  /** Starts with an empty model. */
  #begin() {
    this.#conversation = new Conversation();
    for (const name of this.host.outbox.names()) this.#conversation.mine.add(name);
    this.#conversation.oninserted = (requestId) => this.host.outbox.remove(requestId);
    this.#conversation.onfinished = (text) => this.#attached && document.visibilityState === "visible" && this.host.announce(line(text, 300));
    this.#attached = false;
    this.#awaitsRow = false;
    this.#showProblem("");
    this.#queued = [];
    this.#loadingOlder = null;
    this.#olderFailed = false;
    this.#untrimmed = 0;
  }

  /** Forgets the session and all drafts: nothing of them stays on the screen. */
  forget() {
    this.leave();
    fill(this.#title);
    fill(this.#sub);
    delete this.#sub.dataset.shown;
    this.#queued = [];
    this.#showProblem("");
    this.#showEmpty("");
    this.#showStatus(null);
    this.#cards.show(this.#requests, []);
    this.#composer.forget();
  }

  /** Leaves the session; its conversation is read again when it is opened. */
  leave() {
    this.#opening += 1;
    this.#detach(this.record);
    this.record = null;
    this.#conversation = new Conversation();
    this.#attached = false;
    clearInterval(this.#clock);
    this.#clock = undefined;
    this.#list.reset(true);
  }

  /** Lets the host park the agent of a session that is not shown. @param {string | null} record */
  #detach(record) {
    // Without a connection the host has detached this page.
    if (record && this.host.connection.state === "online") this.host.connection.request("_acpx/detach", { sessionId: record }).catch(() => {});
  }

  /**
   * @param {number} opening
   * @param {number} [seq]
   */
  async #load(opening, seq) {
    const conversation = this.#conversation;
    try {
      this.#showEmpty("Loading…");
      const page = await this.#history();
      if (opening !== this.#opening) return;
      conversation.prepend(page.updates ?? [], page.from ?? 0, page.more === true);
      this.#list.invalidate();
      this.update();
      if (seq !== undefined) await this.#reveal(seq, opening);
      await this.#attach();
    } catch (error) {
      if (opening !== this.#opening || error instanceof ConnectionLost) return;
      // Its row may be one that only this browser kept.
      if (error instanceof HostError && error.number === UNKNOWN && this.record) this.host.sessions.changed({ removed: [this.record] });
      this.#showEmpty("");
      this.#showProblem(conversation.lastSeq === 0 ? "The conversation could not be loaded" : "The session is not followed", error);
    }
  }

  /**
   * Shows what failed until it works.
   * @param {string} what empty if nothing failed
   * @param {unknown} [error]
   */
  #showProblem(what, error) {
    this.#problem.hidden = what === "";
    fill(this.#problem, what && [icon("warning"), h("span", null, `${what}: ${error instanceof Error ? visible(error.message) : ""}`), h("button", { type: "button", class: "button", onclick: () => void this.online() }, "Try again")]);
  }

  /** @returns {Promise<any>} */
  #history() {
    const before = this.#conversation.from;
    return this.host.connection.request("_acpx/history", { sessionId: this.record, ...(before === null ? {} : { before }), turns: TURNS, toolOutputBytes: OUTPUT_BYTES });
  }

  /** Follows the session from the event after the last one. A closed session is not opened by looking at it. */
  async #attach() {
    const opening = this.#opening, conversation = this.#conversation, record = this.record;
    if (record && !this.row) {
      // The list has no session without a prompt.
      const { sessions = [] } = await this.host.connection.request("_acpx/sessions", { ids: [record] });
      if (opening !== this.#opening) return;
      this.host.sessions.changed({ changed: sessions });
    }
    const row = this.row;
    this.#awaitsRow = !row;
    if (!row || (row.state === "closed" && this.host.outbox.of(row.acpxRecordId).length === 0)) return this.update();
    const answer = await this.host.connection.request("session/resume", {
      sessionId: row.acpxRecordId, cwd: row.cwd, mcpServers: [],
      replayFrom: { type: "_acpx/seq", seq: conversation.lastSeq + 1 },
      _meta: { acpx: { later: true, withSeq: true, replay: { toolOutputBytes: OUTPUT_BYTES } } },
    });
    if (opening !== this.#opening) {
      if (this.record !== record) this.#detach(record);
      return;
    }
    this.#attached = true;
    this.#showProblem("");
    if (answer.configOptions?.length) conversation.options = answer.configOptions;
    if (answer.availableCommands?.length) conversation.commands = answer.availableCommands;
    // An agent that does not run offers nothing.
    const kept = stored("offers")?.[row.acpxRecordId];
    if (conversation.options.length === 0) conversation.options = kept?.options ?? [];
    if (conversation.commands.length === 0) conversation.commands = kept?.commands ?? [];
    this.host.outbox.flush(row.acpxRecordId);
    this.#readQueue();
    this.update();
  }

  /** The connection is there again. */
  async online() {
    this.#attached = false;
    this.#olderFailed = false;
    if (!this.record) return;
    this.#showProblem("");
    if (this.#conversation.lastSeq === 0) return this.#load(++this.#opening);
    const opening = this.#opening;
    try {
      await this.#attach();
    } catch (error) {
      if (opening === this.#opening && !(error instanceof ConnectionLost)) this.#showProblem("The session is not followed", error);
    }
  }

  /** Follows whether the session is closed, which detaches every client. @param {boolean} closed */
  async setClosed(closed) {
    if (closed) this.#attached = false;
    else if (!this.#attached) await this.online();
  }

  /** The list has changed: attaches to a session that was opened before the list had its row. */
  async rowsChanged() {
    if (!this.#awaitsRow || !this.row) return;
    this.#awaitsRow = false;
    await this.online();
  }

  /** Loads the turns before the first one, one page at a time. */
  async #older() {
    const conversation = this.#conversation;
    if (!conversation.more || conversation.from === null) return;
    const loading = (this.#loadingOlder ??= this.#prependOlder());
    await loading;
    if (this.#loadingOlder === loading) this.#loadingOlder = null;
    if (conversation === this.#conversation) this.#list.invalidate();
  }

  async #prependOlder() {
    const conversation = this.#conversation, before = conversation.from;
    try {
      const page = await this.#history();
      // The page does not fit if the conversation was trimmed in between.
      if (conversation === this.#conversation && conversation.from === before) conversation.prepend(page.updates ?? [], page.from ?? 0, page.more === true);
    } catch {
      if (conversation === this.#conversation) this.#olderFailed = true;
    }
  }

  /**
   * Loads as much as is needed to show an event, and shows it.
   * @param {number} seq
   * @param {number} opening
   */
  async #reveal(seq, opening) {
    for (let pages = 0; pages < MOST_PAGES && opening === this.#opening && !this.#olderFailed && this.#conversation.more && (this.#conversation.from ?? 0) > seq; pages += 1) {
      await this.#older();
    }
    const item = this.#conversation.items[this.#conversation.indexOf(seq)];
    if (!item || opening !== this.#opening) return;
    this.#list.reveal(item);
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const node = this.#list.nodeOf(item);
      node?.classList.add("target-item");
      setTimeout(() => node?.classList.remove("target-item"), 2500);
    }));
  }

  /** @param {import("../types").UpdateParams} params */
  received(params) {
    if (params.sessionId !== this.record) return;
    this.#conversation.apply(params);
    this.#untrimmed += 1;
    if (this.#untrimmed >= TRIM_AFTER && this.#list.following) {
      this.#untrimmed = 0;
      this.#conversation.trim();
    }
    this.update();
  }

  /** Renders what changed, in the next frame. */
  update() {
    this.#list.invalidate();
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.render();
    });
  }

  render() {
    const row = this.row;
    if (!this.record) return;
    const { usage, items, options, commands, running } = this.#conversation;
    const title = line(titleOf(row), 120);
    if (this.#title.textContent !== title) this.#title.textContent = title;
    const state = this.#state();
    const context = usage && usage.size > 0 ? `${Math.round((usage.used / usage.size) * 100)} % context` : "";
    const parts = [row?.agent && line(row.agent, 40), row && shortPath(row.cwd), price(row?.cost ?? usage?.cost) || (row?.tokens ? `${count(row.tokens)} tokens` : ""), context].filter(Boolean).join("\u2002·\u2002");
    if (this.#sub.dataset.shown !== state + parts) {
      this.#sub.dataset.shown = state + parts;
      fill(this.#sub, h("span", { class: `state state-${state}` }, line(state, 20)), h("span", { class: "thread-facts" }, parts));
    }
    if (items.length > 0) this.#showEmpty("");
    else if (this.#attached || row?.state === "closed") this.#showEmpty("Nothing was said yet.");
    this.#log.setAttribute("aria-busy", String(state === "working"));
    this.#composer.element.hidden = this.host.scope() !== "full";
    this.#composer.setBusy(state === "working" || state === "waiting");
    this.#composer.setCommands(commands);
    this.#composer.setUnknown(this.#attached && state === "parked" && options.length === 0);
    if (row && this.#attached && (this.#shownOptions !== options || this.#keptCommands !== commands) && options.length + commands.length > 0) this.#keepOffer(row.acpxRecordId);
    this.#keptCommands = commands;
    if (this.#shownOptions !== options) {
      this.#shownOptions = options;
      this.#composer.setOptions(options);
      if (row && options.length) store("options", { ...(stored("options") ?? {}), [row.agent]: choosable(options) });
    }
    this.#showQueue();
    if (this.#cards.show(this.#requests, this.host.requests.of(this.record))) this.focusLog();
    this.#showStatus(state === "working" && running ? running.since : null);
  }

  /** Keeps what the agent of a session offers, for when it does not run. @param {string} record */
  #keepOffer(record) {
    const { options, commands } = this.#conversation;
    const { [record]: _, ...others } = stored("offers") ?? {};
    store("offers", Object.fromEntries([...Object.entries(others).slice(1 - KEPT_OFFERS), [record, { options, commands }]]));
  }

  #state() {
    const row = this.row?.state ?? "idle";
    if (this.host.requests.of(this.record ?? "").length > 0) return "waiting";
    if (this.#attached && this.#conversation.state === "running") return "working";
    if (this.#attached && this.#conversation.state === "idle" && row === "working") return "idle";
    return row;
  }

  /** @param {number | null} since */
  #showStatus(since) {
    const show = () => {
      if (since === null) return;
      const took = Date.now() - since;
      fill(this.#status, h("span", { class: "pulse" }), h("span", null, `Working${took >= 3000 ? ` · ${duration(took)}` : ""}`));
    };
    this.#status.hidden = since === null;
    if (since === null) {
      clearInterval(this.#clock);
      this.#clock = undefined;
    } else if (this.#clock === undefined) {
      show();
      this.#clock = setInterval(show, 1000);
    }
  }

  /** @param {string} text */
  #showEmpty(text) {
    this.#empty.hidden = text === "";
    if (this.#empty.textContent !== text) this.#empty.textContent = text;
  }

  /** @param {any[]} blocks @param {string} text */
  async #send(blocks, text) {
    const record = this.record;
    if (!record) return;
    const { prompt, kept } = this.host.outbox.add(record, blocks, text);
    if (!kept) this.host.toast("The browser cannot store this prompt. If it is not sent before you reload the page, it is lost.", undefined, Infinity);
    this.#conversation.mine.add(prompt.requestId);
    this.#list.toEnd();
    this.update();
    if (this.host.connection.state !== "online") return this.host.toast("There is no connection. The prompt is sent when it is back.");
    try {
      if (!this.#attached) await this.#attach();
      if (this.#awaitsRow && this.host.sessions.complete) throw new Error("The session is not there any more");
      if (!this.#attached) return;
      this.host.outbox.flush(record);
      this.#readQueue();
    } catch (error) {
      if (error instanceof ConnectionLost) return;
      this.host.outbox.remove(prompt.requestId);
      this.failed(prompt, /** @type {Error} */ (error));
    }
  }

  /**
   * A prompt was refused: it becomes the draft of its session.
   * @param {import("./outbox.js").OutgoingPrompt} prompt
   * @param {Error} error
   */
  failed({ record, blocks, text }, error) {
    this.#composer.restore(record, blocks, text);
    const reason = withId(error.message, record);
    if (record === this.record) {
      this.#conversation.note({ text: "A prompt was not accepted", detail: reason, tone: "error" });
      this.update();
      return this.host.toast("The prompt was not accepted, so it is a draft again.");
    }
    const open = { label: "Open", run: () => { location.hash = `#/s/${encodeURIComponent(record)}`; } };
    this.host.toast(`A prompt was not accepted, so it is a draft again: ${reason}`, open, Infinity);
  }

  /** Makes a prompt that is too old to be sent the draft of its session. @param {import("./outbox.js").OutgoingPrompt} prompt */
  expired({ record, blocks, text, sentAt }) {
    this.#composer.restore(record, blocks, text);
    this.host.toast(`A prompt of ${clock(new Date(sentAt).toISOString())} was not sent, so it is a draft again.`, undefined, Infinity);
  }

  /** Cancels the running turn, of any client. */
  async cancel() {
    const requestId = this.#conversation.running?.requestId;
    try {
      await this.host.connection.request("_acpx/cancel", { sessionId: this.record, ...(requestId ? { requestId } : {}) });
    } catch (error) {
      this.host.toast(/** @type {Error} */ (error).message);
    }
  }

  /** @param {import("../types").ConfigOption} option @param {any} value */
  async #choose(option, value) {
    const conversation = this.#conversation;
    try {
      const answer = await this.host.connection.request("session/set_config_option", { sessionId: this.record, configId: option.configId, type: option.type === "boolean" ? "boolean" : "id", value });
      if (answer?.configOptions) conversation.options = answer.configOptions;
    } catch (error) {
      conversation.options = [...conversation.options];
      this.host.toast(/** @type {Error} */ (error).message);
    }
    this.update();
  }

  /** Reads the queue again, soon. */
  readQueue() {
    clearTimeout(this.#queueTimer);
    this.#queueTimer = setTimeout(() => this.#readQueue(), 100);
  }

  async #readQueue() {
    const record = this.record;
    if (!record || this.host.scope() !== "full") return;
    try {
      const { prompts = [] } = await this.host.connection.request("_acpx/queue", { sessionId: record, full: true });
      if (record !== this.record) return;
      this.#queued = prompts;
      this.update();
    } catch {
      // The next change of the list asks again.
    }
  }

  #queueShown = "";

  #showQueue() {
    const queued = new Set(this.#queued.map(({ requestId }) => requestId));
    const sending = this.host.outbox.of(this.record ?? "").filter(({ requestId }) => !queued.has(requestId));
    const shown = JSON.stringify([this.record, this.#queued.map(({ requestId, text }) => [requestId, text]), sending.map(({ requestId }) => requestId)]);
    if (shown === this.#queueShown) return;
    this.#queueShown = shown;
    this.#composer.setQueue(this.#queued, sending);
  }

  /**
   * Drops a queued prompt, perhaps into the composer.
   * @param {import("../types").QueuedPrompt} prompt
   * @param {boolean} edit
   */
  async #dropQueued(prompt, edit) {
    try {
      const { dropped = [] } = await this.host.connection.request("_acpx/queue/drop", { sessionId: prompt.acpxRecordId, requestIds: [prompt.requestId] });
      if (!dropped.includes(prompt.requestId)) this.host.toast("The agent already has this prompt.");
      else if (edit) this.#composer.restore(prompt.acpxRecordId, prompt.content ?? [], prompt.text);
      this.host.outbox.remove(prompt.requestId);
    } catch (error) {
      this.host.toast(/** @type {Error} */ (error).message);
    }
    this.#readQueue();
  }

  focusTitle() {
    this.#title.focus({ preventScroll: true });
  }

  focusComposer() {
    this.#composer.focus();
  }

  focusLog() {
    this.#log.focus({ preventScroll: true });
  }

  /** Gives the first request the focus; false if there is none. */
  focusRequest() {
    const card = this.#requests.firstElementChild;
    if (card instanceof HTMLElement) card.focus();
    return card !== null;
  }

  toEnd() {
    this.#list.toEnd();
  }

  /** Shows the previous or next prompt. @param {-1 | 1} step */
  toPrompt(step) {
    const items = this.#conversation.items;
    const top = this.#log.getBoundingClientRect().top;
    const current = items.findIndex((item) => (this.#list.nodeOf(item)?.getBoundingClientRect().bottom ?? -Infinity) > top + 30);
    for (let at = current + step; at >= 0 && at < items.length; at += step) {
      if (items[at].kind === "user" && items[at].first) return this.#list.reveal(items[at]);
    }
  }
}
