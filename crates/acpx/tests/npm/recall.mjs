// A client of the MCP SDK: searches with the tools of `acpx mcp`, and prints what it gets as one line of JSON.
//
//   node recall.mjs --sdk DIR --words WORDS -- COMMAND…
//
// --sdk is where npm has installed the SDK, and COMMAND starts the server.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sdk: { type: "string" }, words: { type: "string" } },
});
const [command, ...args] = positionals;

// The SDK is not installed beside this file, where `import` would look for it.
const installed = createRequire(resolve(values.sdk, "package.json"));
const sdk = async (entry) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/client/${entry}.js`)));
const { Client } = await sdk("index");
const { StdioClientTransport } = await sdk("stdio");

const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const { tools } = await client.listTools();
const { structuredContent } = await client.callTool({ name: "search", arguments: { words: values.words } });
console.log(JSON.stringify({ tools: tools.map(({ name }) => name), found: structuredContent }));
await client.close();
