// Live panels. The line (line.js) carries hints {kind, id, seq} and never content: each hint becomes a DOM event
// `live:<topic>`, and the panels that name the topic in hx-trigger ask for themselves again. A gap, a reconnect or
// {"kind": "resync"} makes every panel ask, and so does every 5 s without a line.
(() => {
  const SETTLE = 250; // at least this long between two events of one topic
  const root = document.documentElement;
  const line = window.signalboxLine;
  const settling = new Map();

  // ── topics ──

  const named = (panels) => [...panels].flatMap((panel) => panel.dataset.live.split(" ")).filter(Boolean);
  const topics = () => [...new Set(named(document.querySelectorAll("[data-live]")))].sort();

  function announce(topic, hint) {
    document.body.dispatchEvent(new CustomEvent(`live:${topic.replace(":", "-")}`, { detail: hint || {} }));
  }

  // The first hint of a topic goes out at once, what follows within SETTLE goes out once at its end.
  function hintTopic(topic, hint) {
    if (line.isFrozen()) {
      line.waits();
    } else if (settling.has(topic)) {
      settling.set(topic, hint);
    } else {
      announce(topic, hint);
      settling.set(topic, null);
      setTimeout(() => {
        const last = settling.get(topic);
        settling.delete(topic);
        if (last) hintTopic(topic, last);
      }, SETTLE);
    }
  }

  let subscribed = "";
  function subscribe() {
    const now = topics();
    if (subscribed === (subscribed = now.join(" "))) return;
    line.send({ subscribe: now });
  }

  document.addEventListener("line:hint", ({ detail: hint }) => hintTopic(hint.id ? `${hint.kind}:${hint.id}` : hint.kind, hint));
  document.addEventListener("line:ask", () => topics().forEach((topic) => announce(topic)));
  document.addEventListener("line:open", () => { subscribed = null; subscribe(); });
  // Only a panel that draws what goes on right now asks without a hint, as it draws on.
  document.addEventListener("line:beat", () => {
    if (!line.isFrozen()) named(document.querySelectorAll("[data-beat]")).forEach((topic) => announce(topic));
  });

  // ── panels ──

  const isPanel = (event) => Boolean(event.target.closest && event.target.closest("[data-live]"));

  // A panel marked data-here shows what the address bar says now, also when it had to wait for its turn.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt.hasAttribute("data-here")) event.detail.path = location.pathname + location.search;
  });
  document.addEventListener("htmx:beforeRequest", (event) => { if (isPanel(event)) line.asks(); });
  // What asks by the clock asks only while somebody can see it, and at once when they look again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.closest("[data-seen]")) event.preventDefault();
  });
  document.addEventListener("htmx:afterRequest", (event) => { if (isPanel(event)) line.isAnswered(event.detail.xhr.status); });
  // What a reader has opened stays open when its panel is drawn anew.
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) => name !== "open" || element.tagName !== "DETAILS";
  // What a panel asked for before the address changed is not what it has to show now.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const asker = event.detail.requestConfig && event.detail.requestConfig.elt;
    if (!asker || !asker.hasAttribute("data-here") || !event.detail.xhr.responseURL) return;
    const asked = new URL(event.detail.xhr.responseURL);
    if (asked.pathname + asked.search !== location.pathname + location.search) event.detail.shouldSwap = false;
  });
  // A panel that was led to the sign-in page must not show it inside the page.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (isPanel(event) && event.detail.xhr.status >= 400) event.detail.shouldSwap = false;
    const path = new URL(event.detail.xhr.responseURL || location.href, location.href).pathname;
    if (path !== root.dataset.signIn || location.pathname === path) return;
    event.detail.shouldSwap = false;
    line.end();
  });
  // An answer that is a page of its own (the database is silent, the form could not be read) is said where the form says why it was
  // refused. Left to itself it would be drawn as a page in the page, or be dropped without a word.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, requestConfig, target } = event.detail;
    if (requestConfig.verb !== "post") return;
    const door = new DOMParser().parseFromString(xhr.responseText, "text/html").querySelector("main.door");
    if (!door || !door.querySelector("[data-kept-back]")) return; // not a page that fails
    const [notice, head, say, again] = ["div", "h3", "p", "p"].map((tag) => document.createElement(tag));
    notice.className = "notice is-stop";
    notice.setAttribute("role", "alert");
    notice.tabIndex = -1;
    head.textContent = door.querySelector("h1").textContent;
    say.textContent = door.querySelector(".prose").textContent.trim();
    again.textContent = requestConfig.elt.dataset.again || "";
    notice.append(head, say, again);
    target.replaceChildren(notice);
    event.detail.shouldSwap = false;
    notice.focus();
  });
  // What is of another tenant than the page is not shown in it, and the page says so until it is answered again.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const tenant = decodeURIComponent(event.detail.xhr.getResponseHeader("Signalbox-Acting-In") || "");
    if (tenant) event.detail.shouldSwap = false;
    if (tenant || isPanel(event)) line.actsIn(tenant);
  });
  document.addEventListener("htmx:afterSettle", () => {
    subscribe();
    const count = document.querySelector("[data-inbox-count]");
    const said = count?.dataset.inboxCount; // "1,000+" where there are more than are counted
    for (const one of document.querySelectorAll("[data-inbox-count-too]")) one.textContent = said || one.textContent;
    if (said) document.title = document.title.replace(/^(\([\d,+]+\) )?/, said === "0" ? "" : `(${said}) `);
  });

  // Whoever does not see the page hears what its head says once that has changed: a state, or how much needs a person.
  let stated = null;
  function tellState() {
    const now = [...document.querySelectorAll("main .head .chip, main [data-told]")].map((one) => one.textContent.trim().replace(/\s+/g, " "));
    const said = document.querySelector("[data-said]");
    if (said && stated !== null && stated !== now.join()) said.textContent = `Now: ${now.filter(Boolean).join(", ")}`;
    stated = now.join();
  }
  document.addEventListener("DOMContentLoaded", tellState);
  document.addEventListener("htmx:afterSettle", tellState);

  // A panel marked data-frozen shows what was; it asks for nothing until it follows again.
  const thaw = () => line.freeze(Boolean(document.querySelector("[data-frozen]")));
  document.addEventListener("htmx:afterSwap", thaw);
  document.addEventListener("DOMContentLoaded", thaw);
})();
