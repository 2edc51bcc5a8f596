// Lists that do not move under the hand. In a panel marked data-list, a new answer changes known rows in place, greys
// rows that left, and keeps new rows behind one line until it is asked for them. Rows carry data-row and an id.
(() => {
  const waiting = new WeakMap(); // list -> the newest answer

  const rowsOf = (root) => [...root.querySelectorAll("[data-row]")];

  function parse(html, list) {
    return new DOMParser().parseFromString(html, "text/html").getElementById(list.id);
  }

  function showNews(list, count) {
    const news = list.querySelector("[data-news]");
    news.hidden = count === 0;
    news.querySelector("[data-news-text]").textContent =
      count === 1 ? "1 new item came in. The list has not moved." : `${count} new items came in. The list has not moved.`;
    news.querySelector("button").firstChild.textContent = `Show ${count} `;
  }

  function take(list, fresh) {
    const known = new Map(rowsOf(list).map((row) => [row.id, row]));
    for (const row of rowsOf(fresh)) if (known.has(row.id)) keepPick(known.get(row.id), row);
    Idiomorph.morph(list, fresh, { morphStyle: "outerHTML", ignoreActiveValue: true });
    htmx.process(list);
    document.dispatchEvent(new CustomEvent("list:moved"));
    document.dispatchEvent(new CustomEvent("htmx:afterSwap"));
  }

  // What was picked stays picked.
  function keepPick(row, next) {
    const [now, then] = [row, next].map((one) => one.querySelector(".check"));
    if (now && then) then.toggleAttribute("checked", now.checked);
  }

  // Returns how many rows are new. Rows that both have are morphed where they stand.
  function merge(list, fresh) {
    const coming = new Map(rowsOf(fresh).map((row) => [row.id, row]));
    for (const row of rowsOf(list)) {
      const next = coming.get(row.id);
      row.classList.toggle("is-gone", !next);
      if (!next) continue;
      coming.delete(row.id);
      const current = row.hasAttribute("aria-current");
      next.classList.toggle("is-current", current);
      next.toggleAttribute("aria-current", current);
      if (current) next.setAttribute("aria-current", "true");
      keepPick(row, next);
      Idiomorph.morph(row, next.cloneNode(true), { morphStyle: "outerHTML" });
    }
    return coming.size;
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const list = event.detail.target;
    if (!list.hasAttribute || !list.hasAttribute("data-list") || event.detail.xhr.status !== 200) return;
    const fresh = parse(event.detail.serverResponse, list);
    if (!fresh || !rowsOf(list).length) return; // an empty list has nothing that could move
    event.detail.shouldSwap = false;
    waiting.set(list, fresh.cloneNode(true));
    showNews(list, merge(list, fresh));
    htmx.process(list);
    document.dispatchEvent(new CustomEvent("htmx:afterSwap"));
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-news] button");
    const list = button && button.closest("[data-list]");
    if (list && waiting.has(list)) take(list, waiting.get(list));
  });

  // A row shows its preview beside the list when there is room; Enter and a narrow screen open its page.
  const wide = matchMedia("(min-width: 60.0625rem)");

  function preview(link) {
    for (const row of document.querySelectorAll("[data-row][aria-current]")) {
      row.removeAttribute("aria-current");
      row.classList.remove("is-current");
    }
    const row = link.closest("[data-row]");
    row.setAttribute("aria-current", "true");
    row.classList.add("is-current");
    link.dispatchEvent(new CustomEvent("preview"));
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-row-link][hx-get]");
    const plain = event.button === 0 && event.detail > 0 && !(event.ctrlKey || event.metaKey || event.shiftKey);
    if (!link || !plain || !wide.matches) return;
    event.preventDefault();
    preview(link);
  });
  document.addEventListener("row:move", (event) => {
    if (event.target.hasAttribute("hx-get") && wide.matches) preview(event.target);
  });
})();
