package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	minAPI       = "1.41"           // of the oldest engine that is tested,
	minEngine    = "20.10"          // which is this one
	answerWithin = 10 * time.Second // for an engine to say who it is
	wayOut       = "or use --runtime process, which needs no engine"
)

// ErrNoEngine means that no engine answers, so nothing is known about containers.
var ErrNoEngine = errors.New("no Docker engine answers")

// Engine is a local Docker engine, dialled at the first request. It is
// safe for concurrent use.
type Engine struct {
	host   string
	api    *client.Client
	broken error // of the host's name
}

// NewEngine takes the engine that DOCKER_HOST names, else the one on Docker's default
// socket. It does not dial; an error appears at the first request.
func NewEngine(getenv func(string) string) *Engine {
	e := &Engine{host: cmp.Or(getenv(client.EnvOverrideHost), client.DefaultDockerHost)}
	if !strings.HasPrefix(e.host, "unix:///") {
		e.broken = fmt.Errorf("%s is %q: containers need an engine on this host, as in unix:///var/run/docker.sock; unset it, %s",
			client.EnvOverrideHost, e.host, wayOut)
		return e
	}
	e.api, e.broken = client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation())
	return e
}

// EngineAt is the engine of that address, as DOCKER_HOST would have it.
func EngineAt(host string) *Engine { return NewEngine(func(string) string { return host }) }

// Host is the engine's address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return e.host }

// reach makes sure that an engine answers and that its API is not too old. An error
// that matches ErrNoEngine means that no engine answers.
func (e *Engine) reach(ctx context.Context) error {
	if e.broken != nil {
		return e.broken
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := e.dial(ctx); err != nil {
		return err
	}
	ping, err := e.api.Ping(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the Docker engine at %s takes connections and does not answer within %v: restart it, %s", e.host, answerWithin, wayOut)
	case err != nil:
		return fmt.Errorf("ask the Docker engine at %s who it is: %w", e.host, err)
	case ping.APIVersion == "":
		return fmt.Errorf("what answers at %s is no Docker engine, or an ailing one: it names no API version; restart it, %s", e.host, wayOut)
	case versions.LessThan(ping.APIVersion, minAPI):
		return fmt.Errorf("the Docker engine at %s is too old: it speaks API %s, netkvlab needs %s (Docker %s) or newer; upgrade it, %s",
			e.host, ping.APIVersion, minAPI, minEngine, wayOut)
	}
	e.api.NegotiateAPIVersionPing(ping)
	return nil
}

// dial finds causes that the client's own errors do not distinguish.
func (e *Engine) dial(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.host, "unix://"))
	if err == nil {
		return c.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("may not use the Docker engine at %s: %w: run as root or as its owner, %s", e.host, unix.EACCES, wayOut)
	}
	why := "no process accepts connections there"
	if errors.Is(err, fs.ErrNotExist) {
		why = "there is no such socket"
	} else if !errors.Is(err, unix.ECONNREFUSED) {
		why = err.Error()
	}
	return fmt.Errorf("%w at %s (%s): start it (systemctl start docker), name its socket in %s, %s", ErrNoEngine, e.host, why, client.EnvOverrideHost, wayOut)
}

// Check asks for the engine's settings and refuses one that cannot run a lab's containers. An
// error that matches ErrNoEngine means that no engine answers.
func (e *Engine) Check(ctx context.Context) (system.Info, error) {
	if err := e.reach(ctx); err != nil {
		return system.Info{}, err
	}
	info, err := e.api.Info(ctx)
	if err != nil && strings.Contains(err.Error(), "client version") {
		return info, fmt.Errorf("the Docker engine at %s refuses API %s, the newest that this netkvlab speaks: use a newer netkvlab, %s: %w", e.host, e.api.ClientVersion(), wayOut, err)
	}
	if err != nil {
		return info, fmt.Errorf("ask the Docker engine at %s for its settings: %w", e.host, err)
	}
	if has(info.SecurityOptions, "rootless") {
		return info, fmt.Errorf("the Docker engine at %s is rootless, and its containers are in a user namespace whose networks root cannot lend it: use root's engine, %s", e.host, wayOut)
	}
	if info.OSType != "" && info.OSType != "linux" {
		return info, fmt.Errorf("the Docker engine at %s runs %s containers: netkvlab needs linux ones, %s", e.host, info.OSType, wayOut)
	}
	return info, nil
}

// has looks for "name=NAME" among an engine's security options.
func has(options []string, name string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(strings.Split(o, ","), "name="+name) })
}

// full explains a full disk, in whatever words the engine reports it.
func full(err error, info system.Info) error {
	if err == nil || !errors.Is(err, unix.ENOSPC) && !strings.Contains(err.Error(), unix.ENOSPC.Error()) {
		return err
	}
	return fmt.Errorf("the engine's disk is full: free some room below %s (docker system df), %s: %w", info.DockerRootDir, wayOut, err)
}

const (
	removeWorkers = 4  // containers that are removed at once
	removeRounds  = 10 // bounds the search for containers that appear while others are removed
	// settle is how long a container may take to appear if its maker was killed while making it.
	settle = 500 * time.Millisecond
)

// absent treats an engine that does not answer like one without containers.
func absent(err error) error {
	if errors.Is(err, ErrNoEngine) {
		return nil
	}
	return err
}

// Labs lists the labs that have containers, running or not. Without an engine there are none.
func (e *Engine) Labs(ctx context.Context) ([]string, error) {
	if err := e.reach(ctx); err != nil {
		return nil, absent(err)
	}
	all, err := e.list(ctx, "label", labelLab)
	if err != nil {
		return nil, err
	}
	labs := []string{}
	for i := range all {
		labs = append(labs, all[i].Labels[labelLab])
	}
	slices.Sort(labs)
	return slices.Compact(labs), nil
}

// Count is how many containers a lab has, running or not. The error matches
// ErrNoEngine when no engine answers.
func (e *Engine) Count(ctx context.Context, lab string) (int, error) {
	if err := e.reach(ctx); err != nil {
		return 0, err
	}
	all, err := e.list(ctx, "label", labelLab+"="+lab)
	return len(all), err
}

// Remove removes every container with a lab's label and returns how many. Set unsure when
// the maker of containers was killed: then more may still appear, and Remove
// waits for them. The error matches ErrNoEngine when no engine answers.
func (e *Engine) Remove(ctx context.Context, lab string, unsure bool) (int, error) {
	if err := e.reach(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for round := range removeRounds {
		all, err := e.list(ctx, "label", labelLab+"="+lab)
		if err != nil {
			return removed, err
		}
		if len(all) == 0 && (!unsure || round > 0) {
			return removed, nil
		}
		if err := e.removeAll(ctx, all); err != nil {
			return removed, err
		}
		removed += len(all)
		if unsure {
			select {
			case <-time.After(settle):
			case <-ctx.Done():
				return removed, ctx.Err()
			}
		}
	}
	return removed, fmt.Errorf("containers of lab %q keep appearing", lab)
}

// list lists containers, running or not, by a property (label or name) that they have.
func (e *Engine) list(ctx context.Context, property, value string) ([]container.Summary, error) {
	all, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg(property, value))})
	if err != nil {
		return nil, fmt.Errorf("list containers with %s %s: %w", property, value, err)
	}
	return all, nil
}

// removeAll tries to remove each container, and returns all errors.
func (e *Engine) removeAll(ctx context.Context, all []container.Summary) error {
	var g errgroup.Group
	g.SetLimit(removeWorkers)
	errs := make([]error, len(all))
	for i := range all {
		g.Go(func() error {
			errs[i] = e.removeOne(ctx, all[i].ID)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// removeOne ends and removes a container. One that is gone, or going, is no error.
func (e *Engine) removeOne(ctx context.Context, id string) error {
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	if errdefs.IsConflict(err) { // another program is removing it
		stopped, errs := e.api.ContainerWait(ctx, id, container.WaitConditionRemoved)
		select {
		case <-stopped:
			return nil
		case err := <-errs:
			if errdefs.IsNotFound(err) {
				return nil
			}
		}
	}
	return fmt.Errorf("remove container %.12s: %w", id, err)
}
