package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/nodes"
)

// Labels of ours, on every container; the last two are the agent image's too.
const (
	labelLab     = "io.netkvlab.lab"
	labelNode    = "io.netkvlab.node"
	labelVersion = "io.netkvlab.version"
	labelDigest  = "io.netkvlab.digest" // sha256 of the binary
)

const (
	memoryLimit = 512 << 20 // some twenty times what an agent has been seen to use
	pidsLimit   = 256       // counts threads; an agent has about ten
	nobody      = 65532     // a user without files on the host; other images use this number, too
	logLimit    = "1m"
	socket      = "control.sock"        // in Spec.Dir
	leashFile   = "leash"               // in Spec.Dir
	leashEnv    = "NETKVLAB_LEASH_FILE" // the path of a file that the starter has locked: see holdLeash
)

// containerName shows the container's lab and node; only the labels are reliable.
func containerName(lab, node string) string { return "netkvlab." + lab + "." + node }

// uidOf is the user and the group that an agent runs as: nobody, unless it needs a capability. A
// process that is not root has none of a container's capabilities, and Docker cannot give it any.
func uidOf(s nodes.Spec) int {
	if s.NetAdmin {
		return 0
	}
	return nobody
}

// config is what runs in a container.
func config(s nodes.Spec, ref, version string) *container.Config {
	c := &container.Config{
		Image: ref, User: fmt.Sprintf("%[1]d:%[1]d", uidOf(s)), Hostname: s.Node, WorkingDir: "/",
		Cmd: slices.Concat(s.Args, []string{"--socket", filepath.Join(runPath, socket), "--node", s.Node}),
		Env: environment(s),
		// No network of Docker's at all: the namespace holds nothing but a lowered lo.
		NetworkDisabled: true,
		Labels:          map[string]string{labelLab: s.Lab, labelNode: s.Node, labelVersion: version},
	}
	if s.Image == "" {
		c.Entrypoint = []string{binaryPath, "kvagent"}
	}
	return c
}

func environment(s nodes.Spec) []string {
	env := []string{"NETKVLAB_LAB=" + s.Lab, "NETKVLAB_NODE=" + s.Node, s.GOMAXPROCS(), "HOME=/"}
	if s.Leash {
		env = append(env, leashEnv+"="+filepath.Join(runPath, leashFile))
	}
	return append(env, s.Env...)
}

// hostConfig is what a container may do. docs/security.md has it as a table, which a
// test compares with what `docker inspect` says.
func hostConfig(s nodes.Spec, info system.Info) *container.HostConfig {
	pids := int64(pidsLimit)
	h := &container.HostConfig{
		NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, ReadonlyRootfs: true,
		Resources:     container.Resources{Memory: memoryLimit, MemorySwap: memoryLimit, PidsLimit: &pids},
		Mounts:        []mount.Mount{{Type: mount.TypeBind, Source: s.Dir, Target: runPath}},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logLimit}},
	}
	if s.NetAdmin {
		h.CapAdd = []string{"NET_ADMIN"}
	}
	if has(info.SecurityOptions, "userns") {
		h.UsernsMode = "host" // otherwise the fabric could not be the container's network
	}
	if has(info.SecurityOptions, "selinux") {
		h.SecurityOpt = append(h.SecurityOpt, "label=disable") // otherwise the mount could not be read
	}
	return h
}

// folder makes the one folder that the container sees, and gives it to the agent.
func folder(s nodes.Spec) error {
	if err := s.MakeDir(); err != nil {
		return err
	}
	if err := os.Chown(s.Dir, uidOf(s), uidOf(s)); err != nil {
		return fmt.Errorf("give the agent its run directory: %w", err)
	}
	return nil
}

// holdLeash makes a file in an agent's folder and locks it. The agent waits for that
// lock and ends when it gets it. When this process ends for any reason, the kernel
// drops the lock. (An agent that is a process holds a pipe instead; an engine cannot
// pass one on.)
func holdLeash(s nodes.Spec) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, leashFile), os.O_CREATE|os.O_RDONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make the leash: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the leash: %w", err)
	}
	return f, nil
}
