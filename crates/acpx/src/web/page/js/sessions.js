// The list of sessions: rows of `_acpx/sessions`, kept current by its notifications, grouped by project.

import { store, stored, storedKeys } from "./settings.js";

/** @typedef {import("../types").Row} Row */
/** @typedef {{ row: Row, before?: Row }} RowChange */
/** @typedef {{ kind: "group", key: string, cwd: string, label: "project" | "waiting", size: number, rev: number }} GroupEntry */
/** @typedef {{ kind: "row", key: string, row: Row, rev: number }} RowEntry */
/** @typedef {GroupEntry | RowEntry} ListEntry */

const FIRST_PAGE = 100;
const NEXT_PAGE = 500;
/** The host deletes sessions that nobody prompted after a day. */
const UNPROMPTED_MS = 86_400_000;

/** Where the row of a session is stored that this browser created, until the list has it. @param {string} id */
const createdKey = (id) => `created:${id}`;

export class SessionStore {
  /** @type {Map<string, RowEntry>} */ #rows = new Map();
  /** @type {ListEntry[]} */ #entries = [];
  /** @type {Map<string, GroupEntry>} */ #groups = new Map();
  /** Rows that are to be deleted, which the list leaves out. @type {Set<string>} */ hidden = new Set();
  #sorted = false;
  #filter = "";
  #round = 0;
  loaded = false;
  complete = false;
  /** @type {(changes: RowChange[]) => void} */ onchange = () => {};

  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) {
    this.connection = connection;
  }

  /** Reads the list again, the first page first, and follows it. */
  async load() {
    const round = ++this.#round;
    const seen = new Set(this.#putCreated());
    let cursor;
    this.complete = false;
    do {
      /** @type {{ sessions: Row[], nextCursor?: string }} */
      const page = await this.connection.request("_acpx/sessions", cursor ? { limit: NEXT_PAGE, cursor } : { limit: FIRST_PAGE, subscribe: true });
      if (round !== this.#round) return;
      const changes = page.sessions.map((row) => {
        seen.add(row.acpxRecordId);
        return this.#put(row);
      });
      this.loaded = true;
      this.#sorted = false;
      this.onchange(changes);
      cursor = page.nextCursor;
    } while (cursor);
    this.complete = true;
    for (const id of [...this.#rows.keys()]) if (!seen.has(id) && !this.#fresh.has(id)) this.#rows.delete(id);
    this.#fresh.clear();
    this.#sorted = false;
    this.onchange([]);
  }

  /** Forgets every session. */
  forget() {
    this.#round += 1;
    this.#rows.clear();
    this.#groups.clear();
    this.#fresh.clear();
    this.hidden.clear();
    this.loaded = this.complete = this.#sorted = false;
  }

  /** Adds a session that this browser has created, and keeps its row over a reload until the list has it. @param {Row} row */
  add(row) {
    if (this.#rows.has(row.acpxRecordId)) return;
    store(createdKey(row.acpxRecordId), row);
    this.#sorted = false;
    this.onchange([this.#put(row, false)]);
  }

  /** Adds the stored rows of sessions that the list may not have. @returns {string[]} their ids */
  #putCreated() {
    const ids = [];
    for (const key of storedKeys("created:")) {
      /** @type {Row | null} */
      const row = stored(key);
      if (!row || !(Date.now() - Date.parse(row.createdAt ?? "") < UNPROMPTED_MS)) {
        store(key, null);
        continue;
      }
      ids.push(row.acpxRecordId);
      if (!this.#rows.has(row.acpxRecordId)) this.#put(row, false);
    }
    return ids;
  }

  /** Rows that changed while the list was read. @type {Set<string>} */ #fresh = new Set();

  /** @param {{ changed?: Row[], removed?: string[] }} params */
  changed({ changed = [], removed = [] }) {
    const changes = changed.map((row) => {
      if (!this.complete) this.#fresh.add(row.acpxRecordId);
      const change = this.#put(row);
      const { before } = change;
      // A row that only says more stays where it is, so that the list does not move under the pointer.
      if (!before || before.state !== row.state || before.cwd !== row.cwd || before.title !== row.title || before.name !== row.name) this.#sorted = false;
      return change;
    });
    for (const id of removed) {
      if (this.#rows.delete(id)) this.#sorted = false;
      this.hidden.delete(id);
      store(createdKey(id), null);
    }
    this.onchange(changes);
  }

  /**
   * @param {Row} row
   * @param {boolean} [listed] whether the host's list has the row
   * @returns {RowChange}
   */
  #put(row, listed = true) {
    if (listed) store(createdKey(row.acpxRecordId), null);
    const entry = this.#rows.get(row.acpxRecordId);
    const before = entry?.row;
    if (entry) {
      entry.row = row;
      entry.rev += 1;
    } else {
      this.#rows.set(row.acpxRecordId, { kind: "row", key: row.acpxRecordId, row, rev: 0 });
    }
    return { row, before };
  }

  /** @param {string} id */
  get(id) {
    return this.#rows.get(id)?.row;
  }

  get size() {
    return this.#rows.size;
  }

  /** @param {string} text */
  filter(text) {
    this.#filter = text.trim().toLowerCase();
    this.#sorted = false;
  }

  /** Marks the order as outdated. */
  resort() {
    this.#sorted = false;
  }

  /** Renders every row again, for instance because time has passed. */
  touch() {
    for (const entry of this.#rows.values()) entry.rev += 1;
  }

  /** What the list shows: requests first, then projects by their last change, each with its sessions by theirs. */
  entries() {
    if (this.#sorted) return this.#entries;
    this.#sorted = true;
    const words = this.#filter.split(/\s+/).filter(Boolean);
    const rows = [...this.#rows.values()].filter(({ row }) => !this.hidden.has(row.acpxRecordId) && matches(row, words));
    rows.sort((a, b) => (a.row.updatedAt < b.row.updatedAt ? 1 : a.row.updatedAt > b.row.updatedAt ? -1 : 0));
    const waiting = rows.filter(({ row }) => row.state === "waiting");
    /** @type {Map<string, RowEntry[]>} */
    const projects = new Map();
    for (const entry of rows) {
      if (entry.row.state === "waiting") continue;
      const group = projects.get(entry.row.cwd);
      if (group) group.push(entry);
      else projects.set(entry.row.cwd, [entry]);
    }
    this.#entries = waiting.length ? [this.#group("waiting", "", waiting.length), ...waiting] : [];
    for (const [cwd, group] of projects) this.#entries.push(this.#group("project", cwd, group.length), ...group);
    return this.#entries;
  }

  /**
   * @param {"project" | "waiting"} label
   * @param {string} cwd
   * @param {number} amount
   */
  #group(label, cwd, amount) {
    const key = `${label}:${cwd}`;
    let group = this.#groups.get(key);
    if (!group) {
      group = { kind: "group", key, cwd, label, size: amount, rev: 0 };
      this.#groups.set(key, group);
    }
    if (group.size !== amount) {
      group.size = amount;
      group.rev += 1;
    }
    return group;
  }
}

/**
 * What a session is called: its name, its title, or what was said first.
 * @param {Row | undefined} row
 */
export function titleOf(row) {
  return row?.name || row?.title || row?.lastMessage?.text || "New session";
}

/**
 * @param {Row} row
 * @param {string[]} words
 */
function matches(row, words) {
  if (words.length === 0) return true;
  const text = `${row.title ?? ""} ${row.name ?? ""} ${row.agent} ${row.cwd} ${row.state} ${row.lastMessage?.text ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
