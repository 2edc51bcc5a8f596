// The remembered theme, before anything is drawn. "auto" follows the system.
(() => {
  const root = document.documentElement;

  function remembered() {
    try {
      return localStorage.getItem("theme") || "auto";
    } catch {
      return "auto"; // storage is off: the system decides
    }
  }

  function show(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    }
  }

  function choose(theme) {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // storage is off: the choice holds for this page
    }
    show(theme);
  }

  show(remembered());
  document.addEventListener("DOMContentLoaded", () => show(remembered()));
  window.addEventListener("storage", (event) => event.key === "theme" && show(remembered()));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (button) choose(button.dataset.themeChoice);
  });
})();
