// What scrolls can be reached by the keyboard; dialogs and bars of buttons have names.
function completePage() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((bar) => {
    const number = document.querySelectorAll("nav.md-code__nav[aria-label]").length + 1;
    bar.setAttribute("aria-label", `Code ${number}`);
  });
}

addEventListener("load", () => {
  completePage();
  new MutationObserver(completePage).observe(document.body, { childList: true, subtree: true });
});
addEventListener("resize", completePage);
