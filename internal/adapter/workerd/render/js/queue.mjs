// The producer binding: the native one, whose errors say their code only inside the message.
import { QueueLimitError } from "runlot-internal:errors";
import { batch, send } from "runlot-internal:trace";

const CODED = /^([\s\S]*) \(([A-Za-z0-9_.-]+)\)$/;
const LIMITS = new Set(["queue_ops_cap", "database_full"]);
const OVERLOADED = "10250";

function coded(error) {
  const match = CODED.exec(error?.message ?? "");
  if (!match) return error;
  const [, cause, code] = match;
  if (LIMITS.has(code)) return new QueueLimitError(cause, code);
  error.code = code;
  return error;
}

class Queue {
  #native;
  #limit;
  #env;
  #calls = { send: 0, metrics: 0 };

  constructor(env) {
    this.#native = env.queue;
    this.#limit = env.limit;
    this.#env = env;
  }

  // Each call holds a connection. What the host would refuse is refused here, before ten thousand calls at once take
  // every descriptor of the process.
  async #call(kind, name, args) {
    if (this.#calls[kind] >= this.#limit) throw coded(new Error(`Queue is overloaded. Please back off. (${OVERLOADED})`));
    this.#calls[kind]++;
    try {
      return await this.#native[name](...args);
    } catch (error) {
      throw coded(error);
    } finally {
      this.#calls[kind]--;
    }
  }

  async send(...args) {
    return this.#call("send", "send", this.#env.trace ? send(this.#env, args) : args);
  }

  async sendBatch(...args) {
    return this.#call("send", "sendBatch", this.#env.trace ? batch(this.#env, args) : args);
  }

  async metrics() {
    return this.#call("metrics", "metrics", []);
  }
}

export default (env) => new Queue(env);
