// Package doctor finds out which features for labs this host has, by trying each one in a
// scratch namespace. It makes no lasting change.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/nodes/docker"
)

// The answers of a check.
const (
	Works   = "works"
	Missing = "missing"
	Unknown = "unknown" // could not find out; Detail says why
)

// Check is one feature that was tried.
type Check struct {
	Name     string `json:"name"`
	Answer   string `json:"answer"`
	Required bool   `json:"required"`
	Need     string `json:"need,omitempty"`    // what would enable it
	Detail   string `json:"detail,omitempty"`  // the kernel's answer
	Without  string `json:"without,omitempty"` // what a lab does when it is missing
}

// Report lists everything that was tried.
type Report struct {
	Kernel string  `json:"kernel"`
	CPUs   int     `json:"cpus"`
	Checks []Check `json:"checks"`
}

// Examine tries everything. engine is the one that would run containers.
func Examine(ctx context.Context, engine *docker.Engine) *Report {
	r := &Report{CPUs: runtime.NumCPU(), Checks: []Check{}}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		r.Kernel = strings.TrimSpace(string(release))
	}
	for _, p := range kernel.Probes() {
		if ctx.Err() != nil {
			return r
		}
		r.add(Check{Name: p.Name, Required: p.Required, Need: p.Need, Without: p.Without}, p.Check(), kernel.ErrUnsupported)
	}
	for _, cc := range []string{"cubic", "reno", "bbr"} {
		c := Check{
			Name: "tcp " + cc, Required: cc == "cubic", Need: "CONFIG_TCP_CONG_" + strings.ToUpper(cc),
			Without: "transfer.congestionControl: " + cc + " is refused",
		}
		err := host.TryCongestionControl(cc)
		r.add(c, err, unix.ENOENT) // EPERM, for example, says nothing about the kernel
	}
	_, err := engine.Check(ctx)
	r.add(Check{Name: "docker engine", Need: "Docker 20.10 or newer, root's", Without: "runtime: docker is refused"}, err, docker.ErrNoEngine)
	return r
}

func (r *Report) add(c Check, err, unsupported error) {
	switch {
	case err == nil:
		c.Answer, c.Need, c.Without = Works, "", ""
	case unsupported != nil && errors.Is(err, unsupported):
		c.Answer, c.Detail = Missing, err.Error()
	default:
		c.Answer, c.Detail = Unknown, err.Error()
	}
	r.Checks = append(r.Checks, c)
}

// Err is nil if a lab can run here at all.
func (r *Report) Err() error {
	var bad []string
	for _, c := range r.Checks {
		if c.Required && c.Answer != Works {
			bad = append(bad, fmt.Sprintf("%s (%s)", c.Name, c.Need))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("this host cannot run labs: it lacks %s", strings.Join(bad, ", "))
	}
	return nil
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "Linux %s, %d CPUs\n\nFEATURE\tANSWER\tNEEDS\n", r.Kernel, r.CPUs)
	for _, c := range r.Checks {
		need := c.Need
		if c.Answer != Works && c.Required {
			need += " (required)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.Answer, need)
		if c.Answer != Works {
			fmt.Fprintf(t, "\t\t  %s\n", c.Detail)
		}
		if c.Without != "" {
			fmt.Fprintf(t, "\t\t  without it: %s\n", c.Without)
		}
	}
	return t.Flush()
}
