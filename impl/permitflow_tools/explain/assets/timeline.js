// All steps at a glance: one column of stacked places for each state.  Click or drag to go there.

const HISTORY_HEIGHT = { wide: 60, narrow: 22, plain: 16 };
const MOST_COLUMNS = 160; // that are drawn apart

class Timeline {
  constructor(svg, run, slider, go) {
    this.svg = svg;
    this.run = run;
    this.slider = slider;
    const follow = (event) => go(this.#stateAt(event.offsetX));
    svg.addEventListener("pointerdown", (event) => {
      svg.setPointerCapture(event.pointerId);
      follow(event);
    });
    svg.addEventListener("pointermove", (event) => event.buttons && follow(event));
  }

  #stateAt(x) {
    return Math.min(this.run.last, Math.max(0, Math.floor((x / this.width) * (this.run.last + 1))));
  }

  lay() {
    this.width = Math.max(200, this.svg.clientWidth);
    this.height = this.run.hasLedger ? HISTORY_HEIGHT[this.width < 600 ? "narrow" : "wide"] : HISTORY_HEIGHT.plain;
    this.column = this.width / (this.run.last + 1);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    const isApart = this.run.last < MOST_COLUMNS;
    const count = isApart ? this.run.last + 1 : Math.floor(this.width);
    const below = new Array(count).fill(0);
    // The sender's permits lie at the bottom, then the others in the order of their circuit.
    for (const place of Object.keys(this.run.places ?? {})) {
      draw(this.svg, "path", { class: place, d: this.#band(place, below, isApart ? Math.min(2, this.column / 8) : 0) });
    }
    if (["stuck", "violated", "invalid"].includes(this.run.verdict)) {
      draw(this.svg, "rect", { class: "end-mark", x: this.width - Math.max(3, this.column), y: this.height - 4, width: Math.max(3, this.column), height: 4 });
    }
    this.now = draw(this.svg, "rect", { class: "now", y: 1.5, height: this.height - 3, rx: 3 });
    // The slider's thumb is 18 pixels wide and must stand below the middle of the columns.
    const inset = this.column / 2 - 9;
    this.slider.style.marginLeft = `${inset}px`;
    this.slider.style.width = `calc(100% - ${2 * inset}px)`;
  }

  /** One path for a place: its rectangles on top of `below`, which grows by them. */
  #band(place, below, space) {
    const least = space ? 2 : 0; // so that a single permit of thousands is seen
    const values = this.run.ledger.rows[place];
    const scale = (this.height - 10) / this.run.buf.rows;
    const width = this.width / below.length;
    let path = "";
    for (let column = 0; column < below.length; column++) {
      const value = values[Math.floor((column * values.length) / below.length)];
      if (value === 0) continue;
      const height = Math.max(value * scale, least);
      const [left, bottom] = [column * width + space / 2, this.height - 6 - below[column]];
      path += `M${left.toFixed(2)} ${bottom.toFixed(2)}h${(width - space).toFixed(2)}v${(-height).toFixed(2)}h${(space - width).toFixed(2)}z`;
      below[column] += height;
    }
    return path;
  }

  show(k) {
    const width = Math.max(4, this.column);
    this.now.setAttribute("x", Math.min(this.width - width, Math.max(0, (k + 0.5) * this.column - width / 2)) + 1.25);
    this.now.setAttribute("width", width - 2.5);
  }
}
