package calibration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
)

// Calibration is what was measured on a host.
type Calibration struct {
	Format   int       `json:"format"`
	Kernel   string    `json:"kernel"` // release
	CPUModel string    `json:"cpu_model,omitempty"`
	CPUs     int       `json:"cpus"` // that this process may use
	Date     time.Time `json:"date"`
	// Steps are what a core forwards by grain, links full and the host not.
	Steps []scaling.Step `json:"steps"`
	// OneFlow is what a single flow gets through six hops, and Saturated what all cores
	// forward when flows ask for more.
	OneFlow   Load `json:"one_flow"`
	Saturated Load `json:"saturated"`
	// TimerIdle and TimerLoaded are lateness of timers, on the idle host and beside full
	// links of 125 Mbit/s.
	TimerIdle   Lateness `json:"timer_idle"`
	TimerLoaded Lateness `json:"timer_loaded"`
	// Others is the share of the CPUs that other programs used, before or after.
	Others float64 `json:"others"`

	busy []float64 // cores, of each step
}

// Load is what went through the scratch fabric.
type Load struct {
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

const (
	format = 1
	// fileName is that of the calibration in the folder of labs, which only takes
	// folders for labs.
	fileName = "calibration.json"
	// validFor is how long a calibration is believed: hosts change in ways that
	// neither kernel nor CPU tell.
	validFor = 90 * 24 * time.Hour
)

// ErrNone says that this host was never calibrated.
var ErrNone = errors.New("this host is not calibrated")

// Save writes a calibration into the folder of labs.
func (c *Calibration) Save(dir string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, fileName), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("save the calibration: %w", err)
	}
	return nil
}

// Read reads the calibration of a folder of labs, whoever's it is; ErrNone if there is none.
func Read(dir string) (*Calibration, error) {
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the calibration: %w", err)
	}
	var c Calibration
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("the calibration in %s is damaged (%w)", filepath.Join(dir, fileName), err)
	}
	return &c, nil
}

// Remove deletes the calibration of a folder of labs, and says whether there was one.
func Remove(dir string) (bool, error) {
	err := os.Remove(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove the calibration: %w", err)
	}
	_ = os.Remove(dir) // which stays where there are labs
	return true, nil
}

// Valid says whether a calibration tells of a host now; the error says why not.
func (c *Calibration) Valid(h *results.Host, now time.Time) error {
	again := "measure again with `netkvlab doctor --calibrate`"
	switch age := now.Sub(c.Date); {
	case c.Format != format:
		return fmt.Errorf("the calibration has format %d, this netkvlab reads %d: %s", c.Format, format, again)
	case c.Kernel != h.Kernel:
		return fmt.Errorf("the calibration is of Linux %s, this is %s: %s", c.Kernel, h.Kernel, again)
	case c.CPUModel != h.CPUModel || c.CPUs != h.CPUsUsable:
		return fmt.Errorf("the calibration is of %d CPUs (%s), this host has %d (%s): %s", c.CPUs, c.CPUModel, h.CPUsUsable, h.CPUModel, again)
	case age > validFor || age < -validFor:
		return fmt.Errorf("the calibration is of %s: %s", c.Date.Format(time.DateOnly), again)
	case len(c.Steps) == 0:
		return fmt.Errorf("the calibration holds no steps: %s", again)
	}
	return nil
}

// Host is what a scale is chosen by: the valid calibration of a folder of labs, or
// cautious constants and the reason why.
func Host(dir string, root fs.FS, now time.Time) (scaling.Host, error) {
	h, err := results.ReadHost(root, "", nil)
	if err != nil {
		return scaling.Host{}, err
	}
	none := scaling.Uncalibrated(h.CPUsUsable)
	c, err := Read(dir)
	if err == nil {
		err = c.Valid(h, now)
	}
	if err != nil {
		return none, err
	}
	return scaling.Host{Cores: c.CPUs, Steps: c.Steps, Calibrated: true}, nil
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
		Load
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
	if c.Others > busyNoted {
		fmt.Fprintf(t, "\nOther programs used %.0f%% of the CPUs: on a quiet host the figures may be higher.\n", 100*c.Others)
	}
	return t.Flush()
}

func thousands(x float64) string { return fmt.Sprintf("%.0fk", x/1e3) }
