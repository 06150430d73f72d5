// A list of which only the visible part has nodes. Heights are estimated and then measured; the position of what is on
// the screen stays when something above it changes, is measured or is added.

import { h } from "./dom.js";

/** How far beyond the screen nodes are kept, in screens. */
const OVERSCAN = 0.75;
/** The list follows its end while the end is at most this far away. */
const NEAR = 48;

/**
 * @template T
 * @typedef {object} ListSource
 * @property {() => T[]} items the same array as before only if nothing but its end has changed
 * @property {(item: T) => number} estimate
 * @property {(item: T, node: HTMLElement | null) => HTMLElement} render creates the node of an item, or updates it
 * @property {(item: T) => unknown} revision changes when the node is to be updated
 * @property {() => void} [onstart] the beginning is near
 * @property {(following: boolean) => void} [onfollow]
 */

/** @template {object} T */
export class VirtualList {
  /** @type {ListSource<T>} */ #source;
  #scroller;
  #content = h("div", { class: "virtual" });
  /** @type {Map<T, { node: HTMLElement, revision: unknown, index: number }>} */ #mounted = new Map();
  /** @type {WeakMap<T, number>} */ #heights = new WeakMap();
  /** @type {WeakMap<Element, T>} */ #itemOf = new WeakMap();
  #offsets = new Float64Array(1);
  #count = 0;
  /** The array that the offsets are of. @type {T[]} */ #added = [];
  /** How many items, from the first one, have offsets that are still right. */ #valid = 0;
  #frame = 0;
  #follow = true;
  /** @type {{ item: T, offset: number } | null} */ #anchor = null;
  /** Where the list itself has set the scroll position, which is no scrolling of the user; NaN after that was noticed. */
  #written = NaN;
  #top = 0;
  #observer;

  /**
   * @param {HTMLElement} scroller
   * @param {ListSource<T>} source
   * @param {boolean} follow whether it opens at its end
   */
  constructor(scroller, source, follow) {
    this.#source = source;
    this.#scroller = scroller;
    this.#follow = follow;
    scroller.append(this.#content);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#observer = new ResizeObserver((entries) => {
      // While the list is hidden, its nodes have no height.
      if (scroller.clientHeight === 0) return;
      for (const entry of entries) {
        const item = this.#itemOf.get(entry.target);
        const height = entry.borderBoxSize[0].blockSize;
        if (!item || this.#heights.get(item) === height) continue;
        this.#heights.set(item, height);
        this.#valid = Math.min(this.#valid, this.#mounted.get(item)?.index ?? 0);
      }
      this.#layout();
    });
    this.#observer.observe(scroller);
  }

  get element() {
    return this.#content;
  }

  get following() {
    return this.#follow;
  }

  /** Renders in the next frame. */
  invalidate() {
    if (!this.#frame) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#layout();
      });
    }
  }

  /** Goes to the end and follows it. */
  toEnd() {
    this.#setFollow(true);
    this.#anchor = null;
    this.invalidate();
  }

  /**
   * Shows an item at the top of the screen.
   * @param {T} item
   */
  reveal(item) {
    this.#setFollow(false);
    this.#anchor = { item, offset: -24 };
    this.invalidate();
  }

  /**
   * Renders items that the user opens or closes. The first one stays where it is.
   * @param {T[]} items
   */
  keep(items) {
    const first = this.#source.items().indexOf(items[0]);
    this.#setFollow(false);
    this.#anchor = { item: items[0], offset: this.#scroller.scrollTop - this.#offsets[first] };
    this.#layout();
    for (const item of items) {
      const node = this.nodeOf(item);
      if (node) this.#heights.set(item, node.offsetHeight);
      else this.#heights.delete(item);
    }
    this.#valid = Math.min(this.#valid, first);
    this.#layout();
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#setFollow(scrollHeight - scrollTop - clientHeight <= 1);
  }

  /**
   * Scrolls as little as needed for an item to be visible, in a list of known heights.
   * @param {number} index
   */
  ensureVisible(index) {
    this.#measure();
    this.#anchor = null;
    const top = this.#offsets[index], bottom = this.#offsets[index + 1];
    const { scrollTop, clientHeight } = this.#scroller;
    if (top < scrollTop) this.#scroller.scrollTop = top - 8;
    else if (bottom > scrollTop + clientHeight) this.#scroller.scrollTop = bottom - clientHeight + 8;
    this.#layout();
  }

  /**
   * The node of an item, if it has one.
   * @param {T} item
   */
  nodeOf(item) {
    return this.#mounted.get(item)?.node;
  }

  /** Removes every node, for instance because another conversation is shown. @param {boolean} follow */
  reset(follow) {
    for (const { node } of this.#mounted.values()) this.#unmount(node);
    this.#mounted.clear();
    this.#anchor = null;
    this.#setFollow(follow);
    // The event of this position comes later, and is no scrolling of the user.
    this.#scroller.scrollTop = 0;
    this.#written = this.#top = 0;
    this.invalidate();
  }

  /** @param {boolean} follow */
  #setFollow(follow) {
    if (this.#follow === follow) return;
    this.#follow = follow;
    this.#source.onfollow?.(follow);
  }

  /** @param {HTMLElement} node */
  #unmount(node) {
    this.#observer.unobserve(node);
    node.remove();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    const own = Math.abs(scrollTop - this.#written) < 2;
    const upwards = scrollTop < this.#top - 1;
    this.#written = NaN;
    this.#top = scrollTop;
    if (!own) {
      // Scrolling up a little is enough to stop following.
      this.#setFollow(scrollHeight - scrollTop - clientHeight <= (upwards ? 1 : NEAR));
      this.#anchor = null;
      this.#remember();
    }
    this.#layout();
  }

  /** Keeps which item is at the top of the screen. A list that loads nothing before its beginning stays there. */
  #remember() {
    const top = this.#scroller.scrollTop;
    if (this.#follow || this.#anchor || (top <= 0 && !this.#source.onstart)) return;
    const items = this.#source.items();
    const index = this.#at(top);
    if (index < items.length && index < this.#count) this.#anchor = { item: items[index], offset: top - this.#offsets[index] };
  }

  /** The index of the item at a position. @param {number} position */
  #at(position) {
    let low = 0, high = this.#count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#offsets[middle + 1] <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Adds up the heights, from the first one that has changed. */
  #measure() {
    const items = this.#source.items();
    if (items !== this.#added) this.#valid = 0;
    this.#added = items;
    if (this.#offsets.length < items.length + 1) {
      const offsets = new Float64Array(Math.max(64, items.length * 2));
      offsets.set(this.#offsets.subarray(0, this.#valid + 1));
      this.#offsets = offsets;
    }
    const valid = Math.min(this.#valid, items.length);
    let sum = this.#offsets[valid];
    for (let index = valid; index < items.length; index += 1) {
      sum += this.#heights.get(items[index]) ?? this.#source.estimate(items[index]);
      this.#offsets[index + 1] = sum;
    }
    this.#count = this.#valid = items.length;
    return sum;
  }

  #layout() {
    const items = this.#source.items();
    const total = this.#measure();
    const view = this.#scroller.clientHeight;
    if (view === 0) return;
    const room = `${Math.ceil(total)}px`;
    if (this.#content.style.height !== room) this.#content.style.height = room;
    const limit = Math.max(0, this.#scroller.scrollHeight - view);
    let top = this.#scroller.scrollTop;
    if (this.#follow) top = limit;
    else if (this.#anchor) {
      const index = items.indexOf(this.#anchor.item);
      if (index >= 0) top = Math.max(0, Math.min(this.#offsets[index] + this.#anchor.offset, limit));
      else this.#anchor = null;
    }
    if (Math.abs(top - this.#scroller.scrollTop) > 0.5) {
      this.#scroller.scrollTop = top;
      this.#written = this.#top = this.#scroller.scrollTop;
    }
    this.#render(items, top, view);
    this.#remember();
    if (top < view && items.length > 0) this.#source.onstart?.();
  }

  /**
   * @param {T[]} items
   * @param {number} top
   * @param {number} view
   */
  #render(items, top, view) {
    const start = this.#at(Math.max(0, top - view * OVERSCAN));
    const end = Math.min(items.length, this.#at(top + view * (1 + OVERSCAN)) + 1);
    const indexes = Array.from({ length: end - start }, (_, at) => start + at);
    const wanted = new Set(items.slice(start, end));
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    for (const [item, entry] of this.#mounted) {
      if (wanted.has(item)) continue;
      // A node with the focus stays, unless its item is gone.
      const index = active && entry.node.contains(active) ? items.indexOf(item) : -1;
      if (index >= 0) {
        indexes.splice(index < start ? 0 : indexes.length, 0, index);
        continue;
      }
      this.#mounted.delete(item);
      this.#unmount(entry.node);
    }
    /** The node that follows those of the items so far: the order of nodes is that of the items. */
    let next = this.#content.firstElementChild;
    for (const index of indexes) {
      const item = items[index];
      const revision = this.#source.revision(item);
      let entry = this.#mounted.get(item);
      if (!entry) {
        entry = { node: this.#source.render(item, null), revision, index };
        this.#mounted.set(item, entry);
        this.#itemOf.set(entry.node, item);
      } else if (entry.revision !== revision) {
        entry.revision = revision;
        const node = this.#source.render(item, entry.node);
        if (node !== entry.node) {
          if (next === entry.node) next = next.nextElementSibling;
          this.#unmount(entry.node);
          entry.node = node;
          this.#itemOf.set(node, item);
        }
      }
      entry.index = index;
      const shift = `translateY(${Math.round(this.#offsets[index])}px)`;
      if (entry.node.style.transform !== shift) entry.node.style.transform = shift;
      if (next === entry.node) {
        next = next.nextElementSibling;
      } else {
        const isNew = !entry.node.isConnected;
        this.#content.insertBefore(entry.node, next);
        if (isNew) this.#observer.observe(entry.node);
      }
    }
    // A node that was moved has lost the focus.
    if (active && active !== document.activeElement && this.#content.contains(active)) active.focus({ preventScroll: true });
  }
}
