// Builds DOM nodes. Text always becomes text nodes: nothing in the page parses a string as HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element with properties and children. `on…` properties are listeners, `class` is the class list.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/**
 * @param {Node} parent
 * @param {(Child | Child[])[]} children
 */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Replaces the children of an element.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * The element with an id, which index.html has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

/** Outlines on a grid of 16. */
const PATHS = {
  back: "M10 3 5 8l5 5",
  chevron: "m6 4 4 4-4 4",
  plus: "M8 3v10M3 8h10",
  close: "m4 4 8 8M12 4l-8 8",
  more: "M3 7.5a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1ZM8 7.5a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1ZM13 7.5a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1Z",
  check: "m3 8.5 3.5 3.5L13 4.5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.5 10.5 14 14",
  read: "M4 2h5l3 3v9H4zM9 2v3h3",
  edit: "m3 13 .7-3L10.5 3.2l2.3 2.3L6 12.3z",
  delete: "M3 4h10M6 4V2.5h4V4M4.5 4l.5 9.5h6l.5-9.5",
  move: "M2.5 8h10M9 4.5 12.5 8 9 11.5",
  execute: "m3 4 4 4-4 4M8.5 12.5H13",
  think: "M8 2.5a4 4 0 0 0-2 7.5v1.5h4V10a4 4 0 0 0-2-7.5ZM6.5 13.5h3",
  fetch: "M8 2.5v7M5 7l3 3 3-3M3 13h10",
  switch_mode: "M3 5h8l-2-2M13 11H5l2 2",
  other: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5Z",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M5 5h6v6H5z",
  attach: "m13 7.5-5 5a3.2 3.2 0 0 1-4.5-4.5l5.2-5.2a2.1 2.1 0 0 1 3 3L6.5 11a1 1 0 0 1-1.5-1.5l4.5-4.5",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  link: "M6.5 9.5 9.5 6.5M7 4.5 8.5 3a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5 7.5 13a2.8 2.8 0 0 1-4-4L5 7.5",
  external: "M6.5 3.5h-3v9h9v-3M9 3h4v4M13 3 7.5 8.5",
  down: "M8 3v10M4 9l4 4 4-4",
  bell: "M4 11V7.5a4 4 0 0 1 8 0V11l1 1.5H3zM6.5 14h3",
  warning: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.01",
  folder: "M2 4h4l1.5 1.5H14V13H2z",
};

const SVG = "http://www.w3.org/2000/svg";

/**
 * A decorative icon.
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", /** @type {Record<string, string>} */ (PATHS)[name] ?? PATHS.other);
  svg.appendChild(path);
  return svg;
}

/**
 * A button with an icon and a name for assistive technology.
 * @param {string} name
 * @param {string} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Record<string, any>} [props]
 */
export function iconButton(name, label, onclick, props) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...props }, icon(name));
}
