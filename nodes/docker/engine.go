package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"
)

const (
	// minAPI is the API of Docker 20.10, the oldest engine that is tested.
	minAPI = "1.41"
	// minEngine is minAPI in words.
	minEngine = "20.10"
	// answerWithin bounds how long an engine may take to say who it is.
	answerWithin = 10 * time.Second
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
	e := &Engine{host: client.DefaultDockerHost}
	if h := getenv(client.EnvOverrideHost); h != "" {
		e.host = h
	}
	if !strings.HasPrefix(e.host, "unix:///") {
		e.broken = fmt.Errorf("%s is %q: containers need an engine on this host, as in unix:///var/run/docker.sock; unset it, %s",
			client.EnvOverrideHost, e.host, wayOut)
		return e
	}
	e.api, e.broken = client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation())
	return e
}

// EngineAt is the engine of that address, as DOCKER_HOST would have it.
func EngineAt(host string) *Engine {
	return NewEngine(func(string) string { return host })
}

// Host is the engine's address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return e.host }

// Check returns nil if the engine can run a lab's containers, else the reason. An error
// that matches ErrNoEngine means that no engine answers.
func (e *Engine) Check(ctx context.Context) error {
	_, err := e.check(ctx)
	return err
}

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

// check asks for the kind of engine and refuses one that cannot run a lab's containers.
func (e *Engine) check(ctx context.Context) (system.Info, error) {
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
