// Starts the page: signs in, connects, routes addresses to views, and handles what concerns all sessions.

import { Connection, ConnectionLost } from "./js/connection.js";
import { keysDialog, newSessionDialog, openDialog, openMenu, renameDialog, toast } from "./js/dialogs.js";
import { byId, fill, h, icon } from "./js/dom.js";
import { SessionListView } from "./js/list.js";
import { markTab, notificationsWanted, notifyRequests, notifyTurnsEnded, toggleNotifications } from "./js/notify.js";
import { Outbox } from "./js/outbox.js";
import { RequestCards, requestTitle, RequestStore } from "./js/requests.js";
import { SessionStore, titleOf } from "./js/sessions.js";
import { applyTheme, forgetContent, onStoredElsewhere, setTheme, store, stored, theme } from "./js/settings.js";
import { codeInAddress, forgetCode, redeem, showSignIn, signOut } from "./js/signin.js";
import { line } from "./js/text.js";
import { Thread } from "./js/thread.js";

/** @typedef {import("./types").Row} Row */
/** @typedef {import("./types").PendingRequest} PendingRequest */

const UNDO_MS = 10_000;

applyTheme();

const connection = new Connection();
const sessions = new SessionStore(connection);
const requests = new RequestStore(connection);
const outbox = new Outbox(connection);
const list = new SessionListView(sessions);
const scope = () => /** @type {"full" | "answer" | "read"} */ (connection.session?.scope ?? "full");
const thread = new Thread({ connection, sessions, requests, outbox, toast, announce, scope, menu: sessionMenu });
const everyRequest = new RequestCards(requests, () => scope() !== "read", toast, true);

/** @typedef {{ due: number, title: string }} Deletion */

/**
 * Deletions that are not done, by session: when they are due, and whether the browser stores them, so that a reload
 * keeps them and other tabs know of them.
 * @type {Map<string, Deletion & { isStored: boolean, timer?: ReturnType<typeof setTimeout>, closeToast: () => void }>}
 */
const deletions = new Map();

// ── Announcements ──

/** Has assistive technology say a text, after what it says now. @param {string} text */
function announce(text) {
  byId("announce").textContent = text;
}

/** Has assistive technology say a text at once. @param {string} text */
function alertNow(text) {
  byId("alert").textContent = text;
}

/** @param {unknown} error */
function failed(error) {
  toast(error instanceof Error ? error.message : String(error));
}

// ── Connection ──

connection.onstate = (/** @type {import("./js/connection.js").ConnectionState} */ state) => {
  if (state === "signed-out" || state === "refused") {
    if (state === "signed-out") {
      forgetContent();
      outbox.forget();
    }
    forgetViews();
    return showSignIn(state === "refused" ? connection.refusal : state, signIn);
  }
  if (state === "online") return void online();
  if (document.body.dataset.view === "start") return state === "unreachable" ? showSignIn("unreachable", signIn) : undefined;
  if (state === "lost" || state === "unreachable") showBanner(state === "lost" ? "The connection to acpx was lost. Reconnecting… Drafts are kept." : "acpx cannot be reached. Trying again… Drafts are kept.");
};

/** Leaves nothing of sessions and requests on the screen. */
function forgetViews() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  for (const menu of document.querySelectorAll(".menu")) menu.remove();
  for (const id of [...deletions.keys()]) forgetDeletion(id);
  requests.forget();
  thread.forget();
  sessions.forget();
  list.forget();
  firstRows = true;
  showBanner("");
  for (const id of ["toasts", "announce", "alert"]) fill(byId(id));
  updateTab();
}

connection.onnotification = (/** @type {string} */ method, /** @type {any} */ params) => {
  if (method === "session/update") thread.received(params);
  else if (method === "_acpx/sessions/changed") listChanged(params);
  else if (method === "_acpx/pending/changed") requests.replace(params.questions ?? []);
};

/** @param {{ changed?: Row[], removed?: string[] }} params */
function listChanged(params) {
  sessions.changed(params);
  if (!thread.record || !params.removed?.includes(thread.record)) return;
  toast("The session was deleted.");
  location.hash = "#/";
}

async function online() {
  showBanner("");
  outbox.reconnected();
  for (const prompt of outbox.takeExpired()) thread.expired(prompt);
  document.body.dataset.scope = scope();
  byId("new-session").hidden = scope() !== "full";
  if (document.body.dataset.view === "start" || document.body.dataset.view === "signin") document.body.dataset.view = "list";
  checkVersion();
  void thread.online();
  if (scope() === "full") resumeDeletions();
  try {
    const loading = sessions.load();
    await requests.load();
    await loading;
  } catch (error) {
    if (connection.state === "online") failed(error);
    return;
  }
  for (const record of outbox.records()) if (record !== thread.record) void resend(record);
}

/** Sends what another view of the page, or this one before a reload, could not. @param {string} record */
async function resend(record) {
  const row = sessions.get(record);
  if (!row) return;
  try {
    await connection.request("session/resume", { sessionId: record, cwd: row.cwd, mcpServers: [], _meta: { acpx: { later: true, withSeq: true } } });
    outbox.flush(record);
  } catch (error) {
    if (connection.state === "online") failed(error);
  }
}

function checkVersion() {
  const own = document.querySelector('meta[name="acpx-version"]')?.getAttribute("content");
  if (own && connection.session && own !== connection.session.version) {
    showBanner("acpx was updated.", { label: "Reload", run: () => location.reload() });
  }
}

/**
 * @param {string} text
 * @param {{ label: string, run: () => void }} [action]
 */
function showBanner(text, action) {
  const banner = byId("banner");
  banner.hidden = text === "";
  fill(banner, text, action && h("button", { type: "button", class: "button", onclick: action.run }, action.label));
}

outbox.onchange = (/** @type {string} */ record) => record === thread.record && thread.update();
outbox.onfailed = (/** @type {import("./js/outbox.js").OutgoingPrompt} */ prompt, /** @type {Error} */ error) => thread.failed(prompt, error);

// ── Sessions and requests ──

let firstRows = true;

sessions.onchange = (/** @type {import("./js/sessions.js").RowChange[]} */ changes) => {
  list.update();
  const ended = changes.filter(({ row, before }) => before && ["working", "waiting"].includes(before.state) && ["idle", "parked"].includes(row.state));
  notifyTurnsEnded(ended.map(({ row }) => row));
  for (const { row, before } of changes) {
    if (row.acpxRecordId !== thread.record || !before) continue;
    if (before.queued !== row.queued) thread.readQueue();
    if ((before.state === "closed") !== (row.state === "closed")) void thread.setClosed(row.state === "closed");
  }
  if (sessions.loaded && firstRows) {
    firstRows = false;
    route();
  }
  void thread.rowsChanged();
  thread.update();
  updateTab();
};

requests.onchange = (/** @type {PendingRequest[]} */ added, /** @type {PendingRequest[]} */ removed) => {
  const amount = requests.requests.length;
  const pill = byId("pending");
  pill.hidden = amount === 0;
  fill(pill, icon("warning"), h("span", null, amount === 1 ? "1 request" : `${amount} requests`));
  if (added.length > 0) {
    alertNow(added.length === 1 ? `Request: ${line(requestTitle(added[0]), 200)}` : `${added.length} requests are pending`);
    notifyRequests(added);
  } else if (removed.length > 0) {
    announce(amount === 0 ? "No request is pending" : `${amount} requests are pending`);
  }
  const sheet = document.getElementById("request-sheet");
  if (sheet) everyRequest.show(sheet, requests.requests);
  if (sheet && amount === 0) sheet.closest("dialog")?.close();
  thread.update();
  updateTab();
};

function updateTab() {
  markTab(requests.requests.length, thread.record ? line(titleOf(sessions.get(thread.record)), 60) : "");
}

/** Shows the requests of all sessions. */
function showRequests() {
  if (thread.record && requests.of(thread.record).length === requests.requests.length && thread.focusRequest()) return;
  const sheet = h("div", { id: "request-sheet" });
  const dialog = openDialog({ title: "Pending requests", content: [sheet], wide: true });
  everyRequest.show(sheet, requests.requests);
  sheet.addEventListener("click", (event) => event.target instanceof Element && event.target.closest("a[href^='#/']") && dialog.close());
}

async function newSession() {
  try {
    const choices = await connection.request("_acpx/agents", {});
    newSessionDialog({ agents: choices.agents ?? [], directories: choices.directories ?? [] }, async ({ agent, cwd, settings }) => {
      const created = await connection.request("session/new", { cwd, mcpServers: [], _meta: { acpx: { agent: { name: agent }, withSeq: true } } });
      for (const [configId, value] of settings) {
        await connection.request("session/set_config_option", { sessionId: created.sessionId, configId, type: "id", value }).catch(failed);
      }
      const now = new Date().toISOString();
      sessions.add({ acpxRecordId: created.sessionId, agent, cwd, state: "idle", updatedAt: now, createdAt: now });
      location.hash = `#/s/${encodeURIComponent(created.sessionId)}`;
      setTimeout(() => thread.focusComposer(), 100);
    });
  } catch (error) {
    failed(error);
  }
}

/**
 * @param {HTMLElement} anchor
 * @param {Row} row
 */
function sessionMenu(anchor, row) {
  const copy = { label: "Copy the shell command", run: () => void navigator.clipboard?.writeText(`acpx attach ${row.acpxRecordId}`).then(() => toast("Copied.")) };
  if (scope() !== "full") return openMenu(anchor, [copy]);
  const id = row.acpxRecordId;
  openMenu(anchor, [
    { label: "Rename…", run: () => renameDialog(row.name ?? row.title ?? "", async (name) => void (await connection.request("_acpx/rename", { sessionId: id, name }))) },
    copy,
    ...(row.state === "closed" ? [] : [{ label: "Close session", run: () => void connection.request("_acpx/close", { sessionId: id }).then(() => toast("The session was closed. A new prompt opens it again."), failed) }]),
    { label: "Delete session", danger: true, run: () => deleteLater(row) },
  ]);
}

/** The stored deletions of all tabs. @returns {Record<string, Deletion>} */
const storedDeletions = () => stored("deletions") ?? {};

/**
 * @param {string} id
 * @param {Deletion | null} deletion null removes it
 * @returns {boolean} false if it could not be stored
 */
function storeDeletion(id, deletion) {
  const { [id]: _, ...others } = storedDeletions();
  const all = deletion === null ? others : { ...others, [id]: deletion };
  return store("deletions", Object.keys(all).length ? all : null);
}

/** @param {string} id @param {boolean} hidden */
function hideRow(id, hidden) {
  if (hidden) sessions.hidden.add(id);
  else sessions.hidden.delete(id);
  sessions.resort();
  list.update();
}

/** Hides a session now and deletes it once it can no longer be undone. @param {Row} row */
function deleteLater(row) {
  const id = row.acpxRecordId;
  const deletion = { due: Date.now() + UNDO_MS, title: line(titleOf(row), 60) };
  scheduleDeletion(id, deletion, storeDeletion(id, deletion));
  if (thread.record === id) location.hash = "#/";
}

/** @param {string} id @param {Deletion} deletion @param {boolean} isStored */
function scheduleDeletion(id, { due, title }, isStored) {
  const left = Math.max(0, due - Date.now());
  const undo = () => {
    storeDeletion(id, null);
    forgetDeletion(id);
  };
  const closeToast = left > 0 ? toast(`“${title}” is deleted in ${Math.ceil(left / 1000)} seconds.`, { label: "Undo", run: undo }, left) : () => {};
  deletions.set(id, { due, title, isStored, timer: setTimeout(() => sendDeletion(id), left), closeToast });
  hideRow(id, true);
}

/** The session stays, or is gone. @param {string} id */
function forgetDeletion(id) {
  const deletion = deletions.get(id);
  if (!deletion) return;
  clearTimeout(deletion.timer);
  deletion.closeToast();
  deletions.delete(id);
  hideRow(id, false);
}

/** Has one tab delete a session that is due. @param {string} id */
function sendDeletion(id) {
  const deletion = deletions.get(id);
  if (!deletion) return;
  clearTimeout(deletion.timer);
  deletion.timer = undefined;
  const send = async () => {
    // Another tab has deleted it or kept it.
    if (deletion.isStored && !(id in storedDeletions())) return forgetDeletion(id);
    try {
      await connection.request("session/delete", { sessionId: id });
      // Its row stays hidden until the list's next change removes it.
      deletions.delete(id);
    } catch (error) {
      // Without a connection it is sent with the next one.
      if (error instanceof ConnectionLost) return;
      if (sessions.get(id)) failed(error);
    }
    storeDeletion(id, null);
    forgetDeletion(id);
  };
  // Without TLS a browser has no locks; a second deletion of a session does nothing.
  void (navigator.locks ? navigator.locks.request(`acpx:delete:${id}`, send) : send());
}

/** Goes on with deletions of this tab that had no connection, and with stored ones of a closed or another tab. */
function resumeDeletions() {
  for (const [id, { timer }] of deletions) if (timer === undefined) sendDeletion(id);
  for (const [id, deletion] of Object.entries(storedDeletions())) if (!deletions.has(id)) scheduleDeletion(id, deletion, true);
}

onStoredElsewhere("deletions", () => {
  const all = storedDeletions();
  for (const [id, { isStored }] of deletions) if (isStored && !(id in all)) forgetDeletion(id);
  if (connection.state === "online" && scope() === "full") resumeDeletions();
});

// ── Addresses ──

function route() {
  const code = codeInAddress();
  if (code) return void signIn(code);
  if (document.body.dataset.view === "signin" || document.body.dataset.view === "start") return;
  const match = /^#\/s\/([^/]+)(?:\/seq\/(\d+))?$/.exec(location.hash);
  if (match && sessions.loaded) {
    const record = decodeURIComponent(match[1]);
    const other = thread.record !== record;
    document.body.dataset.view = "thread";
    list.setCurrent(record);
    void thread.open(record, match[2] === undefined ? undefined : Number(match[2]));
    if (other && !document.querySelector("dialog[open]")) thread.focusTitle();
  } else if (!match) {
    const had = thread.record !== null;
    document.body.dataset.view = "list";
    thread.leave();
    if (had) list.focus();
    list.setCurrent(null);
  }
  updateTab();
}

addEventListener("hashchange", route);

/** @param {string} code */
async function signIn(code) {
  forgetCode();
  const outcome = await redeem(code);
  if (outcome === "in") {
    document.body.dataset.view = "start";
    void connection.start();
  } else {
    showSignIn(outcome, signIn);
  }
}

// ── Menu and keys ──

function mainMenu() {
  const next = /** @type {const} */ ({ system: "dark", dark: "light", light: "system" })[theme()];
  openMenu(byId("menu"), [
    { label: "Theme", detail: theme(), run: () => setTheme(next) },
    { label: "Notifications", detail: notificationsWanted() ? "on" : "off", run: async () => { if (!(await toggleNotifications())) toast("The browser does not allow notifications for this page."); } },
    { label: "Keyboard", detail: "?", run: showKeys },
    { label: "Sign out", detail: connection.session?.device, run: leaveBrowser },
  ]);
}

/** Signs this browser out, after the deletions that could still be undone. */
async function leaveBrowser() {
  await Promise.all([...deletions.keys()].map((sessionId) => connection.request("session/delete", { sessionId }).catch(() => {})));
  await signOut();
  connection.signOut();
}

function showKeys() {
  keysDialog({ on: stored("letters") !== false, set: (on) => store("letters", on ? null : false) });
}

byId("menu").addEventListener("click", mainMenu);
byId("new-session").addEventListener("click", newSession);
byId("pending").addEventListener("click", showRequests);

/** Keys that work anywhere outside of text fields. @type {Record<string, () => void>} */
const LETTERS = {
  "?": showKeys,
  "/": () => list.focusFilter(),
  n: () => scope() === "full" && newSession(),
  r: () => requests.requests.length > 0 && showRequests(),
  i: () => thread.record && thread.focusComposer(),
  j: () => list.move(1),
  k: () => list.move(-1),
  "[": () => thread.toPrompt(-1),
  "]": () => thread.toPrompt(1),
};

addEventListener("keydown", (event) => {
  if (document.body.dataset.view === "signin" || document.querySelector("dialog[open]")) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
  const inList = byId("sidebar").contains(target);
  if ((event.ctrlKey || event.metaKey) && event.key === "k") list.focusFilter();
  else if ((event.ctrlKey || event.metaKey) && event.key === ".") void thread.cancel();
  else if (event.key === "F6") nextRegion(target);
  else if (event.key === "Escape" && typing) thread.record ? thread.focusLog() : target.blur();
  else if (event.key === "Escape" && thread.record) location.hash = "#/";
  else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (inList && event.key === "ArrowDown") list.move(1);
  else if (inList && event.key === "ArrowUp") list.move(-1);
  else if (event.key === "End" && thread.record && !inList) thread.toEnd();
  else if (Object.hasOwn(LETTERS, event.key) && stored("letters") !== false) LETTERS[event.key]();
  else return;
  event.preventDefault();
});

/** Moves the focus between list, conversation and composer. @param {HTMLElement} from */
function nextRegion(from) {
  if (byId("sidebar").contains(from) && thread.record) thread.focusLog();
  else if (from.closest(".log") && thread.record) thread.focusComposer();
  else list.focus();
}

// Times such as "3 min" grow old.
setInterval(() => {
  sessions.touch();
  list.update();
}, 60_000);

// ── Start ──

const code = codeInAddress();
if (code) void signIn(code);
else void connection.start();
