// Package docker runs agents as containers of a local Docker engine.
//
// An agent's container has none of Docker's networks. It starts in an empty network namespace,
// which the fabric adopts and in which it creates the links. So a container's packets take the
// same path as a process's. The image is made here from netkvlab's own static binary and loaded;
// nothing is ever pulled. Everything has labels, and removal goes by the labels alone.
//
// The engine is needed to start and to remove containers, not while a lab runs: the kernel knows
// whether an agent is alive, and a command runs in a node's namespace as it does beside a process.
// So an engine that is killed in the middle of a run does no harm until the lab is removed.
//
// Start reading at Runtime. container.go defines what a container may do; docs/security.md
// has it as a table.
package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/netkvlab/netkvlab/nodes"
)

// callTime bounds one call that must not be cancelled half-way.
const callTime = 30 * time.Second

// Runtime runs agents as containers. Make it with New.
type Runtime struct {
	*Engine
	version string

	mu      sync.Mutex
	info    system.Info
	ours    *agentImage
	leashes []*os.File // of the agents; held until this process ends
}

var _ nodes.Housing = (*Runtime)(nil)

// New makes the runtime of an engine. version goes onto labels.
func New(e *Engine, version string) *Runtime { return &Runtime{Engine: e, version: version} }

// Name is "docker".
func (r *Runtime) Name() string { return "docker" }

// Prepare finds out whether the engine can run the lab, before anything of it is made,
// and provides the images.
func (r *Runtime) Prepare(ctx context.Context, specs []nodes.Spec) error {
	info, err := r.Check(ctx)
	if err != nil {
		return err
	}
	if err := r.free(ctx, specs); err != nil {
		return err
	}
	var ours *agentImage
	seen := map[string]bool{}
	for _, s := range specs {
		if seen[s.Image] {
			continue
		}
		seen[s.Image] = true
		if s.Image != "" {
			err = r.present(ctx, s.Image)
		} else if ours, err = newAgentImage(s.Executable); err == nil {
			err = r.ensure(ctx, ours, r.version, info)
			ours.binary = nil // it is large, and only its name is needed from now on
		}
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info, r.ours = info, ours
	return nil
}

// free makes sure that no other container has a name that we need.
func (r *Runtime) free(ctx context.Context, specs []nodes.Spec) error {
	all, err := r.list(ctx, "name", "netkvlab")
	if err != nil {
		return err
	}
	taken := map[string]*container.Summary{}
	for i := range all {
		for _, n := range all[i].Names {
			taken[strings.TrimPrefix(n, "/")] = &all[i]
		}
	}
	for _, s := range specs {
		name := containerName(s.Lab, s.Node)
		c := taken[name]
		if c == nil {
			continue
		}
		if lab := c.Labels[labelLab]; lab != "" {
			return fmt.Errorf("container %s is there already and belongs to lab %s: remove it with `netkvlab down %s`", name, lab, lab)
		}
		return fmt.Errorf("the name %s is taken by container %.12s (image %s), which netkvlab did not make and leaves alone: rename it (docker rename %s NEW), or choose another lab name",
			name, c.ID, c.Image, name)
	}
	return nil
}

// Start creates and starts a container. A call to the engine that has begun is not
// cancelled: otherwise it could leave an unknown container behind.
func (r *Runtime) Start(ctx context.Context, s nodes.Spec) (a nodes.Agent, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("start container %s: %w", containerName(s.Lab, s.Node), err)
		}
	}()
	r.mu.Lock()
	info, ref := r.info, s.Image
	if ref == "" && r.ours != nil {
		ref = r.ours.ref
	}
	r.mu.Unlock()
	if ref == "" {
		return a, errors.New("the runtime was not prepared for it")
	}
	if err := folder(s); err != nil {
		return a, err
	}
	if s.Leash {
		leash, err := holdLeash(s)
		if err != nil {
			return a, err
		}
		r.mu.Lock()
		r.leashes = append(r.leashes, leash)
		r.mu.Unlock()
	}
	made, err := r.api.ContainerCreate(ctx, config(s, ref, r.version), hostConfig(s, info), nil, nil, containerName(s.Lab, s.Node))
	if errdefs.IsConflict(err) {
		return a, fmt.Errorf("its name was taken a moment ago: choose another lab name: %w", err)
	}
	if err != nil {
		return a, full(err, info)
	}
	a = nodes.Agent{Node: s.Node, ID: made.ID, Socket: filepath.Join(s.Dir, socket)}
	if err := r.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return a, full(err, info)
	}
	got, err := r.api.ContainerInspect(ctx, made.ID)
	if err != nil {
		return a, err
	}
	if a.PID = got.State.Pid; a.PID == 0 {
		return a, fmt.Errorf("it ended at once with exit code %d: %s", got.State.ExitCode, r.log(ctx, made.ID))
	}
	if a.StartTime, err = nodes.StartTime(a.PID); err != nil {
		return a, err
	}
	return a, sameHost(a.PID, a.ID)
}

// sameHost makes sure that the engine's PID is that container's process on this host: for
// example an engine in a virtual machine has other PIDs. The process's control
// group has the container's ID from the start; its environment comes later.
func sameHost(pid int, id string) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && !bytes.Contains(b, []byte(id)) {
		err = errors.New("it is another process")
	}
	if err != nil {
		return fmt.Errorf("look for the container's process %d on this host: %w: the engine must run on this host itself, %s", pid, err, wayOut)
	}
	return nil
}

// Versions names the engine and its version, for the record of a run; empty when the
// engine does not say.
func (r *Runtime) Versions(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if r.reach(ctx) == nil {
		if v, err := r.api.ServerVersion(ctx); err == nil {
			return map[string]string{r.Name(): v.Version}
		}
	}
	return nil
}

// LogTail is the end of an agent's log in one line, and how the agent ended.
func (r *Runtime) LogTail(ctx context.Context, a nodes.Agent) string {
	text := r.log(ctx, a.ID)
	got, err := r.api.ContainerInspect(ctx, a.ID)
	switch {
	case err != nil || got.State == nil || got.State.Running:
		return text
	case got.State.OOMKilled:
		return text + fmt.Sprintf(" (it went over its %d MiB of memory)", memoryLimit>>20)
	}
	return text + fmt.Sprintf(" (exit code %d)", got.State.ExitCode)
}

func (r *Runtime) log(ctx context.Context, id string) string {
	logs, err := r.api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = logs.Close() }() // only read from
	var b bytes.Buffer
	if _, err := stdcopy.StdCopy(&b, &b, logs); err != nil {
		return err.Error()
	}
	return nodes.Tail(b.String())
}
