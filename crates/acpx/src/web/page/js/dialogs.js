// Dialogs, menus and short messages. Dialogs are modal <dialog> elements, so the browser keeps and returns the focus.

import { byId, fill, h, iconButton } from "./dom.js";
import { folder, line, shortPath, visible } from "./text.js";
import { stored } from "./settings.js";

/**
 * Opens a dialog. `submit` may throw an error, which the dialog then shows.
 * @param {{ title: string, content: (Node | null)[], action?: string, danger?: boolean, submit?: () => Promise<void> | void, wide?: boolean }} spec
 */
export function openDialog({ title, content, action, danger, submit, wide }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const close = () => dialog.close();
  const go = action ? h("button", { type: "submit", class: danger ? "button danger" : "button primary" }, action) : null;
  const form = h("form", { class: "dialog-form", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!submit || !go) return close();
    problem.textContent = "";
    go.disabled = true;
    try {
      await submit();
      close();
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
    }
    go.disabled = false;
  } },
  h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title), iconButton("close", "Close", close)),
  h("div", { class: "dialog-body" }, content, problem),
  go && h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", onclick: close }, "Cancel"), go));
  const dialog = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": "dialog-title", onclose: () => dialog.remove(), onclick: (/** @type {MouseEvent} */ event) => event.target === dialog && close() }, form);
  document.body.append(dialog);
  dialog.showModal();
  // The first button closes the dialog.
  if (go) /** @type {HTMLElement | null} */ (form.querySelector("input, select"))?.focus();
  return dialog;
}

/**
 * Opens a menu below a button.
 * @param {HTMLElement} anchor
 * @param {{ label: string, run: () => void, detail?: string, danger?: boolean }[]} entries
 */
export function openMenu(anchor, entries) {
  const menu = h("div", { class: "menu", role: "menu", popover: "auto" }, entries.map(({ label, run, detail, danger }) =>
    h("button", { type: "button", role: "menuitem", class: danger ? "danger" : undefined, onclick: () => { menu.hidePopover(); run(); } }, h("span", null, label), detail && h("span", { class: "dim" }, detail))));
  menu.addEventListener("toggle", (event) => /** @type {ToggleEvent} */ (event).newState === "closed" && menu.remove());
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll("button")];
    const at = items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Escape") menu.hidePopover(), anchor.focus();
    else if (step) items[(at + step + items.length) % items.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  anchor.after(menu);
  menu.showPopover();
  const place = anchor.getBoundingClientRect();
  menu.style.top = `${place.bottom + 4}px`;
  menu.style.left = `${Math.max(8, Math.min(place.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8))}px`;
  menu.querySelector("button")?.focus();
}

/**
 * Shows a short message, perhaps with one action.
 * @param {string} text
 * @param {{ label: string, run: () => void }} [action]
 * @param {number} [ms] Infinity for one that stays until it is closed
 * @returns {() => void} removes it
 */
export function toast(text, action, ms = 5000) {
  const remove = () => {
    clearTimeout(timer);
    element.remove();
  };
  const element = h("div", { class: "toast", role: "status" }, h("span", null, visible(text)), action && h("button", { type: "button", class: "button", onclick: () => { remove(); action.run(); } }, action.label), ms === Infinity && iconButton("close", "Close", () => remove()));
  byId("toasts").append(element);
  const timer = ms === Infinity ? undefined : setTimeout(remove, ms);
  return remove;
}

/**
 * The options that the dialog of a new session offers.
 * @param {import("../types").ConfigOption[]} options
 */
export function choosable(options) {
  return options.filter(({ type, options: values }) => type === "select" && values?.every(({ value }) => value !== undefined)).slice(0, 4);
}

/**
 * Asks for agent, directory, mode and model of a new session.
 * @param {{ agents: { name: string, lastUsed?: boolean, options?: import("../types").ConfigOption[] }[], directories: { cwd: string, agent?: string }[] }} choices
 * @param {(choice: { agent: string, cwd: string, settings: [string, string][] }) => Promise<void>} create
 */
export function newSessionDialog({ agents, directories }, create) {
  const agent = h("select", { id: "new-agent" }, agents.map(({ name }) => h("option", { value: name }, line(name, 60))));
  agent.value = agents.find(({ lastUsed }) => lastUsed)?.name ?? agents[0]?.name ?? "";
  let chosen = directories[0]?.cwd ?? "";
  const list = h("div", { class: "choices", role: "radiogroup", "aria-label": "Directory" });
  const search = h("input", { type: "search", id: "new-directory", placeholder: "Filter directories", autocomplete: "off", spellcheck: "false", oninput: () => directoriesShown() });
  /** @type {HTMLButtonElement | null} */
  let start = null;
  const directoriesShown = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = directories.filter(({ cwd }) => words.every((word) => cwd.toLowerCase().includes(word))).slice(0, 60);
    if (!rows.some(({ cwd }) => cwd === chosen)) chosen = rows[0]?.cwd ?? "";
    if (start) start.disabled = chosen === "";
    fill(list, rows.length === 0 && h("p", { class: "dim" }, directories.length ? "No directory matches." : "No directory has a session yet. Start the first one in a shell, in the directory of your project, such as: acpx claude \"hello\""), rows.map(({ cwd }) => {
      const input = h("input", { type: "radio", name: "directory", value: cwd, onchange: () => { chosen = cwd; } });
      input.checked = cwd === chosen;
      return h("label", { class: "choice" }, input, h("span", { class: "choice-name" }, folder(cwd)), h("span", { class: "dim path" }, shortPath(cwd)));
    }));
  };
  const settings = h("div", { class: "field-row" });
  /** @type {HTMLSelectElement[]} */
  let selects = [];
  const settingsShown = () => {
    /** @type {import("../types").ConfigOption[]} */
    const known = choosable(agents.find(({ name }) => name === agent.value)?.options ?? stored("options")?.[agent.value] ?? []);
    selects = [];
    fill(settings, known.length === 0 && h("p", { class: "dim" }, "Choose mode and model below the prompt, once the session is open."), known.map((option) => {
      const select = h("select", { "data-option": option.configId }, h("option", { value: "" }, "Default"), (option.options ?? []).map(({ value, name }) => h("option", { value }, line(name, 60))));
      selects.push(select);
      return h("label", { class: "field" }, h("span", { class: "field-label" }, line(option.name, 40)), select);
    }));
  };
  agent.addEventListener("change", settingsShown);
  settingsShown();
  const dialog = openDialog({
    title: "New session",
    content: [
      h("label", { class: "field", for: "new-agent" }, h("span", { class: "field-label" }, "Agent"), agent),
      h("div", { class: "field" }, h("label", { class: "field-label", for: "new-directory" }, "Directory"), search, list),
      settings,
    ],
    action: "Start",
    submit: () => {
      if (!agent.value || !chosen) throw new Error("Choose an agent and a directory.");
      return create({ agent: agent.value, cwd: chosen, settings: selects.filter(({ value }) => value).map((select) => [select.dataset.option ?? "", select.value]) });
    },
  });
  start = dialog.querySelector("button[type=submit]");
  directoriesShown();
}

/**
 * @param {string} now
 * @param {(name: string) => Promise<void>} rename
 */
export function renameDialog(now, rename) {
  const input = h("input", { type: "text", id: "rename", maxlength: "200", required: true, autocomplete: "off", value: now });
  openDialog({ title: "Rename session", content: [h("label", { class: "field" }, h("span", { class: "field-label" }, "Name"), input)], action: "Rename", submit: () => rename(input.value.trim()) });
  input.select();
}

/** Keys of the page, with what they do. @type {[string, string][]} */
const KEYS = [
  ["j k ↓ ↑", "next and previous session, in the list"],
  ["Enter", "open the session"],
  ["/ or Ctrl K", "filter sessions"],
  ["n", "new session"],
  ["r", "go to the pending request"],
  ["1 … 9", "choose an option, in a request"],
  ["i", "write a prompt"],
  ["Esc", "leave the prompt; back to the list"],
  ["Ctrl .", "cancel the running turn"],
  ["[ ]", "previous and next prompt"],
  ["End", "go to the end and follow"],
  ["F6", "between list, conversation and prompt"],
  ["?", "this list"],
];

/** @param {{ on: boolean, set: (on: boolean) => void }} letters */
export function keysDialog(letters) {
  const box = h("input", { type: "checkbox", onchange: () => letters.set(box.checked) });
  box.checked = letters.on;
  openDialog({ title: "Keyboard", content: [
    h("dl", { class: "keys" }, KEYS.flatMap(([keys, what]) => [h("dt", null, keys.split(" ").map((key) => (["or", "…"].includes(key) ? ` ${key} ` : h("kbd", null, key)))), h("dd", null, what)])),
    h("label", { class: "check" }, box, h("span", null, "Use keys without Ctrl")),
  ] });
}
