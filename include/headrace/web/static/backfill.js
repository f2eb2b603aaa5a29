// The form that starts a run of a job's DAG, which computes a range again.

import { element, zonedInstant, zoneName } from "./dom.js";
import { airflowLink } from "./parts.js";

const WHAT = {
  stream: "Computes the windows that start in the range again, in chunks, while the stream runs.",
  query: "Repeats all executions whose ranges overlap this one, and replaces their rows.",
  pipe: "Transfers the range again.",
};

// The node is kept while the page around it is drawn again.
export class BackfillForm {
  // `start` starts a run over a range and returns the run's id.
  constructor(row, start) {
    Object.assign(this, { row, start });
    const field = () => element("input", { type: "datetime-local", step: "1" });
    this.from = field();
    this.to = field();
    this.button = element("button", {}, "Start backfill");
    this.outcome = element("p", { role: "status" });
    const submit = (event) => {
      event.preventDefault();
      this.submit();
    };
    this.node = element(
      "form",
      { class: "backfill-form", "aria-label": "Start a backfill", on: { submit } },
      element("p", { class: "quiet" }, WHAT[row.layout] ?? "", row.layout === "query" ? " Without both ends, only the latest is repeated." : " Without both ends, all of it."),
      element("div", { class: "backfill-fields" }, element("label", {}, "From ", this.from), element("label", {}, "To ", this.to), element("span", { class: "quiet" }, `in ${zoneName()}`), this.button),
      this.outcome,
    );
  }

  async submit() {
    const text = ({ value }) => (value ? new Date(zonedInstant(value)).toISOString() : null);
    this.button.disabled = true;
    this.outcome.className = "quiet";
    this.outcome.textContent = "Starting…";
    try {
      const run = await this.start({ from: text(this.from), to: text(this.to) });
      this.outcome.replaceChildren("Started the run ", airflowLink(`dags/${encodeURIComponent(this.row.dag_id)}/runs/${encodeURIComponent(run)}`, run), " of its DAG.");
    } catch (error) {
      this.outcome.className = "bad";
      this.outcome.textContent = error.status === 403 ? "You have no right to trigger its DAG in Airflow." : [error.message, error.hint].filter(Boolean).join(": ");
    }
    this.button.disabled = false;
  }
}
