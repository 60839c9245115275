// Package docker runs agents as containers of a local Docker engine.
//
// An agent's container has no network of Docker's: it is born in an empty network
// namespace, which the fabric adopts and wires in place, so that a container's packets
// take the very path that a process's do. The image is made here from netkvlab's own
// static binary and loaded; nothing is ever pulled. Everything carries labels, and
// what is removed is found by them alone.
//
// The engine is needed to start and to remove containers, not while a lab runs: whether
// an agent lives, the kernel knows, and a command runs in a node's namespace as it
// does beside a process. An engine that is killed in the middle of a run therefore
// does no harm until the lab is taken down.
//
// Start reading at Runtime; container.go is what a container may do, and docs/security.md
// the same as a table.
package docker
