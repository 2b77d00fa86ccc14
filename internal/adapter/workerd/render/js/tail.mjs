// The tail: hands the logs and exceptions of each invocation to the host, and stays silent when there are none, but for
// deliveries when somebody waits for the end of their logs.

// One post stays under what the host reads: at most 4 bytes a character.
const MAX_CHARACTERS = 1 << 20;

// The console of the user's worker gives one text; what it does not format comes as JSON.
function textOf({ message }) {
  const values = Array.isArray(message) ? message : [message];
  return values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" ");
}

function describe(item) {
  const event = item.event ?? {};
  const channel = (name) => item.diagnosticsChannelEvents.find((e) => e.channel === name)?.message;
  const thrown = channel("runlot:exception");
  const exceptions = item.exceptions.length === 0 && thrown ? [thrown] : item.exceptions;
  return {
    outcome: item.outcome,
    kind: "queue" in event ? "queue" : "cron" in event ? "scheduled" : "request" in event ? "fetch" : "",
    queue: event.queue,
    cron: event.cron,
    scheduledTime: event.scheduledTime === undefined ? undefined : Number(event.scheduledTime),
    mark: channel("runlot:delivery"),
    truncated: item.truncated,
    exceptions: exceptions.map(({ timestamp, name, message, stack }) => ({ timestamp, name, message, stack })),
    logs: item.logs.map((log) => ({ timestamp: log.timestamp, level: log.level, text: textOf(log) })),
  };
}

// Whether somebody follows the app, so that every invocation is told.
let watched = false;

// What an invocation was for, in the shape that clients of Cloudflare's tail know.
function eventOf({ event }) {
  if (!event) return null;
  if ("request" in event) {
    const { url, method, headers, cf } = event.request;
    return { request: { url, method, headers: { ...headers }, cf: cf ?? {} }, response: event.response && { status: event.response.status } };
  }
  if ("queue" in event) return { queue: event.queue, batchSize: event.batchSize };
  if ("cron" in event) return { cron: event.cron, scheduledTime: Number(event.scheduledTime) };
  if ("rpcMethod" in event) return { rpcMethod: event.rpcMethod };
  if ("scheduledTime" in event) return { scheduledTime: event.scheduledTime };
  if ("getWebSocketEvent" in event) {
    const { webSocketEventType, code, wasClean } = event.getWebSocketEvent;
    return { getWebSocketEvent: { webSocketEventType, code, wasClean } };
  }
  return {};
}

async function tell(item, env) {
  const { outcome, truncated, exceptions, logs } = describe(item);
  const told = {
    outcome, truncated, exceptions, logs, entrypoint: item.entrypoint ?? "", timestamp: item.eventTimestamp ?? Date.now(),
    wall: item.wallTime ?? 0, cpu: item.cpuTime ?? 0, event: eventOf(item),
  };
  let body = JSON.stringify(told);
  if (body.length > MAX_CHARACTERS) body = JSON.stringify({ ...told, logs: [], truncated: true });
  await env.HOST.fetch("http://host/invocation", { method: "POST", body });
}

export default {
  fetch(request) {
    watched = new URL(request.url).pathname === "/watch";
    return new Response(null, { status: 204 });
  },

  // What a handler throws is told at once where its trace comes only when everything given to waitUntil is over.
  tailStream(onset, env) {
    if (onset.event.info?.type !== "queue") return undefined;
    let mark;
    return {
      async diagnosticChannel({ event: { channel, message } }) {
        if (channel === "runlot:delivery") mark = message;
        if (channel !== "runlot:exception") return;
        await env.HOST.fetch("http://host/", { method: "POST", body: JSON.stringify({ kind: "queue", early: true, mark, exceptions: [message] }) });
      },
    };
  },

  async tail(items, env) {
    for (const item of items) {
      if (watched) await tell(item, env);
      const awaited = env.AWAITED && "queue" in (item.event ?? {});
      if (!awaited && item.outcome === "ok" && item.logs.length === 0 && item.exceptions.length === 0) continue;
      const event = describe(item);
      if (event.kind === "fetch" && event.logs.length === 0 && event.exceptions.length === 0) continue;
      let body = JSON.stringify(event);
      if (body.length > MAX_CHARACTERS) {
        body = JSON.stringify({ ...event, logs: [], truncated: true });
      }
      await env.HOST.fetch("http://host/", { method: "POST", body });
    }
  },
};
