// Client of the JSON API. Paths are relative to the page, so they work behind a proxy's prefix.

// An error response, or status 0 if there was none.
export class ApiError extends Error {
  constructor(status, body) {
    super(body.message ?? (typeof body.detail === "string" ? body.detail : null) ?? `the server responded with status ${status}`);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint ?? "";
  }
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, { message: "Airflow's API server does not respond", hint: "Check it with headrace status." });
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

export const fetchOverview = () => request("jobs");
export const fetchGraph = () => request("graph");
export const fetchJob = (id) => request(`jobs/${encodeURIComponent(id)}`);
export const fetchPlan = (id) => request(`jobs/${encodeURIComponent(id)}/plan`);
export const fetchLineage = (id) => request(`jobs/${encodeURIComponent(id)}/lineage`);
export const fetchVersions = (id) => request(`jobs/${encodeURIComponent(id)}/versions`);
export const fetchFlow = (id, over) => request(`jobs/${encodeURIComponent(id)}/flow?over=${over}`);
export const fetchRights = (id) => request(`jobs/${encodeURIComponent(id)}/rights`);

// `choice` has a subtable, the value of a tag, and an instant before which windows start, as far as they are chosen.
export const fetchWindows = (id, choice) => {
  const query = new URLSearchParams(Object.entries(choice).filter(([, value]) => value !== null && value !== ""));
  return request(`jobs/${encodeURIComponent(id)}/windows${query.size ? `?${query}` : ""}`);
};

export const fetchMetrics = (id, over) => request(`jobs/${encodeURIComponent(id)}/metrics?over=${over}`);

// Airflow's own API, which goes by the user's rights to trigger the DAG. The range is that of its form.
export async function startBackfill(dagId, range) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ logical_date: null, conf: range }) };
  const run = await request(`../../api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, options);
  return run.dag_run_id;
}

export const runAction = (id, action, sql) =>
  request(`jobs/${encodeURIComponent(id)}/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Headrace-Action": action },
    body: JSON.stringify({ sql }),
  });
