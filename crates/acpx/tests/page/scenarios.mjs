// What the page does, one scenario for each test of `it/page.rs`.
//
//   node scenarios.mjs SCENARIO TOOLS ACPX
//
// The home is that of the environment, the directory the working directory. There is one session of `demo`, named by
// its prompt "hello", unless the test says otherwise.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import fs from "node:fs";
import { prompt, shows, slowestFrame, state, times, World } from "./page.mjs";

const scenarios = { first_visit, new_session, streaming, requests, queue, reload, host_lost, clients, phone, keyboard, accessibility, scopes, forms, hostile, history, changes, malformed, long_line, late_row, refused, too_long, options, older_fails, silence, unprompted, signed_out, refusals, notifications, many_sessions, many_calls, many_events, long_commands, content, attachments, server_gone };

async function first_visit(world) {
  const context = await world.device();
  const link = await world.link();
  const tab = await world.tab(context, link);
  await tab.waitForSelector("a.row");
  assert.equal(new URL(tab.url()).hash, "#/", "the code leaves the address");
  assert.match(await tab.textContent("a.row"), /hello/);
  await tab.reload();
  await tab.waitForSelector("a.row");
  // The code is used up.
  const other = await world.tab(await world.device(), link);
  await other.waitForSelector(".signin-card");
  assert.match(await other.textContent(".signin-card"), /does not work any more[^]*acpx web/);
  await world.axe(other);
  await other.fill("#code", await world.link());
  await other.press("#code", "Enter");
  await other.waitForSelector("a.row");
  // A revoked device is signed out at once.
  const { tokens } = JSON.parse(await world.acpx("--format", "json", "token", "list"));
  assert.equal(tokens.length, 2);
  for (const { tokenId } of tokens) await world.acpx("token", "revoke", tokenId);
  await tab.waitForSelector(".signin-card");
  return [tab, other];
}

async function new_session(world) {
  const tab = await world.signedIn();
  await tab.click("#new-session");
  await tab.selectOption("#new-agent", "demo");
  await tab.waitForSelector(".choice");
  assert.equal(await tab.locator(".choice").count(), 1, "only known directories");
  await tab.click(".dialog button[type=submit]");
  await tab.waitForSelector('body[data-view="thread"]');
  await prompt(tab, "the first words");
  await shows(tab, "You said: the first words");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 2);
  // It is renamed, closed, and deleted with an undo.
  await tab.click(".thread-head [aria-label='Session menu']");
  await tab.click("text=Rename…");
  await tab.fill("#rename", "second one");
  await tab.click(".dialog button[type=submit]");
  await tab.waitForFunction(() => document.querySelector(".thread-title").textContent === "second one");
  await tab.click(".thread-head [aria-label='Session menu']");
  await tab.click("text=Close session");
  await state(tab, "closed");
  await prompt(tab, "open again");
  await shows(tab, "You said: open again");
  await state(tab, "idle");
  await tab.click(".thread-head [aria-label='Session menu']");
  await tab.click("text=Delete session");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  await tab.click("text=Undo");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 2);
  // A deletion outlives the page.
  await tab.click("a.row:has-text('second one')");
  await tab.click(".thread-head [aria-label='Session menu']");
  await tab.click("text=Delete session");
  await tab.reload();
  await tab.click("text=Undo");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 2 && localStorage.getItem("acpx:deletions") === null);
  // Another tab hides the row too, and one of them deletes the session, even without storage.
  const other = await world.tab(tab.context(), tab.url().replace(/#.*/, "#/"));
  await other.waitForFunction(() => document.querySelectorAll("a.row").length === 2);
  const deleteSecond = async () => {
    await tab.click("a.row:has-text('second one')");
    await tab.click(".thread-head [aria-label='Session menu']");
    await tab.click("text=Delete session");
  };
  await deleteSecond();
  await other.click("text=Undo");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 2 && !document.querySelector(".toast"));
  await tab.evaluate(() => { Storage.prototype.setItem = () => { throw new Error("full"); }; });
  await deleteSecond();
  await other.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  // A deletion outlives the page.
  await other.click("a.row");
  await other.click(".thread-head [aria-label='Session menu']");
  await other.click("text=Delete session");
  await tab.close();
  await other.reload();
  await other.waitForFunction(() => localStorage.getItem("acpx:deletions") === null);
  await other.waitForFunction(() => document.querySelectorAll("a.row").length === 0);
  // Without a session there is no directory to start one in.
  await other.waitForSelector("#sessions-note:has-text('in the directory of your project')");
  await other.click("#new-session");
  await other.waitForSelector(".dialog button[type=submit]:disabled");
  await other.waitForSelector(".choices:has-text('No directory has a session yet')");
  return [other];
}

async function streaming(world) {
  const tab = await world.inSession();
  await prompt(tab, "think plan tool and **bold** `code` <b>no tag</b>");
  await shows(tab, "and bold code");
  await shows(tab, "<b>no tag</b>");
  assert.ok(await tab.locator(".markdown strong", { hasText: "bold" }).count());
  assert.equal(await tab.locator(".plan-entry.completed").count(), 2);
  await tab.click(".tool .tool-line");
  await shows(tab, "one note: all is well");
  await tab.click(".thought-line");
  await shows(tab, "Thinking about");
  assert.equal(await tab.textContent(".item.user:last-of-type .who, .item.user .who >> nth=-1"), "You");
  // Many chunks arrive; who reads further up stays there.
  await prompt(tab, "chunks 4000");
  await shows(tab, "chunk 4000 of 4000");
  assert.ok((await tab.locator(".item").count()) < 60, "only what is visible has nodes");
  await tab.evaluate(() => document.querySelector(".log").scrollBy(0, -4000));
  await tab.waitForSelector(".jump:not([hidden])");
  const top = () => tab.evaluate(() => {
    const log = document.querySelector(".log").getBoundingClientRect();
    const item = [...document.querySelectorAll(".item")].find((node) => node.getBoundingClientRect().bottom > log.top + 1);
    return [item.textContent.slice(0, 40), Math.round(item.getBoundingClientRect().top - log.top)];
  });
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const before = await top();
  await world.acpx("demo", "prompt", "chunks 50");
  await tab.waitForFunction(() => document.querySelector("a.row .row-said").textContent.includes("chunk"));
  assert.deepEqual(await top(), before, "the position is kept");
  await tab.click(".jump");
  await shows(tab, "chunk 50 of 50");
  // What is added to an address belongs to its link, also behind what may end the sentence.
  const link = tab.locator(".item.agent").last().locator("a").last();
  for (const [start, rest, address] of [["https://docs.example.or", "g", "https://docs.example.org/"], [" https://a.example.", "org", "https://a.example.org/"], [' [l](https://example.com "t"', ")", "https://example.com/"], [" ***x**", "*", "https://example.com/"]]) {
    for (const text of [start, rest]) {
      await tab.evaluate((text) => globalThis.feed({ sessionUpdate: "agent_message_chunk", messageId: "links", content: { type: "text", text } }), text);
      await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
    assert.equal(await link.getAttribute("href"), address);
  }
  await tab.waitForSelector(".item.agent strong em:has-text('x')");
  // Another session opens at its end, and so does this one again.
  await world.acpx("demo", "sessions", "new", "--name", "other");
  await world.acpx("demo", "prompt", "-s", "other", "chunks 300");
  for (const [name, end] of [["other", "chunk 300 of 300"], ["hello", "chunk 50 of 50"], ["other", "chunk 300 of 300"]]) {
    await tab.click(name === "other" ? "a.row:has-text('other')" : "a.row:not(:has-text('other'))");
    await shows(tab, end);
    assert.ok(await tab.isHidden(".jump"), `${name} opens at its end`);
    assert.ok(await tab.evaluate(() => { const log = document.querySelector(".log"); return log.scrollHeight - log.scrollTop - log.clientHeight < 48; }), `${name} is at its end`);
  }
  return [tab];
}

async function requests(world) {
  const tab = await world.inSession();
  await prompt(tab, "permission");
  await tab.waitForSelector(".requests .request");
  assert.match(await tab.title(), /^\(1\) /);
  assert.match(await tab.getAttribute("#favicon", "href"), /waiting/);
  assert.match(await tab.textContent(".request"), /Edit notes.txt[^]*another note: it was edited[^]*Allow[^]*Reject/);
  await tab.click(".request button:has-text('Reject')");
  await shows(tab, "The edit was rejected.");
  assert.ok(await tab.evaluate(() => document.activeElement.matches(".log")), "the focus goes from the answer to the log");
  await tab.waitForFunction(() => !/^\(/.test(document.title));
  // From the list, in another view.
  await prompt(tab, "permission again");
  await tab.waitForSelector(".requests .request");
  await tab.goto(tab.url().replace(/#.*/, "#/"));
  await tab.click("#pending:not([hidden])");
  await tab.click("#request-sheet .request button:has-text('Allow')");
  await tab.waitForSelector("#request-sheet", { state: "detached" });
  await tab.click("a.row");
  await shows(tab, "The edit was made.");
  // Answered by another client, it disappears at once.
  await prompt(tab, "permission elsewhere");
  await tab.waitForSelector(".requests .request");
  await world.acpx("approve", await tab.getAttribute(".request", "data-question"));
  await tab.waitForSelector(".requests .request", { state: "detached" });
  return [tab];
}

async function queue(world) {
  const tab = await world.inSession();
  await prompt(tab, "wait");
  await shows(tab, "Waiting until cancelled");
  await prompt(tab, "the second");
  await tab.waitForSelector(".queue li:has-text('the second') .queue-state:has-text('queued')");
  await prompt(tab, "the third");
  await tab.waitForSelector(".queue li:has-text('the third') .queue-state:has-text('queued')");
  // One is edited, one is dropped.
  await tab.click(".queue li:has-text('the third') [aria-label='Drop the queued prompt']");
  await tab.waitForSelector(".queue li:has-text('the third')", { state: "detached" });
  await tab.click(".queue li:has-text('the second') [aria-label='Edit the queued prompt']");
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "the second");
  await tab.waitForSelector(".queue", { state: "hidden" });
  await prompt(tab, "the second, edited");
  await tab.waitForSelector(".queue li:has-text('edited')");
  await tab.click(".stop");
  await shows(tab, "Cancelled");
  await shows(tab, "You said: the second, edited");
  await state(tab, "idle");
  assert.equal(await times(tab, "You said: the third"), 0);
  return [tab];
}

async function reload(world) {
  const tab = await world.inSession();
  await prompt(tab, "tool wait");
  await shows(tab, "Waiting until cancelled");
  await tab.fill("#prompt", "a draft");
  const sockets = [];
  await tab.routeWebSocket(/\/acp$/, (socket) => {
    socket.connectToServer();
    sockets.push(socket);
  });
  await tab.reload();
  await shows(tab, "Waiting until cancelled");
  await state(tab, "working");
  assert.equal(await tab.inputValue("#prompt"), "a draft");
  assert.equal(await times(tab, "Waiting until cancelled"), 1, "nothing is shown twice");
  await tab.click(".stop");
  await shows(tab, "Cancelled");
  await tab.waitForSelector(".stop", { state: "hidden" });
  assert.ok(await tab.evaluate(() => document.activeElement.matches(".log")), "the focus goes from the stop button to the log");
  // The connection breaks: no gap, no repeat, no reload.
  await tab.evaluate(() => { globalThis.sameDocument = true; });
  await sockets.at(-1).close();
  await tab.waitForFunction(() => globalThis.banners.some((text) => text.includes("lost")));
  await world.acpx("demo", "prompt", "said while away");
  await shows(tab, "You said: said while away");
  assert.equal(await times(tab, "You said: said while away"), 1);
  assert.equal(await tab.evaluate(() => globalThis.sameDocument), true);
  // The outcome of a turn stays.
  assert.equal(await tab.locator(".mark-line:has-text('Cancelled')").count(), 1);
  await tab.reload();
  await shows(tab, "You said: said while away");
  assert.equal(await tab.locator(".mark-line:has-text('Cancelled')").count(), 1);
  return [tab];
}

async function host_lost(world) {
  const tab = await world.inSession();
  await prompt(tab, "wait");
  await shows(tab, "Waiting until cancelled");
  await tab.fill("#prompt", "after the crash");
  const { pid } = JSON.parse(fs.readFileSync(`${process.env.ACPX_HOME}/host.lock`, "utf8"));
  process.kill(pid, "SIGKILL");
  await tab.waitForFunction(() => globalThis.banners.some((text) => text.includes("lost")));
  await shows(tab, "The turn failed");
  assert.equal(await tab.inputValue("#prompt"), "after the crash");
  await tab.waitForSelector("#banner", { state: "hidden" });
  await tab.press("#prompt", "Enter");
  await shows(tab, "You said: after the crash");
  assert.equal(await times(tab, "Waiting until cancelled"), 1);
  return [tab];
}

async function clients(world) {
  const tab = await world.inSession();
  const second = await world.tab(tab.context(), tab.url());
  await second.waitForSelector(".item");
  await prompt(tab, "from the first tab");
  await shows(second, "You said: from the first tab");
  assert.equal(await times(second, "You said: from the first tab"), 1);
  await prompt(second, "from the second tab");
  await shows(tab, "You said: from the second tab");
  await world.acpx("demo", "prompt", "from the shell");
  for (const view of [tab, second]) {
    await shows(view, "You said: from the shell");
    const who = await view.evaluate(() => [...document.querySelectorAll(".item.user")].find((node) => node.textContent.includes("from the shell")).querySelector(".who").textContent);
    assert.equal(who, "Shell");
  }
  // One answers, the other's card goes.
  await prompt(tab, "permission");
  await tab.waitForSelector(".requests .request");
  await second.waitForSelector(".requests .request");
  await second.click(".request button:has-text('Allow')");
  await tab.waitForSelector(".requests .request", { state: "detached" });
  await shows(tab, "The edit was made.");
  return [tab, second];
}

async function phone(world) {
  const tab = await world.signedIn({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  assert.ok(await tab.isHidden("#thread"));
  const group = await tab.locator("h2.group").first().boundingBox();
  await tab.tap("a.row");
  await tab.waitForSelector(".item");
  assert.ok(await tab.isHidden("#sidebar"));
  await tab.fill("#prompt", "permission\nsecond line");
  await tab.tap(".send");
  await tab.waitForSelector(".requests .request");
  for (const [width, height] of [[1024, 768], [844, 390], [390, 844]]) {
    await tab.setViewportSize({ width, height });
    const small = await tab.evaluate(() => [...document.querySelectorAll("button, input, select, textarea, a.row, a.icon-button")]
      .filter((node) => node.checkVisibility() && node.getBoundingClientRect().width > 1)
      .map((node) => [node.outerHTML.slice(0, 80), node.getBoundingClientRect().width, node.getBoundingClientRect().height])
      .filter(([, width, height]) => width < 43.5 || height < 43.5));
    assert.deepEqual(small, [], `targets under 44 px at ${width} x ${height}`);
    assert.deepEqual(await covered(tab, ".request-buttons button, .send"), [], `controls out of sight at ${width} x ${height}`);
    assert.ok(await tab.evaluate(() => document.querySelector(".log").clientHeight) > 60, `the conversation is visible at ${width} x ${height}`);
  }
  for (const colorScheme of ["dark", "light"]) {
    await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await world.axe(tab);
    await tab.tap(".back");
    await tab.tap("#pending");
    await tab.waitForSelector("#request-sheet .request");
    await world.axe(tab);
    await tab.tap("dialog [aria-label='Close']");
    await tab.tap("a.row");
    await tab.waitForSelector(".requests .request");
  }
  await world.check(tab);
  await tab.setViewportSize({ width: 320, height: 640 });
  await world.check(tab);
  await tab.tap(".request button:has-text('Allow')");
  await shows(tab, "The edit was made.");
  await tab.tap(".back");
  await tab.waitForSelector("a.row");
  await tab.setViewportSize({ width: 390, height: 844 });
  await tab.waitForFunction(() => document.querySelector("a.row .state-idle"));
  const rowTop = await tab.locator("a.row").first().boundingBox();
  const groupNow = await tab.locator("h2.group").first().boundingBox();
  assert.deepEqual(groupNow, group, "the first heading is where it was");
  assert.ok(rowTop.y >= groupNow.y + groupNow.height, "and no row covers it");
  return [tab];
}

async function keyboard(world) {
  const tab = await world.signedIn();
  const key = (name) => tab.keyboard.press(name);
  await key("/");
  await tab.keyboard.type("hello");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  await key("ArrowDown");
  await tab.waitForFunction(() => document.activeElement.matches("a.row"));
  await key("Enter");
  await tab.waitForSelector('body[data-view="thread"] .item');
  await tab.waitForFunction(() => document.activeElement.matches(".thread-title"));
  await key("i");
  await tab.keyboard.type("permission");
  await key("Enter");
  await tab.waitForSelector(".requests .request");
  await key("Escape");
  await key("r");
  await tab.waitForFunction(() => document.activeElement.matches(".request"));
  await key("1");
  await shows(tab, "The edit was made.");
  await key("i");
  await tab.keyboard.type("wait");
  await key("Enter");
  await shows(tab, "Waiting until cancelled");
  await tab.evaluate(() => globalThis.feed({ sessionUpdate: "tool_call", toolCallId: "unfinished", title: "never ends", status: "in_progress" }));
  await tab.waitForSelector(".tool:has-text('never ends') .status-in_progress");
  await key("Control+.");
  await shows(tab, "Cancelled");
  await tab.waitForSelector(".tool:has-text('never ends') .status-cancelled");
  await key("Escape");
  await key("?");
  await tab.waitForSelector("dialog[open] .keys");
  await key("Escape");
  await tab.waitForSelector("dialog", { state: "detached" });
  await key("n");
  await tab.waitForSelector("dialog[open] #new-agent");
  await key("Escape");
  await key("F6");
  await key("F6");
  await tab.waitForFunction(() => document.activeElement.matches("#prompt, a.row"));
  return [tab];
}

async function accessibility(world) {
  const tab = await world.inSession();
  await prompt(tab, "think plan tool # Title\n\n#### Deep\n\n| a | b |\n|---|---|\n| 1 | [l](https://example.com) |\n\n```rust\n// a comment\nlet x = \"s\"; f(1);\n```\n- [x] done");
  await tab.waitForSelector(".markdown .table");
  await tab.click(".tool .tool-line");
  await prompt(tab, "permission");
  await tab.waitForSelector(".requests .request");
  for (const colorScheme of ["dark", "light"]) {
    await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await world.axe(tab);
    await tab.click("#new-session");
    await tab.waitForSelector("dialog[open] .choice");
    await world.axe(tab);
    await tab.keyboard.press("Escape");
    await tab.click("#menu");
    await world.axe(tab);
    await tab.keyboard.press("Escape");
  }
  // The theme can be chosen too.
  await tab.click("#menu");
  await tab.click(".menu button:has-text('Theme')");
  assert.equal(await tab.evaluate(() => getComputedStyle(document.body).colorScheme), "dark");
  await tab.click(".request button:has-text('Allow')");
  return [tab];
}

async function scopes(world) {
  const full = await world.inSession();
  await prompt(full, "permission");
  await full.waitForSelector(".requests .request");
  const read = await world.inSession({}, "--scope", "read");
  await read.waitForSelector(".requests .request");
  assert.equal(await read.locator(".request button:visible:not(.icon-button)").count(), 0);
  assert.ok(await read.isHidden(".composer"));
  assert.ok(await read.isHidden("#new-session"));
  const answer = await world.inSession({}, "--scope", "answer");
  assert.ok(await answer.isHidden(".composer"));
  await answer.click(".request button:has-text('Allow')");
  await shows(read, "The edit was made.");
  return [full, read, answer];
}

/** A scripted agent asks for a destructive command, shows a form, then an address. */
async function forms(world) {
  const tab = await world.inSession();
  await prompt(tab, "go on");
  await tab.waitForSelector(".request .command");
  assert.match(await tab.textContent(".request .command"), /git push --force origin main/);
  await tab.click(".request button:has-text('Yes, once')");
  await tab.waitForSelector(".request .confirm");
  await tab.click(".request button:has-text('Back')");
  await tab.click(".request button:has-text('Yes, once')");
  await tab.click(".request button:has-text('Confirm: Yes, once')");
  await tab.waitForSelector(".request .form");
  await world.axe(tab);
  await tab.setViewportSize({ width: 1280, height: 500 });
  assert.deepEqual(await covered(tab, ".request-buttons button"), [], "a long form does not hide its answers");
  await tab.click(".request button:has-text('Send')");
  assert.ok(await tab.isVisible(".request .form"), "a required field is missing");
  await tab.fill(".form input[type=text]", "Ada");
  await tab.fill(".form input[type=number]", "36");
  await tab.selectOption(".form select", "tea");
  await tab.check(".form .field.check input");
  await tab.check(".form fieldset input[value=b]");
  await tab.click(".request button:has-text('Send')");
  await tab.waitForSelector(".request a[href='https://example.com/login']");
  assert.match(await tab.getAttribute(".request a[target]", "rel"), /noopener noreferrer/);
  await tab.click(".request button:has-text('Done')");
  await shows(tab, "thank you");
  return [tab];
}

/** The controls that a click in their middle does not reach. */
function covered(tab, selector) {
  return tab.evaluate((selector) => [...document.querySelectorAll(selector)].filter((node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return !node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  }).map(({ textContent, className }) => textContent || className), selector);
}

/** A scripted agent sends what would harm a careless page. */
async function hostile(world) {
  const tab = await world.inSession();
  await tab.evaluate(() => { globalThis.harmed = false; });
  await prompt(tab, "go on");
  await shows(tab, "the end of it");
  await tab.click(".jump", { timeout: 500 }).catch(() => {});
  // The page answers while all of it is there.
  const worst = await slowestFrame(tab);
  assert.ok(worst < 1000, `a frame took ${worst} ms`);
  assert.ok((await tab.evaluate(() => document.querySelectorAll("*").length)) < 3000, "few nodes");
  await prompt(tab, "still here");
  await shows(tab, "thank you");
  // Back to the beginning, where the text is.
  await tab.evaluate(() => { document.querySelector(".log").scrollTop = 0; });
  await shows(tab, "⟨U+202E⟩");
  const first = await tab.evaluate(() => document.querySelector(".log").textContent);
  assert.match(first, /<script>globalThis.harmed = true<\/script>/);
  assert.match(first, /<img src=x onerror=/);
  const found = await tab.evaluate(() => ({
    harmed: globalThis.harmed,
    scripts: document.querySelectorAll("#thread script, #thread iframe, #thread object, #thread style").length,
    images: [...document.querySelectorAll("#thread img")].map(({ src }) => src).filter((src) => !src.startsWith("data:image/")),
    links: [...document.querySelectorAll("#thread a[href]")].map(({ href }) => href).filter((href) => !/^(https?:|mailto:)/.test(href)),
    rels: [...document.querySelectorAll("#thread a[target]")].every(({ rel }) => rel === "noopener noreferrer nofollow"),
  }));
  assert.deepEqual(found, { harmed: false, scripts: 0, images: [], links: [], rels: true });
  await tab.setViewportSize({ width: 390, height: 844 });
  for (const colorScheme of ["dark", "light"]) {
    await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await world.axe(tab);
  }
  return [tab];
}

/** A long conversation opens at its end, loads older turns while scrolling, and links to any message. */
async function history(world) {
  const tab = await world.inSession();
  await shows(tab, "You said: turn 60");
  assert.equal(await times(tab, "You said: turn 3 "), 0, "older turns are not loaded yet");
  await tab.waitForFunction(() => {
    const log = document.querySelector(".log");
    log.scrollTop = 0;
    return log.textContent.includes("You said: hello");
  }, null, { polling: 100 });
  const item = tab.locator(".item.agent", { hasText: "You said: hello" });
  await item.hover();
  await item.locator("[aria-label='Copy a link to this message']").click();
  const address = tab.url();
  assert.match(address, /#\/s\/[^/]+\/seq\/\d+$/);
  const other = await world.tab(tab.context(), address);
  await shows(other, "You said: hello");
  await other.waitForSelector(".target-item");
  return [tab, other];
}

/** The list follows what other clients do. */
async function changes(world) {
  const tab = await world.signedIn();
  await tab.waitForSelector("a.row");
  await world.acpx("demo", "sessions", "new", "--name", "other");
  await tab.waitForSelector("a.row:has-text('other')");
  await tab.fill("#filter", "nothing like it");
  await tab.waitForSelector("#sessions-note:has-text('No session matches')");
  await tab.fill("#filter", "oth");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  // A page older than the server offers a reload.
  await tab.evaluate(() => document.querySelector('meta[name="acpx-version"]').setAttribute("content", "older"));
  await world.acpx("host", "restart");
  await tab.waitForSelector("#banner button:has-text('Reload')");
  await tab.click("#banner button");
  await tab.waitForSelector("a.row");
  assert.ok(await tab.isHidden("#banner"));
  return [tab];
}

/** The page shows every request, also one that no sane agent sends, with all that an approval is about. */
async function malformed(world) {
  const { tab, page } = await relayed(world);
  const request = (/** @type {string} */ questionId, more) => ({ questionId, acpxRecordId: "other", agent: "demo", kind: "edit", options: [{ optionId: "yes" }], since: new Date().toISOString(), asked: [], ...more });
  const form = (properties, more) => ({ elicitation: { mode: "form", message: "m", requestedSchema: { type: "object", properties, ...more } }, options: [] });
  const requests = [
    request("untitled", {}),
    request("array", form({ list: { type: "array", items: { enum: ["a"] }, default: 5 } })),
    request("required", form({ text: { type: "string" } }, { required: 5 })),
    request("null", form({ nothing: null, choice: { oneOf: [null] } })),
    request("call", { toolCall: { content: {}, locations: [null, 5, { path: 7 }], rawInput: { command: ["a", 5], args: 5 }, title: 5, leftOut: 5 } }),
    request("path", { toolCall: { content: [{ type: "diff", path: 5, oldText: "a", newText: "b" }, null, 7, { type: "resource_link" }, { type: "resource" }] }, cwd: "/x" }),
    request("link", { toolCall: { content: [{ type: "content", content: { type: "resource_link", uri: { toString: 5 } } }] } }),
    request("good", { title: "The good one", options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }] }),
  ];
  await page({ method: "_acpx/pending/changed", params: { questions: requests } });
  await tab.waitForFunction((amount) => document.title.startsWith(`(${amount}) `), requests.length);
  await tab.click("#pending:not([hidden])");
  for (const { questionId } of requests) assert.ok(await tab.locator(`#request-sheet [data-question=${questionId}] .request-buttons button`).count(), `${questionId} can be answered`);
  assert.match(await tab.textContent("[data-question=good]"), /The good one[^]*Yes/);
  assert.match(await tab.textContent("[data-question=untitled]"), /The agent asks for permission[^]*yes/);
  assert.match(await tab.textContent("[data-question=link]"), /Approve[^]*Reject/);
  await page({ method: "_acpx/pending/changed", params: { questions: [] } });
  await tab.waitForSelector("#request-sheet", { state: "detached" });
  // Everything that is approved is there: files the list does not name, long rows, other members, each location.
  const patch = `diff --git a/src/one b/src/one\n--- a/src/one\n+++ b/src/one\n@@ -1,2 +1,2 @@\n same\n-old one\n+${"n".repeat(9_000)}END\ndiff --git a/hidden b/hidden\nold mode 100644\nnew mode 100755\n--- a/hidden\n+++ b/hidden\n@@ -1 +1 @@\n-was\n+--- secret\n+++ after the hunk\n`;
  const call = {
    content: [{ type: "diff", changes: [{ operation: "delete", path: "/w/gone" }, { operation: "modify", path: "/w/src/one" }], patch: { format: "git_patch", text: patch } }, { type: "content", content: { type: "text", text: `${"t".repeat(30_000)}END-OF-TEXT` } }],
    rawInput: { command: "make", timeout: 99, env: { SECRET: "value" } },
    locations: Array.from({ length: 70 }, (_, index) => ({ path: `/w/place-${index}` })),
  };
  // Invisible characters are visible, but not those that emoji consist of.
  call.rawInput.hidden = "a\u200bb\u2060c\u00add\u{e0072}\u{e006d}e\u200df\ufe0f 👩‍🚀 1️⃣ ❤️ می‌خواهم";
  await page({ method: "_acpx/pending/changed", params: { questions: [request("whole", { title: `make ${"x".repeat(500)}END-OF-TITLE`, toolCall: call })] } });
  await tab.click("#pending:not([hidden])");
  const shown = await tab.textContent("[data-question=whole]");
  for (const text of ["a⟨U+200B⟩b⟨U+2060⟩c⟨U+00AD⟩d⟨U+E0072⟩⟨U+E006D⟩e⟨U+200D⟩f⟨U+FE0F⟩ 👩‍🚀 1️⃣ ❤️ می‌خواهم", "nnnEND", "/w/gone", "deleted", "hidden", "new mode 100755", "--- secret", "+++ after the hunk", "END-OF-TEXT", "END-OF-TITLE", "timeout", "SECRET", "/w/place-69"]) assert.ok(shown.includes(text), `${text} is shown`);
  const paths = await tab.locator("[data-question=whole] .diff-head .path").allTextContents();
  assert.deepEqual(paths, ["/w/gone", "/w/src/one", "hidden"]);
  assert.equal(await tab.locator("[data-question=whole] .diff").nth(0).locator(".diff-row").count(), 0, "the deleted file has no rows of another");
  await page({ method: "_acpx/pending/changed", params: { questions: [] } });
  return [tab];
}

/** Each part of a message is read once, however long its lines and however small its pieces are. */
async function long_line(world) {
  const tab = await world.signedIn();
  const found = await tab.evaluate(async () => {
    const { Conversation } = await import("/js/conversation.js");
    /** The texts of the parts of a message that comes in pieces. */
    const parts = (/** @type {string} */ text, /** @type {number} */ size) => {
      const conversation = new Conversation();
      for (let at = 0; at < text.length; at += size) {
        conversation.apply({ sessionId: "s", update: { sessionUpdate: "agent_message_chunk", messageId: "m", content: { type: "text", text: text.slice(at, at + size) } }, _meta: { acpx: { seq: at + 1 } } });
      }
      return conversation.items.map(({ segment }) => segment);
    };
    const line = "x".repeat(10_000_000), code = `# Title\n\n\`\`\`js\n${"a line of code\n".repeat(2_000)}\`\`\`\n\nend`;
    const start = performance.now();
    const long = parts(line, 500);
    const took = performance.now() - start;
    const fenced = parts(code, 7);
    const tool = new Conversation();
    for (let seq = 1; seq <= 100; seq += 1) tool.apply({ sessionId: "s", update: { sessionUpdate: "tool_call_content_chunk", toolCallId: "t", content: { type: "content", content: { type: "text", text: "y".repeat(10_000) } } }, _meta: { acpx: { seq } } });
    const many = new Conversation();
    for (let seq = 1; seq <= 300; seq += 1) many.apply({ sessionId: "s", update: { sessionUpdate: "tool_call", toolCallId: `t${seq}`, status: "completed", content: [{ type: "content", content: { type: "text", text: "z".repeat(90_000) } }] }, _meta: { acpx: { seq } } });
    many.apply({ sessionId: "s", update: { sessionUpdate: "tool_call", toolCallId: "t1", rawOutput: JSON.parse("[".repeat(5_000) + "]".repeat(5_000)) }, _meta: { acpx: { seq: 301 } } });
    many.trim();
    const lengths = many.items.map(({ tool }) => tool.content[0].content.text.length);
    return {
      leftOut: many.items[0].tool.leftOut, calls: [lengths.length, lengths.filter((length) => length < 5_000).length, lengths.filter((length) => length === 90_000).length],
      took, longest: Math.max(...long.map(({ source }) => source.length)), whole: long.map(({ source }) => source).join("") === line,
      code: fenced.map(({ source }) => source).join("") === code, fences: [...new Set(fenced.map(({ fence }) => fence))], halved: parts("a" + "😀".repeat(20_000), 999).every(({ source }) => source.isWellFormed()),
      output: tool.items[0].tool.content[0].content.text.length,
    };
  });
  assert.ok(found.took < 5_000, `10 MB took ${found.took} ms`);
  assert.deepEqual({ ...found, took: 0 }, { leftOut: ["rawOutput"], calls: [300, 250, 50], took: 0, longest: 16_000, whole: true, code: true, fences: [null, "```js"], halved: true, output: found.output });
  assert.ok(found.output < 500_000, `${found.output} characters of output are kept`);
  return [tab];
}

/** A session that the list has later than the page shows it is followed; one that cannot be followed says so. */
async function late_row(world) {
  /** @type {(() => void) | undefined} */
  let release;
  let late = false, fails = false;
  const { tab } = await relayed(world, (message, reply, forward) => {
    if (late && message.method === "_acpx/sessions") {
      if (message.params.cursor) release = () => forward({ ...message, params: { limit: 100, subscribe: true } });
      else reply({ id: message.id, result: { sessions: [], nextCursor: "later" } });
      return true;
    }
    if (fails && message.method === "session/resume") reply({ id: message.id, error: { code: -32603, message: "no way" } });
    return fails && message.method === "session/resume";
  });
  late = true;
  await tab.reload();
  await tab.waitForSelector('body[data-view="thread"] .item');
  assert.equal(await tab.textContent(".thread-title"), "New session");
  late = false;
  fails = true;
  release?.();
  await tab.waitForSelector(".thread-problem:has-text('no way')");
  assert.notEqual(await tab.textContent(".thread-title"), "New session");
  await world.axe(tab);
  fails = false;
  await tab.click(".thread-problem button");
  await tab.waitForSelector(".thread-problem", { state: "hidden" });
  await world.acpx("demo", "prompt", "said by the shell");
  await shows(tab, "You said: said by the shell");
  return [tab];
}

/** A refused prompt becomes the draft of its session again, with its attachments. */
async function refused(world) {
  /** @type {((message: any) => void) | undefined} */
  let refuse;
  let holds = true;
  const { tab } = await relayed(world, (message, reply) => {
    if (!holds || message.method !== "session/prompt") return false;
    refuse = () => reply({ id: message.id, error: { code: -32603, message: "too much" } });
    return true;
  });
  const home = tab.url();
  await world.acpx("demo", "sessions", "new", "--name", "other");
  await tab.waitForSelector("a.row:has-text('other')");
  // Attachments stay with their draft.
  await tab.setInputFiles("input[type=file]", { name: "note one.txt", mimeType: "text/plain", buffer: Buffer.from("a note") });
  await tab.waitForSelector(".attached li");
  await tab.click("a.row:has-text('other')");
  await tab.waitForSelector(".attached", { state: "hidden" });
  await tab.goto(home);
  await tab.waitForSelector(".attached li:has-text('note one.txt')");
  await prompt(tab, "look at it");
  await tab.waitForSelector(".queue li:has-text('look at it')");
  assert.equal(await stored(tab, "outbox:"), 1);
  await tab.click("a.row:has-text('other')");
  await tab.waitForSelector(".thread-title:has-text('other')");
  await tab.fill("#prompt", "something else");
  refuse?.();
  await tab.waitForSelector(".toast:has-text('too much')");
  assert.equal(await tab.inputValue("#prompt"), "something else");
  await tab.click(".toast button:has-text('Open')");
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "look at it");
  await tab.waitForSelector(".attached li:has-text('note one.txt')");
  assert.equal(await stored(tab, "outbox:"), 0);
  await tab.click(".attached [aria-label='Remove note one.txt']");
  // Without storage a prompt is sent nevertheless.
  holds = false;
  await tab.evaluate(() => { Storage.prototype.setItem = () => { throw new Error("full"); }; });
  await tab.press("#prompt", "Enter");
  await tab.waitForSelector(".toast:has-text('cannot store this prompt')");
  await shows(tab, "You said: look at it");
  await tab.fill("#prompt", "kept in memory");
  await tab.click("a.row:has-text('other')");
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "something else");
  await tab.goto(home);
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "kept in memory");
  return [tab];
}

/** A prompt that is too long is refused, by the page or by its server, and stays a draft. */
async function too_long(world) {
  let refuses = true;
  const { tab } = await relayed(world, (message, _reply, _forward, close) => {
    if (refuses && message.method === "session/prompt") close(1009);
    return refuses && message.method === "session/prompt";
  });
  for (let file = 1; file <= 3; file += 1) {
    await tab.evaluate((name) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(19_000_000).fill(255)], name));
      document.querySelector(".composer").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }, `part ${file}.bin`);
    await tab.waitForSelector(`.attached li:has-text('part ${file}.bin')`);
  }
  await prompt(tab, "three files");
  await tab.waitForSelector(".toast:has-text('At most 60.0 MB')");
  assert.equal(await tab.inputValue("#prompt"), "three files");
  for (let file = 3; file >= 1; file -= 1) await tab.click(`.attached [aria-label='Remove part ${file}.bin']`);
  await tab.press("#prompt", "Enter");
  await tab.waitForSelector(".mark-detail:has-text('longer than acpx accepts')");
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "three files");
  await shows(tab, "A prompt was not accepted");
  assert.equal(await stored(tab, "outbox:"), 0);
  refuses = false;
  await tab.waitForSelector("#banner", { state: "hidden" });
  await tab.press("#prompt", "Enter");
  await shows(tab, "You said: three files");
  return [tab];
}

/** A menu shows the mode that the agent has, also while it has the focus and after a refused choice. */
async function options(world) {
  /** @type {"refuse" | "overtake" | "pass"} */
  let choice = "refuse";
  const modes = (/** @type {string} */ currentValue) => [{ configId: "acpx.mode", name: "Mode", category: "mode", type: "select", currentValue, options: ["ask", "code"].map((value) => ({ value, name: value })) }];
  const { tab } = await relayed(world, (message, reply) => {
    if (choice === "pass" || message.method !== "session/set_config_option") return false;
    if (choice === "refuse") reply({ id: message.id, error: { code: -32603, message: "not now" } });
    else {
      // Another client's choice arrives together with the answer.
      const { sessionId } = message.params;
      reply({ id: message.id, result: { configOptions: modes("code") } });
      reply({ method: "session/update", params: { sessionId, update: { sessionUpdate: "config_option_update", configOptions: modes("ask") } } });
      reply({ method: "session/update", params: { sessionId, update: { sessionUpdate: "agent_message", messageId: "after", content: [{ type: "text", text: "after the choice" }] } } });
    }
    return true;
  });
  const mode = ".options select";
  const isMode = (/** @type {string} */ value) => tab.waitForFunction(([mode, value]) => document.querySelector(mode)?.value === value, [mode, value]);
  await tab.focus(mode);
  await tab.selectOption(mode, "code");
  await tab.waitForSelector(".toast:has-text('not now')");
  await isMode("ask");
  assert.ok(await tab.evaluate((mode) => document.activeElement.matches(mode), mode), "the menu keeps the focus");
  choice = "overtake";
  await tab.selectOption(mode, "code");
  await shows(tab, "after the choice");
  await isMode("ask");
  choice = "pass";
  await tab.selectOption(mode, "code");
  await world.acpx("demo", "set-mode", "ask");
  await isMode("ask");
  await tab.selectOption(mode, "code");
  await tab.reload();
  await isMode("code");
  // The mode is known, and can be chosen, while the agent does not run.
  await world.acpx("host", "restart");
  await state(tab, "parked");
  await tab.reload();
  await isMode("code");
  await state(tab, "parked");
  const other = await world.inSession();
  await other.waitForSelector(".composer :text('Mode and model: once the agent runs')");
  await tab.selectOption(mode, "ask");
  await state(tab, "idle");
  await other.close();
  await isMode("ask");
  return [tab];
}

/** Older turns that cannot be loaded are asked for again when the user scrolls, and not before. */
async function older_fails(world) {
  let asked = 0, fails = true;
  const said = (/** @type {number} */ seq, /** @type {string} */ text) => ({ sessionId: "s", update: { sessionUpdate: "agent_message", messageId: `m${seq}`, content: [{ type: "text", text }] }, _meta: { acpx: { seq } } });
  const { tab } = await relayed(world, (message, reply) => {
    if (message.method !== "_acpx/history") return false;
    if (message.params.before === undefined) reply({ id: message.id, result: { updates: [said(5, "the last turn")], from: 5, more: true } });
    else if ((asked += 1) && fails) reply({ id: message.id, error: { code: -32603, message: "no way" } });
    else reply({ id: message.id, result: { updates: [said(1, "the first turn")], from: 1, more: false } });
    return true;
  });
  await shows(tab, "the last turn");
  await slowestFrame(tab, 60);
  assert.equal(asked, 1, "it is not asked again by itself");
  fails = false;
  await tab.hover(".log");
  await tab.mouse.wheel(0, -50);
  await shows(tab, "the first turn");
  return [tab];
}

/** A connection without an answer is lost, also one that never begins. */
async function silence(world) {
  let dead = false, tries = 0;
  const { tab } = await relayed(world, (message) => {
    if (dead && message.method === "initialize") tries += 1;
    return dead;
  }, (context) => context.clock.install());
  dead = true;
  await tab.clock.fastForward(60_000);
  await tab.clock.fastForward(10_000);
  await tab.waitForFunction(() => globalThis.banners.some((text) => text.includes("lost")));
  for (let round = 0; round < 20 && tries < 2; round += 1) {
    await tab.clock.fastForward(20_000);
    await slowestFrame(tab, 10);
  }
  assert.ok(tries >= 2, "an initialize without an answer is tried again");
  dead = false;
  await tab.clock.fastForward(20_000);
  await tab.waitForSelector("#banner", { state: "hidden" });
  await world.acpx("demo", "prompt", "after the silence");
  await shows(tab, "You said: after the silence");
  return [tab];
}

/** A new session is there after a reload, before its first prompt. */
async function unprompted(world) {
  const tab = await world.signedIn();
  await tab.click("#new-session");
  await tab.selectOption("#new-agent", "demo");
  await tab.click(".dialog button[type=submit]");
  await tab.waitForSelector('body[data-view="thread"]');
  await tab.waitForSelector(".options select");
  await tab.reload();
  await tab.waitForSelector('body[data-view="thread"]');
  await prompt(tab, "after a reload");
  await shows(tab, "You said: after a reload");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 2);
  await tab.waitForFunction(() => !Object.keys(localStorage).some((key) => key.startsWith("acpx:created:")));
  // A prompt that could not be sent for a day is a draft again.
  await tab.evaluate(() => {
    const record = decodeURIComponent(location.hash.split("/")[2]);
    localStorage.setItem("acpx:outbox:old", JSON.stringify({ requestId: "old", record, text: "of yesterday", blocks: [{ type: "text", text: "of yesterday" }], sentAt: Date.now() - 2 * 86_400_000 }));
  });
  await tab.reload();
  await tab.waitForFunction(() => document.querySelector("#prompt").value === "of yesterday");
  await tab.waitForSelector(".toast:has-text('was not sent')");
  assert.equal(await times(tab, "of yesterday"), 0);
  assert.equal(await stored(tab, "outbox:"), 0);
  return [tab];
}

/** A revoked device and one that signs out keep nothing; signing in leads to what was wanted. */
async function signed_out(world) {
  const tab = await world.inSession();
  const address = tab.url();
  /** What is left of the session. */
  const left = () => tab.evaluate(() => ({
    dialogs: document.querySelectorAll("dialog, .menu, .toast").length,
    text: /hello|secret/.test(document.body.textContent) || /hello|secret/.test(document.title),
    draft: document.querySelector("#prompt").value,
    keys: Object.keys(localStorage).filter((key) => !["acpx:theme", "acpx:letters", "acpx:notify"].includes(key)),
  }));
  const nothing = { dialogs: 0, text: false, draft: "", keys: [] };
  await tab.fill("#prompt", "a secret draft");
  await tab.click(".thread-head [aria-label='Session menu']");
  await tab.click("text=Rename…");
  const { tokens } = JSON.parse(await world.acpx("--format", "json", "token", "list"));
  for (const { tokenId } of tokens) await world.acpx("token", "revoke", tokenId);
  await tab.waitForSelector(".signin-card");
  assert.deepEqual(await left(), nothing);
  assert.equal(tab.url(), address);
  await tab.fill("#code", await world.link());
  await tab.press("#code", "Enter");
  await shows(tab, "You said: hello");
  assert.equal(tab.url(), address, "signing in leads to the session");
  await tab.fill("#prompt", "another secret");
  await tab.click("#menu");
  await tab.click(".menu button:has-text('Sign out')");
  await tab.waitForSelector(".signin-card");
  assert.deepEqual(await left(), nothing);
  // A link that is opened in the same tab leads there too.
  await tab.goto(await world.link());
  await shows(tab, "You said: hello");
  assert.equal(tab.url(), address);
  return [tab];
}

/** What the server refuses is explained. */
async function refusals(world) {
  const tab = await world.signedIn();
  for (const [error, title] of [["user", "This acpx is not yours"], ["host", "This address is not that of acpx"], ["site", "Another site opened this page"]]) {
    await tab.route("**/session", (route) => route.fulfill({ status: 403, contentType: "application/json", body: JSON.stringify({ error }) }));
    await tab.reload();
    await tab.waitForSelector(`.signin-card h1:has-text('${title}')`);
    await tab.unroute("**/session");
  }
  return [tab];
}

/** A hidden page notifies of ended turns with their outcome, also of those that ended while it had no connection. */
async function notifications(world) {
  const row = (/** @type {string} */ state, /** @type {string} */ outcome) => ({ acpxRecordId: "other", agent: "demo", cwd: "/w/one", title: "other", state, outcome, updatedAt: new Date().toISOString() });
  let away = false;
  const { tab, page, close } = await relayed(world, (message, reply) => {
    if (away && message.method === "_acpx/sessions") reply({ id: message.id, result: { sessions: [row("idle", "failed")] } });
    return away && message.method === "_acpx/sessions";
  }, async (context) => {
    await context.grantPermissions(["notifications"]);
    await context.addInitScript(() => {
      globalThis.notified = [];
      globalThis.Notification = class extends Notification {
        constructor(title, options) {
          if (globalThis.refusing) throw new TypeError("Illegal constructor");
          super(title, options);
          globalThis.notified.push(title);
        }
      };
    });
  });
  const toggle = async () => {
    await tab.click("#menu");
    await tab.click(".menu button:has-text('Notifications')");
  };
  await tab.evaluate(() => { globalThis.refusing = true; });
  await toggle();
  await tab.waitForSelector(".toast:has-text('does not allow')");
  await tab.evaluate(() => { globalThis.refusing = false; });
  await toggle();
  await tab.waitForFunction(() => localStorage.getItem("acpx:notify") === "true");
  await tab.evaluate(() => {
    globalThis.notified = [];
    Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
  });
  const changed = (/** @type {any} */ changed) => page({ method: "_acpx/sessions/changed", params: { changed: [changed] } });
  for (const outcome of ["cancelled", "failed", "end_turn"]) {
    await changed(row("working", outcome));
    await changed(row("idle", outcome));
  }
  await changed(row("working", "end_turn"));
  await tab.waitForSelector("a.row:has-text('other') .state-working");
  away = true;
  await close(1001);
  await tab.waitForFunction(() => globalThis.notified.length === 4);
  assert.deepEqual(await tab.evaluate(() => globalThis.notified), ["demo was cancelled", "demo has failed", "demo has finished", "demo has failed"]);
  return [tab];
}

/** 5,000 sessions are listed, filtered and scrolled. */
async function many_sessions(world) {
  const amount = 5_000;
  const row = (/** @type {number} */ number) => ({ acpxRecordId: `r${number}`, agent: "demo", cwd: `/work/project-${number % 40}`, title: `session ${number}.`, state: "parked", updatedAt: new Date(1.7e12 - number * 1000).toISOString() });
  const { tab, page } = await relayed(world, (message, reply) => {
    if (message.method !== "_acpx/sessions") return false;
    const from = Number(message.params.cursor ?? 0), to = Math.min(amount, from + message.params.limit);
    reply({ id: message.id, result: { sessions: Array.from({ length: to - from }, (_, index) => row(from + index)), ...(to < amount ? { nextCursor: String(to) } : {}) } });
    return true;
  }, undefined, false);
  const rows = () => tab.locator("a.row").count();
  await tab.waitForFunction((amount) => document.querySelector("#sessions .virtual").offsetHeight > amount * 40, amount);
  assert.ok((await rows()) < 60, "only what is visible has nodes");
  await tab.evaluate(() => { document.querySelector("#sessions").scrollTop = 1e9; });
  await tab.waitForSelector("a.row:has-text('session 4999.')");
  await tab.fill("#filter", "session 4321.");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  await tab.fill("#filter", "");
  await tab.waitForFunction(() => document.querySelectorAll("a.row").length > 5);
  const order = () => tab.evaluate(() => [...document.querySelectorAll("#sessions .entry")].map((node) => node.getBoundingClientRect().top));
  const isSorted = (/** @type {number[]} */ tops) => tops.every((top, at) => at === 0 || tops[at - 1] < top);
  // The keys scroll the list.
  await tab.focus("a.row");
  for (let step = 0; step < 30; step += 1) await tab.keyboard.press("j");
  await tab.waitForFunction(() => document.querySelector("#sessions").scrollTop > 500 && document.activeElement.matches("a.row"));
  for (let step = 0; step < 30; step += 1) await tab.keyboard.press("k");
  await tab.evaluate(() => { document.querySelector("#sessions").scrollTop = 0; });
  await tab.waitForSelector("a.row:has-text('session 0.')");
  // A session that begins to wait is the first, on the screen and in the order of the nodes.
  await page({ method: "_acpx/sessions/changed", params: { changed: [{ ...row(80), state: "waiting" }] } });
  await tab.waitForFunction(() => document.querySelector("#sessions .entry h2.waiting"));
  assert.equal(await tab.evaluate(() => document.querySelector("#sessions").scrollTop), 0);
  assert.ok(isSorted(await order()), `${await order()}`);
  await page({ method: "_acpx/sessions/changed", params: { changed: [row(80), { ...row(3), state: "idle", updatedAt: new Date(1.8e12).toISOString() }] } });
  await tab.waitForFunction(() => !document.querySelector("#sessions .entry h2.waiting"));
  assert.ok(isSorted(await order()), `${await order()}`);
  // Rows that change together are sorted once.
  const changed = Array.from({ length: 500 }, (_, index) => ({ ...row(index), state: "idle" }));
  const worst = slowestFrame(tab);
  await page({ method: "_acpx/sessions/changed", params: { changed } });
  assert.ok((await worst) < 1000, `a frame took ${await worst} ms`);
  return [tab];
}

/** 100,000 tool calls of one turn leave the page responsive, and its memory bounded. */
async function many_calls(world) {
  const tab = await world.inSession();
  const before = await world.memory(tab);
  const worst = await tab.evaluate(async () => {
    let slowest = 0, last = performance.now();
    const watch = (now) => {
      slowest = Math.max(slowest, now - last);
      last = now;
      if (last) requestAnimationFrame(watch);
    };
    requestAnimationFrame(watch);
    for (let call = 0; call < 100_000; call += 1) {
      globalThis.feed({ sessionUpdate: "tool_call", toolCallId: `c${call}`, title: `call ${call}.`, status: "completed", kind: "execute", content: [{ type: "content", content: { type: "text", text: `output ${call} `.repeat(20) } }], rawOutput: { text: "o".repeat(call % 1000 === 0 ? 300_000 : 10) } });
      if (call % 500 === 0) await new Promise((done) => setTimeout(done));
    }
    return slowest;
  });
  await shows(tab, "call 99999.");
  assert.ok(worst < 1000, `a frame took ${worst} ms`);
  assert.ok((await tab.locator(".item").count()) < 100, "only what is visible has nodes");
  const grown = (await world.memory(tab)) - before;
  assert.ok(grown < 25, `${grown} MB are kept`);
  // What was dropped is loaded again by scrolling up.
  await tab.waitForFunction(() => {
    const log = document.querySelector(".log");
    log.scrollTop = 0;
    return log.textContent.includes("You said: hello");
  }, null, { polling: 100 });
  await tab.click(".jump");
  await prompt(tab, "still here");
  await shows(tab, "call 99999.");
  return [tab];
}

/** A reader scrolls over 50,000 messages. */
async function many_events(world) {
  const tab = await world.inSession();
  const say = (/** @type {number} */ from, /** @type {number} */ to) => tab.evaluate(async ([from, to]) => {
    for (let message = from; message < to; message += 1) {
      globalThis.feed({ sessionUpdate: "agent_message", messageId: `m${message}`, content: [{ type: "text", text: `message ${message}. ${"word ".repeat(message % 60)}` }] });
      if (message % 500 === 0) await new Promise((done) => setTimeout(done));
    }
  }, [from, to]);
  await say(0, 200);
  await shows(tab, "message 199.");
  await tab.hover(".log");
  await tab.mouse.wheel(0, -2_000);
  await tab.waitForSelector(".jump:not([hidden])");
  await say(200, 50_000);
  const frames = slowestFrame(tab, 120);
  await tab.evaluate(async () => {
    const log = document.querySelector(".log");
    for (let step = 1; step <= 100; step += 1) {
      log.scrollTop = (log.scrollHeight / 100) * step;
      await new Promise((done) => requestAnimationFrame(done));
    }
  });
  assert.ok((await frames) < 1000, `a frame took ${await frames} ms`);
  // Heights are estimated until they are measured, so a position is not yet the end.
  await tab.focus(".log");
  await tab.keyboard.press("End");
  await shows(tab, "message 49999.");
  assert.ok((await tab.locator(".item").count()) < 100, "only what is visible has nodes");
  return [tab];
}

/** The second question is decided in linear time, and asked for every kind of destructive command. */
async function long_commands(world) {
  const tab = await world.signedIn();
  const found = await tab.evaluate(async () => {
    const { danger } = await import("/js/requests.js");
    const of = (/** @type {string} */ command, leftOut) => danger({ kind: "execute", toolCall: { rawInput: { command } }, leftOut });
    const slow = [];
    for (const piece of ["find ", "git ", "git -", "git -c ", "git -C a ", "git push ", "git reset ", "docker ", "curl ", "wget", "mkfs.", "chmod ", "| ", "|\n", "git checkout ", "\\\n", " -", "delete ", "npm ", "git stash "]) {
      const command = piece.repeat(Math.ceil(262_144 / piece.length)), start = performance.now();
      of(command);
      of(`git${" ".repeat(262_144)}${command}`);
      if (performance.now() - start > 1000) slow.push([piece, performance.now() - start]);
    }
    const more = [
      danger({ kind: "edit", toolCall: { content: [{ type: "diff", changes: [{ operation: "delete", path: "/w/a" }] }] } }),
      danger({ kind: "edit", toolCall: { content: [{ type: "diff", patch: { text: "--- a/x\n+++ /dev/null\n" } }] } }),
      danger({ kind: "execute", toolCall: { rawInput: { command: "ls", script: "rm -rf x" } } }),
      danger({ toolCall: { rawInput: { shell_command: "sudo ls" } } }),
      danger({ kind: "other", toolCall: { rawInput: { steps: [{ run: ["git", "push", "--force"] }] } } }),
      danger({ kind: "other", toolCall: { rawInput: JSON.parse(`${"[".repeat(100_000)}"rm x"${"]".repeat(100_000)}`) } }),
      danger({ kind: "edit", toolCall: { rawInput: { path: "a", content: "rm x" }, content: [{ type: "diff", changes: [{ operation: "modify" }] }] } }),
    ];
    const commands = ["ls | xargs rm", "$(rm)", "git checkout -f", "git checkout main --force", "git switch -f main", "git checkout HEAD -- a", "git checkout -b fix-f", "rm-old x", "rm -r x", "find . -name x -delete", "git push --force", "git -C /w push -f", "git -c a=b push origin +main", "git push \\\n  --force", "git push", "git log\nls --force", "git commit -m 'clean restore'", "git reset --hard HEAD~1", "git reset x", "git clean -xdf", "git checkout -- a", "git restore a", "git branch -D a", "mkfs.ext4 /dev/a", "curl https://a |\n sh", "curl https://a | tee b", "docker system prune", "ls"];
    return { slow, commands: commands.filter((command) => of(command) === null), more, leftOut: [of("ls", ["content"]), of("rm x", ["content"]), danger({ kind: "edit", leftOut: ["rawInput"] })] };
  });
  assert.deepEqual(found, {
    slow: [],
    more: ["It deletes files.", "It deletes files.", "It deletes files.", "It runs with the rights of the administrator.", "It overwrites or deletes branches of the remote.", "It deletes files.", null],
    commands: ["git checkout -b fix-f", "rm-old x", "git push", "git log\nls --force", "git commit -m 'clean restore'", "git reset x", "curl https://a | tee b", "ls"],
    leftOut: ["Not all of it is shown here.", "It deletes files. Not all of it is shown here.", "Not all of it is shown here."],
  });
  return [tab];
}

/** Images, marks and commands of an agent, and links to the event that is meant. */
async function content(world) {
  const tab = await world.inSession();
  const found = await tab.evaluate(async (data) => {
    const image = { type: "image", mimeType: "image/png", data };
    globalThis.feed({ sessionUpdate: "agent_message_chunk", messageId: "picture", content: image });
    globalThis.feed({ sessionUpdate: "tool_call", toolCallId: "shot", title: "Take a screenshot", status: "completed", content: [{ type: "content", content: image }] });
    globalThis.feed({ sessionUpdate: "notice", severity: "warning", title: "The agent does not remember what came before this", description: "It goes on in a fresh session." });
    globalThis.feed({ sessionUpdate: "compaction_update", compactionId: "c", status: "completed" });
    globalThis.feed({ sessionUpdate: "available_commands_update", availableCommands: [{ name: "recall", description: "List every earlier prompt" }, { name: "review", description: "Review the changes" }] });
    const { Conversation } = await import("/js/conversation.js");
    const conversation = new Conversation();
    const apply = (seq, update) => conversation.apply({ sessionId: "s", update, _meta: { acpx: { seq } } });
    apply(1, { sessionUpdate: "tool_call", toolCallId: "long", title: "long" });
    apply(2, { sessionUpdate: "agent_message", messageId: "inside", content: [] });
    apply(5, { sessionUpdate: "tool_call_update", toolCallId: "long", status: "completed" });
    return [1, 2, 3, 5, 6].map((seq) => conversation.items[conversation.indexOf(seq)]?.key);
  }, PICTURE);
  assert.deepEqual(found, ["t:long", "m:inside", "t:long", "t:long", undefined]);
  await tab.waitForSelector(".item.agent img[src^='data:image/png']");
  await tab.click(".tool-line:has-text('Take a screenshot')");
  await tab.waitForSelector(".item.tool img[src^='data:image/png']");
  await shows(tab, "The agent does not remember what came before this");
  await shows(tab, "The agent compacted the conversation");
  for (const colorScheme of ["dark", "light"]) {
    await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await world.axe(tab);
  }
  // A thought of several parts is opened and closed by its first one.
  await tab.evaluate(() => globalThis.feed({ sessionUpdate: "agent_thought_chunk", messageId: "long", content: { type: "text", text: "A sentence of a long thought.\n\n".repeat(300) } }));
  await tab.waitForFunction(() => document.querySelectorAll(".thought.continued").length > 1);
  assert.equal(await tab.locator(".thought-line").count(), 1);
  assert.equal(await tab.locator(".thought .markdown").count(), 0);
  const place = () => tab.evaluate(() => document.querySelector(".thought-line").getBoundingClientRect().top);
  const before = await place();
  await tab.click(".thought-line");
  await tab.waitForSelector(".thought .markdown");
  assert.equal(await place(), before, "what the user opens stays where it is");
  await tab.evaluate(() => document.querySelector(".log").scrollBy(0, 3000));
  await tab.waitForSelector(".thought.continued .markdown");
  await tab.evaluate(() => document.querySelector(".log").scrollBy(0, -3000));
  await tab.click(".thought-line");
  await tab.waitForFunction(() => document.querySelector(".thought.continued") && !document.querySelector(".thought .markdown"));
  await tab.focus("#prompt");
  await tab.keyboard.type("/re");
  await tab.waitForFunction(() => document.querySelectorAll("#commands [role=option]").length === 2);
  await world.axe(tab);
  await tab.keyboard.press("ArrowDown");
  await tab.keyboard.press("Enter");
  assert.equal(await tab.inputValue("#prompt"), "/review ");
  assert.ok(await tab.isHidden("#commands"));
  return [tab];
}

/** A pasted image and a dropped file are sent with the prompt. */
async function attachments(world) {
  const sent = new EventEmitter();
  const { tab } = await relayed(world, (message, reply) => {
    if (message.method !== "session/prompt") return false;
    sent.emit("prompt", message.params.prompt);
    reply({ id: message.id, result: {} });
    return true;
  });
  await tab.evaluate((data) => {
    const file = (name, type, content) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([content], name, { type }));
      return transfer;
    };
    const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
    document.querySelector("#prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData: file("shot.png", "image/png", bytes), bubbles: true, cancelable: true }));
    document.querySelector(".composer").dispatchEvent(new DragEvent("drop", { dataTransfer: file("notes.txt", "text/plain", "some notes"), bubbles: true, cancelable: true }));
  }, PICTURE);
  await tab.waitForSelector(".attached li:has-text('shot.png') img");
  await tab.waitForSelector(".attached li:has-text('notes.txt')");
  const received = once(sent, "prompt", { signal: AbortSignal.timeout(30_000) });
  await prompt(tab, "with files");
  const blocks = [
    { type: "text", text: "with files" },
    { type: "image", mimeType: "image/png", data: PICTURE },
    { type: "resource", resource: { uri: "attachment:///notes.txt", mimeType: "text/plain", text: "some notes" } },
  ];
  assert.deepEqual(await received, [blocks]);
  await tab.waitForSelector(".queue", { state: "hidden" });
  await tab.evaluate((content) => globalThis.feed({ sessionUpdate: "user_message", messageId: "files", content }), blocks);
  await tab.waitForSelector(".item.user img[src^='data:image/png']");
  await tab.waitForSelector(".item.user details:has-text('notes.txt')");
  return [tab];
}

/** Without its server the page says so, and goes on when it is there again. */
async function server_gone(world) {
  const tab = await world.inSession();
  await tab.fill("#prompt", "a kept draft");
  await world.acpx("web", "stop");
  await tab.waitForFunction(() => globalThis.banners.some((text) => text.includes("cannot be reached")));
  await world.link();
  await tab.waitForSelector("#banner", { state: "hidden" });
  await tab.press("#prompt", "Enter");
  await shows(tab, "You said: a kept draft");
  return [tab];
}

/** A picture of one pixel. */
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** How many stored values of the page begin like this. */
function stored(tab, start) {
  return tab.evaluate((start) => Object.keys(localStorage).filter((key) => key.startsWith(`acpx:${start}`)).length, start);
}

/**
 * A signed-in tab in its session, whose connection the test reads and writes.
 * @param {(message: any, reply: (message: any) => void, forward: (message: any) => void, close: (code: number) => void) => boolean | void} [held] whether a message of the page is held back
 * @param {(context: any) => Promise<void>} [prepare]
 * @param {boolean} [open] whether the session is opened
 */
async function relayed(world, held = () => false, prepare = async () => {}, open = true) {
  const context = await world.device();
  await prepare(context);
  /** @type {any} */
  let socket;
  await context.routeWebSocket(/\/acp$/, (opened) => {
    socket = opened;
    const server = opened.connectToServer();
    opened.onMessage((data) => held(JSON.parse(String(data)), (message) => opened.send(JSON.stringify({ jsonrpc: "2.0", ...message })), (message) => server.send(JSON.stringify(message)), (code) => opened.close({ code })) || server.send(data));
  });
  const tab = await world.tab(context, await world.link());
  await tab.waitForSelector("a.row");
  if (open) {
    await tab.click("a.row");
    await tab.waitForSelector('body[data-view="thread"] .item');
  }
  return { tab, close: (/** @type {number} */ code) => socket.close({ code }), page: async (message) => socket.send(JSON.stringify({ jsonrpc: "2.0", ...message })) };
}

const [name, tools, acpx] = process.argv.slice(2);
const world = new World(tools, acpx);
try {
  await world.start();
  for (const tab of await scenarios[name](world)) await world.check(tab);
} catch (error) {
  const tabs = world.browser?.contexts().flatMap((context) => context.pages()) ?? [];
  for (const tab of tabs) console.error(await tab.evaluate(() => `${location.href}\n${document.body.innerText.slice(-800)}`).catch(String));
  await world.browser?.close();
  throw error;
}
await world.end();
