// Times in the viewer's zone; ages and deadlines that tick by the server's clock, without a request.
(() => {
  const JUMP = 1000;
  const meta = document.querySelector('meta[name="server-now"]');
  let skew = meta ? Date.parse(meta.content) - Date.now() : 0;
  let apart = Date.now() - performance.now(); // as long as nobody sets the clock
  const two = (number) => String(number).padStart(2, "0");
  const now = () => Date.now() + skew;

  // The same words as console/pages/times.py.
  function span(milliseconds) {
    const seconds = Math.max(0, milliseconds / 1000);
    if (seconds < 1) return "0 s";
    const whole = Math.floor(seconds);
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  }

  function zone(at) {
    const minutes = -at.getTimezoneOffset();
    if (!minutes) return "UTC";
    const rest = Math.abs(minutes) % 60;
    return `UTC${minutes < 0 ? "−" : "+"}${Math.floor(Math.abs(minutes) / 60)}${rest ? `:${two(rest)}` : ""}`;
  }

  const timeOfDay = (at) => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

  // A moment on the other side of a change of the hour names its own zone: the one in the top bar is that of now.
  function clock(at, part = "") {
    const today = new Date(now());
    const time = timeOfDay(at) + part + (at.getTimezoneOffset() === today.getTimezoneOffset() ? "" : ` ${zone(at)}`);
    if (at.toDateString() === today.toDateString()) return time;
    const form = { day: "numeric", month: "short", ...(at.getFullYear() !== today.getFullYear() && { year: "numeric" }) };
    return `${at.toLocaleDateString("en-GB", form)} ${time}`;
  }

  // The same words as console/templatetags/moments.py.
  const UNTIL = { left: (rest) => rest, "to-go": (rest) => `${rest} left`, within: (rest) => `in ${rest}` };

  function words(element) {
    const at = new Date(element.dateTime || element.dataset.at);
    if (element.dataset.time === "tick") return timeOfDay(at);
    if (element.dataset.time === "hour") return `${two(at.getHours())}:${two(at.getMinutes())}`;
    if (element.dataset.time === "exact") return clock(at, `.${String(at.getMilliseconds()).padStart(3, "0")}`);
    if (element.dataset.time === "age") return span(now() - at.getTime());
    if (element.dataset.time in UNTIL) {
      const rest = at.getTime() - now();
      return rest > 0 ? UNTIL[element.dataset.time](span(rest)) : element.dataset.past;
    }
    return clock(at);
  }

  function show(element) {
    const text = words(element);
    if (element.textContent !== text) element.textContent = text;
    if (element.dataset.time in UNTIL) {
      const last = new Date(element.dateTime).getTime() - now();
      element.classList.toggle("is-soon", last < 60000);
    }
  }

  function showClock() {
    const element = document.querySelector("[data-clock]");
    if (!element) return;
    const at = new Date(now());
    element.dateTime = at.toISOString();
    element.firstChild.textContent = timeOfDay(at);
    element.lastElementChild.textContent = zone(at);
  }

  // Whoever sets the clock of this computer, or has it set, changes no age: the server is asked anew what time it is. A computer that
  // slept may look the same.
  async function lookAtClock() {
    const found = Date.now() - performance.now();
    if (!meta || Math.abs(found - apart) < JUMP) return;
    apart = found;
    const told = await fetch("/healthz", { cache: "no-store" })
      .then((answer) => answer.text().then(() => Date.parse(answer.headers.get("Signalbox-Now"))), () => NaN);
    if (told) skew = told - Date.now();
    else apart = NaN; // asked again with the next second
  }

  function tick() {
    document.querySelectorAll("[data-time]").forEach(show);
    showClock();
  }

  function start() {
    document.querySelectorAll("[data-zone]").forEach((element) => { element.textContent = zone(new Date()); });
    tick();
  }

  window.signalboxTimes = { now, clock };
  document.addEventListener("DOMContentLoaded", () => {
    start();
    setInterval(() => { tick(); lookAtClock(); }, 1000);
  });
  document.addEventListener("htmx:afterSwap", start);
})();
