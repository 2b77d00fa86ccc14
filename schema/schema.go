// Package schema carries the JSON Schema of runlot.json, with which editors complete and check the file as it is written.
// The rules that span keys (names taken twice, a queue as its own dead-letter queue) are those of internal/config alone.
package schema

import _ "embed"

// Runlot is the JSON Schema (draft 2020-12) of runlot.json.
//
//go:embed runlot.schema.json
var Runlot []byte

// ID is the identifier of Runlot, which a file may name as its $schema.
const ID = "https://raw.githubusercontent.com/runlot/runlot/main/schema/runlot.schema.json"
