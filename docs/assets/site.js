// The theme adds a landmark to each block of code once it is seen: each gets a name of its own.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => nav.setAttribute("aria-label", `Block of code ${index + 1}`));
}).observe(document.body, { childList: true, subtree: true });
