// The line to the server: one socket for each page, and what the page may say of itself. What a hint means for the panels is in
// live.js, which listens to the events sent here: `line:hint`, `line:ask` (anything may have changed), `line:open` and
// `line:beat`. While a page is in view it probes that somebody answers, which costs the server no query; five seconds after the last
// word of the server it is not called live any more. A hidden page goes on hearing hints and probes nothing; it proves its line
// when it is looked at again.
(() => {
  const POLL = 5000;
  const TICK = 500;
  const PROBE = 1500; // the server is asked to say something when it has been silent for so long
  const PATIENCE = 2500; // a line on which it stays silent then is not live
  const LOST = 10000; // and is given up
  const HANDSHAKE = 10000;
  const SLEPT = 4000; // no clock of a page that is awake stands still for so long
  const FLICKER = 300; // catching up that is over before this pushes no notice into the page
  const LONGEST = 15000;
  const SESSION_ENDED = 4401;
  const SIGNS = {
    live: ["is-clear", "lamp", "Live"],
    catching: ["is-caution", "catch", "Catching up"],
    asking: ["is-caution", "clock", "Asking every 5 s"],
    offline: ["is-stop", "stop", "Offline"],
    frozen: ["is-neutral", "freeze", "Frozen by you"],
    elsewhere: ["is-stop", "stop", "Other tenant"],
    ended: ["is-stop", "stop", "Signed out"],
  };
  const root = document.documentElement;
  // Since when, in words: no socket; nobody answers on it; the server itself hears nothing; it answers with errors; nobody
  // answers at all; the page slept.
  const since = { down: null, silent: null, deaf: null, failing: null, offline: null, slept: null };
  let socket = null;
  let seen = 0;
  let answers = false; // the server has said something on this socket
  let delay = 500;
  let retry = null;
  let ended = false;
  let elsewhere = ""; // the tenant that the person acts in now, where it is not that of the page
  let leaving = false;
  let frozen = null; // how many changes wait while the reader holds the page still
  let asking = 0; // panels that wait for an answer
  let heardAt = Date.now();
  let tickedAt = Date.now();
  let probedAt = null;
  let wokeAt = 0;
  let proved = false; // since the page woke, the server has said what was missed

  const time = (at) => window.signalboxTimes.clock(new Date(window.signalboxTimes.now() - Date.now() + at));
  const emit = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
  const isOpen = () => socket !== null && socket.readyState === WebSocket.OPEN;

  // ── what the page says ──

  function state() {
    if (ended) return ["ended", "sign in again to go on"];
    if (elsewhere) return ["elsewhere", `you act in ${elsewhere} now; nothing new is shown here`];
    if (since.offline) return ["offline", `since ${since.offline}`];
    if (since.slept) return ["catching", `the page slept from ${since.slept} on`];
    if (frozen !== null) return ["frozen", `${frozen} ${frozen === 1 ? "change waits" : "changes wait"}`];
    if (since.failing) return ["asking", `the server does not show what is new since ${since.failing}`];
    if (since.down || since.silent) return ["asking", `no live line since ${since.down || since.silent}`];
    if (since.deaf) return ["asking", `the server hears nothing new since ${since.deaf}`];
    if (asking || !isOpen() || !answers) return ["catching", ""];
    return ["live", ""];
  }

  function why() {
    if (ended) return "Your session has ended. Nothing you do here is sent.";
    if (elsewhere) return `You act in ${elsewhere} now, and this page is of another tenant. Nothing you do here is sent.`;
    if (since.offline) return `Offline since ${since.offline}. Nothing you do here is sent until the line is back.`;
    return `This page slept from ${since.slept} on and is catching up. Nothing you do here is sent until it shows what is now.`;
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
    const blocked = ended || Boolean(elsewhere || since.offline || since.slept);
    root.toggleAttribute("data-off", blocked);
    const notice = document.querySelector("[data-off-notice]");
    if (!notice) return;
    notice.hidden = !blocked || (key === "catching" && Date.now() - wokeAt < FLICKER);
    if (blocked) notice.querySelector("[data-off-why]").textContent = why();
    notice.querySelector("[data-off-sign-in]").hidden = !ended;
    notice.querySelector("[data-off-tenant]").hidden = ended || !elsewhere;
    hold(blocked, !notice.hidden);
  }

  // Buttons that send are off to the ear as well, not only in their looks. Those of gates say why beside them (decide.js).
  let held = "";

  function hold(blocked, said) {
    const now = blocked ? `off ${said}` : "";
    if (now === held) return;
    held = now;
    const [which, act] = blocked ? [":not([data-gated], [aria-disabled])", "setAttribute"] : ["[data-held]", "removeAttribute"];
    const sending = [...document.querySelectorAll(`button${which}`)].filter((one) => one.form && one.form.method === "post");
    for (const button of sending) for (const name of ["aria-disabled", "data-held"]) button[act](name, "true");
    emit("line:held");
  }

  function mark(what, is) {
    since[what] = is ? since[what] || time(heardAt) : null;
  }

  // ── asking ──

  function ask() {
    proved = true;
    if (frozen === null) emit("line:ask");
    else fetch("/healthz", { cache: "no-store" })
      .then((answer) => answer.text()) // an answer that nobody reads keeps its connection
      .then(() => answered(true), () => mark("offline", true)).then(show);
    caughtUp();
  }

  // Something came back over HTTP; `read` is false where the server could not say what is new.
  function answered(read) {
    mark("failing", !read);
    since.offline = null;
    heardAt = Date.now();
  }

  function caughtUp() {
    if (proved && !asking && !since.failing) since.slept = null;
    show();
  }

  // ── the socket ──

  function send(message) {
    if (isOpen()) socket.send(JSON.stringify(message));
  }

  function probe() {
    if (!isOpen()) return;
    probedAt = Date.now();
    send({ probe: true });
  }

  function receive(event) {
    if (event.target !== socket) return;
    const said = JSON.parse(event.data);
    heardAt = Date.now();
    probedAt = null;
    since.silent = null;
    answers = true;
    if ("heard" in said || "subscribed" in said) proved = true;
    if ("hears" in said) mark("deaf", !said.hears);
    const missed = said.seq ? said.seq !== seen + 1 : said.heard > seen;
    seen = Math.max(seen, said.seq || said.heard || 0);
    if (missed || (said.kind === "resync" && said.hears)) ask();
    else if (said.kind && said.kind !== "resync") emit("line:hint", said);
    caughtUp();
  }

  function opened(event) {
    if (event.target !== socket) return;
    const again = since.down !== null;
    since.down = null;
    since.offline = null;
    heardAt = Date.now();
    probedAt = heardAt; // it answers what is subscribed to
    delay = 500;
    seen = 0; // sequences count per connection
    answers = false;
    emit("line:open");
    if (again) ask();
    show();
  }

  function closed(event) {
    if (event.target === socket) lose(event.code);
  }

  function lose(code) {
    socket = null;
    probedAt = null;
    since.silent = null;
    if (leaving) return;
    if (code === SESSION_ENDED) {
      ended = true;
    } else {
      mark("down", true);
      retry = setTimeout(connect, delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, LONGEST);
      ask();
    }
    show();
  }

  function connect() {
    clearTimeout(retry);
    if (ended || socket) return;
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    probedAt = Date.now();
    socket.addEventListener("open", opened);
    socket.addEventListener("message", receive);
    socket.addEventListener("close", closed);
  }

  // ── time passes ──

  // The clock was set back: what was heard "later" than now would keep a dead line from being asked.
  function setBack(now) {
    tickedAt = heardAt = now;
    if (probedAt !== null) probedAt = now;
    probe();
  }

  function tick() {
    const now = Date.now();
    if (now < tickedAt) setBack(now);
    const slept = now - tickedAt > SLEPT;
    const last = tickedAt;
    tickedAt = now;
    if (document.hidden || ended) return;
    if (slept) wake(last);
    else if (probedAt !== null) isSilent(now - probedAt);
    else if (now - heardAt >= PROBE) probe();
    show();
  }

  // What slept is given up soon: its line is most often dead, and a new one is quick.
  function isSilent(milliseconds) {
    const long = !isOpen() ? HANDSHAKE : since.slept ? PATIENCE : LOST;
    if (milliseconds > long) giveUp();
    else if (milliseconds > PATIENCE && isOpen() && !since.silent) {
      mark("silent", true);
      ask();
    }
  }

  function giveUp() {
    const dead = socket;
    lose(0);
    if (dead) dead.close();
  }

  // The page was not awake since then: it says so, and nothing is sent from it until it has caught up.
  function wake(at) {
    if (ended) return;
    wokeAt = Date.now();
    since.slept = since.slept || time(at);
    proved = false;
    probedAt = null;
    delay = 500;
    if (socket) probe();
    else connect();
    if (since.down) ask();
    setTimeout(show, FLICKER);
    show();
  }

  function lookedAt() {
    if (document.hidden) return;
    tickedAt = Date.now();
    if (tickedAt - heardAt > SLEPT) wake(heardAt);
  }

  window.signalboxLine = {
    send,
    show,
    /** Whether a reader holds the page still; a change that comes meanwhile is counted. */
    isFrozen: () => frozen !== null,
    freeze(held) {
      if (held !== (frozen !== null)) frozen = held ? 0 : null;
      show();
    },
    waits() {
      frozen += 1;
      show();
    },
    asks() {
      asking += 1;
      show();
    },
    isAnswered(status) {
      asking = Math.max(0, asking - 1);
      if (status) answered(status < 400); // a panel that may not be read any more shows what was
      caughtUp();
    },
    end() {
      ended = true;
      show();
    },
    /** The person acts in another tenant than that of the page; "" once they act in this one again. */
    actsIn(tenant) {
      elsewhere = tenant;
      show();
    },
  };

  document.addEventListener("htmx:sendError", () => { if (!leaving) { mark("offline", true); show(); } });
  document.addEventListener("submit", (event) => {
    if (root.hasAttribute("data-off") && event.target.method === "post") event.preventDefault();
  }, true);
  window.addEventListener("offline", () => { mark("offline", true); show(); });
  window.addEventListener("online", () => { delay = 500; connect(); probe(); ask(); });
  window.addEventListener("pagehide", () => { leaving = true; });
  window.addEventListener("pageshow", (event) => { leaving = false; if (event.persisted) wake(heardAt); });
  document.addEventListener("visibilitychange", lookedAt);
  document.addEventListener("resume", lookedAt);
  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("[data-live-state]")) return;
    connect();
    show();
    setInterval(tick, TICK);
    setInterval(() => {
      if (ended || document.hidden) return;
      if (since.down || since.silent || since.deaf || since.failing || since.offline) ask();
      else emit("line:beat");
    }, POLL);
  });
})();
