// Twenty steps of a long run, one after the other: the milliseconds that each takes.
() => Array.from({ length: 20 }, (_, k) => {
  const slider = document.getElementById("slider");
  const begin = performance.now();
  slider.value = 50000 + k;
  slider.dispatchEvent(new Event("input"));
  return performance.now() - begin;
})
