// The probe: tells which exports a bundle has and which handlers they hold, without running a getter or a handler.
import { DurableObject, WorkerEntrypoint, WorkflowEntrypoint } from "cloudflare:workers";

const BASES = { WorkerEntrypoint, DurableObject, WorkflowEntrypoint };
const HANDLERS = ["fetch", "queue", "scheduled", "tail", "tailStream", "trace", "email", "alarm", "run", "test"];

function has(object, name) {
  for (let o = object; o && o !== Object.prototype && o !== Function.prototype; o = Object.getPrototypeOf(o)) {
    const property = Object.getOwnPropertyDescriptor(o, name);
    if (property) return property.get !== undefined || typeof property.value === "function";
  }
  return false;
}

function kindOf(value) {
  if (typeof value !== "function") return "object";
  const base = Object.keys(BASES).find((name) => value.prototype instanceof BASES[name]);
  return base ?? "class";
}

export function inspect(module) {
  const exports = {};
  for (const name of Object.keys(module)) {
    const value = module[name];
    if (value === null || (typeof value !== "object" && typeof value !== "function")) continue;
    const kind = kindOf(value);
    const owner = kind === "object" ? value : value.prototype;
    exports[name] = { kind, handlers: HANDLERS.filter((handler) => has(owner, handler)) };
  }
  return exports;
}
