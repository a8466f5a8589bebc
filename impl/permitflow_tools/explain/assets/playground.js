// Numbers to choose: each choice is another channel, with its verdict and its states.

class Playground {
  constructor(data) {
    this.data = data;
    this.form = document.getElementById("knobs");
    this.inputs = [...this.form.querySelectorAll("input")];
    this.shortest = document.getElementById("shortest");
    this.badge = document.querySelector(".badge");
    this.sentence = document.querySelector(".sentence");
    this.sentence.setAttribute("role", "status"); // read aloud when another number is chosen
    this.path = this.#readAddress() ?? []; // before the player writes where it stands
    this.player = new Player(this.#run([]), viewsOfRun, (k) => this.#address(k));
    this.form.addEventListener("input", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.shortest.addEventListener("click", () => {
      this.player.take(this.#run(this.setting().graph.run));
      this.player.play();
    });
    addEventListener("hashchange", () => {
      const path = this.#readAddress();
      if (path) this.choose(path);
      else this.player.go(this.player.k); // an address with numbers that this page has not is corrected
    });
  }

  /** The numbers, and which of the possible steps was taken in each state until this one. */
  #address(k) {
    const way = this.player.run.taken(k);
    return `#set=${this.key()}${way.length ? `&way=${way.join(".")}` : ""}`;
  }

  /** The chosen values, as the settings are named. */
  key() {
    return this.inputs.map((input) => (input.type === "checkbox" ? Number(input.checked) : input.value)).join("-");
  }

  setting() {
    return this.data.settings[this.key()];
  }

  #run(path) {
    return new ExploredRun({ ...this.data, ...this.setting() }, path);
  }

  /** Chooses the numbers of the address; the path of its steps, as far as they are possible, or null without such numbers. */
  #readAddress() {
    const [, wanted, way = ""] = /^#set=([\d-]+)(?:&way=([\d.]+))?$/.exec(location.hash) ?? [];
    if (!(wanted in this.data.settings)) return null;
    wanted.split("-").forEach((value, index) => {
      if (this.inputs[index].type === "checkbox") this.inputs[index].checked = value === "1";
      else this.inputs[index].value = value;
    });
    return pathAlong(this.setting().graph, way ? way.split(".").map(Number) : []);
  }

  /** Shows the verdict on the chosen numbers, and a run: where it ends, or the beginning. */
  choose(path = []) {
    this.#tell();
    this.player.given = this.#run([]);
    this.player.take(path.length ? this.#run(path) : this.player.given, path.length / 2);
  }

  #tell() {
    const { verdict, badge, sentence } = this.setting();
    for (const output of this.form.querySelectorAll("output")) output.textContent = document.getElementById(output.htmlFor).value;
    this.badge.textContent = badge;
    this.badge.className = `badge ${verdict}`;
    this.sentence.textContent = sentence;
    this.shortest.disabled = this.setting().graph.run.length === 0;
  }

  start() {
    this.player.start();
    this.choose(this.path);
  }
}
