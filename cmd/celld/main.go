// Command celld is the daemon that runs apps for good.
package main

import (
	"os"

	"github.com/runlot/runlot/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(cli.Celld(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
