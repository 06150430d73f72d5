// Shows pending requests outside of the page: in the title and the icon of the tab, and as notifications of the browser
// while the page is open but hidden. A notification opens the session of its request; it does not answer it.

import { byId } from "./dom.js";
import { requestTitle } from "./requests.js";
import { store, stored } from "./settings.js";
import { folder, line } from "./text.js";

/** How many notifications may appear at once. */
const MOST = 3;

export function notificationsWanted() {
  return "Notification" in globalThis && Notification.permission === "granted" && stored("notify") === true;
}

/** Turns notifications on or off; false if the browser does not allow them. Some allow them in service workers only. */
export async function toggleNotifications() {
  if (notificationsWanted()) {
    store("notify", null);
    return true;
  }
  if (!("Notification" in globalThis)) return false;
  const works = (await Notification.requestPermission()) === "granted" && isConstructible();
  store("notify", works ? true : null);
  return works;
}

function isConstructible() {
  try {
    new Notification("acpx", { tag: "acpx", silent: true }).close();
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag
 * @param {string} address
 */
function notify(title, body, tag, address) {
  if (!notificationsWanted() || document.visibilityState === "visible") return;
  try {
    const notification = new Notification(title, { body, tag, icon: "/icon.svg" });
    notification.onclick = () => {
      focus();
      location.hash = address;
      notification.close();
    };
  } catch {
    // The browser has withdrawn it.
    store("notify", null);
  }
}

/** @param {import("../types").PendingRequest[]} requests */
export function notifyRequests(requests) {
  for (const request of requests.slice(0, MOST)) {
    notify(`${line(request.agent, 40)} asks`, `${folder(request.cwd)}: ${line(requestTitle(request), 120)}`, request.questionId, `#/s/${encodeURIComponent(request.acpxRecordId)}`);
  }
}

/** How a turn ended, in the words of a notification. @type {Record<string, string>} */
const OUTCOMES = {
  end_turn: "has finished", cancelled: "was cancelled", refusal: "refused to continue", max_tokens: "stopped at the token limit",
  max_turn_requests: "stopped at the limit of requests", failed: "has failed",
};

/** @param {import("../types").Row[]} rows of sessions whose turns have ended */
export function notifyTurnsEnded(rows) {
  for (const row of rows.slice(0, MOST)) {
    notify(`${line(row.agent, 40)} ${OUTCOMES[row.outcome ?? ""] ?? "is done"}`, `${folder(row.cwd)}: ${line(row.title ?? row.name ?? "", 120)}`, `turn:${row.acpxRecordId}`, `#/s/${encodeURIComponent(row.acpxRecordId)}`);
  }
}

/**
 * Shows in the tab what is open and how much is pending.
 * @param {number} pending
 * @param {string} title
 */
export function markTab(pending, title) {
  const text = `${pending > 0 ? `(${pending}) ` : ""}${title ? `${title} · ` : ""}acpx`;
  if (document.title !== text) document.title = text;
  const icon = /** @type {HTMLLinkElement} */ (byId("favicon"));
  const wanted = pending > 0 ? "/icon-waiting.svg" : "/icon.svg";
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
}
