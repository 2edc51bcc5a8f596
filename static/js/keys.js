// Keys. An element says its key with data-key ("a", "?", "g i"); rows of a list are `[data-row] a[data-row-link]`.
// No key decides anything: keys move, open and lead to forms. Keys are off while a field has focus; in a form that decides
// only Ctrl+Enter sends. A page opens with the focus on what was refused, else on its title.
(() => {
  const GRAVE = new Set(["a", "r", "s"]); // off for a moment after a list moved under the hand
  const MOVED = 500;
  let prefix = "";
  let movedAt = -Infinity;

  const isField = (element) => element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
  const isShown = (element) => element.getClientRects().length > 0;

  function rows() {
    return [...document.querySelectorAll("[data-row]:not(.is-gone) [data-row-link]")].filter(isShown);
  }

  function currentRow(links) {
    const focused = links.indexOf(document.activeElement);
    return focused >= 0 ? focused : links.findIndex((link) => link.closest("[data-row]").hasAttribute("aria-current"));
  }

  function move(step) {
    const links = rows();
    if (!links.length) return;
    const at = currentRow(links);
    const next = links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
    next.focus();
    next.dispatchEvent(new CustomEvent("row:move", { bubbles: true }));
  }

  function pickCurrent() {
    const links = rows();
    const link = links[currentRow(links)];
    const check = link && link.closest("[data-row]").querySelector(".check");
    if (check) check.click();
  }

  function openCurrent() {
    const links = rows();
    const link = links[currentRow(links)];
    if (link) location.assign(link.href);
  }

  function go(element) {
    const local = element.tagName === "A" && element.hash && element.pathname === location.pathname
      && element.search === location.search;
    const target = local ? document.querySelector(element.hash) : element;
    if (!target) return;
    if (local) location.hash = element.hash;
    if (isField(target)) target.focus();
    else if (local) (target.querySelector("textarea, input:not([type=hidden]), select") || target).focus();
    else element.click();
  }

  function find(key) {
    return [...document.querySelectorAll("[data-key]")].find(
      (element) => element.dataset.key === key && element.type !== "submit" && isShown(element)
    );
  }

  function press(event) {
    const key = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    if (GRAVE.has(key) && performance.now() - movedAt < MOVED) return true;
    const element = find(key);
    if (element) go(element);
    else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
    else if (key === "x") pickCurrent();
    else if (key === "Enter" && (document.activeElement === document.body || document.activeElement.tagName === "H1")) openCurrent();
    else if (key === "g") prefix = "g";
    else return false;
    return true;
  }

  function submitFrom(field) {
    const form = field.closest("form");
    const button = form && form.querySelector("button[type=submit], button:not([type])");
    if (button && button.getAttribute("aria-disabled") !== "true" && !button.disabled) form.requestSubmit(button);
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (isField(target) && !/^(checkbox|radio)$/.test(target.type)) {
      if (event.key === "Escape") target.blur();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submitFrom(target);
      else if (event.key === "Enter" && target.tagName === "INPUT" && target.closest("form[data-gates]")) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event)) event.preventDefault();
  });
  document.addEventListener("DOMContentLoaded", () => {
    const first = document.querySelector("main [role=alert][tabindex]") || document.querySelector("h1[tabindex]");
    if (first && !location.hash && document.activeElement === document.body) first.focus({ preventScroll: true });
  });
  document.addEventListener("list:moved", () => {
    movedAt = performance.now();
    const note = document.querySelector("[data-moved-note]");
    if (!note) return;
    note.hidden = false;
    setTimeout(() => { note.hidden = true; }, MOVED);
  });
})();
