// Whose a job is, and who has privileges on what it reads and writes.

import { element } from "./dom.js";
import { wideTable } from "./parts.js";

const HEADS = ["User", "Privilege", "On", "Through role", "Rows with"];

// The rights of one job. The node is kept while the page around it is drawn again.
export class Rights {
  constructor(fetchRights) {
    this.fetchRights = fetchRights;
    this.node = element("section", { class: "rights", "aria-label": "Rights" }, element("p", { class: "quiet", role: "status" }, "Loading the rights…"));
    this.load();
  }

  async load() {
    try {
      this.node.replaceChildren(...describe(await this.fetchRights()));
    } catch (error) {
      this.node.replaceChildren(element("p", { class: "bad", role: "status" }, [error.message, error.hint].filter(Boolean).join(": ")));
    }
  }
}

function describe(rights) {
  const owner = element("p", {}, "It runs with the rights of ", element("strong", {}, rights.owner), ", as they are at the time.");
  if (!rights.has_users) return [owner, element("p", { class: "quiet" }, "The catalog has no users: the rights on the DAG in Airflow decide.")];
  return [owner, rights.grants.length ? table(rights.grants) : element("p", { class: "quiet" }, "No user has a privilege that concerns it."), note(rights)];
}

function table(grants) {
  const row = (one) => element("tr", {}, [one.user, one.privilege, one.target, one.role ?? "", one.condition].map((text) => element("td", {}, text)));
  const head = element("thead", {}, element("tr", {}, HEADS.map((name) => element("th", { scope: "col" }, name))));
  return wideTable("Privileges", element("table", {}, head, element("tbody", {}, grants.map(row))));
}

const note = (rights) => (rights.is_all ? "" : element("p", { class: "quiet" }, "These are your own privileges. It takes MANAGE_USER to see those of others."));
