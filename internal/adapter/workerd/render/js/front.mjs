// The front: stands before the user's worker while it is developed. It tells the host of each request, and answers with
// the error when fetch throws one.

// The longest path that is told, in characters.
const MAX_PATH = 300;

function post(env, path, value) {
  return env.HOST.fetch(`http://host${path}`, { method: "POST", body: JSON.stringify(value) });
}

// The host knows the place in the user's sources.
async function explain(env, error) {
  let text = String(error);
  try {
    const answer = await post(env, "/uncaught", { name: String(error?.name ?? ""), message: String(error?.message ?? error) });
    text = (answer.ok && (await answer.text())) || text;
  } catch {
    // The host ends.
  }
  return new Response(`${text}\n`, { status: 500 });
}

async function tell(env, request, status, milliseconds) {
  const { pathname, search } = new URL(request.url);
  try {
    await post(env, "/request", { method: request.method, path: (pathname + search).slice(0, MAX_PATH), status, milliseconds });
  } catch {
    // The host ends.
  }
}

export default {
  async fetch(request, env, ctx) {
    const began = Date.now();
    let response;
    try {
      response = await env.WORKER.fetch(request);
    } catch (error) {
      response = await explain(env, error);
    }
    ctx.waitUntil(tell(env, request, response.status, Date.now() - began));
    return response;
  },
};
