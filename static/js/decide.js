// The gates of a form that decides. `form[data-gates]` holds elements with data-gate: a tick is open when ticked, a text
// when it says something, a fieldset when something in it is chosen, anything else when data-gate-open is not "false".
// A gate with data-gate-when="id" counts only while the control with that id is chosen. A gate outside the form names it
// with data-gate-for; one that will not open again says so with data-gate-over; one with data-gate-in opens so many seconds
// after the page came. The button marked data-gated stays off,
// and [data-gate-why] says what is missing, until all are open. The server checks the same again. A form is sent once: a second
// click, or a key beside it, does nothing until the page is shown again. A button with data-take="name" puts what is proposed
// for the field of that name, data-values, into it.
(() => {
  function isOpen(gate) {
    const when = gate.dataset.gateWhen;
    if (when && !document.getElementById(when).checked) return true;
    if (gate.dataset.gateIn) return performance.now() / 1000 >= Number(gate.dataset.gateIn);
    if (gate.type === "checkbox") return gate.checked;
    if (gate.tagName === "FIELDSET") return gate.querySelector("input:checked") !== null;
    if ("value" in gate && gate.tagName !== "LI") return gate.value.trim() !== "";
    return gate.dataset.gateOpen !== "false";
  }

  function closedGates(form) {
    const outside = form.id ? [...document.querySelectorAll(`[data-gate-for="${form.id}"]`)] : [];
    return [...form.querySelectorAll("[data-gate]"), ...outside].filter((gate) => !isOpen(gate));
  }

  function sentence(closed) {
    const reasons = closed.map((gate) => gate.dataset.gate);
    const last = reasons.pop();
    return reasons.length ? `Off until ${reasons.join(", ")} and ${last}.` : `Off until ${last}.`;
  }

  // What will not open again, and the way to what says why.
  function over(gate) {
    const link = document.createElement("a");
    link.href = `#${gate.parentElement.closest("[id]").id}`;
    link.textContent = "What came of it";
    return [`Off: ${gate.dataset.gateOver}. `, link];
  }

  function check(form) {
    const closed = closedGates(form);
    const button = form.querySelector("[data-gated]");
    const held = document.documentElement.hasAttribute("data-off"); // line.js: nothing is sent from this page now
    const told = held && document.querySelector("[data-off-notice]:not([hidden])") !== null;
    if (closed.length || held) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
    const why = form.querySelector("[data-gate-why]");
    why.hidden = closed.length === 0 && !told;
    const last = closed.find((gate) => gate.dataset.gateOver);
    why.replaceChildren(...(last ? over(last) : closed.length ? [sentence(closed)] : told ? [HELD] : []));
  }

  const HELD = "Off: nothing is sent from this page now. The line at the top says why.";
  const checkAll = () => document.querySelectorAll("form[data-gates]").forEach(check);

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-gates]");
    if (form) check(form);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-gates]")) return;
    const [first] = closedGates(event.target);
    if (!first) return;
    event.preventDefault();
    check(event.target);
    if (first.focus) first.focus();
  }, true);
  document.addEventListener("DOMContentLoaded", () => {
    checkAll();
    for (const gate of document.querySelectorAll("[data-gate-in]")) setTimeout(checkAll, gate.dataset.gateIn * 1000);
  });
  document.addEventListener("htmx:afterSwap", checkAll);
  document.addEventListener("line:held", checkAll);

  function take(button) {
    const values = JSON.parse(button.dataset.values);
    const fields = [...button.closest("form").querySelectorAll(`[name="${CSS.escape(button.dataset.take)}"]`)];
    for (const field of fields) {
      if (/^(radio|checkbox)$/.test(field.type)) field.checked = values.includes(field.value);
      else [field.value] = values;
    }
    fields[0].dispatchEvent(new Event("input", { bubbles: true }));
    (fields.find((field) => field.checked) || fields[0]).focus();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-take]");
    if (button) take(button);
  });

  const sent = new WeakSet();
  window.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (sent.has(event.target)) event.preventDefault();
    sent.add(event.target);
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) for (const form of document.forms) sent.delete(form);
  });
})();
