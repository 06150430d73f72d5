// The connection to the host: JSON-RPC over one WebSocket, reconnected for as long as the page is open.
//
// Messages are handled in their order, in slices that leave time for input and rendering. A request fails with
// `ConnectionLost` if the connection ends before its answer; callers that may repeat it do so when `online` comes again.

/** The name of the page as a client. */
export const PAGE_CLIENT = "acpx-page";
/** How long messages are handled before the browser gets a turn. */
const SLICE_MS = 8;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
/** After this much silence a connection is asked whether it still works when the page wakes up. */
const PROBE_AFTER_MS = 15_000;
const PROBE_WAIT_MS = 4_000;

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

/** @typedef {"connecting" | "online" | "lost" | "unreachable" | "signed-out"} ConnectionState */

export class Connection {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */ #waiting = new Map();
  #nextId = 1;
  #attempt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  #heardAt = 0;
  /** @type {string[]} */ #inbox = [];
  #next = 0;
  #draining = false;
  #channel = new MessageChannel();
  /** @type {ConnectionState} */ state = "connecting";
  /** The answer to `GET /session`. @type {{ version: string, scope: string, device?: string } | null} */ session = null;
  /** The answer to `initialize`. @type {any} */ host = null;
  /** @type {(state: ConnectionState) => void} */ onstate = () => {};
  /** @type {(method: string, params: any) => void} */ onnotification = () => {};

  constructor() {
    this.#channel.port1.onmessage = () => this.#drain();
    addEventListener("online", () => this.wake());
    addEventListener("pageshow", () => this.wake());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.wake());
  }

  /** Looks up whether this browser is signed in, and connects if it is. */
  async start() {
    clearTimeout(this.#timer);
    let answer;
    try {
      answer = await fetch("/session", { credentials: "same-origin", cache: "no-store" });
    } catch {
      return this.#retry("unreachable");
    }
    if (answer.status === 401 || answer.status === 403) return this.#become("signed-out");
    if (!answer.ok) return this.#retry("unreachable");
    this.session = await answer.json().catch(() => null);
    this.#open();
  }

  #open() {
    this.#drop();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/acp`, ["acp.v1"]);
    this.#socket = socket;
    socket.onopen = () => this.#initialize(socket);
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) return;
      this.#heardAt = Date.now();
      this.#inbox.push(data);
      this.#schedule();
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#drop();
      this.#retry("lost");
    };
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
      socket.close();
      return;
    }
    this.#attempt = 0;
    this.#become("online");
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
    } else if (this.state === "online" && Date.now() - this.#heardAt > PROBE_AFTER_MS) {
      const socket = this.#socket;
      const late = setTimeout(() => {
        if (this.#socket !== socket) return;
        this.#drop();
        this.#attempt = 0;
        this.#retry("lost");
      }, PROBE_WAIT_MS);
      this.request("_acpx/pending", {}).catch(() => {}).finally(() => clearTimeout(late));
    }
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
      this.#waiting.set(id, { resolve, reject });
      this.#write({ jsonrpc: "2.0", id, method, params });
    });
  }

  /** @param {any} message */
  #write(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #schedule() {
    if (this.#draining) return;
    this.#draining = true;
    this.#channel.port2.postMessage(null);
  }

  #drain() {
    this.#draining = false;
    const end = performance.now() + SLICE_MS;
    while (this.#next < this.#inbox.length && performance.now() < end) {
      const text = this.#inbox[this.#next++];
      try {
        this.#receive(JSON.parse(text));
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
      this.#write({ jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "Method not found" } });
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
      this.#write({ jsonrpc: "2.0", id: params.requestId, error: { code: -32800, message: "Request cancelled" } });
    } else {
      this.onnotification(method, params);
    }
  }
}
