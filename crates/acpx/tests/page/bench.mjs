// Measures the page against its budgets: compressed size, time of the first list, input latency while updates arrive as
// a ratio to an idle page, memory over 50,000 events and as many tool calls. Fails if one is missed.
//
//   node bench.mjs TOOLS ACPX        in a home and a directory of its own, see ./bench --page

import assert from "node:assert/strict";

import { prompt, shows, state, World } from "./page.mjs";

const EVENTS = 50_000;
const SESSIONS = 100;
const KEYS = 150;
/** A thousand updates a second, for eight seconds: a wait is an update too. */
const STEADY = "chunks 19 wait 20 ".repeat(400);

const [tools, acpx] = process.argv.slice(2);
const world = new World(tools, acpx);
/** @type {[string, number, number, string][]} */
const rows = [];
await world.start();
await world.acpx("demo", "sessions", "new");
await world.acpx("demo", "prompt", "hello");
for (let session = 1; session < SESSIONS; session += 1) await world.acpx("demo", "sessions", "new", "--name", `session ${session}`);
const tab = await world.signedIn();
const hello = "a.row:has-text('hello')";
const bytes = await tab.evaluate(() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((sum, entry) => sum + entry.encodedBodySize, 0));
rows.push(["compressed size, KB", bytes / 1000, 150, ""]);
await tab.goto(tab.url().replace(/#.*/, "#/"));
await tab.reload();
await tab.waitForSelector("a.row");
rows.push([`first list of ${SESSIONS} sessions, ms`, await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(performance.now())))), 300, "from the start of the navigation"]);

/** The median time from a key to the frame that shows it, one key at a time. */
async function latency() {
  await tab.focus("#prompt");
  await tab.evaluate(() => {
    globalThis.latencies = [];
    document.querySelector("#prompt").onkeydown = ({ timeStamp }) => {
      requestAnimationFrame(() => setTimeout(() => globalThis.latencies.push(performance.now() - timeStamp)));
    };
  });
  for (let key = 1; key <= KEYS; key += 1) {
    await tab.keyboard.type("x");
    await tab.waitForFunction((key) => globalThis.latencies.length >= key, key);
  }
  const all = await tab.evaluate(() => globalThis.latencies.sort((a, b) => a - b));
  await tab.fill("#prompt", "");
  return all[Math.floor(all.length / 2)];
}

await tab.fill("#filter", "hello");
await tab.click(hello);
await shows(tab, "You said: hello");
const idle = await latency();
await prompt(tab, STEADY);
await shows(tab, "chunk 1 of 19");
const busy = await latency();
assert.equal(await tab.textContent(".thread-sub .state"), "working");
await state(tab, "idle");
const before = await world.memory(tab);
await prompt(tab, `chunks ${EVENTS}`);
await tab.waitForFunction((last) => document.querySelector(".log").textContent.includes(last), `chunk ${EVENTS} of ${EVENTS}`, { timeout: 120_000 });
rows.push(["input latency at 1,000 updates a second, ratio to idle", busy / idle, 2, `${busy.toFixed(1)} ms to ${idle.toFixed(1)} ms`]);
rows.push([`memory of ${EVENTS.toLocaleString("en")} events, MB`, (await world.memory(tab)) - before, 20, `${before.toFixed(1)} MB before`]);
const withEvents = await world.memory(tab);
await tab.evaluate(async (amount) => {
  for (let call = 1; call <= amount; call += 1) {
    globalThis.feed({ sessionUpdate: "tool_call", toolCallId: `c${call}`, title: `call ${call} of ${amount}`, status: "completed", kind: "execute", content: [{ type: "content", content: { type: "text", text: "a line of output\n".repeat(50) } }] });
    if (call % 500 === 0) await new Promise((done) => setTimeout(done));
  }
}, EVENTS);
await shows(tab, `call ${EVENTS} of ${EVENTS}`);
rows.push([`memory of ${EVENTS.toLocaleString("en")} tool calls, MB`, (await world.memory(tab)) - withEvents, 20, `${withEvents.toFixed(1)} MB before`]);
await world.end();

let missed = false;
for (const [name, value, budget, note] of rows) {
  missed ||= value > budget;
  console.log(`${value > budget ? "MISSED" : "ok    "} ${name}: ${value.toFixed(1)} of ${budget}${note ? ` (${note})` : ""}`);
}
process.exitCode = missed ? 1 : 0;
