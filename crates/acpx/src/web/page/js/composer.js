// The composer: text, attachments, slash commands, options, and the queued prompts. The text of a draft stays until you
// send it, also over a reload; its attachments stay while the page is open.

import { fill, h, icon, iconButton } from "./dom.js";
import { line, size } from "./text.js";
import { store, stored } from "./settings.js";

/** @typedef {import("../types").Attachment} Attachment */
/** @typedef {import("../types").Command} Command */
/** @typedef {import("../types").ConfigOption} ConfigOption */

const LARGEST_FILE = 20_000_000;
/** A prompt with its attachments, as it is sent. The host and its agents accept lines of 64 MiB. */
const LARGEST_PROMPT = 60_000_000;
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * @typedef {object} ComposerHost
 * @property {(blocks: any[], text: string) => void} send
 * @property {() => void} cancel
 * @property {() => void} stopped the turn is over and the stop button had the focus
 * @property {(option: ConfigOption, value: any) => void} choose
 * @property {(text: string) => void} toast
 * @property {(prompt: import("../types").QueuedPrompt) => void} edit
 * @property {(prompt: import("../types").QueuedPrompt) => void} drop
 */

export class Composer {
  /** @type {string | null} */ #record = null;
  /** Attachments of the drafts, by their sessions. @type {Map<string, Attachment[]>} */ #drafted = new Map();
  /** Drafts that the browser could not store, by their sessions. @type {Map<string, string>} */ #unstored = new Map();
  /** @type {Command[]} */ #commands = [];
  #selected = 0;
  #busy = false;
  #text = h("textarea", {
    id: "prompt", rows: "1", placeholder: "Write a prompt", "aria-label": "Prompt", autocomplete: "off", enterkeyhint: "send",
    "aria-controls": "commands", "aria-autocomplete": "list",
    oninput: () => this.#changed(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event), onpaste: (/** @type {ClipboardEvent} */ event) => this.#pasted(event),
    onblur: () => setTimeout(() => this.#closeCommands(), 150),
  });
  #files = h("input", { type: "file", multiple: true, class: "hidden", tabindex: "-1", "aria-hidden": "true", onchange: () => { this.attach([.../** @type {FileList} */ (this.#files.files)]); this.#files.value = ""; } });
  #list = h("div", { class: "commands", id: "commands", role: "listbox", "aria-label": "Commands", hidden: true });
  #attached = h("ul", { class: "attached", "aria-label": "Attachments" });
  #queue = h("ul", { class: "queue", "aria-label": "Queued prompts" });
  #options = h("div", { class: "options", onfocusout: (/** @type {FocusEvent} */ event) => !this.#options.contains(/** @type {Node | null} */ (event.relatedTarget)) && setTimeout(() => this.setOptions(this.#known)) });
  /** @type {ConfigOption[]} */ #known = [];
  /** The options that have controls, without their values. */ #shape = "[]";
  /** @type {Map<string, HTMLSelectElement | HTMLInputElement>} */ #controls = new Map();
  #unknown = h("span", { class: "dim", hidden: true }, "Mode and model: once the agent runs");
  #send = h("button", { type: "submit", class: "send", "aria-label": "Send" }, icon("send"));
  #stop = h("button", { type: "button", class: "stop", "aria-label": "Stop the turn", title: "Stop the turn (Ctrl .)", hidden: true, onclick: () => this.host.cancel() }, icon("stop"), h("span", null, "Stop"));
  element;

  /** @param {ComposerHost} host */
  constructor(host) {
    this.host = host;
    this.element = h("form", { class: "composer", "aria-label": "Composer", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#submit(); } },
      this.#queue,
      h("div", { class: "composer-box" }, this.#list, this.#attached, this.#text,
        h("div", { class: "composer-foot" }, iconButton("attach", "Attach files", () => this.#files.click()), this.#files, this.#unknown, this.#options, this.#stop, this.#send)));
    for (const kind of ["dragenter", "dragover"]) this.element.addEventListener(kind, (event) => { event.preventDefault(); this.element.classList.add("dropping"); });
    for (const kind of ["dragleave", "drop"]) this.element.addEventListener(kind, () => this.element.classList.remove("dropping"));
    this.element.addEventListener("drop", (event) => { event.preventDefault(); this.attach([...(event.dataTransfer?.files ?? [])]); });
  }

  /** Shows the draft of a session. @param {string} record */
  open(record) {
    if (this.#record === record) return;
    this.#record = record;
    this.#text.value = this.#draftOf(record);
    this.#closeCommands();
    this.#showAttachments();
    this.#fit();
  }

  focus() {
    this.#text.focus();
  }

  /** Forgets every draft, also those that the browser could not store. */
  forget() {
    this.#drafted.clear();
    this.#unstored.clear();
    this.#record = null;
    this.#text.value = "";
    this.#commands = [];
    this.#closeCommands();
    this.#showAttachments();
    this.setOptions([]);
    this.setQueue([], []);
    this.#fit();
  }

  /** @returns {Attachment[]} */
  get #attachments() {
    return this.#drafted.get(this.#record ?? "") ?? [];
  }

  /** @param {string} record */
  #draftOf(record) {
    return String(this.#unstored.get(record) ?? stored(`draft:${record}`) ?? "");
  }

  /** @param {string} record @param {string} text */
  #keepDraft(record, text) {
    if (store(`draft:${record}`, text)) return this.#unstored.delete(record);
    if (!this.#unstored.has(record)) this.host.toast("The browser cannot store this draft, so a reload loses it.");
    this.#unstored.set(record, text);
  }

  /**
   * Puts a prompt before the draft of its session, which need not be the open one.
   * @param {string} record
   * @param {any[]} blocks
   * @param {string} [otherwise] the text if the blocks have none
   */
  restore(record, blocks, otherwise = "") {
    const texts = blocks.filter((block) => block?.type === "text").map((block) => String(block.text ?? ""));
    const attachments = blocks.filter((block) => block && block.type !== "text").map(attachmentOfBlock);
    this.#drafted.set(record, [...attachments, ...(this.#drafted.get(record) ?? [])]);
    const draft = record === this.#record ? this.#text.value : this.#draftOf(record);
    const text = [texts.join("\n") || (attachments.length ? "" : otherwise), draft].filter(Boolean).join("\n");
    if (record !== this.#record) return this.#keepDraft(record, text);
    this.#text.value = text;
    this.#changed();
    this.#showAttachments();
    this.#fit();
    this.focus();
  }

  /** Fits the height to the text. */
  #fit() {
    this.#text.style.height = "auto";
    this.#text.style.height = `${Math.min(this.#text.scrollHeight, innerHeight * 0.4)}px`;
    this.#send.disabled = this.#text.value.trim() === "" && this.#attachments.length === 0;
  }

  #changed() {
    if (this.#record) this.#keepDraft(this.#record, this.#text.value);
    this.#fit();
    this.#showCommands();
  }

  /** @param {boolean} busy whether a turn runs */
  setBusy(busy) {
    if (busy === this.#busy) return;
    this.#busy = busy;
    const focused = this.#stop.contains(document.activeElement);
    this.#stop.hidden = !busy;
    if (focused) this.host.stopped();
    this.#send.setAttribute("aria-label", busy ? "Queue" : "Send");
    this.#send.title = busy ? "Queue behind the running turn" : "Send";
    this.#text.placeholder = busy ? "Queue a prompt" : "Write a prompt";
  }

  #submit() {
    const text = this.#text.value.trim();
    if (!text && this.#attachments.length === 0) return;
    const blocks = [...(text ? [{ type: "text", text }] : []), ...this.#attachments.map(({ block }) => block)];
    const bytes = new TextEncoder().encode(JSON.stringify(blocks)).length;
    if (bytes > LARGEST_PROMPT) return this.host.toast(`The prompt has ${size(bytes)} with its attachments as they are sent. At most ${size(LARGEST_PROMPT)} are possible.`);
    this.#text.value = "";
    this.#drafted.delete(this.#record ?? "");
    this.#showAttachments();
    this.#changed();
    this.host.send(blocks, text || "Attachment");
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing) return;
    const open = !this.#list.hidden;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      this.#select(this.#selected + (event.key === "ArrowDown" ? 1 : -1));
    } else if (open && (event.key === "Tab" || event.key === "Enter") && !event.shiftKey) {
      /** @type {HTMLElement | undefined} */ (this.#list.children[this.#selected])?.click();
    } else if (open && event.key === "Escape") {
      this.#closeCommands();
      event.stopPropagation();
    } else if (event.key === "Enter" && !event.shiftKey && (event.ctrlKey || event.metaKey || !matchMedia("(pointer: coarse)").matches)) {
      this.#submit();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Says why there are no options. @param {boolean} unknown whether the agent has to run before they are known */
  setUnknown(unknown) {
    this.#unknown.hidden = !unknown;
  }

  /** @param {Command[]} commands */
  setCommands(commands) {
    this.#commands = commands;
  }

  #showCommands() {
    const word = /^\/(\S*)$/.exec(this.#text.value)?.[1].toLowerCase();
    const found = word === undefined ? [] : this.#commands.filter(({ name }) => name.toLowerCase().includes(word)).sort((a, b) => Number(b.name.startsWith(word)) - Number(a.name.startsWith(word))).slice(0, 30);
    if (found.length === 0) return this.#closeCommands();
    fill(this.#list, found.map((command, index) => h("button", { type: "button", role: "option", id: `command-${index}`, tabindex: "-1", "aria-selected": "false", onmousedown: (/** @type {Event} */ event) => event.preventDefault(), onclick: () => this.#complete(command) },
      h("span", { class: "mono" }, `/${line(command.name, 60)}`), h("span", { class: "dim" }, line(command.description ?? "", 200)))));
    this.#list.hidden = false;
    this.#select(0);
  }

  /** @param {number} index */
  #select(index) {
    const all = [...this.#list.children];
    this.#selected = (index + all.length) % all.length;
    all.forEach((option, at) => option.setAttribute("aria-selected", String(at === this.#selected)));
    this.#text.setAttribute("aria-activedescendant", `command-${this.#selected}`);
    all[this.#selected].scrollIntoView({ block: "nearest" });
  }

  /** @param {Command} command */
  #complete(command) {
    this.#text.value = `/${command.name} `;
    this.#changed();
    this.#closeCommands();
    this.focus();
  }

  #closeCommands() {
    this.#list.hidden = true;
    this.#text.removeAttribute("aria-activedescendant");
  }

  /** @param {ClipboardEvent} event */
  #pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.attach(files);
  }

  /** @param {File[]} files */
  async attach(files) {
    const record = this.#record ?? "";
    for (const file of files) {
      if (file.size > LARGEST_FILE) {
        this.host.toast(`${file.name} is larger than ${size(LARGEST_FILE)}.`);
        continue;
      }
      const attachment = await attachmentOf(file);
      this.#drafted.set(record, [...(this.#drafted.get(record) ?? []), attachment]);
    }
    this.#showAttachments();
    this.#fit();
  }

  #showAttachments() {
    this.#attached.hidden = this.#attachments.length === 0;
    fill(this.#attached, this.#attachments.map((attachment) => h("li", null,
      attachment.preview ? h("img", { src: attachment.preview, alt: "" }) : icon("attach"),
      h("span", null, line(attachment.name, 60)), h("span", { class: "dim" }, size(attachment.size)),
      iconButton("close", `Remove ${line(attachment.name, 60)}`, () => {
        this.#drafted.set(this.#record ?? "", this.#attachments.filter((other) => other !== attachment));
        this.#showAttachments();
        this.#fit();
      }))));
  }

  /**
   * Shows the options with their values. Controls are replaced only if the options are others, and not while one of them
   * has the focus.
   * @param {ConfigOption[]} options
   */
  setOptions(options) {
    this.#known = options;
    const order = ["mode", "model", "thought_level"];
    const rank = (/** @type {ConfigOption} */ option) => (order.indexOf(option.category ?? "") + 1) || order.length + 1;
    const shown = options.filter(({ type }) => type === "select" || type === "boolean").sort((a, b) => rank(a) - rank(b));
    const shape = JSON.stringify(shown.map((option) => ({ ...option, currentValue: undefined })));
    if (shape !== this.#shape && !this.#options.contains(document.activeElement)) {
      this.#shape = shape;
      this.#replaceOptions(shown);
    }
    for (const { configId, currentValue } of shown) {
      const control = this.#controls.get(configId);
      if (control instanceof HTMLInputElement) control.checked = currentValue === true;
      else if (control) control.value = currentValue;
    }
  }

  /** @param {ConfigOption[]} options */
  #replaceOptions(options) {
    this.#controls.clear();
    fill(this.#options, options.map((option) => {
      const name = line(option.name, 60);
      if (option.type === "boolean") {
        const box = h("input", { type: "checkbox", onchange: () => this.host.choose(option, box.checked) });
        this.#controls.set(option.configId, box);
        return h("label", { class: "option check", title: line(option.description ?? "", 300) }, box, h("span", null, name));
      }
      const one = (/** @type {any} */ value) => h("option", { value: value.value }, line(value.name, 60));
      const select = h("select", { "aria-label": name, onchange: () => this.host.choose(option, select.value) },
        (option.options ?? []).map((entry) => (Array.isArray(entry.options) ? h("optgroup", { label: line(entry.name, 60) }, entry.options.map(one)) : one(entry))));
      this.#controls.set(option.configId, select);
      return h("label", { class: "option", title: line(option.description ?? name, 300) }, select);
    }));
  }

  /**
   * Shows the queued prompts, and those that are on their way.
   * @param {import("../types").QueuedPrompt[]} queued
   * @param {{ requestId: string, text: string, problem?: string }[]} sending
   */
  setQueue(queued, sending) {
    this.#queue.hidden = queued.length + sending.length === 0;
    fill(this.#queue,
      queued.map((prompt) => h("li", null, h("span", { class: "queue-state" }, "queued"), h("span", { class: "queue-text" }, line(prompt.text, 300)),
        iconButton("edit", "Edit the queued prompt", () => this.host.edit(prompt)), iconButton("close", "Drop the queued prompt", () => this.host.drop(prompt)))),
      sending.map((prompt) => h("li", { class: "sending" }, h("span", { class: "queue-state" }, "sending"), h("span", { class: "queue-text" }, line(prompt.text, 300)))));
  }
}

/**
 * A file as a content block: a picture as an image, text as text, anything else as bytes.
 * @param {File} file
 * @returns {Promise<Attachment>}
 */
async function attachmentOf(file) {
  const uri = `attachment:///${encodeURIComponent(file.name)}`;
  const bytes = new Uint8Array(await file.arrayBuffer());
  const base = { name: file.name, size: file.size };
  if (IMAGES.includes(file.type)) {
    const data = base64(bytes);
    return { ...base, block: { type: "image", mimeType: file.type, data }, preview: `data:${file.type};base64,${data}` };
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { ...base, block: { type: "resource", resource: { uri, mimeType: file.type || "text/plain", text } } };
  } catch {
    return { ...base, block: { type: "resource", resource: { uri, mimeType: file.type || "application/octet-stream", blob: base64(bytes) } } };
  }
}

/**
 * The attachment that a content block of a prompt was.
 * @param {any} block
 * @returns {Attachment}
 */
function attachmentOfBlock(block) {
  const data = String(block.data ?? block.resource?.blob ?? "");
  const size = Math.round(data.length * 0.75) + String(block.resource?.text ?? "").length;
  if (block.type === "image") return { name: "Image", size, block, preview: `data:${block.mimeType};base64,${data}` };
  const last = String(block.resource?.uri ?? block.uri ?? "").split("/").pop() || "Attachment";
  try {
    return { name: decodeURIComponent(last), size, block };
  } catch {
    return { name: last, size, block };
  }
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}
