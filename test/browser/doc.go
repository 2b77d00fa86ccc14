// Package browser holds the tests of the page in a real browser, over the real API and engines on a real PostgreSQL. Apps
// run nothing here: what their handlers did is told to the record of batches.
package browser
