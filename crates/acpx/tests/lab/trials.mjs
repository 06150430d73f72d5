// What goes wrong between people, agents and machines, tried one by one from the shell: each trial has a session of
// its own, and checks what it claims where that can be seen: in the files, in the process table, in what the model is
// told.
//
// A trial is given a session and its place. It gives nothing, or a `note`; or what was `seen`, where it is up to the
// agent alone and acpx can neither allow it nor forbid it.

import assert from "node:assert/strict";
import { join } from "node:path";
import { model as words } from "../npm/words.mjs";
import { MODEL_TRIAL } from "./agents.mjs";
import { MADE, WRITTEN } from "./model/plan.mjs";
import { contentOf, Session, until } from "./session.mjs";

const WAIT = ["--non-interactive-permissions", "wait"];
const COMPLETED = { status: "completed", stopReason: "end_turn", error: undefined, code: 0 };
const CANCELLED = { status: "cancelled", stopReason: "cancelled", error: undefined, code: 0 };

const TRIALS = {
  turn: (session) => answered(session),

  "tool with approval": async (session) => {
    const turn = session.say(words.permission.say, ...WAIT);
    await session.question(turn);
    assert.equal(session.content(MADE.file), undefined, "nothing is done before it is allowed");
    await answerOne(session, turn, "approve");
    assert.deepEqual(turn.outcome(), COMPLETED);
    assert.match(turn.answer(), words.permission.answers);
    assert.equal(session.content(MADE.file), MADE.text);
    return { note: "asked once" };
  },

  "tool with refusal": async (session) => {
    const turn = session.say(words.permission.say, ...WAIT);
    await session.question(turn);
    await answerOne(session, turn, "deny");
    const { stopReason, code } = turn.outcome();
    assert.equal(code, 5);
    const unasked = await session.prompt(words.permission.say, "--deny-all");
    assert.equal(unasked.outcome().code, 5);
    assert.equal(session.content(MADE.file), undefined, "what is refused is not done");
    await answered(session);
    return { note: `asked once; the turn ends with ${stopReason}` };
  },

  "write inside the roots": async (session) => {
    const path = session.path("inside.txt");
    const turn = session.say(`please WRITE TO ${path}`, ...WAIT);
    await session.question(turn);
    assert.equal(contentOf(path), undefined, "nothing is written before it is allowed");
    await answerOne(session, turn, "approve");
    assert.deepEqual(turn.outcome(), COMPLETED);
    assert.equal(contentOf(path), WRITTEN);
    return { note: `asked once; ${throughUs(turn, path).length > 0 ? "through us" : "writes itself"}` };
  },

  "write outside the roots": async (session, place) => {
    const path = join(place.work("elsewhere"), "outside.txt");
    const refused = await session.prompt(`please WRITE TO ${path}`, "--deny-all");
    assert.equal(contentOf(path), undefined, "what is refused is not written");
    const asks = refused.exchanges("session/request_permission").length > 0 ? "it asks first" : "it does not ask";
    const turn = await session.prompt(`please WRITE TO ${path}`, "--approve-all");
    const requests = throughUs(turn, path);
    if (requests.length > 0) {
      assert.deepEqual(
        requests.map(({ answer }) => answer.error?.code),
        requests.map(() => -32602),
      );
    }
    if (contentOf(path) !== undefined) {
      const ours = requests.length > 0 ? "what it asks of us is refused, and it writes itself" : "writes itself";
      return { seen: `${ours}, not through us: not bounded; ${asks}` };
    }
    return { note: requests.length > 0 ? "through us, refused whatever is approved" : `not written; ${asks}` };
  },

  "cancel, permission open": async (session) => {
    const turn = session.say(words.permission.say, ...WAIT);
    await session.question(turn);
    const note = await cancelled(session, turn);
    assert.deepEqual(await session.questions(), []);
    await answered(session);
    assert.equal(session.content(MADE.file), undefined, "what was open is not done");
    return { note };
  },

  "cancel while streaming": async (session) => {
    const turn = session.say(words.slow.say);
    await turn.hears(words.slow.answers);
    const note = await cancelled(session, turn);
    await answered(session);
    return { note };
  },

  "kill -9 of the agent": async (session) => {
    await answered(session);
    const before = await session.told("status");
    const turn = session.say(words.slow.say);
    await turn.hears(words.slow.answers);
    process.kill(before.pid, "SIGKILL");
    const since = performance.now();
    await turn.end();
    const took = Math.round(performance.now() - since);
    await session.nothingLeft();
    const { status, error } = turn.outcome();
    assert.equal(turn.code, 1);
    const notes = `the turn is ${status} (${error}) after ${took} ms`;
    return { note: `${notes}; ${await goesOn(session, before)}` };
  },

  "kill -9 of the host": async (session) => {
    await answered(session);
    const before = await session.told("status");
    const doomed = session.processes();
    const host = await session.home("host", "status");
    const turn = session.say(words.slow.say);
    await turn.hears(words.slow.answers);
    process.kill(host.pid, "SIGKILL");
    const since = performance.now();
    await turn.end();
    const took = Math.round(performance.now() - since);
    const { error } = turn.outcome();
    assert.equal(turn.code, 1);
    const note = `the command says ${error} after ${took} ms; ${await goesOn(session, before)}`;
    const left = session.processes().filter((one) => doomed.includes(one));
    assert.deepEqual(left, [], "of the agent that the dead host had, nothing is left");
    return { note };
  },

  "kill -9 of the agent's child": async (session) => {
    await answered(session);
    const before = await session.told("status");
    const children = session.processIds().filter((pid) => pid !== before.pid);
    if (children.length === 0) return { seen: "it has no child process" };
    for (const pid of children) {
      try {
        process.kill(pid, "SIGKILL");
      } catch (error) {
        // A child may end with the one that was killed before it.
        if (error.code !== "ESRCH") throw error;
      }
    }
    await until("the end of the children", () => !session.processIds().some((pid) => children.includes(pid)));
    const note = await answersInTheSameSession(session, before);
    return { note: `of ${children.length} children none was left; ${note}` };
  },

  "MCP server that fails during load": async (session, place, agent) => {
    await answered(session);
    const before = await session.told("status");
    await session.home("host", "stop");
    const servers = session.write("servers.json", { mcpServers: [{ name: "broken", command: "/bin/false", args: [] }] });
    agent.requireServer("/bin/false");
    const turn = await session.prompt(words.recall.say, "--mcp-config", servers);
    agent.logIn();
    const { error, code } = turn.outcome();
    if (code === 0) return { seen: "it restores the session without the server" };
    assert.equal(error, "SESSION_NOT_RESTORED", String(turn));
    assert.equal((await session.told("status")).acpxSessionId, before.acpxSessionId, "the session is kept");
    return { note: `${error}; ${await answersInTheSameSession(session, before)}` };
  },

  "close of an orphaned turn": async (session) => {
    await answered(session);
    const turn = await session.prompt(words.slow.say, "--no-wait");
    assert.equal(turn.code, 0, String(turn));
    await until("the turn", async () => (await session.told("status")).turn !== undefined);
    const [, , closed] = await session.edits(
      { method: "session/load", params: { sessionId: session.record, cwd: session.path(""), mcpServers: [] } },
      { method: "session/close", params: { sessionId: session.record } },
    );
    assert.deepEqual(closed.result, {}, JSON.stringify(closed));
    assert.equal((await session.told("status")).turn, undefined, "no turn runs any more");
    await session.nothingLeft();
    return { note: "its editor's close cancelled it" };
  },

  [MODEL_TRIAL]: async (session) => {
    await answered(session);
    const before = await session.told("status");
    const other = before.availableModels.find((model) => model !== before.model);
    const load = { method: "session/load", params: { sessionId: session.record, cwd: session.path(""), mcpServers: [] } };
    const choice = { method: "session/set_model", params: { sessionId: session.record, modelId: other } };
    const [, loaded, chosen] = await session.edits(load, choice);
    assert.equal(loaded.result?.models?.currentModelId, before.model, JSON.stringify(loaded));
    assert.deepEqual(chosen.result, {}, JSON.stringify(chosen));
    const { model, pid } = await session.told("status");
    assert.equal(model, other, "what the editor chose the shell shows");
    process.kill(pid, "SIGKILL");
    await session.nothingLeft();
    await answered(session);
    assert.equal((await session.told("status")).model, other, "another agent has the model of the editor's choice");
    assert.equal((await session.told("set", "model", before.model)).modelId, before.model);
    process.kill((await session.home("host", "status")).pid, "SIGKILL");
    await answered(session);
    assert.equal((await session.told("status")).model, before.model, "another host has the model of the shell's choice");
    const [, again] = await session.edits(load);
    assert.equal(again.result?.models?.currentModelId, before.model, JSON.stringify(again));
    return { note: `${other} chosen in an editor, ${before.model} in the shell; each still chosen after kill -9` };
  },

  close: async (session) => {
    const turn = await session.prompt(words.permission.say, "--approve-all");
    assert.deepEqual(turn.outcome(), COMPLETED);
    const before = session.processes().length;
    assert.ok(before > 0, "an agent that is there can be seen");
    await session.told("sessions", "close");
    assert.deepEqual(session.processes(), []);
    assert.equal((await session.home("host", "status")).status, "running");
    return { note: `of ${before} processes none is left` };
  },
};

/** Tries all that an agent with a login can be tried with; yields `{ step, ms, note, seen, error }` for each. */
export async function* trials(place, agent) {
  for (const [step, trial] of Object.entries(TRIALS)) {
    const isMeant = place.only?.includes(step) ?? step !== MODEL_TRIAL;
    if (!isMeant) continue;
    const session = await Session.made(place, step.replaceAll(/\W+/g, "-"));
    yield tried(step, async () => trial(session, place, agent));
    await session.told("sessions", "close").catch(() => {});
    yield* leftovers(step, session);
  }
}

/** Tries an agent that has no login: that is said, with the ways there are, or at least nothing waits without end. */
export async function* missingLogin(place, { withoutLogin, logIn }) {
  yield tried("missing login", async () => {
    const session = new Session(place, place.work("without-login"));
    const making = await session.make();
    const refused = making.code === 0 ? await session.prompt(words.hello.say, "--idle-timeout", "10") : making;
    const { error } = refused.outcome();
    assert.equal(error, withoutLogin, String(refused));
    const { methods } = await session.told("auth");
    const offered = methods.map(({ methodId }) => methodId).join(", ");
    assert.notEqual(offered, "");
    const note = `${error} at ${refused === making ? "sessions new" : "the prompt"}; it offers ${offered}`;
    if (error !== "AUTH_REQUIRED") return { seen: `does not say that it wants one: ${note}` };
    place.knows(logIn());
    if (refused === making) assert.equal((await session.make()).code, 0);
    await answered(session);
    return { note: `${note}; with it, the next prompt is answered` };
  });
}

/** What a trial came to, and how long it took. */
async function tried(step, trial) {
  const since = performance.now();
  const came = await trial().catch((error) => ({ error }));
  return { step, ms: Math.round(performance.now() - since), ...came };
}

/** A failure of its own for a trial whose session has left processes. */
function* leftovers(step, session) {
  const left = session.processes();
  if (left.length > 0) yield { step, ms: 0, error: new Error(`these are left:\n${left.join("\n")}`) };
}

/** The model is asked and its answer heard. */
async function answered(session) {
  const turn = await session.prompt(words.hello.say);
  assert.deepEqual(turn.outcome(), COMPLETED, String(turn));
  assert.match(turn.answer(), words.hello.answers);
}

/** Answers what is asked until the turn has ended. Who has answered is not asked the same again. */
async function answerOne(session, turn, answer) {
  let times = 0;
  await until("the turn's end", async () => {
    for (const questionId of await session.questions()) {
      // A question may be gone with its turn.
      await session.home(answer, questionId).then(
        () => (times += 1),
        (error) => assert.match(error.message, /NO_QUESTION/),
      );
    }
    return turn.over;
  });
  assert.equal(times, 1, "it is asked once");
}

/** Cancels a turn from another shell, and says how long that took. */
async function cancelled(session, turn) {
  const { pid } = await session.told("status");
  const since = performance.now();
  assert.equal((await session.told("cancel")).cancelled, true);
  await turn.end();
  const took = Math.round(performance.now() - since);
  assert.deepEqual(turn.outcome(), CANCELLED);
  const stays = (await session.told("status")).pid === pid;
  return `cancelled after ${took} ms; the agent ${stays ? "stays" : "had to be ended"}`;
}

/** The next prompt is answered by an agent that has the conversation, in the session that it was in. */
async function goesOn(session, before) {
  const note = await answersInTheSameSession(session, before);
  assert.notEqual((await session.told("status")).pid, before.pid);
  return note;
}

/** A prompt is answered by an agent that has the conversation, in the session that it was in. */
async function answersInTheSameSession(session, before) {
  const since = performance.now();
  const turn = await session.prompt(words.recall.say);
  assert.deepEqual(turn.outcome(), COMPLETED, String(turn));
  assert.match(turn.answer(), /You said before: hello from the lab/);
  assert.equal((await session.told("status")).acpxSessionId, before.acpxSessionId, "it is the same session");
  return `answered in the same session after ${Math.round(performance.now() - since)} ms`;
}

function throughUs(turn, path) {
  return turn.exchanges("fs/write_text_file").filter(({ params }) => params.path === path);
}
