package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
)

// Phase is the phase of a lab's life.
type Phase string

// The phases of a lab.
const (
	PhaseBuilding Phase = "building"
	PhaseReady    Phase = "ready"
	PhaseRunning  Phase = "running"
	PhaseRemoving Phase = "removing"
)

// State is a lab's stored description. Teardown must not depend on it: if it is missing or
// truncated, the kernel's own state is enough.
type State struct {
	Format  int       `json:"format"`
	Lab     string    `json:"lab"`
	Version string    `json:"version"`
	Created time.Time `json:"created"`
	Phase   Phase     `json:"phase"`
	// Group is the first lab of this lab's group, which runs trials in parallel; empty for a single
	// lab.
	Group   string `json:"group,omitempty"`
	Runtime string `json:"runtime"`
	// Owner is the process that builds, runs or removes the lab; zero if none does.
	Owner  Process       `json:"owner"`
	Agents []nodes.Agent `json:"agents"`
}

// Process identifies a process uniquely: a PID alone can be reused.
type Process struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // field 22 of /proc/PID/stat
}

const stateFormat = 1

// ErrNotUp says that there is no lab of that name.
var ErrNotUp = errors.New("no such lab")

// Load reads a lab's state. A damaged file is reported as such, not as absent.
func (s Store) Load(lab string) (*State, error) {
	data, err := os.ReadFile(s.state(lab))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(s.dir(lab)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("lab %q: %w", lab, ErrNotUp)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of lab %q: %w", lab, err)
	}
	var st State
	if err := json.Unmarshal(data, &st); err != nil {
		return nil, fmt.Errorf("state of lab %q in %s is damaged: %w", lab, s.state(lab), err)
	}
	if st.Format != stateFormat {
		return nil, fmt.Errorf("state of lab %q has format %d, this netkvlab reads %d: remove it with the version that made it (%s)",
			lab, st.Format, stateFormat, st.Version)
	}
	return &st, nil
}

func (s Store) save(st *State) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(s.state(st.Lab), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the state of lab %q: %w", st.Lab, err)
	}
	return nil
}

// writeJournal records the namespaces before the first of them is made.
func (s Store) writeJournal(lab string, names []string) error {
	text := strings.Join(names, "\n") + "\n"
	if err := renameio.WriteFile(s.journal(lab), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the journal of lab %q: %w", lab, err)
	}
	return nil
}

// planned reads the journal; a missing journal is empty.
func (s Store) planned(lab string) ([]string, error) {
	data, err := os.ReadFile(s.journal(lab))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of lab %q: %w", lab, err)
	}
	names := strings.Fields(string(data))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		names = names[:len(names)-1] // the last name is cut off
	}
	return names, nil
}

// Labs lists the labs that have a folder, by name.
func (s Store) Labs() ([]string, error) {
	entries, err := os.ReadDir(s.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var labs []string
	for _, e := range entries {
		if e.IsDir() && kernel.ValidLab(e.Name()) {
			labs = append(labs, e.Name())
		}
	}
	slices.Sort(labs)
	return labs, nil
}
