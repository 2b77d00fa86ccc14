package binaries

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/runlot/runlot/internal/core/fault"
)

// Versions are what the programs say of themselves.
type Versions struct {
	// Workerd is a date, "2026-11-17": the newest compatibility date that the binary knows.
	Workerd string
	// Postgres is "18.4".
	Postgres string
}

var (
	workerdVersion  = regexp.MustCompile(`^workerd (\d{4}-\d{2}-\d{2})\s*$`)
	postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+(?:\.\d+|[a-z]+\d+)?)`)
)

// Version asks both programs for their version; ctx bounds the wait. A program that does not start or answers something
// else is a fault of kind Environment.
func (p Paths) Version(ctx context.Context) (Versions, error) {
	workerd, err := WorkerdVersion(ctx, p.Workerd)
	if err != nil {
		return Versions{}, err
	}
	// pg_ctl rather than postgres: it needs none of the libraries whose links npm leaves out without install scripts.
	postgres, err := ask(ctx, filepath.Join(p.Postgres, "bin", "pg_ctl"), postgresVersion, CodePostgresBroken)
	if err != nil {
		return Versions{}, err
	}
	return Versions{Workerd: workerd, Postgres: postgres}, nil
}

// WorkerdVersion asks a workerd binary alone, in the way of Version.
func WorkerdVersion(ctx context.Context, path string) (string, error) {
	return ask(ctx, path, workerdVersion, CodeWorkerdBroken)
}

func ask(ctx context.Context, path string, version *regexp.Regexp, code string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fault.New(fault.Environment, code, "%s --version failed: %s", path, err).
			WithHint("it may be built for another system; install it again").WithCause(err)
	}
	found := version.FindSubmatch(out)
	if found == nil {
		return "", fault.New(fault.Environment, code, "%s --version answered %.80q, which is no version that Runlot knows", path, out).
			WithHint("set %s or %s to the right program", WorkerdEnv, PostgresEnv)
	}
	return string(found[1]), nil
}
