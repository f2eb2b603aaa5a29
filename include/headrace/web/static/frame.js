// The page within Airflow's UI: its theme, and its address.

// Follows the theme chosen in Airflow's UI, or else the system's. `changed` is called after each change.
export function followTheme(changed = () => {}) {
  const apply = () => {
    const stored = localStorage.getItem("theme");
    const dark = stored === "dark" || (stored !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    changed();
  };
  apply();
  addEventListener("storage", apply);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
}

// Mirrors the address to Airflow's outer page, so that it can be bookmarked.
export function updateAirflowUrl() {
  if (window.parent === window) return;
  const outer = window.parent.location.pathname;
  const index = outer.indexOf("/plugin/headrace");
  if (index < 0) return;
  const root = outer.slice(0, index + "/plugin/headrace".length);
  window.parent.history.replaceState(window.parent.history.state, "", `${root}${location.pathname}${location.search}`);
}
