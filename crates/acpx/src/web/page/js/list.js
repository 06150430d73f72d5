// The view of all sessions.

import { byId, fill, h } from "./dom.js";
import { titleOf } from "./sessions.js";
import { ago, count, folder, line, price, shortPath } from "./text.js";
import { VirtualList } from "./virtual.js";

/** @typedef {import("./sessions.js").ListEntry} ListEntry */

const GROUP_HEIGHT = 40;
const ROW_HEIGHT = 64;

export class SessionListView {
  #store;
  #scroller = byId("sessions");
  #note = byId("sessions-note");
  #filter = /** @type {HTMLInputElement} */ (byId("filter"));
  /** @type {VirtualList<ListEntry>} */ #list;
  /** @type {string | null} */ #current = null;

  /** @param {import("./sessions.js").SessionStore} store */
  constructor(store) {
    this.#store = store;
    this.#list = new VirtualList(this.#scroller, {
      items: () => this.#store.entries(),
      estimate: (entry) => (entry.kind === "group" ? GROUP_HEIGHT : ROW_HEIGHT),
      render: (entry, node) => this.#render(entry, node),
      revision: (entry) => `${entry.rev}${entry.key === this.#current ? "!" : ""}`,
    }, false);
    this.#filter.addEventListener("input", () => {
      this.#store.filter(this.#filter.value);
      this.#scroller.scrollTop = 0;
      this.update();
    });
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.move(1);
      else if (event.key === "Enter") this.#first()?.click();
      else if (event.key === "Escape" && this.#filter.value) {
        this.#filter.value = "";
        this.#filter.dispatchEvent(new Event("input"));
        event.stopPropagation();
      } else return;
      event.preventDefault();
    });
  }

  /** Removes every row and the filter. */
  forget() {
    this.#filter.value = "";
    this.#store.filter("");
    this.#list.reset(false);
    this.setCurrent(null);
  }

  focusFilter() {
    this.#filter.focus();
    this.#filter.select();
  }

  update() {
    const entries = this.#store.entries();
    this.#note.hidden = entries.length > 0;
    if (entries.length === 0) {
      fill(this.#note, !this.#store.loaded ? "Loading…" : this.#filter.value ? "No session matches." : ["There are no sessions yet. Start the first one in a shell, in the directory of your project:", h("code", { class: "example" }, "acpx claude \"fix the tests\"")]);
    }
    this.#list.invalidate();
  }

  /** @param {string | null} record */
  setCurrent(record) {
    this.#current = record;
    this.update();
  }

  #first() {
    return /** @type {HTMLElement | null} */ (this.#scroller.querySelector("a.row"));
  }

  /** Moves the focus in the list. @param {1 | -1} step */
  move(step) {
    const entries = this.#store.entries();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("a.row"))?.dataset.key;
    const key = focused ?? this.#current;
    let at = entries.findIndex((entry) => entry.key === key);
    if (at < 0) at = step > 0 ? -1 : entries.length;
    do at += step; while (entries[at]?.kind === "group");
    const entry = entries[at];
    if (!entry) return;
    this.#list.ensureVisible(at);
    /** @type {HTMLElement | null | undefined} */ (this.#list.nodeOf(entry)?.querySelector("a"))?.focus({ preventScroll: true });
  }

  focus() {
    const current = this.#current && this.#scroller.querySelector(`a[aria-current]`);
    if (current instanceof HTMLElement) current.focus({ preventScroll: true });
    else this.#first()?.focus({ preventScroll: true });
  }

  /**
   * @param {ListEntry} entry
   * @param {HTMLElement | null} node
   */
  #render(entry, node) {
    const element = node ?? h("div", { class: "entry" });
    const focused = node !== null && node.contains(document.activeElement);
    if (entry.kind === "group") {
      fill(element, entry.label === "waiting" ? h("h2", { class: "group waiting" }, "Waiting")
        : h("h2", { class: "group", title: shortPath(entry.cwd) }, h("span", { class: "group-name" }, folder(entry.cwd)), h("span", { class: "group-path" }, shortPath(entry.cwd))));
    } else {
      fill(element, this.#row(entry));
    }
    if (focused) element.querySelector("a")?.focus({ preventScroll: true });
    return element;
  }

  /** @param {import("./sessions.js").RowEntry} entry */
  #row({ row, key }) {
    const last = row.lastMessage;
    const title = line(titleOf(row), 120);
    const money = price(row.cost) || (row.tokens ? `${count(row.tokens)} tok` : "");
    const said = last ? `${last.role === "user" ? "You: " : ""}${line(last.text, 140)}` : "";
    return h("a", { class: "row", href: `#/s/${encodeURIComponent(key)}`, "data-key": key, "aria-current": key === this.#current ? "page" : undefined },
      h("span", { class: "row-top" }, h("span", { class: `dot state-${row.state}`, "aria-hidden": "true" }), h("span", { class: "row-title" }, title), h("span", { class: "row-time" }, ago(row.updatedAt))),
      h("span", { class: "row-bottom" },
        h("span", { class: `state state-${row.state}` }, line(row.state, 20)),
        h("span", { class: "row-agent" }, line(row.agent, 24)),
        row.state === "waiting" ? h("span", { class: "row-agent" }, folder(row.cwd)) : null,
        h("span", { class: "row-said" }, said),
        row.queued ? h("span", { class: "badge", title: "queued prompts" }, `+${row.queued}`) : null,
        money ? h("span", { class: "row-cost" }, money) : null));
  }
}
