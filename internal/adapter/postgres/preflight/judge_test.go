package preflight

import (
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestJudge(t *testing.T) {
	no, yes := false, true
	for name, test := range map[string]struct {
		change func(f *facts)
		code   string
		warns  int
	}{
		"good":                    {func(*facts) {}, "", 0},
		"14":                      {func(f *facts) { f.version = 14_00_13 }, "database_version", 0},
		"15":                      {func(f *facts) { f.version = 15_00_00 }, "", 0},
		"latin":                   {func(f *facts) { f.encoding = "LATIN1" }, "database_encoding", 0},
		"standby":                 {func(f *facts) { f.standby, f.readOnly = true, true }, "database_standby", 0},
		"read only":               {func(f *facts) { f.readOnly = true }, "database_read_only", 0},
		"no fsync":                {func(f *facts) { f.fsync = false }, "database_fsync", 0},
		"early acknowledgement":   {func(f *facts) { f.synchronousCommit = "off" }, "database_synchronous_commit", 0},
		"local commit":            {func(f *facts) { f.synchronousCommit = "local" }, "", 0},
		"no rights":               {func(f *facts) { f.canCreate = false }, "database_rights", 0},
		"schema made for us":      {func(f *facts) { f.canCreate, f.schemaOwned = false, &yes }, "", 0},
		"schema of somebody else": {func(f *facts) { f.schemaOwned = &no }, "database_rights", 0},
		"pooler":                  {func(f *facts) { f.announced = 77 }, "database_pooler", 0},
		"half pages":              {func(f *facts) { f.fullPageWrites = false }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{version: 18_00_04, encoding: "UTF8", fsync: true, synchronousCommit: "on", fullPageWrites: true, canCreate: true, announced: 1, process: 1}
			test.change(&f)
			report, err := f.judge()
			code := ""
			if err != nil {
				code = fault.From(err).Code
				if fault.From(err).Hint == "" {
					t.Error("no way out is named")
				}
			}
			if code != test.code || (err == nil && len(report.Warnings) != test.warns) {
				t.Errorf("%q %v, want %q and %d warnings", code, report, test.code, test.warns)
			}
		})
	}
}
