// The doors of the plan fixture, in a database with a size cap.
export { default } from "../plan/index.js";
