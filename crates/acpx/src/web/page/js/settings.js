// What this browser keeps for itself: settings, and the user's drafts, prompts that are on their way and new sessions,
// which are removed with the sign-out. Everything works without storage.

/** What stays when the browser is signed out. */
const SETTINGS = ["theme", "letters", "notify"];

/** Removes everything but the settings. */
export function forgetContent() {
  for (const key of storedKeys("")) if (!SETTINGS.includes(key)) store(key, null);
}

/**
 * @param {string} key
 * @returns {any}
 */
export function stored(key) {
  try {
    return JSON.parse(localStorage.getItem(`acpx:${key}`) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {any} value null removes it
 * @returns {boolean} false if the storage is full or forbidden
 */
export function store(key, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(`acpx:${key}`);
    else localStorage.setItem(`acpx:${key}`, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/**
 * The stored keys that begin like this.
 * @param {string} start
 */
export function storedKeys(start) {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(`acpx:${start}`)).map((key) => key.slice("acpx:".length));
  } catch {
    return [];
  }
}

/**
 * Calls back when another tab has stored or removed a value.
 * @param {string} start how the key begins
 * @param {(key: string) => void} changed
 */
export function onStoredElsewhere(start, changed) {
  addEventListener("storage", ({ key }) => key?.startsWith(`acpx:${start}`) && changed(key.slice("acpx:".length)));
}

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function theme() {
  const chosen = stored("theme");
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

/** @param {Theme} chosen */
export function setTheme(chosen) {
  store("theme", chosen === "system" ? null : chosen);
  applyTheme();
}

export function applyTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
