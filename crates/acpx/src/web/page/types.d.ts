// Types of the wire and of the modules, for `tsc --noEmit`. No browser loads this file.

export type SessionState = "working" | "waiting" | "queued" | "idle" | "parked" | "closed";

/** A row of `_acpx/sessions`. */
export interface Row {
  acpxRecordId: string;
  acpxSessionId?: string;
  agent: string;
  cwd: string;
  name?: string;
  title?: string;
  state: SessionState;
  /** How the last turn ended. */
  outcome?: string;
  updatedAt: string;
  createdAt?: string;
  lastMessage?: { role: "user" | "agent"; text: string };
  cost?: { amount: number; currency: string };
  tokens?: number;
  queued?: number;
}

export interface Option { optionId: string; name?: string; kind?: string }

/** A pending permission request or form, as `_acpx/pending` has it. */
export interface PendingRequest {
  questionId: string;
  acpxRecordId: string;
  name?: string;
  agent: string;
  cwd?: string;
  title?: string;
  kind?: string;
  toolCall?: any;
  leftOut?: string[];
  elicitation?: any;
  options?: Option[];
  since: string;
}

export interface QueuedPrompt {
  requestId: string;
  acpxRecordId: string;
  position: number;
  queuedAt: string;
  text: string;
  content?: any[];
}

export interface ConfigOption {
  configId: string;
  name: string;
  description?: string;
  category?: string;
  type: string;
  currentValue: any;
  options?: any[];
}

export interface Command { name: string; description: string; input?: { hint?: string } | null }

/** The params of `session/update`. */
export interface UpdateParams { sessionId: string; update: any; _meta?: any }

/** A part of a long message: whole Markdown blocks, so that each part is rendered alone. */
export interface Segment {
  source: string;
  /** Info string of the fence that is open at the start of this part, or null. */
  fence: string | null;
  images?: any[];
  /** How far the text was searched for the end of the part. */
  scan?: PartScan;
}

/** The state of the search for the end of a part, so that no line is read twice. */
export interface PartScan {
  from: number;
  /** Info string of the fence that is open at `from`, or null. */
  fence: string | null;
  /** The last line's end at which the part may be cut. */
  cut: { at: number; fence: string | null } | null;
}

export type ItemKind = "user" | "agent" | "thought" | "tool" | "plan" | "mark";

/** One entry of the virtual list. A long message is several entries. */
export interface Item {
  key: string;
  kind: ItemKind;
  /** First and last event that the item stands for; 0 if unknown. */
  seq: number;
  lastSeq: number;
  /** Rises with every change, so that the view knows what to render again. */
  rev: number;
  at?: string;
  segment?: Segment;
  /** Whether it is the first entry of its message. */
  first?: boolean;
  last?: boolean;
  client?: { name?: string; version?: string };
  requestId?: string;
  mine?: boolean;
  tool?: ToolCall;
  plan?: { content: string; status: string; priority?: string }[];
  /** The revision in which `trim` has shortened the call. */
  shortened?: number;
  mark?: { text: string; detail?: string; tone: "quiet" | "info" | "warning" | "error" };
}

export interface ToolCall {
  toolCallId: string;
  title?: string | null;
  name?: string | null;
  kind?: string | null;
  status?: string | null;
  content?: any[] | null;
  locations?: any[] | null;
  rawInput?: any;
  rawOutput?: any;
  leftOut?: string[];
}

export interface Terminal { command?: string; cwd?: string; output: string; exit?: { exitCode?: number | null; signal?: string | null } | null }

export interface Attachment { name: string; block: any; preview?: string; size: number }
