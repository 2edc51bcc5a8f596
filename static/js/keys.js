// Keys. An element says its key with data-key ("a", "?", "g i"); rows of a list are `[data-row] a[data-row-link]`.
// No key decides anything: keys move, open and lead to forms. Keys are off while a field has focus; in a form that decides
// only Ctrl+Enter sends. Escape closes what was opened last. A page opens with the focus on what was refused, else on its title.
// The line at the foot shows only the keys that work as the page stands.
(() => {
  const GRAVE = new Set(["a", "r", "s"]); // off for a moment after a list moved under the hand
  const MOVED = 500;
  let prefix = "";
  let movedAt = -Infinity;

  const isField = (element) => element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
  // A field of a form that will not open again (decide.js) is no place to go to.
  const isOver = (element) => element.form && document.querySelector(`[data-gate-over][data-gate-for="${element.form.id}"]`) !== null;
  const isShown = (element) => element.checkVisibility() && !isOver(element);
  // What stands in a menu is there while its word is: its key opens the menu first.
  const menuOf = (element) => element.closest("details.menu:not([open])");
  const isThere = (element) => isShown(element) || (menuOf(element) !== null && isShown(menuOf(element)));

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

  // Into the first field of a part of the page, with as much of the part in sight as there is room for.
  function leadTo(part) {
    (part.querySelector("textarea, input:not([type=hidden]), select") || part).focus({ preventScroll: true });
    part.scrollIntoView({ block: part.clientHeight < innerHeight / 2 ? "nearest" : "start" });
  }

  function go(element) {
    const local = element.tagName === "A" && element.hash && element.pathname === location.pathname
      && element.search === location.search;
    const target = local ? document.querySelector(element.hash) : element;
    if (!target) return;
    if (isField(target) && menuOf(target)) menuOf(target).open = true;
    if (local) location.hash = element.hash;
    if (isField(target)) target.focus();
    else if (local) leadTo(target);
    else {
      if (element.matches("[hx-get]")) window.htmx.process(element); // one that has just come in would load the whole page
      element.click();
    }
  }

  function find(key) {
    return [...document.querySelectorAll("[data-key]")].find(
      (element) => element.dataset.key === key && element.type !== "submit" && isThere(element)
    );
  }

  // ── what works here ──

  const TYPED = "main form[method=post] :is(textarea, select, input:not([type=hidden], [type=checkbox], [type=radio]))";
  const ROWS = { j: "next row", k: "previous row" };
  const SIGNS = { "⏎": "Enter", Ctrl: "", "↑": "tree", "↓": "tree", "←": "tree", "→": "tree" };

  function said(element) {
    const named = element.labels && element.labels.length ? element.labels[0] : element;
    const words = named.cloneNode(true);
    words.querySelectorAll("kbd, svg").forEach((one) => one.remove());
    const text = element.getAttribute("aria-label") || words.textContent;
    return text.trim().replace(/\s+/g, " ");
  }

  // What the line at the foot says of a key: the same words wherever keys are told.
  function hinted(key) {
    const told = [...document.querySelectorAll("body > .hints li")].find(
      (hint) => [...hint.querySelectorAll("kbd")].map((one) => one.textContent).join(" ") === key
    );
    return told && said(told);
  }

  // [key, what it does] of each key that works now, in the order of the page.
  function working() {
    const found = new Map();
    for (const element of document.querySelectorAll("[data-key]")) {
      const key = element.dataset.key;
      if (element.type !== "submit" && key !== "?" && isThere(element) && !found.has(key)) found.set(key, hinted(key) || said(element));
    }
    const links = rows();
    if (links.length) {
      for (const key of Object.keys(ROWS)) if (!found.has(key)) found.set(key, ROWS[key]);
      found.set("Enter", "open the row");
      if (links.some((link) => link.closest("[data-row]").querySelector(".check"))) found.set("x", "pick the row");
    }
    if ([...document.querySelectorAll(TYPED)].some((field) => isShown(field) && sends(field))) found.set("Ctrl + Enter", "send the form that has the focus");
    found.set("Esc", "leave the field, close what is open");
    found.set("?", "these keys");
    return [...found];
  }

  // Whether what a hint shows does something now; `after` is the key that has to be pressed before it, or nothing.
  function works(sign, known, after) {
    const key = sign in SIGNS ? SIGNS[sign] : sign;
    if (after === "g") return known.has(`g ${key}`);
    if (key === "tree") return document.querySelector("[data-tree]") !== null;
    if (sign === "Ctrl") return known.has("Ctrl + Enter");
    if (key === "Enter") return known.has("Enter") || known.has("Ctrl + Enter") || document.querySelector("[data-tree]") !== null;
    return known.has(key) || (key === "g" && [...known].some((one) => one.startsWith("g ")));
  }

  function tellTruly() {
    const hints = [...document.querySelectorAll("body > .hints li")];
    for (const hint of hints) hint.hidden = false;
    if (!hints.some(isShown)) return;
    const known = new Set(working().map(([key]) => key));
    for (const hint of hints) {
      hint.hidden = ![...hint.querySelectorAll("kbd")].every((one) => works(one.textContent, known, one.previousElementSibling?.textContent));
    }
  }

  window.signalboxKeys = { working };

  // ── what is pressed ──

  function close() {
    const menu = [...document.querySelectorAll("details.menu[open]")].pop();
    const opened = menu || document.querySelector("[data-close]");
    if (!opened) return false;
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else opened.click();
    return true;
  }

  function press(event) {
    if (document.querySelector(":popover-open")) return false; // Escape closes it by itself
    if (event.key === "Escape") return close();
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

  const sends = (field) => field.form && field.form.querySelector("button[type=submit], button:not([type])");

  function submitFrom(field) {
    const form = field.form;
    const button = sends(field);
    if (button && button.getAttribute("aria-disabled") !== "true" && !button.disabled) form.requestSubmit(button);
  }

  // A refusal describes the field that it names: whoever comes to the field hears it again.
  let tied = []; // [field, what described it before]

  function tie(refused) {
    for (const [field, before] of tied) {
      field.removeAttribute("aria-invalid");
      if (before === null) field.removeAttribute("aria-describedby");
      else field.setAttribute("aria-describedby", before);
    }
    tied = [];
    if (!refused || !refused.dataset.field) return;
    const form = document.querySelector(refused.dataset.form || "main") || document;
    const place = CSS.escape(refused.dataset.field);
    for (const field of form.querySelectorAll(`[name="${place}"], [data-place="${place}"]`)) {
      tied.push([field, field.getAttribute("aria-describedby")]);
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", `${field.getAttribute("aria-describedby") || ""} refused`.trim());
    }
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (isField(target) && !/^(checkbox|radio)$/.test(target.type)) {
      if (event.key === "Escape") target.blur();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submitFrom(target);
      else if (event.key === "Enter" && target.tagName === "INPUT" && target.type !== "file" && target.closest("form[data-gates]")) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event)) event.preventDefault();
  });
  document.addEventListener("DOMContentLoaded", () => {
    const first = document.querySelector("main [role=alert][tabindex]") || document.querySelector("h1[tabindex]");
    if (first && !location.hash && document.activeElement === document.body) first.focus({ preventScroll: true });
    tie(document.getElementById("refused"));
    tellTruly();
  });
  addEventListener("resize", tellTruly); // a narrower room has other keys
  document.addEventListener("htmx:afterSwap", () => {
    tellTruly();
    tie(document.getElementById("refused"));
  });
  document.addEventListener("list:moved", () => {
    movedAt = performance.now();
    const note = document.querySelector("[data-moved-note]");
    if (!note) return;
    note.hidden = false;
    setTimeout(() => { note.hidden = true; }, MOVED);
  });
})();
