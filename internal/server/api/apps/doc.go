// Package apps is the calls of the API about apps: versions, deployments, events and secrets.
package apps
