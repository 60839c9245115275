// Package docker runs agents as containers of a local Docker engine.
//
// An agent's container has none of Docker's networks. It starts in an empty network
// namespace, which the fabric adopts and in which it creates the links. So a container's
// packets take the same path as a process's. The image is made here from netkvlab's own
// static binary and loaded; nothing is ever pulled. Everything has labels, and
// removal goes by the labels alone.
//
// The engine is needed to start and to remove containers, not while a lab runs: the kernel
// knows whether an agent is alive, and a command runs in a node's namespace as it
// does beside a process. So an engine that is killed in the middle of a run
// does no harm until the lab is removed.
//
// Start reading at Runtime. container.go defines what a container may do; docs/security.md
// has it as a table.
package docker
