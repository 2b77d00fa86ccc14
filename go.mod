module github.com/runlot/runlot

go 1.26.8

require golang.org/x/term v0.48.0

require (
	github.com/google/go-cmp v0.7.0
	golang.org/x/sys v0.50.0 // indirect
	pgregory.net/rapid v1.3.0
)
