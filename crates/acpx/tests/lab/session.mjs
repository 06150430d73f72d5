// One session of acpx as a shell has it, in a directory of its own, and its turns as JSON tells them.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

/** How often a condition is looked at, and how long it is waited for. Only one that fails waits for so long. */
const LOOK_AGAIN_MS = 20;
const PATIENCE_MS = 60_000;

/** Waits until what `look` gives is something, and gives it. */
export async function until(what, look) {
  const since = performance.now();
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    assert.ok(performance.now() - since < PATIENCE_MS, `${what} did not come within ${PATIENCE_MS} ms`);
    await pause(LOOK_AGAIN_MS);
  }
}

/** A session, and its record's id once it has been made. */
export class Session {
  #place;
  #cwd;
  record;

  constructor(place, cwd) {
    this.#place = place;
    this.#cwd = cwd;
  }

  /** Makes one in a directory of this name. */
  static async made(place, name) {
    const session = new Session(place, place.work(name));
    const making = await session.make();
    assert.equal(making.code, 0, String(making));
    return session;
  }

  /** Makes it, which may fail: how that went. */
  async make() {
    const making = await new Turn(this.#begin(["sessions", "new"])).end();
    this.record = making.result?.acpxRecordId;
    return making;
  }

  /** Where a file of this name is in the session's directory. */
  path(name) {
    return join(this.#cwd, name);
  }

  /** What is in a file of the session's directory; nothing if there is none. */
  content(name) {
    return contentOf(this.path(name));
  }

  /** The object that a command for this session ends with. One that fails is an error. */
  async told(...words) {
    return object(words, this.#begin(words));
  }

  /** The same of a command that is for the home. */
  async home(...words) {
    return object(words, this.#place.begin(this.#cwd, this.#place.home("--format", "json", ...words)));
  }

  /** Says something, and does not wait for the answer. */
  say(words, ...flags) {
    return new Turn(this.#begin([...flags, "prompt", words]));
  }

  /** Says something; gives the turn when it has ended. */
  async prompt(words, ...flags) {
    const turn = this.say(words, ...flags);
    await turn.end();
    return turn;
  }

  /** The ids of what is asked in this session. */
  async questions() {
    const { questions } = await this.home("pending");
    return questions.filter((question) => question.acpxRecordId === this.record).map(({ questionId }) => questionId);
  }

  /** The first thing that is asked, as soon as it is. */
  async question(turn) {
    const [questionId] = await until("a question", async () => {
      const asked = await this.questions();
      assert.ok(asked.length > 0 || !turn.over, `the turn ended without a question: ${turn}`);
      return asked.length > 0 && asked;
    });
    return questionId;
  }

  /** Which processes the agent has, itself included. */
  processes() {
    return this.#place.marked(this.record);
  }

  /** The ids of those processes. */
  processIds() {
    return this.processes().map((line) => Number.parseInt(line, 10));
  }

  /** Writes a file of JSON into the session's directory; its path. */
  write(name, value) {
    writeFileSync(this.path(name), JSON.stringify(value));
    return this.path(name);
  }

  /**
   * Sends requests as an editor does, after initialize, each when the one before is answered; the answers in their order,
   * that to initialize first.
   */
  async edits(...requests) {
    const initialize = { method: "initialize", params: { protocolVersion: 1, clientCapabilities: {} } };
    const answers = [];
    const said = async function* (lines) {
      const answerTo = (id) => lines.map((line) => JSON.parse(line)).find((line) => line.id === id && !line.method);
      for (const [id, request] of [initialize, ...requests].entries()) {
        yield `${JSON.stringify({ jsonrpc: "2.0", id, ...request })}\n`;
        answers.push(await until(`the answer to ${request.method}`, () => answerTo(id)));
      }
    };
    const { code, err } = await this.#place.begin(this.#cwd, this.#place.acpx("acp"), said).ended;
    assert.equal(code, 0, err);
    return answers;
  }

  /** Waits until the agent has none. */
  async nothingLeft() {
    await until("the end of the agent's processes", () => this.processes().length === 0);
  }

  #begin(words) {
    return this.#place.begin(this.#cwd, this.#place.acpx("--format", "json", ...words));
  }
}

async function object(words, { lines, ended }) {
  const { code, err } = await ended;
  assert.equal(code, 0, `acpx ${words.join(" ")}: exit code ${code}: ${lines.join("\n")}\n${err}`);
  return JSON.parse(lines.at(-1));
}

/** What is in a file; nothing if there is none. */
export function contentOf(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

/** What a command that works with an agent has told so far, line by line: a turn, or how a session was made. */
class Turn {
  #lines;
  #ended;
  /** Whether its command has ended. */
  over = false;
  /** The exit code of its command. */
  code;
  /** What it came to: the last line, which is an object of ours or an error. */
  result;

  constructor({ lines, ended }) {
    this.#lines = lines;
    this.#ended = ended.then(({ code }) => {
      this.over = true;
      this.code = code;
      this.result = this.messages().at(-1);
    });
  }

  /** Every line of it. */
  messages() {
    return this.#lines.map((line) => JSON.parse(line));
  }

  /** What the agent has said. */
  answer() {
    return this.messages()
      .map(({ params }) => params?.update)
      .filter((update) => update?.sessionUpdate === "agent_message_chunk")
      .map(({ content }) => content.text)
      .join("");
  }

  /** What the agent has asked for with this method, each with its answer. */
  exchanges(method) {
    const all = this.messages();
    const asked = all.filter((message) => message.method === method);
    return asked.map((request) => ({
      params: request.params,
      answer: all.find((message) => message.method === undefined && message.id === request.id),
    }));
  }

  /** Waits until the agent has said this. */
  async hears(words) {
    await until(`an answer like ${words}`, () => {
      assert.ok(!this.over, `the turn ended before ${words}: ${this}`);
      return words.test(this.answer());
    });
  }

  /** Waits for its end. */
  async end() {
    await this.#ended;
    return this;
  }

  /** How it ended, in what everybody can compare. */
  outcome() {
    const { status, stopReason, error } = this.result ?? {};
    return { status, stopReason, error: error?.data?.detailCode ?? error?.code, code: this.code };
  }

  toString() {
    return this.#lines.join("\n");
  }
}
