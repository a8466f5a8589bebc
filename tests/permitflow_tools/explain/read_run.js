// What somebody sees who looks at the page of a run.
() => {
  const whole = (text) => Number(text.replaceAll(",", ""));
  const ledgers = {};
  for (const ledger of document.querySelectorAll(".ledger")) {
    const numbers = {};
    for (const item of ledger.querySelectorAll("li")) {
      numbers[item.dataset.place] = whole(item.querySelector(".number").firstChild.textContent);
    }
    ledgers[ledger.dataset.class] = numbers;
  }
  const boxes = { waiting: [], wire: [], inbox: [], grants: [] };
  for (const box of document.querySelectorAll("#scene .box:not(.leaving)")) {
    const place = box.getAttribute("class").match(/in-(\w+)/)[1];
    boxes[place].push([box.getBoundingClientRect().x, Number(box.dataset.permits)]);
  }
  for (const place in boxes) boxes[place] = boxes[place].sort((a, b) => b[0] - a[0]).map(([, permits]) => permits);
  return {
    position: document.getElementById("position").textContent.replaceAll(",", ""),
    address: location.hash,
    sum: document.querySelector(".ledger .sum").textContent.replaceAll(",", ""),
    ledgers,
    boxes, // from right to left
    flags: document.querySelectorAll("#scene .flag:not(.leaving)").length,
    enabled: [...document.querySelectorAll("#possible .enabled")].map((item) => item.dataset.action),
    place: document.querySelector("#passage:not([hidden]) .place")?.innerText ?? null,
    slider: Number(document.getElementById("slider").value),
  };
};
