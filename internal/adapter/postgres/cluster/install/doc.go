// Package install makes a PostgreSQL build ready to run: it chooses the account that the server runs under, which is never
// root, and gives that account the programs, with the links between their libraries that npm leaves out, in a place that
// it can reach.
package install
