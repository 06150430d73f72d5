// Renders the items of a conversation as nodes of the virtual list.

import { PAGE_CLIENT, SHELL_CLIENT } from "./connection.js";
import { append, fill, h, icon, iconButton } from "./dom.js";
import { copyButton, MarkdownView, sliced } from "./markdown.js";
import { arrayOf, clock, line, visible } from "./text.js";
import { contentBlock, toolBody, toolLine } from "./tool.js";

/** @typedef {import("../types").Item} Item */

/** @type {Record<string, string>} */
const PLAN_WORDS = { completed: "done", in_progress: "in progress", pending: "to do", cancelled: "dropped" };

export class ItemView {
  /** Items that the user has opened or closed. @type {Map<string, boolean>} */ #open = new Map();
  /** @type {WeakMap<HTMLElement, MarkdownView>} */ #markdown = new WeakMap();

  /**
   * @param {import("./tool.js").TerminalLookup} terminal
   * @param {(item: Item) => string} address the address of an item
   * @param {(item: Item) => Item[]} parts all parts of the item's message
   * @param {(items: Item[]) => void} changed items are to be rendered again, because the user opens or closes them
   */
  constructor(terminal, address, parts, changed) {
    this.terminal = terminal;
    this.address = address;
    this.parts = parts;
    this.changed = changed;
  }

  /**
   * Roughly how high an item is before it is measured.
   * @param {Item} item
   */
  estimate(item) {
    if (item.kind === "agent" || item.kind === "user") {
      const source = item.segment?.source ?? "";
      let rows = 0;
      for (let at = 0; at >= 0 && rows < 400; at = source.indexOf("\n", at + 1)) rows += 1;
      return 36 + Math.max(rows, Math.min(source.length, 8_000) / 80) * 23;
    }
    if (item.kind === "thought" && !item.first) return 0;
    if (item.kind === "plan") return 48 + (item.plan?.length ?? 0) * 26;
    return 42;
  }

  /**
   * @param {Item} item
   * @param {HTMLElement | null} node
   * @returns {HTMLElement}
   */
  render(item, node) {
    const element = node ?? h("div", { class: `item ${item.kind}`, tabindex: "-1" });
    element.classList.toggle("continued", item.segment !== undefined && this.parts(item)[0] !== item);
    switch (item.kind) {
      case "user":
        this.#user(item, element);
        break;
      case "agent":
        this.#agent(item, element);
        break;
      case "thought":
        this.#thought(item, element);
        break;
      case "tool":
        this.#tool(item, element);
        break;
      case "plan":
        this.#plan(item, element);
        break;
      case "mark":
        this.#mark(item, element);
        break;
    }
    return element;
  }

  /**
   * @param {Item} item
   * @param {boolean} otherwise
   */
  #isOpen(item, otherwise = false) {
    return this.#open.get(`${item.key}/${item.seq}`) ?? otherwise;
  }

  /**
   * @param {Item[]} parts all parts of the item
   * @param {boolean} open
   */
  #toggle(parts, open) {
    this.#open.set(`${parts[0].key}/${parts[0].seq}`, open);
    for (const item of parts) item.rev += 1;
    this.changed(parts);
  }

  /** @param {Item} item */
  #actions(item) {
    const text = () => this.parts(item).map(({ segment }) => segment?.source ?? "").join("");
    const share = iconButton("link", "Copy a link to this message", async () => {
      history.replaceState(null, "", this.address(item));
      await navigator.clipboard?.writeText(location.href).catch(() => {});
    });
    return h("div", { class: "item-actions" }, h("span", { class: "time" }, clock(item.at)), copyButton(text), item.lastSeq > 0 && share);
  }

  /**
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #user(item, element) {
    const text = h("div", { class: "user-text" });
    sliced(text, item.segment?.source ?? "");
    const { name = "", version = "" } = item.client ?? {};
    const own = item.mine || name === PAGE_CLIENT ? "You" : name === SHELL_CLIENT ? "Shell" : name ? "" : "Prompt";
    fill(element,
      item.first && h("div", { class: "item-head" }, h("h2", { class: "who" }, own || line(name, 40)), !own && version && h("span", { class: "dim" }, line(version, 20)), this.#actions(item)),
      text, (item.segment?.images ?? []).map((image) => contentBlock(image)));
  }

  /**
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #agent(item, element) {
    let view = this.#markdown.get(element);
    if (!view) {
      view = new MarkdownView();
      this.#markdown.set(element, view);
      element.append(view.element);
    }
    const { source, fence, images } = /** @type {import("../types").Segment} */ (item.segment);
    view.update(fence === null ? source : `${fence}\n${source}`, item.last === true);
    view.element.classList.toggle("in-code", fence !== null);
    if (images && element.dataset.images !== String(images.length)) {
      element.dataset.images = String(images.length);
      element.querySelector(".attachments")?.remove();
      element.append(h("div", { class: "attachments" }, images.map((image) => contentBlock(image))));
    }
    const actions = element.querySelector(":scope > .item-actions");
    if (this.parts(item).at(-1) !== item) actions?.remove();
    else if (!actions) element.append(this.#actions(item));
  }

  /**
   * A long thought has several parts, which its first one opens and closes.
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #thought(item, element) {
    const parts = this.parts(item);
    const open = this.#isOpen(parts[0]);
    const { source, fence } = /** @type {import("../types").Segment} */ (item.segment);
    fill(element, item === parts[0] && h("button", { type: "button", class: "thought-line", "aria-expanded": String(open), onclick: () => this.#toggle(parts, !open) },
      icon("think"), h("span", { class: "thought-label" }, "Thought"), !open && h("span", { class: "preview" }, line(source.slice(0, 1_000).replace(/[*_`#]/g, ""), 160)), icon("chevron")));
    if (!open) return;
    const view = new MarkdownView();
    view.update(fence === null ? source : `${fence}\n${source}`, true);
    element.append(view.element);
  }

  /**
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #tool(item, element) {
    const tool = /** @type {import("../types").ToolCall} */ (item.tool);
    // The request of a pending edit shows the same diff.
    const open = this.#isOpen(item, tool.kind === "edit" && tool.status !== "pending" && arrayOf(tool.content).some((part) => part?.type === "diff"));
    const focused = element.querySelector(".tool-line") === document.activeElement && document.activeElement !== null;
    fill(element, toolLine(tool, open, () => this.#toggle([item], !open)), open && toolBody(tool, this.terminal));
    if (focused) /** @type {HTMLElement} */ (element.querySelector(".tool-line")).focus({ preventScroll: true });
  }

  /**
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #plan(item, element) {
    const entries = item.plan ?? [];
    const done = entries.filter(({ status }) => status === "completed").length;
    fill(element, h("section", { class: "card", "aria-label": "Plan" },
      h("div", { class: "card-head" }, h("span", { class: "label" }, "Plan"), h("span", { class: "dim" }, `${done} of ${entries.length}`)),
      h("ol", { class: "plan-list" }, entries.slice(0, 200).map(({ content, status }) => h("li", { class: `plan-entry ${Object.hasOwn(PLAN_WORDS, status) ? status : ""}` },
        h("span", { class: status === "completed" ? "box done" : "box", role: "img", "aria-label": PLAN_WORDS[status] ?? "to do" }), h("span", null, visible(String(content))))))));
  }

  /**
   * @param {Item} item
   * @param {HTMLElement} element
   */
  #mark(item, element) {
    const { text, detail, tone } = /** @type {NonNullable<Item["mark"]>} */ (item.mark);
    const long = (detail?.length ?? 0) > 240;
    fill(element, h("div", { class: `mark-line ${tone}` }, (tone === "warning" || tone === "error") && icon("warning"), h("span", null, visible(text))));
    if (detail) append(element, [long ? h("details", { class: "mark-detail" }, h("summary", null, "Details"), h("p", null, visible(detail.slice(0, 20_000)))) : h("p", { class: "mark-detail" }, visible(detail))]);
  }
}
