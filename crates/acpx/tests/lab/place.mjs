// Where one agent is tried: a home of acpx, directories to work in, and what is started there, which ends with it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";

/** How long a command may take. Only one that hangs takes so long. */
const PATIENCE_MS = 180_000;

/** A place of its own. It is outside the project, whose files and history agents would otherwise look at. */
export class Place {
  #directory = mkdtempSync(join(tmpdir(), "acpx-lab-"));
  #acpx;
  #command;
  #environment;
  /** The trials that are made with its agent, if they are not all. */
  only;

  constructor(acpx, agent) {
    this.only = agent.only;
    this.#acpx = acpx;
    this.#command = agent.command;
    const own = { ACPX_HOME: this.#made("home"), XDG_RUNTIME_DIR: this.#made("run") };
    if (agent.native !== undefined) {
      const agents = { [agent.native.name]: { argv: agent.command } };
      writeFileSync(join(own.ACPX_HOME, "config.json"), JSON.stringify({ agents }));
    }
    this.#environment = { ...agent.environment, ...own };
  }

  /** Whatever is started here from now on has these variables too. */
  knows(variables) {
    Object.assign(this.#environment, variables);
  }

  /** A directory that no session was ever in. */
  work(name) {
    return this.#made(name);
  }

  /** The command line of an acpx that is for this home, whatever the agent. */
  home(...words) {
    return [this.#acpx, ...words];
  }

  /** The command line of an acpx that is for another home, which has no sessions. */
  other(...words) {
    return ["/usr/bin/env", `ACPX_HOME=${this.#directory}/other`, ...this.home(...words)];
  }

  /** The command line of an acpx that is for this agent. */
  acpx(...words) {
    return [this.#acpx, "--agent", this.#command.map(quoted).join(" "), ...words];
  }

  /**
   * Starts a command with this input: the `lines` of its output so far, and how it has `ended`. An input that depends on
   * the output is a function that is given the lines and yields what to write.
   */
  begin(cwd, [program, ...words], input) {
    const stdio = [input === undefined ? "ignore" : "pipe", "pipe", "pipe"];
    const options = { cwd, env: this.#environment, stdio, timeout: PATIENCE_MS, killSignal: "SIGKILL" };
    const child = spawn(program, words, options);
    const lines = [];
    const output = createInterface(child.stdout).on("line", (line) => lines.push(line));
    if (typeof input === "function") Readable.from(input(lines)).pipe(child.stdin);
    else child.stdin?.end(input);
    const ended = Promise.all([text(child.stderr), once(child, "exit"), once(output, "close")]);
    return { output, lines, ended: ended.then(([err, [code, signal]]) => ({ code: code ?? signal, err })) };
  }

  /** Runs a command and gives its output; one that fails is an error with all that it said. */
  async run(cwd, command) {
    const { lines, ended } = this.begin(cwd, command);
    const { code, err } = await ended;
    const out = lines.map((line) => `${line}\n`).join("");
    if (code !== 0) throw new Error(`exit code ${code}: ${out}${err}`);
    return out;
  }

  /** Runs a command and gives each line of its output as it comes. */
  async *lines(cwd, command) {
    const { output, ended } = this.begin(cwd, command);
    yield* output;
    const { code, err } = await ended;
    if (code !== 0) throw new Error(`exit code ${code}: ${err}`);
  }

  /** Which processes carry the marks of this record's agent. */
  marked(record) {
    const marks = (environment) =>
      environment.includes(`\0ACPX_RECORD=${record}\0`) && environment.includes("\0ACPX_TAG=");
    return processes()
      .filter(({ environment }) => marks(environment))
      .map(inWords);
  }

  /** Ends what still runs here, and says which processes did not end when the host was told to stop. */
  async end() {
    await this.run(this.#directory, this.home("host", "stop")).catch(() => {});
    const left = processes().filter(({ environment }) =>
      environment.includes(`\0ACPX_HOME=${this.#environment.ACPX_HOME}\0`),
    );
    for (const { pid } of left) process.kill(pid, "SIGKILL");
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 });
    return left.map(inWords);
  }

  #made(name) {
    const path = join(this.#directory, name);
    mkdirSync(path, { mode: 0o700 });
    return path;
  }
}

/** A word as it must be written to be one word of a command line. */
function quoted(word) {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

function inWords({ pid, command }) {
  return `${pid}: ${command}`;
}

/** Every process whose environment can be read; none where the system does not show them. */
function processes() {
  const pids = readableOr(() => readdirSync("/proc"), []).filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    const read = (file) => readableOr(() => readFileSync(`/proc/${pid}/${file}`, "utf8"), "");
    return [
      { pid: Number(pid), environment: `\0${read("environ")}\0`, command: read("cmdline").replaceAll("\0", " ") },
    ];
  });
}

/** A process that has gone meanwhile, or is another user's, cannot be read. */
function readableOr(read, otherwise) {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
