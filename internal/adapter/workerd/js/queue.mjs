// The producer binding: the native one, whose errors say their code only inside the message.
import { QueueLimitError } from "runlot-internal:errors";

const CODED = /^([\s\S]*) \(([A-Za-z0-9_.-]+)\)$/;
const LIMITS = new Set(["queue_ops_cap", "database_full"]);

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

  constructor(native) {
    this.#native = native;
  }

  async send(...args) {
    try {
      return await this.#native.send(...args);
    } catch (error) {
      throw coded(error);
    }
  }

  async sendBatch(...args) {
    try {
      return await this.#native.sendBatch(...args);
    } catch (error) {
      throw coded(error);
    }
  }

  async metrics() {
    try {
      return await this.#native.metrics();
    } catch (error) {
      throw coded(error);
    }
  }
}

export default (env) => new Queue(env.queue);
