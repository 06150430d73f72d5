// A browser with the page, for the scenarios: what each of them starts with, and the steps they share.
//
// Every wait is for a condition. What the page must never do is checked at the end of every scenario: an error in its
// console, a violation of its Content-Security-Policy, a node wider than the window.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** Failed requests of these kinds are part of what is tested: a lost connection, a wrong code. */
const EXPECTED = /ERR_CONNECTION|WebSocket connection|status of (401|403|429|503)/;

export class World {
  #problems = [];

  /** @param {string} tools where playwright-core and axe-core are @param {string} acpx */
  constructor(tools, acpx) {
    this.require = createRequire(path.join(path.resolve(tools), "package.json"));
    this.program = acpx;
  }

  async start() {
    this.browser = await this.require("playwright-core").chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  }

  /** Runs acpx; gives its stdout. */
  async acpx(...args) {
    const { stdout } = await run(this.program, args, { maxBuffer: 1 << 26 });
    return stdout;
  }

  /** A link that signs a device in. */
  async link(...flags) {
    return JSON.parse(await this.acpx("--format", "json", "web", "--no-open", ...flags)).link;
  }

  /** A device: a browser context with its own cookies. */
  async device(options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "dark", ...options });
    context.setDefaultTimeout(30_000);
    // While you work on the page: its files from a directory, without a build.
    const source = process.env.PAGE_SOURCE;
    if (source) await context.route(/\/(app\.js|style\.css|js\/\w+\.js|icon[\w-]*\.svg)$/, async (route) => route.fulfill({ response: await route.fetch(), path: path.join(source, new URL(route.request().url()).pathname) }));
    return context;
  }

  /** A tab of a device. */
  async tab(context, address) {
    const tab = await context.newPage();
    tab.on("pageerror", (error) => this.#problems.push(`error: ${error.stack}`));
    tab.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED.test(message.text())) this.#problems.push(`console: ${message.text()}`);
    });
    tab.on("request", (request) => {
      const url = new URL(request.url());
      if (/^https?:$/.test(url.protocol) && url.hostname !== "127.0.0.1") this.#problems.push(`request: ${url}`);
    });
    await tab.addInitScript(() => {
      globalThis.reports = [];
      // Messages may be gone before a test looks.
      globalThis.banners = [];
      new MutationObserver(() => {
        const banner = document.getElementById("banner");
        if (banner && !banner.hidden) globalThis.banners.push(banner.textContent);
      }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden"] });
      // `feed` gives the page an update of the open session, as its connection would.
      let seq = 1_000_000;
      globalThis.WebSocket = class extends WebSocket {
        constructor(address, protocols) {
          super(address, protocols);
          globalThis.feed = (update) => {
            const params = { sessionId: decodeURIComponent(location.hash.split("/")[2]), update, _meta: { acpx: { seq: (seq += 1), at: new Date().toISOString() } } };
            this.onmessage({ data: JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }) });
          };
        }
      };
      document.addEventListener("securitypolicyviolation", (event) => globalThis.reports.push(`${event.violatedDirective} ${event.blockedURI}`));
    });
    if (address) await tab.goto(address);
    return tab;
  }

  /** A signed-in tab on a new device. */
  async signedIn(options = {}, ...flags) {
    const context = await this.device(options);
    const tab = await this.tab(context, await this.link(...flags));
    await tab.waitForSelector('body[data-view="list"]');
    return tab;
  }

  /** A signed-in tab with the session of the working directory open. */
  async inSession(options = {}, ...flags) {
    const tab = await this.signedIn(options, ...flags);
    await tab.click("a.row");
    await tab.waitForSelector('body[data-view="thread"] .item');
    return tab;
  }

  /** What holds on every tab at the end. */
  async check(tab) {
    assert.deepEqual(await tab.evaluate(() => globalThis.reports), [], "reports of the Content-Security-Policy");
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px wider than its window`);
  }

  /** Every rule of axe-core that the page breaks. */
  async axe(tab) {
    const source = this.require("node:fs").readFileSync(this.require.resolve("axe-core/axe.min.js"), "utf8");
    await tab.evaluate(source);
    const { violations } = await tab.evaluate(() => globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ").slice(0, 400)}`), []);
  }

  /** Megabytes of the tab's heap after a collection. */
  async memory(tab) {
    const client = await tab.context().newCDPSession(tab);
    await client.send("HeapProfiler.collectGarbage");
    const { usedSize } = await client.send("Runtime.getHeapUsage");
    await client.detach();
    return usedSize / 1e6;
  }

  async end() {
    await this.browser?.close();
    assert.deepEqual(this.#problems, []);
  }
}

/** Sends a prompt. */
export async function prompt(tab, text) {
  await tab.fill("#prompt", text);
  await tab.press("#prompt", "Enter");
}

/** Waits until the conversation shows a text. */
export async function shows(tab, text) {
  await tab.waitForFunction((text) => document.querySelector(".log")?.textContent.includes(text), text);
}

/** Waits until no conversation shows a state but this one. */
export async function state(tab, word) {
  await tab.waitForFunction((word) => document.querySelector(".thread-sub .state")?.textContent === word, word);
}

/** The longest of the next frames, in milliseconds. */
export function slowestFrame(tab, frames = 30) {
  return tab.evaluate((frames) => new Promise((done) => {
    let slowest = 0, amount = 0, last = performance.now();
    const step = (now) => {
      slowest = Math.max(slowest, now - last);
      last = now;
      if ((amount += 1) > frames) done(slowest);
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }), frames);
}

/** How often a text is in the conversation. */
export function times(tab, text) {
  return tab.evaluate((text) => document.querySelector(".log").textContent.split(text).length - 1, text);
}
