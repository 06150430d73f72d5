// Prompts on their way. Each has a name that the host knows, so a prompt whose answer was lost is sent again after a
// reconnect or a reload, and is never worked on twice. Each is stored under a key of its own, so that tabs do not
// overwrite each other's.

import { onStoredElsewhere, store, stored, storedKeys } from "./settings.js";
import { ConnectionLost } from "./connection.js";

/** @typedef {{ requestId: string, record: string, blocks: any[], text: string, sentAt: number }} OutgoingPrompt */

/** A prompt that could not be sent for longer is not sent without asking. */
const EXPIRES_MS = 86_400_000;

/** @param {string} requestId */
const keyOf = (requestId) => `outbox:${requestId}`;

export class Outbox {
  /** @type {Map<string, OutgoingPrompt[]>} */ #prompts = new Map();
  /** Prompts that a request of this connection is out for. @type {Set<string>} */ #sent = new Set();
  /** @type {(record: string) => void} */ onchange = () => {};
  /** @type {(prompt: OutgoingPrompt, error: Error) => void} */ onfailed = () => {};

  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) {
    this.connection = connection;
    /** @type {OutgoingPrompt[]} */
    const prompts = storedKeys("outbox:").map(stored).filter((prompt) => typeof prompt?.record === "string" && Array.isArray(prompt.blocks));
    for (const prompt of prompts.sort((a, b) => a.sentAt - b.sentAt)) this.#prompts.set(prompt.record, [...this.of(prompt.record), prompt]);
    // Another tab that has loaded the same prompts has finished one.
    onStoredElsewhere("outbox:", (key) => stored(key) === null && this.#forget((prompt) => keyOf(prompt.requestId) === key));
  }

  /** @param {string} record */
  of(record) {
    return this.#prompts.get(record) ?? [];
  }

  /** Sessions with prompts on their way. */
  records() {
    return [...this.#prompts.keys()];
  }

  /** Names of all prompts on their way. */
  names() {
    return [...this.#prompts.values()].flat().map(({ requestId }) => requestId);
  }

  /**
   * @param {string} record
   * @param {any[]} blocks
   * @param {string} text
   * @returns {{ prompt: OutgoingPrompt, kept: boolean }} and whether it is kept over a reload
   */
  add(record, blocks, text) {
    const prompt = { record, sentAt: Date.now(), requestId: crypto.randomUUID?.() ?? `page-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`, blocks, text };
    this.#prompts.set(record, [...this.of(record), prompt]);
    const kept = store(keyOf(prompt.requestId), prompt);
    this.onchange(record);
    return { prompt, kept };
  }

  /** @param {string} requestId */
  remove(requestId) {
    store(keyOf(requestId), null);
    this.#forget((prompt) => prompt.requestId === requestId);
  }

  /** @param {(prompt: OutgoingPrompt) => boolean} which */
  #forget(which) {
    for (const [record, prompts] of this.#prompts) {
      const rest = prompts.filter((prompt) => !which(prompt));
      if (rest.length === prompts.length) continue;
      if (rest.length) this.#prompts.set(record, rest);
      else this.#prompts.delete(record);
      this.onchange(record);
    }
  }

  /** The connection is new: nothing is out on it. */
  reconnected() {
    this.#sent.clear();
  }

  /** Removes the prompts that are too old to be sent, and gives them. */
  takeExpired() {
    const expired = [...this.#prompts.values()].flat().filter(({ sentAt }) => !(Date.now() - sentAt < EXPIRES_MS));
    for (const { requestId } of expired) this.remove(requestId);
    return expired;
  }

  /** Forgets every prompt. */
  forget() {
    this.#prompts.clear();
    this.#sent.clear();
  }

  /** Sends the prompts of a session that are not out. @param {string} record */
  flush(record) {
    for (const prompt of this.of(record)) {
      if (this.#sent.has(prompt.requestId)) continue;
      this.#sent.add(prompt.requestId);
      this.connection.request("session/prompt", { sessionId: record, prompt: prompt.blocks, _meta: { acpx: { requestId: prompt.requestId, interactive: true } } }).then(
        () => this.remove(prompt.requestId),
        (error) => {
          if (error instanceof ConnectionLost) return this.#sent.delete(prompt.requestId);
          this.remove(prompt.requestId);
          // A prompt that was dropped or cancelled while it waited is no failure.
          if (error.number !== -32800) this.onfailed(prompt, error);
        },
      );
    }
  }
}
