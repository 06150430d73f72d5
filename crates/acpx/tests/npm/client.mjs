// The npm SDK as the client of an agent: lives a scenario and prints one line of JSON for each step.
//
//   node client.mjs --sdk DIR --protocol 1|2 --words demo|model [--life whole|asked] --cwd DIR (--url URL | -- COMMAND…)
//
// The whole life is lived in either version, that of an editor who is asked in version 1.
// --sdk is where npm has installed the SDK, --cwd a directory that had no session ever, and COMMAND starts the agent,
// or a server speaks ACP at URL, over HTTP (http://) or a WebSocket (ws://).
// What fails is the last line, with its `error` and the step that it came `after`; then the exit code is 1.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { asked } from "./asked.mjs";
import { Link, Process, Remote } from "./link.mjs";
import { scenario } from "./scenario.mjs";
import * as v1 from "./v1.mjs";
import * as v2 from "./v2.mjs";
import * as allWords from "./words.mjs";

const { values, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    sdk: { type: "string" },
    protocol: { type: "string" },
    words: { type: "string" },
    life: { type: "string", default: "whole" },
    cwd: { type: "string" },
    url: { type: "string" },
  },
});
const version = { 1: v1, 2: v2 }[values.protocol];
const words = allWords[values.words];
const life = { whole: scenario, asked }[values.life];
if (!values.sdk || !version || !words || !life || !values.cwd || (command.length === 0) === !values.url) {
  console.error("client.mjs: see the first lines of the file for what it is to be told");
  process.exit(2);
}

// The SDK is not installed beside this file, where `import` would look for it.
const installed = createRequire(resolve(values.sdk, "package.json"));
const sdk = async (entry) => import(pathToFileURL(installed.resolve(entry)));
const acp = await sdk(version.entry);
const transports = {
  ...(await sdk("@agentclientprotocol/sdk/experimental/http-client")),
  ...(await sdk("@agentclientprotocol/sdk/experimental/ws-client")),
};

const links = [];
const open = async () => {
  const agent = values.url ? new Remote(transports, values.url) : new Process(command);
  const link = new Link(acp, version, agent);
  links.push(link);
  return { link, agent: await version.greet(link) };
};

let since = performance.now();
const print = (line) => {
  const now = performance.now();
  console.log(JSON.stringify({ ...line, ms: Math.round(now - since) }));
  since = now;
};
let after = "start";
try {
  for await (const step of life({ open, version, words, cwd: values.cwd })) {
    print(step);
    after = step.step;
  }
} catch (error) {
  // Errors of the SDK carry what the agent said in `data`.
  print({ after, error: error.message, data: error.data, stack: error.stack });
  process.exitCode = 1;
  await Promise.all(links.map((link) => link.kill()));
}
