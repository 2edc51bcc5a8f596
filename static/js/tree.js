// A nested list becomes a tree for the keyboard: one stop for Tab, up and down move, left and right fold and unfold, Enter
// opens. Without script it is the same list with every link in it. A tree that was drawn anew is folded, and has its stop, as before.
(() => {
  const folded = new Set(); // ids of nodes
  let at = ""; // that of the stop
  let held = false; // whether the keyboard was on it when the tree was drawn anew
  const nodes = () => [...document.querySelectorAll("[data-tree] [data-node]")];
  const shown = () => nodes().filter((node) => node.getClientRects().length > 0);
  const link = (node) => node.querySelector(":scope > p a");
  const group = (node) => node.querySelector(":scope > ul");

  function fold(node, closed) {
    const below = group(node);
    if (!below) return;
    below.hidden = closed;
    if (closed) folded.add(node.id);
    else folded.delete(node.id);
    node.setAttribute("aria-expanded", String(!closed));
  }

  function stop(node) {
    at = node.id;
    nodes().forEach((one) => { one.tabIndex = one === node ? 0 : -1; });
  }

  function dress() {
    const root = document.querySelector("[data-tree] > ul");
    if (!root || root.getAttribute("role") === "tree") return;
    root.setAttribute("role", "tree");
    root.setAttribute("aria-label", root.parentElement.getAttribute("aria-label"));
    root.querySelectorAll("ul").forEach((list) => list.setAttribute("role", "group"));
    nodes().forEach((node) => {
      node.setAttribute("role", "treeitem");
      node.setAttribute("aria-level", node.dataset.level);
      node.setAttribute("aria-posinset", node.dataset.position);
      node.setAttribute("aria-setsize", node.dataset.siblings);
      node.setAttribute("aria-label", node.querySelector(":scope > p").textContent.trim().replace(/\s+/g, " "));
      link(node).tabIndex = -1;
      fold(node, folded.has(node.id));
    });
    stop(document.getElementById(at) || root.querySelector("[aria-current]") || nodes()[0]);
    if (held) document.getElementById(at).focus({ preventScroll: true });
  }

  function go(node) {
    if (!node) return;
    stop(node);
    node.focus();
    node.scrollIntoView({ block: "nearest" });
  }

  function press(node, key) {
    const all = shown();
    const at = all.indexOf(node);
    const open = group(node) && !group(node).hidden;
    if (key === "ArrowDown") go(all[at + 1]);
    else if (key === "ArrowUp") go(all[at - 1]);
    else if (key === "Home") go(all[0]);
    else if (key === "End") go(all[all.length - 1]);
    else if (key === "ArrowRight" && open) go(all[at + 1]);
    else if (key === "ArrowRight") fold(node, false);
    else if (key === "ArrowLeft" && open) fold(node, true);
    else if (key === "ArrowLeft") go(node.parentElement.closest("[data-node]"));
    else if (key === "Enter") location.assign(link(node).href);
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    const node = event.target.matches && event.target.matches("[data-node]") && event.target;
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(node, event.key)) { event.preventDefault(); event.stopPropagation(); }
  });
  document.addEventListener("DOMContentLoaded", dress);
  document.addEventListener("htmx:beforeSwap", () => { held = document.activeElement.matches("[data-node]"); });
  document.addEventListener("htmx:afterSwap", dress);
})();
