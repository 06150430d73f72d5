// Tries real agents through acpx and prints a table of what went well.
//
//   node run.mjs --acpx PROGRAM --sdk DIR --rust-sdk PROGRAM --agents DIR --homes DIR AGENT…
//
// Below --agents each agent is installed in a directory of its name, and below --homes it gets a home that is empty.
// What went well is `ok`; what is up to the agent alone is told as it was `seen`, and is no failure.

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { prepared } from "./agents.mjs";
import { startModel } from "./model/server.mjs";
import { causes, native } from "./native.mjs";
import { Place } from "./place.mjs";
import { missingLogin, trials } from "./trials.mjs";
import { askedEditor, editor, rustEditor, shell } from "./ways.mjs";

const { values, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    acpx: { type: "string" },
    sdk: { type: "string" },
    "rust-sdk": { type: "string" },
    agents: { type: "string" },
    homes: { type: "string" },
  },
});
const [acpx, sdk, rustSdk, agents, homes] = ["acpx", "sdk", "rust-sdk", "agents", "homes"].map((name) =>
  resolve(values[name]),
);

let failures = 0;
const WIDTHS = [18, 8, 26, 8, 10];
const row = (...cells) =>
  console.log(
    cells
      .map((cell, column) => cell.padEnd(WIDTHS[column] ?? 0))
      .join(" ")
      .trimEnd(),
  );

/** A row for what a step came to: it went well, or not, or it was up to the agent and is told. */
function told(agent, way, { step, ms, note = "", seen, error }) {
  if (error !== undefined) failures += 1;
  const result = error !== undefined ? "FAILED" : seen !== undefined ? "seen" : "ok";
  row(agent, way, step, result, `${ms} ms`, error === undefined ? (seen ?? note) : `\n${error.message}\n`);
}

/** Goes one way to its end or to its first failure, a row for each step. */
async function go(agent, way, steps) {
  let since = performance.now();
  const timed = (step) => {
    const ms = Math.round(performance.now() - since);
    since = performance.now();
    told(agent, way, { ms, ...step });
  };
  try {
    for await (const step of steps) timed(step);
  } catch (error) {
    timed({ step: "-", error });
  }
}

async function* nothingLeft(place) {
  const left = await place.end();
  if (left.length > 0) throw new Error(`these outlived their host:\n${left.join("\n")}`);
  yield { step: "nothing is left" };
}

async function inAllWays(name, agent, place) {
  await go(name, "shell", shell(place));
  for (const spoken of agent.speaks) {
    for (const client of [1, 2]) {
      await go(name, `v${client}-v${spoken}`, editor(place, sdk, { client, agent: spoken }));
      await go(name, `r${client}-v${spoken}`, rustEditor(place, rustSdk, { client, agent: spoken }));
    }
  }
  await go(name, "asked", askedEditor(place, sdk));
}

/** The agent's own program and acpx in turn, in a home of their own. */
async function withOwnProgram(name, installed, url) {
  const agent = prepared(name, { installed, home: join(homes, `${name}-native`), url });
  if (agent.native === undefined) return;
  const place = new Place(acpx, agent);
  await go(name, "native", native(place, agent));
  await go(name, "native", causes(place, agent));
  await go(name, "end", nothingLeft(place));
}

async function attempt(name, url) {
  const installed = join(agents, name);
  await withOwnProgram(name, installed, url);
  const agent = prepared(name, { installed, home: join(homes, name), url });
  const place = new Place(acpx, agent);
  if (agent.only === undefined) await inAllWays(name, agent, place);
  await go(name, "trial", trials(place, agent));
  await go(name, "end", nothingLeft(place));
  const stranger = prepared(name, { installed, home: join(homes, `${name}-without-login`), url, loggedIn: false });
  const apart = new Place(acpx, stranger);
  await go(name, "trial", missingLogin(apart, stranger));
  await go(name, "end", nothingLeft(apart));
}

const model = await startModel();
row("agent", "way", "step", "result", "time", "what was seen");
for (const name of names) await attempt(name, model.url);
await model.close();
if (failures > 0) {
  console.log(`\n${failures} failed`);
  process.exitCode = 1;
}
