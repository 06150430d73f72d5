// One connection to an agent, and the npm SDK as its client: a process that it starts, or a server at a URL.
//
// The SDK is the judge of what the agent sends: what it does not take is a failure. What was sent, and in which order,
// is written down before the SDK has it, because whether a replay comes before its answer can only be seen there.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import assert from "node:assert/strict";
import { answer, conversation } from "./conversation.mjs";

/** How long anything that is waited for may take. Only a run that fails waits for so long. */
const PATIENCE_MS = 60_000;

/** An agent that is a process. */
export class Process {
  #child;

  constructor([program, ...args]) {
    this.#child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    // A write to a process that was killed fails, and is no news.
    this.#child.stdin.on("error", () => {});
  }

  stream(acp) {
    return acp.ndJsonStream(Writable.toWeb(this.#child.stdin), Readable.toWeb(this.#child.stdout));
  }

  onError(report) {
    this.#child.on("error", report);
  }

  /** Kills it without warning. */
  async kill() {
    this.#child.kill("SIGKILL");
    await this.#ended();
  }

  /** Ends its input, upon which it ends by itself. */
  async leave() {
    this.#child.stdin.end();
    await this.#ended();
    assert.deepEqual({ code: this.#child.exitCode, signal: this.#child.signalCode }, { code: 0, signal: null });
  }

  async #ended() {
    const { pid, exitCode, signalCode } = this.#child;
    // One that could not be started has no pid, and no end.
    if (pid !== undefined && exitCode === null && signalCode === null) {
      await within("the end of the agent", once(this.#child, "exit"));
    }
  }
}

/** An agent at a URL, over a WebSocket or HTTP; `transports` are the SDK's modules for the two. */
export class Remote {
  #stream;

  constructor(transports, url) {
    const { createHttpStream, createWebSocketStream } = transports;
    this.#stream = url.startsWith("ws") ? createWebSocketStream(url) : createHttpStream(url);
  }

  stream() {
    return this.#stream;
  }

  onError() {}

  async kill() {}

  async leave() {}
}

/** A running agent and the connection to it. */
export class Link {
  #version;
  #agent;
  #connection;
  #looking = new Set();
  #taken = 0;
  /** Every `update` in the order it came. */
  updates = [];
  /** For each answer of the agent, how many updates came before it. */
  #answers = [];
  /** What the agent asked permission for, and what was chosen. */
  asked = [];
  /** Chooses among the options of a request for permission. */
  choose = ofKind("allow_once");

  /** Connects to an agent, a `Process` or a `Remote`. The connection ends by `leave` or by `kill`. */
  constructor(acp, version, agent) {
    this.#version = version;
    this.#agent = agent;
    const { readable, writable } = agent.stream(acp);
    const tap = new TransformStream({
      transform: (message, onwards) => {
        this.#note(message);
        onwards.enqueue(message);
      },
    });
    const { session } = acp.methods.client;
    const app = acp
      .client({ name: "acpx-test" })
      .onNotification(session.update, () => void (this.#taken += 1))
      .onRequest(session.requestPermission, ({ params }) => this.#answer(params));
    this.#connection = app.connect({ readable: readable.pipeThrough(tap), writable });
    agent.onError((error) => this.#connection.close(error));
  }

  /** Asks the agent for something. */
  async request(method, params) {
    return within(method, this.#connection.agent.request(method, params));
  }

  /** Asks for something, and says which updates came before the answer. Nothing else may be under way. */
  async exchange(method, params) {
    const from = this.updates.length;
    const answered = this.#answers.length;
    const result = await this.request(method, params);
    return { result, before: this.updates.slice(from, this.#answers[answered]) };
  }

  /** Tells the agent something. */
  async notify(method, params) {
    return this.#connection.agent.notify(method, params);
  }

  /** Waits for an update that meets the condition, looked for from the place `from` on; gives its place. */
  async until(what, from, condition) {
    const found = () => this.updates.findIndex((update, place) => place >= from && condition(update));
    await this.#seen(what, () => found() >= 0);
    return found();
  }

  /** Waits until permission has been asked for so many times. */
  async untilAsked(times) {
    await this.#seen("a request for permission", () => this.asked.length >= times);
  }

  async #seen(what, condition) {
    const { promise, resolve, reject } = Promise.withResolvers();
    const look = () => condition() && resolve();
    const gone = () => reject(new Error(`the agent has ended before ${what}`));
    this.#looking.add(look);
    this.#connection.signal.addEventListener("abort", gone);
    look();
    await within(what, promise).finally(() => {
      this.#looking.delete(look);
      this.#connection.signal.removeEventListener("abort", gone);
    });
  }

  /** Waits until the agent has given this answer since the update at `from`. */
  async untilAnswered(from, answers) {
    const soFar = () => answer(conversation(this.updates.slice(from), this.#version));
    await this.until(`an answer like ${answers}`, from, () => answers.test(soFar()));
  }

  /** Ends the connection, and the agent's process without warning. */
  async kill() {
    await this.#agent.kill();
    this.#connection.close();
  }

  /** Ends the connection, upon which a process ends by itself. */
  async leave() {
    this.#connection.close();
    await this.#agent.leave();
  }

  /** Whether the SDK took every update that came. To be asked when no more are on their way. */
  check() {
    assert.equal(this.#taken, this.updates.length, "the SDK took every update");
  }

  #note(message) {
    if (message.method === "session/update") this.updates.push(message.params.update);
    if (message.method === undefined) this.#answers.push(this.updates.length);
    for (const look of this.#looking) look();
  }

  async #answer(request) {
    const asked = { request };
    this.asked.push(asked);
    for (const look of this.#looking) look();
    asked.chosen = await this.choose(request.options);
    return { outcome: { outcome: "selected", optionId: asked.chosen.optionId } };
  }
}

/** Chooses the option of this kind. */
export function ofKind(kind) {
  return (options) => options.find((option) => option.kind === kind);
}

/** The promise, or a failure that says what did not come in time. */
async function within(what, promise) {
  const { promise: late, reject } = Promise.withResolvers();
  const timer = setTimeout(() => reject(new Error(`${what} did not come within ${PATIENCE_MS} ms`)), PATIENCE_MS);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
