package queue_test

import (
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

// FuzzParseID reads any text as the id of a message; what is one is written again as it was.
func FuzzParseID(f *testing.F) {
	f.Add("00000000000000010000000000000002")
	f.Add("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF")
	f.Add("0000000000000001000000000000000g")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := queue.ParseID(text)
		if err != nil {
			if strings.Trim(text, "0123456789abcdef") == "" && len(text) == 32 {
				t.Errorf("refused: %v", err)
			}
			return
		}
		if id.String() != strings.ToLower(text) {
			t.Errorf("%q is written as %s", text, id)
		}
	})
}
