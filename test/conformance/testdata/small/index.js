// The doors of the plan fixture, in a database with a size cap. A batch of one message is full at once, whatever its time;
// the time of the handler is counted from it.
export { default } from "../plan/index.js";
