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

// Calibration is what was measured of a host. It is the host's and no lab's: it has a
// folder of its own, outlives labs and boots, and is believed while kernel and CPU
// stay the same (Valid).
type Calibration struct {
	Format   int       `json:"format"`
	Kernel   string    `json:"kernel"` // release
	CPUModel string    `json:"cpu_model,omitempty"`
	CPUs     int       `json:"cpus"` // that this process may use
	Date     time.Time `json:"date"`
	// Steps are what a core forwards by grain, links full and the host not.
	Steps []Step `json:"steps"`
	// OneFlow is what a single flow gets through six hops, and Saturated what all cores
	// forward when flows ask for more.
	OneFlow   Throughput `json:"one_flow"`
	Saturated Throughput `json:"saturated"`
	// TimerIdle and TimerLoaded are lateness of timers, on the idle host and beside full
	// links of 125 Mbit/s.
	TimerIdle   Lateness `json:"timer_idle"`
	TimerLoaded Lateness `json:"timer_loaded"`
	// Others is the share of the CPUs that other programs used, before or after.
	Others float64 `json:"others"`
}

// Throughput is what went through the scratch fabric.
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

// CalibrationDir is where this host's calibration is kept: it cost eight seconds, holds
// nothing that cannot be measured again, and stays when the last lab is gone.
const CalibrationDir = "/var/cache/netkvlab"

const (
	calibrationFormat = 1
	calibrationFile   = "calibration.json"
	// validFor is how long a calibration is believed: hosts change in ways that
	// neither kernel nor CPU tell.
	validFor = 90 * 24 * time.Hour
	// othersPrinted is the share of the CPUs in other hands that is worth a remark.
	othersPrinted = 0.05
)

// ErrNone says that this host was never calibrated, and what would help.
var ErrNone = errors.New("this host is not calibrated, so cautious constants hold: `netkvlab doctor --calibrate` measures what it carries")

// NewCalibration is one of this host, now, without what is to be measured.
func NewCalibration(proc string, now time.Time) (*Calibration, error) {
	m, err := Describe(proc, "", nil)
	if err != nil {
		return nil, err
	}
	return &Calibration{Format: calibrationFormat, Kernel: m.Kernel, CPUModel: m.CPUModel, CPUs: m.CPUsUsable, Date: now.UTC().Truncate(time.Second)}, nil
}

// Save writes a calibration into a folder, and makes the folder.
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

// ReadCalibration reads the calibration of a folder, whatever host it is of; ErrNone if there is none.
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

// Valid says whether a calibration is this machine's now; the error says why not.
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

// Carries is what this host carries: by the valid calibration of a folder, or by cautious
// constants. The error says why by constants, ErrNone where nothing was ever measured;
// the capacity can be used all the same.
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

// Print writes the calibration for a person.
func (c *Calibration) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "Linux %s, %d CPUs (%s)\n\n", c.Kernel, c.CPUs, c.CPUModel)
	fmt.Fprintln(t, "LINKS\tSEGMENTS A BURST\tPACKET-HOPS/S A CORE")
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
