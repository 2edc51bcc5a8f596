// Help in place: a click on [data-help] shows that entry of the glossary beside it, one on [data-keys] the keys of the page as
// it stands. Without this script, or while the server does not answer, the same link opens the glossary.
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
    if (asked === link) show(box, link, entry);
  }

  function show(box, link, content) {
    if (typeof content === "string") box.innerHTML = content;
    else box.replaceChildren(...content);
    box.showPopover();
    place(box, link);
    box.focus();
  }

  function element(tag, content, given = {}) {
    const made = Object.assign(document.createElement(tag), given);
    made.append(...[].concat(content));
    return made;
  }

  // [key, what it does] of each key that works here and now, which js/keys.js knows.
  function keysOf(link) {
    const rows = window.signalboxKeys.working().map(([key, does]) => {
      return element("div", [element("dt", element("kbd", key)), element("dd", does)]);
    });
    const all = element("a", "All keys, words and signs", { href: link.href });
    return [
      element("h2", "Keys of this page", { id: "help-title" }), element("dl", rows, { className: "pairs" }),
      element("p", all, { className: "small" }),
    ];
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-help], a[data-keys]");
    const box = document.getElementById("help");
    if (!link || !box || !box.showPopover || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.hasAttribute("data-keys")) show(box, asked = link, keysOf(link));
    else open(link, box).catch(() => location.assign(link.href));
  });
  document.addEventListener("keydown", (event) => { // a closed help gives the focus back to its sign
    if (event.key === "Escape" && asked && document.getElementById("help").matches(":popover-open")) asked.focus();
  });
})();
