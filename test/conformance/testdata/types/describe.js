// describe names a value with its type, so that what JSON would blur stays apart.
export function describe(value, above = []) {
  if (above.includes(value)) return "cycle";
  const inner = (v) => describe(v, [...above, value]);
  if (value === null || value === undefined) return String(value);
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "bigint":
      return value + "n";
    case "object":
      break;
    default:
      return String(value);
  }
  if (Array.isArray(value)) return `[${value.map(inner).join()}]`;
  if (value instanceof Date) return `Date(${value.toISOString()})`;
  if (value instanceof Map) return `Map(${[...value].map(([k, v]) => inner(k) + "=>" + inner(v)).join()})`;
  if (value instanceof Set) return `Set(${[...value].map(inner).join()})`;
  if (value instanceof RegExp) return `RegExp(${value})`;
  if (ArrayBuffer.isView(value)) return `${value.constructor.name}(${[...value].join()})`;
  if (value instanceof ArrayBuffer) return `ArrayBuffer(${value.byteLength})`;
  return `{${Object.keys(value).map((k) => k + ":" + inner(value[k])).join()}}`;
}
