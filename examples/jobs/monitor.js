// Asks the monitor each second, and shows its answer: markup for parts of the page, by their ids.

const ASK_AFTER_MILLISECONDS = 1000;
const PATIENCE_MILLISECONDS = 5000;

const news = document.getElementById("news");
const shown = new Map();

function show(parts) {
  for (const [id, markup] of Object.entries(parts)) {
    if (shown.get(id) === markup) continue;
    shown.set(id, markup);
    document.getElementById(id).innerHTML = markup;
  }
}

async function ask() {
  if (document.hidden) return;
  try {
    const answer = await fetch("live.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MILLISECONDS) });
    if (!answer.ok) throw new Error(answer.statusText);
    show(await answer.json());
    news.textContent = "";
  } catch {
    const since = new Date().toLocaleTimeString("en-GB");
    if (!news.textContent) news.textContent = `The monitor does not answer since ${since}: these are its last figures.`;
  }
}

async function keepAsking() {
  await ask();
  setTimeout(keepAsking, ASK_AFTER_MILLISECONDS);
}

document.documentElement.classList.remove("no-script");
document.addEventListener("visibilitychange", ask);
keepAsking();
