// Package paper compares the tables and figures of the NetKV paper (arXiv 2606.03910v1) with
// this project's worlds: it holds the paper's own figures, fits the parameters that the paper
// does not give (Calibrate), and writes docs/paper.md.
//
// The page is made of committed data: docs/paper/*.csv, the tables of the embedded sweeps
// (scenarios/sweeps), and docs/paper-packet.json, the results of labs. So it is quickly written
// again, and a test shows when it is out of date. `make paper` runs the sweeps too. Start
// reading at page.go.
package paper
