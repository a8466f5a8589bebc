// Goes through the run: buttons, keyboard, slider, and the step in the page's address.

class Player {
  /** `viewsOf` makes what shows a state: objects with `show(k, isSmooth)`, and `lay()` and `take(run)` if they want. */
  constructor(run, viewsOf, address = (k) => `#step=${k}`) {
    this.run = run;
    this.given = run; // what the page shows until the reader chooses another step
    this.address = address;
    this.k = 0;
    this.timer = null;
    const byId = (id) => document.getElementById(id);
    this.controls = Object.fromEntries(["first", "back", "play", "forward", "last", "slider", "speed", "position", "summary", "given"].map((id) => [id, byId(id)]));
    this.controls.slider.max = run.last;
    this.views = viewsOf(this);
    this.timeline = new Timeline(byId("history"), run, this.controls.slider, (k) => this.go(k));
    this.#listen();
    // Only the width matters: panels get higher and lower with every step, and drawing anew would cut motion short.
    const main = document.querySelector("main");
    new ResizeObserver(() => this.width !== main.clientWidth && this.lay()).observe(main);
  }

  #listen() {
    const { first, back, play, forward, last, slider, speed } = this.controls;
    first.addEventListener("click", () => this.go(0));
    back.addEventListener("click", () => this.go(this.k - 1));
    forward.addEventListener("click", () => this.go(this.k + 1));
    last.addEventListener("click", () => this.go(this.run.last));
    play.addEventListener("click", () => (this.timer === null ? this.play() : this.pause()));
    speed.addEventListener("change", () => this.timer !== null && this.play());
    this.controls.given.addEventListener("click", () => this.take(this.given));
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    addEventListener("keydown", (event) => this.#key(event));
    addEventListener("hashchange", () => this.#goToAddress());
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // Numbers to choose and lists of choices take all keys for themselves; buttons take the space bar.
    if (event.target.closest?.("select, .knob") || (event.key === " " && event.target.closest?.("button, summary"))) return;
    const tenth = Math.max(1, Math.round(this.run.last / 10));
    const moves = {
      ArrowLeft: () => this.go(this.k - 1),
      ArrowRight: () => this.go(this.k + 1),
      PageUp: () => this.go(this.k - tenth),
      PageDown: () => this.go(this.k + tenth),
      Home: () => this.go(0),
      End: () => this.go(this.run.last),
      " ": () => this.controls.play.click(),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  }

  #goToAddress() {
    const match = /^#step=(\d+)$/.exec(location.hash);
    if (match) this.go(Number(match[1]) - this.run.skipped);
  }

  play() {
    this.pause();
    if (this.k === this.run.last) this.go(0);
    this.controls.play.setAttribute("aria-pressed", "true");
    this.controls.play.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => this.#next(), 1000 / Number(this.controls.speed.value));
  }

  #next() {
    this.#show(this.k + 1);
    if (this.k === this.run.last) this.pause();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.controls.play.setAttribute("aria-pressed", "false");
    this.controls.play.setAttribute("aria-label", "Play");
  }

  /** Goes to a state by hand; stops playing. */
  go(k) {
    if (this.timer !== null) this.pause();
    this.#show(k);
  }

  #show(wanted) {
    const k = Math.min(this.run.last, Math.max(0, wanted));
    const isSmooth = Math.abs(k - this.k) === 1;
    this.k = k;
    const { slider, position, summary, first, back, forward, last } = this.controls;
    for (const view of this.views) view.show(k, isSmooth);
    this.timeline.show(k);
    slider.value = k;
    slider.setAttribute("aria-valuetext", this.run.summary(k));
    const total = make("span", { class: "total" }, ` of ${number(this.run.skipped + this.run.last)}`);
    position.replaceChildren(`Step ${number(this.run.skipped + k)}`, total, k === 0 ? "" : `: ${this.run.call(k)}`);
    if (this.timer === null) summary.textContent = this.run.summary(k);
    first.disabled = back.disabled = k === 0;
    forward.disabled = last.disabled = k === this.run.last;
    this.controls.given.hidden = this.run === this.given;
    const address = this.address(this.run.skipped + k);
    if (location.hash !== address) history.replaceState(null, "", address);
  }

  /** Takes a step that the reader chose: the next one of this run, or one that leads away from it. */
  choose(choice) {
    if (!choice.isNext) this.#replace(this.run.branch(this.k, choice));
    this.go(this.k + 1);
    // The button is gone; who uses the keyboard goes on from the same one, or from the first that is there.
    const possible = document.getElementById("possible");
    const again = possible.querySelector(`[data-call="${choice.call}"]`) ?? possible.querySelector("button.choice");
    (again ?? possible.querySelector("h2")).focus({ preventScroll: true });
  }

  #replace(run) {
    this.run = run;
    for (const view of this.views) view.run = run;
    this.timeline.run = run;
    this.controls.slider.max = run.last;
    this.timeline.lay();
  }

  /** Shows another run, of this channel or of another one, in state `k`. */
  take(run, k = 0) {
    if (this.timer !== null) this.pause();
    this.#replace(run);
    for (const view of this.views) view.take?.(run);
    this.k = k;
    this.lay();
  }

  /** Fits everything to the width of the window. */
  lay() {
    this.width = document.querySelector("main").clientWidth;
    for (const view of this.views) view.lay?.();
    this.timeline.lay();
    this.#show(this.k);
  }

  start() {
    document.documentElement.classList.remove("no-script");
    document.querySelector("main").hidden = false;
    const isAddressed = /^#step=\d+$/.test(location.hash);
    // What is wrong is at the end; the way there is one key away.
    const isWrong = ["stuck", "violated", "invalid"].includes(this.run.verdict);
    this.k = isWrong && !isAddressed ? this.run.last : 0;
    if (isAddressed) this.k = Math.min(this.run.last, Math.max(0, Number(location.hash.slice(6)) - this.run.skipped));
    this.lay();
  }
}
