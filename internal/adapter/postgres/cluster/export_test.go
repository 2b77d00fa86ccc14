package cluster

// ProcessesIn lets tests see what runs in a data folder.
var ProcessesIn = processesIn

// LoseFolder frees the state folder while the server goes on, as the death of its process does for a moment.
func LoseFolder(c *Cluster) { _ = c.lock.Close() }
