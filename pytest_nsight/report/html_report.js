"use strict";
(() => {
  const root = document.documentElement;
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const cases = [...document.querySelectorAll("details.subject")];
  const buttons = [...document.querySelectorAll("button[data-kind]")];
  const rows = new Map([...document.querySelectorAll("svg.forest a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const chosen = new Set();
  root.classList.add("js");

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let number = 0;
    for (const one of cases) {
      const text = one.dataset.text;
      const fits = words.every((word) => text.includes(word)) && (!chosen.size || chosen.has(one.dataset.kind));
      one.hidden = !fits;
      rows.get(one.id)?.classList.toggle("faded", !fits);
      number += fits ? 1 : 0;
    }
    shown.textContent = `${number} of ${cases.length}`;
  }

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
      target.querySelector("summary").focus({ preventScroll: true });
    }
  }

  function step(by) {
    const visible = cases.filter((one) => !one.hidden);
    const at = visible.findIndex((one) => one.contains(document.activeElement));
    const next = visible[Math.min(Math.max(at + by, 0), visible.length - 1)];
    next?.querySelector("summary").focus();
  }

  const keys = {
    "/": () => search.focus(),
    j: () => step(1),
    k: () => step(-1),
    e: () => {
      const visible = cases.filter((one) => !one.hidden);
      const open = visible.some((one) => !one.open);
      for (const one of visible) one.open = open;
    },
  };

  search.addEventListener("input", filter);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const kind = button.dataset.kind;
      if (!chosen.delete(kind)) chosen.add(kind);
      button.setAttribute("aria-pressed", String(chosen.has(kind)));
      filter();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      filter();
      search.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.activeElement === search) return;
    const action = keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  window.addEventListener("hashchange", openTarget);
  window.addEventListener("beforeprint", () => cases.forEach((one) => { one.open = !one.hidden; }));
  filter();
  openTarget();
})();
