// One socket per page. It carries hints {kind, id, seq} and never content: each hint becomes a DOM event
// `live:<topic>`, and the panels that name the topic in hx-trigger ask for themselves again. A gap, a reconnect or
// {"kind": "resync"} makes every panel ask. While the socket is down the panels ask every 5 s.
(() => {
  const POLL = 5000;
  const SETTLE = 250; // at least this long between two events of one topic
  const SESSION_ENDED = 4401;
  const SIGNS = {
    live: ["is-clear", "lamp", "Live"],
    catching: ["is-caution", "catch", "Catching up"],
    asking: ["is-caution", "clock", "Asking every 5 s"],
    offline: ["is-stop", "stop", "Offline"],
    frozen: ["is-neutral", "freeze", "Frozen by you"],
    ended: ["is-stop", "stop", "Signed out"],
  };
  const root = document.documentElement;
  const settling = new Map();
  let socket = null;
  let seen = 0;
  let delay = 500;
  let downSince = null;
  let offlineSince = null;
  let ended = false;
  let frozen = null;
  let asking = 0;

  // ── what the top bar says ──

  function state() {
    if (ended) return ["ended", "sign in again to go on"];
    if (offlineSince) return ["offline", `since ${offlineSince}; the page shows what was known then`];
    if (frozen !== null) return ["frozen", `${frozen} ${frozen === 1 ? "change waits" : "changes wait"}`];
    if (downSince) return ["asking", `no live line since ${downSince}`];
    if (asking || !socket || socket.readyState !== WebSocket.OPEN) return ["catching", ""];
    return ["live", ""];
  }

  function show() {
    const [key, note] = state();
    const element = document.querySelector("[data-live-state]");
    if (element && element.dataset.liveState + element.title !== key + note) {
      const [lamp, icon, word] = SIGNS[key];
      const use = element.querySelector("use");
      use.setAttribute("href", `${use.getAttribute("href").split("#")[0]}#i-${icon}`);
      element.className = `live ${lamp}`;
      element.querySelector("[data-live-word]").textContent = word;
      element.querySelector("[data-live-note]").textContent = note;
      element.title = note;
      const help = element.querySelector("[data-help]");
      help.dataset.help = `live-${key}`;
      help.hash = `live-${key}`;
      element.dataset.liveState = key;
    }
    const blocked = ended || Boolean(offlineSince);
    root.toggleAttribute("data-off", blocked);
    const notice = document.querySelector("[data-off-notice]");
    if (notice) {
      notice.hidden = !blocked;
      notice.querySelector("[data-off-why]").textContent = ended
        ? "Your session has ended. Nothing you do here is sent."
        : `Offline since ${offlineSince}. Nothing you do here is sent until the line is back.`;
      notice.querySelector("[data-off-sign-in]").hidden = !ended;
    }
  }

  const time = () => window.signalboxTimes.clock(new Date(window.signalboxTimes.now()));

  function setOffline(off) {
    if (off && !offlineSince) offlineSince = time();
    if (!off) offlineSince = null;
    show();
  }

  // ── topics ──

  function topics() {
    const names = [...document.querySelectorAll("[data-live]")].flatMap((panel) => panel.dataset.live.split(" "));
    return [...new Set(names.filter(Boolean))].sort();
  }

  function announce(topic, hint) {
    document.body.dispatchEvent(new CustomEvent(`live:${topic.replace(":", "-")}`, { detail: hint || {} }));
  }

  // The first hint of a topic goes out at once, what follows within SETTLE goes out once at its end.
  function hintTopic(topic, hint) {
    if (frozen !== null) {
      frozen += 1;
      show();
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

  function askAll() {
    if (frozen === null) topics().forEach((topic) => announce(topic));
  }

  // While the line is down every panel asks; else only one that draws what goes on right now, as it draws on.
  function beat() {
    if (downSince) askAll();
    else if (frozen === null) {
      const drawing = [...document.querySelectorAll("[data-beat]")].flatMap((panel) => panel.dataset.live.split(" "));
      drawing.forEach((topic) => announce(topic));
    }
  }

  function subscribe() {
    if (socket && socket.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ subscribe: topics(), since: seen }));
    }
  }

  // ── the socket ──

  function receive(event) {
    const hint = JSON.parse(event.data);
    if (hint.kind === "resync" || (hint.seq && seen && hint.seq !== seen + 1)) askAll();
    else if (hint.kind) hintTopic(hint.id ? `${hint.kind}:${hint.id}` : hint.kind, hint);
    if (hint.seq) seen = hint.seq;
    show();
  }

  function opened() {
    const reconnected = downSince !== null;
    downSince = null;
    offlineSince = null;
    delay = 500;
    seen = 0; // sequences count per connection
    subscribe();
    if (reconnected) askAll();
    show();
  }

  function closed(event) {
    socket = null;
    if (event.code === SESSION_ENDED) {
      ended = true;
    } else {
      downSince = downSince || time();
      setTimeout(connect, delay + Math.random() * 250);
      delay = Math.min(delay * 2, 15000);
    }
    show();
  }

  function connect() {
    if (ended || socket) return;
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    socket.addEventListener("open", opened);
    socket.addEventListener("message", receive);
    socket.addEventListener("close", closed);
  }

  // ── panels ──

  const isPanel = (event) => Boolean(event.target.closest && event.target.closest("[data-live]"));

  // A panel marked data-here shows what the address bar says now, also when it had to wait for its turn.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt.hasAttribute("data-here")) event.detail.path = location.pathname + location.search;
  });
  document.addEventListener("htmx:beforeRequest", (event) => { if (isPanel(event)) asking += 1; });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!isPanel(event)) return;
    asking = Math.max(0, asking - 1);
    if (event.detail.xhr.status) setOffline(false);
    show();
  });
  document.addEventListener("htmx:sendError", () => setOffline(true));
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
    ended = true;
    show();
  });
  document.addEventListener("htmx:afterSettle", () => {
    subscribe();
    const count = document.querySelector("[data-inbox-count]");
    if (count) document.title = document.title.replace(/^(\(\d+\) )?/, Number(count.dataset.inboxCount) ? `(${count.dataset.inboxCount}) ` : "");
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

  // ── the hand on the page ──

  document.addEventListener("submit", (event) => {
    if (root.hasAttribute("data-off") && event.target.method === "post") event.preventDefault();
  }, true);
  // A panel marked data-frozen shows what was; it asks for nothing until it follows again.
  function thaw() {
    const held = Boolean(document.querySelector("[data-frozen]"));
    if (held !== (frozen !== null)) frozen = held ? 0 : null;
    show();
  }
  document.addEventListener("htmx:afterSwap", thaw);
  window.addEventListener("offline", () => setOffline(true));
  window.addEventListener("online", () => { askAll(); connect(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) connect(); });
  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("[data-live-state]")) return;
    thaw();
    connect();
    show();
    setInterval(() => { if (!ended && !document.hidden) beat(); }, POLL);
  });
})();
