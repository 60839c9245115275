// Package host is a model of the machine that labs run on: its description (Describe), what it
// forwards (Capacity, and its measured Calibration), its load while a trial runs (Watch, Load),
// and what single processes use (UsageOf).
//
// It reads the proc file system and one file of its own, and knows fabrics only as plans. It
// makes no lab, starts no process and judges no run. Code that tries kernel features is in
// sub-packages, so that this package stays small: calibrate measures a Calibration in a scratch
// fabric, doctor reports which features the host lacks.
//
// Functions that read the host take the folder where proc is mounted: Proc, or a test's. Times
// are real time, rates are emulated rates. A Watch is safe for concurrent use, and there may be
// several. All other types are plain data.
//
// Start reading at capacity.go, then watch.go and load.go.
package host

// Proc is where the proc file system is mounted.
const Proc = "/proc"
