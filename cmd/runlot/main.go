// Command runlot is what people type: it runs a Workers project with its queues on this machine.
package main

import (
	"os"

	"github.com/runlot/runlot/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(cli.Runlot(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
