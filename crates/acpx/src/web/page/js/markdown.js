// Markdown to DOM nodes: headings, lists, tables, fences, quotes, emphasis, code, links. Agents write what this reads,
// so it never fails, never makes HTML from text, and takes time in proportion to the text: depth and length are limited.

import { h, icon, iconButton } from "./dom.js";
import { highlight } from "./highlight.js";
import { visible } from "./text.js";

/** @typedef {{ type: string, source: string, [key: string]: any }} Block */

const DEEPEST = 6;
/** An inline text that is longer than this is shown without emphasis and links, in slices. */
const LONGEST_INLINE = 12_000;
/** How much of a long line is shown at first, and added by each "Show more". */
const FIRST_SLICE = 4_000;
const NEXT_SLICE = 64_000;
const HUGE = 64_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}>[ ]?/;
const BULLET = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|$)/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/**
 * The blocks of a text.
 * @param {string} source
 * @param {number} [depth]
 * @returns {Block[]}
 */
export function blocks(source, depth = 0) {
  const rows = source.split("\n");
  /** @type {Block[]} */
  const found = [];
  /** The levels of the headings that the next one may be below. @type {number[]} */
  const outline = [];
  let at = 0;
  while (at < rows.length) {
    const start = at;
    const row = rows[at];
    /** @param {Omit<Block, "source">} block */
    const add = (block) => found.push(/** @type {Block} */ ({ ...block, source: rows.slice(start, at).join("\n") }));
    const fence = row.length < 1000 ? FENCE.exec(row) : null;
    if (row.trim() === "") {
      at += 1;
    } else if (fence) {
      const end = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}[ \\t]*$`);
      at += 1;
      while (at < rows.length && !end.test(rows[at])) at += 1;
      const code = rows.slice(start + 1, at).join("\n");
      at += 1;
      add({ type: "code", language: fence[2].trim().split(/\s/)[0], code, open: at > rows.length });
    } else if (row.length < 2000 && HEADING.test(row)) {
      const [, signs, text = ""] = /** @type {RegExpExecArray} */ (HEADING.exec(row));
      at += 1;
      while ((outline.at(-1) ?? 0) >= signs.length) outline.pop();
      outline.push(signs.length);
      add({ type: "heading", level: signs.length, depth: outline.length, text });
    } else if (row.length < 500 && RULE.test(row)) {
      at += 1;
      add({ type: "rule" });
    } else if (QUOTE.test(row) && depth < DEEPEST) {
      while (at < rows.length && QUOTE.test(rows[at])) at += 1;
      const inner = rows.slice(start, at).map((quoted) => quoted.replace(QUOTE, "")).join("\n");
      add({ type: "quote", blocks: blocks(inner, depth + 1) });
    } else if (BULLET.test(row) && depth < DEEPEST) {
      const list = listItems(rows, at, depth);
      at = list.end;
      add({ type: "list", ...list });
    } else if (row.includes("|") && row.length < 4000 && TABLE_RULE.test(rows[at + 1] ?? "") && rows[at + 1].length < 4000) {
      const head = cells(row);
      const align = cells(rows[at + 1]).map((cell) => (/^:-+:$/.test(cell) ? "center" : /-:$/.test(cell) ? "right" : ""));
      at += 2;
      const body = [];
      while (at < rows.length && rows[at].includes("|")) body.push(cells(rows[at++]));
      add({ type: "table", head, align, body });
    } else {
      at += 1;
      while (at < rows.length && !interrupts(rows[at])) at += 1;
      add({ type: "paragraph", text: rows.slice(start, at).join("\n") });
    }
  }
  return found;
}

/**
 * Whether a row ends the paragraph before it.
 * @param {string} row
 */
function interrupts(row) {
  if (row.length > 2000) return false;
  return row.trim() === "" || FENCE.test(row) || HEADING.test(row) || RULE.test(row) || QUOTE.test(row) || (BULLET.test(row) && !/^\s*\d+[.)]/.test(row)) || /^ {0,3}1[.)] /.test(row);
}

/**
 * @param {string[]} rows
 * @param {number} start
 * @param {number} depth
 */
function listItems(rows, start, depth) {
  const [, , sign] = /** @type {RegExpExecArray} */ (BULLET.exec(rows[start]));
  const ordered = /\d/.test(sign);
  const items = [];
  let at = start;
  while (at < rows.length) {
    const match = BULLET.exec(rows[at]);
    if (!match || /\d/.test(match[2]) !== ordered || RULE.test(rows[at])) break;
    const indent = match[0].length || 2;
    const inner = [rows[at].slice(match[0].length)];
    at += 1;
    while (at < rows.length) {
      const row = rows[at];
      if (row.trim() === "") {
        const next = rows[at + 1];
        if (next === undefined || next.trim() === "" || leading(next) < Math.min(indent, 2)) break;
        inner.push("");
      } else if (leading(row) >= Math.min(indent, 2)) {
        inner.push(row.slice(Math.min(indent, leading(row))));
      } else if (interrupts(row) || BULLET.test(row)) {
        break;
      } else {
        inner.push(row);
      }
      at += 1;
    }
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    items.push({ task: task ? task[1] !== " " : null, blocks: blocks(inner.join("\n"), depth + 1) });
    if (at < rows.length && rows[at].trim() === "" && BULLET.test(rows[at + 1] ?? "")) at += 1;
  }
  return { ordered, from: ordered ? parseInt(sign, 10) : 1, items, end: at };
}

/** @param {string} row */
function leading(row) {
  return row.length - row.trimStart().length;
}

/** @param {string} row */
function cells(row) {
  return row.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).slice(0, 40).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/**
 * @param {Block} block
 * @returns {HTMLElement}
 */
export function renderBlock(block) {
  switch (block.type) {
    case "code":
      return codeBlock(block.code, block.language);
    case "heading": {
      // Headings of a message are below those of the page, and skip no level.
      const heading = h("div", { class: `heading level-${Math.min(block.level, 4)}`, role: "heading", "aria-level": Math.min(block.depth + 2, 6) });
      inline(heading, block.text);
      return heading;
    }
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", null, block.blocks.map(renderBlock));
    case "list":
      return h(block.ordered ? "ol" : "ul", block.ordered && block.from !== 1 ? { start: block.from } : null, block.items.map(listItem));
    case "table":
      return table(block);
    default: {
      const paragraph = h("p");
      inline(paragraph, block.text);
      return paragraph;
    }
  }
}

/** @param {{ task: boolean | null, blocks: Block[] }} item */
function listItem(item) {
  const element = h("li", item.task === null ? null : { class: "task" });
  if (item.task !== null) element.append(h("span", { class: item.task ? "box done" : "box", role: "img", "aria-label": item.task ? "done" : "open" }));
  const [first, ...rest] = item.blocks;
  // The text of a tight item has no paragraph of its own.
  if (first?.type === "paragraph") inline(element, first.text);
  else if (first) rest.unshift(first);
  element.append(...rest.map(renderBlock));
  return element;
}

/** @param {Block} block */
function table(block) {
  /** @param {"th" | "td"} tag @param {string} text @param {number} column */
  const cell = (tag, text, column) => {
    const element = h(tag, { class: block.align[column] || undefined, scope: tag === "th" ? "col" : undefined });
    inline(element, text);
    return element;
  };
  return h(
    "div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", null,
      h("thead", null, h("tr", null, block.head.map((/** @type {string} */ text, /** @type {number} */ column) => cell("th", text, column)))),
      h("tbody", null, block.body.map((/** @type {string[]} */ row) => h("tr", null, row.map((text, column) => cell("td", text, column))))),
    ),
  );
}

/**
 * Code with its language and a button that copies it.
 * @param {string} code
 * @param {string} language
 */
export function codeBlock(code, language) {
  const element = h("code");
  const long = code.length > LONGEST_INLINE || longLine(code);
  if (long) sliced(element, code);
  else highlight(element, code, language);
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", null, visible(language.slice(0, 30)) || "text"), copyButton(() => code)),
    h("pre", { tabindex: "0", role: "group", "aria-label": `Code${language ? `, ${visible(language.slice(0, 30))}` : ""}` }, element),
  );
}

/** @param {() => string} text */
export function copyButton(text) {
  const button = iconButton("copy", "Copy", async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      return;
    }
    button.replaceChildren(icon("check"));
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", "Copy");
    }, 1500);
  }, { class: "icon-button copy" });
  return button;
}

/** @param {string} text */
function longLine(text) {
  for (let from = 0; from < text.length;) {
    const end = text.indexOf("\n", from);
    if ((end < 0 ? text.length : end) - from > FIRST_SLICE) return true;
    if (end < 0) break;
    from = end + 1;
  }
  return false;
}

/**
 * A long text, its beginning first and the rest on demand.
 * @param {Element} parent
 * @param {string} text
 */
export function sliced(parent, text) {
  let shown = Math.min(FIRST_SLICE, text.length);
  const node = document.createTextNode(visible(text.slice(0, shown)));
  parent.append(node);
  if (shown === text.length) return;
  /** Names how much is left. */
  const label = () => `Show more (${Math.ceil((text.length - shown) / 1000).toLocaleString()} KB left)`;
  const button = h("button", { type: "button", class: "show-more", onclick: () => {
    const end = Math.min(shown + NEXT_SLICE, text.length);
    node.appendData(visible(text.slice(shown, end)));
    shown = end;
    if (shown === text.length) button.remove();
    else button.textContent = label();
  } }, label());
  parent.append(button);
}

const INLINE = new RegExp(
  [
    "\\\\(?<escaped>[!-/:-@[-`{-~])",
    "(?<ticks>`{1,10})(?<code>[^]{0,2000}?[^`])\\k<ticks>(?!`)",
    "(?<image>!)?\\[(?<label>(?:\\\\.|[^\\[\\]\\\\]|\\[[^\\[\\]]{0,200}\\]){0,1000})\\]\\((?<target><[^<>\\n]{0,2000}>|(?:[^\\s()\\\\]|\\\\.|\\([^\\s()]{0,500}\\)){0,2000})(?:\\s+\"[^\"]{0,300}\")?\\s*\\)",
    "<(?<auto>(?:https?|mailto):[^\\s<>]{1,2000})>",
    "(?<bare>\\bhttps?://[^\\s<>\"'`⟨]{1,2000})",
    "(?<strong>(?<sign>[*_])\\k<sign>)(?=\\S)(?<strongText>(?:(?!\\k<strong>)[^]){1,2000}?\\S?)(?<=\\S)\\k<strong>(?!\\k<sign>(?!\\k<sign>))",
    "(?<strike>~~)(?=\\S)(?<strikeText>(?:(?!~~)[^]){1,2000})(?<=\\S)~~",
    "(?<em>\\*)(?=[^\\s*])(?<emText>[^*]{1,2000}?)(?<=[^\\s*])\\*(?!\\*)",
    "(?<![\\w_])(?<em2>_)(?=[^\\s_])(?<em2Text>[^_]{1,2000}?)(?<=[^\\s_])_(?![\\w_])",
    "(?<break>(?: {2,}|\\\\)?\\n)",
  ].join("|"),
  "g",
);

/**
 * Appends inline Markdown to an element.
 * @param {Element} parent
 * @param {string} text
 * @param {number} [depth]
 */
export function inline(parent, text, depth = 0) {
  if (text.length > LONGEST_INLINE || (text.length > FIRST_SLICE && longLine(text))) return sliced(parent, text);
  if (depth > DEEPEST) return parent.append(visible(text));
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) parent.append(visible(text.slice(from, match.index)));
    from = match.index + match[0].length;
    parent.append(inlineNode(match[0], /** @type {Record<string, string | undefined>} */ (match.groups ?? {}), depth));
  }
  if (from < text.length) parent.append(visible(text.slice(from)));
}

/**
 * @param {string} whole
 * @param {Record<string, string | undefined>} parts
 * @param {number} depth
 * @returns {Node | string}
 */
function inlineNode(whole, parts, depth) {
  if (parts.escaped !== undefined) return parts.escaped;
  if (parts.code !== undefined) return h("code", null, visible(parts.code.replace(/\n/g, " ").replace(/^ (.*) $/, "$1")));
  if (parts.break !== undefined) return h("br");
  if (parts.auto !== undefined) return link(parts.auto, parts.auto.replace(/^mailto:/, ""), depth);
  if (parts.bare !== undefined) {
    const address = trimmedAddress(parts.bare);
    const fragment = document.createDocumentFragment();
    fragment.append(link(address, address, DEEPEST), visible(parts.bare.slice(address.length)));
    return fragment;
  }
  if (parts.label !== undefined) {
    const target = (parts.target ?? "").replace(/^<|>$/g, "").replace(/\\(.)/g, "$1");
    if (parts.image) return image(target, parts.label);
    return link(target, parts.label, depth) ?? visible(whole);
  }
  /** @type {[string | undefined, "strong" | "em" | "s"][]} */
  const pairs = [[parts.strongText, "strong"], [parts.strikeText, "s"], [parts.emText, "em"], [parts.em2Text, "em"]];
  for (const [inner, tag] of pairs) {
    if (inner === undefined) continue;
    const element = h(tag);
    inline(element, inner, depth + 1);
    return element;
  }
  return visible(whole);
}

/**
 * An address without the punctuation of its sentence.
 * @param {string} address
 */
function trimmedAddress(address) {
  let end = address.length;
  while (end > 0 && /[.,;:!?)\]}*_]/.test(address[end - 1])) {
    if (address[end - 1] === ")" && address.slice(0, end).includes("(")) break;
    end -= 1;
  }
  return address.slice(0, end);
}

/**
 * The address if a link may lead there.
 * @param {string} address
 */
export function safeAddress(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * A link that leads out of the page, or its text with the target if the target is no web or mail address.
 * @param {string} target
 * @param {string} label
 * @param {number} depth
 * @returns {HTMLElement}
 */
export function link(target, label, depth = DEEPEST) {
  const address = safeAddress(target);
  if (!address) {
    const text = h("span", { class: "target", title: visible(target) });
    inline(text, label, depth + 1);
    if (target && target !== label) text.append(h("span", { class: "dim" }, ` (${visible(target.slice(0, 300))})`));
    return text;
  }
  const anchor = h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: visible(address) });
  if (depth >= DEEPEST) anchor.append(visible(label));
  else inlineWithoutLinks(anchor, label);
  // A label that names another host than the link's is shown with the real one.
  const host = address.startsWith("mailto:") ? "" : new URL(address).host;
  const named = /^\s*(?:https?:\/\/)?([a-z0-9.-]+\.[a-z]{2,})(?:[/:?#]|\s*$)/i.exec(label)?.[1];
  if (host && named && named.toLowerCase() !== host.replace(/:\d+$/, "")) anchor.append(h("span", { class: "dim" }, ` (${host})`));
  anchor.append(icon("external"), h("span", { class: "hidden" }, " (external)"));
  return anchor;
}

/**
 * @param {Element} parent
 * @param {string} label
 */
function inlineWithoutLinks(parent, label) {
  const code = /^`([^`]+)`$/.exec(label);
  if (code) parent.append(h("code", null, visible(code[1])));
  else parent.append(visible(label.replace(/\*\*|__/g, "")));
}

const PICTURES = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/;

/**
 * A picture that is in the text itself. Others become links: nothing is loaded from elsewhere.
 * @param {string} target
 * @param {string} label
 */
function image(target, label) {
  if (PICTURES.test(target)) return h("img", { src: target, alt: visible(label), class: "picture" });
  return link(target, `image: ${label || target}`);
}

/**
 * A picture of an image block.
 * @param {string} mime
 * @param {string} data
 * @param {string} label
 * @returns {HTMLElement}
 */
export function picture(mime, data, label) {
  const source = `data:${mime};base64,${data}`;
  if (!PICTURES.test(source)) return h("p", { class: "dim" }, `${label} (${visible(mime)}) is not shown`);
  return h("img", { src: source, alt: label, class: "picture", loading: "lazy" });
}

/** Text that changes nothing before it. A bracket may complete a link. */
const PLAIN_GROWTH = /^[\p{L}\p{N} .,;'"(-]+$/u;

/** A Markdown text that grows: blocks that did not change keep their nodes. */
export class MarkdownView {
  /** @type {{ source: string, type: string, node: HTMLElement }[]} */ #shown = [];
  element = h("div", { class: "markdown" });

  #huge = 0;

  /**
   * @param {string} source
   * @param {boolean} finished whether the text no longer grows
   */
  update(source, finished) {
    // Only the beginning of a huge line is shown, so it is not read again with every piece.
    if (!finished && source.length < this.#huge) return;
    if (source.length > HUGE) this.#huge = source.length * 2;
    const next = blocks(source);
    let same = 0;
    while (same < next.length && same < this.#shown.length && this.#shown[same].source === next[same].source && this.#shown[same].type === next[same].type) same += 1;
    if (same === next.length - 1 && same === this.#shown.length - 1 && this.#grow(next[same])) return;
    for (const { node } of this.#shown.splice(same)) node.remove();
    for (const block of next.slice(same)) {
      const node = renderBlock(block);
      this.#shown.push({ source: block.source, type: block.type, node });
      this.element.append(node);
    }
  }

  /**
   * Appends to the last block, if what is new is plain text at the end of plain text.
   * @param {Block} block
   */
  #grow(block) {
    const last = this.#shown[this.#shown.length - 1];
    if (block.type !== last.type || !block.source.startsWith(last.source)) return false;
    const added = block.source.slice(last.source.length);
    if (block.type === "code" && block.open && block.code.length < FIRST_SLICE) {
      const code = last.node.querySelector("code");
      if (!code || block.language || !last.source.includes("\n")) return false;
      code.append(visible(added));
    } else {
      const end = last.node.lastChild;
      if (block.type !== "paragraph" || block.source.length > FIRST_SLICE || !PLAIN_GROWTH.test(added) || !(end instanceof Text)) return false;
      // What is added to an address belongs to its link.
      const word = last.source.split(/\s/).at(-1);
      if (word && !PLAIN_GROWTH.test(word)) return false;
      end.appendData(added);
    }
    last.source = block.source;
    return true;
  }
}
