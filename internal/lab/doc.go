// Package lab is the life of a lab on this host: build the fabric, start the
// agents, leave it standing or take it away.
//
// Every lab has a folder under /run/netkvlab with its resolved scenario, its
// state, a journal of the namespaces it was going to make, and its agents' private
// run directories. Whoever works on a lab holds a lock on that folder, which the
// kernel drops when the process dies. Removal trusts marks in the kernel and
// processes found inside the lab's namespaces; the folder only helps it, so a damaged
// or missing one is no obstacle. Start reading at build.go, then remove.go.
package lab
