// Tries real agents through acpx and prints a table of what went well.
//
//   node run.mjs --acpx PROGRAM --sdk DIR --agents DIR --homes DIR AGENT…
//
// Below --agents each agent is installed in a directory of its name, and below --homes it gets a home that is empty.

import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { prepared } from "./agents.mjs";
import { startModel } from "./model/server.mjs";
import { Place } from "./place.mjs";
import { editor, shell } from "./ways.mjs";

const { values, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    acpx: { type: "string" },
    sdk: { type: "string" },
    agents: { type: "string" },
    homes: { type: "string" },
  },
});
const [acpx, sdk, agents, homes] = [values.acpx, values.sdk, values.agents, values.homes].map((path) => resolve(path));

let failures = 0;
const row = (...cells) => console.log(cells.map((cell, column) => cell.padEnd([18, 8, 22, 8][column] ?? 0)).join(" "));

/** Goes one way to its end or to its first failure, a row for each step. */
async function go(agent, way, steps) {
  let since = performance.now();
  const told = (step, result, ...more) => {
    const now = performance.now();
    row(agent, way, step, result, `${Math.round(now - since)} ms`, ...more);
    since = now;
  };
  try {
    for await (const { step } of steps) told(step, "ok");
  } catch (error) {
    failures += 1;
    told("-", "FAILED", `\n${error.message}\n`);
  }
}

async function* nothingLeft(place) {
  const left = await place.end();
  if (left.length > 0) throw new Error(`these outlived their host:\n${left.join("\n")}`);
  yield { step: "nothing is left" };
}

async function attempt(name, url) {
  const home = join(homes, name);
  const temporary = join(home, "tmp");
  rmSync(home, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  const agent = prepared(name, { installed: join(agents, name), home, temporary, url });
  const place = new Place(acpx, agent);
  await go(name, "shell", shell(place));
  for (const spoken of agent.speaks) {
    for (const client of [1, 2]) {
      const versions = { client, agent: spoken, cancelledAs: agent.cancelledAs };
      await go(name, `v${client}-v${spoken}`, editor(place, sdk, versions));
    }
  }
  await go(name, "end", nothingLeft(place));
}

const model = await startModel();
row("agent", "way", "step", "result", "time");
for (const name of names) await attempt(name, model.url);
await model.close();
if (failures > 0) {
  console.log(`\n${failures} failed`);
  process.exitCode = 1;
}
