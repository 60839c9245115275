package docker

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/nodes"
)

// tie makes a file in an agent's folder and locks it. The agent waits for that
// lock and ends when it gets it. When this process ends for any reason, the kernel
// drops the lock. (An agent that is a process holds a pipe instead; an engine cannot
// pass one on.)
func tie(s nodes.Spec) (*os.File, error) {
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
