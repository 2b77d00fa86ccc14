package tokens

import (
	"path/filepath"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestOnlyTheOwnerAndRootMayUseAFolder(t *testing.T) {
	for _, c := range []struct {
		owner, user int
		may         bool
	}{{1000, 1000, true}, {1000, 0, true}, {1000, 1001, false}, {0, 1000, false}} {
		if got := mayUse(c.owner, c.user); got != c.may {
			t.Errorf("user %d in a folder of %d: %t", c.user, c.owner, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		options Options
		code    string
	}{
		"no folder":     {Options{Data: filepath.Join(dir, "none")}, "data_missing"},
		"never started": {Options{Data: dir}, "celld_stopped"},
		"no server":     {Options{Data: dir, URLs: map[string]string{"": "postgres://me:hunter2@127.0.0.1:1/mine"}}, "control_unreachable"},
		"no server, one database of several": {
			Options{Data: dir, URLs: map[string]string{"celld": "postgres://me:hunter2@127.0.0.1:1/mine"}}, "control_unreachable",
		},
	} {
		_, err := Open(t.Context(), c.options)
		if f := fault.From(err); err == nil || f.Code != c.code {
			t.Errorf("%s: %v, want the code %s", name, err, c.code)
		}
	}
}
