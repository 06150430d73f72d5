// The lab's model: an HTTP server on loopback that real agents take for their provider.

import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import * as anthropic from "./anthropic.mjs";
import * as chat from "./chat.mjs";
import { plan } from "./plan.mjs";
import * as responses from "./responses.mjs";

const APIS = [anthropic, chat, responses];

/** Starts the model on a port that is free. `url` is where it is, and `close` ends it. */
export async function startModel() {
  let answers = 0;
  const server = createServer(async (request, response) => {
    try {
      answers += 1;
      await serve(answers, request, response);
    } catch (error) {
      // An agent that goes in the middle of its answer is what cancelling looks like from here.
      if (response.headersSent) response.destroy();
      else json(response, 500, { error: { type: "api_error", message: String(error) } });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

async function serve(number, request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  const api = APIS.find(({ path }) => path === pathname);
  if (request.method === "HEAD") return void response.end();
  if (pathname === "/v1/models") return json(response, 200, models());
  if (pathname === "/v1/messages/count_tokens") return json(response, 200, { input_tokens: 1 });
  if (api === undefined || request.method !== "POST") {
    return json(response, 404, { error: { type: "not_found_error", message: `no ${pathname} here` } });
  }
  const body = JSON.parse(await text(unpacked(request)));
  const answer = plan(api.read(body));
  if (!body.stream) return json(response, 200, api.whole(number, body, answer));
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  for await (const event of api.stream(number, body, answer, said(answer, response))) response.write(event);
  response.end();
}

/** The pieces of an answer, each in its time, for as long as somebody listens. */
async function* said({ say, pauseMs }, response) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  for (const piece of say) {
    if (pauseMs > 0) await pause(pauseMs, undefined, { signal: gone.signal });
    yield piece;
  }
}

function unpacked(request) {
  switch (request.headers["content-encoding"]) {
    case "gzip":
      return request.pipe(createGunzip());
    case "zstd":
      return request.pipe(createZstdDecompress());
    default:
      return request;
  }
}

function models() {
  const data = [{ id: "lab-model", object: "model", type: "model", display_name: "Lab model", owned_by: "lab" }];
  return { object: "list", data, models: [], has_more: false };
}

function json(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}
