// Colours source code: a small tokeniser for families of languages. It marks comments, strings, numbers, keywords and
// calls, and never changes or reorders the text.

import { h } from "./dom.js";
import { visible } from "./text.js";

/** Longer code is shown without colours. */
const MOST = 40_000;

const C_WORDS = "break case catch class const continue default do else enum extends false finally for if implements import in instanceof interface new null package private protected public return static super switch this throw true try typeof var void while yield async await";

/** @type {Record<string, { words: string, comments: string, strings?: string }>} */
const FAMILIES = {
  js: { words: `${C_WORDS} let function of export from as type declare readonly keyof infer undefined delete get set satisfies namespace abstract`, comments: "//|/*", strings: "\"'`" },
  rust: { words: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while Some None Ok Err", comments: "//|/*", strings: "\"" },
  python: { words: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return True try while with yield self", comments: "#", strings: "\"'" },
  go: { words: "break case chan const continue default defer else fallthrough for func go goto if import interface map nil package range return select struct switch true false type var", comments: "//|/*", strings: "\"'`" },
  c: { words: `${C_WORDS} auto bool char double extern float int long register short signed sizeof struct typedef union unsigned include define ifdef ifndef endif namespace template typename using virtual override nullptr constexpr string fun val var when object data sealed func let guard`, comments: "//|/*", strings: "\"'" },
  sh: { words: "if then else elif fi for in do done while until case esac function return export local readonly unset set echo cd exit source eval exec trap sudo", comments: "#", strings: "\"'" },
  yaml: { words: "true false null yes no on off", comments: "#", strings: "\"'" },
  json: { words: "true false null", comments: "//", strings: "\"" },
  css: { words: "important media supports keyframes from to and not only import layer container", comments: "/*", strings: "\"'" },
  sql: { words: "select from where insert into values update set delete create table index view drop alter add column primary key foreign references join left right inner outer on group by order having limit offset union all distinct as and or not null is in exists between like case when then else end with begin commit rollback true false SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX VIEW DROP ALTER ADD COLUMN PRIMARY KEY FOREIGN REFERENCES JOIN LEFT RIGHT INNER OUTER ON GROUP BY ORDER HAVING LIMIT OFFSET UNION ALL DISTINCT AS AND OR NOT NULL IS IN EXISTS BETWEEN LIKE CASE WHEN THEN ELSE END WITH BEGIN COMMIT ROLLBACK", comments: "--|/*", strings: "'" },
  ruby: { words: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require", comments: "#", strings: "\"'" },
};

/** @type {Record<string, string>} */
const NAMES = {
  js: "js", jsx: "js", mjs: "js", cjs: "js", ts: "js", tsx: "js", javascript: "js", typescript: "js",
  rs: "rust", rust: "rust", py: "python", python: "python", go: "go", golang: "go",
  c: "c", h: "c", cc: "c", cpp: "c", "c++": "c", cs: "c", csharp: "c", java: "c", kotlin: "c", kt: "c", swift: "c", php: "c", scala: "c", dart: "c", zig: "c", proto: "c",
  sh: "sh", bash: "sh", zsh: "sh", shell: "sh", console: "sh", fish: "sh", dockerfile: "sh", makefile: "sh", make: "sh",
  yaml: "yaml", yml: "yaml", toml: "yaml", ini: "yaml", json: "json", jsonc: "json", json5: "json",
  css: "css", scss: "css", less: "css", sql: "sql", rb: "ruby", ruby: "ruby", elixir: "ruby", lua: "ruby",
};

/** @type {Map<string, RegExp>} */
const PATTERNS = new Map();

/** @param {string} family */
function pattern(family) {
  const known = PATTERNS.get(family);
  if (known) return known;
  const { words, comments, strings = "\"'" } = FAMILIES[family];
  const comment = comments.split("|").map((start) => (start === "/*" ? "/\\*[^]*?(?:\\*/|$)" : start === "#" ? "(?<=^|\\s)#[^\\n]*" : `${start}[^\\n]*`));
  const string = [...strings].map((sign) => (sign === "`" ? "`(?:\\\\[^]|[^`\\\\])*(?:`|$)" : `${sign}(?:\\\\.|[^${sign}\\\\\\n])*${sign}`));
  if (family === "python") string.unshift("\"\"\"[^]*?(?:\"\"\"|$)", "'''[^]*?(?:'''|$)");
  const built = new RegExp(
    `(?<comment>${comment.join("|")})|(?<string>${string.join("|")})|(?<number>\\b(?:0[xob][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b)|(?<keyword>\\b(?:${words.split(" ").join("|")})\\b)|(?<call>\\b[A-Za-z_]\\w*!?(?=\\())|(?<key>^[ \\t]*[\\w.-]+(?=\\s*[:=](?:\\s|$)))`,
    family === "yaml" ? "gm" : "g",
  );
  PATTERNS.set(family, built);
  return built;
}

const MARKUP = /(?<comment><!--[^]*?(?:-->|$))|(?<keyword><\/?[A-Za-z][\w:-]*|\/?>)|(?<string>"[^"\n]*"|'[^'\n]*')|(?<call>\b[\w:-]+(?==))/g;
const CLASSES = { comment: "tc", string: "ts", number: "tn", keyword: "tk", call: "tf", key: "tf" };

/**
 * Appends code to an element, coloured if the language is known.
 * @param {Element} parent
 * @param {string} source
 * @param {string} language
 */
export function highlight(parent, source, language) {
  const code = visible(source);
  const name = language.toLowerCase();
  if (name === "diff" || name === "patch") return diffLines(parent, code);
  const markup = ["html", "xml", "svg", "vue", "svelte"].includes(name);
  const family = NAMES[name];
  if (code.length > MOST || (!family && !markup)) return parent.append(code);
  let from = 0;
  for (const match of code.matchAll(markup ? MARKUP : pattern(family))) {
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0];
    if (match.index > from) parent.append(code.slice(from, match.index));
    parent.append(h("span", { class: /** @type {Record<string, string>} */ (CLASSES)[kind ?? ""] }, match[0]));
    from = match.index + match[0].length;
  }
  parent.append(code.slice(from));
}

/**
 * @param {Element} parent
 * @param {string} code
 */
function diffLines(parent, code) {
  for (const row of code.split(/(?<=\n)/)) {
    const kind = row.startsWith("+") ? "ta" : row.startsWith("-") ? "tr" : row.startsWith("@@") ? "tc" : "";
    parent.append(kind ? h("span", { class: kind }, row) : row);
  }
}
