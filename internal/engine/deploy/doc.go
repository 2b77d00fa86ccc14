// Package deploy keeps the versions of apps and decides which one of each is live.
//
// A version is stored whole before anything of it runs. It becomes live in one commit, after its process is ready and
// before it gets traffic: whatever ends in between, an app is wholly on the version that the store names. What fails
// leaves the version before in place.
package deploy
