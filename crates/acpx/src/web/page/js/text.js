// Turns text of agents and clients into text that is safe and pleasant to show.

/**
 * Control characters other than tab and line ends, and characters that are invisible or change the direction of the text
 * around them. Joiners and variation selectors belong to emoji and to letters of some languages: they count only
 * behind ASCII, and not in keycaps.
 */
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029\ufff9-\ufffb]|(?![\u200c\u200d\ufe00-\ufe0f])\p{Default_Ignorable_Code_Point}|(?<![^\u0000-\u007f])[\u200c\u200d\ufe00-\ufe0f](?!\u20e3)/gu;

/**
 * Hidden characters as visible escapes, so that no text is shown in another order than it has. An agent may send
 * anything where a text belongs.
 * @param {unknown} text
 */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (sign) => `⟨U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/**
 * A hint with the id of the session in place of the `ID` of its commands.
 * @param {string} hint
 * @param {string} record
 */
export function withId(hint, record) {
  return hint.replace(/(\bacpx [a-z -]*)\bID\b/g, (_, command) => command + record);
}

/**
 * A value that should be an array; an empty one if it is not.
 * @param {unknown} value
 * @returns {any[]}
 */
export function arrayOf(value) {
  return Array.isArray(value) ? value : [];
}

/**
 * The first line of a text, shortened.
 * @param {unknown} text
 * @param {number} [most]
 */
export function line(text, most = 200) {
  const first = visible(String(text ?? "").slice(0, most * 4).replace(/\s+/g, " ").trim());
  return first.length > most ? `${first.slice(0, most - 1)}…` : first;
}

const SEQUENCE = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[@-Z\\-_]|[ -/]+[0-~])/g;

/**
 * Output of a command without terminal sequences. A line that was written over has its last text.
 * @param {string} text
 */
export function plainOutput(text) {
  const plain = text.replace(SEQUENCE, "").replace(/\r+\n/g, "\n");
  if (!plain.includes("\r")) return plain;
  return plain.split("\n").map((row) => row.slice(row.lastIndexOf("\r", row.length - 2) + 1).replace(/\r$/, "")).join("\n");
}

/**
 * Text encoded as base64 in UTF-8.
 * @param {string} data
 */
export function fromBase64(data) {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0)));
  } catch {
    return "";
  }
}

const MINUTE = 60_000;

/**
 * A span of time in whole seconds.
 * @param {number} ms
 */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * How long ago a time was, in one short word.
 * @param {string | undefined} at
 * @param {number} [now]
 */
export function ago(at, now = Date.now()) {
  const passed = at ? now - Date.parse(at) : NaN;
  if (Number.isNaN(passed)) return "";
  if (passed < MINUTE) return "now";
  if (passed < 60 * MINUTE) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < 24 * 60 * MINUTE) return `${Math.floor(passed / (60 * MINUTE))} h`;
  if (passed < 14 * 24 * 60 * MINUTE) return `${Math.floor(passed / (24 * 60 * MINUTE))} d`;
  return new Date(Date.parse(at ?? "")).toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

/**
 * A time of day, with the date if it is not today's.
 * @param {string | undefined} at
 */
export function clock(at) {
  const time = new Date(at ?? "");
  if (Number.isNaN(time.getTime())) return "";
  const today = time.toDateString() === new Date().toDateString();
  return time.toLocaleString(undefined, today ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

/**
 * @param {{ amount: number, currency: string } | undefined} cost
 */
export function price(cost) {
  if (!cost || !(cost.amount > 0)) return "";
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency: cost.currency }).format(cost.amount);
  } catch {
    return `${cost.amount.toFixed(2)} ${line(cost.currency, 8)}`;
  }
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${Math.round(bytes / 1000)} KB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {number} amount */
export function count(amount) {
  return new Intl.NumberFormat(undefined, { notation: amount < 10_000 ? "standard" : "compact" }).format(amount);
}

/**
 * The last folder of a path.
 * @param {unknown} path
 */
export function folder(path) {
  const text = String(path ?? "");
  return visible(text.replace(/\/+$/, "").split("/").pop() || text);
}

/**
 * A path with the home directory as `~`, as far as it is recognisable.
 * @param {unknown} path
 */
export function shortPath(path) {
  return visible(String(path ?? "").replace(/^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/, "~"));
}
