// The doors of the plan fixture, in a database with a daily cap.
export { default } from "../plan/index.js";
