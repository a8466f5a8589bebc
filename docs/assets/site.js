// What the theme adds once a page is seen, for people without a mouse or without eyes.
// A page about Python has a class Header, so its list of contents has this name, too.
document.querySelector(".md-header__inner").setAttribute("aria-label", "Top of the site");
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");  // a dialog where the site is served
const refine = () => {
  // A landmark is added to each block of code: each gets a name of its own.
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => nav.setAttribute("aria-label", `Block of code ${index + 1}`));
  // A table that is wider than the window scrolls: keys scroll it only if it can have the focus.
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap, index) => {
    if (wrap.scrollWidth <= wrap.clientWidth) return wrap.removeAttribute("tabindex");
    wrap.tabIndex = 0;
    wrap.setAttribute("role", "group");
    wrap.setAttribute("aria-label", `Table ${index + 1}`);
  });
};
new MutationObserver(refine).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", refine);
