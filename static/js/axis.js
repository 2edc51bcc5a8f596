// The time axis opens scrolled to now, and stays where the hand has put it. Left and right move along its events, plus and
// minus zoom; each of them follows a link of the page.
(() => {
  const KEYS = { ArrowLeft: "h", ArrowRight: "l" };
  const narrow = matchMedia("(max-width: 60rem)");
  let left = null;
  let pushed = 0; // events opened from here, which closing goes back over
  let going = false; // back, and not there yet: to close twice is to go back once

  const axis = () => document.querySelector("[data-axis]");

  function place() {
    const plot = axis();
    if (plot) plot.scrollLeft = left === null ? plot.scrollWidth : left;
  }

  // What is looked at must not lie beyond the edge.
  function reveal() {
    const cursor = axis() && axis().querySelector(".cursor");
    if (!cursor) return;
    const [line, plot] = [cursor.getBoundingClientRect(), axis().getBoundingClientRect()];
    const lanes = axis().querySelector(".axis__lanes").offsetWidth;
    if (line.left < plot.left + lanes || line.right > plot.right) {
      axis().scrollLeft += line.left - plot.left - lanes - (plot.width - lanes) / 2;
    }
  }

  document.addEventListener("scroll", (event) => {
    if (event.target.matches && event.target.matches("[data-axis]")) left = event.target.scrollLeft;
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest || !event.target.closest("[data-axis]")) return;
    const link = KEYS[event.key] && document.querySelector(`[data-key="${KEYS[event.key]}"]`);
    if (!link) return;
    event.preventDefault();
    window.htmx.process(link); // it may have come in just now
    link.click();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-close]") || !(pushed || going)) return;
    event.preventDefault();
    event.stopPropagation();
    if (going) return;
    going = true;
    history.back();
  }, true);
  window.addEventListener("popstate", () => {
    going = false;
    pushed = Math.max(0, pushed - 1);
  });
  document.addEventListener("htmx:pushedIntoHistory", () => {
    pushed += 1;
    const detail = document.getElementById("detail");
    if (detail && narrow.matches && new URLSearchParams(location.search).has("at")) detail.scrollIntoView({ block: "start" });
  });
  document.addEventListener("DOMContentLoaded", () => { place(); if (new URLSearchParams(location.search).has("at")) reveal(); });
  document.addEventListener("htmx:afterSwap", (event) => {
    place();
    if (event.detail && event.detail.pathInfo && /[?&]at=/.test(event.detail.pathInfo.requestPath)) reveal();
  });
})();
