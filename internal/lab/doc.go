// Package lab manages labs on this host: it builds the fabric, starts the agents, and leaves the
// lab running or removes it.
//
// Every lab has a folder under /run/netkvlab with its resolved scenario, its state, a journal of
// the namespaces to make, and its agents' private run directories. A process that works on a lab
// holds a lock on that folder, which the kernel releases when the process dies. Removal uses
// marks in the kernel and the processes in the lab's namespaces. The folder only helps, so
// removal also works when it is damaged or missing. Start reading at build.go, then remove.go.
package lab
