// Picking in the inbox. A field above the list shows only the rows that have a text; what it hides is not picked any more, so that nobody
// decides on a row that they do not see. With Shift a click picks everything between the last one and this one. A button picks
// those in sight that the policy lets be approved together, and the line below says how many are picked. Rows: [data-row].
(() => {
  const MOST = 200; // as many as are decided at once
  let sought = "";
  let last = null;

  const shown = (element) => element.getClientRects().length > 0;
  const rows = () => [...document.querySelectorAll(".inbox__list [data-row]")];
  const checks = () => [...document.querySelectorAll(".inbox__list [data-row]:not(.is-gone) .check")].filter((check) => shown(check.closest("[data-row]")));
  const several = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

  function count() {
    const picked = checks().filter((check) => check.checked);
    const said = document.querySelector("[data-picked]");
    if (said) said.textContent = `: ${picked.length}`;
    const apart = document.querySelector("[data-picked-apart]");
    const alone = picked.filter((check) => !("together" in check.dataset)).length;
    if (apart) {
      apart.hidden = !alone || alone === picked.length;
      apart.textContent = `${several(alone, "wait")} of them can’t be approved with others.`;
    }
    offer();
  }

  function offer() {
    const button = document.querySelector("[data-pick-all]");
    if (!button) return;
    const fit = checks().filter((check) => "together" in check.dataset && !check.checked);
    button.hidden = fit.length < 2;
    button.textContent = `Pick ${Math.min(fit.length, MOST)} that may be approved together`;
  }

  // What a row says of its call and its run; its times tick.
  const said = (row) => row.querySelector(":scope > div").textContent.toLowerCase();

  function sift() {
    for (const row of rows()) {
      row.hidden = sought !== "" && !said(row).includes(sought);
      const check = row.querySelector(".check");
      if (row.hidden && check) check.checked = false;
    }
    for (const group of document.querySelectorAll(".inbox__list .group")) {
      const all = [...group.nextElementSibling.querySelectorAll("[data-row]")], left = all.filter((row) => !row.hidden).length;
      group.hidden = !left;
      group.lastElementChild.textContent = left < all.length ? `${left} of ${all.length}` : all.length;
    }
    const none = document.querySelector("[data-sift-none]");
    if (none) none.hidden = sought === "" || rows().some((row) => !row.hidden);
    count();
  }

  function between(check) {
    const all = checks();
    const [from, to] = [all.indexOf(last), all.indexOf(check)].sort((a, b) => a - b);
    return from < 0 ? [check] : all.slice(from, to + 1);
  }

  document.addEventListener("click", (event) => {
    const check = event.target.closest(".inbox__list .check");
    if (check) {
      if (event.shiftKey) for (const one of between(check)) one.checked = check.checked;
      last = check;
      count();
    }
    if (event.target.closest("[data-pick-all]")) {
      for (const one of checks().filter((one) => "together" in one.dataset).slice(0, MOST)) one.checked = true;
      count();
    }
  });
  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-sift]")) return;
    sought = event.target.value.trim().toLowerCase();
    sift();
  });
  // A row that was drawn anew holds its pick as what it begins with, so resetting the form alone would leave it.
  document.addEventListener("reset", (event) => {
    if (event.target.id !== "picked") return;
    setTimeout(() => {
      for (const check of document.querySelectorAll(".inbox__list .check")) check.checked = false;
      count();
    });
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id === "picked") for (const row of rows()) if (!shown(row) || row.classList.contains("is-gone")) row.querySelectorAll(".check").forEach((check) => { check.checked = false; });
  }, true);
  document.addEventListener("htmx:afterSwap", () => {
    const field = document.querySelector("[data-sift]");
    if (field && field.value !== sought && document.activeElement !== field) field.value = sought;
    sift();
  });
  document.addEventListener("DOMContentLoaded", () => {
    const field = document.querySelector("[data-sift]");
    if (field) sought = field.value.trim().toLowerCase();
    sift();
  });
})();
