// What was typed is not lost when its form can't be taken: the session had ended, the form's proof was old, the database was
// silent, the answer was lost on the way. It is put by in this tab as a form is sent, and as a page is left while nothing can be sent
// from it; the page that answers the form drops what was sent, and any other one (sign-in, an error, one that was gone to) leaves it. Whoever put it by finds it back in its
// fields once the same page is open again. Only texts come back: ticks and choices say what was seen, and that may have moved.
(() => {
  const KEY = "signalbox-kept";
  const TEXTS = "textarea, input[type=text], input[type=search], input[type=url], input[type=email], input[type=number], input:not([type])";

  const read = () => {
    try {
      return JSON.parse(sessionStorage.getItem(KEY) || "null");
    } catch {
      return null; // storage is off: nothing was kept
    }
  };
  function write(kept) {
    try {
      if (kept) sessionStorage.setItem(KEY, JSON.stringify(kept));
      else sessionStorage.removeItem(KEY);
    } catch {
      // storage is off or full: the browser's own way back is all there is
    }
  }

  const forms = () => [...document.forms].filter((form) => form.method === "post");
  const texts = () => forms().flatMap((form, index) => [...form.querySelectorAll(TEXTS)]
    .filter((field) => field.id || field.name)
    .map((field) => [field.id || `${index} ${field.name}`, field]));
  const page = () => document.querySelector("[data-kept-for]").dataset;

  function keep(sent) {
    const typed = texts().filter(([, field]) => field.value !== field.defaultValue).map(([name, field]) => [name, field.value]);
    if (typed.length) write({ who: page().keptFor, where: page().keptIn, path: location.pathname, sent, typed });
  }

  function layBack(kept) {
    const fields = new Map(texts());
    const found = kept.typed.filter(([name]) => fields.has(name));
    for (const [name, value] of found) {
      fields.get(name).value = value;
      fields.get(name).dispatchEvent(new Event("input", { bubbles: true }));
    }
    document.querySelector("[data-kept-notice]").hidden = found.length === 0;
  }

  // Whether this page is what a form was answered with: it was drawn by it, or led to by it.
  function isAnswer(notice) {
    const [came] = performance.getEntriesByType("navigation");
    return notice.hasAttribute("data-kept-answer") || (came && came.type === "navigate" && came.redirectCount > 0);
  }

  // A page of another kind: the way back is its link where it has one, and the sign-in leads back by itself.
  function leave(kept) {
    write({ ...kept, sent: false });
    const back = document.querySelector("[data-kept-back]");
    if (!back) return;
    back.hidden = false;
    back.querySelector("a").href = kept.path;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const kept = read();
    const notice = document.querySelector("[data-kept-notice]");
    if (!notice) {
      if (kept) leave(kept);
      return;
    }
    if (kept && kept.sent && !isAnswer(notice)) write(Object.assign(kept, { sent: false }));
    const mine = kept && kept.who === page().keptFor;
    const here = mine && kept.where === page().keptIn && kept.path === location.pathname; // in another tenant it is another page
    if (here && !kept.sent) layBack(kept);
    if (kept && (kept.sent || !mine || here)) write(null);
    window.addEventListener("submit", (event) => {
      if (!event.defaultPrevented && event.target.method === "post") keep(true);
    });
    window.addEventListener("pagehide", () => {
      if (document.documentElement.hasAttribute("data-off")) keep(false);
    });
  });
})();
