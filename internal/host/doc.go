// Package host is one model of the machine that labs run on: what it is (Machine), what it
// forwards (Capacity, and the Calibration that was measured of it), what it does while
// a trial runs (Watch, Load), and what single processes use (UsageOf).
//
// Its edge: it reads the proc file system and one file of its own, and knows fabrics only
// as plans. It makes no lab, starts no process and judges no run. What must try the
// kernel lives in its sub-folders, so that this package stays light: calibrate measures a
// Calibration in a scratch fabric, doctor says which features the host lacks.
//
// Functions that read the host take the folder where proc is mounted: Proc, or a test's.
// Times are real time, rates are the emulated ones. A Watch is safe for concurrent use
// and there may be several; all else is plain data.
//
// Start reading at capacity.go, then watch.go and load.go.
package host

// Proc is where the proc file system is mounted.
const Proc = "/proc"
