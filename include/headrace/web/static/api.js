// The server's side: everything is asked for by paths relative to the page, so that a proxy's prefix does no harm.

export class Refused extends Error {
  constructor(status, body) {
    super(body.message ?? body.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint ?? "";
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Refused(0, { message: "Airflow's API server does not answer", hint: "Is it running? headrace status tells." });
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

export const overview = () => ask("streams");
export const stream = (id) => ask(`streams/${encodeURIComponent(id)}`);
export const plan = (id) => ask(`streams/${encodeURIComponent(id)}/plan`);

export const act = (id, action, sql) =>
  ask(`streams/${encodeURIComponent(id)}/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Headrace-Action": action },
    body: JSON.stringify({ sql }),
  });
