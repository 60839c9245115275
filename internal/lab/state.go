package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/scenarios"
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
	// Group is the first lab of this lab's group, which runs trials in parallel; empty if it is alone.
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

// self identifies this process.
func self() Process {
	start, err := nodes.StartTime(os.Getpid())
	if err != nil {
		return Process{} // then no process will signal us, which is safe
	}
	return Process{PID: os.Getpid(), StartTime: start}
}

// running reports whether this same process still exists.
func (p Process) running() bool {
	start, err := nodes.StartTime(p.PID)
	return err == nil && start == p.StartTime
}

// String describes the process for a message; the zero value is a process that has not signed.
func (p Process) String() string {
	if p.PID > 0 {
		return fmt.Sprintf("process %d", p.PID)
	}
	return "another netkvlab process"
}

const stateFormat = 1

// DefaultRoot holds the state of labs, one folder per lab. It is on a tmpfs on every current
// distribution, so a reboot removes it together with the namespaces.
const DefaultRoot = "/run/netkvlab"

// Store is the folder of all labs.
type Store struct{ Root string }

func (s Store) dir(lab string) string      { return filepath.Join(s.Root, lab) }
func (s Store) state(lab string) string    { return filepath.Join(s.dir(lab), "state.json") }
func (s Store) journal(lab string) string  { return filepath.Join(s.dir(lab), "journal") }
func (s Store) scenario(lab string) string { return filepath.Join(s.dir(lab), "scenario.yaml") }

// engine is the file with the address of the engine of a lab's containers. It is a separate
// file, because it is most needed when the state is damaged.
func (s Store) engine(lab string) string { return filepath.Join(s.dir(lab), "engine") }

// agentDir is the private run directory of one node's agent.
func (s Store) agentDir(lab, node string) string { return filepath.Join(s.dir(lab), "agents", node) }

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

// members returns the other labs in a lab's group. A state that cannot be read counts as none.
func (s Store) members(name string) ([]string, error) {
	labs, err := s.Labs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(labs, func(l string) bool {
		st, err := s.Load(l)
		return err != nil || st.Group != name
	}), nil
}

// Engine returns the address of the engine of a lab's containers, as it was when the lab was
// made; empty for a lab without containers, and if it is not known.
func (s Store) Engine(lab string) string {
	host, _ := os.ReadFile(s.engine(lab))
	return strings.TrimSpace(string(host))
}

// BusyError says that another process is working on the lab.
type BusyError struct {
	Lab   string
	Owner Process
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("lab %q is in use by %s: wait for it, or end it with `netkvlab down %s`", e.Lab, e.Owner, e.Lab)
}

// tryLock takes the lock on a lab's folder, making the folder if create is set. Without create
// it returns ErrNotUp for a lab without a folder. The lock is advisory. Closing the file releases
// it, as the kernel does when the process ends, so a killed netkvlab leaves nothing locked.
func (s Store) tryLock(lab string, create bool) (*os.File, error) {
	for {
		if create {
			if err := os.MkdirAll(s.Root, 0o755); err != nil {
				return nil, fmt.Errorf("make %s: %w", s.Root, err)
			}
			if err := os.Mkdir(s.dir(lab), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("make the folder of lab %q: %w", lab, err)
			}
		}
		f, err := os.Open(s.dir(lab))
		if errors.Is(err, fs.ErrNotExist) {
			if create {
				continue // removed between Mkdir and Open
			}
			return nil, fmt.Errorf("lab %q: %w", lab, ErrNotUp)
		}
		if err != nil {
			return nil, fmt.Errorf("open the folder of lab %q: %w", lab, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				busy := &BusyError{Lab: lab}
				if st, err := s.Load(lab); err == nil {
					busy.Owner = st.Owner
				}
				return nil, busy
			}
			return nil, fmt.Errorf("lock the folder of lab %q: %w", lab, err)
		}
		locked, errLocked := f.Stat()
		if there, err := os.Stat(s.dir(lab)); errors.Join(err, errLocked) == nil && os.SameFile(locked, there) {
			return f, nil
		}
		_ = f.Close() // the previous holder has removed the folder that we locked
	}
}

// removeDir deletes the lab's folder, and the folder of all labs when it was the last.
func (s Store) removeDir(lab string) error {
	if err := os.RemoveAll(s.dir(lab)); err != nil {
		return fmt.Errorf("remove the folder of lab %q: %w", lab, err)
	}
	if err := os.Remove(s.Root); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove %s: %w", s.Root, err)
	}
	return nil
}

// read loads a lab's state and the cluster that its scenario describes.
func read(store Store, name string) (*State, *trials.Cluster, error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	st, err := store.Load(name)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(store.scenario(name))
	if err != nil {
		return nil, nil, fmt.Errorf("read the scenario of lab %q: %w", name, err)
	}
	s, err := scenarios.Parse(store.scenario(name), text)
	if err != nil {
		return nil, nil, fmt.Errorf("scenario of lab %q: %w", name, err)
	}
	c, err := trials.New(s)
	if err != nil {
		return nil, nil, fmt.Errorf("lab %q: %w", name, err)
	}
	return st, c, nil
}
