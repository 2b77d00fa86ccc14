// Package cluster runs the embedded PostgreSQL: one server of the project's own, made on first use in a state folder,
// reached over a unix socket only, and gone when its process is gone.
//
// The state folder:
//
//	lock              held by the process that runs the cluster; holds its process id
//	server.lock       held by every process of the server, and by initdb
//	credentials.json  passwords of the administrator and of each database's roles, mode 0600
//	data/             the data folder of PostgreSQL, owned by the unprivileged user when the process is root
//	run/              the socket, mode 0700; in the temporary folder instead where the path is too long or out of reach
//
// Two locks, because two things can be left behind by a kill -9: the state folder is free again at once, but the
// server needs a moment to end. Its processes inherit the lock on server.lock, so its release proves that the last one
// is gone, in whatever container it ran, and makes it safe to clear away a stale postmaster.pid.
package cluster
