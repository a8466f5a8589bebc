// The two ends and the wires between them.  All lanes have one scale: a lane is as long as all permits of the channel.

const MOST_BOXES = 160; // in one lane; beyond, neighbours are drawn as one
const MOST_CELLS = 40; // permits that are told apart by a grid

class Scene {
  constructor(svg, run) {
    this.svg = svg;
    this.run = run;
    this.elements = new Map();
  }

  /** Draws everything anew for the width that there is now. */
  lay() {
    this.width = Math.max(280, this.svg.clientWidth);
    this.svg.replaceChildren();
    this.elements.clear();
    this.frame = this.width >= 820 ? wideFrame(this.width) : narrowFrame(this.width);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.frame.height}`);
    this.svg.setAttribute("height", this.frame.height);
    for (const end of this.frame.ends) {
      draw(this.svg, "rect", { class: "end", x: end.x, y: end.y, width: end.width, height: end.height, rx: 10 });
      draw(this.svg, "text", { class: "end-name", x: end.x + 16, y: end.y + 25 }, end.name);
    }
    this.arrows = this.frame.arrows.map((arrow) => ({ ...arrow, element: drawArrow(this.svg, arrow) }));
    this.lanes = Object.fromEntries(Object.entries(this.frame.lanes).map(([name, at]) => [name, this.#lane(name, at)]));
    this.consumed = draw(this.svg, "text", { class: "consumed-total", x: this.frame.consumed.x, y: this.frame.consumed.y, "text-anchor": "end" });
  }

  #lane(name, at) {
    const { x, y, height } = at;
    const width = this.frame.lane;
    const group = draw(this.svg, "g", { class: `lane ${name}` });
    draw(group, "text", { class: "lane-name", x, y: y - 9 }, at.title);
    const count = draw(group, "text", { class: "lane-number", x: x + width, y: y - 9 });
    draw(group, "rect", { class: "track", x, y, width, height, rx: 4 });
    const layer = draw(group, "g");
    if (this.run.buf.rows <= MOST_CELLS) {
      for (let permit = 1; permit < this.run.buf.rows; permit++) {
        const at = x + (width * permit) / this.run.buf.rows;
        draw(group, "line", { class: "grid", x1: at, x2: at, y1: y + height - 5, y2: y + height });
      }
    }
    return { ...at, width, group, layer, count, marks: draw(group, "g") };
  }

  #length(permits) {
    return (this.frame.lane * permits) / this.run.buf.rows;
  }

  /** Shows state `k`; boxes glide to their places if `isSmooth`. */
  show(k, isSmooth) {
    this.svg.classList.toggle("smooth", isSmooth);
    const counts = this.run.counts(k, "rows");
    const places = this.run.messagesAt(k);
    const seen = new Set();
    for (const place of ["waiting", "wire", "inbox"]) this.#messages(k, place, places[place], seen);
    this.#returns(k, seen);
    this.#pool("permits", counts.permits);
    this.#pool("unreturned", counts.unreturned);
    const waitingChunks = places.waiting.filter((i) => this.run.messages.kind[i] === "chunk");
    this.#needMark(counts.permits, waitingChunks);
    this.#batchMark(counts.unreturned);
    for (const place of ["permits", "wire", "inbox", "unreturned", "grants"]) this.lanes[place].count.textContent = number(counts[place]);
    this.lanes.waiting.count.textContent = waitingChunks.length ? plural(waitingChunks.length, "chunk") : "none";
    this.consumed.textContent = places.consumedRows ? `${inShort(places.consumedRows)} consumed` : "";
    this.#arrowsTaken(k);
    this.#leave(seen, isSmooth);
  }

  #messages(k, place, indexes, seen) {
    const lane = this.lanes[place];
    const items = indexes.map((i) => ({
      key: `m${i}`,
      kind: this.run.messages.kind[i],
      size: this.run.messages.kind[i] === "chunk" ? this.run.messages.cost[i] : 0,
      moved: this.run.messageMoved(k, i),
      title: this.run.describe(i),
    }));
    if (place === "waiting") this.#placeWatermarkAmongWaiting(k, items);
    let from = lane.x + lane.width; // the head of the queue stands where it leaves: at the right
    let hidden = 0;
    let flags = 0;
    for (const item of gathered(items, lane.width / MOST_BOXES, (size) => this.#length(size))) {
      if (item.kind !== "chunk") {
        this.#flag(lane, item, from, -20 * flags++, seen);
        continue;
      }
      flags = 0;
      const length = this.#length(item.size);
      const isCut = from - length < lane.x - 0.5;
      if (isCut && place === "waiting" && from < lane.x + lane.width) hidden += item.count;
      else this.#box(lane, item, Math.max(lane.x, from - length), Math.min(length, from - lane.x), place, seen);
      from -= length;
    }
    lane.marks.replaceChildren();
    if (hidden) draw(lane.marks, "text", { class: "more", x: lane.x, y: lane.y + lane.height + 16 }, `and ${plural(hidden, "more chunk")}`);
  }

  /** A watermark stands behind as many messages as the model says. */
  #placeWatermarkAmongWaiting(k, items) {
    const line = items.filter((item) => item.kind !== "watermark");
    const watermark = items.filter((item) => item.kind === "watermark");
    const behind = this.run.pending.length ? Math.max(0, this.run.pending[k]) : 0;
    items.splice(0, items.length, ...line.slice(0, behind), ...watermark, ...line.slice(behind));
  }

  #returns(k, seen) {
    const lane = this.lanes.grants;
    const { rows, returned } = this.run.returns;
    const items = this.run.returnsAt(k).map((i) => ({
      key: `r${i}`,
      kind: rows[i] ? "chunk" : this.run.returns.barriers[i] ? "barrier" : "watermark",
      size: rows[i],
      moved: k > 0 && returned[i] === k,
      title: rows[i] ? `${plural(rows[i], "row permit")} on the way back` : "the permit of a message, on the way back",
    }));
    let from = lane.x; // the next to arrive stands at the left
    let flags = 0;
    for (const item of gathered(items, lane.width / MOST_BOXES, (size) => this.#length(size))) {
      if (item.kind !== "chunk") {
        this.#flag(lane, item, from, 20 * flags++, seen);
        continue;
      }
      flags = 0;
      const length = this.#length(item.size);
      this.#box(lane, item, from, length, "grants", seen);
      from += length;
    }
  }

  #box(lane, item, x, width, place, seen) {
    const element = this.#element(item.key, "box", (group) => {
      draw(group, "title");
      draw(group, "rect", { height: lane.height - 4, y: 2 });
      draw(group, "text", { y: lane.height / 2 + 5 });
    });
    seen.add(item.key);
    element.setAttribute("class", `box in-${place}${width > 4 ? "" : " thin"}${item.moved && width > 4 ? " moved" : ""}`);
    element.dataset.permits = item.size;
    element.style.transform = `translate(${x}px, ${lane.y}px)`;
    const [title, rect, text] = element.children;
    title.textContent = item.title;
    rect.setAttribute("x", width > 6 ? 1 : 0);
    rect.setAttribute("width", Math.max(0.75, width - (width > 6 ? 2 : 0)));
    const label = number(item.size);
    text.setAttribute("x", width / 2);
    text.textContent = width > label.length * 8 + 6 ? label : "";
  }

  /** Barriers and watermarks hold no row permits: they hang between the chunks as flags; `aside` keeps two apart. */
  #flag(lane, item, x, aside, seen) {
    const element = this.#element(item.key, "flag", (group) => {
      for (const tag of ["title", "path", "circle", "text"]) draw(group, tag);
    });
    seen.add(item.key);
    element.setAttribute("class", `flag ${item.kind}${item.moved ? " moved" : ""}`);
    element.style.transform = `translate(${x}px, ${lane.y}px)`;
    const [title, path, circle, text] = element.children;
    title.textContent = item.title;
    path.setAttribute("d", `M0 -2V${lane.height + 2}L${aside} ${lane.height + 7}`);
    for (const [name, value] of Object.entries({ cx: aside, cy: lane.height + 15, r: 8 })) circle.setAttribute(name, value);
    text.setAttribute("x", aside);
    text.setAttribute("y", lane.height + 19);
    text.textContent = item.kind === "barrier" ? "B" : "W";
  }

  #element(key, kind, build) {
    let element = this.elements.get(key);
    if (element === undefined) {
      element = draw(this.svg, "g", { class: kind });
      build(element);
      this.elements.set(key, element);
    }
    return element;
  }

  #leave(seen, isSmooth) {
    const fades = isSmooth && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const [key, element] of this.elements) {
      if (seen.has(key)) continue;
      this.elements.delete(key);
      element.classList.add("leaving");
      if (fades) setTimeout(() => element.remove(), 320);
      else element.remove();
    }
  }

  #pool(place, count) {
    const lane = this.lanes[place];
    lane.pool ??= draw(lane.layer, "rect", { class: `pool ${place}`, x: lane.x, y: lane.y + 2, height: lane.height - 4, rx: 3 });
    lane.poolNumber ??= draw(lane.layer, "text", { class: "pool-number", y: lane.y + lane.height / 2 + 5 });
    const length = Math.max(2, this.#length(count));
    lane.pool.setAttribute("width", length);
    lane.pool.style.display = count ? "" : "none";
    lane.poolNumber.setAttribute("x", lane.x + length / 2);
    lane.poolNumber.textContent = length > number(count).length * 8 + 6 ? number(count) : "";
  }

  /** How much the oldest waiting chunk needs, on the scale of the sender's permits. */
  #needMark(there, waitingChunks) {
    const lane = this.lanes.permits;
    lane.marks.replaceChildren();
    if (waitingChunks.length === 0) return;
    const needed = this.run.messages.cost[waitingChunks[0]];
    const isShort = needed > there;
    const at = lane.x + Math.min(lane.width, this.#length(needed));
    if (isShort) {
      const from = lane.x + this.#length(there);
      draw(lane.marks, "rect", { class: "missing", x: from, y: lane.y + 2, width: at - from, height: lane.height - 4 });
    }
    this.#mark(lane, at, `the next chunk needs ${number(needed)}`, isShort);
  }

  /** How much has to come together before it is returned. */
  #batchMark(unreturned) {
    const lane = this.lanes.unreturned;
    lane.marks.replaceChildren();
    if (unreturned) this.#mark(lane, lane.x + Math.min(lane.width, this.#length(this.run.permit_batch)), `returned at ${number(this.run.permit_batch)}`, false);
  }

  #mark(lane, x, text, isShort) {
    const group = draw(lane.marks, "g", { class: isShort ? "mark short" : "mark" });
    const isRight = x > lane.x + lane.width / 2;
    const width = text.length * 7; // about; the text must not leave the lane
    const start = Math.min(Math.max(lane.x - 4, isRight ? x - width : x), lane.x + lane.width - width);
    draw(group, "path", { d: `M${x} ${lane.y - 3}V${lane.y + lane.height + 7}` });
    const at = { x: isRight ? start + width : start, "text-anchor": isRight ? "end" : "start" };
    draw(group, "text", { ...at, y: lane.y + lane.height + 21 }, text);
  }

  #arrowsTaken(k) {
    const action = this.run.action(k);
    const returned = k > 0 && this.run.returns.returned.includes(k);
    for (const arrow of this.arrows) {
      const isTaken = action !== null && arrow.actions.includes(action.name);
      arrow.element.classList.toggle("taken", isTaken || (arrow.isReturn === true && returned));
    }
  }
}

/** A number of rows, to be read at a glance. */
const inShort = (rows) => (rows < 100_000 ? plural(rows, "row") : `${new Intl.NumberFormat("en-US", { notation: "compact" }).format(rows)} rows`);

/** Neighbouring chunks too narrow to be told apart become one item, so that a lane never holds more than a few. */
function gathered(items, least, length) {
  if (items.length <= MOST_BOXES) return items.map((item) => ({ ...item, count: 1 }));
  const result = [];
  for (const item of items) {
    const before = result.at(-1);
    if (item.kind === "chunk" && before?.kind === "chunk" && length(before.size) < least) {
      before.size += item.size;
      before.count += 1;
      before.moved ||= item.moved;
      before.title = `${number(before.count)} chunks, together ${plural(before.size, "permit")}`;
    } else {
      result.push({ ...item, count: 1 });
    }
  }
  return result;
}
