// The plan of a job's query as steps through which rows pass, and as text.

import { element } from "./dom.js";

export function planPanel({ plan, chains }) {
  if (!chains.length) return element("div", {}, element("pre", {}, plan));
  return element(
    "div",
    { class: "plan" },
    element("div", { class: "plan-picture", role: "group", "aria-label": "Steps of the plan" }, inputs(chains)),
    element("details", {}, element("summary", {}, "As text"), element("pre", {}, plan)),
  );
}

// Chains that end in the same step, side by side.
function inputs(chains) {
  return element("div", { class: "plan-inputs" }, chains.map(chain));
}

function chain(steps) {
  const [first] = steps;
  const before = first.inputs.length ? inputs(first.inputs) : null;
  return element("div", { class: "plan-chain" }, before, element("ol", { class: "plan-steps" }, steps.map((one, index) => step(one, index === 0 && !before))));
}

function step({ kind, texts }, isSource) {
  return element(
    "li",
    { class: `step ${kind.replaceAll(" ", "-")}${isSource ? " first" : ""}` },
    element("b", {}, kind),
    texts.length > 1 ? element("ul", {}, texts.map((text) => element("li", {}, text))) : element("span", {}, texts[0] ?? ""),
  );
}
