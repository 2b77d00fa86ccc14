package sqlshell

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/runlot/runlot/internal/core/fault"
)

// CodePsql is the code of the fault that Become returns.
const CodePsql = "psql_start"

// Become makes this process psql, on a database. The password goes with the environment, since everybody reads the
// arguments of a process. It returns only when that fails: psql_start (environment).
func Become(program, address string, interactive bool) error {
	args, env, err := psql(program, address, interactive, os.Environ())
	if err == nil {
		err = syscall.Exec(program, args, env)
	}
	return fault.New(fault.Environment, CodePsql, "%s cannot be started: %s", program, err).
		WithHint("--built-in does without it").WithCause(err)
}

// psql makes the arguments and the environment of psql.
func psql(program, address string, interactive bool, environ []string) (args, env []string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address of the database: %w", err)
	}
	env = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, "PGPASSWORD=") })
	if password, ok := u.User.Password(); ok {
		env = append(env, "PGPASSWORD="+password)
		u.User = url.User(u.User.Username())
	}
	args = []string{program, "--dbname=" + u.String()}
	if !interactive {
		args = append(args, "--set=ON_ERROR_STOP=1")
	}
	return args, env, nil
}
