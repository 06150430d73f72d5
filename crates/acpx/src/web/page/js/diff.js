// Shows changes of files: reads Git patches, compares old and new texts, folds what did not change. A patch is shown
// with every line that it has, also if it names other files than the list of changes beside it.

import { h } from "./dom.js";
import { arrayOf, shortPath, visible } from "./text.js";

/** @typedef {{ sign: " " | "+" | "-" | "@", text: string, old?: number, now?: number }} DiffRow `@` is a line outside of hunks. */
/** @typedef {{ path: string, note?: string, rows: DiffRow[], added: number, removed: number }} FileChange */

/** Texts with more lines are compared by their common beginning and end only. */
const MOST_LINES = 1_500;
const CONTEXT = 3;
const FIRST_ROWS = 300;
const LONGEST_ROW = 2_000;

/**
 * The changes in a `diff` content of version 1 or 2.
 * @param {any} content
 * @returns {FileChange[]}
 */
export function fileChanges(content) {
  if (typeof content?.newText === "string" || typeof content?.oldText === "string") {
    return [counted(visible(content.path), compare(String(content.oldText ?? ""), String(content.newText ?? "")), content.oldText === null || content.oldText === undefined ? "new" : undefined)];
  }
  const files = patchFiles(typeof content?.patch?.text === "string" ? content.patch.text : "");
  const changes = arrayOf(content?.changes).filter((change) => typeof change === "object" && change !== null).map((change) => {
    const path = visible(change.path);
    const index = files.findIndex((file) => samePath(path, file.path));
    const file = index < 0 ? undefined : files.splice(index, 1)[0];
    return counted(path, file?.rows ?? [], changeNote(change, file));
  });
  // The patch is what is applied, so its other files are shown too.
  return [...changes, ...files.map((file) => counted(file.path, file.rows, changeNote({}, file)))];
}

/**
 * @param {any} change
 * @param {PatchFile | undefined} file
 */
function changeNote(change, file) {
  const old = change.oldPath ?? file?.oldPath;
  const operation = change.operation ?? file?.operation;
  if (operation === "move") return `moved from ${shortPath(old)}`;
  if (operation === "copy") return `copied from ${shortPath(old)}`;
  return operation === "add" ? "new" : operation === "delete" ? "deleted" : undefined;
}

/**
 * Whether a path is that of a file in a patch, which has no leading slash and may be relative.
 * @param {string} path
 * @param {string} inPatch
 */
function samePath(path, inPatch) {
  const bare = inPatch.replace(/^\/+/, "");
  return bare !== "" && (path.replace(/^\/+/, "") === bare || path.endsWith(`/${bare}`));
}

/** @typedef {{ path: string, oldPath?: string, operation?: string, rows: DiffRow[] }} PatchFile */

/** Lines of a patch that only name its files, or say what the page shows in another way. */
const HEADER = /^(?:index [0-9a-f]|similarity index |--- |\+\+\+ |(?:rename|copy) (?:from|to) |new file mode 100644$|deleted file mode 100644$)/;

/**
 * The files of a patch, in the patch's own words.
 * @param {string} patch
 * @returns {PatchFile[]}
 */
function patchFiles(patch) {
  /** @type {PatchFile[]} */
  const files = [];
  /** @type {PatchFile | null} */
  let file = null;
  let old = 0, now = 0, oldLeft = 0, nowLeft = 0, started = false;
  const begin = () => {
    file = { path: "", rows: [] };
    files.push(file);
    started = false;
    return file;
  };
  for (const row of patch.split("\n")) {
    const current = file ?? begin();
    if (oldLeft > 0 || nowLeft > 0) {
      const sign = row[0] ?? " ";
      if (sign === "+" && nowLeft > 0) {
        current.rows.push({ sign, text: row.slice(1), now: now++ });
        nowLeft -= 1;
        continue;
      }
      if (sign === "-" && oldLeft > 0) {
        current.rows.push({ sign, text: row.slice(1), old: old++ });
        oldLeft -= 1;
        continue;
      }
      if (sign === " " && oldLeft > 0 && nowLeft > 0) {
        current.rows.push({ sign, text: row.slice(1), old: old++, now: now++ });
        oldLeft -= 1;
        nowLeft -= 1;
        continue;
      }
      if (sign !== "\\") oldLeft = nowLeft = 0;
    }
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(row);
    if (hunk) {
      [old, oldLeft, now, nowLeft] = [Number(hunk[1]), Number(hunk[2] ?? 1), Number(hunk[3]), Number(hunk[4] ?? 1)];
      started = true;
      continue;
    }
    const both = /^diff --git (.*)$/.exec(row);
    // Without Git's own header, the old name begins the next file.
    const next = both || (started && row.startsWith("--- ")) ? (current.path === "" && current.rows.length === 0 ? current : begin()) : current;
    if (!started) named(next, row, both?.[1]);
    if (row !== "" && !both && (started || !HEADER.test(row))) next.rows.push({ sign: "@", text: row });
  }
  return files.filter(({ path, rows }) => path !== "" || rows.length > 0);
}

/**
 * Reads the names in a header line.
 * @param {PatchFile} file
 * @param {string} row
 * @param {string} [both] both names, of Git's own header
 */
function named(file, row, both) {
  const name = (/** @type {string} */ text) => text.replace(/\t.*$/, "").replace(/^"(.*)"$/, "$1").replace(/^[ab]\//, "");
  if (both !== undefined) {
    const half = (both.length - 1) / 2;
    file.path = name(both[half] === " " && both.slice(2, half) === both.slice(half + 3) ? both.slice(half + 1) : both.split(/ (?="?b\/)/).pop() ?? both);
  } else if (row.startsWith("--- ") && name(row.slice(4)) !== "/dev/null") {
    file.path ||= name(row.slice(4));
  } else if (row.startsWith("+++ ") && name(row.slice(4)) !== "/dev/null") {
    file.path = name(row.slice(4));
  } else if (row.startsWith("new file mode ")) {
    file.operation = "add";
  } else if (row.startsWith("deleted file mode ")) {
    file.operation = "delete";
  }
  const moved = /^(rename|copy) (from|to) (.*)$/.exec(row);
  if (moved?.[2] === "from") file.oldPath = moved[3];
  if (moved?.[2] === "to") [file.path, file.operation] = [moved[3], moved[1] === "rename" ? "move" : "copy"];
}

/**
 * @param {string} path
 * @param {DiffRow[]} rows
 * @param {string} [note]
 * @returns {FileChange}
 */
function counted(path, rows, note) {
  return { path, note, rows, added: rows.filter(({ sign }) => sign === "+").length, removed: rows.filter(({ sign }) => sign === "-").length };
}

/**
 * The lines of two texts, with what was removed and added.
 * @param {string} before
 * @param {string} after
 * @returns {DiffRow[]}
 */
export function compare(before, after) {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middleA = a.slice(start, a.length - end), middleB = b.slice(start, b.length - end);
  const kept = middleA.length + middleB.length > MOST_LINES ? [] : common(middleA, middleB);
  /** @type {DiffRow[]} */
  const rows = [];
  let i = 0, j = 0;
  const same = () => rows.push({ sign: " ", text: a[i], old: ++i, now: ++j });
  const until = (/** @type {number} */ x, /** @type {number} */ y) => {
    while (i < x) rows.push({ sign: "-", text: a[i], old: ++i });
    while (j < y) rows.push({ sign: "+", text: b[j], now: ++j });
  };
  while (i < start) same();
  for (const [x, y] of kept) {
    until(start + x, start + y);
    same();
  }
  until(a.length - end, b.length - end);
  while (i < a.length) same();
  return rows;
}

/**
 * Pairs of equal lines of a longest common subsequence.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[number, number][]}
 */
function common(a, b) {
  const width = b.length + 1;
  const length = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      length[i * width + j] = a[i] === b[j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  /** @type {[number, number][]} */
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return pairs;
}

/**
 * How much changes, in words for assistive technology.
 * @param {{ added: number, removed: number }} change
 */
export function changeCount({ added, removed }) {
  return h("span", { class: "count", role: "img", "aria-label": `${added} lines added, ${removed} removed` },
    added > 0 && h("span", { class: "ta" }, `+${added}`), removed > 0 && h("span", { class: "tr" }, `−${removed}`));
}

/**
 * @param {FileChange} change
 * @param {boolean} [whole] shows every line at once, for a decision
 */
export function diffView(change, whole = false) {
  const body = h("div", { class: "diff-rows", tabindex: "0", role: "group", "aria-label": `Changes of ${visible(change.path)}` });
  const folded = fold(change.rows);
  let shown = 0;
  const more = h("button", { type: "button", class: "show-more", onclick: () => show(FIRST_ROWS * 4) });
  /** @param {number} amount */
  const show = (amount) => {
    more.remove();
    const next = folded.slice(shown, shown + amount);
    shown += next.length;
    for (const entry of next) body.append("rows" in entry ? foldedRows(entry.rows, whole) : diffRow(entry, whole));
    if (shown < folded.length) {
      more.textContent = `Show ${folded.length - shown} more lines`;
      body.append(more);
    }
  };
  show(whole ? folded.length : FIRST_ROWS);
  return h("div", { class: "diff" },
    h("div", { class: "diff-head" }, h("span", { class: "path", title: visible(change.path) }, shortPath(change.path)), change.note && h("span", { class: "dim" }, change.note), changeCount(change)),
    folded.length > 0 ? body : null);
}

/**
 * Unchanged rows away from a change are one entry.
 * @param {DiffRow[]} rows
 * @returns {(DiffRow | { rows: DiffRow[] })[]}
 */
function fold(rows) {
  /** @type {(DiffRow | { rows: DiffRow[] })[]} */
  const entries = [];
  for (let at = 0; at < rows.length;) {
    if (rows[at].sign !== " ") {
      entries.push(rows[at++]);
      continue;
    }
    let end = at;
    while (end < rows.length && rows[end].sign === " ") end += 1;
    const head = at === 0 ? 0 : CONTEXT, tail = end === rows.length ? 0 : CONTEXT;
    if (end - at > head + tail + 2) {
      entries.push(...rows.slice(at, at + head), { rows: rows.slice(at + head, end - tail) }, ...rows.slice(end - tail, end));
    } else {
      entries.push(...rows.slice(at, end));
    }
    at = end;
  }
  return entries;
}

/**
 * @param {DiffRow[]} rows
 * @param {boolean} whole
 */
function foldedRows(rows, whole) {
  const open = () => {
    const opened = document.createDocumentFragment();
    for (const row of rows) opened.append(diffRow(row, whole));
    button.replaceWith(opened);
  };
  const button = h("button", { type: "button", class: "fold", onclick: open }, `${rows.length} unchanged lines`);
  return button;
}

/**
 * @param {DiffRow} row
 * @param {boolean} whole
 */
function diffRow({ sign, text, old, now }, whole) {
  const kind = sign === "+" ? " added" : sign === "-" ? " removed" : "";
  const shown = !whole && text.length > LONGEST_ROW ? `${text.slice(0, LONGEST_ROW)}… (${text.length} characters)` : text;
  return h("div", { class: `diff-row${kind}` },
    h("span", { class: "number", "aria-hidden": "true" }, now ?? old ?? ""),
    h("span", { class: "sign" }, sign === "@" ? "" : sign),
    h("span", { class: sign === "@" ? "row-text dim" : "row-text" }, visible(shown) || " "));
}
