package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Calibration holds the measurements of a host. It belongs to the host and not to a lab: it has
// its own folder, survives labs and reboots, and is valid while kernel and CPU stay the same
// (Valid).
type Calibration struct {
	Format   int       `json:"format"`
	Kernel   string    `json:"kernel"` // release
	CPUModel string    `json:"cpu_model,omitempty"`
	CPUs     int       `json:"cpus"` // usable by this process
	Date     time.Time `json:"date"`
	// Steps are what a core forwards per grain, with half of the links full and idle time left.
	Steps []Step `json:"steps"`
	// OneFlow is the throughput of one flow over six hops, Saturated the most that all cores carry.
	OneFlow   Throughput `json:"one_flow"`
	Saturated Throughput `json:"saturated"`
	// TimerIdle is the lateness of timers on the idle host, TimerLoaded with half of the
	// links of 125 Mbit/s full.
	TimerIdle   Lateness `json:"timer_idle"`
	TimerLoaded Lateness `json:"timer_loaded"`
	// Others is the share of the CPUs that other programs used before or after the measurement.
	Others float64 `json:"others"`
}

// Throughput is the traffic that went through the scratch fabric.
type Throughput struct {
	HopsPerSecond float64 `json:"hops_per_second"` // packets times hops
	BitsPerSecond float64 `json:"bits_per_second"` // payload
	Idle          float64 `json:"idle"`            // share of the CPUs
}

// Lateness describes how late timers were, in microseconds.
type Lateness struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// CalibrationDir is the folder of this host's calibration. It is a cache: the calibration takes
// eight seconds, can be measured again, and is independent of labs.
const CalibrationDir = "/var/cache/netkvlab"

const (
	calibrationFormat = 2
	calibrationFile   = "calibration.json"
	// validFor bounds a calibration's age: hosts also change in ways that kernel and CPU do not
	// show.
	validFor = 90 * 24 * time.Hour
	// othersPrinted is the CPU share of other programs from which the report mentions it.
	othersPrinted = 0.05
)

// ErrNone says that this host was never calibrated, and how to do it.
var ErrNone = errors.New("this host is not calibrated, so cautious constants hold: `netkvlab doctor --calibrate` measures what it carries")

// NewCalibration returns a calibration of this host at this time, still without measurements.
func NewCalibration(proc string, now time.Time) (*Calibration, error) {
	m, err := Describe(proc, "", nil)
	if err != nil {
		return nil, err
	}
	return &Calibration{Format: calibrationFormat, Kernel: m.Kernel, CPUModel: m.CPUModel, CPUs: m.CPUsUsable, Date: now.UTC().Truncate(time.Second)}, nil
}

// Save writes a calibration into a folder, which it makes if needed.
func (c *Calibration) Save(dir string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, calibrationFile), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("save the calibration: %w", err)
	}
	return nil
}

// ReadCalibration reads the calibration in a folder, of any host; ErrNone if there is none.
func ReadCalibration(dir string) (*Calibration, error) {
	data, err := os.ReadFile(filepath.Join(dir, calibrationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the calibration: %w", err)
	}
	var c Calibration
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("the calibration in %s is damaged (%w)", filepath.Join(dir, calibrationFile), err)
	}
	return &c, nil
}

// Valid checks that a calibration applies to this machine now; the error says why it does not.
func (c *Calibration) Valid(m *results.Machine, now time.Time) error {
	again := "measure again with `netkvlab doctor --calibrate`"
	switch age := now.Sub(c.Date); {
	case c.Format != calibrationFormat:
		return fmt.Errorf("the calibration has format %d, this netkvlab reads %d: %s", c.Format, calibrationFormat, again)
	case c.Kernel != m.Kernel:
		return fmt.Errorf("the calibration is of Linux %s, this is %s: %s", c.Kernel, m.Kernel, again)
	case c.CPUModel != m.CPUModel || c.CPUs != m.CPUsUsable:
		return fmt.Errorf("the calibration is of %d CPUs (%s), this host has %d (%s): %s", c.CPUs, c.CPUModel, m.CPUsUsable, m.CPUModel, again)
	case age > validFor || age < -validFor:
		return fmt.Errorf("the calibration is of %s: %s", c.Date.Format(time.DateOnly), again)
	case len(c.Steps) == 0:
		return fmt.Errorf("the calibration holds no steps: %s", again)
	}
	return nil
}

// Carries returns what this host carries: by a valid calibration in the folder, or else by
// cautious constants. The error says why constants are used, ErrNone if nothing was ever
// measured; the capacity is usable even so.
func Carries(dir, proc string, now time.Time) (Capacity, error) {
	m, err := Describe(proc, "", nil)
	if err != nil {
		return Uncalibrated(runtime.NumCPU()), err
	}
	c, err := ReadCalibration(dir)
	if err == nil {
		err = c.Valid(m, now)
	}
	if err != nil {
		return Uncalibrated(m.CPUsUsable), err
	}
	return Capacity{Cores: c.CPUs, Steps: c.Steps, Calibrated: true}, nil
}

// Print writes the calibration as text.
func (c *Calibration) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "Linux %s, %d CPUs (%s)\n\n", c.Kernel, c.CPUs, c.CPUModel)
	fmt.Fprintln(t, "LINKS\tSEGMENTS PER BURST\tPACKET-HOPS/S PER CORE")
	for _, s := range c.Steps {
		fmt.Fprintf(t, "%s\t%d\t%s\n", s.Rate, s.Segments, thousands(s.HopsPerCore))
	}
	fmt.Fprintln(t, "\nLOAD\tPACKET-HOPS/S\tPAYLOAD\tIDLE")
	for _, l := range []struct {
		name string
		Throughput
	}{{"one flow", c.OneFlow}, {"saturated", c.Saturated}} {
		fmt.Fprintf(t, "%s\t%s\t%.2f Gbit/s\t%.0f%%\n", l.name, thousands(l.HopsPerSecond), l.BitsPerSecond/1e9, 100*l.Idle)
	}
	fmt.Fprintln(t, "\nTIMERS LATE BY\tP50\tP99\tMAX")
	for _, l := range []struct {
		name string
		Lateness
	}{{"idle", c.TimerIdle}, {"loaded", c.TimerLoaded}} {
		fmt.Fprintf(t, "%s\t%.0f us\t%.0f us\t%.0f us\n", l.name, l.P50, l.P99, l.Max)
	}
	if c.Others > othersPrinted {
		fmt.Fprintf(t, "\nOther programs used %.0f%% of the CPUs: on a quiet host the figures may be higher.\n", 100*c.Others)
	}
	return t.Flush()
}

func thousands(x float64) string { return fmt.Sprintf("%.0fk", x/1e3) }
