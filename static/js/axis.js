// The time axis opens scrolled to now, and stays where the hand has put it.
(() => {
  let left = null;

  function place() {
    const axis = document.querySelector("[data-axis]");
    if (!axis) return;
    axis.scrollLeft = left === null ? axis.scrollWidth : left;
  }

  document.addEventListener("scroll", (event) => {
    if (event.target.matches && event.target.matches("[data-axis]")) left = event.target.scrollLeft;
  }, true);
  document.addEventListener("DOMContentLoaded", place);
  document.addEventListener("htmx:afterSwap", place);
})();
