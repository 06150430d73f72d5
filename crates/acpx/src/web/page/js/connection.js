// The connection to the host: JSON-RPC over one WebSocket, reconnected for as long as the page is open.
//
// Messages are handled in their order, in slices that leave time for input and rendering. A request fails with
// `ConnectionLost` if the connection ends before its answer; callers that may repeat it do so when `online` comes again.

/** The name of the page as a client. */
export const PAGE_CLIENT = "acpx-page";
/** The name of acpx's own commands. */
export const SHELL_CLIENT = "acpx";
/** How long messages are handled before the browser gets a turn. */
const SLICE_MS = 8;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
/** After this much silence the host is asked whether the connection still works: while the page is visible, and when it wakes up. */
const PROBE_AFTER_MS = 30_000;
const PROBE_AFTER_WAKING_MS = 15_000;
const PROBE_WAIT_MS = 4_000;
/** How often the silence is measured. */
const PROBE_EVERY_MS = 5_000;
/** How long `/session` may take, and then the connection with its `initialize`. */
const START_WAIT_MS = 15_000;
/** The close code of a server that received a longer message than it accepts. */
const TOO_LONG = 1009;

export class ConnectionLost extends Error {
  constructor() {
    super("The connection was lost");
  }
}

/** An error that the host answered with. */
export class HostError extends Error {
  /** @param {any} error */
  constructor(error) {
    const details = error?.data?.details ?? error?.message ?? "The request failed";
    super(typeof details === "string" ? details : JSON.stringify(details));
    /** @type {number} */
    this.number = error?.code ?? 0;
    /** @type {string | undefined} */
    this.code = error?.data?.acpx?.code;
    /** @type {string | undefined} */
    this.hint = error?.data?.acpx?.hint;
  }
}

/** @typedef {"connecting" | "online" | "lost" | "unreachable" | "signed-out" | "refused"} ConnectionState */

/**
 * Why the server refused a request, such as `user` or `host`.
 * @param {Response} answer
 * @returns {Promise<string>}
 */
export async function refusalOf(answer) {
  return String((await answer.json().catch(() => null))?.error ?? "");
}

export class Connection {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void, length: number }>} */ #waiting = new Map();
  #nextId = 1;
  #attempt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  #heardAt = 0;
  #probing = false;
  /** What was left to be sent when the silence was last measured. */ #unsent = 0;
  /** @type {string[]} */ #inbox = [];
  #next = 0;
  #draining = false;
  #channel = new MessageChannel();
  /** @type {ConnectionState} */ state = "connecting";
  /** The answer to `GET /session`. @type {{ version: string, scope: string, device?: string } | null} */ session = null;
  /** The answer to `initialize`. @type {any} */ host = null;
  /** Why the server refuses this browser, in the state `refused`. */ refusal = "";
  /** @type {(state: ConnectionState) => void} */ onstate = () => {};
  /** @type {(method: string, params: any) => void} */ onnotification = () => {};

  constructor() {
    this.#channel.port1.onmessage = () => this.#drain();
    addEventListener("online", () => this.wake());
    addEventListener("pageshow", () => this.wake());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.wake());
    setInterval(() => document.visibilityState === "visible" && this.#probe(PROBE_AFTER_MS), PROBE_EVERY_MS);
  }

  /** Looks up whether this browser is signed in, and connects if it is. */
  async start() {
    clearTimeout(this.#timer);
    let answer;
    try {
      answer = await fetch("/session", { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(START_WAIT_MS) });
    } catch {
      return this.#retry("unreachable");
    }
    if (answer.status === 401) return this.#become("signed-out");
    if (answer.status === 403) {
      this.refusal = await refusalOf(answer);
      return this.#become("refused");
    }
    if (!answer.ok) return this.#retry("unreachable");
    this.session = await answer.json().catch(() => null);
    this.#open();
  }

  #open() {
    this.#drop();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/acp`, ["acp.v1"]);
    this.#socket = socket;
    const lost = () => {
      if (this.#socket !== socket) return;
      this.#drop();
      this.#retry("lost");
    };
    const late = setTimeout(lost, START_WAIT_MS);
    socket.onopen = () => this.#initialize(socket).then((worked) => (worked ? clearTimeout(late) : lost()));
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) return;
      this.#heardAt = Date.now();
      this.#inbox.push(data);
      this.#schedule();
    };
    socket.onclose = ({ code }) => {
      clearTimeout(late);
      if (this.#socket === socket && code === TOO_LONG) this.#refuseLongest();
      lost();
    };
  }

  /** Fails the longest request, which the server did not accept: sending it again would end the next connection too. */
  #refuseLongest() {
    const [longest] = [...this.#waiting].sort(([, a], [, b]) => b.length - a.length);
    if (!longest) return;
    this.#waiting.delete(longest[0]);
    longest[1].reject(new HostError({ message: "It is longer than acpx accepts" }));
  }

  /** @param {WebSocket} socket */
  async #initialize(socket) {
    try {
      this.host = await this.#send("initialize", {
        protocolVersion: 2,
        info: { name: PAGE_CLIENT, title: "acpx in the browser", version: this.session?.version ?? "0" },
        capabilities: { elicitation: { form: {}, url: {} }, _meta: { acpx: { errorData: true } } },
        _meta: { acpx: { seq: true } },
      });
    } catch {
      return false;
    }
    if (this.#socket !== socket) return false;
    this.#attempt = 0;
    this.#become("online");
    return true;
  }

  /** @param {ConnectionState} state */
  #retry(state) {
    this.#become(state);
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempt++) * (0.75 + Math.random() / 2);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.start(), delay);
  }

  /** @param {ConnectionState} state */
  #become(state) {
    if (this.state === state && state !== "online") return;
    this.state = state;
    this.onstate(state);
  }

  /** Ends the socket and fails what waits for it. */
  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    this.#inbox = [];
    this.#next = 0;
    if (socket && socket.readyState <= WebSocket.OPEN) socket.close();
    for (const { reject } of [...this.#waiting.values()]) reject(new ConnectionLost());
    this.#waiting.clear();
  }

  /** The page came back: reconnects at once, or checks that a silent connection still works. */
  wake() {
    if (this.state === "lost" || this.state === "unreachable") {
      this.#attempt = 0;
      this.start();
    } else {
      this.#probe(PROBE_AFTER_WAKING_MS);
    }
  }

  /** Asks the host for an answer if nothing was received for a while; without one the connection is lost. @param {number} silence */
  #probe(silence) {
    const socket = this.#socket;
    if (!socket || this.state !== "online" || this.#probing || Date.now() - this.#heardAt <= silence) return;
    // An upload that advances shows that the connection works.
    const unsent = socket.bufferedAmount, advances = unsent < this.#unsent;
    this.#unsent = unsent;
    if (advances) return;
    this.#probing = true;
    const late = setTimeout(() => {
      if (this.#socket !== socket || socket.bufferedAmount < unsent) return;
      this.#drop();
      this.#attempt = 0;
      this.#retry("lost");
    }, PROBE_WAIT_MS);
    this.request("_acpx/pending", {}).catch(() => {}).finally(() => {
      clearTimeout(late);
      this.#probing = false;
    });
  }

  /** Closes the connection for good. */
  signOut() {
    this.#drop();
    clearTimeout(this.#timer);
    this.#become("signed-out");
  }

  /**
   * @param {string} method
   * @param {any} params
   * @returns {Promise<any>}
   */
  request(method, params) {
    return this.state === "online" ? this.#send(method, params) : Promise.reject(new ConnectionLost());
  }

  /**
   * @param {string} method
   * @param {any} params
   * @returns {Promise<any>}
   */
  #send(method, params) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const text = JSON.stringify({ jsonrpc: "2.0", id, method, params });
      this.#waiting.set(id, { resolve, reject, length: text.length });
      this.#write(text);
    });
  }

  /** @param {string} text */
  #write(text) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  /** @param {number} id @param {number} code @param {string} message */
  #writeError(id, code, message) {
    this.#write(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } }));
  }

  #schedule() {
    if (this.#draining) return;
    this.#draining = true;
    this.#channel.port2.postMessage(null);
  }

  #drain() {
    this.#draining = false;
    const end = performance.now() + SLICE_MS;
    let isAnswer = false;
    // What a caller does with its answer comes before the next message.
    while (this.#next < this.#inbox.length && performance.now() < end && !isAnswer) {
      const text = this.#inbox[this.#next++];
      try {
        const message = JSON.parse(text);
        isAnswer = message?.method === undefined;
        this.#receive(message);
      } catch (error) {
        console.error("a message could not be handled", error);
      }
    }
    if (this.#next < this.#inbox.length) return this.#schedule();
    this.#inbox = [];
    this.#next = 0;
  }

  /** @param {any} message */
  #receive(message) {
    if (typeof message !== "object" || message === null) return;
    if (message.method === undefined) {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new HostError(message.error));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) {
      this.#notified(message.method, message.params ?? {});
    } else if (message.method !== "session/request_permission" && message.method !== "elicitation/create") {
      this.#writeError(message.id, -32601, "Method not found");
    }
    // Permission requests and forms stay open: the page shows what `_acpx/pending` lists and answers with
    // `_acpx/answer`, so that one request is one card in every view. The host then withdraws the request.
  }

  /**
   * @param {string} method
   * @param {any} params
   */
  #notified(method, params) {
    if (method === "$/cancel_request") {
      this.#writeError(params.requestId, -32800, "Request cancelled");
    } else {
      this.onnotification(method, params);
    }
  }
}
