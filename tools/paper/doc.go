// Package paper sets the tables and figures of the NetKV paper (arXiv 2606.03910v1)
// against this project's worlds: it holds the paper's own figures, finds what the paper
// leaves open (Calibrate), and writes docs/paper.md.
//
// The page is made of committed data: docs/paper/*.csv, the tables of the embedded
// sweeps (scenarios/sweeps), and docs/paper-packet.json, what labs gave. So it can be written anew
// in a moment, and a test tells when it is stale. `make paper` runs the sweeps too.
// Start reading at page.go.
package paper
