module github.com/runlot/runlot

go 1.26.8
