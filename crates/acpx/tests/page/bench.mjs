// Measures the page against its budgets: compressed size, time of the first list, input latency while updates arrive as
// a ratio to an idle page, memory over 50,000 events. Fails if one is missed.
//
//   node bench.mjs TOOLS ACPX        in a home and a directory of its own, see ./bench --page

import { prompt, shows, World } from "./page.mjs";

const EVENTS = 50_000;
const KEYS = 60;

const [tools, acpx] = process.argv.slice(2);
const world = new World(tools, acpx);
/** @type {[string, number, number, string][]} */
const rows = [];
await world.start();
await world.acpx("demo", "sessions", "new");
await world.acpx("demo", "prompt", "hello");
const tab = await world.inSession();
const bytes = await tab.evaluate(() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((sum, entry) => sum + entry.encodedBodySize, 0));
rows.push(["compressed size, KB", bytes / 1000, 150, ""]);
await tab.goto(tab.url().replace(/#.*/, "#/"));
await tab.reload();
await tab.waitForSelector("a.row");
rows.push(["first list, ms", await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(performance.now())))), 300, "from the start of the navigation"]);

/** The median time from a key to the frame that shows it. */
async function latency() {
  await tab.evaluate(() => {
    globalThis.latencies = [];
    document.querySelector("#prompt").onkeydown = () => {
      const start = performance.now();
      requestAnimationFrame(() => setTimeout(() => globalThis.latencies.push(performance.now() - start)));
    };
  });
  await tab.focus("#prompt");
  for (let key = 0; key < KEYS; key += 1) await tab.keyboard.type("x");
  const all = await tab.evaluate(() => globalThis.latencies.sort((a, b) => a - b));
  await tab.fill("#prompt", "");
  return all[Math.floor(all.length / 2)];
}

await tab.click("a.row");
await shows(tab, "You said: hello");
const idle = await latency();
const before = await world.memory(tab);
await prompt(tab, `chunks ${EVENTS}`);
await shows(tab, `of ${EVENTS}`);
const busy = await latency();
await tab.waitForFunction((last) => document.querySelector(".log").textContent.includes(last), `chunk ${EVENTS} of ${EVENTS}`, { timeout: 120_000 });
rows.push(["input latency while updates arrive, ratio to idle", busy / idle, 2, `${busy.toFixed(1)} ms to ${idle.toFixed(1)} ms`]);
rows.push([`memory of ${EVENTS.toLocaleString("en")} events, MB`, (await world.memory(tab)) - before, 20, `${before.toFixed(1)} MB before`]);
await world.end();

let missed = false;
for (const [name, value, budget, note] of rows) {
  missed ||= value > budget;
  console.log(`${value > budget ? "MISSED" : "ok    "} ${name}: ${value.toFixed(1)} of ${budget}${note ? ` (${note})` : ""}`);
}
process.exitCode = missed ? 1 : 0;
