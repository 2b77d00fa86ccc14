// Package supervise keeps one version of one app running: it starts a new version before it ends the old one, starts a
// process that died again with back-off, and drains what it replaces.
package supervise
