package cli

import (
	"github.com/spf13/pflag"

	"github.com/runlot/runlot/internal/daemon"
)

// bounds are the flags that bound databases.
type bounds struct{ operations, sizes []string }

func (b *bounds) define(f *pflag.FlagSet) {
	f.StringArrayVar(&b.operations, "queue-ops-cap", nil, "`N` operations a day, beyond which sends fail;\nNAME=N for one database of several; off\n(default 1000000 with runlot.json, off else)")
	f.StringArrayVar(&b.sizes, "database-size-cap", nil, "size `N` of a database, like 10GB, beyond which\nsends fail; NAME=N for one of several")
}

func (b *bounds) read(o *daemon.Options) error { return o.Caps.Set(b.operations, b.sizes) }
