// Pending permission requests and forms: one store for all sessions, and the card that shows one and answers it.

import { fill, h, icon } from "./dom.js";
import { link, MarkdownView, safeAddress } from "./markdown.js";
import { ago, arrayOf, folder, line, shortPath, visible } from "./text.js";
import { commandBlock, commandOf, outputBlock, toolBody } from "./tool.js";
import { ConnectionLost, HostError } from "./connection.js";

/** @typedef {import("../types").PendingRequest} PendingRequest */
/** @typedef {import("../types").Option} Option */

/** `git` up to its command. The numbers of options and of their characters are bounded, so that the search is linear. */
const GIT = String.raw`\bgit\s+(?:-[cC]\s+[^\s-]\S{0,300}\s+|-\S{1,300}\s+){0,8}`;

/**
 * Commands after which something cannot be brought back, and what the second question says of them. The patterns of an
 * entry follow each other in one line of the command. Each is searched once, in linear time: a command may be long.
 * @type {[RegExp[], string][]}
 */
const DESTRUCTIVE = [
  [[/\b(?:rm|rmdir|unlink|shred)(?=[\s;&|)'"`]|$)/], "It deletes files."],
  [[/\bfind\b/, /\s-(?:delete|exec)\b/], "It may delete files."],
  [[new RegExp(`${GIT}push\\b`), /--force|--delete|--mirror|\s-\w*[fd]|\s\+/], "It overwrites or deletes branches of the remote."],
  [[new RegExp(`${GIT}reset\\b`), /--hard/], "It discards changes or commits."],
  [[new RegExp(`${GIT}clean\\b`), /-\w*[fdx]/], "It discards changes or commits."],
  [[new RegExp(`${GIT}branch\\b`), /-D/], "It discards changes or commits."],
  [[new RegExp(`${GIT}(?:checkout|switch)\\b`), /\s(?:-\w*f\b|--force\b|--discard-changes\b|--\s)/], "It discards changes or commits."],
  [[new RegExp(`${GIT}(?:checkout\\s+(?:--\\s|\\.)|restore\\b|stash\\s+(?:drop|clear)|filter-branch|reflog\\s+expire)`)], "It discards changes or commits."],
  [[/\b(?:dd|mkfs(?:\.\w{1,20})?|fdisk|parted|wipefs)\s/], "It writes to a disk."],
  [[/\b(?:shutdown|reboot|halt|poweroff)\b/], "It stops the machine."],
  [[/\b(?:drop|truncate)\s+(?:table|database|schema|index)\b|\bdelete\s+from\b/i], "It deletes data."],
  [[/\b(?:chmod|chown|chgrp)\s+(?:-\w*R|--recursive)/], "It changes the rights of a whole directory."],
  [[/\b(?:sudo|doas|su)\s/], "It runs with the rights of the administrator."],
  [[/\b(?:terraform|tofu|pulumi)\s+destroy\b|\bkubectl\s+delete\b/], "It removes resources."],
  [[/\bdocker\b/, /\b(?:prune|rm|rmi)\b/], "It removes resources."],
  [[/\b(?:npm|cargo|gem|twine|pnpm|yarn)\s+(?:publish|yank|unpublish|upload)\b/], "It publishes to a registry."],
  [[/\b(?:curl|wget)\b/, /\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b/], "It runs a program from the network."],
];

/**
 * Whether patterns follow each other in a text. The first match of each leaves the most for the next.
 * @param {string} text
 * @param {RegExp[]} patterns
 */
function follow(text, patterns) {
  let rest = text;
  for (const pattern of patterns) {
    const match = pattern.exec(rest);
    if (!match) return false;
    rest = rest.slice(match.index + match[0].length);
  }
  return true;
}

/**
 * What a request asks for, in the agent's words.
 * @param {PendingRequest} request
 * @returns {string}
 */
export function requestTitle(request) {
  return String(request.elicitation?.message || request.title || request.toolCall?.title || (request.elicitation ? "The agent asks for input" : "The agent asks for permission"));
}

/**
 * All texts in a value; those of an array are one text.
 * @param {any} value
 * @returns {string[]}
 */
function texts(value) {
  const found = [], left = [value];
  // A recursion would be as deep as the value, which is an agent's.
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "string") found.push(next);
    if (typeof next !== "object" || next === null) continue;
    const members = Object.values(next);
    const isText = (/** @type {any} */ member) => Array.isArray(next) && typeof member === "string";
    found.push(members.filter(isText).join(" "));
    for (const member of members) if (!isText(member)) left.push(member);
  }
  return found;
}

/**
 * The texts of a request that may be commands. The input of an edit has contents of files.
 * @param {PendingRequest} request
 */
function commands({ toolCall, kind, title }) {
  const command = commandOf(toolCall) || (kind === "execute" ? String(title ?? "") : "");
  return kind === "edit" ? [command] : [command, ...texts(toolCall?.rawInput)];
}

/**
 * Whether a content of a call deletes a file.
 * @param {any} content
 */
function deletesFile(content) {
  return content?.type === "diff" && (arrayOf(content.changes).some((change) => change?.operation === "delete") || /^(?:deleted file mode |\+\+\+ \/dev\/null)/m.test(String(content.patch?.text ?? "")));
}

/**
 * What a second question says before an approval, or null if one question is enough.
 * @param {PendingRequest} request
 */
export function danger(request) {
  // A line that ends with a backslash or a pipe continues.
  const lines = commands(request).flatMap((command) => command.replace(/\\\r?\n/g, " ").replace(/\|\s*\n/g, "| ").split("\n"));
  const deletes = request.kind === "delete" || arrayOf(request.toolCall?.content).some(deletesFile);
  const destroys = deletes ? "It deletes files." : DESTRUCTIVE.find(([patterns]) => lines.some((line) => follow(line, patterns)))?.[1];
  const hides = arrayOf(request.leftOut).length > 0 && "Not all of it is shown here.";
  return [destroys, hides].filter(Boolean).join(" ") || null;
}

export class RequestStore {
  /** @type {PendingRequest[]} */ requests = [];
  /** Requests that this page has answered and the host still lists. @type {Set<string>} */ #answered = new Set();
  /** @type {(added: PendingRequest[], removed: PendingRequest[]) => void} */ onchange = () => {};

  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) {
    this.connection = connection;
  }

  async load() {
    this.replace((await this.connection.request("_acpx/pending", { subscribe: true })).questions ?? []);
  }

  /** @param {PendingRequest[]} questions */
  replace(questions) {
    const before = this.requests;
    for (const id of this.#answered) if (!questions.some(({ questionId }) => questionId === id)) this.#answered.delete(id);
    const now = questions.filter(({ questionId }) => !this.#answered.has(questionId));
    const known = new Map(before.map((request) => [request.questionId, request]));
    // A request never changes, so the one that is shown is kept.
    this.requests = now.map((request) => known.get(request.questionId) ?? request);
    const ids = new Set(now.map(({ questionId }) => questionId));
    const added = this.requests.filter(({ questionId }) => !known.has(questionId));
    const removed = before.filter(({ questionId }) => !ids.has(questionId));
    if (added.length + removed.length > 0) this.onchange(added, removed);
  }

  /** Forgets every request. */
  forget() {
    this.#answered.clear();
    this.replace([]);
  }

  /** @param {string} recordId */
  of(recordId) {
    return this.requests.filter(({ acpxRecordId }) => acpxRecordId === recordId);
  }

  /**
   * Answers a request. One that is no longer pending counts as answered.
   * @param {PendingRequest} request
   * @param {{ approve: boolean, optionId?: string, content?: any }} answer
   * @returns {Promise<"answered" | "gone">}
   */
  async answer(request, answer) {
    /** @type {"answered" | "gone"} */
    let outcome = "answered";
    try {
      await this.connection.request("_acpx/answer", { questionId: request.questionId, ...answer });
    } catch (error) {
      if (!(error instanceof HostError) || (error.code !== "NO_QUESTION" && error.number !== -32002)) throw error;
      outcome = "gone";
    }
    this.#answered.add(request.questionId);
    this.replace(this.requests);
    return outcome;
  }
}

/** The cards of requests, kept as long as their requests are pending, with what was typed into them. */
export class RequestCards {
  /** @type {Map<string, HTMLElement>} */ #cards = new Map();

  /**
   * @param {RequestStore} store
   * @param {() => boolean} mayAnswer
   * @param {(text: string) => void} toast
   * @param {boolean} named whether a card says which session it is of
   */
  constructor(store, mayAnswer, toast, named) {
    this.store = store;
    this.mayAnswer = mayAnswer;
    this.toast = toast;
    this.named = named;
  }

  /**
   * Shows the cards of these requests in an element. The focus of a removed card goes to the first one.
   * @param {HTMLElement} parent
   * @param {PendingRequest[]} requests
   * @returns {boolean} whether the focus was in a removed card and none is left
   */
  show(parent, requests) {
    const ids = new Set(requests.map(({ questionId }) => questionId));
    let focused = false;
    for (const [id, card] of this.#cards) {
      if (ids.has(id)) continue;
      focused ||= card.contains(document.activeElement);
      card.remove();
      this.#cards.delete(id);
    }
    requests.forEach((request, index) => {
      let card = this.#cards.get(request.questionId);
      if (!card) {
        card = this.#card(request);
        this.#cards.set(request.questionId, card);
      }
      if (parent.children[index] !== card) parent.insertBefore(card, parent.children[index] ?? null);
    });
    const first = parent.firstElementChild;
    if (focused && first instanceof HTMLElement) first.focus();
    return focused && first === null;
  }

  /**
   * A card. A request that the page cannot read has one with its JSON, so that it can be answered and no other request
   * is affected.
   * @param {PendingRequest} request
   */
  #card(request) {
    try {
      const form = request.elicitation ? new ElicitationForm(request.elicitation) : null;
      return this.#framed(request, headline(request), form?.element ?? requestBody(request), (buttons, send) => (form ? this.#formButtons(buttons, form, send) : this.#optionButtons(buttons, arrayOf(request.options), danger(request), send)));
    } catch (error) {
      console.warn("a request is shown as JSON", error);
      const text = JSON.stringify({ title: request.title, toolCall: request.toolCall, elicitation: request.elicitation, options: request.options }, null, 2);
      return this.#framed(request, requestTitle(request), outputBlock(text, true), (buttons, send) => this.#optionButtons(buttons, [], "The page cannot show this request in its usual form.", send));
    }
  }

  /**
   * @param {PendingRequest} request
   * @param {string} title
   * @param {HTMLElement} body
   * @param {(buttons: HTMLElement, send: (answer: { approve: boolean, optionId?: string, content?: any }) => void) => void} addButtons
   */
  #framed(request, title, body, addButtons) {
    const heading = `request-${request.questionId}`;
    const buttons = h("div", { class: "request-buttons" });
    const problem = h("p", { class: "problem", role: "alert" });
    const shortTitle = line(title, 400);
    const card = h("section", { class: "request", "aria-labelledby": heading, tabindex: "-1", "data-question": request.questionId },
      h("div", { class: "request-head" },
        icon(request.elicitation ? "think" : "warning"),
        h("h2", { id: heading }, shortTitle),
        h("span", { class: "dim" }, ago(request.since))),
      h("p", { class: "request-of" }, this.named ? h("a", { href: `#/s/${encodeURIComponent(request.acpxRecordId)}` }, line(request.name || folder(request.cwd), 60)) : null,
        h("span", null, `${line(request.agent, 60)} in ${shortPath(request.cwd)}`)),
      shortTitle !== visible(title) && outputBlock(title, true), body, problem, buttons);
    const send = async (/** @type {{ approve: boolean, optionId?: string, content?: any }} */ answer) => {
      // A disabled button loses the focus.
      if (buttons.contains(document.activeElement)) card.focus({ preventScroll: true });
      for (const button of buttons.querySelectorAll("button")) button.disabled = true;
      problem.textContent = "";
      try {
        const outcome = await this.store.answer(request, answer);
        if (outcome === "gone") this.toast("The request was answered elsewhere.");
      } catch (error) {
        problem.textContent = error instanceof ConnectionLost ? "There is no connection. The request is still pending." : String(/** @type {Error} */ (error).message);
        for (const button of buttons.querySelectorAll("button")) button.disabled = false;
      }
    };
    if (!this.mayAnswer()) fill(buttons, h("p", { class: "dim" }, "This device may only read."));
    else addButtons(buttons, send);
    card.addEventListener("keydown", (event) => {
      if (event.target !== card || event.ctrlKey || event.metaKey || event.altKey || !/^[1-9]$/.test(event.key)) return;
      /** @type {HTMLElement | undefined} */ (buttons.querySelectorAll("button")[Number(event.key) - 1])?.click();
    });
    return card;
  }

  /**
   * The options of a request; without any, the two answers that every request has.
   * @param {HTMLElement} buttons
   * @param {Option[]} options
   * @param {string | null} warning what a second question says before an approval
   * @param {(answer: { approve: boolean, optionId?: string }) => void} send
   */
  #optionButtons(buttons, options, warning, send) {
    const offered = options.filter((option) => typeof option?.optionId === "string");
    /** @type {(Partial<Option>)[]} */
    const all = offered.length > 0 ? offered : [{ name: "Approve" }, { name: "Reject", kind: "reject_once" }];
    const label = (/** @type {Partial<Option>} */ option) => line(option.name || option.optionId, 120);
    const refuses = (/** @type {Partial<Option>} */ option) => String(option.kind ?? "").startsWith("reject");
    /** @param {Partial<Option>} option */
    const choose = (option) => send({ approve: !refuses(option), optionId: option.optionId });
    const show = () => fill(buttons, all.map((option) => {
      const look = refuses(option) ? "button" : warning ? "button danger" : option.kind === "allow_once" ? "button primary" : "button";
      return h("button", { type: "button", class: look, onclick: () => (warning && !refuses(option) ? confirm(option) : choose(option)) }, label(option));
    }));
    /** @param {Partial<Option>} option */
    const confirm = (option) => {
      const no = h("button", { type: "button", class: "button", onclick: () => { show(); buttons.querySelector("button")?.focus(); } }, "Back");
      fill(buttons, h("p", { class: "confirm", role: "alert" }, h("strong", null, `${warning} `), `Answer “${label(option)}”?`), no,
        h("button", { type: "button", class: "button danger", onclick: () => choose(option) }, `Confirm: ${label(option)}`));
      no.focus();
    };
    show();
  }

  /**
   * @param {HTMLElement} buttons
   * @param {ElicitationForm} form
   * @param {(answer: { approve: boolean, content?: any }) => void} send
   */
  #formButtons(buttons, form, send) {
    fill(buttons,
      h("button", { type: "button", class: "button primary", onclick: () => {
        const content = form.values();
        if (content) send(form.isUrl ? { approve: true } : { approve: true, content });
      } }, form.isUrl ? "Done" : "Send"),
      h("button", { type: "button", class: "button", onclick: () => send({ approve: false }) }, "Decline"));
  }
}

/**
 * The title of a card. A command is shown below, so its description is the better title.
 * @param {PendingRequest} request
 * @returns {string}
 */
function headline(request) {
  const described = request.toolCall?.rawInput?.description;
  return typeof described === "string" && described && commandOf(request.toolCall) === request.title ? described : requestTitle(request);
}

/** @param {PendingRequest} request */
function requestBody(request) {
  const tool = request.toolCall ?? {};
  const body = toolBody({ ...tool, title: headline(request) }, () => undefined, true);
  if (request.title && !commandOf(tool) && request.kind === "execute" && arrayOf(tool.content).length === 0) {
    body.querySelector(".no-details")?.remove();
    body.prepend(commandBlock(request.title));
  }
  const leftOut = arrayOf(request.leftOut);
  if (leftOut.length) body.append(h("p", { class: "problem" }, `Too long to be shown here: ${leftOut.map((name) => line(name, 30)).join(", ")}.`));
  body.classList.add("request-body");
  return body;
}

/** A form of an agent, or an address that the agent wants the user to open. */
export class ElicitationForm {
  /** @type {(() => [string, any] | null)[]} */ #readers = [];
  element = h("form", { class: "form", onsubmit: (/** @type {Event} */ event) => event.preventDefault() });

  /** @param {any} elicitation */
  constructor(elicitation) {
    this.isUrl = elicitation.mode === "url" || typeof elicitation.url === "string";
    if (this.isUrl) {
      const url = String(elicitation.url ?? "");
      this.element.append(h("p", { class: "resource" }, safeAddress(url) ? link(url, url) : visible(url)));
      return;
    }
    const schema = elicitation.requestedSchema ?? {};
    const required = new Set(arrayOf(schema.required));
    if (schema.description) {
      const text = new MarkdownView();
      text.update(String(schema.description), true);
      this.element.append(text.element);
    }
    for (const [name, property] of Object.entries(schema.properties ?? {})) this.#field(name, property ?? {}, required.has(name));
  }

  /**
   * @param {string} name
   * @param {any} property
   * @param {boolean} required
   */
  #field(name, property, required) {
    const label = line(property.title ?? name, 200);
    const help = property.description ? h("span", { class: "dim" }, line(String(property.description), 500)) : null;
    const titled = h("span", { class: "field-label" }, label, required && h("span", { class: "required" }, " required"));
    const choices = choicesOf(property.type === "array" ? property.items ?? {} : property);
    if (property.type === "boolean") {
      const box = h("input", { type: "checkbox" });
      box.checked = property.default === true;
      this.element.append(h("label", { class: "field check" }, box, h("span", null, label, help && " ", help)));
      this.#readers.push(() => [name, box.checked]);
    } else if (property.type === "array" && choices) {
      const chosen = new Set(arrayOf(property.default));
      const boxes = choices.map(({ value, title }) => {
        const box = h("input", { type: "checkbox", value });
        box.checked = chosen.has(value);
        return { box, label: h("label", { class: "check" }, box, h("span", null, title)) };
      });
      const first = boxes[0]?.box;
      this.element.append(h("fieldset", { class: "field" }, h("legend", null, titled, help), boxes.map(({ label: row }) => row)));
      this.#readers.push(() => {
        const values = boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);
        const least = Math.max(property.minItems ?? 0, required ? 1 : 0), most = property.maxItems ?? Infinity;
        first?.setCustomValidity(values.length < least ? `Choose at least ${least}` : values.length > most ? `Choose at most ${most}` : "");
        return values.length || required ? [name, values] : null;
      });
    } else if (choices) {
      const select = h("select", { required }, !required || property.default === undefined ? h("option", { value: "" }, "Choose…") : null, choices.map(({ value, title }) => h("option", { value }, title)));
      select.value = property.default ?? "";
      this.element.append(h("label", { class: "field" }, titled, help, select));
      this.#readers.push(() => (select.value ? [name, select.value] : null));
    } else {
      const numeric = property.type === "number" || property.type === "integer";
      /** @type {Record<string, string>} */
      const types = { email: "email", uri: "url", date: "date" };
      const input = h("input", {
        type: numeric ? "number" : types[property.format] ?? "text", required, step: numeric ? (property.type === "integer" ? "1" : "any") : undefined,
        min: property.minimum, max: property.maximum, minlength: property.minLength, maxlength: property.maxLength, autocomplete: "off",
      });
      input.value = String(property.default ?? "");
      this.element.append(h("label", { class: "field" }, titled, help, input));
      this.#readers.push(() => (input.value === "" ? null : [name, numeric ? Number(input.value) : input.value]));
    }
  }

  /** What was filled in, or null after pointing to what is missing. */
  values() {
    const values = Object.fromEntries(this.#readers.map((read) => read()).filter((pair) => pair !== null));
    return this.element.reportValidity() ? values : null;
  }
}

/**
 * @param {any} schema
 * @returns {{ value: string, title: string }[] | null}
 */
function choicesOf(schema) {
  const titled = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(titled)) return titled.map((option) => ({ value: String(option?.const), title: line(`${option?.title ?? option?.const}${option?.description ? `: ${option.description}` : ""}`, 200) }));
  if (Array.isArray(schema.enum)) return schema.enum.map((/** @type {any} */ value, /** @type {number} */ index) => ({ value: String(value), title: line(String(schema.enumNames?.[index] ?? value), 200) }));
  return null;
}
