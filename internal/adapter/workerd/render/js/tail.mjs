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

export default {
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
