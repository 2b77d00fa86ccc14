//go:build linux

package projects_test

import "testing"

// TestProjects runs the projects one after the other on one celld, since each kills it.
func TestProjects(t *testing.T) {
	n := newNode(t)
	for name, project := range map[string]func(*testing.T, *node){
		"crawler": crawler, "thumbnails": thumbnails, "relay": relay,
	} {
		t.Run(name, func(t *testing.T) {
			outer := n.t
			n.t = t
			defer func() { n.t = outer }()
			project(t, n)
		})
	}
}
