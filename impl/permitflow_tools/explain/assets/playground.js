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
    this.#goToAddress();
    this.player = new Player(this.#run([]), viewsOfRun, () => `#set=${this.key()}`);
    this.form.addEventListener("input", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.shortest.addEventListener("click", () => {
      this.player.take(this.#run(this.setting().graph.run));
      this.player.play();
    });
    // An address with numbers that this page has not is corrected.
    addEventListener("hashchange", () => (this.#goToAddress() ? this.choose() : this.player.go(this.player.k)));
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

  #goToAddress() {
    const wanted = /^#set=([\d-]+)$/.exec(location.hash)?.[1];
    if (!(wanted in this.data.settings) || wanted === this.key()) return false;
    wanted.split("-").forEach((value, index) => {
      if (this.inputs[index].type === "checkbox") this.inputs[index].checked = value === "1";
      else this.inputs[index].value = value;
    });
    return true;
  }

  /** Shows the verdict on the chosen numbers, and the beginning of a run. */
  choose() {
    this.#tell();
    this.player.given = this.#run([]);
    this.player.take(this.player.given);
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
    this.#tell();
    this.player.start();
  }
}
