// Package nodes runs agents: as processes that start inside their network namespaces,
// or (another Runtime) as containers that bring theirs.
//
// A Runtime does not know what an agent does: it only starts the agent. A lab exists longer
// than the process that built it, so an Agent is plain data that a later process can use. A PID
// may belong to another process by then, so the process's start time goes with it. The kernel
// knows every agent as a process, also the first process of a container. So Alive, Exec, OfLab
// and Terminate are the same for every Runtime.
//
// No thread of the caller stays in another namespace: it enters one for the instant of starting
// a process and comes back.
//
// Start reading at Runtime, then Process.
package nodes

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Spec says what to start and where.
type Spec struct {
	Lab, Node string
	// Netns is the path of the network namespace, such as /run/netns/LAB.NODE; empty
	// for a Housing runtime.
	Netns string
	// Dir is the agent's private run directory; the runtime makes it, mode 0700.
	Dir string
	// Executable is the absolute path of the binary. It is run under the name kvagent
	// with Args (its command, if it has several), then --socket SOCKET --node NODE.
	Executable string
	Args, Env  []string // Env is added to the clean environment
	// Threads is how many threads of an agent may compute at once (GOMAXPROCS); 0 means two. Where
	// there are many agents, one is cheaper: waking a second takes longer than most of its work.
	Threads int
	// Image is the container image of the user's own agent; it is never pulled.
	// Empty: an image made of Executable. The process runtime uses none.
	Image string
	// NetAdmin means that the agent needs CAP_NET_ADMIN in its namespace, for example for
	// a congestion control that the kernel does not allow to every process.
	NetAdmin bool
	// Leash makes the agent end when this process ends for any reason: the agent holds the read end
	// of a pipe whose write end only this process has. It inherits no other descriptor beside its
	// standard three.
	Leash bool
}

// GOMAXPROCS is the environment variable that sets an agent's threads: many agents
// share few cores, so one thread per core for each would be too many.
func (s *Spec) GOMAXPROCS() string {
	return "GOMAXPROCS=" + strconv.Itoa(cmp.Or(s.Threads, 2))
}

// MakeDir makes the agent's run directory, for this user alone.
func (s *Spec) MakeDir() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make run directory private: %w", err)
	}
	return nil
}

// Agent identifies a running agent uniquely.
type Agent struct {
	Node      string `json:"node"`
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"`   // field 22 of /proc/PID/stat, clock ticks since boot
	Socket    string `json:"socket"`       // control socket
	ID        string `json:"id,omitempty"` // the container's, where the agent is a container
}

// Netns is where the kernel shows the network namespace of a running agent.
func (a Agent) Netns() string { return fmt.Sprintf("/proc/%d/ns/net", a.PID) }

// ExecSpec is a command to run in a node's namespace.
type ExecSpec struct {
	Lab, Node, Netns string
	Command          []string // at least the program
	In               io.Reader
	Out, Err         io.Writer
	// Signals are passed on to the command; nil passes none. A caller that shares a
	// terminal with the command need not pass on what the terminal sends to both.
	Signals <-chan os.Signal
}

// Runtime starts agents. Implementations are safe for concurrent use.
type Runtime interface {
	// Name is the value of a scenario's runtime key: process or docker.
	Name() string
	// Start starts an agent; it need not answer yet when Start returns, and it
	// outlives ctx.
	Start(ctx context.Context, s Spec) (Agent, error)
	// LogTail is the end of an agent's log in one line, also after the agent has ended, or the
	// reason why it cannot be read.
	LogTail(ctx context.Context, a Agent) string
}

// Housing is a Runtime whose agents start in network namespaces of their own.
// They start before the fabric, which then adopts those namespaces instead of making
// its own, and an agent may find no interface but a lowered lo until it is configured.
type Housing interface {
	Runtime
	// Prepare does what can be done before anything of the lab is made; above all it
	// checks that the lab can be made. Each spec will be given to Start.
	Prepare(ctx context.Context, specs []Spec) error
}

// Tail returns the end of a log in one line of at most 400 bytes.
func Tail(log string) string {
	const most = 400
	text := strings.Join(strings.Fields(log), " ")
	switch {
	case text == "":
		return "(empty)"
	case len(text) > most:
		return "..." + text[len(text)-most:]
	}
	return text
}

// Proc is a process found in a lab's namespace.
type Proc struct {
	PID       int
	StartTime uint64
	Comm      string // the kernel's short name of it
	Lab       string // from its environment, where this package started it
	Netns     uint64 // the inode of its network namespace
	Agent     bool   // it was started under an agent's name
}

// Environment variables that mark our processes.
const (
	labEnv  = "NETKVLAB_LAB"
	nodeEnv = "NETKVLAB_NODE"
)
