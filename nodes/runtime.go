// Package nodes runs agents: as processes born inside their network namespaces,
// or (another Runtime) as containers wired to them.
//
// A Runtime knows nothing of what an agent does; it starts it, says whether it
// lives, stops it, and runs other commands beside it. A lab outlives the process
// that built it, so an Agent is plain data that a later process can act on: a PID
// alone could have been reused, so it goes with the process's start time.
//
// No thread of the caller stays in another namespace: a runtime enters one for
// the instant of starting a process and comes back.
//
// Start reading at Runtime, then Process.
package nodes

import (
	"context"
	"io"
	"os"
	"strconv"
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
	Args       []string
	Env        []string // added to the clean environment
	// Threads is how many threads of an agent may compute at once (GOMAXPROCS); 0 is
	// two. Where there are many agents one is cheaper: waking a second takes longer than
	// most of what there is to do.
	Threads int
	// Image is the container image of an agent that is not ours; it is never pulled.
	// Empty: one made of Executable. The process runtime has none.
	Image string
	// NetAdmin says that the agent needs CAP_NET_ADMIN in its namespace, as for
	// a congestion control that the kernel keeps from others.
	NetAdmin bool
	// Leash makes the agent end when this process does, however it ends: the agent
	// holds the read end of a pipe whose write end nobody but this process has.
	// It is the only descriptor an agent inherits beside its standard three.
	Leash bool
}

// GOMAXPROCS is the environment variable that sets an agent's threads: many agents
// share few cores, and a thread a core for each would only crowd.
func (s *Spec) GOMAXPROCS() string {
	n := s.Threads
	if n == 0 {
		n = 2
	}
	return "GOMAXPROCS=" + strconv.Itoa(n)
}

// Agent names a running agent for good.
type Agent struct {
	Node      string `json:"node"`
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"`   // field 22 of /proc/PID/stat, clock ticks since boot
	Socket    string `json:"socket"`       // control socket
	ID        string `json:"id,omitempty"` // the container's, where it is one
}

// Stdio is where a command reads and writes.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// ExecSpec is a command to run in a node's namespace.
type ExecSpec struct {
	Lab, Node, Netns string
	Command          []string // at least the program
	Stdio
	// Signals are passed on to the command; nil passes none. A caller that shares a
	// terminal with the command need not pass on what the terminal sends to both.
	Signals <-chan os.Signal
}

// Runtime starts and stops agents. Implementations are safe for concurrent use.
type Runtime interface {
	// Name is what a scenario's runtime key says: process or docker.
	Name() string
	// Start starts an agent; it need not answer yet when Start returns, and it
	// outlives ctx.
	Start(ctx context.Context, s Spec) (Agent, error)
	// Alive reports whether that very agent still runs.
	Alive(a Agent) (bool, error)
	// Stop ends an agent and waits until it is gone. One that is gone is no error.
	Stop(ctx context.Context, a Agent) error
	// Exec runs a command to its end and returns its exit code, 128 + n if signal n
	// ended it. When ctx ends first the command is terminated and the error is ctx's.
	Exec(ctx context.Context, s ExecSpec) (exit int, err error)
}

// Housing is a Runtime whose agents are born in network namespaces of their own.
// They start before the fabric, which then adopts those namespaces instead of making
// its own, and an agent may find no interface but a lowered lo until it is configured.
type Housing interface {
	Runtime
	// Prepare does what can be done before anything of the lab is made, above all
	// find out that it cannot be made. Each spec will be given to Start.
	Prepare(ctx context.Context, specs []Spec) error
	// NetnsOf is the path of a running agent's network namespace.
	NetnsOf(a Agent) string
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

// labEnv marks processes of ours.
const (
	labEnv  = "NETKVLAB_LAB"
	nodeEnv = "NETKVLAB_NODE"
)
