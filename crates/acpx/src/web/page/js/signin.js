// Signing in: exchanges the one-time code of the address for a cookie, and says how to get a new code.

import { refusalOf } from "./connection.js";
import { byId, fill, h } from "./dom.js";

/** The one-time code in the address. Routes have a slash, codes have none. */
export function codeInAddress() {
  const code = location.hash.slice(1);
  return code !== "" && !code.includes("/") ? code : null;
}

/** What the tab was to show before it had to sign in. */
const WANTED = "acpx:wanted";

/** Keeps the address, so that signing in leads there, also with a link that is opened in this tab. */
function keepAddress() {
  try {
    if (location.hash.startsWith("#/s/")) sessionStorage.setItem(WANTED, location.hash);
  } catch {
    // Without storage signing in leads to the list.
  }
}

/** Removes the code from the address and from the history: the address is what was wanted before, or the list. */
export function forgetCode() {
  let wanted = null;
  try {
    wanted = sessionStorage.getItem(WANTED);
    sessionStorage.removeItem(WANTED);
  } catch {
    // The list, then.
  }
  if (codeInAddress() || wanted) history.replaceState(null, "", wanted ?? "#/");
}

/**
 * @param {string} code
 * @returns {Promise<string>} "in", or the reason for `showSignIn`
 */
export async function redeem(code) {
  try {
    const answer = await fetch("/login", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code, name: deviceName() }) });
    if (answer.ok) return "in";
    if (answer.status === 403) return refusalOf(answer);
    return answer.status === 429 ? "often" : "code";
  } catch {
    return "unreachable";
  }
}

export async function signOut() {
  await fetch("/logout", { method: "POST", credentials: "same-origin" }).catch(() => {});
}

/** What this device is called in the list of devices, such as "Firefox on Linux". */
function deviceName() {
  const agent = navigator.userAgent;
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\/|FxiOS/.test(agent) ? "Firefox" : /Chrome\/|CriOS/.test(agent) ? "Chrome" : /Safari\//.test(agent) ? "Safari" : "Browser";
  const system = /Android/.test(agent) ? "Android" : /iPhone|iPad/.test(agent) ? "iOS" : /Mac OS/.test(agent) ? "macOS" : /Windows/.test(agent) ? "Windows" : /Linux/.test(agent) ? "Linux" : "";
  return system ? `${browser} on ${system}` : browser;
}

/** @type {Record<string, [string, string]>} */
const REASONS = {
  "signed-out": ["Sign in", "This browser is not signed in, or its access was revoked."],
  code: ["This link does not work any more", "Each link works once, for 60 seconds."],
  often: ["Too many attempts", "Wait a minute, then use a new link."],
  user: ["This acpx is not yours", "It belongs to another user of its machine, or the proxy in between runs as another user."],
  host: ["This address is not that of acpx", "The server accepts its own addresses and the name given by --public-url."],
  origin: ["This address is not that of acpx", "The server accepts its own addresses and the name given by --public-url."],
  site: ["Another site opened this page", "Open the page from the address bar, or by its link."],
  unreachable: ["acpx is not running", "The page cannot reach its server. It tries again by itself."],
};

/**
 * Shows the page for those who are not signed in.
 * @param {string} reason
 * @param {(code: string) => void} submit
 */
export function showSignIn(reason, submit) {
  if (reason !== "unreachable") keepAddress();
  const [title, text] = REASONS[reason] ?? REASONS["signed-out"];
  const input = h("input", { type: "text", id: "code", autocomplete: "one-time-code", spellcheck: "false", autocapitalize: "off", required: true });
  fill(byId("signin"), h("div", { class: "signin-card" },
    h("h1", { tabindex: "-1" }, title), h("p", null, text),
    reason === "unreachable" ? null : [
      h("p", null, "On the computer where acpx runs, get a new link:"),
      h("pre", { class: "command" }, h("span", { class: "prompt", "aria-hidden": "true" }, "$"), h("code", null, "acpx web")),
      h("p", null, "Open the link here, scan its QR code, or paste it:"),
      h("form", { class: "signin-form", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); submit(input.value.trim().replace(/^.*#/, "")); } },
        h("label", { class: "field", for: "code" }, h("span", { class: "field-label" }, "Link or code"), input), h("button", { type: "submit", class: "button primary" }, "Sign in")),
    ]));
  document.body.dataset.view = "signin";
  /** @type {HTMLElement | null} */ (byId("signin").querySelector("h1"))?.focus();
}
