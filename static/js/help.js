// Help in place: a click on [data-help] shows that entry of the glossary beside it. Without this script, or while the
// server does not answer, the same link opens the glossary at the entry.
(() => {
  const GAP = 6;
  let asked = null;

  function place(box, link) {
    const at = link.getBoundingClientRect();
    const under = at.bottom + GAP + box.offsetHeight <= innerHeight;
    box.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - box.offsetWidth - GAP))}px`;
    box.style.top = `${Math.max(GAP, under ? at.bottom + GAP : at.top - GAP - box.offsetHeight)}px`;
  }

  async function open(link, box) {
    asked = link;
    const answer = await fetch(`${link.pathname}?help=${encodeURIComponent(link.dataset.help)}`);
    if (!answer.ok || answer.redirected) throw new Error(`help answered ${answer.status}`);
    const entry = await answer.text();
    if (asked !== link) return;
    box.innerHTML = entry;
    box.showPopover();
    place(box, link);
    box.focus();
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-help]");
    const box = document.getElementById("help");
    if (!link || !box || !box.showPopover || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(link, box).catch(() => location.assign(link.href));
  });
  document.addEventListener("keydown", (event) => { // a closed help gives the focus back to its sign
    if (event.key === "Escape" && asked && document.getElementById("help").matches(":popover-open")) asked.focus();
  });
})();
