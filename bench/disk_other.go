//go:build !linux

package main

import "os"

func dataSync(file *os.File) error { return file.Sync() }
