// A producer. A request is a list of calls [binding, method, ...arguments], made one after the other. Bodies that JSON cannot carry are made here: {"$": "undefined"} and its like.
const special = {
  undefined: () => undefined,
  function: () => () => 1,
  symbol: () => Symbol("s"),
  cycle: () => {
    const o = {};
    o.self = o;
    return o;
  },
  bigint: () => 1n,
  buffer: () => new ArrayBuffer(4),
};

function made(value) {
  if (value !== null && typeof value === "object") {
    if (value.$) return special[value.$]();
    if (value.repeat) return (value.of ?? "x").repeat(value.repeat);
    for (const key of Object.keys(value)) value[key] = made(value[key]);
  }
  return value;
}

async function one([binding, method, ...args], env) {
  try {
    const value = await env[binding][method](...args.map(made));
    const metrics = value?.metadata?.metrics ?? value;
    return { value, isDate: metrics?.oldestMessageTimestamp instanceof Date };
  } catch (error) {
    return { error: { name: error.name, message: error.message, code: error.code, isError: error instanceof Error } };
  }
}

// flood makes more calls at a time than a queue takes; the gate hears when the surplus has been refused.
async function flood(env, { calls, surplus }) {
  let refused = 0;
  const call = async (_, i) => {
    const answer = await one(["MANY", "send", i], env);
    if (answer.error && ++refused === surplus) await (await fetch(`${env.GATE}/count/flood`)).text();
    return answer;
  };
  return Promise.all(Array.from({ length: calls }, call));
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const calls = await request.json();
    if (url.pathname === "/flood") return Response.json(await flood(env, calls));
    const answers = [];
    for (const call of calls) answers.push(await one(call, env));
    return Response.json(answers);
  },
};
