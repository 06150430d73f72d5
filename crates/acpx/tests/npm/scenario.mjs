// The life of a session as an editor lives it: begun, prompted, cancelled, lost with its process, found again, closed,
// resumed, listed and deleted. Every move is checked here; each step gives what a caller may check further.

import assert from "node:assert/strict";
import { answer, conversation } from "./conversation.mjs";

/**
 * Lives the life and yields `{ step, … }` for each part of it. `open` starts the agent and greets it, `version` has the
 * moves of one version, `words` the prompts that this agent understands, and `cwd` a directory with no sessions.
 */
export async function* scenario({ open, version, words, cwd }) {
  let { link, agent } = await open();
  yield { step: "initialize", agent };

  const { sessionId } = await link.request("session/new", { cwd, mcpServers: [] });
  const life = new Life(version, sessionId);
  yield { step: "new" };

  yield { step: "prompt", heard: await life.prompt(link, words.hello) };
  yield { step: "permission", heard: await life.prompt(link, words.permission), asked: asked(link) };
  yield { step: "cancel", heard: await life.promptAndCancel(link, words.slow) };

  await link.kill();
  yield { step: "kill" };

  ({ link } = await open());
  yield { step: "replay", heard: life.checkReplay(await version.replay(link, sessionId, cwd)) };
  yield { step: "prompt after replay", heard: await life.prompt(link, words.recall) };

  const closing = await link.exchange("session/close", { sessionId });
  assert.deepEqual(conversation(closing.before, version), []);
  yield { step: "close" };

  const resuming = await link.exchange("session/resume", { sessionId, cwd, mcpServers: [] });
  assert.deepEqual(conversation(resuming.before, version), [], "nothing is replayed that nobody asked for");
  version.checkRestored(resuming.before);
  yield { step: "resume", heard: await life.prompt(link, words.again) };

  const rows = await list(link, cwd);
  assert.deepEqual(
    rows.map((row) => [row.sessionId, row.cwd]),
    [[sessionId, cwd]],
  );
  yield { step: "list", title: rows[0].title };

  await link.request("session/delete", { sessionId });
  assert.deepEqual(await list(link, cwd), []);
  const gone = await refusal(link.request("session/resume", { sessionId, cwd, mcpServers: [] }));
  assert.deepEqual([gone.code, gone.data?.sessionId], [-32002, sessionId]);
  yield { step: "delete" };

  link.check();
  await link.leave();
  yield { step: "leave" };
}

/** What has been said in the session so far. */
class Life {
  #version;
  #sessionId;
  #turns = [];
  #said = [];

  constructor(version, sessionId) {
    this.#version = version;
    this.#sessionId = sessionId;
  }

  async prompt(link, { say, answers }) {
    return this.#keep(say, answers, "end_turn", await this.#version.prompt(link, this.#sessionId, say));
  }

  async promptAndCancel(link, { say, answers }) {
    const turn = await this.#version.promptAndCancel(link, this.#sessionId, say, answers);
    return this.#keep(say, answers, "cancelled", turn);
  }

  /** What is replayed is what was said, all of it and nothing else. */
  checkReplay(updates) {
    const replayed = conversation(updates, this.#version);
    assert.deepEqual(replayed, this.#said);
    this.#version.checkRestored(updates);
    this.#version.checkMessageIds(updates, this.#turns);
    return replayed;
  }

  /** Whether an agent repeats the prompt while the turn runs depends on the version and on the agent. */
  #keep(say, answers, stopReason, turn) {
    assert.equal(turn.stopReason, stopReason);
    const heard = conversation(turn.updates, this.#version).filter((entry) => !("user" in entry));
    assert.match(answer(heard), answers);
    this.#turns.push(turn);
    this.#said.push({ user: say }, ...heard);
    return heard;
  }
}

/** What permission was asked for, in words, and what was chosen. */
function asked(link) {
  assert.equal(link.asked.length, 1, "permission was asked for once");
  const [{ request, chosen }] = link.asked;
  const options = request.options.map(({ kind }) => kind);
  return { for: request.title ?? request.toolCall.title, options, chosen: chosen.kind };
}

/** Every row of every page. */
async function list(link, cwd) {
  const rows = [];
  let cursor;
  do {
    const page = await link.request("session/list", { cwd, ...(cursor !== undefined && { cursor }) });
    rows.push(...page.sessions);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return rows;
}

/** The error that a request is answered with. */
async function refusal(request) {
  return request.then(
    () => assert.fail("the request was to be refused"),
    (error) => error,
  );
}
