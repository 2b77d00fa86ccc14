package main

import (
	"os"
	"syscall"
)

// dataSync is what PostgreSQL calls on its log.
func dataSync(file *os.File) error { return syscall.Fdatasync(int(file.Fd())) }
